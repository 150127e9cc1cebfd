"""A named collection of images with what is truly in them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

import numpy as np

from halfseen.arrays import Pixels
from halfseen.data.image import as_image, read_image
from halfseen.data.limits import LIMITS, Limits
from halfseen.errors import ImageError, SettingsError, suggest
from halfseen.ground_truth import GroundTruth

SHOWN = 5  # classes in the text of a data set


@dataclass(frozen=True, eq=False, repr=False)
class Dataset(Sequence[GroundTruth]):
    """Images with ground truth, in the order of their list.

    name      what to call it in messages and reports
    classes   the labels that its objects can have
    truths    one GroundTruth an image
    problems  one line for each file that was left out, or entry that was not used, and why
    limits    what reading one of its images may ask for
    neighbours  by class, or "*" for all, the classes that count as ignored regions when it is
                evaluated: KITTI's vans among its cars, CityPersons' riders among its pedestrians
    categories  the class of each category id, where the annotations number them
    """

    name: str
    classes: tuple[str, ...]
    truths: tuple[GroundTruth, ...]
    problems: tuple[str, ...] = ()
    limits: Limits = LIMITS
    neighbours: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    categories: Mapping[int | str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.truths)

    def __repr__(self) -> str:
        count = sum(len(truth) for truth in self.truths)
        more = ", ..." if len(self.classes) > SHOWN else ""
        classes = ", ".join(self.classes[:SHOWN]) + more
        left_out = f"; problems: {len(self.problems)}" if self.problems else ""
        about = f"images: {len(self)}, objects: {count}, of {classes or 'no class'}{left_out}"
        return f"Dataset({self.name!r}; {about})"

    def __iter__(self) -> Iterator[GroundTruth]:
        return iter(self.truths)

    @overload
    def __getitem__(self, index: int) -> GroundTruth: ...
    @overload
    def __getitem__(self, index: slice) -> Dataset: ...
    @overload
    def __getitem__(self, index: Any) -> Any: ...
    def __getitem__(self, index: Any) -> Any:
        """An integer gives the truth of one image; a slice, mask or index array a Dataset."""
        if isinstance(index, (int, np.integer)):
            return self.truths[index]
        chosen = np.arange(len(self))[index]
        return replace(self, truths=tuple(self.truths[i] for i in chosen))

    def image(self, i: int) -> Pixels:
        """The pixels of image i, (height, width, 3) uint8, of the size that its truth states."""
        truth = self.truths[i]
        if isinstance(truth.source, str):
            pixels = read_image(truth.source, self.limits)
        else:
            pixels = as_image(truth.source)
        if pixels.shape[:2] != truth.size:
            height, width = truth.size
            name = truth.source if isinstance(truth.source, str) else truth.image
            raise ImageError(
                f"{name}: annotated as {width} x {height} pixels, "
                f"found {pixels.shape[1]} x {pixels.shape[0]}"
            )
        return pixels

    def digest(self, about: str = "") -> str:
        """Return a hash of its images, boxes and flags, and of what else a result is `about`."""
        text = hashlib.sha256(about.encode())
        for truth in self.truths:
            text.update(f"{truth.image} {truth.size} {truth.label.tolist()}".encode())
            text.update(truth.box.tobytes() + truth.full.tobytes())
            for flags in (truth.difficult, truth.truncated, truth.occluded, truth.crowd):
                text.update(flags.tobytes())
        return text.hexdigest()

    def check_class(self, label: str) -> None:
        """SettingsError, with the nearest name, unless `label` is one of the classes."""
        if label not in self.classes:
            raise SettingsError(f"{self.name}: no class '{label}'; {suggest(label, self.classes)}")

    def of_class(self, label: str) -> Dataset:
        """All the images, each with its objects of one class only (often none)."""
        self.check_class(label)
        truths = tuple(truth[truth.label == label] for truth in self.truths)
        return replace(self, classes=(label,), truths=truths)
