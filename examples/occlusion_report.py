"""Which of two detectors is better on people who are less than half visible?

    python examples/occlusion_report.py first.json second.json --truth val.json -o report

The results are files of any detector (COCO JSON, VOC, KITTI or MOT text, CrowdHuman .odgt), the
truth is of any format that says how much of each person is visible: CrowdHuman, CityPersons,
Caltech, MOT, or COCO with `vis_ratio`. Prints the answer with a 95% interval of a paired bootstrap
over images, and writes report.html with curves and the worst misses. Without arguments it draws
the detections of two made-up detectors, so that you can see what comes out.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

import halfseen as hs
from halfseen.data.formats import guess_format, read_dataset
from halfseen.errors import HalfseenError
from halfseen.evaluate.any_results import Results, read_any_results
from halfseen.evaluate.bootstrap import bootstrap_difference
from halfseen.evaluate.results import box_detections
from halfseen.evaluate.visibility import restrict
from halfseen.report.files import write_files
from halfseen.studies.results import Question, evaluate_results

LABEL = "person"


def made_up() -> tuple[hs.Dataset, list[Results]]:
    """A crowd of 200 images and two detectors, of which the second finds hidden people."""
    rng = np.random.default_rng(0)
    truths: list[hs.GroundTruth] = []
    founds: tuple[list[hs.Detections], ...] = ([], [])
    for n in range(200):
        high = rng.uniform(40, 200, 8)
        corner = rng.uniform(0, 600, (8, 2))
        boxes = np.hstack([corner, corner + np.stack([0.41 * high, high], axis=1)])
        seen = rng.uniform(0.1, 1, 8)
        people = hs.GroundTruth.make(
            f"{n}", "", (900, 900), [LABEL] * 8, boxes, visible_fraction=seen
        )
        truths.append(people)
        for found, harder in zip(founds, (1.0, 0.4), strict=True):
            hit = rng.random(8) < seen**harder
            near = boxes[hit] + rng.normal(0, 0.04, (hit.sum(), 4)) * high[hit, None]
            alarms = boxes[:2] + 400
            score = np.concatenate([0.5 + seen[hit] / 2 * rng.random(hit.sum()), rng.random(2) / 2])
            both = np.vstack([near, alarms])
            found.append(box_detections(both, score, np.full(len(both), LABEL), (900, 900)))
    results = [Results(f"detector {n + 1}", "made up", tuple(f)) for n, f in enumerate(founds)]
    return hs.Dataset("made-up crowd", (LABEL,), tuple(truths)), results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("results", nargs="*", type=Path, help="two results files")
    parser.add_argument("--truth", type=Path, help="annotations")
    parser.add_argument("--images", type=Path, help="the folder of the images")
    parser.add_argument("--label", default=LABEL, help="the class")
    parser.add_argument("-o", "--out", type=Path, help="where to write the report")
    options = parser.parse_args()

    question = Question(by=("visible",))
    if (options.truth is None) != (not options.results):
        parser.error("give two results files and --truth, or nothing at all")
    if options.truth is None:
        dataset, results = made_up()
    else:
        dataset = read_dataset(options.truth, images=options.images)
        results = [read_any_results(path, dataset) for path in options.results]
        question = replace(question, boxes=guess_format(options.truth).boxes)
    if len(results) != 2:
        parser.error("give two results files")

    evaluation = evaluate_results(dataset, options.label, results, question)
    for table in evaluation.tables:
        print(table.text(), end="\n\n")

    truth = evaluation.dataset.truths
    hidden = [here.visible_fraction < 0.5 for here in truth]
    first, second = (restrict(m, truth, hidden) for m in evaluation.matches.values())
    difference = bootstrap_difference(first, second)
    one, two = evaluation.matches
    better = two if difference.difference > 0 else one
    sure = "" if difference.certain else ", but the interval holds 0: it may be chance"
    print(f"On the {first.positives} that are less than half visible, {better} is better{sure}:")
    print(f"{two} against {one}: {difference} (95% interval)")
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        write_files(options.out, [evaluation], "val", {"data": dataset.name})
        print(f"wrote {options.out / 'report.html'}")


if __name__ == "__main__":
    try:
        main()
    except HalfseenError as error:
        raise SystemExit(str(error)) from None
