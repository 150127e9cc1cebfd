"""Colours that differ about as much as they look different."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

# From linear RGB (sRGB's primaries) to XYZ relative to the white D65.
_XYZ = np.array(
    [[0.4339, 0.3763, 0.1898], [0.2126, 0.7152, 0.0722], [0.0178, 0.1095, 0.8727]], np.float32
)
# Powers are looked up, and between two entries drawn as lines: within 0.01 of Lab's numbers.
_VALUES, _STEPS = np.arange(256) / 255, np.arange(4097) / 4096
_LINEAR = np.where(_VALUES <= 0.04045, _VALUES / 12.92, ((_VALUES + 0.055) / 1.055) ** 2.4)
_ROOTS = np.where(_STEPS > 0.008856, np.cbrt(_STEPS), 7.787 * _STEPS + 16 / 116)
_TABLES = _LINEAR.astype(np.float32), _XYZ, _ROOTS.astype(np.float32)


def lab(rgb: Floats) -> Floats:
    """CIE Lab (but for the constant of L) of sRGB colours (..., 3) in 0..255."""
    from halfseen.features.kernels import lab_colours

    return lab_colours(rgb.reshape(-1, 3), *_TABLES).reshape(rgb.shape)
