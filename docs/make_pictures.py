"""Makes the picture of the first page: `python docs/make_pictures.py`.

A built-in scene on the left; on the right what a VIS model, learnt from other scenes, sees of it.
"""

import argparse
from pathlib import Path

import numpy as np

import halfseen as hs
from halfseen.data.image import write_image
from halfseen.data.scenes import render_scene
from halfseen.view.demo import contact_sheet
from halfseen.view.demo_models import SHOW_SEED, model_file
from halfseen.view.draw import draw_detections

DOCS = Path(__file__).parent
SCENE = 106  # a car behind a hedge, 41% of it in view


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=str(model_file("VIS")), help="a VIS model of cars")
    parser.add_argument("--scene", type=int, default=SCENE, help="number of the scene")
    parser.add_argument("--threshold", type=float, default=0.0, help="lowest score shown")
    parser.add_argument("--out", type=Path, default=DOCS / "halfseen.png")
    options = parser.parse_args()
    image = render_scene(SHOW_SEED, options.scene, ("car",)).truth.source
    assert isinstance(image, np.ndarray)
    found = hs.Detector(hs.load(options.model)).detect(image, options.threshold)
    write_image(options.out, contact_sheet([image, draw_detections(image, found)], columns=2))
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
