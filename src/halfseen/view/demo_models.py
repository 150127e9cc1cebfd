"""The page's own models: BL, BLT and VIS of one class, learnt from built-in scenes alone.

`python -m halfseen.view.demo_models` makes them again, in a few minutes, and chooses the scenes on
which the page shows them; the same code and seed give the same bytes. They are small and know only
drawn cars: enough to show what each method does.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from halfseen.data.files import write_atomically
from halfseen.data.image import Pixels
from halfseen.data.scenes import Scene, render_scene, render_scenes
from halfseen.geometry import Boxes, iou_matrix
from halfseen.infer.detector import Detector
from halfseen.learn.settings import TrainSettings
from halfseen.learn.trainer import Trainer
from halfseen.model.mixture import Method
from halfseen.model.store import load, save

FOLDER = Path(__file__).parents[1] / "models"
METHODS: tuple[Method, ...] = ("BL", "BLT", "VIS")
LABEL = "car"
SEED = 7
SHOW_SEED = 2024
SHOWN = 12
WIDE = 110  # pixels of a car that is easily covered in part


def model_file(method: str, folder: Path = FOLDER) -> Path:
    """Where the demo model of a method is kept."""
    return folder / f"scenes-{LABEL}-{method}.safetensors"


def make_demo_models(
    folder: Path = FOLDER,
    scenes: int = 120,
    cores: int | None = None,
    on_step: Callable[[str], None] = lambda step: None,
) -> list[Path]:
    """Trains the three models on the same scenes, writes them, and returns their files."""
    folder.mkdir(parents=True, exist_ok=True)
    on_step(f"drawing {scenes} scenes")
    lessons = render_scenes(scenes, SEED)
    settings = TrainSettings(mining_images=scenes // 2, updates=2, rounds=3)
    files = []
    with Trainer(lessons, LABEL, settings, cores) as trainer:
        for method in METHODS:
            on_step(f"learning {LABEL} with {method}")
            files.append(model_file(method, folder))
            save(trainer.with_method(method).run(), files[-1])
    return files


def show_scene(number: int) -> Scene:
    """A scene for the page, with cars only; none was learnt from."""
    return render_scene(SHOW_SEED, number, (LABEL,))


def choose_scenes(folder: Path = FOLDER, count: int = SHOWN) -> Path:
    """Writes the numbers of the first scenes with a large, whole car that every method finds."""
    detectors = [Detector(load(model_file(method, folder))) for method in METHODS]
    chosen: list[int] = []
    number = 0
    while len(chosen) < count:
        truth = show_scene(number).truth
        if len(truth) and not isinstance(truth.source, str):
            wide = (truth.full[:, 2] - truth.full[:, 0]) * (truth.visible_fraction > 0.97)
            box = truth.full[[int(np.argmax(wide))]]
            if wide.max() >= WIDE and all(_finds(d, truth.source, box) for d in detectors):
                chosen.append(number)
        number += 1
    path = folder / "scenes.json"
    write_atomically(path, json.dumps(chosen).encode())
    return path


def _finds(detector: Detector, image: Pixels, box: Boxes) -> bool:
    found = detector.detect(image, threshold=0.0)
    return bool((iou_matrix(found.full, box) > 0.6).any())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where to write")
    parser.add_argument("--scenes", type=int, default=120, help="how many to learn from")
    parser.add_argument("--cores", type=int, default=None, help="how many to use; default all")
    options = parser.parse_args()
    files = make_demo_models(options.folder, options.scenes, options.cores, print)
    for path in [*files, choose_scenes(options.folder)]:
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
