"""Learning the probability of a detection, from images that the detector was not learnt from.

1. The images are halved. Of each half a model is learnt with the same settings, and detects in the
   other half: in its images with the class, and in some of the rest, which weigh the more.
2. It detects once more where whole objects are covered by texture from other images: few training
   objects are hidden by much, and these are to be found as well.
3. Greedy suppression keeps detections, and VOC's rule says which are right.
4. These models have fewer images than the model itself, and give lower scores. How much lower, the
   strongest false alarms in images without the class say: `learn_scale`.
5. A logistic regression for each component on the `evidence` of detections. Its ridge pulls it
   towards the regression of all components together, for components with few detections.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from halfseen.arrays import Bool, Float64, Int64, UInt8
from halfseen.compute.libraries import one_blas_thread
from halfseen.data.dataset import Dataset
from halfseen.detections import Detections, GroundTruth
from halfseen.errors import SettingsError, TrainingError
from halfseen.evaluate.sweep import cover_objects
from halfseen.evaluate.visibility import whole
from halfseen.evaluate.voc_ap import NEITHER, TRUE, match
from halfseen.learn.checkpoint import Saved
from halfseen.learn.folds import all_but, split_folds
from halfseen.learn.logistic import fit_logistic
from halfseen.learn.progress import Run
from halfseen.learn.settings import CalibrateSettings, TrainSettings
from halfseen.learn.trainer import fit_detector
from halfseen.model.calibration import EVIDENCE, RISING, Calibration, CalibrationSettings
from halfseen.model.mixture import Mixture
from halfseen.refine.detector import Detector
from halfseen.refine.probability import evidence
from halfseen.suppression import suppress

log = logging.getLogger(__name__)


# About this share of the work on one half is its detector; then detections.
DETECTOR = 0.8
# What follows after the halves: detections of the model itself, then the end.
HALVES, OWN = 0.95, 0.99


class Kept(NamedTuple):
    """What greedy suppression kept of an image, and all candidates that it chose from."""

    kept: Detections
    candidates: Detections


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Detections with what is known of them and whether they are right, as parallel arrays.

    component  (N,)
    evidence   (N, len(EVIDENCE))
    right      (N,) bool
    weight     (N,) of each
    """

    component: Int64
    evidence: Float64
    right: Bool
    weight: Float64

    @classmethod
    def stack(cls, parts: Sequence[Outcomes]) -> Outcomes:
        names = ("component", "evidence", "right", "weight")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


class Half(NamedTuple):
    """What one model of half the images found in the others.

    alarms  how far its strongest false alarms are above the margin: see `false_alarms`
    """

    outcomes: Outcomes
    alarms: float

    def pack(self) -> Saved:
        """As a checkpoint keeps it."""
        return Saved({"alarms": repr(self.alarms)}, dict(vars(self.outcomes)))

    @classmethod
    def unpack(cls, saved: Saved) -> Half:
        return cls(Outcomes(**saved.arrays), float(saved.header["alarms"]))


class NotCalibrated(TrainingError):
    """Why no calibration can be learnt; the model itself is, and must not be lost."""


@one_blas_thread()
def learn_calibration(
    dataset: Dataset,
    model: Mixture,
    settings: TrainSettings | None = None,
    run: Run | None = None,
) -> Mixture:
    """The model with a calibration. `dataset` is what it was learnt from.

    settings   those it was learnt with, if not the ones that its file records
    Where half of the images are too few, the model comes back without.
    """
    run = run or Run()
    settings = replace(
        settings or settings_of(model), method=model.method, pyramid=model.pyramid, doubling=0.0
    )
    how = settings.calibration
    run.report(0.0)
    folds = split_folds(dataset, model.label, how.folds, settings.seed)
    halves = []
    try:
        for k, held in enumerate(folds):
            part = run.part(f"fold {k}", k * HALVES / len(folds), (k + 1) * HALVES / len(folds))
            rest = dataset[all_but(folds, k)]
            halves.append(_learn_half(rest, dataset[held], model, settings, part))
        calibration = fit(Outcomes.stack([h.outcomes for h in halves]), len(model.components), how)
    except NotCalibrated as reason:
        log.warning("left out the calibration: %s", reason)
        run.report(1.0)
        return replace(model, calibration=None)
    test = some_images(dataset[folds[-1]], model.label, how.sparse)
    found = _detect(model, test, run, HALVES, OWN)
    own = false_alarms(test.truths, [part.kept for part in found], model.label, how.alarms)
    scale = learn_scale([half.alarms for half in halves], own)
    run.report(1.0)
    return replace(model, calibration=replace(calibration, scale=scale))


