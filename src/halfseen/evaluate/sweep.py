"""The occlusion sweep: real texture pasted over a growing share of whole objects.

Each whole object of a class gets an occluder that covers a stated share of its box. For one object
the occluders of different shares are nested and of one texture, so that methods and shares are
compared on the same pictures. Objects that are not whole count as neither right nor wrong. Where
objects stand close, the occluder of one may also cover part of the next; the block counts know it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfseen.detections import Bools, Detections, Floats, GroundTruth
from halfseen.errors import SettingsError
from halfseen.evaluate.blocks import BlockCounts, count_blocks, covered_blocks
from halfseen.evaluate.visibility import best_recall, whole
from halfseen.evaluate.voc_ap import APResult, Kind, match, summarise
from halfseen.geometry import clip

SHARES = (0.0, 0.2, 0.4, 0.6)
SHAPES = ("rectangle", "blob", "bars")
REACH = 0.15
Image = NDArray[np.uint8]
Detect = Callable[[Image], Mapping[str, Detections]]


def paste_occluders(
    image: Image,
    box: ArrayLike,
    share: float,
    textures: Sequence[Image],
    rng: np.random.Generator,
    *,
    feather: float = 0.0,
) -> tuple[Image, Bools]:
    """A copy of the image with `share` of the box covered, and the mask of what covers.

    The shape (rectangle, blob or bars), its place and its texture (a patch of one of `textures`,
    each (H, W, 3) uint8) are drawn from `rng`; the same generator state and a larger share give a
    larger occluder of the same shape. It may reach beyond the box by 15% of its sides. `feather` is
    the width in pixels over which its edge is blended.
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
    field = _field(rows[:, None], columns[None, :], rng)
    patch = _patch(textures, field.shape, rng)
    covered = _lowest(field, (slice(y1 - top, y2 - top), slice(x1 - left, x2 - left)), share)

    mask = np.zeros((height, width), bool)
    mask[top:bottom, left:right] = covered
    pasted = image.copy()
    region = pasted[top:bottom, left:right]
    opacity = _soften(covered, feather)[..., None]
    region[...] = np.rint(opacity * patch + (1 - opacity) * region).astype(np.uint8)
    return pasted, mask


def _field(y: Floats, x: Floats, rng: np.random.Generator) -> Floats:
    """A function of place whose level sets have the shape; the box is the unit square."""
    shape = SHAPES[rng.integers(len(SHAPES))]
    if shape == "rectangle":
        centre_x, centre_y = rng.random(2)
        aspect = np.exp(rng.uniform(-0.7, 0.7))
        return np.maximum(np.abs(x - centre_x) * aspect, np.abs(y - centre_y) / aspect)
    if shape == "blob":
        centres, radii = rng.random((4, 2)), rng.uniform(0.5, 1.0, 4)
        return np.min(
            [np.hypot(x - cx, y - cy) / r for (cx, cy), r in zip(centres, radii, strict=True)],
            axis=0,
        )
    angle, period, phase = rng.normal(0, 0.3), rng.uniform(0.5, 1.2), rng.random()
    if rng.random() < 0.3:
        x, y = y, x
    along = (x * np.cos(angle) + y * np.sin(angle)) / period + phase
    return np.abs(along - np.floor(along) - 0.5)


def _lowest(field: Floats, box: tuple[slice, slice], share: float) -> Bools:
    """Where the field is lowest: exactly the share of the box, and as low outside of it."""
    inner = field[box]
    count = round(share * inner.size)
    order = np.argsort(inner, axis=None, kind="stable")
    if count == 0:
        return np.zeros(field.shape, bool)
    covered = field <= inner.flat[order[count - 1]]
    chosen = np.zeros(inner.size, bool)
    chosen[order[:count]] = True
    covered[box] = chosen.reshape(inner.shape)
    return covered


