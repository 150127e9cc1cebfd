"""The page's own models: BL, BLT and VIS of one class, learnt from built-in scenes alone.

`python -m halfseen.web.demo_models` makes them again, in a few minutes, and chooses the scenes
on which the page shows them; the same code and seed give the same bytes. They are small and know
only drawn cars: enough to show what each method does. That of VIS has a mask head.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from halfseen.arrays import Pixels
from halfseen.data.files import write_atomically
from halfseen.data.image import as_image
from halfseen.data.records import Record
from halfseen.data.scenes import render_scenes
from halfseen.geometry import Boxes, clip
from halfseen.learn.masks.head import learn_masks
from halfseen.learn.settings import TrainSettings
from halfseen.learn.trainer import Trainer
from halfseen.learn.training_set import TrainingSet
from halfseen.model.mixture import METHODS, Mixture
from halfseen.model.store import load, save
from halfseen.web.catalogue import FOLDER, LABEL, model_file, show_scene
from halfseen.web.live import LiveSettings, compare

SEED = 7
SHOWN = 12
WIDE = 110  # pixels of a car that is easily covered in part
COVERED = 0.45
NOTHING: Record = {"reported": False, "score": -np.inf}


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
    settings = TrainSettings(mining_images=scenes // 2, updates=2, rounds=3, masks=True)
    files = []
    with TrainingSet(lessons, LABEL, settings, cores) as data:
        trainer = Trainer(data)
        for method in METHODS:
            on_step(f"learning {LABEL} with {method}")
            files.append(model_file(method, folder))
            model = trainer.with_method(method).run()
            save(learn_masks(lessons, model) if method == "VIS" else model, files[-1])
    return files


def choose_scenes(folder: Path = FOLDER, count: int = SHOWN) -> Path:
    """Writes the numbers of the first scenes with a large, whole car that every method finds.

    Those come first in which VIS finds it half covered, and by how much it is then above BL: the
    page opens with what it is about. The others stay, so that it also shows where this fails.
    """
    models = {str(method): load(model_file(method, folder)) for method in METHODS}
    stories: list[tuple[bool, float, int]] = []
    number = 0
    while len(stories) < count:
        truth = show_scene(number).truth
        wide = (truth.full[:, 2] - truth.full[:, 0]) * (truth.visible_fraction > 0.97)
        if wide.max(initial=0) >= WIDE:
            box = truth.full[int(np.argmax(wide))]
            image = as_image(truth.source)
            if all(seen["reported"] for seen in _followed(image, models, box).values()):
                scores = _followed(_half_covered(image, box), models, box)
                vis = scores["VIS"]["score"]
                stories.append((vis < 0, scores["BL"]["score"] - vis, number))
        number += 1
    path = folder / "scenes.json"
    write_atomically(path, json.dumps([story[-1] for story in sorted(stories)]).encode())
    return path


def _followed(image: Pixels, models: dict[str, Mixture], box: Boxes) -> dict[str, Record]:
    """What each method says of the object in a box."""
    reports = compare(image, models, LiveSettings(), box.tolist())["methods"]
    return {report["method"]: report["watched"] or NOTHING for report in reports}


def _half_covered(image: Pixels, box: Boxes) -> Pixels:
    """The image with coarse noise over the left part of a box."""
    x1, y1, x2, y2 = (int(v) for v in clip(box, (image.shape[0], image.shape[1])))
    x2 = round(x1 + COVERED * (x2 - x1))
    grain = np.random.default_rng(SEED).integers(0, 220, (y2 - y1, x2 - x1, 1))
    covered = image.copy()
    covered[y1:y2, x1:x2] = grain.repeat(4, 0).repeat(4, 1)[: y2 - y1, : x2 - x1]
    return covered


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
