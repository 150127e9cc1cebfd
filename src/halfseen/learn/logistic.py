"""Ridge logistic regression: the one that mask heads and calibrations are fitted by."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Bool, Float64

log = logging.getLogger(__name__)

Inputs = NDArray[np.floating[Any]]


def fit_logistic(
    inputs: Inputs,
    positive: Bool,
    weight: Inputs,
    centre: Float64,
    ridge: float | tuple[float, float],
    *,
    rising: Bool | None = None,
    offset: Inputs | None = None,
    iterations: int | None = None,
) -> Float64:
    """Fit a ridge logistic regression: (K + 1,) coefficients b and, last, the intercept c.

    They minimise the convex energy

        sum_n weight_n log(1 + exp(-s_n (o_n + x_n . b + c)))
            + ridge_b / 2 |b - b_0|^2 + ridge_c / 2 (c - c_0)^2

    with s_n = 1 for positives and -1 for the others.

    inputs      x (N, K); sums over n have its precision
    centre      (K + 1,) b_0 and c_0, from which L-BFGS-B starts
    ridge       ridge_b and ridge_c; of one number, ridge_c is 0
    rising      (K,) which coefficients must not be negative
    offset      (N,) o, what is known of each without its inputs; 0 if it is not given
    iterations  stop after so many; by default go on to the minimum, and warn if it is not reached
    """
    from scipy.optimize import minimize

    slopes, intercept = ridge if isinstance(ridge, tuple) else (ridge, 0.0)
    sign = np.where(positive, 1, -1).astype(inputs.dtype)
    known = np.zeros(1, inputs.dtype) if offset is None else offset

    def energy(vector: Float64) -> tuple[float, Float64]:
        b = vector.astype(inputs.dtype)
        margin = sign * (known + inputs @ b[:-1] + b[-1])
        # Beyond 30 the slope is 0 for all purposes, and the exponential would overflow.
        slope = -weight * sign / (1 + np.exp(np.minimum(margin, 30)))
        gradient = np.append(inputs.T @ slope, slope.sum()).astype(np.float64)
        change = vector - centre
        last, change[-1] = change[-1], 0
        value = float(weight @ np.logaddexp(0, -margin)) + slopes / 2 * float(change @ change)
        gradient += slopes * change
        gradient[-1] += intercept * last
        return value + intercept / 2 * last * last, gradient

    bounds = None
    if rising is not None:
        bounds = [*((0.0 if up else None, None) for up in rising), (None, None)]
    options: dict[str, Any] = {"maxiter": 1000, "ftol": 1e-12, "gtol": 1e-6}
    if iterations is not None:
        options = {"maxiter": iterations}
    found = minimize(energy, centre, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    if iterations is None and not found.success:
        log.warning("the regression stopped before its minimum: %s", found.message)
    return np.asarray(found.x)
