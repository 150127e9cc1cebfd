"""What the mask head learns from: windows of whole objects with occluders pasted over them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from halfseen.data.dataset import Dataset
from halfseen.detections import GroundTruth
from halfseen.features.descriptor import Descriptor
from halfseen.features.pyramid import resize
from halfseen.geometry import mirror
from halfseen.infer.boxes import place_boxes
from halfseen.infer.figure import Surroundings, surroundings
from halfseen.infer.masks import beyond
from halfseen.learn.latent import Assignment, Bag, Template, collect_bags, update
from halfseen.learn.mask_neighbours import relative
from halfseen.learn.mask_pastes import SHARES, Floats, Occluders, cut_out, paste
from halfseen.learn.objective import Objective
from halfseen.model.mask_head import REACH
from halfseen.model.mixture import Mixture

# Blocks beyond the window that are described again after pasting: those the head looks at, and
# those that their features depend on.
MARGIN = REACH + 3
OVERLAP = 0.7
# Greatest move of a window, in blocks, and change of its size.
SHIFT, ZOOM = 0.6, 0.1
# Every so many samples of an object show it as it is.
CLEAN = 5


@dataclass(frozen=True, eq=False)
class Samples:
    """Windows of one component, those of its mirror image flipped to its side.

    features  (N, rows + 2, cols + 2, channels) float16: the blocks and the ring around them
    quarters  (N, 2 rows, 2 cols, 3) float16: mean RGB of the quarters of the blocks
    hidden    (N, rows, cols) bool: more than half covered
    known     (N, rows, cols) bool: whether it is hidden is known: not outside the image, nor in
              another object's box unless it is pasted over
    outside   (N, rows, cols) bool: beyond the image
    judged    (N, rows, cols) bool: known, and at least half inside the object's box
    object    (N,) which object it shows
    clean     (N,) bool: nothing is pasted
    first     (N,) bool: the object's window as it is: clean, and not moved
    """

    features: NDArray[np.float16]
    quarters: NDArray[np.float16]
    hidden: NDArray[np.bool_]
    known: NDArray[np.bool_]
    outside: NDArray[np.bool_]
    judged: NDArray[np.bool_]
    object: NDArray[np.int64]
    clean: NDArray[np.bool_]
    first: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.object)

    def __getitem__(self, index: NDArray[np.bool_] | NDArray[np.int64]) -> Samples:
        return Samples(*(getattr(self, f.name)[index] for f in fields(self)))

    @classmethod
    def stack(cls, rows: list[Samples]) -> Samples:
        return cls(*(np.concatenate([getattr(r, f.name) for r in rows]) for f in fields(cls)))


def whole_objects(truth: GroundTruth, label: str) -> GroundTruth:
    """The objects of the class whose every part is in view, as far as annotated."""
    hidden = truth.occluded | truth.difficult | truth.crowd
    return truth[(truth.label == label) & ~hidden]


def boxes_beside(truth: GroundTruth, box: NDArray[np.float64]) -> NDArray[np.float64]:
    """(K, 4) the boxes of the other objects that may be before this one or behind it.

    Not of one that covers most of it, such as the car of a wheel: that tells nothing. Nor crowds.
    """
    inside = np.clip(relative(truth.box, box), 0, 1)
    covered = np.prod(inside[:, 2:] - inside[:, :2], axis=1)
    return np.asarray(truth.box[(covered <= SHARES[1]) & ~truth.crowd], np.float64)


def assign(
    image: NDArray[np.uint8], boxes: NDArray[np.float64], model: Mixture
) -> list[tuple[Bag, Assignment] | None]:
    """For each box the best-scoring window that overlaps it by 0.7, or None."""
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
        model.descriptor, model.pyramid, OVERLAP,
    )  # fmt: skip
    found = []
    for bag, _ in bags:
        best = update(bag, templates, objective, model.descriptor, model.mirrored, OVERLAP)
        found.append(None if best is None else (bag, best))
    return found


def paste_windows(
    image: NDArray[np.uint8],
    box: NDArray[np.float64],
    others: NDArray[np.float64],
    bag: Bag,
    window: Assignment,
    model: Mixture,
    occluders: Occluders,
    count: int,
    object_: int,
    rng: np.random.Generator,
) -> tuple[Samples, Surroundings]:
    """An object's window as it is, and `count` times moved a little, mostly behind something; and
    what is around it as it is, flipped to the component's side as well.

    others   the boxes of the image's other objects: one may be before this one, or behind it
    Windows of detections do not fit as well as those chosen for an object; a shift of half a block
    and a change of size by a tenth teach the head to bear it.
    """
    descriptor = model.descriptor
    crop = bag.crops[window.crop]
    rows, cols = shape = model.components[window.component].shape
    place = np.array([window.y]), np.array([window.x])
    component_box = model.components[window.component].box
    if window.mirrored:
        component_box = mirror(component_box, cols)
    grid, predicted = (
        place_boxes(*place, shape, blocks, descriptor, crop.scale)[0]
        for blocks in ([0, 0, cols, rows], component_box)
    )
    around = surroundings(image, grid[None], predicted[None], shape)
    if window.mirrored:
        around = around.mirrored()
    top, left = window.y - (rows + 1) // 2, window.x - (cols + 1) // 2
    outside = beyond(np.array([top]), np.array([left]), shape, np.array([crop.size]))[0]
    unit = (grid[2:] - grid[:2]) / [cols, rows]
    samples = []
    for n in range(count + 1):
        moved = grid
        if n:
            shift = np.tile(unit * rng.uniform(-SHIFT, SHIFT, 2), 2)
            grow = (grid[2:] - grid[:2]) * rng.uniform(-ZOOM, ZOOM) / 2
            moved = grid + shift + np.concatenate([-grow, grow])
        pixels = _cut(image, moved, shape, descriptor)
        covered = np.zeros(pixels.shape[1:], bool)
        clean = n % CLEAN == 0
        if not clean:
            edge = MARGIN * descriptor.cell + round(descriptor.offset)
            inner = (edge, edge, edge + cols * descriptor.cell, edge + rows * descriptor.cell)
            pixels, covered = paste(pixels, inner, float(np.mean(crop.scale)), occluders, rng)
        ring = (
            slice(MARGIN - REACH, MARGIN + rows + REACH),
            slice(MARGIN - REACH, MARGIN + cols + REACH),
        )
        planes = np.concatenate([pixels, covered[None].astype(np.float32)])
        blocks = _inner(planes, shape, descriptor)
        hidden = blocks[3].mean((1, 3)) > 0.5
        beside = np.any([_inside(other, moved, shape) for other in others], axis=0)
        known = ~outside & (hidden | ~beside)
        grids = [
            descriptor(pixels)[ring].astype(np.float16), _quarters(blocks[:3]).astype(np.float16),
            hidden, known, outside, _inside(box, moved, shape) & known,
        ]  # fmt: skip
        if window.mirrored:
            grids = [np.ascontiguousarray(g[:, ::-1]) for g in grids]
            grids[0] = grids[0][..., descriptor.mirror]
        about = [np.array(object_), np.array(clean), np.array(n == 0)]
        samples.append(Samples(*(grid[None] for grid in grids + about)))
    return Samples.stack(samples), around


def _cut(
    image: NDArray[np.uint8], window: NDArray[np.float64], shape: tuple[int, int],
    descriptor: Descriptor,
) -> Floats:  # fmt: skip
    """(3, height, width): a window and its margin, resized so that a block is a cell again.

    Border pixels are repeated where the margin reaches beyond the image.
    """
    cell = descriptor.cell
    unit = (window[2:] - window[:2]) / [shape[1] * cell, shape[0] * cell]
    margin = unit * (MARGIN * cell + descriptor.offset)
    low, high = np.rint(window[:2] - margin), np.rint(window[2:] + margin)
    part = cut_out(image, low[::-1].astype(int), high[::-1].astype(int), "edge")
    extra = 2 * (MARGIN * cell + round(descriptor.offset))
    return resize(part, (shape[0] * cell + extra, shape[1] * cell + extra))


def _inner(planes: Floats, shape: tuple[int, int], descriptor: Descriptor) -> Floats:
    """(planes, rows, cell, cols, cell): the window's pixels, block by block."""
    cell, edge = descriptor.cell, MARGIN * descriptor.cell + round(descriptor.offset)
    part = planes[:, edge : edge + shape[0] * cell, edge : edge + shape[1] * cell]
    return part.reshape(-1, shape[0], cell, shape[1], cell)


