"""The detections that a person should look at: the best, the weakest, false alarms and misses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from halfseen.arrays import Pixels
from halfseen.data.dataset import Dataset
from halfseen.detections import Detections, GroundTruth
from halfseen.evaluate.visibility import whole
from halfseen.evaluate.voc_ap import FALSE, TRUE, Matches, best_overlap
from halfseen.geometry import area
from halfseen.report.closeup import around, close_up

NEAR = 0.1  # IoU from which a detection is about an object, though it may not find it


@dataclass(frozen=True)
class Case:
    """One thing to look at: a detection and an object, either of them optional, and words."""

    image: int
    detection: int | None
    target: int | None
    caption: str


def choose_cases(
    truth: Sequence[GroundTruth],
    found: Sequence[Detections],
    matches: Matches,
    others: dict[str, Matches],
    count: int = 6,
) -> dict[str, list[Case]]:
    """Up to `count` cases under each heading, from different images.

    `others` are the same objects by other methods; captions say how those scored them.
    """
    right = matches.right
    partly = [hit for hit in right if not whole(truth[hit[0]])[hit[2]]]
    captions = _Words(found, matches, others)
    wrong = np.stack((matches.image, matches.index), axis=1)[matches.outcome == FALSE].tolist()
    return {
        "Best": _spread((captions.right(*hit) for hit in right), count),
        "Partly hidden and found": _spread((captions.right(*hit) for hit in partly), count),
        "Weakest of the right ones": _spread((captions.right(*hit) for hit in right[::-1]), count),
        "False alarms": _spread(
            (_false_alarm(truth, found, matches, k, i) for k, i in wrong), count
        ),
        "Missed": _spread(_misses(truth, found, matches, captions), count),
    }


def _spread(cases: Iterable[Case], count: int) -> list[Case]:
    """The first `count` cases of different images."""
    chosen: dict[int, Case] = {}
    for case in cases:
        if len(chosen) == count:
            break
        chosen.setdefault(case.image, case)
    return list(chosen.values())


class _Words:
    """Captions that compare methods on one object."""

    def __init__(
        self, found: Sequence[Detections], matches: Matches, others: dict[str, Matches]
    ) -> None:
        self.found = found
        self.overlap = {
            (int(k), int(i)): float(v)
            for k, i, v in zip(matches.image, matches.index, matches.overlap, strict=True)
        }
        self.others = {
            name: {
                (k, j): float(rank)
                for (k, _, j), rank in zip(m.right, m.rank[m.outcome == TRUE], strict=True)
            }
            for name, m in others.items()
        }

    def right(self, k: int, i: int, j: int) -> Case:
        here = self.found[k]
        text = f"score {here.score[i]:.2f}, IoU {self.overlap[k, i]:.2f}"
        if not here.box_alone(i):
            text += f", {here.visibility[i].mean():.0%} seen"
        return Case(k, i, j, text + self.by_others(k, j))

    def by_others(self, k: int, j: int) -> str:
        scores = [
            f"{name} {scored[k, j]:.2f}" if (k, j) in scored else f"{name} missed"
            for name, scored in self.others.items()
        ]
        return f"; {', '.join(scores)}" if scores else ""


def _false_alarm(
    truth: Sequence[GroundTruth], found: Sequence[Detections], matches: Matches, k: int, i: int
) -> Case:
    """A wrong detection, and what it mistook."""
    here, box = truth[k], found[k].clipped[[i]]
    own = here.label == matches.label
    (same,), (overlap,) = best_overlap(box, here.box[own])
    (other,), (beside,) = best_overlap(box, here.box[~own])
    target = int(np.flatnonzero(own)[same]) if overlap >= NEAR else None
    if overlap >= matches.least:
        why = f"a second time, IoU {overlap:.2f}"
    elif overlap >= NEAR:
        why = f"badly placed, IoU {overlap:.2f}"
    elif beside >= NEAR:
        why = f"on a {here.label[~own][other]}, IoU {beside:.2f}"
    else:
        why = "on background"
    return Case(k, i, target, f"score {found[k].score[i]:.2f}, {why}")


def _misses(
    truth: Sequence[GroundTruth], found: Sequence[Detections], matches: Matches, captions: _Words
) -> Iterable[Case]:
    """Objects that no detection found, the largest first."""
    hit = {(k, j) for k, _, j in matches.right}
    missed = [
        (float(area(here.box[j])), k, int(j))
        for k, here in enumerate(truth)
        for j in np.flatnonzero((here.label == matches.label) & ~here.left_out)
        if (k, int(j)) not in hit
    ]
    for _, k, j in sorted(missed, key=lambda miss: (-miss[0], miss[1:])):
        detected = found[k]
        near, why = None, "nothing near it"
        if len(detected):
            (best,), (overlap,) = best_overlap(truth[k].box[[j]], detected.clipped)
            if overlap >= NEAR:
                near = int(best)
                why = f"nearest: score {detected.score[best]:.2f}, IoU {overlap:.2f}"
        yield Case(k, near, j, why + captions.by_others(k, j))


def picture(dataset: Dataset, found: Sequence[Detections], case: Case, label: str) -> Pixels:
    """The part of the image around the case, with its detection and the true boxes drawn."""
    truth, detected = dataset[case.image], found[case.image]
    chosen = detected[[] if case.detection is None else [case.detection]]
    boxes = list(chosen.clipped)
    if case.target is not None:
        boxes.append(truth.box[case.target])
    region = around(np.array(boxes), truth.size)
    own = truth[truth.label == label]
    return close_up(dataset.image(case.image), region, chosen, own)
