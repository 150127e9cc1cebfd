"""What was found in one image: the result that every stage takes and gives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Bool, Float64, Int64, UInt8
from halfseen.geometry import Boxes, clip
from halfseen.ground_truth import GroundTruth as GroundTruth

Grid = UInt8


class Block(IntEnum):
    """What a block of a detection's window shows."""

    OUTSIDE = 0
    """Nothing: it lies beyond the image."""
    HIDDEN = 1
    """Something that stands before the object."""
    GROUND = 2
    """What is beside or behind the object."""
    OBJECT = 3
    """The object itself. Where nothing tells object from ground, all that is visible."""


@dataclass(frozen=True, eq=False, repr=False)
class Detections:
    """Objects found in one image, as parallel arrays of length N.

    Which part of each is visible is said once, by the grid of `blocks`; `visibility`,
    `visible_fraction` and `mask` follow from it.

    score       (N,) float64: the window response h(x), or the rank that suppression gave
    label       (N,) str: the class
    component   (N,) int64: which component of its mixture
    mirrored    (N,) bool: whether the component's mirror image fired
    window      (N, 4): the pixels of the whole block grid; may reach outside the image
    full        (N, 4): the whole object, hidden parts included; may reach outside the image
    visible     (N, 4): `full` contracted around the visible blocks, within the image
    blocks      N uint8 arrays (rows, cols) of `Block` values. Grids of bool are taken as visible
                (OBJECT) or not (HIDDEN). Where nothing is known, a grid of no blocks (0, 0)
    size        (height, width) of the image
    model       (N,) int64: which model of its detector found it; 0 if not given
    probability (N,) float64 that a detection is right, comparable between components and classes;
                NaN for models without calibration, None where it is not known of any
    extra       more columns by name, (N, ...) each, that are selected and joined with the rest
    """

    score: Float64
    label: NDArray[np.str_]
    component: Int64
    mirrored: Bool
    window: Boxes
    full: Boxes
    visible: Boxes
    blocks: tuple[NDArray[Any], ...]
    size: tuple[int, int]
    model: Int64 = field(default=None)  # type: ignore[arg-type]
    probability: Float64 | None = None
    extra: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = len(self.score)
        if self.model is None:
            object.__setattr__(self, "model", np.zeros(count, np.int64))
        if len(self.size) != 2 or not all(0 <= side < 2**63 for side in self.size):
            found = f"found {self.size}"
            raise ValueError(f"Detections: size must be (height, width) in pixels, {found}")
        columns = {name: getattr(self, name) for name in (*_COLUMNS, "blocks", "probability")}
        for name, values in (columns | dict(self.extra)).items():
            if values is not None and len(values) != count:
                raise ValueError(f"Detections: {name} has {len(values)} rows, score has {count}")
        for name in _COLUMNS:
            shape = (count, 4) if name in ("window", "full", "visible") else (count,)
            if np.shape(getattr(self, name)) != shape:
                raise ValueError(
                    f"Detections: {name} must have shape {shape}, "
                    f"found {np.shape(getattr(self, name))}"
                )
        if type(self.blocks) is not Grids:
            object.__setattr__(self, "blocks", Grids(map(_as_grid, self.blocks)))

    @classmethod
    def empty(cls, size: tuple[int, int]) -> Detections:
        """No detections in an image of (height, width)."""
        none, boxes = np.zeros(0, np.int64), np.zeros((0, 4))
        labels = np.zeros(0, np.str_)
        return cls(np.zeros(0), labels, none, none > 0, boxes, boxes, boxes, (), size)

    @classmethod
    def concatenate(cls, parts: Sequence[Detections]) -> Detections:
        """Detections of the same image, one after another. What a part lacks is NaN."""
        sizes = {part.size for part in parts}
        if len(sizes) != 1:
            raise ValueError(f"Detections of images of different sizes: {sorted(sizes)}")
        arrays = {name: np.concatenate([getattr(p, name) for p in parts]) for name in _COLUMNS}
        columns = [
            dict(p.extra) | ({} if p.probability is None else {_PROBABILITY: p.probability})
            for p in parts
        ]
        names = dict.fromkeys(name for own in columns for name in own)
        gaps = [np.full(len(part), np.nan) for part in parts]
        extra = {
            name: np.concatenate(
                [own.get(name, gap) for own, gap in zip(columns, gaps, strict=True)]
            )
            for name in names
        }
        probability = extra.pop(_PROBABILITY, None)
        blocks = tuple(grid for part in parts for grid in part.blocks)
        return cls(
            **arrays, blocks=blocks, size=parts[0].size, probability=probability, extra=extra
        )

    def __len__(self) -> int:
        return len(self.score)

    def __repr__(self) -> str:
        height, width = self.size
        text = f"Detections({len(self)} in {width} x {height} pixels"
        if len(self):
            names, counts = np.unique(self.label, return_counts=True)
            shown = [f"{n} {name or 'unnamed'}" for name, n in zip(names, counts, strict=True)]
            more = ", ..." if len(shown) > _SHOWN else ""
            known = self.score if self.probability is None else self.probability
            best = int((self.score if np.isnan(known).any() else known).argmax())
            text += f": {', '.join(shown[:_SHOWN])}{more}; best {self._certainty(best)}"
        return text + ")"

    def __getitem__(self, index: Any) -> Detections:
        """A selection by mask, index array or slice; an integer gives a set of one."""
        chosen = np.atleast_1d(np.arange(len(self))[index])
        known = self.probability
        return replace(
            self,
            **{name: getattr(self, name)[chosen] for name in _COLUMNS},
            blocks=Grids(map(self.blocks.__getitem__, chosen.tolist())),
            probability=None if known is None else known[chosen],
            extra={name: values[chosen] for name, values in self.extra.items()},
        )

    def sorted(self) -> Detections:
        """Best first; ties keep their order."""
        return self[np.argsort(-self.score, kind="stable")]

    def with_blocks(self, blocks: Sequence[NDArray[Any]]) -> Detections:
        """The same detections with other block grids, and the `visible` boxes of these."""
        return replace(
            self,
            blocks=tuple(blocks),
            visible=visible_boxes(self.window, self.full, blocks, self.size),
        )

    @property
    def clipped(self) -> Boxes:
        """`full` cut to the image: the box that the VOC rules judge."""
        return clip(self.full, self.size)

    @cached_property
    def visibility(self) -> tuple[Bool, ...]:
        """N bool arrays (rows, cols): True where a block is neither hidden nor outside."""
        return tuple(grid >= Block.GROUND for grid in self.blocks)

    @property
    def visible_fraction(self) -> Float64:
        """(N,) share of each window's blocks that are visible; NaN where there are no blocks."""
        shares = [grid.mean() if grid.size else np.nan for grid in self.visibility]
        return np.array(shares, dtype=np.float64)

    def strong(self, least: float | None = None) -> Bool:
        """(N,) whether each is at least so probable; of uncalibrated models, scores so high.

        least  None for a probability of 0.5, or a score of 0
        """
        by_score = np.asarray(self.score >= (_STRONG_SCORE if least is None else least))
        if self.probability is None:
            return by_score
        probable = self.probability >= (_STRONG if least is None else least)
        return np.where(np.isnan(self.probability), by_score, probable)

    def describe(self, i: int) -> str:
        """One of them for a person: "car 87%, 53% seen"; its score where that is all there is."""
        text = f"{self.label[i]} {self._certainty(i)}"
        return text if self.box_alone(i) else f"{text}, {100 * self.visible_fraction[i]:.0f}% seen"

    def box_alone(self, i: int) -> bool:
        """Whether nothing is known of what is visible, as of boxes from a results file."""
        return self.blocks[i].size <= 1

    def _certainty(self, i: int) -> str:
        probability = math.nan if self.probability is None else float(self.probability[i])
        if math.isnan(probability):
            return f"{self.score[i]:.2f}"
        # 100% and 0% are promises that nobody keeps.
        return f"{min(max(round(100 * probability), 1), 99)}%"

    def mask(self, i: int) -> Bool:
        """(height, width) bool: the pixels of `full` that show detection i: its OBJECT blocks."""
        return self._pixels(i, self.blocks[i] == Block.OBJECT)

    def visible_mask(self, i: int) -> Bool:
        """(height, width) bool: the pixels of `full` in visible blocks, object and ground."""
        return self._pixels(i, self.visibility[i])

    def _pixels(self, i: int, grid: Bool) -> Bool:
        height, width = self.size
        if not grid.size:
            return np.zeros(self.size, bool)
        x1, y1, x2, y2 = self.window[i]
        columns = _block_of_pixel(width, x1, x2, grid.shape[1])
        rows = _block_of_pixel(height, y1, y2, grid.shape[0])
        down, across = self.full[i, 1::2], self.full[i, ::2]
        inside = _between(height, *down)[:, None] & _between(width, *across)
        known = (rows >= 0)[:, None] & (columns >= 0) & inside
        return np.asarray(grid[np.ix_(np.maximum(rows, 0), np.maximum(columns, 0))] & known)


