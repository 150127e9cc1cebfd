"""The energy of learning: its gradient, its convexity, its batches.

Problems here hold numbers with few binary digits (features in sixteenths, parameters in 4096ths),
so that every float32 sum in the objective is exact and differences of energies are too.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from halfseen.arrays import Bool, Float32, Float64
from halfseen.features.fhog import Fhog
from halfseen.learn import objective as module
from halfseen.learn.objective import (
    Examples,
    Negatives,
    Objective,
    Parameters,
    Positives,
    Truncation,
    Vector,
)
from halfseen.model.mixture import Component

Problem = tuple[Parameters, list[Positives], list[Negatives]]
# Weights (rows, cols, channels), bias, u and u_t of a component.
Part = tuple[Float64, float, float, float]

Shapes = tuple[tuple[int, int, int], ...]
SHAPES: Shapes = ((2, 3, 4), (3, 2, 4), (4, 4, 4))
STEP = 2.0**-12
TRUNCATIONS: tuple[Truncation, ...] = ("zero", "free", "tied")
OPTIONS = [
    Objective(0.5, 0.125, visibility, truncation, smoothing)
    for visibility, truncation, smoothing in product((False, True), TRUNCATIONS, (0.0, 0.5))
]


def rounded(values: Float64, unit: float) -> Float64:
    return np.round(values / unit) * unit


def windows(rng: np.random.Generator, count: int, shape: tuple[int, int, int]) -> Examples:
    """Random windows, about half of which lack a run of columns or rows."""
    rows, cols, _ = shape
    features = rounded(rng.random((count, *shape)), 1 / 16).astype(np.float32)
    outside = np.zeros((count, rows, cols), bool)
    for n in range(count):
        side = rng.integers(4)
        if side == 0:
            outside[n, :, : rng.integers(1, cols)] = True
        elif side == 1:
            outside[n, rng.integers(1, rows) :] = True
    features[outside] = 0
    return Examples(features, outside)


def random_problem(seed: int, count: int = 30, shapes: Shapes = SHAPES) -> Problem:
    """Positives with random flags; negatives whose places are shared among the components."""
    rng = np.random.default_rng(seed)
    positives, negatives = [], []
    for shape in shapes:
        examples = windows(rng, count, shape)
        visible = (rng.random(examples.outside.shape) < 0.7) & ~examples.outside
        positives.append(Positives(examples, visible))
        place = rng.permutation(3 * count)[: 2 * count]
        negatives.append(Negatives(windows(rng, 2 * count, shape), place))
    return Parameters(shapes), positives, negatives


def all_visible(problem: Problem) -> Problem:
    parameters, positives, negatives = problem
    seen = [Positives(batch.examples, ~batch.examples.outside) for batch in positives]
    return parameters, seen, negatives


def random_point(seed: int, parameters: Parameters) -> Vector:
    rng = np.random.default_rng(seed)
    return rounded(rng.normal(0, 0.2, parameters.length), STEP)


def used(options: Objective, parameters: Parameters) -> Bool:
    """Which entries of the vector the energy depends on."""
    mask = np.ones(parameters.length)
    for _, bias in parameters.split(mask):
        bias[1] = options.visibility or options.truncation == "tied"
        bias[2] = options.truncation == "free"
    return mask.astype(bool)


def slow_energy(options: Objective, vector: Vector, problem: Problem) -> float:
    """The docstring's formula, one window and one flag at a time; every set of flags is tried."""
    parameters, positives, negatives = problem
    parts = []
    energy = 0.0
    for (rows, cols, channels), (w, (b, u, u_t)) in zip(
        parameters.shapes, parameters.split(vector.copy()), strict=True
    ):
        energy += 0.5 * options.regularisation * float((w * w).sum())
        if options.truncation == "zero":
            u_t = 0.0
        elif options.truncation == "tied":
            u_t = u
        else:
            energy += 0.5 * options.regularisation * rows * cols * u_t**2
        if options.visibility or options.truncation == "tied":
            energy += 0.5 * options.regularisation * rows * cols * u**2
        else:
            u = 0.0
        parts.append((w.reshape(rows, cols, channels), b, u, u_t))

    def score(part: Part, features: Float32, outside: Bool, flags: Bool) -> float:
        w, b, u, u_t = part
        total = b
        rows, cols = outside.shape
        for i, j in product(range(rows), range(cols)):
            if outside[i, j]:
                total += u_t
                continue
            total += float(w[i, j] @ features[i, j]) if flags[i, j] else u
            for k, m in ((i + 1, j), (i, j + 1)):
                if k < rows and m < cols and not outside[k, m]:
                    total -= options.alpha * (flags[i, j] != flags[k, m])
        return total

    def loss(margin: float) -> float:
        width = options.smoothing
        if margin <= 0:
            return 0.0
        return margin**2 / (2 * width) if margin < width else margin - width / 2

    best: dict[int, float] = {}
    choices: Iterable[tuple[bool, ...]]
    for part, given, batch in zip(parts, positives, negatives, strict=True):
        for n in range(len(given.examples)):
            examples = given.examples
            g = score(part, examples.features[n], examples.outside[n], given.visible[n])
            energy += loss(1 - g)
        for n in range(len(batch.examples)):
            features, outside = batch.examples.features[n], batch.examples.outside[n]
            inside = np.argwhere(~outside)
            choices = product((False, True), repeat=len(inside))
            if not options.visibility:
                choices = [(True,) * len(inside)]
            for choice in choices:
                flags = np.zeros(outside.shape, bool)
                flags[tuple(inside.T)] = choice
                g = score(part, features, outside, flags)
                place = int(batch.place[n])
                best[place] = max(best.get(place, -np.inf), g)
    return energy + sum(loss(1 + g) for g in best.values())


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_energy_is_the_formula(options: Objective) -> None:
    problem = random_problem(1, count=4, shapes=((2, 3, 4), (3, 2, 4)))
    if not options.visibility:
        problem = all_visible(problem)
    vector = random_point(2, problem[0])
    energy, _ = options(vector, *problem)
    assert energy == pytest.approx(slow_energy(options, vector, problem), rel=1e-12)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_gradient_is_the_slope_of_the_energy(options: Objective) -> None:
    """On both sides of every coordinate: a subgradient always, the derivative away from kinks."""
    problem = random_problem(3)
    if not options.visibility:
        problem = all_visible(problem)
    vector = random_point(4, problem[0])
    energy, gradient = options(vector, *problem)
    assert (gradient[~used(options, problem[0])] == 0).all()
    smooth = 0
    for k in range(len(vector)):
        step = np.zeros(len(vector))
        step[k] = STEP
        ahead = (options(vector + step, *problem)[0] - energy) / STEP
        behind = (energy - options(vector - step, *problem)[0]) / STEP
        assert behind - 1e-7 <= gradient[k] <= ahead + 1e-7
        # Regulariser and Huber parts bend by lambda c and n / width at most; a kink jumps by more.
        if ahead - behind < 0.1:
            smooth += 1
            assert gradient[k] == pytest.approx((ahead + behind) / 2, abs=1e-7 if
                                                options.smoothing == 0 else 2e-3)  # fmt: skip
    assert smooth > 0.8 * len(vector)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_energy_is_convex(options: Objective) -> None:
    problem = random_problem(5)
    rng = np.random.default_rng(6)
    for _ in range(30):
        start, end = rounded(rng.normal(0, 0.4, (2, problem[0].length)), 2 * STEP)
        low, middle, high = (options(v, *problem)[0] for v in (start, (start + end) / 2, end))
        assert middle <= (low + high) / 2 + 1e-9


