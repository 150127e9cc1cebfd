"""Learning the probability of a detection, from images that the detector has not seen.

1. The images are halved. Of each half a model is learnt with the same settings, and looks at the
   other half: at its images with the class, and at some of the rest, which weigh the more.
2. Whole objects are covered by texture from other images and looked at again: few training objects
   are hidden by much, and what speaks for those is to be learnt as well.
3. Greedy suppression keeps detections, and VOC's rule says which are right.
4. These models have fewer images than the model itself, and give lower scores. How much lower, the
   strongest false alarms tell, in images without the class: `learn_scale`.
5. A logistic regression for each component on the `evidence` of detections. Its ridge pulls it
   towards the regression of all components together: one with few detections is judged like them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from halfseen.compute import map_images
from halfseen.data.dataset import Dataset
from halfseen.detections import Detections, GroundTruth
from halfseen.errors import SettingsError, TrainingError
from halfseen.evaluate.sweep import cover_objects
from halfseen.evaluate.visibility import whole
from halfseen.evaluate.voc_ap import NEITHER, TRUE, match
from halfseen.infer.calibration import MARGIN, Known, evidence
from halfseen.infer.detector import Detector
from halfseen.learn.settings import TrainSettings
from halfseen.learn.trainer import Trainer
from halfseen.learn.tuning import split_folds
from halfseen.model.calibration import EVIDENCE, RISING, Calibration
from halfseen.model.mixture import Mixture

if TYPE_CHECKING:
    from distributed import Client

log = logging.getLogger(__name__)

Floats = NDArray[np.float64]

FOLDS = 2
# One in so many of the held-out images without the class is looked at.
SPARSE = 3
# The ridges of what all components share, and of how far each departs from it.
SHARED, OWN = 1.0, 100.0
# How much of whole objects is covered, the images that textures are taken from, and how much a
# detection in such an image weighs.
SHARE, TEXTURES, COVERED = 0.4, 3, 0.3
# So many of the strongest false alarms are compared, for each image.
ALARMS = 0.1
# Fewer right detections than this say nothing of a probability.
LEAST_RIGHT = 10


@dataclass(frozen=True, eq=False)
class Judged:
    """Detections of which it is known whether they are right, as parallel arrays.

    component  (N,)
    evidence   (N, len(EVIDENCE))
    right      (N,) bool
    weight     (N,) of each
    """

    component: NDArray[np.int64]
    evidence: Floats
    right: NDArray[np.bool_]
    weight: Floats

    @classmethod
    def stack(cls, parts: Sequence[Judged]) -> Judged:
        names = ("component", "evidence", "right", "weight")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def learn_calibration(
    dataset: Dataset,
    model: Mixture,
    settings: TrainSettings | None = None,
    *,
    cores: int | None = None,
    cluster: str | Client | None = None,
) -> Mixture:
    """The model with a calibration. `dataset` is what it was learnt from.

    settings   those it was learnt with, if not the ones that its file tells
    Where half of the images are too few, the model comes back without.
    """
    settings = replace(
        settings or settings_of(model), method=model.method, masks=model.head is not None,
        pyramid=model.pyramid, doubling=0.0,
    )  # fmt: skip
    if model.head is not None and not any(response.any() for response in model.head.response):
        raise SettingsError(
            f"the mask head of model {model.label!r} was learnt by an earlier version: learn it "
            "again, with `learn_masks`"
        )
    folds = split_folds(dataset, model.label, FOLDS, settings.seed)
    parts, weaker = [], []
    for k, held in enumerate(folds):
        rest = np.sort(np.concatenate([fold for n, fold in enumerate(folds) if n != k]))
        try:
            with Trainer(dataset[rest], model.label, settings, cores, cluster) as trainer:
                half = trainer.run()
        except (SettingsError, TrainingError) as error:
            # Too few objects, mostly. The model itself is learnt, and must not be lost.
            log.warning("%s is not calibrated: half of the images: %s", model.label, error)
            return replace(model, calibration=None)
        if len(half.components) != len(model.components):
            raise SettingsError(
                f"a model of {len(model.components)} components, but these settings make "
                f"{len(half.components)}: give those it was learnt with"
            )
        if (half.head is None) != (model.head is None):
            log.warning(
                "%s is not calibrated: half of the images have too few whole objects for a mask "
                "head", model.label,
            )  # fmt: skip
            return replace(model, calibration=None)
        test = sparse(dataset[held], model.label)
        found = _look_at(half, test, cores, cluster)
        parts.append(judge(test.truths, found, model.label, SPARSE))
        weaker.append(alarms(test.truths, [part.kept for part in found], model.label))
        shown, covered = _look_at_covered(half, test, cores, cluster)
        parts.append(judge_covered(shown.truths, covered, model.label))
    calibration = fit(Judged.stack(parts), len(model.components))
    if calibration is None:
        log.warning(
            "%s is not calibrated: fewer than %d objects are found", model.label, LEAST_RIGHT
        )
    else:
        found = _look_at(model, test, cores, cluster)
        own = alarms(test.truths, [part.kept for part in found], model.label)
        scale = learn_scale(weaker, own)
        calibration = replace(calibration, scale=scale)
    return replace(model, calibration=calibration)


def settings_of(model: Mixture) -> TrainSettings:
    """The settings that a model's file tells of; the default's where it tells none."""
    recorded = model.training.get("settings", {})
    names = {field.name for field in fields(TrainSettings)} - {"pyramid"}
    try:
        return TrainSettings(**{name: recorded[name] for name in names & recorded.keys()})
    except (AttributeError, TypeError) as error:
        raise SettingsError(
            f"the file of model {model.label!r} does not tell how it was learnt ({error}); "
            "give `settings`"
        ) from None


def sparse(held: Dataset, label: str) -> Dataset:
    """The images with the class, and one in SPARSE of the others."""
    shown = np.array([bool((truth.label == label).any()) for truth in held])
    shown[np.flatnonzero(~shown)[::SPARSE]] = True
    return held[shown]


def _look_at(
    model: Mixture, test: Dataset, cores: int | None, cluster: str | Client | None
) -> list[Known]:
    images = (test[i : i + 1] for i in range(len(test)))
    return list(map_images(partial(_look, Detector(model)), images, cores, cluster=cluster))


def _look(detector: Detector, one: Dataset) -> Known:
    return detector.known_by_model(one.image(0))[0]


def _look_at_covered(
    model: Mixture, test: Dataset, cores: int | None, cluster: str | Client | None
) -> tuple[Dataset, list[Known]]:
    """The images with whole objects of the class, and what is found when these are covered."""
    shown, textures = coverable(test, model.label)
    images = (test[np.append(i, textures[k])] for k, i in enumerate(shown))
    look = partial(_look_covered, Detector(model), model.label)
    return test[shown], list(map_images(look, images, cores, cluster=cluster))


def _look_covered(detector: Detector, label: str, some: Dataset) -> Known:
    """The first of some images, covered by texture of the others."""
    textures = [some.image(i) for i in range(1, len(some))]
    pixels, _ = cover_objects(some.image(0), some[0], label, SHARE, textures, 0)
    return detector.known_by_model(pixels)[0]


def coverable(test: Dataset, label: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(N,) the images with whole objects of a class, and (N, TEXTURES) others to cover them with.

    None where every image shows the class: there is no texture that is not the class.
    """
    free = np.flatnonzero([not (truth.label == label).any() for truth in test])
    shown = np.flatnonzero([bool((whole(t) & (t.label == label)).any()) for t in test])
    shown = shown[: len(shown) if len(free) else 0]
    rng = np.random.default_rng(0)
    return shown, free[rng.integers(max(len(free), 1), size=(len(shown), TEXTURES))]


