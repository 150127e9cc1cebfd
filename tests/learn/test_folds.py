"""Folds of a dataset."""

import numpy as np

from halfseen.learn.folds import all_but, split_folds
from tests.builders import tiny_scenes


def test_folds_part_the_images_and_spread_those_with_the_class() -> None:
    scenes = tiny_scenes()
    folds = split_folds(scenes, "car", 3, seed=0)
    assert sorted(np.concatenate(folds).tolist()) == list(range(len(scenes)))
    counts = [sum(len(scenes[int(i)]) > 0 for i in fold) for fold in folds]
    assert max(counts) - min(counts) <= 1
    rest = all_but(folds, 1)
    assert (np.diff(rest) > 0).all()
    assert set(rest.tolist()) == set(range(len(scenes))) - set(folds[1].tolist())
