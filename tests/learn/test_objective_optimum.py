"""The optimum of learning with fixed latent variables, against a support vector machine's."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.svm import SVC

from halfseen.learn.objective import Examples, Negatives, Objective, Parameters, Positives, Vector

COUNT = 150
SHAPE = (2, 3, 4)
BLOCKS = 6
LABELS = [1] * COUNT + [-1] * COUNT
Problem = tuple[Parameters, list[Positives], list[Negatives]]


def noisy_problem(seed: int, truncated: bool) -> Problem:
    """One component, every place of its own, classes that overlap; some windows lack columns."""
    rng = np.random.default_rng(seed)
    lean = rng.normal(0, 0.2, SHAPE)
    batches = []
    for side, most in ((1, 2), (-1, 1)):
        features = (rng.normal(0, 1, (COUNT, *SHAPE)) + side * lean).astype(np.float32)
        lacking = rng.integers(0, most + 1, COUNT) * truncated
        outside = np.broadcast_to(np.arange(3) < lacking[:, None, None], (COUNT, 2, 3)).copy()
        features[outside] = 0
        batches.append(Examples(features, outside))
    positive, negative = batches
    return (
        Parameters((SHAPE,)),
        [Positives(positive, ~positive.outside)],
        [Negatives(negative, np.arange(COUNT))],
    )


def fit(options: Objective, problem: Problem) -> tuple[float, Vector]:
    """Energy of the hinge at the optimum of ever narrower Huber hinges: L-BFGS stalls at kinks."""
    vector = np.zeros(problem[0].length)
    for width in (1.0, 0.1, 0.01):
        smooth = replace(options, smoothing=width)
        vector = minimize(
            lambda v, e=smooth: e(v, *problem), vector, jac=True, method="L-BFGS-B",
            options={"maxiter": 200, "ftol": 1e-8},
        ).x  # fmt: skip
    return options(vector, *problem)[0], vector


def machine(features: NDArray[np.float64], strength: float) -> tuple[float, NDArray[np.float64]]:
    """Least of |w|^2 / 2 + C sum hinge with a free intercept, times lambda = 1 / C; and w, b.

    The dual's value: it bounds the least energy from below, whatever the solver's tolerance.
    """
    fitted = SVC(kernel="linear", C=1 / strength, tol=1e-6).fit(features, LABELS)
    dual = np.abs(fitted.dual_coef_).sum() - 0.5 * (fitted.coef_**2).sum()
    return strength * float(dual), np.append(fitted.coef_[0], fitted.intercept_)


def stacked(problem: Problem) -> NDArray[np.float64]:
    batches = (problem[1][0].examples, problem[2][0].examples)
    return np.concatenate([b.features.reshape(COUNT, -1) for b in batches]).astype(np.float64)


@pytest.mark.parametrize("strength", [0.1, 1.0, 10.0])
def test_optimum_is_that_of_the_support_vector_machine(strength: float) -> None:
    problem = noisy_problem(1, truncated=False)
    options = Objective(strength, 0.0, False, "zero")
    energy, vector = fit(options, problem)
    least, solution = machine(stacked(problem), strength)
    assert options(np.append(solution, [0, 0]), *problem)[0] == pytest.approx(least, rel=1e-4)
    assert least * (1 - 1e-6) <= energy <= least * 1.001
    np.testing.assert_allclose(vector[:-2], solution, atol=0.02)


def test_truncation_bias_is_the_weight_of_a_feature_that_counts_blocks() -> None:
    """c u_t^2 in the energy scales that feature by 1 / sqrt(c)."""
    problem = noisy_problem(2, truncated=True)
    energy, vector = fit(Objective(1.0, 0.0, False, "free"), problem)
    outside = np.concatenate(
        [b.examples.outside.sum((1, 2)) for b in (problem[1][0], problem[2][0])]
    )
    features = np.column_stack([stacked(problem), outside / np.sqrt(BLOCKS)])
    least, solution = machine(features, 1.0)
    assert least * (1 - 1e-6) <= energy <= least * 1.001
    assert vector[-1] == pytest.approx(solution[-2] / np.sqrt(BLOCKS), abs=0.02)
    assert abs(vector[-1]) > 0.05
