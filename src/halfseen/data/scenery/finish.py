"""What a camera adds to a drawn scene: light across the picture, softness, noise."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageFilter

from halfseen.arrays import Float32, UInt8
from halfseen.data.scenery.backgrounds import Stage
from halfseen.data.scenery.shapes import Rng


def finish(rng: Rng, stage: Stage, picture: Image.Image) -> UInt8:
    """(height, width, 3) uint8: the picture as a camera of this scene would give it."""
    blur = float(rng.choice([0.0, 0.4, 0.6, 0.8, 1.0, 1.3])) * stage.unit
    if blur:
        picture = picture.filter(ImageFilter.GaussianBlur(blur))
    if rng.random() < 0.7:
        picture = _thin_colour(picture)
    pixels = np.asarray(picture, dtype=np.float32)
    pixels = pixels * _light(rng, stage)[..., None] * np.asarray(stage.mood.tint, dtype=np.float32)
    contrast, level = rng.uniform(0.62, 1.12), rng.uniform(-14, 14)
    pixels = 118 + np.float32(contrast) * (pixels - 118) + np.float32(level)
    height, width = stage.size
    strength = np.float32(rng.uniform(1.5, 5.5))
    pixels += strength * rng.standard_normal((height, width, 1), dtype=np.float32)
    return np.asarray(np.clip(np.rint(pixels), 0, 255), dtype=np.uint8)


def _light(rng: Rng, stage: Stage) -> Float32:
    """Brighter towards the light, darker in the corners."""
    height, width = stage.size
    x = np.linspace(-1, 1, width, dtype=np.float32)[None, :]
    y = np.linspace(-1, 1, height, dtype=np.float32)[:, None]
    slope, corner = np.float32(0.12 * stage.light[0]), np.float32(rng.uniform(0.02, 0.12))
    return np.asarray(1 + slope * x - corner * (x * x + y * y), dtype=np.float32)


def _thin_colour(picture: Image.Image) -> Image.Image:
    """Colour at half the resolution of brightness, as JPEG stores it."""
    luma, *chroma = picture.convert("YCbCr").split()
    size = picture.size
    thin = [c.reduce(2).resize(size, Image.Resampling.BILINEAR) for c in chroma]
    return Image.merge("YCbCr", [luma, *thin]).convert("RGB")
