"""Ridge logistic regression against scikit-learn and against its own energy."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from halfseen.learn.logistic import fit_logistic


def some_data(count: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(count, 8))
    true = np.array([1, 0.5, -1, 0.5, 0.3, 0.7, -0.4, 0.2])
    positive = rng.random(count) < 1 / (1 + np.exp(1 - inputs @ true))
    return inputs, positive, rng.uniform(0.5, 3, count)


def test_the_regression_against_scikit_learn() -> None:
    inputs, positive, weight = some_data()
    rising = np.arange(8) < 2
    found = fit_logistic(inputs, positive, weight, np.zeros(9), 1.0, rising=rising)
    oracle = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000)
    oracle.fit(inputs, positive, sample_weight=weight)
    np.testing.assert_allclose(found, np.r_[oracle.coef_[0], oracle.intercept_], atol=1e-3)
    # An input that speaks against what it should speak for is not used.
    turned = inputs * np.r_[-1, np.ones(7)]
    assert fit_logistic(turned, positive, weight, np.zeros(9), 1.0, rising=rising)[0] == 0


def test_ridges_pull_towards_the_centre_and_an_offset_is_kept() -> None:
    inputs, positive, weight = some_data(60)
    centre = np.linspace(-1, 1, 9)

    offset = np.linspace(-2, 3, 60)

    def energy(b: np.ndarray) -> float:
        margin = np.where(positive, 1, -1) * (offset + inputs @ b[:-1] + b[-1])
        pull = 3.0 * ((b - centre)[:-1] ** 2).sum() + 7.0 * (b - centre)[-1] ** 2
        return float(weight @ np.log1p(np.exp(-margin)) + pull / 2)

    found = fit_logistic(inputs, positive, weight, centre, (3.0, 7.0), offset=offset)
    oracle = minimize(energy, np.zeros(9), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(found, oracle.x, atol=1e-4)
    nothing = fit_logistic(inputs[:0], positive[:0], weight[:0], centre, (3.0, 7.0))
    np.testing.assert_array_equal(nothing, centre)


def test_single_precision_and_few_iterations_come_near() -> None:
    inputs, positive, weight = some_data()
    exact = fit_logistic(inputs, positive, weight, np.zeros(9), 1.0)
    single = fit_logistic(
        inputs.astype(np.float32), positive, weight.astype(np.float32), np.zeros(9), 1.0,
        iterations=25,
    )  # fmt: skip
    np.testing.assert_allclose(single, exact, atol=0.01)


@pytest.mark.parametrize("scale", [1e3, 1e6])
def test_large_margins_do_not_overflow(scale: float) -> None:
    inputs = scale * np.linspace(-1, 1, 20)[:, None]
    found = fit_logistic(inputs, inputs[:, 0] > 0, np.ones(20), np.ones(2), 1e-3)
    assert np.isfinite(found).all()
