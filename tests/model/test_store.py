"""The model file: what comes back, and what is refused in one line that names the file."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load as decode
from safetensors.numpy import save as encode

from halfseen.data.limits import LIMITS
from halfseen.errors import HalfseenError, ModelError
from halfseen.features.fhog import Fhog
from halfseen.features.hog import Hog
from halfseen.features.pyramid import PyramidSettings
from halfseen.model import store
from halfseen.model.mixture import Component, Mixture
from halfseen.model.store import load, save
from tests.builders import Header, Tensors, rewrite


def make_model(label: str = "car") -> Mixture:
    rng = np.random.default_rng(1)
    components = tuple(
        Component(
            rng.normal(size=(rows, cols, 31)).astype(np.float32),
            -1.25, -0.02, 0.015, np.array([0.5, -0.25, cols, rows - 0.5]),
        )
        for rows, cols in ((3, 5), (6, 2))
    )  # fmt: skip
    return Mixture(
        label, "VIS", components, True, 0.05, Fhog(cell=6), PyramidSettings(1.25, 1.5),
        {"seed": 3, "rounds": [1, 2.5, None, "six"]},
    )  # fmt: skip


def refused(path: Path) -> str:
    """The one line with which a file is refused, without the file's name at its start."""
    with pytest.raises(ModelError) as caught:
        load(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    return text.removeprefix(f"{path}: ")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "car.safetensors"
    save(make_model(), path)
    return path


def test_a_model_comes_back_as_it_was(saved: Path) -> None:
    model, again = make_model(), load(saved)
    for name in ("label", "method", "mirrored", "alpha", "descriptor", "pyramid", "training"):
        assert getattr(again, name) == getattr(model, name)
    assert len(again.components) == 2
    for old, new in zip(model.components, again.components, strict=True):
        np.testing.assert_array_equal(new.weights, old.weights)
        np.testing.assert_array_equal(new.box, old.box)
        assert (new.bias, new.u, new.u_t) == (old.bias, old.u, old.u_t)


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    save(make_model(), tmp_path / "a")
    save(load(tmp_path / "a"), str(tmp_path / "b"))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def test_other_descriptors_and_methods_come_back(tmp_path: Path) -> None:
    weights = np.ones((2, 2, 24), np.float32)
    component = Component(weights, 0.0, 0.0, 0.0, np.array([0.0, 0.0, 2.0, 2.0]))
    hog = Hog(cell=5, bins=6, clip=0.3, interpolate=False, border=False)
    save(Mixture("cat", "BLT", (component,), False, 0.0, hog), tmp_path / "cat")
    again = load(tmp_path / "cat")
    assert again.descriptor == hog
    assert (again.method, again.mirrored) == ("BLT", False)


def test_hog_of_files_that_do_not_name_its_border_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    component = Component(
        np.ones((2, 2, 36), np.float32), 0.0, 0.0, 0.0, np.array([0.0, 0.0, 2.0, 2.0])
    )
    model = Mixture("cat", "BL", (component,), False, 0.0, Hog())
    with monkeypatch.context() as before:
        before.setattr(Hog, "options", lambda hog: {"cell": hog.cell, "bins": hog.bins})
        save(model, tmp_path / "cat")
    assert load(tmp_path / "cat").descriptor == Hog(border=False)
    save(model, tmp_path / "cat")
    assert load(tmp_path / "cat").descriptor == Hog()


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 9, 200, -4, -1])
def test_a_truncated_file_is_refused(saved: Path, keep: int) -> None:
    saved.write_bytes(saved.read_bytes()[:keep])
    assert "expected a halfseen model file" in refused(saved)


@pytest.mark.parametrize(
    "content",
    [
        b"not a model at all",
        b"\x89PNG\r\n\x1a\n" + bytes(100),
        b"\xff" * 64,  # declares a header of 2^64 - 1 bytes
        (1 << 40).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"[]",
        encode({"weights.0": np.ones((1, 1, 31), np.float32)}, {"other": "{}"}),
        encode({"weights.0": np.ones((1, 1, 31), np.float32)}, {"halfseen": "no JSON"}),
        encode({"weights.0": np.ones((1, 1, 31), np.float32)}, {"halfseen": "[" * 100_000}),
    ],
    ids=range(9),
)
def test_something_else_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "garbage"
    path.write_bytes(content)
    assert "expected a halfseen model file" in refused(path)


