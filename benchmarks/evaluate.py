"""Evaluating results by visible fraction: how long it takes, beside pycocotools in the same run.

500 made-up images with 6,000 boxes and some 11,000 results, as COCO files. Ours goes from the files
to VOC AP, COCO AP, recall and log-average miss rate of all objects and of each quarter of visible
fraction, COCO AP by size and the Jaccard index. pycocotools goes from the same files to COCO AP,
overall and by size (its default run), and also, what nobody runs by hand, once for each of the four
quarters. All on one thread, in CPU time, best of several runs; the AP of both must agree.

Prints one line of JSON last.
"""

import contextlib
import io
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from threadpoolctl import threadpool_limits

from halfseen.data.formats import read_dataset
from halfseen.evaluate.any_results import read_any_results
from halfseen.evaluate.evaluation import Evaluation
from halfseen.studies.results import Question, evaluate_results

IMAGES, OBJECTS, RUNS = 500, 12, 3
QUARTERS = ((0.0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1.01))


def make_files(folder: Path) -> tuple[Path, Path]:
    """Annotations of crowds with `vis_ratio`, and results of a detector that misses hidden ones."""
    rng = np.random.default_rng(0)
    annotations: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for image in range(1, IMAGES + 1):
        high = rng.uniform(20, 300, OBJECTS)
        corner = rng.uniform(0, 900, (OBJECTS, 2))
        boxes = np.hstack([corner, np.stack([0.41 * high, high], axis=1)])
        seen = rng.random(OBJECTS)
        for box, share in zip(boxes, seen, strict=True):
            annotations.append({
                "id": len(annotations) + 1, "image_id": image, "category_id": 1, "iscrowd": 0,
                "bbox": box.tolist(), "vis_bbox": box.tolist(), "vis_ratio": float(share),
                "area": float(box[2] * box[3]),
            })  # fmt: skip
        near = np.repeat(boxes, 2, axis=0)
        near += rng.normal(0, 0.06, near.shape) * near[:, 3:]
        near = near[rng.random(len(near)) < 0.4 + 0.6 * np.repeat(seen, 2)]
        alarms = np.hstack([rng.uniform(0, 900, (5, 2)), rng.uniform(20, 200, (5, 2))])
        found = np.maximum(np.vstack([near, alarms]), 1)
        for box, score in zip(found, rng.random(len(found)), strict=True):
            row = {"image_id": image, "category_id": 1, "bbox": box.tolist(), "score": score}
            results.append(row)
    images = [
        {"id": n, "file_name": f"{n}.jpg", "width": 1300, "height": 1300}
        for n in range(1, IMAGES + 1)
    ]
    truth, found_file = folder / "truth.json", folder / "results.json"
    categories = [{"id": 1, "name": "person"}]
    content = {"images": images, "annotations": annotations, "categories": categories}
    truth.write_text(json.dumps(content))
    found_file.write_text(json.dumps(results))
    return truth, found_file


def ours(truth: Path, results: Path) -> Evaluation:
    dataset = read_dataset(truth)
    return evaluate_results(
        dataset, "person", [read_any_results(results, dataset)], Question(("visible",))
    )


def theirs(truth: Path, results: Path) -> float:
    """pycocotools' default run: COCO AP."""
    with contextlib.redirect_stdout(io.StringIO()):
        reference = COCO(str(truth))
        judge = COCOeval(reference, reference.loadRes(str(results)), "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    return float(judge.stats[0])


def theirs_by_quarter(truth: Path, results: Path) -> list[float]:
    """COCO AP of each quarter: objects outside it get an area of 0, which leaves them out."""
    values = []
    with contextlib.redirect_stdout(io.StringIO()):
        reference = COCO(str(truth))
        found = reference.loadRes(str(results))
        for low, high in QUARTERS:
            for row in reference.dataset["annotations"]:
                row["area"] = 99.0 if low <= row["vis_ratio"] < high else 0.0
            judge = COCOeval(reference, found, "bbox")
            judge.params.areaRng, judge.params.areaRngLbl = [[0.5, 1e10]], ["all"]
            judge.params.maxDets = [100]
            judge.evaluate()
            judge.accumulate()
            values.append(float(judge.eval["precision"].mean()))
    return values


def best_of(run: Callable[[Path, Path], Any], files: tuple[Path, Path]) -> tuple[Any, float]:
    result, seconds = None, []
    for _ in range(RUNS):
        start = time.process_time()
        result = run(*files)
        seconds.append(time.process_time() - start)
    return result, min(seconds)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
        files = make_files(Path(folder))
        ours(*files)  # compile, or read the compiled kernels
        evaluation, our_seconds = best_of(ours, files)
        ap, their_seconds = best_of(theirs, files)
        quarters, their_quarters_seconds = best_of(theirs_by_quarter, files)
    _, by_visible = evaluation.tables
    print(by_visible.text())
    (summary,) = evaluation.summaries
    coco = [float(row[4]) / 100 for row in by_visible.rows]
    figures = {
        "images": summary.images,
        "objects": summary.objects,
        "results": summary.detections,
        "ours_seconds": round(our_seconds, 3),
        "pycocotools_seconds": round(their_seconds, 3),
        "pycocotools_by_quarter_seconds": round(their_quarters_seconds, 3),
        "pycocotools_over_ours": round(their_seconds / our_seconds, 1),
        "pycocotools_by_quarter_over_ours": round(their_quarters_seconds / our_seconds, 1),
        "ap_difference": max(
            abs(a - b) for a, b in zip(coco, [ap, *quarters], strict=True)
        ),
    }  # fmt: skip
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