_COLUMNS = ("score", "label", "component", "mirrored", "window", "full", "visible", "model")
_PROBABILITY = "probability"
_SHOWN = 5  # classes in the text of an object
# What is strong: by its probability or, without calibration, by the boundary that training drew.
_STRONG, _STRONG_SCORE = 0.5, 0.0


def visible_boxes(
    window: Boxes,
    full: Boxes,
    blocks: Sequence[NDArray[Any]] | NDArray[Any],
    size: tuple[int, int],
) -> Boxes:
    """(N, 4): full boxes contracted around the visible blocks of their windows, in the image.

    Where nothing is visible the box is empty, at the middle of the window; NaN without blocks.
    """
    if isinstance(blocks, np.ndarray):
        around = _around_visible(window, blocks)
    else:
        around = np.full((len(blocks), 4), np.nan)
        for shape, rows in by_shape(blocks).items():
            if 0 not in shape:
                grids = np.stack([blocks[n] for n in rows])
                around[rows] = _around_visible(window[rows], grids)
    low = np.maximum(full[:, :2], around[:, :2])
    high = np.minimum(full[:, 2:], around[:, 2:])
    return clip(np.concatenate([low, np.maximum(low, high)], axis=1), size)


def _around_visible(window: Boxes, grids: NDArray[Any]) -> Boxes:
    """(N, 4): boxes around the visible blocks of windows with grids (N, rows, cols)."""
    corner, shape = window[:, :2], grids.shape[1:]
    unit = (window[:, 2:] - corner) / shape[::-1]
    extents = block_extents(grids >= Block.GROUND)
    return np.concatenate([corner + extents[:, :2] * unit, corner + extents[:, 2:] * unit], 1)


