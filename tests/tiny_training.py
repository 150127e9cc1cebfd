"""Small data and settings on which training takes a second."""

from functools import cache
from typing import Any

import numpy as np

from halfseen.data.dataset import Dataset
from halfseen.data.scenes import render_scenes
from halfseen.detections import GroundTruth
from halfseen.learn.settings import TrainSettings


@cache
def tiny_scenes() -> Dataset:
    """Small scenes with cars."""
    return render_scenes(14, seed=5, classes=["car"], size=(160, 214))


def tiny_settings(**changes: Any) -> TrainSettings:
    """Few blocks, few windows, every stage."""
    values: dict[str, Any] = {
        "blocks": 24, "updates": 2, "rounds": 2, "mining_images": 6, "stop": 0, "per_image": 30,
        "iterations": 8, "store_bytes": 4 << 20, "doubling": 0.0,
    }  # fmt: skip
    return TrainSettings(**(values | changes))


def boxed(boxes: list[list[float]], label: str = "car", **flags: Any) -> GroundTruth:
    """One image of noise of 120 x 90 pixels with these boxes."""
    pixels = np.random.default_rng(0).integers(0, 255, (90, 120, 3)).astype(np.uint8)
    return GroundTruth.make("noise", pixels, (90, 120), [label] * len(boxes), boxes, **flags)


def dataset(*truths: GroundTruth, classes: tuple[str, ...] = ("car",)) -> Dataset:
    return Dataset("noise", classes, truths)
