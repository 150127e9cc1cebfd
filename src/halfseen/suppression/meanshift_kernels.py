"""The kernel of mean shift: every point climbs the density of all."""

import numpy as np
from numba import njit

from halfseen.arrays import Float64


@njit(cache=True, nogil=True)
def climb(
    points: Float64, deviation: Float64, weight: Float64, steps: int, still: float, most: float
) -> tuple[Float64, Float64, bool]:
    """The mode above each point and its density, in which a lone point has its own weight.

    points and deviation are (N, D); a point stops when it moves by less than `still` deviations.
    The last value is False where that takes more than `most` kernels, and it was given up.
    """
    count, axes = points.shape
    modes, density = points.copy(), np.zeros(count)
    above, below = np.empty(axes), np.empty(axes)
    for n in range(count):
        for _ in range(steps):
            most -= count
            if most < 0:
                return modes, density, False
            for d in range(axes):
                above[d], below[d] = 0.0, 0.0
            total = 0.0
            for i in range(count):
                omega = weight[i] * _kernel(modes[n], points[i], deviation[i])
                for d in range(axes):
                    omega /= deviation[i, d]
                total += omega
                for d in range(axes):
                    above[d] += omega * points[i, d] / deviation[i, d] ** 2
                    below[d] += omega / deviation[i, d] ** 2
            shift = 0.0
            for d in range(axes):
                target = above[d] / below[d]
                shift = max(shift, abs(target - modes[n, d]) * np.sqrt(below[d] / total))
                modes[n, d] = target
            if shift < still:
                break
        for i in range(count):
            density[n] += weight[i] * _kernel(modes[n], points[i], deviation[i])
    return modes, density, True


@njit(cache=True, nogil=True)
def _kernel(at: Float64, point: Float64, deviation: Float64) -> float:
    """exp(-D^2 / 2), D the distance in the point's own deviations."""
    distance = 0.0
    for d in range(len(at)):
        distance += ((at[d] - point[d]) / deviation[d]) ** 2
    weight: float = np.exp(-distance / 2)
    return weight
