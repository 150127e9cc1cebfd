"""The model file: tensors in safetensors, everything else as versioned JSON. It cannot execute."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from halfseen.data.files import write_atomically
from halfseen.data.limits import LIMITS
from halfseen.errors import HalfseenError, ModelError
from halfseen.features.descriptor import make_descriptor
from halfseen.features.pyramid import PyramidSettings
from halfseen.model.calibration import EVIDENCE, Calibration, CalibrationSettings
from halfseen.model.mask_head import SIDE, FigureSettings, Grouping, HiddenSettings, MaskHead
from halfseen.model.mixture import Component, Mixture
from halfseen.model.shipped import find_model

VERSION = 2
# Files of these versions are read as well; their mask heads and calibrations are not.
OLDER = (1,)
# What a mask head may do without: what is known of the object's figure.
FIGURE = ("figure", "looks")


def save(model: Mixture, path: str | os.PathLike[str]) -> None:
    """Writes a model file; an existing one is replaced only once the new one is complete."""
    from safetensors.numpy import save as encode

    if not isinstance(model, Mixture):
        raise ModelError(f"save: expected a model, as of hs.load, found {type(model).__name__}")
    _check_label(model.label)
    tensors: dict[str, np.ndarray] = {}
    components = []
    for i, component in enumerate(model.components):
        tensors[f"weights.{i}"] = np.ascontiguousarray(component.weights)
        components.append(
            {
                "bias": component.bias,
                "u": component.u,
                "u_t": component.u_t,
                "box": [float(v) for v in component.box],
            }
        )
    header = {
        "version": VERSION,
        "label": model.label,
        "method": model.method,
        "mirrored": model.mirrored,
        "alpha": model.alpha,
        "descriptor": {"name": model.descriptor.name, "options": model.descriptor.options()},
        "pyramid": {"factor": model.pyramid.factor, "largest": model.pyramid.largest},
        "components": components,
        "training": model.training,
    }
    if model.head is not None:
        header["head"] = {
            "alpha": model.head.alpha,
            "cutoff": list(model.head.cutoff),
            "settings": asdict(model.head.settings),
            "figures": asdict(model.head.figures),
        }
        if model.head.grouping is not None:
            for name, tensor in model.head.grouping.tensors().items():
                tensors[f"head.grouping.{name}"] = np.ascontiguousarray(tensor)
        for i, (weights, bias) in enumerate(zip(model.head.weights, model.head.bias, strict=True)):
            tensors[f"head.weights.{i}"] = np.ascontiguousarray(weights)
            tensors[f"head.bias.{i}"] = np.ascontiguousarray(bias)
        for name in FIGURE:
            for i, part in enumerate(getattr(model.head, name)):
                tensors[f"head.{name}.{i}"] = np.ascontiguousarray(part)
    if model.calibration is not None:
        header["calibration"] = {
            "evidence": EVIDENCE,
            "scale": model.calibration.scale,
            "settings": asdict(model.calibration.settings),
        }
        tensors["calibration.bias"] = np.ascontiguousarray(model.calibration.bias)
        tensors["calibration.weights"] = np.ascontiguousarray(model.calibration.weights)
    text = json.dumps(header, allow_nan=False, sort_keys=True)
    try:
        write_atomically(path, encode(tensors, {"halfseen": text}))
    except OSError as error:
        raise HalfseenError(f"{path}: cannot be written: {error.strerror or error}") from None


def load(path: str | os.PathLike[str]) -> Mixture:
    """Reads a model file, or the shipped model of a class (`load("car")`).

    Whatever is wrong with it raises ModelError before anything is used.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise ModelError(
            f"expected a model's file or name, as hs.load takes it, found {type(path).__name__}"
        )
    path = find_model(path)
    header, tensors = _read(path)
    try:
        return _model(header, tensors)
    except HalfseenError as error:
        raise ModelError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        what = f"field {error} is missing" if isinstance(error, KeyError) else str(error)
        raise ModelError(f"{path}: not a valid halfseen model: {what}") from None


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load as decode

    try:
        if not path.is_file():
            raise ModelError(f"{path}: expected a model file, found a folder or device")
        if path.stat().st_size > LIMITS.model_bytes:
            raise ModelError(
                f"{path}: expected a model of at most {LIMITS.model_bytes >> 20} MiB, "
                f"found {path.stat().st_size >> 20} MiB"
            )
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from None
    try:
        length = int.from_bytes(content[:8], "little")
        meta = json.loads(content[8 : 8 + length])["__metadata__"]["halfseen"]
        header = json.loads(meta)
        tensors = decode(content)
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError):
        raise ModelError(
            f"{path}: expected a halfseen model file (safetensors), found something else; "
            "make one with `halfseen train`"
        ) from None
    version = header.get("version") if isinstance(header, dict) else None
    if version not in (VERSION, *OLDER):
        raise ModelError(
            f"{path}: expected model version {VERSION}, found {version!r}; "
            "use the halfseen release that wrote it, or train again"
        )
    learnt = [name for name in ("head", "calibration") if name in header]
    if version in OLDER and learnt:
        raise ModelError(
            f"{path}: expected a model of version {VERSION}, found version {version} with a "
            f"{' and a '.join(learnt)} of an earlier release, which would mean something else now; "
            "train it again"
        )
    return header, tensors


