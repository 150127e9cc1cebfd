"""Draws the AP of 20 classes beside the paper's, from the table of docs/lab/detection.md.

    python docs/make_plots.py

`halfseen reproduce` makes that table; here its columns VIS and paper VIS become
docs/pictures/ap-by-class.png.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from halfseen.report.palette import BLUE, GREY, hexadecimal

DOCS = Path(__file__).parent
TABLE = DOCS / "lab" / "detection.md"
PICTURE = DOCS / "pictures" / "ap-by-class.png"
OURS, PAPER = "VIS", "paper VIS"


def read_table(text: str) -> dict[str, dict[str, float]]:
    """The first table of a page, by class and column, without the row of means."""
    lines = text.splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("| class |"))
    names = [name.strip() for name in lines[start].strip("|").split("|")][1:]
    rows: dict[str, dict[str, float]] = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        label, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        if not label.startswith("**"):
            rows[label] = dict(zip(names, map(float, cells), strict=True))
    return rows


def draw(rows: dict[str, dict[str, float]], path: Path) -> None:
    """Horizontal bars, the class with the highest AP first."""
    labels = sorted(rows, key=lambda label: rows[label][OURS])
    place = np.arange(len(labels))
    figure, axis = plt.subplots(figsize=(7.2, 5.2))
    for shift, column, name, colour in (
        (0.2, OURS, "halfseen, VOC 2010 val", BLUE),
        (-0.2, PAPER, "the paper, VOC 2010 test", GREY),
    ):
        values = [rows[label][column] for label in labels]
        axis.barh(place + shift, values, 0.4, label=name, color=hexadecimal(colour))
    axis.set_yticks(place, labels)
    axis.set_xlabel("AP of VIS, percent")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    draw(read_table(TABLE.read_text()), PICTURE)
    print(PICTURE)