def test_inferred_flags_never_score_below_given_ones() -> None:
    """Re-inference is an upper envelope: no fixed flags of the same windows score higher."""
    parameters, _, negatives = random_problem(7)
    options = Objective(0.5, 0.125, True, "free")
    rng = np.random.default_rng(8)
    for (w, bias), batch in zip(
        parameters.split(random_point(8, parameters)), negatives, strict=True
    ):
        best, flags = options.best_scores(w, bias, batch.examples, -np.inf)
        again = options.fixed_scores(w, bias, Positives(batch.examples, flags))
        np.testing.assert_allclose(best, again, atol=1e-6)
        for _ in range(20):
            other = flags ^ (rng.random(flags.shape) < 0.2)
            given = Positives(batch.examples, other & ~batch.examples.outside)
            assert (options.fixed_scores(w, bias, given) <= best + 1e-6).all()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_huber_lies_within_half_its_width_of_the_hinge(options: Objective) -> None:
    problem = random_problem(11)
    vector = random_point(12, problem[0])
    hinge = replace(options, smoothing=0.0)(vector, *problem)[0]
    huber = replace(options, smoothing=0.25)(vector, *problem)[0]
    count = sum(len(b.examples) for b in problem[1]) + len(
        np.unique(np.concatenate([b.place for b in problem[2]]))
    )
    assert 0 <= hinge - huber <= 0.125 * count


def test_chunks_and_threads_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(13, count=300)
    rng = np.random.default_rng(14)
    vector = rng.normal(0, 0.2, problem[0].length)
    options = Objective(0.5, 0.125, True, "free", 0.1)
    monkeypatch.setattr(module, "CHUNK", 32)
    energy, gradient = options(vector, *problem)
    for workers in (1, 2, 5):
        with ThreadPoolExecutor(workers) as pool:
            pooled, slope = options(vector, *problem, pool)
        assert pooled == energy
        assert slope.tobytes() == gradient.tobytes()
    monkeypatch.setattr(module, "CHUNK", 10**6)
    whole, slope = options(vector, *problem)
    assert whole == energy
    np.testing.assert_allclose(slope, gradient, rtol=1e-12, atol=1e-12)


