"""The two results that every stage speaks: what was found in an image, and what is truly there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfseen.geometry import Boxes, clip

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Detections:
    """Objects found in one image, as parallel arrays of length N.

    Masks stay block grids inside their windows; `mask(i)` makes pixels of one when asked.

    score       (N,) float64: the window response h(x)
    label       (N,) str: the class
    component   (N,) int64: which component of its mixture
    mirrored    (N,) bool: whether the component's mirror image fired
    window      (N, 4): the pixels of the whole block grid; may reach outside the image
    full        (N, 4): the whole object, hidden parts included; may reach outside the image. As its
                component predicts it or, with a mask head, corrected by its figure
    visible     (N, 4): what is seen of it: `full` contracted around the flags, and the figure where
                that is known, and the image
    visibility  N bool arrays (rows, cols): True where a block is visible; False where it is hidden
                or outside the image
    size        (height, width) of the image
    probability (N,) float64 that a detection is right, comparable between components and classes;
                NaN for models without calibration, None where nobody asked
    figure      N bool arrays (rows, cols): True where a block shows the object rather than its
                background or what hides it. Flags err on the side of hidden: what they hold for
                hidden, but not for sure, may be figure, even where nothing is visible by them. None
                where nobody asked
    """

    score: Floats
    label: NDArray[np.str_]
    component: NDArray[np.int64]
    mirrored: Bools
    window: Boxes
    full: Boxes
    visible: Boxes
    visibility: tuple[Bools, ...]
    size: tuple[int, int]
    probability: Floats | None = None
    figure: tuple[Bools, ...] | None = None

    def __post_init__(self) -> None:
        count = len(self.score)
        for name in ("label", "component", "mirrored", "window", "full", "visible", "visibility"):
            found = len(getattr(self, name))
            if found != count:
                raise ValueError(f"Detections: {name} has {found} rows, score has {count}")
        if self.probability is not None and len(self.probability) != count:
            raise ValueError(
                f"Detections: probability has {len(self.probability)} rows, score has {count}"
            )
        for name in ("window", "full", "visible"):
            if getattr(self, name).shape != (count, 4):
                raise ValueError(f"Detections: {name} must have shape ({count}, 4)")
        if self.figure is not None:
            shapes, seen = ([g.shape for g in grids] for grids in (self.figure, self.visibility))
            if shapes != seen:
                raise ValueError(f"Detections: figure has the shapes {shapes}, visibility {seen}")

    @classmethod
    def empty(cls, size: tuple[int, int]) -> Detections:
        """No detections in an image of (height, width)."""
        boxes = np.zeros((0, 4))
        return cls(
            np.zeros(0), np.zeros(0, dtype=np.str_), np.zeros(0, dtype=np.int64),
            np.zeros(0, dtype=bool), boxes, boxes, boxes, (), size,
        )  # fmt: skip

    @classmethod
    def concatenate(cls, parts: list[Detections]) -> Detections:
        """Detections of the same image, one after another."""
        sizes = {part.size for part in parts}
        if len(sizes) != 1:
            raise ValueError(f"Detections of images of different sizes: {sorted(sizes)}")
        arrays = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("score", "label", "component", "mirrored", "window", "full", "visible")
        }
        flags = tuple(grid for part in parts for grid in part.visibility)
        known = None
        if any(part.probability is not None for part in parts):
            known = np.concatenate(
                [np.full(len(p), np.nan) if p.probability is None else p.probability for p in parts]
            )
        grids = [part.figure for part in parts if part.figure is not None]
        figure = sum(grids, ()) if len(grids) == len(parts) else None
        return cls(**arrays, visibility=flags, size=parts[0].size, probability=known, figure=figure)

    def __len__(self) -> int:
        return len(self.score)

    def __getitem__(self, index: Any) -> Detections:
        """A selection by mask, index array or slice; an integer gives a set of one."""
        chosen = np.atleast_1d(np.arange(len(self))[index])
        arrays = {
            f.name: getattr(self, f.name)[chosen]
            for f in fields(self)
            if f.name not in ("visibility", "size", "figure") and getattr(self, f.name) is not None
        }
        figure = None if self.figure is None else tuple(self.figure[i] for i in chosen)
        flags = tuple(self.visibility[i] for i in chosen)
        return replace(self, **arrays, visibility=flags, figure=figure)

    def sorted(self) -> Detections:
        """Best first; ties keep their order."""
        return self[np.argsort(-self.score, kind="stable")]

    @property
    def clipped(self) -> Boxes:
        """`full` cut to the image: the box that the VOC rules judge."""
        return clip(self.full, self.size)

    @property
    def visible_fraction(self) -> Floats:
        """(N,) share of each window's blocks that are visible."""
        return np.array([grid.mean() for grid in self.visibility], dtype=np.float64)

    def mask(self, i: int) -> Bools:
        """(height, width) bool: what shows detection i within `full`, in pixels.

        The blocks of its figure where that is known, else those that are visible.
        """
        height, width = self.size
        grid = (self.visibility if self.figure is None else self.figure)[i]
        x1, y1, x2, y2 = self.window[i]
        columns = _block_of_pixel(width, x1, x2, grid.shape[1])
        rows = _block_of_pixel(height, y1, y2, grid.shape[0])
        down, across = self.full[i, 1::2], self.full[i, ::2]
        inside = _between(height, *down)[:, None] & _between(width, *across)
        known = (rows >= 0)[:, None] & (columns >= 0) & inside
        return np.asarray(grid[np.ix_(np.maximum(rows, 0), np.maximum(columns, 0))] & known)


