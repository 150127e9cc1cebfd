"""The page's own models: BL, BLT and VIS of one class, learnt from built-in scenes alone.

`python -m halfseen.view.demo_models` makes them again, in a few minutes; the same code and seed
give the same bytes. They are small and know only drawn cars: enough to show what each method does.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from halfseen.data.scenes import render_scenes
from halfseen.learn.settings import TrainSettings
from halfseen.learn.trainer import train
from halfseen.model.mixture import Method
from halfseen.model.store import save

FOLDER = Path(__file__).parents[1] / "models"
METHODS: tuple[Method, ...] = ("BL", "BLT", "VIS")
LABEL = "car"
SEED = 7


def model_file(method: str, folder: Path = FOLDER) -> Path:
    """Where the demo model of a method is kept."""
    return folder / f"scenes-{LABEL}-{method}.safetensors"


def make_demo_models(
    folder: Path = FOLDER,
    scenes: int = 240,
    cores: int | None = None,
    on_step: Callable[[str], None] = lambda step: None,
) -> list[Path]:
    """Trains the three models on the same scenes, writes them, and returns their files."""
    folder.mkdir(parents=True, exist_ok=True)
    on_step(f"drawing {scenes} scenes")
    lessons = render_scenes(scenes, SEED)
    files = []
    for method in METHODS:
        on_step(f"learning {LABEL} with {method}")
        settings = TrainSettings(method=method, mining_images=min(scenes, 120), updates=3, rounds=3)
        model = train(lessons, LABEL, settings, cores=cores)
        files.append(model_file(method, folder))
        save(model, files[-1])
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where to write")
    parser.add_argument("--scenes", type=int, default=240, help="how many to learn from")
    parser.add_argument("--cores", type=int, default=None, help="how many to use; default all")
    options = parser.parse_args()
    for path in make_demo_models(options.folder, options.scenes, options.cores, print):
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
