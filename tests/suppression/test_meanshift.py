"""Mean shift and Soft-NMS of detections against slow versions."""

from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from halfseen.errors import SettingsError
from halfseen.suppression import suppress
from halfseen.suppression.adapters import from_numpy
from halfseen.suppression.meanshift_kernels import climb

meanshift = partial(suppress, method="meanshift")
soft = partial(suppress, method="soft")


def jittered(seed: int, places: int = 2, each: int = 6) -> NDArray[np.float64]:
    """(N, 4) boxes around a few places that lie far apart."""
    rng = np.random.default_rng(seed)
    middle = np.repeat(np.arange(places) * 300.0 + 100, each)
    middle = np.column_stack([middle, np.full(len(middle), 100)]) + rng.normal(
        0, 2, (len(middle), 2)
    )
    half = np.exp(rng.normal(np.log(40), 0.05, (len(middle), 1)))
    return np.hstack([middle - half, middle + half])


def density(
    at: NDArray[np.float64], points: NDArray[np.float64], deviation: NDArray[np.float64],
    weight: NDArray[np.float64],
) -> float:  # fmt: skip
    """Dalal's density, up to a constant."""
    distance = (((at - points) / deviation) ** 2).sum(axis=1)
    return float((weight / deviation.prod(axis=1) * np.exp(-distance / 2)).sum())


def test_points_climb_to_maxima_of_the_density() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(0, 1, (20, 3))
    deviation = rng.uniform(0.5, 1.5, (20, 3))
    weight = rng.uniform(0.1, 1, 20)
    modes, _, _ = climb(points, deviation, weight, 5000, 1e-10, np.inf)
    for start, mode in zip(points, modes, strict=True):
        top = density(mode, points, deviation, weight)
        assert top >= density(start, points, deviation, weight)
        for axis in np.eye(3):
            for step in (-1e-3, 1e-3):
                assert density(mode + step * axis, points, deviation, weight) <= top * (1 + 1e-9)


def test_one_detection_for_each_place() -> None:
    for seed in range(5):
        boxes = jittered(seed)
        scores = np.random.default_rng(seed).uniform(0, 1, 12)
        kept = meanshift(from_numpy(boxes, scores))
        best = {int(scores[:6].argmax()), 6 + int(scores[6:].argmax())}
        assert set(kept.indices) == best
        for i in range(12):
            if i not in best:
                assert kept.why(i).kind == "excluded"
                assert kept.why(i).by in best
                assert (kept.why(i).by or 0) // 6 == i // 6


def test_a_lone_detection_keeps_its_score_and_company_raises_it() -> None:
    boxes = jittered(1, each=1)
    alone = meanshift(from_numpy(boxes, [0.5, 0.2]))
    np.testing.assert_allclose(alone.rank, [0.5, 0.2])
    both = meanshift(from_numpy(np.vstack([boxes, boxes[1:]]), [0.5, 0.2, 0.2]))
    assert list(both.indices) == [1, 0]
    np.testing.assert_allclose(both.rank, [-1 + 2 * 1.2, 0.5])


def test_far_scales_do_not_fuse() -> None:
    small, large = [90, 90, 110, 110], [20, 20, 180, 180]
    assert len(meanshift(from_numpy([small, large], [0.5, 0.5]))) == 2


@pytest.mark.parametrize("decay", ["gaussian", "linear"])
def test_soft_matches_a_loop(decay: str) -> None:
    rng = np.random.default_rng(2)
    corner = rng.uniform(0, 40, (15, 2))
    boxes = np.hstack([corner, corner + rng.uniform(10, 40, (15, 2))])
    scores = rng.uniform(-1, 1, 15)

    def overlap(i: int, j: int) -> float:
        side = np.minimum(boxes[i, 2:], boxes[j, 2:]) - np.maximum(boxes[i, :2], boxes[j, :2])
        shared = np.prod(np.maximum(side, 0))
        areas = [np.prod(boxes[n, 2:] - boxes[n, :2]) for n in (i, j)]
        return float(shared / (sum(areas) - shared))

    rest, remaining, order = scores + 1, list(range(15)), []
    while remaining:
        best = max(remaining, key=lambda i: rest[i])
        order.append(best)
        remaining.remove(best)
        for i in remaining:
            r = overlap(best, i)
            linear = 1 - r if r > 0.3 else 1.0
            rest[i] *= np.exp(-(r**2) / 0.5) if decay == "gaussian" else linear
        remaining = [i for i in remaining if rest[i] > 0.2]
    kept = soft(from_numpy(boxes, scores), decay=decay, least=0.2)
    assert set(kept.indices) == set(order)
    np.testing.assert_allclose(kept.rank, np.sort(rest[order] - 1)[::-1])
    assert 1 < len(kept) < 15


def test_wrong_settings() -> None:
    found = from_numpy([[0, 0, 5, 5]], [1])
    with pytest.raises(SettingsError, match="decay must be one of gaussian, linear, found 'cubic'"):
        suppress(found, "soft", decay="cubic")
    with pytest.raises(SettingsError, match="sigma_x must lie"):
        suppress(found, "meanshift", sigma_x=0)
    found.score[0] = np.nan
    for method in ("soft", "meanshift"):
        with pytest.raises(SettingsError, match="finite, found nan"):
            suppress(found, method)
