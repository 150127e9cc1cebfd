"""A filmstrip: one object covered step by step, and what each method's score makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from halfseen.arrays import Pixels
from halfseen.data.files import write_atomically
from halfseen.detect.follow import follow
from halfseen.detections import Detections
from halfseen.geometry import Boxes, clip
from halfseen.model.mixture import Mixture
from halfseen.refine.detector import Detector
from halfseen.report.closeup import around, close_up
from halfseen.report.plots import as_png, points, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
BEYOND = 0.15  # of the object's sides: how far the boards reach past it
BOARD = 9  # pixels


@dataclass(frozen=True, eq=False)
class Frame:
    """One step: `share` of the object's width is covered.

    box    the object's
    found  by method, the best window on the object, whatever its score; None where there is none
    """

    share: float
    image: Pixels
    box: Boxes
    found: dict[str, Detections | None]

    def score(self, method: str) -> float:
        best = self.found[method]
        return float("nan") if best is None else float(best.score[0])


def film(
    image: Pixels, box: Boxes, models: Mapping[str, Mixture], shares: Sequence[float] = SHARES
) -> list[Frame]:
    """Slides boards over the object in `box` from the left, and follows it with every model."""
    frames = []
    for share in shares:
        covered = cover(image, box, share)
        found = {name: _follow(model, covered, box) for name, model in models.items()}
        frames.append(Frame(share, covered, box, found))
    return frames


def _follow(model: Mixture, image: Pixels, box: Boxes) -> Detections | None:
    detector = Detector(model)
    view = detector.view(image)
    found = follow(view, box.tolist())
    return None if found is None else detector.finish(view, found)


def cover(image: Pixels, box: Boxes, share: float) -> Pixels:
    """The image with boards over `share` of the box's width, from its left side."""
    x1, y1, x2, y2 = box
    wide, high = (x2 - x1), (y2 - y1)
    reach = np.array(
        [x1 - BEYOND * wide, y1 - BEYOND * high, x1 + share * wide, y2 + BEYOND * high]
    )
    left, top, right, bottom = np.rint(clip(reach, (image.shape[0], image.shape[1]))).astype(int)
    pasted = image.copy()
    if share > 0:
        # Their right end is seen first, so the pattern is laid from there.
        pasted[top:bottom, left:right] = boards(bottom - top, right - left)[:, ::-1]
    return pasted


def boards(height: int, width: int) -> Pixels:
    """Upright boards of old wood; the left ones do not depend on the width."""
    count = width // BOARD + 1
    rng = np.random.default_rng(3)
    shade = rng.uniform(0.8, 1.1, 1000)[:count].repeat(BOARD)[:width]
    gap = np.where(np.arange(width) % BOARD == 0, 0.55, 1.0)
    grain = 1 + 0.08 * np.sin(np.arange(height)[:, None] / 5 + 3 * shade)
    wood = (shade * gap * grain)[..., None] * np.array([142.0, 112.0, 80.0])
    pixels: Pixels = np.clip(np.rint(wood), 0, 255).astype(np.uint8)
    return pixels


def plot_film(frames: Sequence[Frame]) -> Figure:
    """The frames, with the detection of VIS, over every method's score."""
    from matplotlib.figure import Figure

    names = list(frames[0].found)
    count = len(frames)
    size = (frames[0].image.shape[0], frames[0].image.shape[1])
    nothing = Detections.empty(size)
    best = [frame.found["VIS"] or nothing for frame in frames]
    region = around(np.concatenate([frames[0].box[None], *(b.clipped for b in best)]), size)
    with style():
        figure = Figure((1.3 * count + 0.4, 3.4), layout="constrained")
        grid = figure.add_gridspec(2, count, height_ratios=(1, 1.7))
        for n, frame in enumerate(frames):
            axes = figure.add_subplot(grid[0, n])
            axes.imshow(close_up(frame.image, region, best[n]))
            axes.set_axis_off()
        axes = figure.add_subplot(grid[1, :])
        for n, name in enumerate(names):
            points(axes, n, name, range(count), [frame.score(name) for frame in frames])
        axes.axhline(0, color="0.5", linewidth=0.8)
        axes.set_xticks(range(count), [f"{frame.share:.0%}" for frame in frames])
        axes.set(
            xlim=(-0.5, count - 0.5),
            xlabel="share of the object covered",
            ylabel="score, each on its own scale",
        )
        axes.legend()
    return figure


def write_film(frames: Sequence[Frame], path: Path) -> Path:
    write_atomically(path, as_png(plot_film(frames)))
    return path
