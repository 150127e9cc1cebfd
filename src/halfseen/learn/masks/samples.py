"""What the mask head learns from: windows of whole objects with occluders pasted over them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Bool, Float32, Float64, Int64, UInt8
from halfseen.data.dataset import Dataset
from halfseen.data.occluders import cut_out
from halfseen.detect.windows import find_outside, place_boxes
from halfseen.detections import GroundTruth
from halfseen.features.descriptor import Descriptor
from halfseen.features.pyramid import resize
from halfseen.geometry import mirror
from halfseen.learn.latent import Assignment, Bag, Fit, Template, collect_bags, update
from halfseen.learn.masks.neighbours import relative
from halfseen.learn.masks.pastes import Occluders, as_planes, paste
from halfseen.learn.objective import Objective
from halfseen.learn.progress import Run
from halfseen.learn.settings import MaskSettings
from halfseen.model.mask_head import REACH, FigureSettings
from halfseen.model.mixture import Mixture
from halfseen.refine.figure import Surroundings, surroundings

# Blocks beyond the window that are described again after pasting: those the head looks at, and
# those that their features depend on.
MARGIN = REACH + 3
# About this share of learning a mask head is spent on collecting samples.
COLLECTING = 0.4


@dataclass(frozen=True, eq=False)
class Samples:
    """Windows of one component, those of its mirror image flipped to its side.

    features  (N, rows + 2, cols + 2, channels) float16: the blocks and the ring around them
    quarters  (N, 2 rows, 2 cols, 3) float16: mean RGB of the quarters of the blocks
    hidden    (N, rows, cols) bool: more than half covered
    known     (N, rows, cols) bool: whether it is hidden is known: not outside the image, nor in
              another object's box unless it is pasted over
    outside   (N, rows, cols) bool: outside the image
    counted   (N, rows, cols) bool: known, and at least half inside the object's box
    object    (N,) which object it shows
    clean     (N,) bool: nothing is pasted
    first     (N,) bool: the object's window as it is: clean, and not moved
    """

    features: NDArray[np.float16]
    quarters: NDArray[np.float16]
    hidden: Bool
    known: Bool
    outside: Bool
    counted: Bool
    object: Int64
    clean: Bool
    first: Bool

    def __len__(self) -> int:
        return len(self.object)

    def __getitem__(self, index: Bool | Int64) -> Samples:
        return Samples(*(getattr(self, f.name)[index] for f in fields(self)))

    @classmethod
    def stack(cls, rows: list[Samples]) -> Samples:
        return cls(*(np.concatenate([getattr(r, f.name) for r in rows]) for f in fields(cls)))


def whole_objects(truth: GroundTruth, label: str) -> GroundTruth:
    """The objects of the class whose every part is in view, as far as annotated."""
    hidden = truth.occluded | truth.difficult | truth.crowd
    return truth[(truth.label == label) & ~hidden]


def boxes_beside(truth: GroundTruth, box: Float64, largest: float) -> Float64:
    """(K, 4) the boxes of the other objects that may be before this one or behind it.

    Not of one that covers a larger share of it, such as the car of a wheel, which says nothing
    about it. Nor crowds.
    """
    inside = np.clip(relative(truth.box, box), 0, 1)
    covered = np.prod(inside[:, 2:] - inside[:, :2], axis=1)
    return np.asarray(truth.box[(covered <= largest) & ~truth.crowd], np.float64)


class Target(NamedTuple):
    """A whole object: its box, the boxes of objects beside it, and the window it is assigned."""

    box: Float64
    beside: Float64
    bag: Bag
    window: Assignment


class ObjectSamples(NamedTuple):
    """The samples of one object, and its surroundings as they are, on the component's side."""

    component: int
    samples: Samples
    around: Surroundings


