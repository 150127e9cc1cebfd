"""Draws what is typical of figures: `docs/pictures/typical-figures.png`.

    python docs/make_figures.py FOLDER

takes the mask heads of CLASS-VIS.safetensors in FOLDER, as benchmarks/voc/masks.py leaves them, and
shows for each component in what share of the whole objects a block is figure. No photograph is
shown: these are numbers that were learnt from boxes.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt

import halfseen as hs
from halfseen.model.mixture import Mixture

OUT = Path(__file__).parent / "pictures" / "typical-figures.png"
CLASSES = ("car", "bus", "bicycle", "motorbike", "horse", "aeroplane")


def draw(models: list[Mixture], path: Path) -> None:
    most = max(len(model.components) for model in models)
    figure, axes = plt.subplots(
        most, len(models), figsize=(1.9 * len(models), 1.8 * most), squeeze=False
    )
    for column, model in zip(axes.T, models, strict=True):
        for axis in column:
            axis.axis("off")
        assert model.head is not None
        for axis, share in zip(column, model.head.figure, strict=False):
            image = axis.imshow(share, cmap="Greys", vmin=0, vmax=1)
        column[0].set_title(model.label)
    bar = figure.colorbar(image, ax=axes, shrink=0.8)
    bar.set_label("share of whole objects\nin which the block is figure")
    figure.savefig(path, dpi=110, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    draw([hs.load(folder / f"{label}-VIS.safetensors") for label in CLASSES], OUT)
    print(OUT)


if __name__ == "__main__":
    main()
