"""Settings by cross-validation, in the paper's order: one at a time, each with the best so far.

1. lambda, of the baseline without visibility (BL), with greedy suppression at overlap 0.5
2. the overlap of greedy suppression, of the same models
3. alpha, of the detector with visibility (VIS), with that lambda and overlap
4. the overlap of covering suppression, of the VIS models

Each value is judged by its AP on held-out images, averaged over the folds. Every evaluation is kept
as soon as it is done, so a run that was stopped goes on where it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from halfseen.compute.map import map_images
from halfseen.data.dataset import Dataset
from halfseen.data.files import write_atomically
from halfseen.detect.detector import PaperDetector
from halfseen.detections import Detections
from halfseen.errors import SettingsError, TrainingError
from halfseen.evaluate.voc_ap import average_precision
from halfseen.learn.folds import all_but, split_folds
from halfseen.learn.settings import TrainSettings
from halfseen.learn.trainer import Trainer
from halfseen.learn.training_set import TrainingSet
from halfseen.model.mixture import Method, Mixture
from halfseen.model.store import load, save
from halfseen.settings import Checked, choice, number
from halfseen.suppression import suppress
from halfseen.suppression.covering import ENERGIES

Step = Literal["lambda", "greedy overlap", "alpha", "covering overlap"]
STEPS: tuple[Step, ...] = ("lambda", "greedy overlap", "alpha", "covering overlap")
FIRST_OVERLAP = 0.5


@dataclass(frozen=True)
class TuneSettings(Checked):
    """What is tried. The paper's ranges: lambda 0.1 to 100, overlaps 0.2 to 1, alpha 0.01 to 0.1.

    folds      parts of the images; each is held out once
    threshold  the lowest score of a detection that is judged
    most       of them in one image at most, the best
    energy     of covering suppression, by its name
    """

    folds: int = number(3, 2, 20)
    lambdas: tuple[float, ...] = (0.1, 1.0, 3.0, 10.0, 30.0, 100.0)
    overlaps: tuple[float, ...] = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    alphas: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1)
    threshold: float = -1.0
    most: int = number(1000, 1, 10**9)
    energy: str = choice("odds", *ENERGIES)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("lambdas", "overlaps", "alphas"):
            if not getattr(self, name):
                raise SettingsError(f"{name}: at least one value is needed")

    def values(self, step: Step) -> tuple[float, ...]:
        return {"lambda": self.lambdas, "alpha": self.alphas}.get(step, self.overlaps)

    def progress(self, step: Step, value: float, fold: int) -> tuple[int, int]:
        """How much is done after an evaluation, and of how much; most of it is learning models."""
        work = {"lambda": 10, "alpha": 20}
        order = [(s, v, f) for s in STEPS for f in range(self.folds) for v in self.values(s)]
        done = np.cumsum([work.get(s, 1) for s, _, _ in order])
        return int(done[order.index((step, value, fold))]), int(done[-1])


@dataclass(frozen=True)
class Tuning:
    """AP by step, value and fold; `done` holds "step|value|fold" keys."""

    done: dict[str, float]
    tried: TuneSettings

    def aps(self, step: Step, value: float) -> list[float]:
        """The APs of a value, one a fold, as far as known; NaN where nothing was to be found."""
        keys = [_key(step, value, fold) for fold in range(self.tried.folds)]
        return [self.done[key] for key in keys if key in self.done]

    def mean(self, step: Step, value: float) -> float:
        """NaN unless every fold is done."""
        found = self.aps(step, value)
        known = [ap for ap in found if not np.isnan(ap)]
        return float(np.mean(known)) if known and len(found) == self.tried.folds else float("nan")

    def best(self, step: Step) -> float:
        """The value of the highest mean AP; the first of equals."""
        values = self.tried.values(step)
        means = [self.mean(step, value) for value in values]
        if np.isnan(means).all():
            raise TrainingError(f"no {step} could be judged: the folds hold no object to be found")
        return values[int(np.nanargmax(means))]


def _key(step: Step, value: float, fold: int) -> str:
    return f"{step}|{value:g}|{fold}"


def tune(
    dataset: Dataset,
    label: str,
    folder: Path,
    settings: TrainSettings | None = None,
    tried: TuneSettings | None = None,
    *,
    cores: int | None = None,
    cluster: str | None = None,
    on_value: Callable[[Step, float, int, float], None] | None = None,
) -> Tuning:
    """Cross-validates; goes on with what `folder` already holds of the same data and settings.

    cluster    the address of a Dask scheduler: its workers read the images (see `train`)
    on_value   is called with step, value, fold and AP after every evaluation
    """
    tuner = _Tuner(
        dataset,
        label,
        folder,
        settings or TrainSettings(),
        tried or TuneSettings(),
        cores,
        cluster,
        on_value,
    )
    for step in STEPS:
        tuner.run(step)
    return tuner.result


class _Tuner:
    def __init__(
        self, dataset: Dataset, label: str, folder: Path, settings: TrainSettings,
        tried: TuneSettings, cores: int | None, cluster: str | None,
        on_value: Callable[[Step, float, int, float], None] | None,
    ) -> None:  # fmt: skip
        dataset.check_class(label)
        self.dataset, self.label, self.settings, self.cores = dataset, label, settings, cores
        self.folder, self.on_value, self.cluster = folder, on_value, cluster
        self.folds = split_folds(dataset, label, tried.folds, settings.seed)
        self.file = folder / "tuning.json"
        (folder / "models").mkdir(parents=True, exist_ok=True)
        done, self.given = self._read(tried)
        self.result = Tuning(done, tried)

    def run(self, step: Step) -> None:
        before = [self.result.best(other) for other in STEPS[: STEPS.index(step)]]
        if self.given.get(step, before) != before:
            # Values were added, and one is better: what followed from the old best is not of it.
            for key in [key for key in self.result.done if key.startswith(f"{step}|")]:
                del self.result.done[key]
        self.given[step] = before
        for fold in range(self.result.tried.folds):
            left = [
                value
                for value in self.result.tried.values(step)
                if _key(step, value, fold) not in self.result.done
            ]
            if not left:
                continue
            trains = step in ("lambda", "alpha")
            results = self._train(step, left, fold) if trains else self._suppress(step, left, fold)
            for value, ap in results:
                self.result.done[_key(step, value, fold)] = ap
                self._write()
                if self.on_value is not None:
                    self.on_value(step, value, fold, ap)

    def _train(self, step: Step, values: list[float], fold: int) -> Iterator[tuple[float, float]]:
        """Learns a model of each value from the other folds; their features are computed once."""
        rest = all_but(self.folds, fold)
        overlap = FIRST_OVERLAP if step == "lambda" else self.result.best("greedy overlap")
        data, settings = self.dataset[rest], self._with(step)
        with TrainingSet(data, self.label, settings, self.cores, self.cluster) as lessons:
            trainer = Trainer(lessons)
            for value in values:
                name = "regularisation" if step == "lambda" else "alpha"
                # The start, without visibility, is the same for every alpha.
                trainer = trainer.with_settings(**{name: value})
                model = trainer.run()
                save(model, self._model_file(step, value, fold))
                found = self._candidates(model, fold)
                yield value, self._judge(found, fold, "greedy", overlap)

    def _with(self, step: Step) -> TrainSettings:
        method: Method = "BL" if step == "lambda" else "VIS"
        chosen = replace(self.settings, method=method)
        if step == "alpha":
            chosen = replace(chosen, regularisation=self.result.best("lambda"))
        return chosen

    def _suppress(
        self, step: Step, values: list[float], fold: int
    ) -> Iterator[tuple[float, float]]:
        """Judges overlaps on the candidates of the best model so far."""
        before: Step = "lambda" if step == "greedy overlap" else "alpha"
        file = self._model_file(before, self.result.best(before), fold)
        found = self._candidates(load(file), fold)
        method = step.split()[0]
        for value in values:
            yield value, self._judge(found, fold, method, value)

    def _candidates(self, model: Mixture, fold: int) -> list[Detections]:
        tried = self.result.tried
        search = partial(_candidates_of, PaperDetector(model), tried.threshold, tried.most)
        images = (self.dataset[i : i + 1] for i in self.folds[fold])
        return list(map_images(search, images, self.cores, cluster=self.cluster))

    def _judge(self, found: list[Detections], fold: int, method: str, overlap: float) -> float:
        kept = []
        energy = {"energy": self.result.tried.energy} if method == "covering" else {}
        for candidates in found:
            chosen = suppress(candidates, method, overlap=overlap, **energy)
            kept.append(replace(candidates[chosen.indices], score=chosen.rank))
        truth = self.dataset[self.folds[fold]].truths
        return float(average_precision(truth, kept, self.label).ap)

    def _model_file(self, step: Step, value: float, fold: int) -> Path:
        return self.folder / "models" / f"{step}-{value:g}-fold-{fold}.safetensors"

    def _fingerprint(self, tried: TuneSettings) -> str:
        """Names what the evaluations are of. Values may be added; folds and data may not change."""
        settings = self.settings.as_json()
        for name in ("masks", "calibrate"):  # Detectors alone are compared.
            del settings[name]
        parts = [self.label, settings, tried.folds, tried.threshold, tried.most, tried.energy]
        return self.dataset.digest(json.dumps(parts, sort_keys=True))

    def _read(self, tried: TuneSettings) -> tuple[dict[str, float], dict[str, list[float]]]:
        """Which steps are done, each with the best values of the steps before it."""
        if not self.file.exists():
            return {}, {}
        try:
            content = json.loads(self.file.read_bytes())
            done = {str(key): _number(value) for key, value in content["done"].items()}
            given = {str(k): [float(v) for v in best] for k, best in content["given"].items()}
            known = content["fingerprint"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise TrainingError(
                f"{self.file}: not a record of tuning ({error}); delete it to start anew"
            ) from None
        if known != self._fingerprint(tried):
            raise TrainingError(
                f"{self.file}: belongs to other data or settings; choose another folder, or delete "
                "it to start anew"
            )
        return done, given

    def _write(self) -> None:
        tried = self.result.tried
        done = {k: None if np.isnan(v) else v for k, v in self.result.done.items()}
        content: dict[str, Any] = {
            "fingerprint": self._fingerprint(tried),
            "class": self.label,
            "settings": self.settings.as_json(),
            "tried": asdict(tried),
            "given": self.given,
            "done": done,
        }
        try:
            write_atomically(self.file, json.dumps(content, indent=1).encode())
        except OSError as error:
            raise TrainingError(
                f"{self.file}: cannot be written: {error.strerror}; what was tuned before is kept: "
                "make room and run the same command again"
            ) from None


def _candidates_of(
    detector: PaperDetector, threshold: float, most: int, one: Dataset
) -> Detections:
    return detector.search(detector.view(one.image(0)), threshold, most)


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)
