"""Converting annotations, and saying what the other format could not hold.

What was written is read again and compared, object by object: nothing is said of a format that
its own reader did not find.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from halfseen.data.dataset import Dataset
from halfseen.data.files import FilePath
from halfseen.data.formats import read_dataset, write_dataset
from halfseen.errors import AnnotationError, SettingsError
from halfseen.ground_truth import COLUMNS, MEASURES, GroundTruth

WORDS = {
    "label": "class", "box": "visible box", "full": "whole box", "level": "level of occlusion",
    "visible_fraction": "visible fraction", "crowd": "crowd flag", "ignore": "ignore flag",
    "difficult": "difficult flag", "truncated": "truncated flag", "occluded": "occluded flag",
}  # fmt: skip
CLOSE = 1e-6  # pixels: what width and height lose in rounding


@dataclass(frozen=True)
class Conversion:
    """What became of the objects: how many lost, or were given, a value, by column.

    lost      columns that were known and are not, or differ
    assumed   columns that were not known, and that the format had to state
    masks     objects whose masks were lost, or differ
    made      objects that were given a mask
    sizes     images whose size was lost
    names     images that have another id
    left_out  images without objects that are not there
    """

    images: int
    objects: int
    lost: dict[str, int] = field(default_factory=dict)
    assumed: dict[str, int] = field(default_factory=dict)
    masks: int = 0
    made: int = 0
    sizes: int = 0
    names: int = 0
    left_out: int = 0

    def __str__(self) -> str:
        lost = [f"{WORDS.get(k, k)} of {_count(n, 'object')}" for k, n in self.lost.items()]
        if self.masks:
            lost.append(f"mask of {_count(self.masks, 'object')}")
        if self.sizes:
            lost.append(f"size of {_count(self.sizes, 'image')}")
        if self.names:
            lost.append(f"name of {_count(self.names, 'image')}")
        if self.left_out:
            lost.append(f"{_count(self.left_out, 'image')} without objects")
        made = [f"{WORDS.get(k, k)} of {_count(n, 'object')}" for k, n in self.assumed.items()]
        if self.made:
            made.append(f"mask of {_count(self.made, 'object')}")
        text = f"lost: {', '.join(lost)}" if lost else "nothing was lost"
        return f"{text}; assumed: {', '.join(made)}" if made else text


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def rename_classes(dataset: Dataset, names: Mapping[str, str]) -> Dataset:
    """The data set with other class names; SettingsError for a name that it does not have."""
    for name in names:
        dataset.check_class(name)

    def renamed(label: str) -> str:
        return names.get(label, label)

    truths = tuple(
        replace(truth, label=np.array([renamed(label) for label in truth.label.tolist()], np.str_))
        for truth in dataset
    )
    classes = tuple(dict.fromkeys(map(renamed, dataset.classes)))
    categories = {key: renamed(label) for key, label in dataset.categories.items()}
    if len(set(categories.values())) < len(categories):
        categories = {}
    return replace(dataset, truths=truths, classes=classes, categories=categories)


def convert(dataset: Dataset, path: FilePath, kind: str, split: str = "val") -> Conversion:
    """Write a data set in another format, read it back, and return what was lost."""
    write_dataset(dataset, path, kind, split)
    again = read_dataset(path, kind, split=split)
    if again.problems:
        raise AnnotationError(f"what was written does not read back: {again.problems[0]}")
    return compare(dataset, again)


def compare(before: Dataset, after: Dataset) -> Conversion:
    """Compare data sets of the same images, by id where those are kept, else in their order."""
    pairs = _pairs(before, after)
    lost = dict.fromkeys(COLUMNS, 0)
    assumed = dict.fromkeys(COLUMNS, 0)
    masks = made = 0
    for truth, other in pairs:
        for name in COLUMNS:
            first, second = getattr(truth, name), getattr(other, name)
            changed, known = _changed(name, first, second)
            lost[name] += int((changed & known).sum())
            assumed[name] += int((changed & ~known).sum())
        known, stated = truth.known_masks(), other.known_masks()
        masks += sum(
            not _same_mask(truth, other, k) for k in np.flatnonzero(known & stated).tolist()
        )
        masks += int((known & ~stated).sum())
        made += int((stated & ~known).sum())
    return Conversion(
        len(before), sum(map(len, before)),
        {name: n for name, n in lost.items() if n}, {name: n for name, n in assumed.items() if n},
        masks, made,
        sizes=sum(all(t.size) and not all(o.size) for t, o in pairs),
        names=sum(truth.image != other.image for truth, other in pairs),
        left_out=max(len(before) - len(after), 0),
    )  # fmt: skip


def _pairs(before: Dataset, after: Dataset) -> list[tuple[GroundTruth, GroundTruth]]:
    """The images of both by id; where ids are not kept, those with objects in their order."""
    named = {truth.image: truth for truth in after}
    if all(truth.image in named for truth in before if len(truth)):
        first = [truth for truth in before if truth.image in named]
        second = [named[truth.image] for truth in first]
    else:
        first, second = ([truth for truth in found if len(truth)] for found in (before, after))
    if [len(truth) for truth in first] != [len(truth) for truth in second]:
        raise SettingsError("the data sets do not hold the same objects")
    return list(zip(first, second, strict=True))


def _changed(name: str, first: Any, second: Any) -> tuple[np.ndarray, np.ndarray]:
    """Of each object: whether the value differs, and whether it was known before."""
    if name not in MEASURES:
        different = (
            np.abs(first - second).max(axis=1) > CLOSE if first.ndim == 2 else first != second
        )
        return different, np.ones(len(first), bool)
    known = first >= 0  # false for NaN and -1
    same = np.isclose(first, second, rtol=0, atol=CLOSE) | (~known & ~(second >= 0))
    return ~same, known


def _same_mask(truth: GroundTruth, other: GroundTruth, k: int) -> bool:
    """Whether an object's mask went over, as the same run lengths or polygons or pixel by pixel."""
    stored = truth.segmentation(k)
    if stored is not None and stored == other.segmentation(k):
        return True
    return np.array_equal(truth.mask(k), other.mask(k))  # type: ignore[arg-type]
