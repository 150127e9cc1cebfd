"""Training as a whole: the detector, then its mask head and its calibration if they are wanted."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from halfseen.data.dataset import Dataset
from halfseen.learn.checkpoint import Checkpoint, fingerprint
from halfseen.learn.estimate import estimate
from halfseen.learn.masks.head import learn_masks
from halfseen.learn.plan import make_plan
from halfseen.learn.probability import learn_calibration
from halfseen.learn.progress import Clock, Progress, Run
from halfseen.learn.settings import TrainSettings
from halfseen.learn.trainer import fit_detector
from halfseen.model.mixture import Mixture

if TYPE_CHECKING:
    from distributed import Client

log = logging.getLogger(__name__)


def train(
    dataset: Dataset,
    label: str,
    settings: TrainSettings | None = None,
    *,
    cores: int | None = None,
    cluster: str | Client | None = None,
    on_progress: Callable[[Progress], Any] | None = None,
    save_to: str | PathLike[str] | None = None,
    resume: bool = False,
) -> Mixture:
    """Learn a detector of one class from boxes.

    cluster      the address of a Dask scheduler, or a client: its workers read and mine the images,
                 which must be files that they see; the model is the same, to the byte
    on_progress  is called after every round of the detector, and as mask head and calibration go on
                 settings.masks and settings.calibrate ask for these; what the data are too few for
                 is left out, with a warning that says why
    save_to      a checkpoint file, rewritten whenever something is finished; with `resume` training
                 goes on from it and ends in the same model, to the byte, as if it had never stopped
    """
    settings = settings or TrainSettings()
    plan = make_plan(dataset, label, settings)
    clock = Clock(
        {cost.step: cost.seconds for cost in estimate(plan)}, on_progress or (lambda _: 0)
    )
    path = None if save_to is None else Path(save_to)
    about = fingerprint(dataset, label, plan.settings.as_json())
    checkpoint = Checkpoint.open(path, about, resume)

    def run(step: str) -> Run:
        return Run(cores, cluster, checkpoint.part(step), partial(clock.report, step))

    model = fit_detector(dataset, label, plan.settings, run("detector"))
    if settings.with_head:
        model = learn_masks(dataset, model, settings.mask_head, settings.seed, run("mask head"))
        if model.head is None:
            log.warning(
                "left out the mask head: a component has fewer than %d whole objects",
                settings.mask_head.least_objects,
            )
    if settings.calibrate:
        model = learn_calibration(dataset, model, plan.settings, run("calibration"))
    return model