def test_a_tensor_that_declares_more_than_the_file_holds_is_refused(tmp_path: Path) -> None:
    tensor = {"dtype": "F32", "shape": [1 << 20, 1 << 20, 31], "data_offsets": [0, 31 << 42]}
    header = json.dumps({"__metadata__": {"halfseen": "{}"}, "weights.0": tensor}).encode()
    path = tmp_path / "huge"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    assert "expected a halfseen model file" in refused(path)


def test_a_file_beyond_the_limit_is_refused_unread(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LIMITS", replace(LIMITS, model_bytes=1 << 10))
    assert "at most 0 MiB" in refused(saved)


def test_no_file_a_folder_or_a_pipe_is_refused(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "none")
    assert "folder or device" in refused(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "folder or device" in refused(tmp_path / "pipe")


@pytest.mark.parametrize("version", [0, 3, "1", None, [1]])
def test_another_version_is_refused(saved: Path, version: Any) -> None:
    rewrite(saved, lambda header, _: header.update(version=version))
    text = refused(saved)
    assert f"expected model version 2, found {version!r}" in text
    assert "train again" in text


def test_a_header_that_is_no_object_is_refused(saved: Path) -> None:
    tensors = decode(saved.read_bytes())
    saved.write_bytes(encode(tensors, {"halfseen": "[1]"}))
    assert "expected model version 2, found None" in refused(saved)


@pytest.mark.parametrize(
    "name",
    ["label", "method", "mirrored", "alpha", "descriptor", "pyramid", "components", "training"],
)
def test_a_missing_field_is_named(saved: Path, name: str) -> None:
    rewrite(saved, lambda header, _: header.pop(name))
    assert f"field '{name}' is missing" in refused(saved)


@pytest.mark.parametrize("name", ["bias", "u", "u_t", "box"])
def test_a_missing_field_of_a_component_is_named(saved: Path, name: str) -> None:
    rewrite(saved, lambda header, _: header["components"][1].pop(name))
    assert f"field '{name}' is missing" in refused(saved)


def set_value(*path: Any) -> Callable[[Header, Tensors], None]:
    """Sets the last of the path at the place that the others lead to."""

    def change(header: Any, tensors: Tensors) -> None:
        *keys, last, value = path
        for key in keys:
            header = header[key]
        header[last] = value

    return change


def set_weights(weights: np.ndarray) -> Callable[[Header, Tensors], None]:
    def change(header: Header, tensors: Tensors) -> None:
        tensors["weights.0"] = weights

    return change


NAN = float("nan")
BAD_WEIGHTS = np.full((3, 5, 31), NAN, np.float32)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (set_weights(BAD_WEIGHTS), "NaN or infinite"),
        (set_weights(-BAD_WEIGHTS * np.inf), "NaN or infinite"),
        (set_weights(np.ones((3, 5, 31))), "must be float32, found float64"),
        (set_weights(np.ones((3, 5, 31), np.int32)), "must be float32, found int32"),
        (set_weights(np.ones((3, 5, 36), np.float32)), "36 channels, descriptor 'fhog' gives 31"),
        (set_weights(np.ones((3, 5), np.float32)), "weights.0"),
        (set_weights(np.ones((3, 0, 31), np.float32)), "found (3, 0, 31)"),
        (set_weights(np.ones((65, 1, 31), np.float32)), "at most 64 x 64 x 1024"),
        (set_weights(np.ones((1, 1, 2000), np.float32)), "at most 64 x 64 x 1024"),
        (lambda header, tensors: tensors.pop("weights.1"), "tensor weights.1 is missing"),
        (set_value("components", 0, "bias", NAN), "NaN or infinite"),
        (set_value("components", 0, "u", float("inf")), "NaN or infinite"),
        (set_value("components", 0, "u_t", "much"), "could not convert"),
        (set_value("components", 0, "u", None), "not a valid halfseen model"),
        (set_value("components", 0, "bias", 10**400), "not a valid halfseen model"),
        (set_value("components", 0, "box", [0, 0, 1]), "x1 < x2"),
        (set_value("components", 0, "box", [3, 0, 1, 2]), "x1 < x2"),
        (set_value("components", 0, "box", [0, 0, NAN, 2]), "NaN or infinite"),
        (set_value("components", 0, "box", "wide"), "not a valid halfseen model"),
        (set_value("components", 0, 7), "not a valid halfseen model"),
        (set_value("components", []), "expected 1 to 64 components, found 0"),
        (set_value("components", [{}] * 65), "expected 1 to 64 components, found 65"),
        (set_value("components", 3), "not a valid halfseen model"),
        (set_value("method", "BEST"), "must be BL, BLT or VIS, found 'BEST'"),
        (set_value("label", 5), "label must be a text"),
        (set_value("label", ""), "expected a label of 1 to 256 characters, found 0"),
        (set_value("label", "n" * 10_000_000), "1 to 256 characters, found 10000000"),
        (set_value("mirrored", "yes"), "mirrored true or false"),
        (set_value("alpha", NAN), "alpha must be 0 to 1e+06, found nan"),
        (set_value("alpha", -1), "alpha must be 0 to 1e+06, found -1"),
        (set_value("alpha", 1e300), "alpha must be 0 to 1e+06, found 1e+300"),
        (set_value("descriptor", "name", "sift"), "unknown descriptor 'sift'; known: "),
        (set_value("descriptor", "options", "cell", 1), "cell must be 2..64"),
        (set_value("descriptor", "options", "cell", 6.5), "cell must be 2..64"),
        (set_value("descriptor", "options", "cell", "six"), "cell must be 2..64"),
        (set_value("descriptor", "options", "colour", 1), "colour"),
        (set_value("descriptor", "options", [1]), "not a valid halfseen model"),
        (set_value("descriptor", "fhog"), "not a valid halfseen model"),
        (set_value("pyramid", "factor", 1.0), "factor must be between"),
        (set_value("pyramid", "largest", "2"), "largest must be a number, found '2'"),
        (set_value("pyramid", "depth", 2), "depth"),
        (set_value("training", 5), "not a valid halfseen model"),
    ],
)
def test_a_wrong_value_is_refused(
    saved: Path, change: Callable[[Header, Tensors], Any], expected: str
) -> None:
    rewrite(saved, change)
    assert expected in refused(saved)