def empty(batch: Examples) -> Examples:
    return Examples(batch.features[:0], batch.outside[:0])


@pytest.mark.parametrize("options", OPTIONS[::3], ids=str)
def test_empty_batches(options: Objective) -> None:
    parameters, positives, negatives = random_problem(15)
    vector = random_point(16, parameters)
    no_positives = [Positives(empty(b.examples), b.visible[:0]) for b in positives]
    no_negatives = [Negatives(empty(b.examples), b.place[:0]) for b in negatives]
    nothing, slope = options(vector, parameters, no_positives, no_negatives)
    zero = np.zeros_like(vector)
    assert options(zero, parameters, no_positives, no_negatives)[0] == 0
    pull = options.tie(vector, parameters)
    for (w, bias), (dw, dbias) in zip(parameters.split(pull), parameters.split(slope), strict=True):
        np.testing.assert_allclose(dw, 0.5 * w)
        np.testing.assert_allclose(dbias[1], 0.5 * len(w) * bias[1])
        assert dbias[0] == 0
    # A component without windows of its own still shares places: dropping its negatives can only
    # lower the energy, and the others' parts are as they would be alone.
    half = [negatives[0], no_negatives[1], negatives[2]]
    assert (
        options(vector, parameters, positives, no_negatives)[0]
        < options(vector, parameters, positives, half)[0]
        <= options(vector, parameters, positives, negatives)[0]
    )
    assert nothing < options(vector, parameters, positives, no_negatives)[0]


def test_no_window_of_a_place_is_charged_twice() -> None:
    """The same window many times at one place costs what it costs once."""
    parameters, positives, negatives = random_problem(17, shapes=((2, 3, 4),))
    options = Objective(0.5, 0.125, True, "free")
    vector = random_point(18, parameters)
    once = negatives[0]
    examples = Examples(
        np.repeat(once.examples.features, 3, 0), np.repeat(once.examples.outside, 3, 0)
    )
    thrice = Negatives(examples, np.repeat(once.place, 3))
    energy, gradient = options(vector, parameters, positives, [once])
    same, slope = options(vector, parameters, positives, [thrice])
    assert same == energy
    np.testing.assert_array_equal(slope, gradient)


def test_a_mirrored_component_shares_its_parameters() -> None:
    """Windows stored flipped score as the mirrored component does on the windows themselves."""
    descriptor = Fhog()
    rng = np.random.default_rng(19)
    shape = (3, 4)
    weights = rng.normal(0, 0.2, (*shape, descriptor.channels)).astype(np.float32)
    component = Component(weights, -0.3, 0.05, 0.1, np.array([0.0, 0.0, 4.0, 3.0]))
    level = rng.random((*shape, descriptor.channels)).astype(np.float32)
    flipped = np.ascontiguousarray(level[:, ::-1][..., descriptor.mirror])
    mirrored = component.mirrored(descriptor.mirror)
    whole = mirrored.bias + (mirrored.weights * level).sum()
    parameters = Parameters(((*shape, descriptor.channels),))
    vector = np.concatenate([weights.ravel(), [-0.3, 0.05, 0.1]]).astype(np.float64)
    options = Objective(1.0, 0.125, True, "free")
    ((w, bias),) = parameters.split(vector)
    stored = Examples(flipped[None], np.zeros((1, *shape), bool))
    scores = replace(options, visibility=False).best_scores(w, bias, stored, -100.0)[0]
    assert scores == pytest.approx(whole, abs=1e-5)
    # And with flags: those of the mirrored component are the stored window's, flipped.
    direct = options.best_scores(
        mirrored.weights.reshape(w.shape).astype(np.float64), bias,
        Examples(level[None], np.zeros((1, *shape), bool)), -100.0,
    )  # fmt: skip
    score, flags = options.best_scores(w, bias, stored, -100.0)
    assert score == pytest.approx(direct[0], abs=1e-5)
    np.testing.assert_array_equal(flags[:, :, ::-1], direct[1])
    assert 0 < flags.sum() < flags.size


def test_windows_that_cannot_be_are_refused() -> None:
    features, outside = np.zeros((2, 3, 4, 5), np.float32), np.zeros((2, 3, 4), bool)
    examples = Examples(features, outside)
    with pytest.raises(AssertionError, match="differ in shape"):
        Examples(features, outside[:1])
    with pytest.raises(AssertionError, match="one place"):
        Negatives(examples, np.zeros(3, np.int64))
    with pytest.raises(AssertionError, match="never visible"):
        Positives(Examples(features, ~outside), ~outside)
