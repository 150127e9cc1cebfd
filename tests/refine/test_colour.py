"""Lab by tables, against the powers themselves."""

import numpy as np

from halfseen.refine.kernels import lab


def test_lab_against_its_formula() -> None:
    rng = np.random.default_rng(0)
    rgb = rng.uniform(0, 255, (20, 30, 3)).astype(np.float32)
    rgb[0], rgb[1], rgb[2] = 0, 255, rng.uniform(0, 20, (30, 3))
    value = rgb.astype(np.float64) / 255
    linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    x, y, z = np.moveaxis(
        linear @ np.array([[0.4339, 0.3763, 0.1898], [0.2126, 0.7152, 0.0722],
                           [0.0178, 0.1095, 0.8727]]).T, -1, 0,
    )  # fmt: skip
    f = [np.where(t > 0.008856, np.cbrt(t), 7.787 * t + 16 / 116) for t in (x, y, z)]
    expected = np.stack([116 * f[1], 500 * (f[0] - f[1]), 200 * (f[1] - f[2])], axis=-1)
    np.testing.assert_allclose(lab(rgb), expected, atol=0.01)
    assert np.abs(lab(rgb[:2])[..., 1:]).max() < 0.02  # greys have no colour