def _between(length: int, low: float, high: float) -> Bools:
    centres = np.arange(length) + 0.5
    return (centres >= low) & (centres < high)


def _block_of_pixel(length: int, low: float, high: float, blocks: int) -> NDArray[np.int64]:
    """For each pixel along one axis the block that holds its centre, or -1 outside the window."""
    centres = np.arange(length) + 0.5
    index = np.floor((centres - low) * blocks / (high - low)).astype(np.int64)
    return np.where((index >= 0) & (index < blocks), index, -1)


@dataclass(frozen=True, eq=False)
class _ChosenMasks:
    """The masks of a selection. Not a lambda, so that ground truth can be sent to processes."""

    read: Callable[[int], Bools | None]
    chosen: NDArray[np.int64]

    def __call__(self, i: int) -> Bools | None:
        return self.read(int(self.chosen[i]))


@dataclass(frozen=True, eq=False)
class GroundTruth:
    """What is truly in one image, as parallel arrays of length N.

    image      the image's id
    source     a path, or the pixels themselves (height, width, 3) uint8
    size       (height, width)
    label      (N,) str
    box        (N, 4): the visible extent, as annotated
    difficult, truncated, occluded, crowd   (N,) bool
    full       (N, 4): the whole object where known (rendered scenes), else the same as `box`
    visible_fraction   (N,) share of the object's pixels in view where known, else NaN
    read_mask  gives the visible pixels (height, width) bool of object i, or None where unknown
    """

    image: str
    source: str | NDArray[np.uint8]
    size: tuple[int, int]
    label: NDArray[np.str_]
    box: Boxes
    difficult: Bools
    truncated: Bools
    occluded: Bools
    crowd: Bools
    full: Boxes
    visible_fraction: Floats
    read_mask: Callable[[int], Bools | None] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        count = len(self.label)
        for name in ("box", "difficult", "truncated", "occluded", "crowd", "full",
                     "visible_fraction"):  # fmt: skip
            found = len(getattr(self, name))
            if found != count:
                raise ValueError(f"GroundTruth {self.image}: {name} has {found} rows, not {count}")

    @classmethod
    def make(
        cls,
        image: str,
        source: str | NDArray[np.uint8],
        size: tuple[int, int],
        label: Any,
        box: Any,
        *,
        difficult: Any = None,
        truncated: Any = None,
        occluded: Any = None,
        crowd: Any = None,
        full: Any = None,
        visible_fraction: Any = None,
        read_mask: Callable[[int], Bools | None] | None = None,
    ) -> GroundTruth:
        """Ground truth from lists; what is not given is False, unknown, or equal to `box`."""
        boxes = np.asarray(box, dtype=np.float64).reshape(-1, 4)
        count = len(boxes)

        def flags(values: Any) -> Bools:
            return np.zeros(count, bool) if values is None else np.asarray(values, bool)

        return cls(
            image, source, size, np.asarray(label, dtype=np.str_).reshape(-1), boxes,
            flags(difficult), flags(truncated), flags(occluded), flags(crowd),
            boxes if full is None else np.asarray(full, np.float64).reshape(-1, 4),
            np.full(count, np.nan) if visible_fraction is None
            else np.asarray(visible_fraction, np.float64),
            read_mask,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.label)

    def __getitem__(self, index: Any) -> GroundTruth:
        """A selection of the objects by mask, index array or slice."""
        chosen = np.atleast_1d(np.arange(len(self))[index])
        arrays = {
            name: getattr(self, name)[chosen]
            for name in ("label", "box", "difficult", "truncated", "occluded", "crowd", "full",
                         "visible_fraction")
        }  # fmt: skip
        read = self.read_mask
        return replace(
            self, **arrays, read_mask=None if read is None else _ChosenMasks(read, chosen)
        )

    def mask(self, i: int) -> Bools | None:
        """The visible pixels of object i, or None where they are not known."""
        return None if self.read_mask is None else self.read_mask(i)
