"""Covering suppression of detections against slow scenes, and what it promises."""

import logging
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from halfseen.detections import Detections
from halfseen.errors import SettingsError
from halfseen.suppression import Interpretation, suppress
from halfseen.suppression.covering import Covering
from halfseen.suppression.overlap_kernels import LOWER, overlaps_with
from halfseen.suppression.scene import blocks_of

SIZE = (100, 130)
covering = partial(suppress, method="covering")


def scattered(rng: np.random.Generator, count: int, *, tied: bool = False) -> Detections:
    """Windows around two objects, some beyond the border, with random flags."""
    centre = rng.uniform(20, 100, (2, 2))[rng.integers(2, size=count)]
    half = rng.uniform(8, 30, (count, 2))
    middle = centre + rng.normal(0, 10, (count, 2))
    window = np.hstack([middle - half, middle + half])
    score = rng.integers(-2, 4, count) / 2 if tied else rng.uniform(-1.2, 1.5, count)
    flags = [
        rng.random((int(rng.integers(1, 6)), int(rng.integers(1, 6)))) < 0.8 for _ in range(count)
    ]
    return Detections(
        score.astype(float), rng.choice(["car", "bus"], count, p=[0.8, 0.2]).astype(np.str_),
        rng.integers(0, 2, count), np.zeros(count, bool), window, window + 1, window, tuple(flags),
        SIZE,
    )  # fmt: skip


def slow_centres(low: float, high: float, side: int, blocks: int, block: float) -> list[int]:
    """The blocks along one side whose centres lie in a window, else the one nearest to it."""
    inside = [i for i in range(blocks) if low <= (i + 0.5) * block < high]
    if inside or low >= side or high <= 0:
        return inside
    return [min(int((max(low, 0) + min(high, side)) / 2 / block), blocks - 1)]


