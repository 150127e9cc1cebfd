"""A named collection of images with what is truly in them."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np

from halfseen.data.image import Pixels, as_image, read_image
from halfseen.data.limits import LIMITS, Limits
from halfseen.detections import GroundTruth
from halfseen.errors import ImageError, SettingsError


@dataclass(frozen=True, eq=False)
class Dataset(Sequence[GroundTruth]):
    """Images with ground truth, in the order of their list.

    name      what to call it in messages and reports
    classes   the labels that its objects can have
    truths    one GroundTruth an image
    problems  one line for each file that was left out, or entry that was not used, and why
    limits    what reading one of its images may ask for
    """

    name: str
    classes: tuple[str, ...]
    truths: tuple[GroundTruth, ...]
    problems: tuple[str, ...] = ()
    limits: Limits = LIMITS

    def __len__(self) -> int:
        return len(self.truths)

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
        """Names its images, boxes and flags, and what else a result is `about`, so that what was
        made of others can be told.
        """
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


def suggest(word: str, known: Iterable[str]) -> str:
    """What to say of a word that is not known: the nearest ones, or all."""
    names = sorted(known)
    near = difflib.get_close_matches(word, names, n=1)
    if near:
        return f"did you mean '{near[0]}'?"
    shown = ", ".join(names[:30]) + (", ..." if len(names) > 30 else "")
    return f"known: {shown or 'none'}"
