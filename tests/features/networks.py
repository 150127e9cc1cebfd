"""Small backbones as files, for tests: any network, a description, and what is wrong with them."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from halfseen.features.onnx_file import Graph

STRIDE, CHANNELS, KEPT = 4, 5, 3


def random_weights(seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    rng = np.random.default_rng(seed)
    kernel = rng.normal(size=(CHANNELS, 3, STRIDE, STRIDE)).astype(np.float32)
    return kernel, rng.normal(size=CHANNELS).astype(np.float32)


def small_network(seed: int = 0) -> bytes:
    """One convolution of 4 x 4 pixels, each by itself, and a rectifier."""
    graph = Graph()
    kernel, bias = random_weights(seed)
    inputs = ["image", graph.tensor("w", kernel), graph.tensor("b", bias)]
    sides = {"kernel_shape": [STRIDE, STRIDE], "strides": [STRIDE, STRIDE]}
    graph.node("Relu", [graph.node("Conv", inputs, "conv", **sides)], "blocks")
    return graph.model("image", 3, {"blocks": CHANNELS})


def write_backbone(folder: Path, content: bytes, name: str = "small", **changes: Any) -> Path:
    """Writes NAME.json and its files; changes are of the JSON's fields, None takes one out."""
    rng = np.random.default_rng(1)
    projection = save({
        "matrix": rng.normal(size=(CHANNELS, KEPT)).astype(np.float32),
        "mean": rng.normal(size=CHANNELS).astype(np.float32),
    })  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.onnx").write_bytes(content)
    (folder / f"{name}.safetensors").write_bytes(projection)
    said = {
        "network": f"{name}.onnx", "sha256": hashlib.sha256(content).hexdigest(),
        "projection": f"{name}.safetensors",
        "projection_sha256": hashlib.sha256(projection).hexdigest(),
        "input": "image", "output": "blocks", "mean": [120, 110, 100], "scale": [50, 60, 70],
        "stride": STRIDE, "before": 0, "reach": 8, "length": 1.3, **changes,
    }  # fmt: skip
    path = folder / f"{name}.json"
    path.write_text(json.dumps({key: value for key, value in said.items() if value is not None}))
    return path