def assign(
    image: UInt8, boxes: Float64, model: Mixture, overlap: float = 0.7
) -> list[tuple[Bag, Assignment] | None]:
    """For each box the best-scoring window that overlaps it by so much, or None."""
    objective = Objective(1.0, model.alpha, model.visibility, "free")
    templates = [
        Template(
            c.shape,
            np.asarray(c.box, np.float64),
            c.weights.reshape(-1, c.weights.shape[2]).astype(np.float64),
            np.array([c.bias, c.u, c.u_t]),
        )
        for c in model.components
    ]
    bags = collect_bags(
        image, boxes, boxes, np.zeros(len(boxes), bool), [t.shape for t in templates],
        model.descriptor, model.pyramid, overlap,
    )  # fmt: skip
    found = []
    for bag in bags:
        best = update(bag, templates, objective, model.descriptor, model.mirrored, Fit(overlap))
        found.append(None if best is None else (bag, best))
    return found


def paste_windows(
    image: UInt8,
    target: Target,
    model: Mixture,
    occluders: Occluders,
    count: int,
    rng: np.random.Generator,
) -> ObjectSamples:
    """An object's window as it is, and `count` times moved a little, mostly behind something."""
    settings, window = occluders.settings, target.window
    crop = target.bag.crops[window.crop]
    component = model.components[window.component]
    rows, cols = shape = component.shape
    place = np.array([window.y]), np.array([window.x])
    box = mirror(component.box, cols) if window.mirrored else component.box
    grid, predicted = (
        place_boxes(*place, shape, blocks, model.descriptor, crop.scale)[0]
        for blocks in ([0, 0, cols, rows], box)
    )
    around = surroundings(image, grid[None], predicted[None], shape, FigureSettings())
    outside = find_outside(*place, np.array([crop.size]), rows, cols)[0]
    unit = (grid[2:] - grid[:2]) / [cols, rows]
    scale = float(np.mean(crop.scale))
    samples = []
    for n in range(count + 1):
        moved = grid
        if n:
            shift = np.tile(unit * rng.uniform(-settings.shift, settings.shift, 2), 2)
            grow = (grid[2:] - grid[:2]) * rng.uniform(-settings.zoom, settings.zoom) / 2
            moved = grid + shift + np.concatenate([-grow, grow])
        pixels = _cut(image, moved, shape, model.descriptor)
        covered = np.zeros(pixels.shape[1:], bool)
        clean = n % settings.clean == 0
        if not clean:
            pixels, covered = paste(pixels, _inner_box(shape, model), scale, occluders, rng)
        grids = _grids(pixels, covered, outside, moved, target, model)
        about = [np.array(0), np.array(clean), np.array(n == 0)]
        samples.append(Samples(*(grid[None] for grid in grids + about)))
    around = around.mirrored() if window.mirrored else around
    return ObjectSamples(window.component, Samples.stack(samples), around)


def _grids(
    pixels: Float32,
    covered: Bool,
    outside: Bool,
    window: Float64,
    target: Target,
    model: Mixture,
) -> list[NDArray[Any]]:
    """The first six fields of a sample, flipped to the component's side."""
    descriptor, (rows, cols) = model.descriptor, outside.shape
    ring = (
        slice(MARGIN - REACH, MARGIN + rows + REACH),
        slice(MARGIN - REACH, MARGIN + cols + REACH),
    )
    planes = np.concatenate([pixels, covered[None].astype(np.float32)])
    blocks = _inner(planes, (rows, cols), descriptor)
    hidden = blocks[3].mean((1, 3)) > 0.5
    inside = partial(_inside, window=window, shape=(rows, cols))
    known = ~outside & (hidden | ~np.any([inside(other) for other in target.beside], axis=0))
    grids = [
        descriptor(pixels)[ring].astype(np.float16), _quarters(blocks[:3]).astype(np.float16),
        hidden, known, outside, inside(target.box) & known,
    ]  # fmt: skip
    if target.window.mirrored:
        grids = [np.ascontiguousarray(g[:, ::-1]) for g in grids]
        grids[0] = grids[0][..., descriptor.mirror]
    return grids


def _inner_box(shape: tuple[int, int], model: Mixture) -> tuple[float, float, float, float]:
    """x1, y1, x2, y2 of a window in the pixels that `_cut` gives."""
    cell = model.descriptor.cell
    edge = MARGIN * cell + round(model.descriptor.offset)
    return edge, edge, edge + shape[1] * cell, edge + shape[0] * cell


