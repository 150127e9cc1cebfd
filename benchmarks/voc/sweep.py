"""The occlusion sweep on VOC: whole objects of val under texture, for BL, BLT, VIS and VIS+NMS.

    python benchmarks/voc/sweep.py VOC STUDY/default --test ids --class car --class bus

needs VOC and a folder with CLASS-{BL,BLT,VIS}.safetensors, as `halfseen reproduce` makes it. For
each class it takes val images with about 60 whole objects and 200 images without the class, both
drawn from the seed, and covers 0, 20, 40 and 60% of every whole object with texture cut from 40
further val images without the class; training saw train images only, so no model knows them.

AP is of whole objects among these images: higher than on all of val, which has far more places to
be wrong. Other objects count as neither right nor wrong. Balanced accuracy is of hidden blocks in
the windows that found their object; chance is 0.5. All methods look at the same pictures, once.

Each class is kept in OUT/CLASS.json when it is done: the same command goes on after a kill, and
does a class again whose models or settings changed. Writes the figure and OUT/table.md; the last
line printed is JSON: per class, method and share, and the means over the classes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from halfseen.compute.map import map_images
from halfseen.data.dataset import Dataset
from halfseen.data.files import write_atomically
from halfseen.data.voc import read_voc
from halfseen.evaluate.evaluation import Conditions
from halfseen.evaluate.sweep import SHARES, summarise_sweep
from halfseen.evaluate.table import Table
from halfseen.evaluate.visibility import whole
from halfseen.report.plots import as_png, points, style
from halfseen.studies.evaluate import MethodsOnImage, name_methods

CLASSES = ("aeroplane", "bus", "car", "horse", "motorbike", "tvmonitor")
PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "sweep-voc.png"
METHODS = ("BL", "BLT", "VIS")
TEXTURES = 40
FIELDS = ("ap", "balanced_accuracy", "false_hidden")
Points = list[dict[str, Any]]


def choose(
    dataset: Dataset, label: str, objects: int, negatives: int, seed: int
) -> tuple[Dataset, Dataset]:
    """Images with whole objects and without the class, to test on; and others for texture."""
    order = np.random.default_rng([seed, len(dataset)]).permutation(len(dataset))
    counts = [int((whole(dataset[i]) & (dataset[i].label == label)).sum()) for i in order]
    # Images in the drawn order, until they hold enough objects.
    before = np.cumsum(counts) - counts
    own = [i for i, count, so_far in zip(order, counts, before, strict=True)
           if count and so_far < objects]  # fmt: skip
    free = [i for i in order if not (dataset[i].label == label).any()]
    return dataset[np.array(own + free[:negatives])], dataset[
        np.array(free[negatives : negatives + TEXTURES])
    ]


def sweep_class(dataset: Dataset, label: str, options: argparse.Namespace) -> Points:
    """AP and accuracy of every method at every share."""
    files = [options.study / f"{label}-{method}.safetensors" for method in METHODS]
    methods = name_methods([str(file) for file in files])
    test, others = choose(dataset, label, options.objects, options.negatives, options.seed)
    textures = [others.image(i) for i in range(len(others))]
    conditions = Conditions(options.threshold, SHARES, options.seed)
    seen = list(
        map_images(
            MethodsOnImage(test, label, methods, conditions, textures),
            range(len(test)),
            options.cores,
        )
    )
    unread = [result for result in seen if isinstance(result, str)]
    if unread:
        raise SystemExit(unread[0])
    swept = [result.swept for result in seen if not isinstance(result, str) and result.swept]
    return [
        {
            "method": point.method,
            "share": point.share,
            "objects": point.ap.positives,
            "ap": 100 * float(point.ap.ap),
            "balanced_accuracy": point.blocks.balanced_accuracy,
            "false_hidden": point.blocks.false_hidden_share,
            "found": point.blocks.objects,
        }
        for point in summarise_sweep(test.truths, swept, label)
    ]


def kept(path: Path, key: str) -> Points | None:
    """The points of a class that was done before, under the same key."""
    try:
        content = json.loads(path.read_text())
        return content["points"] if content["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def key_of(label: str, options: argparse.Namespace, dataset: Dataset) -> str:
    """Names all that decides the points of a class."""
    digest = hashlib.sha256()
    for method in METHODS:
        digest.update((options.study / f"{label}-{method}.safetensors").read_bytes())
    numbers = (options.objects, options.negatives, options.seed, options.threshold, len(dataset))
    digest.update(repr((numbers, SHARES, TEXTURES)).encode())
    return digest.hexdigest()


def mean_points(classes: dict[str, Points]) -> Points:
    """The mean at every method and share, over the classes that have something to judge."""
    means = []
    for rows in zip(*classes.values(), strict=True):
        point = {name: rows[0][name] for name in ("method", "share")}
        for field in FIELDS:
            values = [row[field] for row in rows if not math.isnan(row[field])]
            point[field] = sum(values) / len(values) if values else math.nan
        means.append(point)
    return means


def write_figure(means: Points, title: str, path: Path) -> None:
    """Mean AP, and mean balanced accuracy of hidden blocks, against the share covered."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure((8.8, 3.3), layout="constrained")
        panels = (
            ("ap", "AP of whole objects, %", 0.0, 102.0),
            ("balanced_accuracy", "hidden blocks, balanced accuracy", 0.4, 1.02),
        )
        for n, (field, what, low, high) in enumerate(panels):
            axes = figure.add_subplot(
                1, 2, n + 1, xlabel="share of each object covered", ylabel=what
            )
            for m, method in enumerate(dict.fromkeys(point["method"] for point in means)):
                own = [p for p in means if p["method"] == method and not math.isnan(p[field])]
                points(axes, m, method, [p["share"] for p in own], [p[field] for p in own])
            axes.set_xticks(SHARES, [f"{share:.0%}" for share in SHARES])
            axes.set(ylim=(low, high))
            axes.legend()
        figure.suptitle(title, fontsize=9.5, x=0.01, ha="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, as_png(figure))


def table(classes: dict[str, Points], means: Points) -> Table:
    """A row for each class and method: AP, then balanced accuracy, at every share."""
    rows: list[list[Any]] = []
    for label, own in {**classes, "mean": means}.items():
        for method in dict.fromkeys(point["method"] for point in own):
            at = [point for point in own if point["method"] == method]
            cells = [f"{p['balanced_accuracy']:.2f}" for p in at if p["share"] > 0]
            rows.append([label, method, *(p["ap"] for p in at), *cells])
    shares = [f"{share:.0%}" for share in SHARES]
    columns = [f"AP {share}" for share in shares] + [f"BA {share}" for share in shares[1:]]
    return Table(["class", "method", *columns], rows)


def plain(classes: dict[str, Points]) -> Any:
    """For JSON, which has no NaN: figures rounded, by class, then method, then share."""
    return {
        label: {
            method: {
                f"{p['share']:g}": {f: None if math.isnan(p[f]) else round(p[f], 3) for f in FIELDS}
                for p in own
                if p["method"] == method
            }
            for method in dict.fromkeys(p["method"] for p in own)
        }
        for label, own in classes.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("voc")
    parser.add_argument("study", type=Path, help="a folder of models")
    parser.add_argument("--test", default="val", help="split or file of ids")
    parser.add_argument("--class", dest="classes", action="append", help="default: six of them")
    parser.add_argument("--objects", type=int, default=60, help="whole objects a class, about")
    parser.add_argument("--negatives", type=int, default=200, help="images without the class")
    parser.add_argument("--threshold", type=float, default=-1.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cores", type=int)
    parser.add_argument("--out", type=Path, help="default: STUDY/sweep")
    parser.add_argument("--picture", type=Path, default=PICTURE)
    options = parser.parse_args()
    out = options.out or options.study / "sweep"
    out.mkdir(parents=True, exist_ok=True)
    dataset = read_voc(options.voc, options.test)
    classes: dict[str, Points] = {}
    for label in options.classes or CLASSES:
        path, key = out / f"{label}.json", key_of(label, options, dataset)
        done = kept(path, key)
        if done is None:
            start = time.process_time()
            done = sweep_class(dataset, label, options)
            write_atomically(path, json.dumps({"key": key, "points": done}).encode())
            print(f"{label}: {time.process_time() - start:.0f} s of processor", flush=True)
        classes[label] = done
    means = mean_points(classes)
    content = table(classes, means)
    write_atomically(out / "table.md", content.markdown().encode())
    print(content.text())
    title = f"Whole objects of VOC 2010 val under unknown texture, mean of {len(classes)} classes"
    write_figure(means, title, options.picture)
    print(f"wrote {out / 'table.md'} and {options.picture}")
    print(json.dumps({"classes": plain(classes), "mean": plain({"mean": means})["mean"]}))


if __name__ == "__main__":
    main()
