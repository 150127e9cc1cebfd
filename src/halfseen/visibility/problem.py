"""One batch of windows, as the kernels of visibility take it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


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

    responses: NDArray[np.float32]
    u: NDArray[np.float64]
    alpha: float
    hidden: NDArray[np.bool_]
    horizontal: NDArray[np.float32]
    vertical: NDArray[np.float32]
