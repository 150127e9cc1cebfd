"""The occlusion sweep: real texture pasted over a growing share of whole objects.

Each whole object of a class gets an occluder that covers a stated share of its box. For one object
the occluders of different shares are nested and of one texture, so that methods and shares are
compared on the same pictures. Objects that are not whole count as neither right nor wrong. Where
objects stand close, the occluder of one may also cover part of the next; the block counts know it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from halfseen.arrays import Bool, Float64, Int64, Pixels
from halfseen.data.occluders import REACH, cut_out, draw_shape
from halfseen.detections import Detections, GroundTruth
from halfseen.errors import SettingsError
from halfseen.evaluate.blocks import BlockCounts, count_blocks, covered_blocks
from halfseen.evaluate.visibility import best_recall, whole
from halfseen.evaluate.voc_ap import APResult, match, summarise
from halfseen.geometry import clip

SHARES = (0.0, 0.2, 0.4, 0.6)

Detect = Callable[[Pixels], Mapping[str, Detections]]


def paste_occluders(
    image: Pixels,
    box: ArrayLike,
    share: float,
    textures: Sequence[Pixels],
    rng: np.random.Generator,
) -> tuple[Pixels, Bool]:
    """A copy of the image with `share` of the box covered, and the mask of what covers.

    The shape (rectangle, blob or bars), its place and its texture (a patch of one of `textures`,
    each (H, W, 3) uint8) are drawn from `rng`; the same generator state and a larger share give a
    larger occluder of the same shape. It may reach beyond the box by 15% of its sides.
    """
    if not 0 <= share < 1:
        raise SettingsError(f"the share to cover must be at least 0 and below 1, not {share}")
    if not len(textures):
        raise SettingsError("no textures to paste: give at least one image without the object")
    height, width = image.shape[:2]
    x1, y1, x2, y2 = _pixels(box, (height, width))
    if x2 <= x1 or y2 <= y1:
        raise SettingsError(f"no pixel of the image is in the box {np.asarray(box).tolist()}")
    beyond_x, beyond_y = round(REACH * (x2 - x1)), round(REACH * (y2 - y1))
    left, top = max(x1 - beyond_x, 0), max(y1 - beyond_y, 0)
    right, bottom = min(x2 + beyond_x, width), min(y2 + beyond_y, height)

    rows = (np.arange(top, bottom) + 0.5 - y1) / (y2 - y1)
    columns = (np.arange(left, right) + 0.5 - x1) / (x2 - x1)
    field = np.asarray(draw_shape(rows[:, None], columns[None, :], rng), np.float64)
    patch = _patch(textures, field.shape, rng)
    covered = _lowest(field, (slice(y1 - top, y2 - top), slice(x1 - left, x2 - left)), share)

    mask = np.zeros((height, width), bool)
    mask[top:bottom, left:right] = covered
    pasted = image.copy()
    region = pasted[top:bottom, left:right]
    region[covered] = patch[covered]
    return pasted, mask


def _lowest(field: Float64, box: tuple[slice, slice], share: float) -> Bool:
    """Where the field is lowest: exactly the share of the box, and as low outside of it."""
    inner = field[box]
    count = round(share * inner.size)
    order = np.argsort(inner, axis=None, kind="stable")
    if count == 0:
        return np.zeros(field.shape, bool)
    covered: Bool = field <= inner.flat[order[count - 1]]
    chosen = np.zeros(inner.size, bool)
    chosen[order[:count]] = True
    covered[box] = chosen.reshape(inner.shape)
    return covered


def _patch(textures: Sequence[Pixels], shape: tuple[int, ...], rng: np.random.Generator) -> Pixels:
    """A random patch of a random texture; a texture too small is continued by its mirror image."""
    texture = textures[int(rng.integers(len(textures)))]
    low = [
        int(rng.integers(max(size - wanted, 0) + 1))
        for size, wanted in zip(texture.shape[:2], shape, strict=True)
    ]
    return cut_out(texture, np.array(low), np.add(low, shape), "symmetric")


def _pixels(box: ArrayLike, size: tuple[int, int]) -> Int64:
    """The first and the last pixels of a box in an image, the last excluded."""
    return np.rint(clip(np.asarray(box, np.float64), size)).astype(np.int64)


def cover_objects(
    image: Pixels,
    truth: GroundTruth,
    label: str,
    share: float,
    textures: Sequence[Pixels],
    seed: int,
) -> tuple[Pixels, Bool]:
    """The image with every whole object of the class covered, and the mask of all that covers.

    An object whose box holds no pixel stays as it is.
    """
    mask = np.zeros(image.shape[:2], bool)
    for j in np.flatnonzero(whole(truth) & (truth.label == label)):
        x1, y1, x2, y2 = _pixels(truth.box[j], (image.shape[0], image.shape[1]))
        if x2 <= x1 or y2 <= y1:
            continue
        rng = np.random.default_rng([seed, int(j), *truth.image.encode()])
        image, more = paste_occluders(image, truth.box[j], share, textures, rng)
        mask |= more
    return image, mask


@dataclass(frozen=True, eq=False)
class Swept:
    """One image at every share: per (method, share) its detections and the counts of its blocks."""

    found: dict[tuple[str, float], Detections]
    blocks: dict[tuple[str, float], BlockCounts]


def sweep_image(
    image: Pixels,
    truth: GroundTruth,
    label: str,
    detect: Detect,
    textures: Sequence[Pixels],
    shares: Sequence[float] = SHARES,
    seed: int = 0,
) -> Swept:
    """Cover, detect and count blocks in one image.

    `detect` gives the detections of each method by name, so that methods can share features.
    An image without a whole object of the class is the same at every share and is detected once.
    """
    ignored = ~whole(truth)
    alone = not (~ignored & (truth.label == label)).any()
    found: dict[tuple[str, float], Detections] = {}
    blocks: dict[tuple[str, float], BlockCounts] = {}
    results: Mapping[str, Detections] = {}
    for n, share in enumerate(shares):
        pasted, mask = cover_objects(image, truth, label, share, textures, seed)
        if n == 0 or not alone:
            results = detect(pasted)
        for method, detected in results.items():
            total = BlockCounts()
            for _, i, j in match([truth], [detected], label, ignored=[ignored]).right:
                flags = detected.visibility[i]
                total += count_blocks(
                    flags, covered_blocks(mask, detected.window[i], flags.shape, truth.full[j])
                )
            found[method, share], blocks[method, share] = detected, total
    return Swept(found, blocks)


@dataclass(frozen=True, eq=False)
class SweepPoint:
    """One method at one share: AP and recall of the whole objects, and the counts of blocks."""

    method: str
    share: float
    ap: APResult
    recall: float
    blocks: BlockCounts


def summarise_sweep(
    truth: Sequence[GroundTruth],
    swept: Sequence[Swept],
    label: str,
) -> list[SweepPoint]:
    """AP, recall and block counts of every method and share, over all images."""
    points = []
    ignored = [~whole(here) for here in truth]
    for method, share in swept[0].found if swept else ():
        found = [image.found[method, share] for image in swept]
        result = summarise(match(truth, found, label, ignored=ignored))
        blocks = sum((image.blocks[method, share] for image in swept), BlockCounts())
        points.append(SweepPoint(method, share, result, best_recall(result), blocks))
    return points
