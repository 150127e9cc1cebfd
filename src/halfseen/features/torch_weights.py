"""Reader of torch's legacy weight files, without torch: tensors alone, and nothing executes.

Such a file is five pickles (a magic number, a protocol, the machine, the tensors by name, the keys
of their storages), then the storages themselves. An unpickler would run whatever a pickle names;
this one knows three names and refuses all others.
"""

from __future__ import annotations

import io
import math
import pickle
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfseen.errors import ModelError

MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
TYPES = {"FloatStorage": np.dtype("<f4"), "LongStorage": np.dtype("<i8")}


@dataclass(frozen=True)
class _Storage:
    """What a tensor's pickle says of its numbers: their type, key and count."""

    dtype: np.dtype[Any]
    key: str
    count: int


@dataclass(frozen=True)
class _Tensor:
    """A view of a storage: where it starts, its shape, and its strides in elements."""

    storage: _Storage
    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_weights(content: bytes) -> dict[str, NDArray[Any]]:
    """The tensors of a file's bytes by name; ModelError for anything that is not such a file."""
    stream = io.BytesIO(content)
    try:
        magic, protocol, _, tensors, keys = (_Unpickler(stream).load() for _ in range(5))
        if magic != MAGIC or protocol != PROTOCOL:
            raise ModelError("expected torch's magic number and protocol 1001")
        found = {name: t for name, t in tensors.items() if isinstance(t, _Tensor)}
        return _read_tensors(stream, found, keys)
    except ModelError as error:
        raise ModelError(f"not a file of torch weights: {error}") from None
    except Exception as error:  # a pickle may fail in any way
        raise ModelError(f"not a file of torch weights: {type(error).__name__}: {error}") from None


def _read_tensors(
    stream: io.BytesIO, tensors: dict[str, _Tensor], keys: list[str]
) -> dict[str, NDArray[Any]]:
    """Reads the storages, which lie in the order of their keys, and the tensors in them."""
    storages = {tensor.storage.key: tensor.storage for tensor in tensors.values()}
    numbers: dict[str, NDArray[Any]] = {}
    for key in keys:
        storage = storages[key]
        count = int.from_bytes(stream.read(8), "little")
        content = stream.read(count * storage.dtype.itemsize)
        if count != storage.count or len(content) != count * storage.dtype.itemsize:
            raise ModelError(f"storage {key}: expected {storage.count} numbers, found {count}")
        numbers[key] = np.frombuffer(content, storage.dtype)
    result = {}
    for name, tensor in tensors.items():
        own = numbers[tensor.storage.key]
        last = tensor.start + sum(
            (n - 1) * step for n, step in zip(tensor.shape, tensor.strides, strict=True)
        )
        signs = (tensor.start, *tensor.shape, *tensor.strides)
        if min(signs) < 0 or not last < len(own) or math.prod(tensor.shape) > len(own):
            raise ModelError(f"tensor {name} is larger than its storage")
        steps = [step * own.itemsize for step in tensor.strides]
        view = np.lib.stride_tricks.as_strided(own[tensor.start :], tensor.shape, steps)
        result[name] = np.ascontiguousarray(view)
    return result


def _rebuild(
    storage: _Storage, start: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: object
) -> _Tensor:
    if not isinstance(storage, _Storage) or not all(
        type(n) is int for n in (start, *shape, *strides)
    ):
        raise ModelError("a tensor that is none")
    return _Tensor(storage, start, tuple(shape), tuple(strides))


class _Unpickler(pickle.Unpickler):
    """Knows tensors, their storages and dictionaries; a pickle that names anything else fails."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _rebuild
        if module == "torch" and name in TYPES:
            return TYPES[name]
        raise ModelError(f"it asks for {module}.{name}, and nothing but tensors is read")

    def persistent_load(self, pid: Any) -> _Storage:
        kind, dtype, key, _, count, _ = pid
        if kind != "storage" or not isinstance(dtype, np.dtype) or type(count) is not int:
            raise ModelError("a storage that is none")
        return _Storage(dtype, str(key), count)
