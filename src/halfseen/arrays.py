"""Names of arrays by the type of their elements; the shape is said where one is used."""

import numpy as np
from numpy.typing import NDArray

Bool = NDArray[np.bool_]
UInt8 = NDArray[np.uint8]
Int64 = NDArray[np.int64]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Pixels = UInt8
"""An image, (height, width, 3) RGB."""