def _quarters(inner: Floats) -> Floats:
    """(2 rows, 2 cols, planes): the means of the blocks' quarters."""
    planes, rows, cell, cols, _ = inner.shape
    half = (cell + 1) // 2
    sides = slice(0, half), slice(cell - half, cell)
    out = np.empty((rows, 2, cols, 2, planes), np.float32)
    for a, down in enumerate(sides):
        for b, across in enumerate(sides):
            out[:, a, :, b] = inner[:, :, down, :, across].mean((2, 4)).transpose(1, 2, 0)
    return out.reshape(2 * rows, 2 * cols, planes)


def _inside(
    box: NDArray[np.float64], window: NDArray[np.float64], shape: tuple[int, int]
) -> NDArray[np.bool_]:
    """(rows, cols): blocks of which at least half lies inside the box."""

    def axis(k: int, count: int) -> NDArray[np.float64]:
        edges = np.linspace(window[k], window[k + 2], count + 1)
        inside = np.minimum(edges[1:], box[k + 2]) - np.maximum(edges[:-1], box[k])
        return np.maximum(inside, 0) * count / (window[k + 2] - window[k])

    return np.outer(axis(1, shape[0]), axis(0, shape[1])) >= 0.5


def collect_samples(
    dataset: Dataset, model: Mixture, windows: int, seed: int
) -> Iterator[tuple[int, Samples, Surroundings]]:
    """(component, samples, surroundings) of every whole object of the model's class that a window
    reaches.

    windows   about how many samples there should be in all
    """
    mine = [whole_objects(truth, model.label) for truth in dataset]
    total = max(sum(map(len, mine)), 1)
    count = int(np.clip(round(windows / total), 6, 60))
    occluders = Occluders.draw(dataset, model.label, 100, seed)
    object_ = 0
    for i, truth in enumerate(mine):
        if not len(truth):
            continue
        image = dataset.image(i)
        boxes = np.asarray(truth.full, np.float64)
        for j, found in enumerate(assign(image, boxes, model)):
            if found is None:
                continue
            bag, window = found
            rng = np.random.default_rng([seed, i, j])
            others = boxes_beside(dataset[i], truth.box[j])
            samples, around = paste_windows(
                image, boxes[j], others, bag, window, model, occluders, count, object_, rng
            )
            # One of which nothing is known to be visible cannot teach what visible looks like.
            if samples.judged[samples.first].any():
                yield window.component, samples, around
                object_ += 1