def slow_scene(found: Detections, block: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(visible, whole) of each detection, scene block by scene block."""
    rows, columns = int(SIZE[0] / block + 0.5), int(SIZE[1] / block + 0.5)
    visible = np.zeros((len(found), rows, columns), bool)
    whole = np.zeros_like(visible)
    for n in range(len(found)):
        x1, y1, x2, y2 = found.window[n]
        grid = found.visibility[n]
        for i in slow_centres(y1, y2, SIZE[0], rows, block):
            for j in slow_centres(x1, x2, SIZE[1], columns, block):
                whole[n, i, j] = True
                row = int(((i + 0.5) * block - y1) / (y2 - y1) * grid.shape[0])
                column = int(((j + 0.5) * block - x1) / (x2 - x1) * grid.shape[1])
                row, column = (
                    min(max(place, 0), side - 1)
                    for place, side in zip((row, column), grid.shape, strict=True)
                )
                visible[n, i, j] = grid[row, column]
    return visible.reshape(len(found), -1), whole.reshape(len(found), -1)


def overlap_of(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> float:
    return float((first & second).sum() / max((first | second).sum(), 1))


def slow_energy(
    found: Detections, chosen: NDArray[np.int64], settings: Covering
) -> tuple[float, NDArray[np.float64]]:
    """F of a set, and what each of its members adds to the others."""
    visible, whole = slow_scene(found, settings.block)
    cover = visible if settings.blocks == "visible" else whole
    value = settings.values(found.score)

    def of(members: list[int]) -> float:
        total = 0.0
        for name in ("car", "bus"):
            own = [k for k in members if found.label[k] == name]
            if own:
                total += (value[own, None] * cover[own]).max(axis=0).sum()
        return total - settings.price * len(members)

    every = [int(k) for k in chosen]
    rest = [of([m for m in every if m != k]) - settings.price for k in every]
    return of(every), of(every) - np.array(rest)


def slow_support(
    found: Detections, kept: NDArray[np.int64], visible: NDArray[np.bool_], settings: Covering
) -> NDArray[np.float64]:
    """What each kept detection gains from those that overlap it more than any other kept one."""
    order = blocks_of(found, settings.block).order.tolist()
    votes = np.zeros(len(kept))
    place = {int(k): n for n, k in enumerate(kept)}
    for i in range(len(found)):
        rivals = [int(k) for k in kept if found.label[k] == found.label[i]]
        if found.score[i] < settings.threshold or not rivals:
            continue
        # Among equal overlaps the first in the canonical order has the vote.
        nearest = max(rivals, key=lambda k: (overlap_of(visible[i], visible[k]), -order.index(k)))
        share = overlap_of(visible[i], visible[nearest])
        if share >= 0.3 and i != nearest:
            say, own = (
                np.exp(settings.gamma * (found.score[k] - settings.threshold)) for k in (i, nearest)
            )
            votes[place[nearest]] += share * (say - 1) / own
    return np.asarray(np.log(1 + votes) / settings.gamma)


SETTINGS = [
    {"energy": "paper"},
    {"energy": "odds"},
    {"value": "odds", "blocks": "all", "beta": 2.0, "price": 3.0},
    {"value": "score", "blocks": "visible", "rank": "score", "overlap": 0.2, "block": 5.0},
    {"energy": "paper", "solver": "marginal", "rank": "marginal"},
]


@pytest.mark.parametrize("given", SETTINGS)
def test_constraint_energy_and_rank(given: dict[str, object]) -> None:
    rng = np.random.default_rng(0)
    for _ in range(25):
        found = scattered(rng, int(rng.integers(1, 25)), tied=bool(rng.random() < 0.3))
        kept = covering(found, **given)  # type: ignore[arg-type]
        settings = Covering(**kept.settings)
        visible, whole = slow_scene(found, settings.block)
        for i in kept.indices:
            for j in kept.indices:
                if i != j and found.label[i] == found.label[j]:
                    assert overlap_of(visible[i], visible[j]) <= settings.overlap
        energy, marginal = slow_energy(found, kept.indices, settings)
        assert kept.energy == pytest.approx(energy)
        assert kept.bound is not None
        assert kept.energy is not None
        assert kept.bound >= kept.energy
        assert (found.score[kept.indices] >= settings.threshold).all()
        cover = visible if settings.blocks == "visible" else whole
        score = found.score[kept.indices]
        if settings.rank != "score":
            mass = settings.values(score) * cover[kept.indices].sum(axis=1)
            score = -1 + (score + 1) * np.sqrt(marginal / mass)
        if settings.rank == "support":
            score = score + slow_support(found, kept.indices, visible, settings)
        np.testing.assert_allclose(kept.rank, score, rtol=1e-6, atol=1e-6)
        assert (np.diff(kept.rank) <= 0).all()


def test_the_scene_is_the_slow_one() -> None:
    rng = np.random.default_rng(1)
    found = scattered(rng, 60)
    for block in (3.0, 8.0, 11.5):
        scene = blocks_of(found, block, whole=True)
        for shapes, expected in zip(
            (scene.visible, scene.whole), slow_scene(found, block), strict=True
        ):
            np.testing.assert_array_equal(shapes.area, expected.sum(axis=1))
            for k in range(len(found)):
                shared = (expected[k] & expected).sum(axis=1)
                everyone, size = np.arange(len(found)), np.maximum(expected.sum(axis=1), 1)
                np.testing.assert_array_equal(
                    overlaps_with(shapes, LOWER, k, everyone), shared / size
                )


def test_a_window_smaller_than_a_block_still_has_one() -> None:
    window = np.array([[9.0, 9, 11, 11], [-9, -9, -7, -7]])
    flags = (np.ones((2, 2), bool),) * 2
    found = Detections(
        np.ones(2), np.array(["a", "a"]), np.zeros(2, np.int64), np.zeros(2, bool), window, window,
        window, flags, (64, 64),
    )  # fmt: skip
    kept = covering(found)
    assert list(kept.indices) == [0]
    assert kept.why(1).kind == "nothing"


def boxes_at(*window: list[float], size: tuple[int, int]) -> Detections:
    """Detections of falling score whose boxes are their windows."""
    box, count = np.array(window, dtype=float), len(window)
    return Detections(
        np.linspace(1, 0.5, count), np.full(count, "a"), np.zeros(count, np.int64),
        np.zeros(count, bool), box, box, box, (np.ones((1, 1), bool),) * count, size,
    )  # fmt: skip


def test_a_box_that_begins_outside_the_picture_stays() -> None:
    assert len(covering(boxes_at([-20, 10, 3, 30], size=(64, 64)))) == 1
    assert len(covering(boxes_at([60, 10, 90, 30], [0, 0, 20, 20], size=(66, 61)))) == 2
    assert len(covering(boxes_at([9988, 978, 10000, 990], size=(990, 10000)))) == 1


def test_pictures_of_any_size() -> None:
    vast = 2**62
    near = covering(boxes_at([0, 0, 40, 40], [2, 0, 42, 40], [100, 0, 140, 40], size=(vast, vast)))
    assert set(near.indices) == {0, 2}
    with pytest.raises(SettingsError, match="use larger blocks"):
        covering(boxes_at([0, 0, vast, vast], size=(vast, vast)))
    with pytest.raises(SettingsError, match="use larger blocks"):
        covering(boxes_at([0, 0, 9, 9], [vast - 9000, vast - 9000, vast, vast], size=(vast, vast)))


def test_flags_must_be_grids() -> None:
    found = boxes_at([0, 0, 40, 40], size=(64, 64))
    with pytest.raises(ValueError, match="a grid of blocks has 1 dimensions, not 2"):
        replace(found, blocks=(np.ones(5, bool),))


@pytest.mark.parametrize("method", ["covering", "greedy", "soft", "meanshift", "voting"])
@pytest.mark.parametrize("value", ["odds", "score"])
def test_enormous_scores_are_refused_or_right(method: str, value: str) -> None:
    found = boxes_at([0, 0, 40, 40], [2, 0, 42, 40], [100, 0, 140, 40], size=(200, 200))
    settings = {"value": value} if method == "covering" else {}
    found = replace(found, score=np.array([1e308, 1.5e308, 1e307]))
    if method == "greedy":
        assert list(suppress(found, method).indices) == [1, 2]
    else:
        with pytest.raises(SettingsError, match="too large to compute with; rescale them"):
            suppress(found, method, **settings)
    large = replace(found, score=np.array([1e99, 1.5e99, 1e98]))
    if method == "covering" and value == "odds":
        with pytest.raises(SettingsError, match="rescale the scores"):
            suppress(large, method)
    else:
        assert set(suppress(large, method, **settings).indices) >= {1, 2}


def content(found: Detections, kept: Interpretation) -> list[tuple[float, ...]]:
    return [(*found.window[i], found.score[i], *found.visibility[i].ravel()) for i in kept.indices]


@pytest.mark.parametrize("method", ["covering", "greedy", "soft", "meanshift"])
def test_the_order_of_candidates_does_not_matter(method: str) -> None:
    rng = np.random.default_rng(2)
    for _ in range(40):
        found = scattered(rng, 20, tied=True)
        doubled = Detections.concatenate([found, found[:5]])
        shuffled = doubled[rng.permutation(25)]
        first, second = suppress(doubled, method), suppress(shuffled, method)
        assert content(doubled, first) == content(shuffled, second)
        np.testing.assert_allclose(first.rank, second.rank)


def test_never_below_a_greedy_set_that_is_allowed() -> None:
    rng = np.random.default_rng(3)
    compared = 0
    for _ in range(60):
        found = scattered(rng, 15)
        found = found[found.score >= -1]
        best = covering(found, energy="paper", overlap=0.5)
        settings = Covering(**best.settings)
        visible, _ = slow_scene(found, settings.block)
        chosen = suppress(found, "greedy", overlap=0.4).indices
        allowed = all(
            overlap_of(visible[i], visible[j]) <= 0.5
            for i in chosen
            for j in chosen
            if i != j and found.label[i] == found.label[j]
        )
        if allowed:
            compared += 1
            assert best.energy is not None
            assert best.energy >= slow_energy(found, chosen, settings)[0] - 1e-9
        marginal = covering(found, energy="paper", overlap=0.5, solver="marginal")
        assert best.energy is not None
        assert marginal.energy is not None
        assert marginal.bound is not None
        assert marginal.energy <= best.energy + 1e-9 <= marginal.bound + 1e-6
    assert compared > 10


def test_eta_of_one_keeps_all_that_add_energy() -> None:
    rng = np.random.default_rng(4)
    for _ in range(20):
        found = scattered(rng, 12)
        kept = covering(found, overlap=1.0)
        assert kept.optimal
        everyone = np.flatnonzero(found.score >= -1)
        total, _ = slow_energy(found, everyone, Covering(**kept.settings))
        assert kept.energy == pytest.approx(total)
        _, marginal = slow_energy(found, kept.indices, Covering(**kept.settings))
        assert (marginal > 0).all()


def test_eta_of_zero_keeps_disjoint_ones() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        found = scattered(rng, 20)
        kept = covering(found, overlap=0.0)
        visible, _ = slow_scene(found, 8.0)
        for name in ("car", "bus"):
            own = kept.indices[found.label[kept.indices] == name]
            assert visible[own].sum(axis=0).max(initial=0) <= 1


def test_box_measure_ignores_flags() -> None:
    left, right = np.zeros((4, 4), bool), np.zeros((4, 4), bool)
    left[:, :2], right[:, 2:] = True, True
    window = np.array([[0.0, 0, 64, 64], [0, 0, 64, 64]])
    found = Detections(
        np.array([1.0, 0.9]), np.array(["a", "a"]), np.zeros(2, np.int64), np.zeros(2, bool),
        window, window, window, (left, right), (64, 64),
    )  # fmt: skip
    assert len(covering(found, overlap=0.5)) == 2
    control = covering(found, overlap=0.5, measure="box")
    assert list(control.indices) == [0]
    assert str(control.why(1)) == "excluded by detection 0, overlap 1.00"


def test_why_names_the_strongest_kept_overlap() -> None:
    rng = np.random.default_rng(6)
    for _ in range(10):
        found = scattered(rng, 15)
        kept = covering(found, overlap=0.4)
        visible, _ = slow_scene(found, 8.0)
        for i in range(15):
            reason = kept.why(i)
            rivals = [
                overlap_of(visible[i], visible[k])
                for k in kept.indices
                if found.label[k] == found.label[i]
            ]
            if reason.kind == "excluded":
                assert reason.by in kept.indices
                assert reason.overlap == pytest.approx(max(rivals))
                assert reason.overlap > 0.4
            elif reason.kind == "nothing" and found.score[i] >= -1:
                assert max(rivals) <= 0.4


def test_empty_and_one() -> None:
    nothing = covering(Detections.empty(SIZE))
    assert len(nothing) == 0
    assert (nothing.energy, nothing.bound, nothing.optimal) == (0, 0, True)
    one = scattered(np.random.default_rng(0), 1)
    kept = covering(one, threshold=-2)
    assert list(kept.indices) == [0]
    assert kept.rank[0] == pytest.approx(one.score[0])


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_scores_must_be_finite(value: float) -> None:
    found = scattered(np.random.default_rng(0), 3)
    found.score[2] = value
    with pytest.raises(SettingsError, match="at detection 2"):
        covering(found)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"overlap": -0.1}, r"overlap must lie between 0 and 1, found -0\.1"),
        ({"overlap": float("nan")}, "found nan"),
        ({"value": "scores"}, "value must be one of odds, score, found 'scores'"),
        ({"energy": "papper"}, "energy must be one of odds, paper, found 'papper'"),
        ({"price": -1.0}, "price must lie"),
        ({"bata": 0.5}, "covering suppression has no setting 'bata'; did you mean 'beta'"),
        ({"max_nodes": 2.5}, "max_nodes must be a whole number, found '2.5'"),
        ({"beta": 1e5}, "rescale the scores"),
    ],
)
def test_wrong_settings(given: dict[str, object], message: str) -> None:
    found = scattered(np.random.default_rng(0), 3)
    with pytest.raises(SettingsError, match=message):
        suppress(found, "covering", **given)


def test_ten_thousand_candidates(caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(7)
    count = 10_000
    middle, half = rng.uniform(0, 400, (count, 2)), rng.uniform(20, 60, (count, 2))
    window = np.hstack([middle - half, middle + half])
    found = Detections(
        rng.uniform(-1, 1, count), np.full(count, "car"), np.zeros(count, np.int64),
        np.zeros(count, bool), window, window, window, (np.ones((2, 2), bool),) * count, (400, 400),
    )  # fmt: skip
    with caplog.at_level(logging.WARNING):
        kept = covering(found, max_work=200_000_000)
    assert "10000 candidates" in caplog.text
    assert not kept.optimal
    assert kept.energy is not None
    assert kept.bound is not None
    assert kept.energy < kept.bound < 1.5 * kept.energy
