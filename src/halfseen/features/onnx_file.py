"""ONNX files: a writer of what a convolutional network needs, and a reader that checks strangers'.

ONNX is protobuf: fields of a number and a type, nested. The bytes written depend on nothing but
what is written, so that a file can be known by its hash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfseen.errors import ModelError

IR_VERSION, OPSET = 8, 13
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FLOAT = 1
_TYPES = {"float32": _FLOAT, "uint8": 2, "int8": 3, "int32": 6}
# What a stranger's network may consist of, and the largest size, stride or padding in it.
OPERATIONS = frozenset({
    "Add", "AveragePool", "BatchNormalization", "Clip", "Concat", "Constant", "Conv",
    "DequantizeLinear", "Div", "Dropout", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu",
    "MaxPool", "Mul", "PRelu", "QLinearConv", "QuantizeLinear", "Relu", "Sigmoid", "Sub", "Tanh",
})  # fmt: skip
MOST_NUMBER = 4096
Attribute = int | str | Sequence[int]


@dataclass
class Graph:
    """A network under construction: nodes and weights, in the order in which they are added."""

    nodes: list[bytes] = field(default_factory=list)
    tensors: list[bytes] = field(default_factory=list)

    def tensor(self, name: str, values: NDArray[Any]) -> str:
        """Adds a constant tensor; its name."""
        dims = b"".join(_field(1, n) for n in values.shape)
        kind = _field(2, _TYPES[values.dtype.name])
        data = np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes()
        self.tensors.append(dims + kind + _field(8, name) + _field(9, data))
        return name

    def node(self, kind: str, inputs: Sequence[str], output: str, **attributes: Attribute) -> str:
        """Adds an operation; the name of its output."""
        parts = [_field(1, name) for name in inputs]
        parts += [_field(2, output), _field(3, output), _field(4, kind)]
        parts += [_field(5, _attribute(name, value)) for name, value in attributes.items()]
        self.nodes.append(b"".join(parts))
        return output

    def model(self, source: str, channels: int, outputs: Mapping[str, int]) -> bytes:
        """The file of a network from images (1, channels, height, width) of any size.

        outputs  names and channels
        """
        graph = b"".join(
            [
                *(_field(1, node) for node in self.nodes),
                _field(2, "backbone"),
                *(_field(5, tensor) for tensor in self.tensors),
                _field(11, _value(source, channels, "height", "width")),
                *(_field(12, _value(name, n, "rows", "cols")) for name, n in outputs.items()),
            ]
        )
        opset = _field(1, "") + _field(2, OPSET)
        return _field(1, IR_VERSION) + _field(7, graph) + _field(8, opset)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value)
    content = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, int):
        return _field(1, name) + _field(3, value) + _field(20, 2)
    if isinstance(value, str):
        return _field(1, name) + _field(4, value) + _field(20, 3)
    return _field(1, name) + b"".join(_field(8, n) for n in value) + _field(20, 7)


def _value(name: str, channels: int, height: str, width: str) -> bytes:
    """A float32 tensor (1, channels, height, width) whose sides are open."""
    dims = [_field(1, 1), _field(1, channels), _field(2, height), _field(2, width)]
    shape = b"".join(_field(1, dim) for dim in dims)
    return _field(1, name) + _field(2, _field(1, _field(1, _FLOAT) + _field(2, shape)))


def check_network(content: bytes) -> None:
    """ModelError unless a stranger's ONNX file is a plain network.

    Plain is: operations of convolutional networks alone, each ONNX's own; weights in the file, not
    in others that it names; no branches, loops or functions; kernels and padding of sensible size.
    """
    try:
        parts = list(_fields(content))
        graphs = [value for number, value in parts if number == 7]
        if len(graphs) != 1 or any(number in (20, 25) for number, _ in parts):
            raise ModelError("expected one graph, without functions or training")
        for number, value in _fields(_content(graphs[0])):
            if number == 1:
                _check_node(_content(value))
            elif number == 5:
                _check_tensor(_content(value))
            elif number == 15:
                raise ModelError("its weights are sparse")
    except (IndexError, UnicodeDecodeError):
        raise ModelError("not an ONNX file") from None


def _check_node(node: bytes) -> None:
    kind, domain = "", ""
    for number, value in _fields(node):
        if number == 4:
            kind = _content(value).decode()
        elif number == 7:
            domain = _content(value).decode()
        elif number == 5:
            _check_attribute(_content(value))
    if kind not in OPERATIONS or domain not in ("", "ai.onnx"):
        raise ModelError(
            f"operation {domain}{'.' if domain else ''}{kind!r:.60} is not one of those that a "
            f"backbone may have: {', '.join(sorted(OPERATIONS))}"
        )


def _check_attribute(attribute: bytes) -> None:
    for number, value in _fields(attribute):
        if number == 5:
            _check_tensor(_content(value))
        elif number in (6, 10, 11, 22, 23):
            raise ModelError("an operation holds a graph or many tensors")
        elif number in (3, 8):
            # A list of numbers may be packed into one field.
            packed = [value] if isinstance(value, int) else _varints(value)
            if any(MOST_NUMBER < n < 1 << 63 for n in packed):
                raise ModelError(f"a size above {MOST_NUMBER} in an operation")


def _check_tensor(tensor: bytes) -> None:
    if any(number in (13, 14) and value for number, value in _fields(tensor)):
        raise ModelError("its weights are in other files; expected them in this one")


def _content(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise IndexError
    return value


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The numbers and values of a message's fields; IndexError where it is none."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _read_varint(message, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _read_varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise IndexError
        if at + size > len(message):
            raise IndexError
        yield number, message[at : at + size]
        at += size


def _varints(packed: bytes) -> list[int]:
    found, at = [], 0
    while at < len(packed):
        value, at = _read_varint(packed, at)
        found.append(value)
    return found


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(10):
        byte = message[at + place]
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return value, at + place + 1
    raise IndexError
