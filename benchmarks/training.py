"""Training a class with 200 mining images: ours and dlib's, on the same scenes, in the same run.

dlib's `train_simple_object_detector` learns one template, so it gets its best chance: objects of
the commonest shape are positives, all others are marked to be ignored; flips, all cores and its
default window. Both are tested on the same new scenes by VOC's AP (all-point) in points of 100,
ours with default settings.

Prints one line of JSON; `peak_mib` is of our training, and the seconds of processor time, which
include the tests, say more than the others on a busy machine. `--costs` prints instead what
`halfseen check` estimates time by: seconds of one core for each unit of work.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from halfseen.cli.options import MethodName, Preset, make_settings
from halfseen.compute.libraries import available_cores
from halfseen.compute.map import map_images
from halfseen.data.dataset import Dataset
from halfseen.data.image import write_image
from halfseen.data.scenes import render_scenes
from halfseen.detections import Detections
from halfseen.evaluate.voc_ap import average_precision
from halfseen.learn.estimate import count_blocks, estimate
from halfseen.learn.plan import make_plan
from halfseen.learn.settings import TrainSettings
from halfseen.learn.train import train
from halfseen.learn.trainer import Trainer
from halfseen.learn.training_set import TrainingSet
from halfseen.refine.detector import Detector

TRAIN_SEED, TEST_SEED = 11, 12
LABEL = "car"


def ours(lessons: Dataset, test: Dataset, settings: TrainSettings) -> tuple[float, float]:
    """Seconds, AP."""
    start = time.perf_counter()
    model = train(lessons, LABEL, settings)
    seconds = time.perf_counter() - start
    detector = Detector(model)
    found = list(map_images(lambda i: detector.detect(test.image(i)), range(len(test))))
    return seconds, float(average_precision(test.truths, found, LABEL).ap)


def write_dlib(lessons: Dataset, folder: Path) -> Path:
    """dlib's XML: the commonest shape (within a quarter of the median ratio) to be learnt."""
    boxes = np.concatenate([t.box[(t.label == LABEL) & ~t.truncated & ~t.occluded & ~t.difficult]
                            for t in lessons])  # fmt: skip
    common = np.median((boxes[:, 3] - boxes[:, 1]) / (boxes[:, 2] - boxes[:, 0]))
    lines = ["<dataset><images>"]
    for i, truth in enumerate(lessons):
        file = folder / f"{i}.png"
        write_image(file, lessons.image(i))
        lines.append(f"<image file={quoteattr(str(file))}>")
        for k in np.flatnonzero(truth.label == LABEL):
            x1, y1, x2, y2 = truth.box[k]
            ratio = (y2 - y1) / (x2 - x1)
            clear = not (truth.truncated[k] or truth.occluded[k] or truth.difficult[k])
            fits = clear and 0.75 < ratio / common < 1.33 and (x2 - x1) * (y2 - y1) > 1600
            lines.append(
                f'<box top="{y1:.0f}" left="{x1:.0f}" width="{x2 - x1:.0f}" '
                f'height="{y2 - y1:.0f}" ignore="{0 if fits else 1}"/>'
            )
        lines.append("</image>")
    lines.append("</images></dataset>")
    path = folder / "scenes.xml"
    path.write_text("\n".join(lines))
    return path


def dlibs(lessons: Dataset, test: Dataset) -> tuple[float, float]:
    """Seconds, AP."""
    import dlib

    options = dlib.simple_object_detector_training_options()
    options.add_left_right_image_flips = True
    options.num_threads = available_cores()
    options.C = 5
    with tempfile.TemporaryDirectory() as scratch:
        xml = write_dlib(lessons, Path(scratch))
        svm = str(Path(scratch, "car.svm"))
        start = time.perf_counter()
        dlib.train_simple_object_detector(str(xml), svm, options)
        seconds = time.perf_counter() - start
        detector = dlib.fhog_object_detector(svm)
    found = []
    for i in range(len(test)):
        rectangles, scores, _ = detector.run(test.image(i), 1, -1.0)
        boxes = np.array(
            [[r.left(), r.top(), r.right() + 1, r.bottom() + 1] for r in rectangles], float
        ).reshape(-1, 4)
        count = len(boxes)
        flags = (np.ones((1, 1), bool),) * count
        found.append(
            Detections(
                np.array(scores, float), np.full(count, LABEL), np.zeros(count, np.int64),
                np.zeros(count, bool), boxes, boxes, boxes, flags, test[i].size,
            )
        )  # fmt: skip
    return seconds, float(average_precision(test.truths, found, LABEL).ap)


