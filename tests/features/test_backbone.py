"""Backbones as files: made once, known by their hashes, and refused in one line if damaged."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from halfseen.errors import ModelError
from halfseen.features import backbone as module
from halfseen.features.backbone import (
    PLACES,
    describe,
    find_backbone,
    known_backbones,
    network_bytes,
    read_backbone,
)
from halfseen.features.net import Net
from halfseen.features.onnx_file import Graph, check_network
from tests.features.networks import CHANNELS, STRIDE, small_network, write_backbone


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv(PLACES, str(tmp_path))
    find_backbone.cache_clear()
    yield tmp_path
    find_backbone.cache_clear()


def run(folder: Path) -> None:
    """Loads backbone `small` and runs it."""
    find_backbone.cache_clear()
    Net(STRIDE, "small")(np.zeros((3, 20, 24), np.float32))


def test_the_default_is_made_once_and_checked_by_its_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    backbone = find_backbone("lite0")
    assert describe(backbone)["state"] == "not made yet"
    content = network_bytes(backbone)
    assert backbone.file.read_bytes() == content
    assert describe(backbone)["state"] == "ready"
    monkeypatch.setattr(module, "make_network", pytest.fail)
    assert network_bytes(backbone) == content


def test_a_damaged_network_in_the_cache_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    backbone = find_backbone("lite0")
    content = network_bytes(backbone)
    backbone.file.write_bytes(content[:-1])
    assert "expected the file with SHA-256" in describe(backbone)["state"]
    assert network_bytes(backbone) == content
    assert backbone.file.read_bytes() == content


def test_a_cache_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "halfseen").write_text("a file where the folder should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert network_bytes(find_backbone("lite0"))


def test_other_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    other = tmp_path / "weights.pth"
    other.write_bytes(b"cos\nsystem\n(S'touch executed'\ntR.")
    monkeypatch.setattr(module, "weights_file", lambda: other)
    with pytest.raises(ModelError, match=r"weights\.pth: expected the file with SHA-256 5793"):
        network_bytes(find_backbone("lite0"))


def test_backbones_of_ones_own_are_found_by_name(own: Path) -> None:
    write_backbone(own, small_network())
    assert known_backbones() == ["lite0", "small"]
    run(own)
    first = find_backbone("small").sha256
    write_backbone(own, small_network(seed=2))
    find_backbone.cache_clear()
    assert find_backbone("small").sha256 != first


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stride": None}, "field 'stride' is missing"),
        ({"stride": 4.5}, "something else for stride"),
        ({"stride": 1}, "expected stride 2..64"),
        ({"before": 4}, "0 <= before < stride"),
        ({"reach": 10**6}, "reach 0..1024"),
        ({"length": -1}, "length in"),
        ({"length": "x"}, "could not convert"),
        ({"mean": [1, 2]}, "three numbers for mean and scale"),
        ({"scale": [1, 0, 1]}, "scale above 0"),
        ({"network": 7}, "something else for network"),
        ({"network": "../small.onnx"}, "network must be a file beside it"),
        ({"projection": "/etc/passwd"}, "projection must be a file beside it"),
        ({"projection_sha256": "0" * 64}, r"small.safetensors: expected the file with SHA-256 00"),
    ],
)
def test_a_wrong_description_is_one_line(own: Path, changes: dict[str, Any], message: str) -> None:
    path = write_backbone(own, small_network(), **changes)
    with pytest.raises(ModelError, match=message) as caught:
        read_backbone(path)
    assert "\n" not in str(caught.value)


def test_a_description_that_is_none_is_one_line(own: Path) -> None:
    for text in ("", "[]", "[" * 10_000, '{"mean": 1}', "\x00"):
        (own / "small.json").write_text(text)
        with pytest.raises(ModelError, match="not a valid description"):
            read_backbone(own / "small.json")
    (own / "small.json").write_text(" " * (1 << 17))
    with pytest.raises(ModelError, match="at most 65,536 bytes"):
        read_backbone(own / "small.json")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"output": "other"}, "expected input 'image' and output 'other'"),
        ({"input": "other"}, "expected input 'other'"),
        ({"stride": 5}, "expected float32 blocks"),
        ({"sha256": "0" * 64}, r"small.onnx: expected the file with SHA-256 00"),
    ],
)
def test_a_network_of_another_form_is_one_line(
    own: Path, changes: dict[str, Any], message: str
) -> None:
    write_backbone(own, small_network(), **changes)
    find_backbone.cache_clear()
    with pytest.raises(ModelError, match=message):
        Net(changes.get("stride", STRIDE), "small")(np.zeros((3, 20, 24), np.float32))


def broken_networks() -> dict[str, tuple[bytes, str]]:
    """Files of strangers, and what is said of each."""
    good = small_network()
    found = {"empty": (b"", "one graph"), "cut": (good[:-3], "not an ONNX file")}
    found["text"] = b"no network at all", "not an ONNX file|one graph"
    for kind in ("Loop", "If", "Resize", "PyOp", "ConvTranspose"):
        graph = Graph()
        graph.node(kind, ["image"], "blocks")
        found[kind] = graph.model("image", 3, {"blocks": CHANNELS}), f"operation '{kind}'"
    graph = Graph()
    inputs = ["image", graph.tensor("w", np.zeros((CHANNELS, 3, 1, 1), np.float32))]
    graph.node("Conv", inputs, "blocks", pads=[10**9] * 4, kernel_shape=[1, 1])
    found["padded"] = graph.model("image", 3, {"blocks": CHANNELS}), "a size above 4096"
    graph = Graph()
    graph.node("Conv", ["image", "nowhere"], "blocks", kernel_shape=[1, 1])
    found["unconnected"] = graph.model("image", 3, {"blocks": 1}), "not a network that can be run"
    graph = Graph()
    graph.node("Identity", ["image"], "blocks")
    # Field 14 of a tensor, data_location, says that its numbers are in another file.
    graph.tensors.append(bytes([14 << 3, 1]))
    found["external"] = graph.model("image", 3, {"blocks": 3}), "in other files"
    return found


@pytest.mark.parametrize("name", sorted(broken_networks()))
def test_a_strangers_network_is_refused_in_one_line(own: Path, name: str) -> None:
    content, message = broken_networks()[name]
    write_backbone(own, content)
    with pytest.raises(ModelError, match=message) as caught:
        run(own)
    assert "\n" not in str(caught.value)
    assert "small.onnx" in str(caught.value)


def test_a_network_that_grows_without_end_stays_within_its_memory(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, flow = Graph(), "image"
    for n in range(30):
        flow = graph.node("Concat", [flow, flow], f"c{n}", axis=1)
    graph.node("Identity", [flow], "blocks")
    write_backbone(own, graph.model("image", 3, {"blocks": 3 << 30}))
    with pytest.raises(ModelError, match="cannot be run"):
        run(own)


def test_a_network_larger_than_the_limit_is_not_read(own: Path) -> None:
    write_backbone(own, small_network())
    with (own / "small.onnx").open("r+b") as stream:
        stream.truncate(300 << 20)
    with pytest.raises(ModelError, match="expected a file of at most 268,435,456 bytes"):
        run(own)


def test_the_default_passes_the_check_of_strangers() -> None:
    check_network(network_bytes(find_backbone("lite0")))
