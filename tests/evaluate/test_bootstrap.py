"""Crowded images, and the paired bootstrap against copies of images made in earnest."""

import math
from functools import partial

import numpy as np
import pytest

from halfseen.detections import Detections, GroundTruth
from halfseen.errors import SettingsError
from halfseen.evaluate import bootstrap
from halfseen.evaluate.bootstrap import (
    Among,
    Steps,
    bootstrap_difference,
    bootstrap_miss_rates,
    crowded,
)
from halfseen.evaluate.miss_rate import Setup, miss_rates
from halfseen.evaluate.pool import Pool
from halfseen.evaluate.voc_ap import average_precision, match
from tests import builders

SIZE = (100, 100)
make_found = partial(builders.make_found, size=SIZE)
make_truth = partial(builders.make_truth, size=SIZE)


def random_images(
    rng: np.random.Generator, count: int = 15, noise: float = 6.0
) -> tuple[list[GroundTruth], list[Detections]]:
    truths, founds = [], []
    for k in range(count):
        corner = rng.uniform(0, 60, (rng.integers(0, 4), 2))
        boxes = np.hstack([corner, corner + rng.uniform(10, 40, corner.shape)])
        truths.append(make_truth(boxes, str(k), difficult=rng.random(len(boxes)) < 0.2))
        near = np.repeat(boxes, 2, axis=0) + rng.normal(0, noise, (2 * len(boxes), 4))
        founds.append(make_found(np.vstack([near, [(0, 0, 9, 9)]]), rng.normal(size=len(near) + 1)))
    return truths, founds


def test_crowded_images() -> None:
    truths = [
        make_truth([(0, 0, 10, 10), (4, 0, 14, 10)]),  # 60 / 140
        make_truth([(0, 0, 10, 10), (8, 0, 18, 10)]),  # 20 / 180
        make_truth([(0, 0, 10, 10)]),
        make_truth([(0, 0, 10, 10), (4, 0, 14, 10)], difficult=[True, False]),
        make_truth([(0, 0, 10, 10), (4, 0, 14, 10)], crowd=[True, False]),
        GroundTruth.make("b", "", SIZE, ["car", "bus"], [(0, 0, 10, 10)] * 2),
    ]
    assert crowded(truths, "car") == [0, 3]
    assert crowded(truths, "car", overlap=0.1) == [0, 1, 3]


@pytest.mark.parametrize("seed", range(10))
def test_weighted_ap_is_the_ap_of_copies(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truths, founds = random_images(rng)
    drawn = np.sort(rng.integers(len(truths), size=len(truths)))
    times = np.bincount(drawn, minlength=len(truths))
    copies = average_precision([truths[k] for k in drawn], [founds[k] for k in drawn], "car")
    matches = match(truths, founds, "car")
    (quick,) = Steps.of(matches).ap(
        times[None].astype(float), np.array([times @ matches.wanted], np.float64)
    )
    assert quick == pytest.approx(copies.ap, abs=1e-12)


def test_difference_and_its_interval() -> None:
    rng = np.random.default_rng(0)
    truths, good = random_images(rng, 60, noise=1.0)
    poor = [make_found(f.full + 12 * (rng.random((len(f), 1)) < 0.5), f.score) for f in good]
    first, second = match(truths, poor, "car"), match(truths, good, "car")
    result = bootstrap_difference(first, second, resamples=300)
    assert result.first == pytest.approx(average_precision(truths, poor, "car").ap)
    assert result.second == pytest.approx(average_precision(truths, good, "car").ap)
    assert 0 < result.low < result.difference < result.high
    back = bootstrap_difference(second, first, resamples=300)
    assert (back.low, back.high) == pytest.approx((-result.high, -result.low))
    assert bootstrap_difference(first, second, resamples=300) == result


@pytest.mark.parametrize("kept", [0, 1 << 20])
def test_resamples_are_those_of_a_plain_loop(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in parts, and where images that hold nothing are left out of the matching."""
    monkeypatch.setattr(bootstrap, "KEPT_BYTES", kept)
    monkeypatch.setattr(bootstrap, "AT_ONCE", 1000)
    truths, founds = random_images(np.random.default_rng(3), 30)
    worse = [f[: len(f) // 2] for f in founds]
    pools = [Pool.of(truths, part, "car") for part in (founds, worse)]
    pair = [match(truths, part, "car") for part in (founds, worse)]
    rng, ap, miss = np.random.default_rng(5), [], []
    for _ in range(40):
        drawn = np.sort(rng.integers(len(truths), size=len(truths)))
        copies = [truths[k] for k in drawn]
        parts = [[part[k] for k in drawn] for part in (founds, worse)]
        if not any((~t.difficult).any() for t in copies):
            continue
        good, poor = (average_precision(copies, p, "car").ap for p in parts)
        ap.append(good - poor)
        rates = [miss_rates(Pool.of(copies, p, "car"), {"any": Setup()}) for p in parts]
        miss.append(rates[0]["any"].value - rates[1]["any"].value)
    found = bootstrap_difference(pair[1], pair[0], resamples=40, seed=5)
    assert (found.low, found.high) == pytest.approx(np.quantile(ap, [0.025, 0.975]), abs=1e-12)
    first, second = (miss_rates(pool, {"any": Setup()})["any"] for pool in pools)
    rate = bootstrap_miss_rates(second, first, resamples=40, seed=5)
    assert (rate.low, rate.high) == pytest.approx(np.quantile(miss, [0.025, 0.975]), abs=1e-12)
    full = np.array([k for k, t in enumerate(truths) if len(t)])
    among = Among(len(truths), full)
    some = [match([truths[k] for k in full], [p[k] for k in full], "car") for p in (founds, worse)]
    again = bootstrap_difference(some[1], some[0], resamples=40, seed=5, among=among)
    assert again.resamples == found.resamples


def test_a_method_does_not_differ_from_itself() -> None:
    truths, founds = random_images(np.random.default_rng(1))
    matches = match(truths, founds, "car")
    result = bootstrap_difference(matches, matches, resamples=50)
    assert (result.difference, result.low, result.high) == (0, 0, 0)
    assert str(result) == "+0.0 AP [0.0, 0.0]"


def test_wider_confidence_gives_a_wider_interval() -> None:
    truths, founds = random_images(np.random.default_rng(2), 40)
    halves = [f[: len(f) // 2] for f in founds]
    pair = match(truths, halves, "car"), match(truths, founds, "car")
    narrow = bootstrap_difference(*pair, resamples=200, confidence=0.5)
    wide = bootstrap_difference(*pair, resamples=200, confidence=0.99)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_nothing_to_find_gives_no_interval() -> None:
    for truths in ([], [make_truth([])]):
        matches = match(truths, [make_found([], [])] * len(truths), "car")
        result = bootstrap_difference(matches, matches, resamples=5)
        assert math.isnan(result.difference)
        assert math.isnan(result.low)
        assert result.resamples == 0


def test_methods_must_be_judged_alike() -> None:
    here, there = make_truth([(0, 0, 9, 9)]), make_truth([])
    one = match([here], [make_found([], [])], "car")
    other = match([there], [make_found([], [])], "car")
    with pytest.raises(SettingsError, match="1 car and 0 car"):
        bootstrap_difference(one, other)
    with pytest.raises(SettingsError, match="at least one resample"):
        bootstrap_difference(one, one, resamples=0)
