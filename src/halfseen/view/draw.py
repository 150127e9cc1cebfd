"""Pictures of detections: what is seen of each object, what is hidden, and its whole extent.

Blocks that show the object are tinted, hidden ones dimmed and hatched. The whole object is dashed,
its visible part solid. Weak detections are hairlines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from halfseen.data.image import as_image
from halfseen.detections import Detections, GroundTruth
from halfseen.geometry import Boxes
from halfseen.view.palette import GREY, WHITE, Colour, colour
from halfseen.view.sketch import Pixels, Point, Sketch, unit

TINT = 0.30  # of colour over the blocks of a mask
DIM = 0.45  # of black over hidden blocks
HATCH = 0.75  # of colour in their hatching
SUPPRESSED = 60  # suppressed detections shown, at most: more cannot be told apart


class Choice(Protocol):
    """What is drawn of a suppression: what `halfseen.suppress` returns has it."""

    @property
    def indices(self) -> NDArray[np.int64]: ...
    @property
    def rank(self) -> NDArray[np.float64]: ...
    @property
    def excluder(self) -> NDArray[np.int64]: ...


def draw_detections(
    image: Pixels,
    found: Detections,
    truth: GroundTruth | None = None,
    *,
    explain: Choice | None = None,
    strong: float = -np.inf,
) -> Pixels:
    """The image (H, W, 3) with its detections drawn; the input is left alone.

    found    the detections to draw, best first: the first has the first colour and lies on top
    truth    true boxes, in white
    explain  an Interpretation of `found`: the kept ones are drawn as above, the others thin and
             grey, each with a line from a dot at its middle to the one that excluded it
    strong   the score from which a detection is drawn in full; below, it is a hairline box
    """
    pixels = as_image(image)
    size = (pixels.shape[0], pixels.shape[1])
    if found.size != size:
        raise ValueError(f"detections of an image of {found.size} on a picture of {size}")
    kept = np.arange(len(found)) if explain is None else explain.indices
    scores = found.score if explain is None else explain.rank
    objects = [(int(i), float(scores[k]), colour(k)) for k, i in enumerate(kept)]
    canvas = pixels.astype(np.float32)
    sketch = Sketch(size)
    for i, score, tone in reversed(objects):
        if score >= strong:
            _shade(canvas, found, i, tone)
    for box in [] if truth is None else truth.box:
        sketch.box(box, WHITE, 1.2)
    if explain is not None:
        _draw_suppressed(sketch, found, explain)
    for i, score, tone in reversed(objects):
        if score >= strong:
            _outline(sketch, found, i, tone)
        else:
            sketch.box(found.visible[i], tone, 0.6, halo=False)
    for i, score, tone in objects:
        if score >= strong:
            sketch.label(found.visible[i], _caption(found, i, score), tone)
    return sketch.over(canvas)


def _caption(found: Detections, i: int, score: float) -> str:
    text = f"{found.label[i]} {score:.2f}"
    seen = round(100 * float(found.visibility[i].mean()))
    return f"{text} · {seen}% seen" if seen < 100 else text


def _shade(canvas: NDArray[np.float32], found: Detections, i: int, tone: Colour) -> None:
    """Tint and hatching, within the part of `full` that lies in the image and the window.

    Of what `full` holds beyond the window nothing is known. The visible background of an object,
    where it is known, is left as it is. What is its figure is tinted, whatever the flags hold it
    for.
    """
    low = np.maximum(found.clipped[i, :2], found.window[i, :2])
    high = np.maximum(np.minimum(found.clipped[i, 2:], found.window[i, 2:]), low)
    x1, y1, x2, y2 = np.rint(np.concatenate([low, high])).astype(int)
    region = canvas[y1:y2, x1:x2]
    own = found.mask(i)[y1:y2, x1:x2, None]
    seen = own | replace(found, figure=None).mask(i)[y1:y2, x1:x2, None]
    paint = np.array(tone, np.float32)
    thin = unit(found.size)
    period = 7 * thin
    across = (np.arange(x1, x2) + np.arange(y1, y2)[:, None]) % period - period / 2
    stroke = HATCH * np.clip(0.7 * thin + 0.5 - np.abs(across), 0, 1)[..., None]
    hidden = (1 - DIM) * region
    hidden += stroke * (paint - hidden)
    region[:] = np.where(seen, region + own * TINT * (paint - region), hidden)


def _outline(sketch: Sketch, found: Detections, i: int, tone: Colour) -> None:
    for start, end in _frontier(found, i):
        sketch.line(start, end, tone, 1)
    sketch.dashed_box(found.full[i], tone, 1.4)
    sketch.box(found.visible[i], tone, 2)


def _frontier(found: Detections, i: int) -> Iterator[tuple[Point, Point]]:
    """The sides between hatched blocks and others, cut to `full`, in pixels."""
    grid = found.visibility[i] | (found.visibility if found.figure is None else found.figure)[i]
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
