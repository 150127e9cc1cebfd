"""What the page can be asked for: sets of models of one class, and built-in scenes."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np

from halfseen.arrays import UInt8
from halfseen.data.records import Record
from halfseen.data.scenes import Scene, render_scene
from halfseen.errors import SettingsError
from halfseen.model.mixture import Mixture
from halfseen.model.shipped import ALL, find_shipped
from halfseen.model.store import load
from halfseen.web.live import RIGID

FOLDER = Path(__file__).parents[1] / "models"
LABEL = "car"
Learnt = Literal["yours", "scenes", "photographs"]
SHOW_SEED = 2024
SCENES: tuple[int, ...] = tuple(json.loads((FOLDER / "scenes.json").read_text()))
"""The scenes on offer, as numbers of `show_scene`."""


def model_file(method: str, folder: Path = FOLDER) -> Path:
    """Where the shipped model of a method, learnt from built-in scenes, is kept."""
    return folder / f"scenes-{LABEL}-{method}.safetensors"


def show_scene(number: int) -> Scene:
    """A scene for the page, with cars only; none was learnt from."""
    return render_scene(SHOW_SEED, number, (LABEL,))


@dataclass(frozen=True)
class ModelSet:
    """The models of one class that are compared with each other, by their methods.

    learnt  from what: built-in scenes, the photographs that shipped models saw, or yours
    """

    name: str
    models: dict[str, Mixture]
    learnt: Learnt = "yours"

    @property
    def label(self) -> str:
        return next(iter(self.models.values())).label


def find_sets(given: Sequence[str | PathLike[str]] = (), folder: Path = FOLDER) -> list[ModelSet]:
    """Sets of the given files first, then of those that ship with the package.

    Files of the same class and different methods make one set. A file that is no model raises
    ModelError.
    """
    sets = _grouped([Path(path) for path in given], "{}", "yours")
    drawn = sorted(folder.glob("scenes-*.safetensors"))
    sets += _grouped(drawn, "{}, learnt from built-in scenes", "scenes")
    best = [model.path for model in find_shipped(ALL, folder / "voc")]
    sets += _grouped(best, "{}, learnt from photographs", "photographs")
    if not sets:
        raise SettingsError("no models: give model files, or make one with `halfseen train`")
    return sets


def photograph_models(sets: Sequence[ModelSet]) -> list[tuple[int, Mixture]]:
    """The models that look through a photograph, with the numbers of their sets: yours, or all."""
    chosen = [n for n, one in enumerate(sets) if one.learnt == "yours"] or [
        n for n, one in enumerate(sets) if one.learnt == "photographs"
    ]
    return [(n, sets[n].models.get("VIS", [*sets[n].models.values()][-1])) for n in chosen]


def _grouped(paths: Sequence[Path], title: str, learnt: Learnt) -> list[ModelSet]:
    sets: list[ModelSet] = []
    for path in paths:
        model = load(path)
        name = title.format(model.label)
        fitting = [s for s in sets if s.name == name and model.method not in s.models]
        if not fitting:
            fitting = [ModelSet(name, {}, learnt)]
            sets += fitting
        fitting[0].models[model.method] = model
    for one in sets:
        if list(one.models) == ["VIS"]:
            vis = one.models["VIS"]
            one.models[RIGID] = replace(vis, method="BLT", head=None, calibration=None)
    return sets


@lru_cache(maxsize=len(SCENES))
def scene(number: int) -> Scene:
    """Scene `number` of those on offer."""
    if not 0 <= number < len(SCENES):
        raise SettingsError(f"scene must be 0 to {len(SCENES) - 1}, found {number}")
    return show_scene(SCENES[number])


def scene_pixels(number: int) -> UInt8:
    source = scene(number).truth.source
    assert not isinstance(source, str)
    return source


def scene_objects(number: int) -> list[Record]:
    """The true objects of a scene: label, whole box and visible share.

    Those in full view come first, then the largest: the page puts its occluder on the first.
    """
    truth = scene(number).truth
    sides = truth.full[:, 2:] - truth.full[:, :2]
    hidden = truth.visible_fraction <= 0.97
    order = np.lexsort((-sides.prod(axis=1) * truth.visible_fraction, hidden))
    return [
        {
            "label": str(truth.label[i]),
            "full": [round(float(v), 1) for v in truth.full[i]],
            "visible_fraction": round(float(truth.visible_fraction[i]), 3),
        }
        for i in order
    ]


@lru_cache(maxsize=2 * len(SCENES))
def scene_file(number: int, small: bool = False) -> bytes:
    """A scene as a PNG file, or its thumbnail as a small JPEG."""
    return encode(scene_pixels(number), (160, 120) if small else None)


def encode(pixels: UInt8, thumbnail: tuple[int, int] | None = None) -> bytes:
    """PNG, without loss; a thumbnail of at most (width, height) is a JPEG."""
    from PIL import Image

    image = Image.fromarray(pixels)
    buffer = io.BytesIO()
    if thumbnail:
        image.thumbnail(thumbnail)
        image.save(buffer, "JPEG", quality=85)
    else:
        image.save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()
