"""Pictures of detections: what is seen of each object, what is hidden, and its whole extent.

Blocks that show the object are tinted, hidden ones dimmed and hatched. The whole object is dashed,
its visible part solid. Weak detections are grey hairlines, or left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from halfseen.arrays import Bool, Float32, Float64, Int64, Pixels
from halfseen.data.image import as_image
from halfseen.detections import Detections, GroundTruth
from halfseen.geometry import Boxes
from halfseen.report.palette import GREY, WHITE, Colour, colour
from halfseen.report.sketch import Point, Sketch, unit

TINT = 0.30  # of colour over the blocks of a mask
DIM = 0.45  # of black over hidden blocks
HATCH = 0.75  # of colour in their hatching
Place = tuple[slice, slice]
SUPPRESSED = 60  # suppressed detections shown, at most: more cannot be told apart


class Choice(Protocol):
    """What is drawn of a suppression: what `halfseen.suppress` returns has it."""

    @property
    def indices(self) -> Int64: ...
    @property
    def rank(self) -> Float64: ...
    @property
    def excluder(self) -> Int64: ...


def draw_detections(
    image: Pixels,
    found: Detections,
    truth: GroundTruth | None = None,
    *,
    explain: Choice | None = None,
    strong: float | None = -np.inf,
    weak: bool = True,
) -> Pixels:
    """The image (H, W, 3) with its detections drawn; the input is left alone.

    found    the detections to draw, best first: the first has the first colour and lies on top
    truth    true boxes, in white
    explain  an Interpretation of `found`: the kept ones are drawn as above, the others thin and
             grey, each with a line from a dot at its middle to the one that excluded it
    strong   the probability from which a detection is drawn in full; of a model without
             calibration, the score; None for 50%, or 0
    weak     draw those below as hairline boxes; else they are left out
    """
    pixels = as_image(image)
    size = (pixels.shape[0], pixels.shape[1])
    if found.size != size:
        raise ValueError(f"detections of an image of {found.size} on a picture of {size}")
    kept = np.arange(len(found)) if explain is None else explain.indices
    sure = found.strong(strong)
    first = sorted(kept.tolist(), key=lambda i: not sure[i])  # the strong ones; else as they are
    objects = [(i, colour(k)) for k, i in enumerate(first) if sure[i]]
    canvas = pixels.astype(np.float32)
    sketch = Sketch(size)
    _tint(canvas, found, [(i, tone) for i, tone in objects if not found.box_alone(i)])
    for box in [] if truth is None else truth.box:
        sketch.box(box, WHITE, 1.2)
    if explain is not None:
        _draw_suppressed(sketch, found, explain)
    for i in reversed(first[len(objects) :] if weak else []):
        known = found.blocks[i].size  # of a box that no window reaches nothing is
        sketch.box(found.visible[i] if known else found.clipped[i], GREY, 0.6, halo=False)
    for i, tone in reversed(objects):
        _outline(sketch, found, i, tone)
    sketch.keep_clear(found.visible[[i for i, _ in objects]])
    for i, tone in objects:
        sketch.label(found.visible[i], found.describe(i), tone)
    return sketch.over(canvas)


def beside(image: Pixels, picture: Pixels) -> Pixels:
    """The photograph and what is seen in it, side by side; one above the other if it is wide."""
    height, width = image.shape[:2]
    gap = round(6 * unit((height, width)))
    axis = 1 if width <= 1.6 * height else 0
    shape = (height, gap, 3) if axis else (gap, width, 3)
    return np.concatenate([image, np.full(shape, 255, np.uint8), picture], axis=axis)


def _tint(canvas: Float32, found: Detections, objects: Sequence[tuple[int, Colour]]) -> None:
    """The colours of the objects, best first. No pixel is tinted, dimmed or hatched twice.

    What hides an object may be an object itself: hatching over what is tinted leaves it bright.
    """
    tinted, hatched = (np.zeros(found.size, bool) for _ in range(2))
    for i, tone in objects:
        place, own, _ = _masks(found, i)
        new = own & ~tinted[place]
        canvas[place][new] += TINT * (np.array(tone, np.float32) - canvas[place][new])
        tinted[place] |= own
    for i, tone in objects:
        place, _, hidden = _masks(found, i)
        new = hidden & ~hatched[place]
        canvas[place][new & ~tinted[place]] *= 1 - DIM
        stroke = _strokes(found, place)[new][:, None]
        canvas[place][new] += stroke * (np.array(tone, np.float32) - canvas[place][new])
        hatched[place] |= hidden


def _masks(found: Detections, i: int) -> tuple[Place, Bool, Bool]:
    """Where an object is drawn, and its pixels there that show it and that are hidden.

    That is the part of `full` that lies in the image and the window: of what `full` holds beyond
    the window nothing is known. Visible ground is neither.
    """
    low = np.maximum(found.clipped[i, :2], found.window[i, :2])
    high = np.maximum(np.minimum(found.clipped[i, 2:], found.window[i, 2:]), low)
    x1, y1, x2, y2 = np.rint(np.concatenate([low, high])).astype(int)
    place = np.s_[y1:y2, x1:x2]
    return place, found.mask(i)[place], ~found.visible_mask(i)[place]


def _strokes(found: Detections, place: Place) -> Float64:
    """How much of each pixel there is hatched."""
    thin = unit(found.size)
    period = 7 * thin
    rows, columns = (np.arange(side.start, side.stop) for side in place)
    across = (columns + rows[:, None]) % period - period / 2
    strokes: Float64 = HATCH * np.clip(0.7 * thin + 0.5 - np.abs(across), 0, 1)
    return strokes


def _outline(sketch: Sketch, found: Detections, i: int, tone: Colour) -> None:
    for start, end in _frontier(found, i):
        sketch.line(start, end, tone, 1)
    sketch.dashed_box(found.full[i], tone, 1.4)
    sketch.box(found.visible[i], tone, 2)


def _frontier(found: Detections, i: int) -> Iterator[tuple[Point, Point]]:
    """The sides between hatched blocks and others, cut to `full`, in pixels."""
    grid = found.visibility[i]
    x1, y1, x2, y2 = found.window[i]
    left, top, right, bottom = found.clipped[i]
    xs = np.linspace(x1, x2, grid.shape[1] + 1)
    ys = np.linspace(y1, y2, grid.shape[0] + 1)
    inner_x, inner_y = np.clip(xs, left, right), np.clip(ys, top, bottom)
    for r, c in np.argwhere(grid[:, 1:] != grid[:, :-1]):
        if left < xs[c + 1] < right and inner_y[r] < inner_y[r + 1]:
            yield (xs[c + 1], inner_y[r]), (xs[c + 1], inner_y[r + 1])
    for r, c in np.argwhere(grid[1:] != grid[:-1]):
        if top < ys[r + 1] < bottom and inner_x[c] < inner_x[c + 1]:
            yield (inner_x[c], ys[r + 1]), (inner_x[c + 1], ys[r + 1])


def _draw_suppressed(sketch: Sketch, found: Detections, explain: Choice) -> None:
    kept = np.zeros(len(found), bool)
    kept[explain.indices] = True
    dropped = np.flatnonzero(~kept)[:SUPPRESSED][::-1]
    boxes = found.clipped
    for i in dropped:
        sketch.box(boxes[i], GREY, 0.8, halo=False)
    for i in dropped:
        if explain.excluder[i] >= 0:
            sketch.line(_centre(boxes[i]), _centre(boxes[explain.excluder[i]]), GREY, 0.8)
        sketch.dot(_centre(boxes[i]), GREY)


def _centre(box: Boxes) -> Point:
    return float(box[0] + box[2]) / 2, float(box[1] + box[3]) / 2
