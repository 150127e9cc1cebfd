"""Makes the pictures of the documentation from built-in scenes: `python docs/make_pictures.py`.

halfseen.png            a scene; beside it what a VIS model, learnt from other scenes, sees of it,
                        and how probable each car is: that calibration takes a few minutes
pictures/filmstrip.png  a car being covered step by step, and what BL, BLT and VIS make of it
"""

import argparse
from pathlib import Path

import numpy as np

import halfseen as hs
from halfseen.data.image import write_image
from halfseen.data.scenes import render_scene, render_scenes
from halfseen.model.mixture import METHODS
from halfseen.report.draw import draw_detections
from halfseen.report.filmstrip import film, write_film
from halfseen.studies.demo import contact_sheet
from halfseen.web import demo_models
from halfseen.web.catalogue import model_file

DOCS = Path(__file__).parent
SEED = 2024  # no model learnt from these scenes
BEHIND = 26  # a car behind a wall, and one cut by the border behind crates
COVERED = 45  # a large car that nothing hides
LEARNT = 120


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=DOCS, help="where to write")
    parser.add_argument("--behind", type=int, default=BEHIND, help="scene of the first picture")
    parser.add_argument("--covered", type=int, default=COVERED, help="scene of the filmstrip")
    options = parser.parse_args()
    models: dict[str, hs.Mixture] = {method: hs.load(model_file(method)) for method in METHODS}

    image = render_scene(SEED, options.behind, ("car",)).truth.source
    assert isinstance(image, np.ndarray)
    lessons = render_scenes(LEARNT, demo_models.SEED)  # what the model was learnt from
    found = hs.Detector(hs.learn_calibration(lessons, models["VIS"])).detect(image)
    drawn = draw_detections(image, found, strong=None, weak=False)
    sheet = contact_sheet([image, drawn], columns=2)
    write_image(options.out / "halfseen.png", sheet)
    print(f"wrote {options.out / 'halfseen.png'}")

    truth = render_scene(SEED, options.covered, ("car",)).truth
    assert isinstance(truth.source, np.ndarray)
    sides = (truth.full[:, 2:] - truth.full[:, :2]).prod(axis=1) * (truth.visible_fraction > 0.97)
    frames = film(truth.source, truth.full[int(np.argmax(sides))], models)
    (options.out / "pictures").mkdir(exist_ok=True)
    print(f"wrote {write_film(frames, options.out / 'pictures' / 'filmstrip.png')}")


if __name__ == "__main__":
    main()