@pytest.mark.parametrize("failing", ["write", "replace"])
def test_a_failed_write_leaves_the_old_model(
    saved: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    before = saved.read_bytes()

    def full_disk(*arguments: Any) -> Any:
        raise OSError(28, "No space left on device")

    if failing == "replace":
        monkeypatch.setattr(os, "replace", full_disk)
    else:
        real = Path.open

        def open_and_fail(path: Path, mode: str = "r", *rest: Any) -> Any:
            stream = real(path, mode, *rest)
            if "r" in mode:
                return stream
            stream.write(b"half")
            stream.flush()
            stream.close()
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "open", open_and_fail)
    with pytest.raises(HalfseenError) as caught:
        save(make_model("bus"), saved)
    monkeypatch.undo()
    assert str(caught.value) == f"{saved}: cannot be written: No space left on device"
    assert saved.read_bytes() == before
    assert load(saved).label == "car"
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


@pytest.mark.parametrize("length", [0, 257])
def test_a_label_that_could_not_be_read_is_not_written(length: int, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=f"1 to 256 characters, found {length}"):
        save(replace(make_model(), label="n" * length), tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_saving_where_nothing_can_be_written_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "no such folder" / "car"
    with pytest.raises(HalfseenError, match=r"car: cannot be written: No such file or directory"):
        save(make_model(), path)


@pytest.mark.parametrize("part", ["head", "calibration"])
def test_a_part_is_not_lost_because_its_entry_is(part: str, tmp_path: Path) -> None:
    path = tmp_path / "model"
    save(load("car.fhog"), path)

    def change(header: Header, tensors: Tensors) -> None:
        if part == "calibration":
            tensors["calibration.bias"] = np.zeros(1, np.float32)
        header.pop(part, None)

    rewrite(path, change)
    with pytest.raises(ModelError, match=f"tensors of a {part}, but no entry"):
        load(path)


def test_heads_of_the_first_version_are_refused_and_plain_models_load(saved: Path) -> None:
    rewrite(saved, lambda header, _: header.update(version=1))
    load(saved)
    rewrite(saved, lambda header, _: header.update(head={"alpha": 1.0}))
    text = refused(saved)
    assert "found version 1 with a head of an earlier release" in text
    assert "train it again" in text