def _cut(
    image: UInt8,
    window: Float64,
    shape: tuple[int, int],
    descriptor: Descriptor,
) -> Float32:
    """(3, height, width): a window and its margin, resized so that a block is a cell again.

    Border pixels are repeated where the margin reaches beyond the image.
    """
    cell = descriptor.cell
    unit = (window[2:] - window[:2]) / [shape[1] * cell, shape[0] * cell]
    margin = unit * (MARGIN * cell + descriptor.offset)
    low, high = np.rint(window[:2] - margin), np.rint(window[2:] + margin)
    part = as_planes(cut_out(image, low[::-1].astype(int), high[::-1].astype(int), "edge"))
    extra = 2 * (MARGIN * cell + round(descriptor.offset))
    return resize(part, (shape[0] * cell + extra, shape[1] * cell + extra))


def _inner(planes: Float32, shape: tuple[int, int], descriptor: Descriptor) -> Float32:
    """(planes, rows, cell, cols, cell): the window's pixels, block by block."""
    cell, edge = descriptor.cell, MARGIN * descriptor.cell + round(descriptor.offset)
    part = planes[:, edge : edge + shape[0] * cell, edge : edge + shape[1] * cell]
    return part.reshape(-1, shape[0], cell, shape[1], cell)


def _quarters(inner: Float32) -> Float32:
    """(2 rows, 2 cols, planes): the means of the blocks' quarters."""
    planes, rows, cell, cols, _ = inner.shape
    half = (cell + 1) // 2
    sides = slice(0, half), slice(cell - half, cell)
    out = np.empty((rows, 2, cols, 2, planes), np.float32)
    for a, down in enumerate(sides):
        for b, across in enumerate(sides):
            out[:, a, :, b] = inner[:, :, down, :, across].mean((2, 4)).transpose(1, 2, 0)
    return out.reshape(2 * rows, 2 * cols, planes)


def _inside(box: Float64, window: Float64, shape: tuple[int, int]) -> Bool:
    """(rows, cols): blocks of which at least half lies inside the box."""

    def axis(k: int, count: int) -> Float64:
        edges = np.linspace(window[k], window[k + 2], count + 1)
        inside = np.minimum(edges[1:], box[k + 2]) - np.maximum(edges[:-1], box[k])
        share: Float64 = np.maximum(inside, 0) * count / (window[k + 2] - window[k])
        return share

    return np.outer(axis(1, shape[0]), axis(0, shape[1])) >= 0.5


def collect_samples(
    dataset: Dataset, model: Mixture, settings: MaskSettings, seed: int, run: Run | None = None
) -> Iterator[ObjectSamples]:
    """The samples of every whole object of the model's class that a window reaches.

    Reported as the first part of the run, up to `COLLECTING`.
    """
    whole = [whole_objects(truth, model.label) for truth in dataset]
    count = settings.count(sum(map(len, whole)))
    occluders = Occluders.draw(dataset, model.label, settings, seed)
    work = partial(_paste_image, model, occluders, count, seed)
    items = [(i, dataset[i : i + 1]) for i, truth in enumerate(whole) if len(truth)]
    number = 0
    for found in (run or Run()).map(work, items, 0.0, COLLECTING):
        for part in found:
            object_ = np.full(len(part.samples), number)
            yield part._replace(samples=replace(part.samples, object=object_))
            number += 1


def _paste_image(
    model: Mixture, occluders: Occluders, count: int, seed: int, item: tuple[int, Dataset]
) -> list[ObjectSamples]:
    """The samples of all objects of one image, the i-th of the dataset."""
    i, one = item
    settings = occluders.settings
    image, truth = one.image(0), whole_objects(one[0], model.label)
    boxes = np.asarray(truth.full, np.float64)
    found = []
    for j, assigned in enumerate(assign(image, boxes, model, settings.overlap)):
        if assigned is None:
            continue
        beside = boxes_beside(one[0], truth.box[j], settings.shares[1])
        target = Target(boxes[j], beside, *assigned)
        rng = np.random.default_rng([seed, i, j])
        part = paste_windows(image, target, model, occluders, count, rng)
        # An object with no block known to be visible gives no visible example.
        if part.samples.counted[part.samples.first].any():
            found.append(part)
    return found