def _patch(textures: Sequence[Image], shape: tuple[int, int], rng: np.random.Generator) -> Image:
    """A random patch of a random texture; a texture too small is continued by its mirror image."""
    texture = textures[int(rng.integers(len(textures)))]
    indices = []
    for size, wanted in zip(texture.shape[:2], shape, strict=True):
        start = rng.integers(max(size - wanted, 0) + 1)
        place = np.arange(start, start + wanted) % (2 * size)
        indices.append(np.where(place < size, place, 2 * size - 1 - place))
    return np.asarray(texture[np.ix_(*indices)])


def _soften(mask: Bools, feather: float) -> Floats:
    opacity = mask.astype(np.float64)
    if feather <= 0:
        return opacity
    from scipy.ndimage import gaussian_filter  # heavy to import, and seldom asked for

    return np.asarray(gaussian_filter(opacity, feather / 2))


def _pixels(box: ArrayLike, size: tuple[int, int]) -> NDArray[np.int64]:
    """The first and the last pixels of a box in an image, the last excluded."""
    return np.rint(clip(np.asarray(box, np.float64), size)).astype(np.int64)


def cover_objects(
    image: Image,
    truth: GroundTruth,
    label: str,
    share: float,
    textures: Sequence[Image],
    seed: int,
    *,
    feather: float = 0.0,
) -> tuple[Image, Bools]:
    """The image with every whole object of the class covered, and the mask of all that covers.

    An object whose box holds no pixel stays as it is.
    """
    mask = np.zeros(image.shape[:2], bool)
    for j in np.flatnonzero(whole(truth) & (truth.label == label)):
        x1, y1, x2, y2 = _pixels(truth.box[j], (image.shape[0], image.shape[1]))
        if x2 <= x1 or y2 <= y1:
            continue
        rng = np.random.default_rng([seed, int(j), *truth.image.encode()])
        image, more = paste_occluders(image, truth.box[j], share, textures, rng, feather=feather)
        mask |= more
    return image, mask


@dataclass(frozen=True, eq=False)
class Swept:
    """One image at every share: per (method, share) its detections and the counts of its blocks."""

    found: dict[tuple[str, float], Detections]
    blocks: dict[tuple[str, float], BlockCounts]


def sweep_image(
    image: Image,
    truth: GroundTruth,
    label: str,
    detect: Detect,
    textures: Sequence[Image],
    shares: Sequence[float] = SHARES,
    seed: int = 0,
    *,
    feather: float = 0.0,
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
        pasted, mask = cover_objects(image, truth, label, share, textures, seed, feather=feather)
        if n == 0 or not alone:
            results = detect(pasted)
        for method, seen in results.items():
            total = BlockCounts()
            for _, i, j in match([truth], [seen], label, ignored=[ignored]).right:
                flags = seen.visibility[i]
                total += count_blocks(
                    flags, covered_blocks(mask, seen.window[i], flags.shape, truth.full[j])
                )
            found[method, share], blocks[method, share] = seen, total
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
    kind: Kind = "all-point",
) -> list[SweepPoint]:
    """AP, recall and block counts of every method and share, over all images."""
    points = []
    ignored = [~whole(here) for here in truth]
    for method, share in swept[0].found if swept else ():
        found = [image.found[method, share] for image in swept]
        result = summarise(match(truth, found, label, ignored=ignored), kind)
        blocks = sum((image.blocks[method, share] for image in swept), BlockCounts())
        points.append(SweepPoint(method, share, result, best_recall(result), blocks))
    return points


def sweep(
    truth: Sequence[GroundTruth],
    label: str,
    read_image: Callable[[GroundTruth], Image],
    detect: Detect,
    textures: Sequence[Image],
    shares: Sequence[float] = SHARES,
    seed: int = 0,
    *,
    feather: float = 0.0,
    run: Callable[..., Iterable[Any]] = map,
) -> list[SweepPoint]:
    """The whole sweep of one class. `run` is how a function is mapped over the images."""

    def one(here: GroundTruth) -> Swept:
        image = read_image(here)
        return sweep_image(image, here, label, detect, textures, shares, seed, feather=feather)

    return summarise_sweep(truth, list(run(one, truth)), label)