def _learn_half(
    lessons: Dataset, held: Dataset, model: Mixture, settings: TrainSettings, run: Run
) -> Half:
    """Learn a model like this one from some images, and find out what it detects in others."""
    known = run.checkpoint.get("found", Half.unpack)
    if known is not None:
        return known
    label, how = model.label, settings.calibration
    step = run.part("detector", 0.0, DETECTOR)
    try:
        half = fit_detector(lessons, label, settings, step)
    except (SettingsError, TrainingError) as error:
        raise NotCalibrated(f"half of the images: {error}") from None
    if len(half.components) != len(model.components):
        raise SettingsError(
            f"a model of {len(model.components)} components, but these settings make "
            f"{len(half.components)}: give those it was learnt with"
        )
    test = some_images(held, label, how.sparse)
    middle = (DETECTOR + 1) / 2
    found = _detect(half, test, run, DETECTOR, middle)
    covered, behind = _detect_covered(half, test, how, run, middle)
    parts = [
        outcomes_of(test.truths, found, label, how.sparse),
        outcomes_of_covered(covered.truths, behind, label, how.covered_weight),
    ]
    alarms = false_alarms(test.truths, [part.kept for part in found], label, how.alarms)
    result = Half(Outcomes.stack(parts), alarms)
    run.checkpoint.drop("detector")
    run.checkpoint.put("found", result.pack())
    return result


def settings_of(model: Mixture) -> TrainSettings:
    """The settings that a model's file records; the defaults where it records none."""
    try:
        return TrainSettings.from_json(model.training.get("settings", {}))
    except (AttributeError, SettingsError, TypeError, ValueError) as error:
        raise SettingsError(
            f"the file of model {model.label!r} does not say how it was learnt ({error}); "
            "give `settings`"
        ) from None


def some_images(held: Dataset, label: str, sparse: int) -> Dataset:
    """The images with the class, and one in `sparse` of the others."""
    chosen = np.array([bool((truth.label == label).any()) for truth in held])
    chosen[np.flatnonzero(~chosen)[::sparse]] = True
    some: Dataset = held[chosen]
    return some


def _detect(model: Mixture, test: Dataset, run: Run, first: float, last: float) -> list[Kept]:
    images = [test[i : i + 1] for i in range(len(test))]
    return list(run.map(partial(_detect_one, Detector(model)), images, first, last))


def _detect_one(detector: Detector, one: Dataset) -> Kept:
    return keep(detector, one.image(0))


def _detect_covered(
    model: Mixture, test: Dataset, how: CalibrateSettings, run: Run, first: float
) -> tuple[Dataset, list[Kept]]:
    """The images with whole objects of the class, and what is found when these are covered."""
    shown, textures = coverable(test, model.label, how.textures)
    images = [test[np.append(i, textures[k])] for k, i in enumerate(shown)]
    detect = partial(_detect_one_covered, Detector(model), model.label, how.covered_share)
    return test[shown], list(run.map(detect, images, first, 1.0))


def _detect_one_covered(detector: Detector, label: str, share: float, some: Dataset) -> Kept:
    """What is found in the first of some images, covered by texture of the others."""
    textures = [some.image(i) for i in range(1, len(some))]
    pixels, _ = cover_objects(some.image(0), some[0], label, share, textures, 0)
    return keep(detector, pixels)


def keep(detector: Detector, image: UInt8) -> Kept:
    """What greedy suppression keeps in an image of a model's candidates."""
    candidates = detector.candidates(image, CalibrationSettings().margin)
    return Kept(candidates[suppress(candidates, "greedy").indices], candidates)


