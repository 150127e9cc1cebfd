"""One batch of windows, as the kernels of visibility take it."""

from typing import NamedTuple

from halfseen.arrays import Bool, Float32, Float64


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