def _model(header: dict[str, Any], tensors: dict[str, np.ndarray]) -> Mixture:
    described = header["components"]
    if not 1 <= len(described) <= LIMITS.components:
        raise ModelError(f"expected 1 to {LIMITS.components} components, found {len(described)}")
    components = []
    for i, fields in enumerate(described):
        if f"weights.{i}" not in tensors:
            raise ModelError(f"tensor weights.{i} is missing")
        weights = tensors[f"weights.{i}"]
        if (
            weights.ndim != 3
            or max(weights.shape[:2]) > LIMITS.window_side
            or weights.shape[2] > LIMITS.channels
        ):
            raise ModelError(
                f"tensor weights.{i}: expected at most {LIMITS.window_side} x "
                f"{LIMITS.window_side} x {LIMITS.channels}, found {weights.shape}"
            )
        box = np.asarray(fields["box"], np.float64)
        components.append(
            Component(weights, float(fields["bias"]), float(fields["u"]), float(fields["u_t"]), box)
        )
    descriptor = header["descriptor"]
    options = dict(descriptor["options"])
    if descriptor["name"] == "hog":
        options.setdefault("border", False)  # as it was when files did not say
    if not isinstance(header["label"], str) or not isinstance(header["mirrored"], bool):
        raise ModelError("label must be a text and mirrored true or false")
    _check_label(header["label"])
    for part in ("head", "calibration"):
        if part not in header and any(name.startswith(f"{part}.") for name in tensors):
            raise ModelError(f"tensors of a {part}, but no entry {part!r}: the file was changed")
    return Mixture(
        label=header["label"],
        method=header["method"],
        components=tuple(components),
        mirrored=header["mirrored"],
        alpha=float(header["alpha"]),
        descriptor=make_descriptor(str(descriptor["name"]), **options),
        pyramid=PyramidSettings(**header["pyramid"]),
        training=dict(header["training"]),
        head=_head(header["head"], tensors, len(components)) if "head" in header else None,
        calibration=_calibration(header["calibration"], tensors)
        if "calibration" in header
        else None,
    )


def _check_label(label: str) -> None:
    if not 1 <= len(label) <= LIMITS.label_chars:
        raise ModelError(
            f"expected a label of 1 to {LIMITS.label_chars} characters, found {len(label)}"
        )


def _head(fields: dict[str, Any], tensors: dict[str, np.ndarray], count: int) -> MaskHead:
    parts: dict[str, list[np.ndarray]] = {"weights": [], "bias": []}
    for part in FIGURE:
        if any(name.startswith(f"head.{part}.") for name in tensors):
            parts[part] = []
    for i in range(count):
        for name, found in parts.items():
            if f"head.{name}.{i}" not in tensors:
                raise ModelError(f"tensor head.{name}.{i} is missing")
            found.append(tensors[f"head.{name}.{i}"])
        most = (LIMITS.window_side, LIMITS.window_side, SIDE, SIDE, LIMITS.channels)
        shape = parts["weights"][i].shape
        if len(shape) != 5 or any(n > limit for n, limit in zip(shape, most, strict=True)):
            raise ModelError(f"tensor head.weights.{i}: expected at most {most}, found {shape}")
    cutoff = fields.get("cutoff", [])
    if not isinstance(cutoff, list) or any(type(value) not in (int, float) for value in cutoff):
        raise ModelError(f"a mask head's cutoff must be a list of numbers, found {cutoff!r:.80}")
    grouping = {
        name.removeprefix("head.grouping."): tensor
        for name, tensor in tensors.items()
        if name.startswith("head.grouping.")
    }
    return MaskHead(
        tuple(parts["weights"]),
        tuple(parts["bias"]),
        float(fields["alpha"]),
        tuple(map(float, cutoff)),
        Grouping.of(grouping) if grouping else None,
        settings=HiddenSettings(**fields["settings"]),
        figures=FigureSettings(**fields["figures"]),
        **{part: tuple(parts.get(part, [])) for part in FIGURE},
    )


def _calibration(fields: dict[str, Any], tensors: dict[str, np.ndarray]) -> Calibration:
    if fields["evidence"] != list(EVIDENCE):
        found = repr(fields["evidence"])[:80]
        raise ModelError(
            f"a calibration by {found}, expected {list(EVIDENCE)}; calibrate the model again"
        )
    for name in ("calibration.bias", "calibration.weights"):
        if name not in tensors:
            raise ModelError(f"tensor {name} is missing")
    bias, weights = tensors["calibration.bias"], tensors["calibration.weights"]
    settings = CalibrationSettings(**fields["settings"])
    return Calibration(bias, weights, float(fields["scale"]), settings)
