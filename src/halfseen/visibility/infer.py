"""Which blocks of a window are visible: the exact maximum of Eqn 1 over the flags, a minimum cut.

All windows go to one solver. A dynamic programme over the frontier of the short side, with windows
reduced by persistency first, was measured too: at 12x8 blocks it takes four times as long, and no
shape was found where it wins by much. Arithmetic is float64 on float32 responses, so the maximum
found is the true one up to the last bits of a double.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfseen.arrays import Bool, Float32, Float64
from halfseen.errors import SettingsError
from halfseen.visibility.bounds import chain_bounds
from halfseen.visibility.maxflow import solve_grids

Pairs = tuple[ArrayLike, ArrayLike]


class Problem(NamedTuple):
    """The terms of Eqn 1 of N windows, without the bias b.

    responses   (N, rows, cols): r_i of every block
    u           (N,) what a hidden block adds
    alpha       Ising weight
    hidden      (N, rows, cols): padded blocks, which get False, add nothing and have no edges;
                (0, rows, cols) for none
    horizontal  (N, rows, cols - 1) and
    vertical    (N, rows - 1, cols) multiply alpha; of length 0 for weights of 1
    """

    responses: Float32
    u: Float64
    alpha: float
    hidden: Bool
    horizontal: Float32
    vertical: Float32


def infer_visibility(
    responses: ArrayLike,
    u: ArrayLike,
    alpha: float,
    hidden: ArrayLike | None = None,
    edges: Pairs | None = None,
) -> tuple[Float32, Bool]:
    """Scores (N,) float32 and flags (N, rows, cols) of N windows.

    Maximises over the flags v, exactly,

        sum_i [v_i r_i + (1 - v_i) u] - alpha sum_ij e_ij [v_i != v_j]

    over the blocks i and the pairs ij of 4-neighbours: Eqn 1 without the bias b. Where several v
    reach the maximum, the one with the most visible blocks is returned (it contains the others).

    responses  (N, rows, cols): r_i = w_i . B_i of every block, taken as float32
    u          what a hidden block adds: a number, or one for each window (N,)
    alpha      Ising weight, at least 0
    hidden     (N, rows, cols) bool: padded blocks, which lie outside the image. They are not
               inferred: their flag is False, they have no pairs, and they add nothing to the score
               (the caller adds u_t for each)
    edges      e_ij of horizontal pairs (N, rows, cols - 1) and of vertical pairs
               (N, rows - 1, cols), at least 0, taken as float32; 1 if not given
    """
    scores, flags = solve(_problem(responses, u, alpha, hidden, edges))
    _require_finite(scores)
    return scores, flags


def chain_bound(
    responses: ArrayLike,
    u: ArrayLike,
    alpha: float,
    hidden: ArrayLike | None = None,
    edges: Pairs | None = None,
    *,
    passes: int = 1,
    above: float = -np.inf,
) -> Float32:
    """(N,) float32: at least the score that `infer_visibility` gives, at a fraction of its cost.

    Each unary is split between the chain of its row and that of its column, and each chain solved
    exactly: much closer than the block bound of Eqn 3, sum_i max(r_i, u). Every further pass
    splits them better, and brings the bound closer to the score.

    passes   at most so many
    above    a bound below this is close enough
    """
    problem = _problem(responses, u, alpha, hidden, edges)
    if passes < 1:
        raise SettingsError(f"passes must be at least 1, found {passes}")
    bounds = bound(problem, passes, above)
    _require_finite(bounds)
    return bounds


def trusted(grids: Float32, u: float, alpha: float, hidden: Bool) -> Problem:
    """A problem without contrast whose parts need no check: for many calls with few windows."""
    none = np.zeros((0, *grids.shape[1:]), np.float32)
    return Problem(grids, np.full(len(grids), u), alpha, hidden, none[:, :, 1:], none[:, 1:])


def best_flags(unary: Float32, hidden: Bool, edges: tuple[Float32, Float32]) -> Bool:
    """The flags of `infer_visibility` with u = 0 and alpha = 1, for parts that need no check."""
    whole = np.ascontiguousarray
    none = np.zeros(len(unary))
    across, down = edges
    scores, flags = solve(
        Problem(whole(unary), none, 1.0, whole(hidden), whole(across), whole(down))
    )
    _require_finite(scores)
    return flags


def solve(problem: Problem) -> tuple[Float32, Bool]:
    """Scores and flags, as `infer_visibility` gives them."""
    scores = np.empty(len(problem.responses), np.float32)
    flags = np.empty(problem.responses.shape, np.bool_)
    solve_grids(*problem, scores, flags)
    return scores, flags


def bound(problem: Problem, passes: int, above: float) -> Float32:
    """Bounds, as `chain_bound` gives them."""
    return chain_bounds(*problem, above, passes)


def compile_kernels() -> None:
    """Compile what a search needs, or load it."""
    problem = trusted(np.zeros((1, 1, 1), np.float32), 0.0, 0.0, np.zeros((1, 1, 1), np.bool_))
    solve(problem)
    bound(problem, 1, 0.0)


def _problem(
    responses: ArrayLike, u: ArrayLike, alpha: float, hidden: ArrayLike | None, edges: Pairs | None
) -> Problem:
    """The arguments as the kernels take them; what is not given becomes an array of length 0."""
    grids = np.asarray(responses)
    if grids.ndim != 3 or min(grids.shape[1:]) < 1:
        raise SettingsError(f"responses must be (N, rows, cols), found shape {grids.shape}")
    grids = _array("responses", grids, np.float32, grids.shape)
    count, rows, cols = grids.shape
    biases = np.asarray(u)
    if biases.ndim == 0:
        biases = np.full(count, biases)
    biases = _array("u", biases, np.float64, (count,))
    if not np.isfinite(biases).all():
        raise SettingsError("u must be finite, found NaN or infinite values")
    if not 0 <= alpha < np.inf:
        raise SettingsError(f"alpha must be a finite number of at least 0, found {alpha}")
    padded = np.zeros((0, rows, cols), np.bool_)
    if hidden is not None:
        padded = _array("hidden", hidden, np.bool_, grids.shape)
    horizontal = np.zeros((0, rows, cols - 1), np.float32)
    vertical = np.zeros((0, rows - 1, cols), np.float32)
    if edges is not None:
        horizontal = _array("edges[0]", edges[0], np.float32, (count, rows, cols - 1))
        vertical = _array("edges[1]", edges[1], np.float32, (count, rows - 1, cols))
        for weights in (horizontal, vertical):
            if not ((weights >= 0) & (weights < np.inf)).all():
                raise SettingsError("edges must be finite and at least 0, found others")
    return Problem(grids, biases, float(alpha), padded, horizontal, vertical)


def _array(name: str, values: ArrayLike, dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind not in ("b" if dtype is np.bool_ else "fiu"):
        raise SettingsError(f"{name} must hold {np.dtype(dtype)} values, found {array.dtype}")
    if array.shape != shape:
        raise SettingsError(f"{name} must have shape {shape}, found {array.shape}")
    return np.ascontiguousarray(array, dtype)


def _require_finite(results: Float32) -> None:
    """Raise SettingsError for a NaN or infinite response: it makes its window's result one."""
    if not np.isfinite(results).all():
        window = int(np.flatnonzero(~np.isfinite(results))[0])
        raise SettingsError(f"responses must be finite, found others in window {window}")
