"""Voting against a direct loop, and what it promises."""

from functools import partial

import numpy as np
import pytest

from halfseen.errors import SettingsError
from halfseen.suppression import suppress, suppress_masks
from tests.builders import greedy_by_loop, make_found, random_detections

detections = partial(make_found, size=(120, 160))
greedy = partial(suppress, method="greedy")
voting = partial(suppress, method="voting")


def share(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """The shared area of two boxes over that of either, and over that of the second."""
    wide = max(min(first[2], second[2]) - max(first[0], second[0]), 0)
    high = max(min(first[3], second[3]) - max(first[1], second[1]), 0)
    areas = [(b[2] - b[0]) * (b[3] - b[1]) for b in (first, second)]
    either = sum(areas) - wide * high
    return wide * high / max(either, 1e-300), wide * high / max(areas[1], 1e-300)


def test_voting_matches_the_loop() -> None:
    rng = np.random.default_rng(0)
    for _ in range(150):
        found = random_detections(rng, int(rng.integers(0, 40)))
        overlap, beta = float(rng.choice([0.2, 0.4, 0.6])), float(rng.choice([1.0, 4.0]))
        t, weight = float(rng.choice([-1.0, 0.5])), float(rng.choice([0.1, 1.0]))
        chosen, boxes = greedy_by_loop(found, overlap), found.clipped
        votes = {k: np.exp(beta * (found.score[k] - t)) for k in chosen}
        for i in set(range(len(found))) - set(chosen):
            alike = [k for k in chosen if found.label[k] == found.label[i]]
            able = [k for k in alike if found.score[k] >= t]
            near = [k for k in able if share(boxes[k], boxes[i])[0] > overlap]
            dropped = [k for k in alike if share(boxes[k], boxes[i])[1] > overlap]
            vote = weight * max(np.exp(beta * (found.score[i] - t)) - 1, 0)
            votes[(near or dropped)[0]] += vote
        kept = voting(found, overlap=overlap, beta=beta, threshold=t, weight=weight)
        assert set(kept.indices) == set(chosen)
        expected = [t + np.log(votes[k]) / beta for k in kept.indices]
        np.testing.assert_allclose(kept.rank, expected, atol=1e-9)
        assert (np.diff(kept.rank) <= 0).all()
        assert (kept.rank >= found.score[kept.indices] - 1e-12).all()


def test_those_that_agree_outrank_a_stronger_one_alone() -> None:
    group = [[0, 0, 40, 40], [1, 0, 41, 40], [0, 1, 40, 41], [2, 1, 42, 41]]
    found = detections([*group, [100, 60, 140, 100]], [0.5, 0.4, 0.4, 0.3, 0.6])
    assert list(greedy(found).indices) == [4, 0]
    kept = voting(found)
    assert list(kept.indices) == [0, 4]
    assert kept.rank[1] == pytest.approx(0.6)
    assert str(kept.why(1)).startswith("excluded by detection 0")


def test_the_candidates_of_an_object_behind_another_speak_for_it() -> None:
    """Half of each candidate of the hinder one lies in the front one, which drops two of them."""
    front, hinder = [0, 0, 100, 80], [61, 0, 161, 80]
    behind = [[58, 0, 158, 80], [57, 0, 157, 80]]
    found = detections([front, hinder, *behind], [2.0, 0.5, 0.4, 0.4])
    assert list(greedy(found).excluder[2:]) == [0, 0]
    rank = dict(zip(*(voting(found).indices, voting(found).rank), strict=True))
    assert rank[0] == pytest.approx(2.0)
    assert rank[1] > 0.7


def test_the_order_of_candidates_does_not_matter() -> None:
    """Not even where two groups vote alike, and only last bits of sums could tell them apart."""
    rng = np.random.default_rng(1)
    group = np.column_stack([[0, 1, 2, 3, 4], [0] * 5, [40, 41, 42, 43, 44], [40] * 5])
    twice = np.concatenate([group, group + np.array([60, 0, 60, 0])])
    alike = detections(twice, [0.9, 0.7, 0.55, 0.33, 0.21] * 2)
    for found in [alike] * 50 + [random_detections(rng, 20) for _ in range(50)]:
        shuffle = rng.permutation(len(found))
        kept, again = voting(found), voting(found[shuffle])
        np.testing.assert_array_equal(shuffle[again.indices], kept.indices)
        np.testing.assert_array_equal(again.rank, kept.rank)


def test_large_scores_do_not_overflow() -> None:
    found = detections([[0, 0, 10, 10], [0, 0, 10, 11]], [5000.0, 4999.0])
    assert voting(found).rank[0] == pytest.approx(5000.0 + np.log1p(np.exp(-4.0)) / 4)
    with pytest.raises(SettingsError, match="too large to compute with"):
        voting(detections([[0, 0, 10, 10]], [1e308]))


def test_masks_vote_too() -> None:
    masks = np.zeros((4, 20, 40), bool)
    masks[0, 2:12, 2:12] = masks[1, 3:12, 2:12] = masks[2, 2:11, 2:12] = True
    masks[3, 2:12, 25:35] = True
    scores = [0.7, 0.6, 0.6, 0.8]
    assert list(suppress_masks(masks, scores, method="greedy").indices) == [3, 0]
    kept = suppress_masks(masks, scores, method="voting")
    assert list(kept.indices) == [0, 3]
    assert kept.rank[1] == pytest.approx(0.8)


@pytest.mark.parametrize(
    "wrong", [{"overlap": 2}, {"beta": 0}, {"weight": 0}, {"threshold": float("nan")}]
)
def test_settings_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        suppress(detections([], []), "voting", **wrong)