def costs(lessons: Dataset, settings: TrainSettings) -> dict[str, Any]:
    """Seconds of one core for a block's features, a product of mining, a number of a fit."""
    from halfseen.learn import objective

    spent = {"_mine": 0.0, "_fit": 0.0}
    windows = [0.0]

    def timed(name: str) -> None:
        method = getattr(Trainer, name)

        def run(*arguments: Any) -> Any:
            start = time.process_time()
            result = method(*arguments)
            spent[name] += time.process_time() - start
            return result

        setattr(Trainer, name, run)

    for name in spent:
        timed(name)
    call = objective.Objective.__call__
    evaluations = [0]

    def counted(self: Any, vector: Any, parameters: Any, positives: Any, negatives: Any,
                pool: Any = None) -> Any:  # fmt: skip
        evaluations[0] += 1
        batches = [p.examples for p in positives] + [n.examples for n in negatives]
        windows[0] += sum(e.features.size for e in batches)
        return call(self, vector, parameters, positives, negatives, pool)

    objective.Objective.__call__ = counted  # type: ignore[method-assign]
    plan = make_plan(lessons, LABEL, settings)
    start = time.process_time()
    with TrainingSet(lessons, LABEL, settings, 1) as data:
        features = time.process_time() - start
        rounds: list[Any] = []
        Trainer(data).run(rounds.append)
        total = time.process_time() - start
    mined = count_blocks(plan, plan.mining)
    read = mined + count_blocks(plan, sorted(set(plan.objects.image.tolist())))
    products = mined * sum(r * c for r, c in plan.shapes) * (1 + settings.mirrored)
    return {
        "features": features / read,
        "mining": spent["_mine"] / ((len(rounds) - 1) * products * plan.descriptor.channels),
        "fitting": spent["_fit"] / windows[0],
        "evaluations": evaluations[0] / len(rounds),
        "stored": float(np.mean([r.negatives for r in rounds])) / len(plan.mining),
        "cpu_seconds": total,
        "estimated_cpu_seconds": sum(cost.seconds for cost in estimate(plan)),
        "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "estimated_mib": max(cost.memory for cost in estimate(plan)) / 2**20,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenes", type=int, default=200)
    parser.add_argument("--tests", type=int, default=150)
    parser.add_argument("--set", dest="chosen", action="append")
    parser.add_argument("--costs", action="store_true")
    options = parser.parse_args()
    settings = make_settings(Preset.default, MethodName.VIS, 0, options.chosen)
    lessons = render_scenes(options.scenes, TRAIN_SEED)
    if options.costs:
        print(json.dumps({k: float(f"{v:.3g}") for k, v in costs(lessons, settings).items()}))
        return
    test = render_scenes(options.tests, TEST_SEED).of_class(LABEL)
    clock = time.process_time()
    ours_seconds, ours_ap = ours(lessons, test, settings)
    ours_cpu = time.process_time() - clock
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    clock = time.process_time()
    dlib_seconds, dlib_ap = dlibs(lessons, test)
    dlib_cpu = time.process_time() - clock
    result = {
        "ours_seconds": ours_seconds, "dlib_seconds": dlib_seconds,
        "ours_ap": 100 * ours_ap, "dlib_ap": 100 * dlib_ap, "peak_mib": peak,
        "ours_cpu_seconds": ours_cpu, "dlib_cpu_seconds": dlib_cpu,
    }  # fmt: skip
    print(json.dumps({name: round(value, 1) for name, value in result.items()}))


if __name__ == "__main__":
    main()
