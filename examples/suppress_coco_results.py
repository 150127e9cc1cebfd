"""A neighbour that greedy suppression loses and covering keeps, in a COCO results file with masks.

Run it:  python examples/suppress_coco_results.py [FOLDER]

The results could come from any detector with masks. Here they are made from built-in scenes: each
object's visible mask with a score, and shifted copies of it with lower ones. Where one object
stands in front of another, their boxes overlap so much that greedy suppression by boxes drops the
one behind; their masks hardly overlap, so covering keeps both, and still drops the copies. The same
from a shell:

    halfseen suppress results.json -o kept.json
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

import halfseen as hs
from halfseen.data.rle import decode, encode
from halfseen.suppression.results import suppress_file, suppress_results

COPIES = 5
SEEN, LOST = "#56b4e9", "#e69f00"  # blue and orange that people with any colour vision tell apart
Row = dict[str, Any]


def shifted(mask: NDArray[np.bool_], dy: int, dx: int) -> NDArray[np.bool_]:
    """A mask moved by whole pixels; what leaves the picture is lost."""
    wide = np.pad(mask, ((max(dy, 0), max(-dy, 0)), (max(dx, 0), max(-dx, 0))))
    height, width = mask.shape
    return wide[max(-dy, 0) :][:height, max(-dx, 0) :][:, :width]


def detect(truth: hs.GroundTruth, number: int, rng: np.random.Generator) -> list[Row]:
    """What a detector with masks might report: every object, and copies of it a few pixels off."""
    rows = []
    for i in range(len(truth)):
        mask = truth.mask(i)
        if mask is None or truth.difficult[i]:
            continue
        confidence = 0.5 + 0.4 * truth.visible_fraction[i]
        for copy in range(1 + COPIES):
            moved = shifted(mask, *rng.integers(-6, 7, 2)) if copy else mask
            ys, xs = np.nonzero(moved)
            box = [xs.min(), ys.min(), xs.max() + 1 - xs.min(), ys.max() + 1 - ys.min()]
            rows.append(
                {
                    "image_id": number,
                    "category_id": 1 + ["car", "horse"].index(truth.label[i]),
                    "segmentation": encode(moved),
                    "bbox": [float(side) for side in box],
                    "score": float(confidence * (rng.uniform(0.5, 0.9) if copy else 1)),
                    "object": i,
                }
            )
    return rows


def greedy_by_boxes(rows: list[Row]) -> list[Row]:
    """What most detectors do."""
    boxes = [{key: row[key] for key in row if key != "segmentation"} for row in rows]
    left = suppress_results(boxes, method="greedy", overlap=0.5)
    kept = {(row["image_id"], *row["bbox"]) for row in left}
    return [row for row in rows if (row["image_id"], *row["bbox"]) in kept]


def objects(rows: list[Row]) -> set[tuple[int, int]]:
    """The true objects that results are about."""
    return {(row["image_id"], row["object"]) for row in rows}


def draw(path: Path, truth: hs.GroundTruth, panels: dict[str, list[Row]], lost: int) -> None:
    """The picture beside each set of results; the neighbour in orange."""
    figure, axes = plt.subplots(1, len(panels), figsize=(4.4 * len(panels), 3.8))
    for axis, (title, rows) in zip(axes, panels.items(), strict=True):
        axis.imshow(truth.source)
        for row in rows:
            tone = LOST if row["object"] == lost else SEEN
            mask = decode(row["segmentation"])
            x, y, width, height = row["bbox"]
            axis.contour(mask, [0.5], colors=[tone], linewidths=1.5)
            axis.add_patch(Rectangle((x, y), width, height, fill=False, ec=tone, ls=":", lw=1))
        axis.set_title(f"{title}: {len(rows)}")
        axis.axis("off")
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    plt.close(figure)


def main(folder: Path) -> int:
    """How many objects covering keeps that greedy loses."""
    rng = np.random.default_rng(0)
    scenes = hs.render_scenes(20, seed=3)
    rows = [row for n, truth in enumerate(scenes) for row in detect(truth, n, rng)]
    results, kept_file = folder / "results.json", folder / "kept.json"
    results.write_text(json.dumps(rows))

    suppress_file(results, kept_file, method="covering", overlap=0.3)
    kept = json.loads(kept_file.read_text())
    greedy = greedy_by_boxes(rows)

    every, gained = objects(rows), sorted(objects(kept) - objects(greedy))
    print(f"{len(every)} objects, {len(rows)} results in {results}")
    for name, left in (("greedy by boxes", greedy), ("covering by masks", kept)):
        print(f"{name}: {len(left)} results are left, of {len(objects(left))} objects")
    if gained:
        image, lost = max(gained, key=lambda g: scenes[g[0]].visible_fraction[g[1]])
        panels = {"results": rows, "greedy by boxes": greedy, "covering by masks": kept}
        shown = {t: [r for r in left if r["image_id"] == image] for t, left in panels.items()}
        draw(folder / "neighbour.png", scenes[image], shown, lost)
        print(f"see {folder / 'neighbour.png'}: image {image}, the object in orange")
    return len(gained)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    target.mkdir(parents=True, exist_ok=True)
    main(target)