def coverable(test: Dataset, label: str, textures: int) -> tuple[Int64, Int64]:
    """(N,) the images with whole objects of a class, and (N, textures) others to cover them with.

    None where every image shows the class: there is no texture that is not the class.
    """
    free = np.flatnonzero([not (truth.label == label).any() for truth in test])
    shown = np.flatnonzero([bool((whole(t) & (t.label == label)).any()) for t in test])
    shown = shown[: len(shown) if len(free) else 0]
    rng = np.random.default_rng(0)
    return shown, free[rng.integers(max(len(free), 1), size=(len(shown), textures))]


def false_alarms(
    truths: Sequence[GroundTruth], kept: Sequence[Detections], label: str, per_image: float
) -> float:
    """How far the strongest false alarms are above the margin, in images without the class.

    per_image  so many of them are averaged, for each image
    NaN where there are none.
    """
    empty = [
        part.score
        for truth, part in zip(truths, kept, strict=True)
        if not (truth.label == label).any()
    ]
    strongest = np.sort(np.concatenate([np.zeros(0), *empty]))[::-1][
        : round(per_image * len(empty))
    ]
    margin = CalibrationSettings().margin
    return float(strongest.mean()) - margin if len(strongest) else float("nan")


def learn_scale(weaker: Sequence[float], own: float) -> float:
    """The scale of a model's scores, from its false alarms and those of models with fewer images.

    The model has mined some of the images, and is quiet there: with few images in all the scale
    comes out too large, but never above 1, as if nothing were known.
    """
    ratio = float(np.mean(weaker)) / own if own > 0 else float("nan")
    return min(ratio, 1.0) if ratio > 0 else 1.0


def outcomes_of_covered(
    truths: Sequence[GroundTruth], known: Sequence[Kept], label: str, weight: float
) -> Outcomes:
    """The same for images whose whole objects are covered: the others do not count."""
    found = outcomes_of(truths, known, label, 1.0, [~whole(truth) for truth in truths])
    return replace(found, weight=weight * found.weight)


def outcomes_of(
    truths: Sequence[GroundTruth],
    known: Sequence[Kept],
    label: str,
    weight: float,
    ignored: Sequence[Bool] | None = None,
) -> Outcomes:
    """The detections that were kept, but for those that are neither right nor wrong.

    weight   of a detection in an image without the class; in the others it is 1
    ignored  which objects are neither
    """
    kept = [part.kept for part in known]
    says = [evidence(*part, CalibrationSettings()) for part in known]
    first = np.concatenate([[0], np.cumsum([len(part) for part in kept])]).astype(np.int64)
    matches = match(truths, kept, label, ignored=ignored)
    counted = matches.outcome != NEITHER
    image = matches.image[counted]
    row = first[image] + matches.index[counted]
    shown = np.array([bool((truth.label == label).any()) for truth in truths])
    return Outcomes(
        np.concatenate([np.zeros(0, np.int64), *(part.component for part in kept)])[row],
        np.concatenate([np.zeros((0, len(EVIDENCE))), *says])[row],
        matches.outcome[counted] == TRUE,
        np.where(shown[image], 1.0, weight),
    )


def fit(found: Outcomes, components: int, how: CalibrateSettings) -> Calibration:
    """The calibration of so many components; NotCalibrated if too few detections are right."""
    if found.right.sum() < how.least_right:
        raise NotCalibrated(
            f"models of half the images found fewer than {how.least_right} objects in the others"
        )
    mean, deviation = found.evidence.mean(0), found.evidence.std(0)
    # Evidence that never varies must not weigh.
    scale = np.where(deviation > 1e-9, deviation, np.inf)
    inputs = (found.evidence - mean) / scale
    rising = np.array([name in RISING for name in EVIDENCE])
    # The share of right detections is not to be pulled anywhere.
    start = np.zeros(len(EVIDENCE) + 1)
    shared = fit_logistic(inputs, found.right, found.weight, start, how.shared_ridge, rising=rising)
    own = []
    for m in range(components):
        rows = found.component == m
        own.append(
            fit_logistic(
                inputs[rows], found.right[rows], found.weight[rows], shared,
                (how.own_ridge, how.own_ridge), rising=rising,
            )
        )  # fmt: skip
    weights = np.array(own)[:, :-1] / scale
    return Calibration(np.array(own)[:, -1] - weights @ mean, weights)
