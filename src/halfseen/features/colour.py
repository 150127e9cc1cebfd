"""Colours that differ about as much as they look different."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

# From linear RGB (sRGB's primaries) to XYZ relative to the white D65.
_XYZ = np.array(
    [[0.4339, 0.3763, 0.1898], [0.2126, 0.7152, 0.0722], [0.0178, 0.1095, 0.8727]], np.float32
)
_LAB = np.array([[0, 116, 0], [500, -500, 0], [0, 200, -200]], np.float32)


def lab(rgb: Floats) -> Floats:
    """CIE Lab (but for the constant of L) of sRGB colours in 0..255."""
    value = rgb / np.float32(255)
    linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    xyz = linear.astype(np.float32) @ _XYZ.T
    return np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116) @ _LAB.T
