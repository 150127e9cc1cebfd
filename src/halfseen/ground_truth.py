"""What is truly in one image: boxes, classes, and how much of each object is visible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Bool, Float64, Int64, UInt8
from halfseen.geometry import Boxes

MaskReader = Callable[[int], Bool | None]

FLAGS = ("difficult", "truncated", "occluded", "crowd", "ignore")
# The measured columns with the value that stands for "not known".
MEASURES: dict[str, tuple[type, float]] = {
    "visible_fraction": (np.float64, np.nan),
    "truncation": (np.float64, np.nan),
    "area": (np.float64, np.nan),
    "level": (np.int8, -1),
    "identity": (np.int64, -1),
}
COLUMNS = ("label", "box", "full", *FLAGS, *MEASURES)


@dataclass(frozen=True, eq=False, repr=False)
class GroundTruth:
    """What is truly in one image, as parallel arrays of length N.

    image      the image's id
    source     a path, or the pixels themselves (height, width, 3) uint8
    size       (height, width); (0, 0) where an annotation file does not say it
    label      (N,) str
    box        (N, 4): the visible extent, as annotated
    full       (N, 4): the whole object where known, else the same as `box`; may leave the image
    difficult  (N,) bool: neither right nor wrong when found, as VOC marks objects
    truncated  (N,) bool: cut by the image's border
    occluded   (N,) bool: partly hidden by something in the image
    crowd      (N,) bool: one box around several objects
    ignore     (N,) bool: a region whose contents count neither as right nor as wrong
    visible_fraction  (N,) share of the object in view, else NaN
    truncation (N,) share of the object outside the image, else NaN
    area       (N,) area of the object in pixels where annotated, else NaN
    level      (N,) level of occlusion: 0 visible, 1 partly, 2 largely hidden; -1 not known
    identity   (N,) the number of a track or person; -1 not known
    read_mask  gives the visible pixels (height, width) bool of object i, or None where unknown
    """

    image: str
    source: str | UInt8
    size: tuple[int, int]
    label: NDArray[np.str_]
    box: Boxes
    full: Boxes
    difficult: Bool
    truncated: Bool
    occluded: Bool
    crowd: Bool
    ignore: Bool
    visible_fraction: Float64
    truncation: Float64
    area: Float64
    level: NDArray[np.int8]
    identity: Int64
    read_mask: MaskReader | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        count = len(self.label)
        for name in COLUMNS:
            found = len(getattr(self, name))
            if found != count:
                raise ValueError(f"GroundTruth {self.image}: {name} has {found} rows, not {count}")

    @classmethod
    def make(
        cls,
        image: str,
        source: str | UInt8,
        size: tuple[int, int],
        label: Any,
        box: Any,
        *,
        read_mask: MaskReader | None = None,
        **columns: Any,
    ) -> GroundTruth:
        """Ground truth from lists; columns not given are False, unknown, or `full` equal to `box`.

        `columns` are any of `full`, FLAGS and MEASURES.
        """
        unknown = columns.keys() - set(COLUMNS)
        if unknown:
            raise TypeError(f"GroundTruth has no column {', '.join(sorted(unknown))}")
        boxes = np.asarray(box, dtype=np.float64).reshape(-1, 4)
        count = len(boxes)
        given = {name: values for name, values in columns.items() if values is not None}
        arrays = {name: np.asarray(given.get(name, np.zeros(count)), bool) for name in FLAGS}
        for name, (kind, nothing) in MEASURES.items():
            arrays[name] = np.asarray(given.get(name, np.full(count, nothing)), kind)
        full = np.asarray(given.get("full", boxes), np.float64).reshape(-1, 4)
        labels = np.asarray(label, dtype=np.str_).reshape(-1)
        return cls(image, source, size, labels, boxes, full, **arrays, read_mask=read_mask)

    def __len__(self) -> int:
        return len(self.label)

    def __repr__(self) -> str:
        height, width = self.size
        names = ", ".join(self.label[:5].tolist()) + (", ..." if len(self) > 5 else "")
        return f"GroundTruth({self.image!r}, {width} x {height} pixels: {names or 'no object'})"

    def __getitem__(self, index: Any) -> GroundTruth:
        """A selection of the objects by mask, index array or slice."""
        chosen = np.atleast_1d(np.arange(len(self))[index])
        arrays = {name: getattr(self, name)[chosen] for name in COLUMNS}
        read = self.read_mask
        return replace(
            self, **arrays, read_mask=None if read is None else _ChosenMasks(read, chosen)
        )

    @property
    def left_out(self) -> Bool:
        """(N,) objects that no protocol asks for: difficult ones, crowds and ignored regions."""
        return self.difficult | self.crowd | self.ignore

    def mask(self, i: int) -> Bool | None:
        """The visible pixels of object i, or None where they are not known."""
        return None if self.read_mask is None else self.read_mask(i)

    def known_masks(self) -> Bool:
        """(N,) objects whose visible pixels are known; no mask is made where its reader can tell.

        A reader can if it has a method `known`, which says so of an array of objects.
        """
        every = np.arange(len(self))
        known = getattr(self.read_mask, "known", None)
        if known is not None:
            return np.asarray(known(every), bool)
        return np.array([self.mask(int(i)) is not None for i in every], bool)

    def segmentation(self, i: int) -> Any:
        """COCO's polygons or run lengths of object i as a reader found them, else None."""
        stored = getattr(self.read_mask, "segmentation", None)
        return None if stored is None else stored(i)


@dataclass(frozen=True, eq=False)
class _ChosenMasks:
    """The masks of a selection. Not a lambda, so that ground truth can be sent to processes."""

    read: MaskReader
    chosen: Int64

    def __call__(self, i: int) -> Bool | None:
        return self.read(int(self.chosen[i]))

    def known(self, objects: Int64) -> Bool:
        known = getattr(self.read, "known", None)
        if known is not None:
            return np.asarray(known(self.chosen[objects]), bool)
        return np.array([self(int(i)) is not None for i in objects], bool)

    def segmentation(self, i: int) -> Any:
        stored = getattr(self.read, "segmentation", None)
        return None if stored is None else stored(int(self.chosen[i]))
