"""The whole story on built-in scenes: learn from boxes, look at new scenes, draw what was found."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from halfseen.compute import map_images
from halfseen.data.image import write_image
from halfseen.data.scenes import render_scenes
from halfseen.evaluate.voc_ap import average_precision
from halfseen.infer.detector import Detector
from halfseen.learn.settings import TrainSettings
from halfseen.learn.trainer import train
from halfseen.model.store import save
from halfseen.view.draw import draw_detections
from halfseen.view.sketch import Pixels

TEST_SEED = 1_000_000  # apart from any seed that a user would choose for training
STRONG = 0.0
GAP = 8  # pixels between the pictures of a sheet


@dataclass(frozen=True)
class Demo:
    """What the demo found and wrote. `ap` is VOC's, all-point, in 0..1."""

    ap: float
    images: int
    objects: int
    files: tuple[Path, ...]


def run_demo(
    out: Path,
    label: str = "car",
    scenes: int = 150,
    tests: int = 60,
    pictures: int = 12,
    seed: int = 1,
    cores: int | None = None,
    on_step: Callable[[str], None] = lambda step: None,
) -> Demo:
    """Learns `label` from rendered scenes, and detects it in others; writes into `out`.

    `scenes` to learn from, `tests` to measure on, of which the first `pictures` with an object are
    drawn: one file each, and all on a sheet.
    """
    (out / "pictures").mkdir(parents=True, exist_ok=True)
    on_step(f"drawing {scenes} scenes to learn from and {tests} to look at")
    lessons = render_scenes(scenes, seed)
    unseen = render_scenes(tests, seed + TEST_SEED).of_class(label)
    on_step(f"learning {label} from their boxes")
    settings = TrainSettings(mining_images=min(scenes, 60), updates=2, rounds=3, blocks=80)
    model = train(lessons, label, settings, cores=cores)
    model_file = out / f"{label}.safetensors"
    save(model, model_file)
    on_step("detecting")
    detector = Detector(model)
    found = list(map_images(lambda i: detector.detect(unseen.image(i)), range(tests), cores))
    shown = [i for i in range(tests) if len(unseen[i])][:pictures]
    drawn = [draw_detections(unseen.image(i), found[i], strong=STRONG) for i in shown]
    files = [out / "pictures" / f"{unseen[i].image}.png" for i in shown]
    for file, picture in zip(files, drawn, strict=True):
        write_image(file, picture)
    sheet = out / "sheet.png"
    if drawn:
        write_image(sheet, contact_sheet(drawn))
        files.insert(0, sheet)
    result = average_precision(unseen.truths, found)
    strong = sum(int((seen.score >= STRONG).sum()) for seen in found)
    return Demo(float(result.ap), tests, strong, (model_file, *files))


def contact_sheet(pictures: Sequence[Pixels], columns: int | None = None) -> Pixels:
    """Pictures side by side on white, in rows; each keeps its size."""
    across = columns or max(1, math.ceil(math.sqrt(len(pictures))))
    rows = [pictures[k : k + across] for k in range(0, len(pictures), across)]
    high = max(picture.shape[0] for picture in pictures) + GAP
    wide = max(picture.shape[1] for picture in pictures) + GAP
    sheet = np.full((high * len(rows) + GAP, wide * across + GAP, 3), 255, np.uint8)
    for r, row in enumerate(rows):
        for c, picture in enumerate(row):
            top, left = GAP + r * high, GAP + c * wide
            sheet[top : top + picture.shape[0], left : left + picture.shape[1]] = picture
    return sheet
