"""EfficientNet-Lite (Tan and Le 2019; its Lite variants 2020) as an ONNX file of bytes.

Batch norm is folded into the convolutions, in double precision, and all but the sums is quantised:
these networks were made for it. Activations have 8 bits: those that are clipped to 0..6 their whole
range, the others a measured one. Weights have 8 bits, a scale for each channel. TensorFlow's SAME
padding, with which the weights were learnt, is ONNX's SAME_UPPER.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Float32
from halfseen.errors import ModelError
from halfseen.features.onnx_file import Graph

EPSILON = 1e-3  # of batch norm
# The blocks that make their input smaller by 2.
LITE0_STRIDES = (1, 3, 5, 11)
LITE2_STRIDES = (1, 4, 7, 15)
INPUT, OUTPUT = "image", "blocks"
MOST_WEIGHT = 127
# The absolute value that one in 10,000 numbers of a tensor exceeds, in the median of 60 training
# images, and a tenth more: see benchmarks/voc/net_projection.py.
LITE0_RANGES = {
    "_blocks.0._project_conv": 34.5, "_blocks.1._project_conv": 45.2,
    "_blocks.2._project_conv": 36.7, "_blocks.2.sum": 48.7, "_blocks.3._project_conv": 36.9,
    "_blocks.4._project_conv": 21.2, "_blocks.4.sum": 39.5, "_blocks.5._project_conv": 30.0,
    "_blocks.6._project_conv": 15.7, "_blocks.6.sum": 29.4, "_blocks.7._project_conv": 12.8,
    "_blocks.7.sum": 30.6, "_blocks.8._project_conv": 28.8, "_blocks.9._project_conv": 16.0,
    "_blocks.9.sum": 30.9, "_blocks.10._project_conv": 14.6, "_blocks.10.sum": 34.4,
}  # fmt: skip
Weights = dict[str, NDArray[Any]]
Ranges = Mapping[str, float]


@dataclass
class _Flow:
    """A float tensor of the graph: its name, channels, and the scale and zero of its bytes.

    exact  the same before it was rounded to bytes, where that is at hand: what sums take
    """

    name: str
    channels: int
    scale: np.float32
    zero: int
    exact: str = ""


@dataclass
class Lite:
    """Builds the network. With `ranges` None it is left in floats.

    strides the blocks that make their input smaller by 2
    signed  names and channels of the tensors that need a range
    """

    weights: Weights
    ranges: Ranges | None
    strides: Sequence[int] = LITE0_STRIDES
    graph: Graph = field(default_factory=Graph)
    signed: dict[str, int] = field(default_factory=dict)

    def build(self, last: int, more: bool = False) -> bytes:
        """The ONNX file up to and with block `last`; `more`: with `signed` among its outputs."""
        if self.ranges is None:
            self.graph.tensor("zero", np.zeros((), np.float32))
            self.graph.tensor("six", np.full((), 6, np.float32))
        try:
            flow = _Flow(INPUT, 3, np.float32(1 / 127.5), 127)
            if self.ranges is not None:
                flow = self._as_bytes(flow, INPUT)
            flow = self._convolution("_conv_stem", "_bn0", flow, stride=2)
            for number in range(last + 1):
                flow = self._block(number, flow)
        except KeyError as error:
            raise ModelError(f"not the weights of an EfficientNet-Lite: no {error}") from None
        self.graph.node("Identity", [flow.exact or flow.name], OUTPUT)
        outputs = {OUTPUT: flow.channels, **(self.signed if more else {})}
        return self.graph.model(INPUT, 3, outputs)

    def _block(self, number: int, source: _Flow) -> _Flow:
        """One inverted residual: widen, convolve each channel apart, narrow, add what came in."""
        name, stride = f"_blocks.{number}", 2 if number in self.strides else 1
        flow = source
        if f"{name}._expand_conv.weight" in self.weights:
            flow = self._convolution(f"{name}._expand_conv", f"{name}._bn0", flow)
        flow = self._convolution(f"{name}._depthwise_conv", f"{name}._bn1", flow, stride)
        flow = self._convolution(f"{name}._project_conv", f"{name}._bn2", flow, clipped=False)
        if stride == 1 and flow.channels == source.channels:
            source_name = source.exact or source.name
            total = self.graph.node("Add", [flow.name, source_name], f"{name}.sum")
            flow = self._ranged(total, flow.channels)
            flow.exact = total
        return flow

    def _convolution(
        self, name: str, norm: str, source: _Flow, stride: int = 1, clipped: bool = True
    ) -> _Flow:
        """A convolution with its batch norm folded in, and the clip to 0..6 behind it."""
        kernel, bias = self._folded(name, norm)
        groups = source.channels if kernel.shape[1] == 1 and source.channels > 1 else 1
        if self.ranges is None:
            inputs = [self.graph.tensor(f"{name}.w", kernel), self.graph.tensor(f"{name}.b", bias)]
        else:
            inputs = self._quantised(name, kernel, bias, source.scale)
        made = self.graph.node(
            "Conv", [source.name, *inputs], name, auto_pad="SAME_UPPER", group=groups,
            kernel_shape=kernel.shape[2:], strides=[stride, stride],
        )  # fmt: skip
        if not clipped:
            return self._ranged(made, len(kernel))
        if self.ranges is None:
            made = self.graph.node("Clip", [made, "zero", "six"], f"{name}.clip")
            return _Flow(made, len(kernel), np.float32(0), 0)
        # Bytes of 0..6 cannot hold anything else: they are the clip.
        return self._as_bytes(_Flow(made, len(kernel), np.float32(6 / 255), 0), made)

    def _folded(self, name: str, norm: str) -> tuple[Float32, Float32]:
        kernel = self.weights[f"{name}.weight"].astype(np.float64)
        gain, shift, mean, variance = (
            self.weights[f"{norm}.{part}"].astype(np.float64)
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        scale = gain / np.sqrt(variance + EPSILON)
        folded = kernel * scale[:, None, None, None]
        return folded.astype(np.float32), (shift - mean * scale).astype(np.float32)

    def _quantised(
        self,
        name: str,
        kernel: Float32,
        bias: Float32,
        scale_in: np.float32,
    ) -> list[str]:
        """Weights and bias as integers with their scales; the names of what they stand for."""
        scale = np.maximum(np.abs(kernel).max((1, 2, 3)) / np.float32(MOST_WEIGHT), 1e-8)
        scale = scale.astype(np.float32)
        integers = np.rint(kernel / scale[:, None, None, None]).astype(np.int8)
        bias_scale = (scale * scale_in).astype(np.float32)
        bounded = np.clip(np.rint(bias.astype(np.float64) / bias_scale), -(2**31), 2**31 - 1)
        names = []
        for part, values, own in (
            ("w", integers, scale),
            ("b", bounded.astype(np.int32), bias_scale),
        ):
            inputs = [
                self.graph.tensor(f"{name}.{part}.integers", values),
                self.graph.tensor(f"{name}.{part}.scale", own),
                self.graph.tensor(f"{name}.{part}.zero", np.zeros(len(own), values.dtype)),
            ]
            names.append(self.graph.node("DequantizeLinear", inputs, f"{name}.{part}", axis=0))
        return names

    def _ranged(self, name: str, channels: int) -> _Flow:
        """A tensor of both signs, in bytes of its range."""
        self.signed[name] = channels
        if self.ranges is None:
            return _Flow(name, channels, np.float32(0), 0)
        scale = np.float32(self.ranges[name] / 127)
        return self._as_bytes(_Flow(name, channels, scale, 128), name)

    def _as_bytes(self, flow: _Flow, name: str) -> _Flow:
        """The tensor rounded to bytes and back: what onnxruntime joins with its neighbours."""
        graph = self.graph
        scale = graph.tensor(f"{name}.scale", np.asarray(flow.scale))
        zero = graph.tensor(f"{name}.zero", np.asarray(flow.zero, np.uint8))
        integers = graph.node("QuantizeLinear", [flow.name, scale, zero], f"{name}.bytes")
        made = graph.node("DequantizeLinear", [integers, scale, zero], f"{name}.rounded")
        return _Flow(made, flow.channels, flow.scale, flow.zero)


def lite0(weights: Weights, ranges: Ranges | None = LITE0_RANGES, last: int = 10) -> bytes:
    """The ONNX file of Lite0 up to and with block `last`, from torch's tensors by name."""
    return Lite(weights, ranges).build(last)