def by_shape(grids: Sequence[NDArray[Any]]) -> dict[tuple[int, ...], list[int]]:
    """The indices of grids by their shapes: those of one shape can be worked on together."""
    rows: dict[tuple[int, ...], list[int]] = {}
    for n, grid in enumerate(grids):
        rows.setdefault(grid.shape, []).append(n)
    return rows


def parts_alike(found: Detections, rows: Int64, parts: int) -> list[Int64]:
    """Rows in so many parts, windows of one shape side by side: many cost little more than one."""
    if parts == 1:
        return [rows]
    shapes = np.array([found.blocks[n].shape for n in rows.tolist()]).reshape(-1, 2)
    return np.array_split(rows[np.lexsort(shapes.T)], parts)


def block_extents(grids: Bool) -> Boxes:
    """(N, 4), in blocks: the box around the True blocks of grids (N, rows, cols).

    Empty and central where there is none.
    """
    _, rows, cols = grids.shape
    down, across = np.asarray(grids.any(2)), np.asarray(grids.any(1))
    box = np.empty((len(grids), 4))
    box[:, 0], box[:, 2] = across.argmax(1), cols - across[:, ::-1].argmax(1)
    box[:, 1], box[:, 3] = down.argmax(1), rows - down[:, ::-1].argmax(1)
    box[~down.any(1)] = [cols / 2, rows / 2, cols / 2, rows / 2]
    return box


def as_blocks(visible: Bool, outside: Bool | None = None) -> Grid:
    """Grids of `Block` from flags: OBJECT where visible, OUTSIDE where outside, else HIDDEN."""
    blocks = np.where(visible, np.uint8(Block.OBJECT), np.uint8(Block.HIDDEN))
    if outside is not None:
        blocks[outside] = Block.OUTSIDE
    return blocks


_BYTE = np.dtype(np.uint8)


class Grids(tuple[Grid, ...]):
    """Grids that were checked: those selected from them need no other check."""

    __slots__ = ()


def _as_grid(grid: NDArray[Any]) -> Grid:
    if grid.ndim != 2:
        raise ValueError(f"Detections: a grid of blocks has {grid.ndim} dimensions, not 2")
    if grid.dtype == _BYTE:
        return grid
    if grid.dtype != np.bool_:
        raise ValueError(f"Detections: a grid of blocks must be uint8 or bool, found {grid.dtype}")
    return as_blocks(grid)


def _between(length: int, low: float, high: float) -> Bool:
    centres = np.arange(length) + 0.5
    return (centres >= low) & (centres < high)


def _block_of_pixel(length: int, low: float, high: float, blocks: int) -> Int64:
    """For each pixel along one axis the block that holds its centre, or -1 outside the window."""
    centres = np.arange(length) + 0.5
    index = np.floor((centres - low) * blocks / (high - low)).astype(np.int64)
    return np.where((index >= 0) & (index < blocks), index, -1)