def alarms(truths: Sequence[GroundTruth], kept: Sequence[Detections], label: str) -> float:
    """How far the strongest false alarms are above the margin, in images without the class.

    NaN where there are none.
    """
    empty = [
        part.score
        for truth, part in zip(truths, kept, strict=True)
        if not (truth.label == label).any()
    ]
    strongest = np.sort(np.concatenate([np.zeros(0), *empty]))[::-1][: round(ALARMS * len(empty))]
    return float(strongest.mean()) - MARGIN if len(strongest) else float("nan")


def learn_scale(weaker: Sequence[float], own: float) -> float:
    """The scale of a model's scores, from its false alarms and those of models with fewer images.

    The model has mined some of the images, and is quiet there: with few images in all the scale
    comes out too large, but never above 1, as if nothing were known.
    """
    ratio = float(np.mean(weaker)) / own if own > 0 else float("nan")
    return min(ratio, 1.0) if ratio > 0 else 1.0


def judge_covered(truths: Sequence[GroundTruth], known: Sequence[Known], label: str) -> Judged:
    """The same for images whose whole objects are covered: the others do not count."""
    judged = judge(truths, known, label, 1.0, [~whole(truth) for truth in truths])
    return replace(judged, weight=COVERED * judged.weight)


def judge(
    truths: Sequence[GroundTruth],
    known: Sequence[Known],
    label: str,
    weight: float,
    ignored: Sequence[NDArray[np.bool_]] | None = None,
) -> Judged:
    """What was kept, with its evidence, but for what is neither right nor wrong.

    weight   of a detection in an image without the class; in the others it is 1
    ignored  which objects are neither
    """
    kept, seen = [part.kept for part in known], [evidence(*part) for part in known]
    first = np.concatenate([[0], np.cumsum([len(part) for part in kept])]).astype(np.int64)
    matches = match(truths, kept, label, ignored=ignored)
    counted = matches.outcome != NEITHER
    image = matches.image[counted]
    row = first[image] + matches.index[counted]
    shown = np.array([bool((truth.label == label).any()) for truth in truths])
    return Judged(
        np.concatenate([np.zeros(0, np.int64), *(part.component for part in kept)])[row],
        np.concatenate([np.zeros((0, len(EVIDENCE))), *seen])[row],
        matches.outcome[counted] == TRUE,
        np.where(shown[image], 1.0, weight),
    )


