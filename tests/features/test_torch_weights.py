"""The reader of torch's legacy files: tensors as they were written, and nothing else."""

import io
import pickle
import struct
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from halfseen.errors import ModelError
from halfseen.features.torch_weights import MAGIC, PROTOCOL, read_weights


class _Named:
    """Pickles as a name of another module, which need not be there."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name


# Python's pickler that is written in Python: its `save` can be extended.
PurePickler: Any = pickle._Pickler


class _Pickler(PurePickler):  # type: ignore[misc]
    """Writes `_Named` as a global, storages as persistent ids, and tensors as torch does."""

    def persistent_id(self, obj: Any) -> Any:
        return obj if isinstance(obj, tuple) and obj[:1] == ("storage",) else None

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if isinstance(obj, _Named):
            self.write(f"c{obj.module}\n{obj.name}\n".encode())
        elif isinstance(obj, tuple) and obj[:1] == ("tensor",):
            self.save(_Named("torch._utils", "_rebuild_tensor_v2"))
            self.save(obj[1:])
            self.write(b"R")
        else:
            super().save(obj, save_persistent_id)


def write(
    tensors: dict[str, NDArray[np.float32]],
    strides: dict[str, tuple[int, ...]] | None = None,
    count: int | None = None,
) -> bytes:
    """A file of contiguous tensors; `strides` and `count` lie about them."""
    out = io.BytesIO()
    described: OrderedDict[str, Any] = OrderedDict()
    for key, values in tensors.items():
        own = tuple(step // 4 for step in values.strides)
        storage = ("storage", _Named("torch", "FloatStorage"), key, "cpu", values.size, None)
        step = (strides or {}).get(key, own)
        described[key] = ("tensor", storage, 0, values.shape, step, False, OrderedDict())
    for part in (MAGIC, PROTOCOL, {"little_endian": True}, described, list(tensors)):
        _Pickler(out, 2).dump(part)
    for values in tensors.values():
        out.write(struct.pack("<q", values.size if count is None else count))
        out.write(values.tobytes())
    return out.getvalue()


def test_tensors_are_read_as_they_were_written() -> None:
    rng = np.random.default_rng(0)
    tensors = {
        "kernel": rng.normal(size=(4, 3, 2, 2)).astype(np.float32),
        "bias": rng.normal(size=4).astype(np.float32),
    }
    found = read_weights(write(tensors))
    assert found.keys() == tensors.keys()
    for name, values in tensors.items():
        np.testing.assert_array_equal(found[name], values)
    turned = read_weights(write({"w": tensors["kernel"]}, {"w": (1, 4, 12, 24)}))["w"]
    expected = tensors["kernel"].ravel().reshape(2, 2, 3, 4).transpose(3, 2, 1, 0)
    np.testing.assert_array_equal(turned, expected)


def test_a_pickle_that_names_anything_else_is_refused_and_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for attack in (
        b"cos\nsystem\n(S'touch executed'\ntR.",
        b'cbuiltins\neval\n(S\'open("executed", "w")\'\ntR.',
        b"ctorch._utils\n_rebuild_tensor_v2\n(I1\nI2\nI3\nI4\ntR.",
    ):
        with pytest.raises(ModelError, match="not a file of torch weights"):
            read_weights(attack)
    assert list(tmp_path.iterdir()) == []


def test_damaged_files_are_refused() -> None:
    good = write({"w": np.ones((2, 3), np.float32)})
    for damaged in (b"", b"\x80", good[:-1], good[: len(good) // 2], good[:20] + good[21:]):
        with pytest.raises(ModelError, match="not a file of torch weights"):
            read_weights(damaged)


@pytest.mark.parametrize("step", [(3, 2), (10**12, 1), (-3, 1)])
def test_a_tensor_beyond_its_storage_is_refused(step: tuple[int, int]) -> None:
    content = write({"w": np.ones((2, 3), np.float32)}, {"w": step})
    with pytest.raises(ModelError, match="larger than its storage"):
        read_weights(content)
    with pytest.raises(ModelError, match="expected 6 numbers"):
        read_weights(write({"w": np.ones((2, 3), np.float32)}, count=1 << 40))
