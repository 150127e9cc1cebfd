"""Folds of a dataset's images: a model is tested on images that it was not learnt from."""

from __future__ import annotations

import numpy as np

from halfseen.arrays import Int64
from halfseen.data.dataset import Dataset


def split_folds(dataset: Dataset, label: str, folds: int, seed: int) -> list[Int64]:
    """The images of each fold, ascending.

    Images with the class are spread evenly over the folds, and so are the others.
    """
    random = np.random.default_rng(seed)
    has = np.array([bool((truth.label == label).any()) for truth in dataset])
    order = np.concatenate(
        [random.permutation(np.flatnonzero(has)), random.permutation(np.flatnonzero(~has))]
    )
    return [np.sort(order[k::folds]) for k in range(folds)]


def draw_images(dataset: Dataset, label: str, most: int | None, seed: int) -> Dataset:
    """At most so many images of the data, half of them, if there are as many, with the class."""
    if most is None or most >= len(dataset):
        return dataset
    random = np.random.default_rng(seed)
    has = np.array([bool((truth.label == label).any()) for truth in dataset])
    with_it, without = (random.permutation(np.flatnonzero(m)) for m in (has, ~has))
    half = max(min(len(with_it), most // 2), most - len(without))
    chosen: Dataset = dataset[np.sort(np.concatenate([with_it[:half], without[: most - half]]))]
    return chosen


def all_but(folds: list[Int64], held_out: int) -> Int64:
    """The images of all folds but one, ascending."""
    return np.sort(np.concatenate([fold for k, fold in enumerate(folds) if k != held_out]))
