"""Windows of a level against explicit loops: responses, padding, bounds, exact scores."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from halfseen.arrays import Bool, Float32, Float64, Int64
from halfseen.detect import responses
from halfseen.detect import search as searching
from halfseen.detect.responses import Rule, find_level, pack_weights
from halfseen.detect.search import Search, Windows, find_windows
from halfseen.detect.view import MirrorBasis, Plane
from halfseen.detect.windows import gather_features
from halfseen.errors import ModelError
from halfseen.model.mixture import Component
from halfseen.visibility.infer import chain_bound, infer_visibility, solve

# (rows, cols) of the template and of the level: odd, even, thin, single, larger than the level.
CASES = [
    ((3, 4), (7, 9)), ((4, 3), (9, 7)), ((5, 5), (6, 11)), ((1, 1), (4, 3)), ((1, 6), (5, 8)),
    ((6, 1), (8, 5)), ((2, 2), (2, 2)), ((6, 7), (4, 3)), ((8, 12), (15, 20)),
    ((3, 17), (5, 3)), ((17, 3), (4, 6)), ((3, 16), (5, 7)), ((2, 17), (3, 1)),
]  # fmt: skip


def level(size: tuple[int, int], seed: int = 0, channels: int = 5) -> Float32:
    return np.random.default_rng(seed).random((*size, channels), np.float32)


def template(shape: tuple[int, int], seed: int = 1, channels: int = 5) -> Component:
    """Blocks whose responses scatter around u, so that many are hidden and many are not."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(0, 0.2, (*shape, channels)).astype(np.float32)
    return Component(weights, -0.4, -0.05, 0.03, np.array([0.0, 0.0, shape[1], shape[0]]))


def explicit(features: Float32, component: Component) -> tuple[Int64, Int64, Float64, Bool]:
    """Of all places, row by row: y, x, the responses of the blocks, which blocks are outside."""
    height, width = features.shape[:2]
    rows, cols = component.shape
    ys, xs, blocks, outside = [], [], [], []
    for y in range(height + 1):
        for x in range(width + 1):
            grid, out = np.zeros((rows, cols)), np.zeros((rows, cols), bool)
            for i in range(rows):
                for j in range(cols):
                    row, col = y - (rows + 1) // 2 + i, x - (cols + 1) // 2 + j
                    if 0 <= row < height and 0 <= col < width:
                        product = component.weights[i, j].astype(np.float64) * features[row, col]
                        grid[i, j] = product.sum()
                    else:
                        out[i, j] = True
            ys.append(y)
            xs.append(x)
            blocks.append(grid)
            outside.append(out)
    return np.array(ys), np.array(xs), np.array(blocks), np.array(outside)


FIELDS = ("level", "y", "x", "score", "flags", "outside")


def in_order(windows: Windows) -> Windows:
    order = np.lexsort((windows.x, windows.y, windows.level))
    return Windows(*(getattr(windows, field)[order] for field in FIELDS))


