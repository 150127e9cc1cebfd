"""Log-average miss rate against a slow transcription of the protocol, and cases by hand."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from halfseen.detections import Detections
from halfseen.evaluate.groups import group_objects
from halfseen.evaluate.miss_rate import REFERENCES, SETUPS, Setup, miss_rates
from halfseen.evaluate.pool import Pool
from halfseen.ground_truth import GroundTruth
from tests.builders import make_found, make_truth

SIZE = (400, 400)
Box = list[float]


def slow_overlap(found: Box, true: Box, ignored: bool) -> float:
    wide = min(found[2], true[2]) - max(found[0], true[0])
    high = min(found[3], true[3]) - max(found[1], true[1])
    if wide <= 0 or high <= 0:
        return 0.0
    own = (found[2] - found[0]) * (found[3] - found[1])
    other = (true[2] - true[0]) * (true[3] - true[1])
    return wide * high / (own if ignored else own + other - wide * high)


def slow_image(
    truth: GroundTruth, found: Detections, setup: Setup
) -> tuple[list[tuple[float, bool]], int]:
    """(score, right) of each detection that counts, and the number of objects to be found."""
    objects = []
    for j, box in enumerate(truth.box.tolist()):
        height = box[3] - box[1]
        seen = truth.visible_fraction[j]
        seen = 1.0 if math.isnan(seen) else seen
        inside = setup.heights[0] <= height <= setup.heights[1]
        inside = inside and setup.visible[0] <= seen <= setup.visible[1]
        left_out = truth.difficult[j] or truth.crowd[j] or truth.ignore[j]
        objects.append((box, not inside or bool(left_out)))
    objects.sort(key=lambda one: one[1])  # those that count first; sorting is stable
    ranked = sorted(
        zip(found.score.tolist(), found.full.tolist(), strict=True), key=lambda d: -d[0]
    )
    taken: set[int] = set()
    events = []
    for score, box in ranked[:1000]:
        height = box[3] - box[1]
        if height < setup.heights[0] / 1.25 or height >= setup.heights[1] * 1.25:
            continue
        best, chosen = 0.5, None
        for j, (true, ignored) in enumerate(objects):
            if j in taken:
                continue
            if chosen is not None and ignored:
                break
            overlap = slow_overlap(box, true, ignored)
            if overlap >= best:
                best, chosen = overlap, j
        if chosen is None:
            events.append((score, False))
        elif not objects[chosen][1]:
            taken.add(chosen)
            events.append((score, True))
    return events, sum(not ignored for _, ignored in objects)


def slow_miss_rate(truths: list[GroundTruth], founds: list[Detections], setup: Setup) -> float:
    events, objects = [], 0
    for truth, found in zip(truths, founds, strict=True):
        more, wanted = slow_image(truth, found, setup)
        events += more
        objects += wanted
    if not objects:
        return math.nan
    events.sort(key=lambda event: -event[0])
    logs = []
    for k in range(9):
        reference = 10 ** (-2 + k / 4)
        miss, right, wrong = 1.0, 0, 0
        for _, hit in events:
            right, wrong = right + hit, wrong + (not hit)
            if wrong / len(truths) > reference + 1e-12:
                break
            miss = 1 - right / objects
        logs.append(math.log(max(miss, 1e-10)))
    return math.exp(sum(logs) / 9)


def people(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    corner = rng.uniform(0, 200, (count, 2))
    height = rng.uniform(15, 150, count)
    return np.hstack([corner, corner + np.stack([0.41 * height, height], axis=1)])


def random_images(
    rng: np.random.Generator, images: int
) -> tuple[list[GroundTruth], list[Detections]]:
    truths, founds = [], []
    for k in range(images):
        true = people(rng, int(rng.integers(0, 8)))
        count = len(true)
        seen = np.where(rng.random(count) < 0.1, np.nan, rng.random(count))
        flags: Any = {name: rng.random(count) < 0.1 for name in ("difficult", "crowd", "ignore")}
        truths.append(make_truth(true, f"{k}", size=SIZE, visible_fraction=seen, **flags))
        near = np.repeat(true, 2, axis=0) + rng.normal(0, 4, (2 * count, 4))
        near[:, 2:] = np.maximum(near[:, 2:], near[:, :2] + 1)
        boxes = np.vstack([near, people(rng, 4)])
        scores = np.round(rng.random(len(boxes)), 3)  # some are equal
        founds.append(make_found(boxes, scores, size=SIZE))
    return truths, founds


@pytest.mark.parametrize("seed", range(8))
def test_against_the_slow_transcription(seed: int) -> None:
    truths, founds = random_images(np.random.default_rng(seed), 40)
    setups = {**SETUPS, "small": Setup((50, 75), (0.65, 1.0)), "any": Setup()}
    ours = miss_rates(Pool.of(truths, founds, "car", "as given"), setups)
    for name, setup in setups.items():
        slow = slow_miss_rate(truths, founds, setup)
        assert ours[name].value == pytest.approx(slow, abs=1e-12, nan_ok=True), name


def test_a_perfect_detector_and_a_blind_one() -> None:
    truth = make_truth([(0, 0, 40, 100)], size=SIZE)
    right = make_found([(0, 0, 40, 100)], [1.0], size=SIZE)
    for found, value in ((right, 1e-10), (Detections.empty(SIZE), 1.0)):
        rates = miss_rates(Pool.of([truth], [found], "car", "as given"))
        assert rates["Reasonable"].value == pytest.approx(value)
        assert math.isnan(rates["heavy"].value)


def test_half_found_without_a_false_alarm() -> None:
    truths = [make_truth([(0, 0, 40, 100)], f"{k}", size=SIZE) for k in range(2)]
    founds = [make_found([(0, 0, 40, 100)], [1.0], size=SIZE), Detections.empty(SIZE)]
    rate = miss_rates(Pool.of(truths, founds, "car", "as given"))["Reasonable"]
    assert rate.value == pytest.approx(0.5)
    assert rate.rates.tolist() == [0.5] * 9
    assert (rate.objects, rate.wanted.tolist()) == (2, [1, 1])


def test_an_early_false_alarm_costs_the_rates_below_it() -> None:
    """One false alarm in ten images, before the right one: missed at rates below 0.1."""
    truths = [make_truth([(0, 0, 40, 100)] if k == 0 else [], f"{k}", size=SIZE) for k in range(10)]
    founds = [make_found([(200, 0, 240, 100), (0, 0, 40, 100)], [0.9, 0.8], size=SIZE)]
    founds += [Detections.empty(SIZE)] * 9
    rate = miss_rates(Pool.of(truths, founds, "car", "as given"), {"any": Setup()})["any"]
    assert rate.rates.tolist() == [1] * 4 + [0] * 5
    assert REFERENCES[4] == pytest.approx(0.1)


def test_many_detections_in_an_ignored_region_cost_nothing() -> None:
    truth = make_truth([(0, 0, 300, 300), (310, 0, 350, 100)], size=SIZE, ignore=[True, False])
    inside = [(10.0 * k, 10, 10 * k + 40, 110) for k in range(5)]
    found = make_found([*inside, (310, 0, 350, 100)], size=SIZE)
    rate = miss_rates(Pool.of([truth], [found], "car", "as given"))["Reasonable"]
    assert rate.right.tolist() == [True]


def test_subsets_of_any_height() -> None:
    truths, founds = random_images(np.random.default_rng(5), 30)
    groups = group_objects(truths, "visible", "car")
    ours = miss_rates(Pool.of(truths, founds, "car", "as given"), {}, groups)
    assert list(ours) == [f"{low}-{low + 25}% visible" for low in (0, 25, 50, 75)]
    for name, low, high in (("25-50% visible", 0.25, 0.5), ("75-100% visible", 0.75, 1.0)):
        known = [
            replace(truth, visible_fraction=np.nan_to_num(truth.visible_fraction, nan=-1))
            for truth in truths
        ]
        setup = Setup((0, math.inf), (low, np.nextafter(high, 0) if high < 1 else 1.0))
        assert ours[name].value == pytest.approx(slow_miss_rate(known, founds, setup))