def fit(judged: Judged, components: int) -> Calibration | None:
    """The calibration of so many components; None if too few detections are right."""
    if judged.right.sum() < LEAST_RIGHT:
        return None
    mean, deviation = judged.evidence.mean(0), judged.evidence.std(0)
    # What never varies, such as the flags of a model that hides nothing, must not weigh.
    scale = np.where(deviation > 1e-9, deviation, np.inf)
    inputs = np.column_stack([np.ones(len(judged.right)), (judged.evidence - mean) / scale])
    # The share of right detections is not to be pulled anywhere.
    ridge = np.append(0.0, np.full(len(EVIDENCE), SHARED))
    shared = fit_logistic(inputs, judged.right, judged.weight, np.zeros(len(ridge)), ridge)
    ridge = np.full(len(ridge), OWN)
    own = []
    for m in range(components):
        mine = judged.component == m
        own.append(
            fit_logistic(inputs[mine], judged.right[mine], judged.weight[mine], shared, ridge)
        )
    weights = np.array(own)[:, 1:] / scale
    return Calibration(np.array(own)[:, 0] - weights @ mean, weights)


def fit_logistic(
    inputs: Floats, right: NDArray[np.bool_], weight: Floats, centre: Floats, ridge: Floats
) -> Floats:
    """The minimum of sum_n weight_n loss_n + sum_k ridge_k (b_k - centre_k)^2 / 2, RISING b >= 0.

    It is convex, and the bounds are simple: L-BFGS-B finds it.
    """
    from scipy.optimize import minimize

    sign = np.where(right, 1.0, -1.0)

    def energy(b: Floats) -> tuple[float, Floats]:
        margin = sign * (inputs @ b)
        pull = ridge * (b - centre)
        value = weight @ np.logaddexp(0, -margin) + pull @ (b - centre) / 2
        slope = -weight * sign * (0.5 - 0.5 * np.tanh(margin / 2))
        return float(value), inputs.T @ slope + pull

    bounds = [(None, None), *((0.0 if name in RISING else None, None) for name in EVIDENCE)]
    found = minimize(
        energy, centre, jac=True, method="L-BFGS-B", bounds=bounds,
        options={"maxiter": 1000, "ftol": 1e-12, "gtol": 1e-6},
    )  # fmt: skip
    if not found.success:
        log.warning("calibration stopped before its minimum: %s", found.message)
    return np.asarray(found.x)