def assert_same(
    found: Windows, expected: Windows, *, rtol: float = 1e-7, atol: float = 0.0
) -> None:
    found, expected = in_order(found), in_order(expected)
    for name in ("level", "y", "x", "flags", "outside"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    np.testing.assert_allclose(found.score, expected.score, rtol=rtol, atol=atol)


def record_parts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of windows of each later call of `solve`."""
    parts: list[int] = []

    def counting(problem: Any) -> Any:
        parts.append(len(problem.responses))
        return solve(problem)

    monkeypatch.setattr(searching, "solve", counting)
    return parts


def by_exact_scores(
    features: Float32, component: Component, threshold: float, alpha: float
) -> Windows:
    """Every window solved by itself, none dropped by a bound."""
    y, x, blocks, outside = explicit(features, component)
    scores, flags = infer_visibility(blocks, component.u, alpha, outside)
    scores = scores + component.bias + component.u_t * outside.sum((1, 2))
    keep = scores >= threshold
    return Windows(
        np.zeros(keep.sum(), int), y[keep], x[keep], scores[keep], flags[keep], outside[keep]
    )


def between(scores: NDArray[np.floating[Any]], share: float) -> float:
    """A threshold midway between two scores, with this share of the scores below it."""
    ranked = np.unique(scores.round(6))
    k = int(share * (len(ranked) - 1))
    return float(ranked[k] + ranked[k + 1]) / 2


def every_window(
    features: Float32, component: Component, alpha: float, visibility: bool
) -> tuple[Int64, Float32, Float32]:
    """(places, sums or bounds, blocks) of all windows, row by row."""
    weights = component.weights.reshape(-1, features.shape[2])
    biases = (component.bias, component.u, component.u_t)
    rule = Rule(1, *component.shape, *biases, alpha, visibility, True, -np.inf)
    packed = pack_weights(weights, weights[:, :0], component.shape)
    parts = list(find_level(packed, Plane.of(features), rule))
    places, value, blocks = (np.concatenate([part[k] for part in parts]) for k in range(3))
    assert not places[:, :2].any()
    return places[:, 2:], value, blocks


@pytest.mark.parametrize(("shape", "size"), CASES)
def test_all_places_without_visibility_are_the_explicit_sums(
    shape: tuple[int, int], size: tuple[int, int]
) -> None:
    features, component = level(size), template(shape)
    y, x, blocks, outside = explicit(features, component)
    score = component.bias + blocks.sum((1, 2)) + component.u_t * outside.sum((1, 2))
    found = find_windows(features, component, -np.inf, 0.0, False)
    assert len(found.y) == (size[0] + 1) * (size[1] + 1)
    assert outside.any()
    assert_same(found, Windows(np.zeros_like(y), y, x, score, ~outside, outside), atol=1e-5)
    threshold = between(score, 0.5)
    above = find_windows(features, component, threshold, 0.0, False)
    assert 0 < len(above.y) == (score >= threshold).sum() < len(score)
    assert above.score.min() >= threshold


@pytest.mark.parametrize("alpha", [0.0, 0.02, 0.3])
@pytest.mark.parametrize(("shape", "size"), CASES)
def test_windows_are_those_that_reach_the_threshold_when_all_are_solved(
    shape: tuple[int, int], size: tuple[int, int], alpha: float
) -> None:
    features, component = level(size, 2), template(shape, 3)
    everything = by_exact_scores(features, component, -np.inf, alpha)
    assert_same(find_windows(features, component, -np.inf, alpha, True), everything, atol=1e-5)
    for share in (0.3, 0.9):
        threshold = between(everything.score, share)
        expected = by_exact_scores(features, component, threshold, alpha)
        found = find_windows(features, component, threshold, alpha, True)
        assert 0 < len(found.y) < len(everything.y)
        assert_same(found, expected, atol=1e-5)


def test_a_window_at_the_threshold_itself_is_kept() -> None:
    """The bound is summed in another order than the score, and must not lose it."""
    features = level((12, 14), 4)
    for seed in range(20):
        component = template((4, 5), seed)
        everything = find_windows(features, component, -np.inf, 0.05, True)
        for threshold in everything.score[::17]:
            found = find_windows(features, component, float(threshold), 0.05, True)
            assert len(found.y) == (everything.score >= threshold).sum()


@pytest.mark.parametrize("alpha", [0.0, 0.02, 0.3])
@pytest.mark.parametrize(("shape", "size"), CASES)
def test_the_bound_is_the_chain_bound_and_never_below_the_exact_score(
    shape: tuple[int, int], size: tuple[int, int], alpha: float
) -> None:
    features, component = level(size, 5), template(shape, 6)
    y, x, blocks, outside = explicit(features, component)
    constant = component.bias + component.u_t * outside.sum((1, 2))
    places, bound, taken = every_window(features, component, alpha, True)
    np.testing.assert_array_equal(places, np.stack([y, x], axis=1))
    np.testing.assert_allclose(taken.reshape(blocks.shape), blocks, atol=1e-5)
    chains = chain_bound(blocks, component.u, alpha, outside) + constant
    np.testing.assert_allclose(bound, chains, atol=2e-4)  # which is raised beyond its rounding
    exact = infer_visibility(blocks, component.u, alpha, outside)[0] + constant
    assert (bound >= exact - 1e-5).all()
    plain = np.where(outside, 0, np.maximum(blocks, component.u)).sum((1, 2)) + constant
    assert (bound <= plain + 1e-5).all()
    if alpha == 0.3 and min(shape) > 2:
        assert (plain - bound).mean() > 0.1


@pytest.mark.parametrize("most", [None, 30])
@pytest.mark.parametrize("alpha", [0.0, 0.05])
def test_windows_of_which_nothing_is_visible_may_be_left_out(
    alpha: float, most: int | None
) -> None:
    features = level((12, 14), 18)
    component = replace(template((4, 5), 19), u=0.4)
    everything = find_windows(features, component, -np.inf, alpha, True)
    seen = np.asarray(everything.flags.any((1, 2)))
    assert 30 < seen.sum() < len(seen) - 10
    search = Search(component, -np.inf, alpha, True, most, blank=False)
    search.add(Plane.of(features))
    (found,) = search.windows()
    assert found.flags.any((1, 2)).all()
    expected = np.sort(everything.score[seen])[::-1]
    np.testing.assert_allclose(np.sort(found.score)[::-1][:most], expected[:most], atol=1e-5)
    assert most is not None or len(found.y) == seen.sum()


# Two channels swap, two swap, one stays; all stay; all swap.
FLIPS = [[3, 1, 4, 0, 2], [0, 1, 2, 3, 4], [1, 0, 3, 2]]


@pytest.mark.parametrize("flip", FLIPS)
def test_a_mirror_keeps_what_is_even_and_negates_what_is_odd(flip: list[int]) -> None:
    basis = MirrorBasis(np.array(flip))
    whole = np.concatenate([basis.even, basis.odd])
    np.testing.assert_allclose(whole @ whole.T, np.eye(len(flip)), atol=1e-6)
    np.testing.assert_array_equal(basis.even[:, flip], basis.even)
    np.testing.assert_array_equal(basis.odd[:, flip], -basis.odd)


def test_a_mirror_that_is_none_is_refused() -> None:
    with pytest.raises(ModelError, match="applied twice"):
        MirrorBasis(np.array([1, 2, 0]))


@pytest.mark.parametrize("flip", FLIPS)
@pytest.mark.parametrize("visibility", [False, True])
@pytest.mark.parametrize(("shape", "size"), CASES)
def test_a_component_and_its_mirror_image_are_found_as_each_alone(
    shape: tuple[int, int], size: tuple[int, int], visibility: bool, flip: list[int]
) -> None:
    features = level(size, 16, len(flip))
    component = template(shape, 17, len(flip))
    basis = MirrorBasis(np.array(flip))
    templates = (component, component.mirrored(basis.flip))
    everything = [find_windows(features, t, -np.inf, 0.05, visibility) for t in templates]
    threshold = between(np.concatenate([w.score for w in everything]), 0.5)
    search = Search(component, threshold, 0.05, visibility, basis=basis)
    search.add(Plane.of(features, basis))
    found = search.windows()
    assert 0 < sum(len(w.y) for w in found) < sum(len(w.y) for w in everything)
    for windows, alone in zip(found, templates, strict=True):
        expected = find_windows(features, alone, threshold, 0.05, visibility)
        assert_same(windows, expected, atol=1e-5)


@pytest.mark.parametrize("visibility", [False, True])
@pytest.mark.parametrize("shape", [(3, 4), (5, 2), (1, 1), (8, 12)])
def test_a_search_that_stops_and_goes_on_finds_the_same(
    shape: tuple[int, int], visibility: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    features, component = level((41, 23), 7), template(shape, 8)
    whole = every_window(features, component, 0.05, visibility)
    for rows in (1, 3, 40):
        with monkeypatch.context() as patch:
            patch.setattr(responses, "HELD", rows * (features.shape[1] + 1))
            again = every_window(features, component, 0.05, visibility)
        for k in range(3):
            np.testing.assert_allclose(again[k], whole[k], atol=1e-5)
    everything = find_windows(features, component, -np.inf, 0.05, visibility)
    threshold = between(everything.score, 0.7)
    few = find_windows(features, component, threshold, 0.05, visibility)
    assert 50 < len(few.y) < 500
    monkeypatch.setattr(searching, "WAITING_BYTES", 1 << 6)
    monkeypatch.setattr(responses, "HELD", 0)
    parts = record_parts(monkeypatch)
    found = find_windows(features, component, threshold, 0.05, visibility)
    assert len(parts) > 1 or not visibility
    assert_same(found, few, atol=1e-5)


def test_features_in_planes_give_the_same_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    features, component = level((20, 13), 14), template((4, 3), 15)
    planes = np.ascontiguousarray(features.transpose(2, 0, 1)).transpose(1, 2, 0)
    assert not planes.flags.c_contiguous
    expected = find_windows(features, component, -0.3, 0.05, True)
    assert len(expected.y) > 20
    assert_same(find_windows(planes, component, -0.3, 0.05, True), expected, atol=1e-5)
    monkeypatch.setattr(responses, "HELD", 0)  # in parts
    assert_same(find_windows(planes, component, -0.3, 0.05, True), expected, atol=1e-5)


@pytest.mark.parametrize("visibility", [False, True])
def test_a_search_of_several_levels_finds_what_each_holds(visibility: bool) -> None:
    component = template((3, 4), 9)
    levels = [level(size, 10 + k) for k, size in enumerate([(12, 15), (4, 30), (3, 4), (2, 1)])]
    search = Search(component, -0.2, 0.05, visibility)
    for features in levels:
        search.add(Plane.of(features))
    found = in_order(search.windows()[0])
    for k, features in enumerate(levels):
        alone = find_windows(features, component, -0.2, 0.05, visibility)
        here = found.level == k
        part = Windows(*(getattr(found, field)[here] for field in FIELDS))
        expected = replace(alone, level=alone.level + k)
        assert_same(part, expected, rtol=0)
    assert set(found.level) >= {0, 1, 2}


@pytest.mark.parametrize("visibility", [False, True])
def test_two_sides_of_many_levels_are_the_same_in_parts(
    visibility: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    basis = MirrorBasis(np.array(FLIPS[0]))
    component = template((3, 4), 9)
    levels = [level(size, 20 + k) for k, size in enumerate([(12, 15), (4, 30), (3, 4), (14, 9)])]
    planes = [Plane.of(features, basis) for features in levels]

    def search() -> list[Windows]:
        own = Search(component, -0.2, 0.05, visibility, basis=basis)
        for plane in planes:
            own.add(plane)
        return own.windows()

    whole = search()
    assert all(len(windows.y) > 20 for windows in whole)
    monkeypatch.setattr(searching, "WAITING_BYTES", 1 << 6)
    monkeypatch.setattr(responses, "HELD", 0)
    parts = record_parts(monkeypatch)
    for part, expected in zip(search(), whole, strict=True):
        assert_same(part, expected, atol=1e-5)
    assert len(parts) > len(levels) or not visibility


@pytest.mark.parametrize("most", [1, 7, 40])
def test_the_best_few_places_of_two_sides_are_the_best_of_all(most: int) -> None:
    basis = MirrorBasis(np.array(FLIPS[0]))
    component = template((3, 4), 9)
    features = level((14, 16), 30)
    found = []
    for limit in (None, most):
        search = Search(component, -0.4, 0.05, True, limit, basis)
        search.add(Plane.of(features, basis))
        best: dict[tuple[int, int], float] = {}
        for windows in search.windows():
            for y, x, score in zip(windows.y, windows.x, windows.score, strict=True):
                best[y, x] = max(best.get((y, x), -np.inf), score)
        found.append(np.sort(list(best.values()))[::-1])
    assert len(found[0]) > 50
    np.testing.assert_allclose(found[1][:most], found[0][:most], rtol=0)


@pytest.mark.parametrize("visibility", [False, True])
@pytest.mark.parametrize("factor", [1e38, -1e38])
def test_scores_beyond_single_precision_are_refused(visibility: bool, factor: float) -> None:
    component = template((3, 4), 9)
    sign = np.where(np.random.default_rng(0).random(component.weights.shape) < 0.5, 1, -1)
    weights = (factor * sign).astype(np.float32)
    with pytest.raises(ModelError, match="too large"), np.errstate(all="ignore"):
        find_windows(level((9, 11)) * 10, replace(component, weights=weights), -1, 0.05, visibility)


@pytest.mark.parametrize("most", [1, 7, 40, 10**6])
@pytest.mark.parametrize("visibility", [False, True])
def test_the_best_few_are_the_best_of_all(visibility: bool, most: int) -> None:
    component = template((3, 4), 9)
    levels = [level(size, 10 + k) for k, size in enumerate([(12, 15), (4, 30), (3, 4), (14, 9)])]
    searches = [Search(component, -0.2, 0.05, visibility, m) for m in (None, most)]
    for features in levels:
        for search in searches:
            search.add(Plane.of(features))
    everything, few = (search.windows()[0] for search in searches)
    assert len(everything.y) > 40
    np.testing.assert_array_equal(
        np.sort(few.score)[-most:], np.sort(everything.score)[-most:], strict=True
    )


@pytest.mark.parametrize("visibility", [False, True])
def test_no_level_or_no_window_gives_empty_arrays(visibility: bool) -> None:
    component = template((3, 4))
    nothing = Search(component, 0.0, 0.05, visibility).windows()[0]
    for found in (nothing, find_windows(level((6, 6)), component, np.inf, 0.05, visibility)):
        assert found.y.shape == found.x.shape == found.score.shape == found.level.shape == (0,)
        assert found.flags.shape == (0, 3, 4)
        assert found.flags.dtype == bool


def test_gathered_windows_are_the_explicit_ones() -> None:
    features, component = level((7, 9), 11), template((3, 4), 12)
    y, x, blocks, outside = explicit(features, component)
    _, _, found = every_window(features, component, 0.05, True)
    np.testing.assert_allclose(found.reshape(blocks.shape), blocks, atol=1e-6)
    taken, out = gather_features(features, 3, 4, y, x, 0, 0, 7, 9)
    np.testing.assert_array_equal(out, outside)
    assert not taken[outside].any()
    products = np.einsum("nijq,ijq->nij", taken, component.weights)
    np.testing.assert_allclose(products, blocks, atol=1e-5)


def test_features_are_gathered_from_a_part_of_a_level() -> None:
    features = level((12, 14), 13)
    y, x = np.array([5, 6, 6]), np.array([7, 8, 9])
    whole = gather_features(features, 3, 4, y, x, 0, 0, 12, 14)
    part = np.ascontiguousarray(features[3:8, 5:11])
    for found, expected in zip(gather_features(part, 3, 4, y, x, 3, 5, 12, 14), whole, strict=True):
        np.testing.assert_array_equal(found, expected)
