"""The network of the default backbone against one written from the paper's text, in NumPy."""

import numpy as np
import onnxruntime
import pytest

from halfseen.arrays import Float32, Float64
from halfseen.errors import ModelError
from halfseen.features.backbone import weights_file
from halfseen.features.efficientnet import lite0
from halfseen.features.torch_weights import read_weights

# Kernel, stride and blocks of the first stages of Lite0.
STAGES = ((3, 1, 1), (3, 2, 2), (5, 2, 2), (3, 2, 3), (5, 1, 3))


def convolve(image: Float64, kernel: Float64, stride: int) -> Float64:
    """TensorFlow's SAME convolution; a kernel of one input channel works on each channel apart."""
    side = kernel.shape[2]
    rows, cols = (-(-n // stride) for n in image.shape[1:])
    more = [
        max((n - 1) * stride + side - m, 0)
        for n, m in zip((rows, cols), image.shape[1:], strict=True)
    ]
    padded = np.pad(image, ((0, 0), *((n // 2, n - n // 2) for n in more)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (side, side), axis=(1, 2))
    windows = windows[:, ::stride, ::stride][:, :rows, :cols]
    if kernel.shape[1] == 1 and len(image) > 1:
        return np.asarray(np.einsum("cyxij,cij->cyx", windows, kernel[:, 0]))
    return np.asarray(np.einsum("cyxij,kcij->kyx", windows, kernel))


def slow_lite0(image: Float64, weights: dict[str, Float32]) -> Float64:
    def step(x: Float64, name: str, norm: str, stride: int = 1, clipped: bool = True) -> Float64:
        x = convolve(x, weights[f"{name}.weight"].astype(np.float64), stride)
        gain, shift, mean, variance = (
            weights[f"{norm}.{part}"][:, None, None].astype(np.float64)
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        x = gain * (x - mean) / np.sqrt(variance + 1e-3) + shift
        return np.clip(x, 0, 6) if clipped else x

    x = step(image, "_conv_stem", "_bn0", 2)
    number = 0
    for side, stride, blocks in STAGES:
        for n in range(blocks):
            name, source = f"_blocks.{number}", x
            if number:
                x = step(x, f"{name}._expand_conv", f"{name}._bn0")
            assert weights[f"{name}._depthwise_conv.weight"].shape[2] == side
            x = step(x, f"{name}._depthwise_conv", f"{name}._bn1", stride if n == 0 else 1)
            x = step(x, f"{name}._project_conv", f"{name}._bn2", clipped=False)
            if n > 0:
                x = x + source
            number += 1
    return x


def run(network: bytes, image: Float64) -> Float32:
    session = onnxruntime.InferenceSession(network, providers=["CPUExecutionProvider"])
    found: Float32 = session.run(None, {"image": image[None].astype(np.float32)})[0][0]
    return found


def test_the_network_in_floats_and_in_bytes_is_lite0() -> None:
    weights = read_weights(weights_file().read_bytes())
    rng = np.random.default_rng(0)
    image: Float64 = rng.uniform(-1, 1, (3, 8, 12)).repeat(8, axis=1).repeat(8, axis=2)
    expected = slow_lite0(image, weights)
    np.testing.assert_allclose(run(lite0(weights, None), image), expected, atol=0.01)
    rounded = run(lite0(weights), image)
    assert np.corrcoef(rounded.ravel(), expected.ravel())[0, 1] > 0.98


def test_other_weights_are_refused() -> None:
    weights = read_weights(weights_file().read_bytes())
    del weights["_blocks.3._bn1.bias"]
    with pytest.raises(ModelError, match=r"no '_blocks.3._bn1.bias'"):
        lite0(weights)
