"""The paper's table: train on one split, detect on another, for every class, method and preset.

Everything is kept in one folder as it is made, so that a killed run goes on where it stopped:

    PRESET/tuning/CLASS/tuning.json             what cross-validation has judged, if it is wanted
    PRESET/chosen/CLASS.json                    and what it chose; PRESET is then PRESET-tuned
    PRESET/CLASS-METHOD.safetensors             the models (a checkpoint beside one in the making)
    PRESET/candidates/CLASS-METHOD/0000.npz     what each found, in runs of images
    PRESET/results.json                         the average precisions
    PRESET/study.json                           the images and the seed that all of it is of
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from halfseen.compute.map import map_images
from halfseen.data.candidates import read_candidates, write_candidates
from halfseen.data.dataset import Dataset
from halfseen.data.files import write_atomically
from halfseen.detections import Detections
from halfseen.errors import HalfseenError, SettingsError
from halfseen.evaluate.table import Table
from halfseen.evaluate.voc_ap import average_precision
from halfseen.learn.checkpoint import Checkpoint, fingerprint
from halfseen.learn.folds import draw_images
from halfseen.learn.settings import TrainSettings
from halfseen.learn.state import Round
from halfseen.learn.trainer import Trainer
from halfseen.learn.training_set import TrainingSet
from halfseen.learn.tuning import STEPS, Step, TuneSettings, tune
from halfseen.model.mixture import METHODS, Method
from halfseen.model.store import load, save
from halfseen.refine.detector import Detector
from halfseen.studies.paper import AP
from halfseen.suppression import suppress
from halfseen.suppression.candidates import Interpretation

# Images in one file of candidates: what a kill may cost.
SHARD = 250
# The table's BL, BLT and VIS search below the paper's t, so that recall is not cut short. Not far:
# negatives end up at -1, and VIS scores there what it sees hardly anything of.
THRESHOLD = -1.03
PAPER_THRESHOLD = -1.0
# The best windows kept of an image: a component that learnt nothing scores -1 nearly everywhere.
MOST = 1000


Suppress = Callable[[Detections], Interpretation]


@dataclass(frozen=True)
class Study:
    """A reproduction: the data to train and test on, the folder of its results, the classes.

    changes  of the preset's settings
    tried    what cross-validation tries, for each class before its models; None: nothing is chosen
    images   of the training split that this is done on, at most
    """

    train: Dataset
    test: Dataset
    out: Path
    classes: Sequence[str]
    preset: Literal["default", "paper", "net"] = "default"
    seed: int = 0
    cores: int | None = None
    methods: tuple[Method, ...] = METHODS
    cluster: str | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    tried: TuneSettings | None = None
    images: int | None = None

    @property
    def folder(self) -> Path:
        return self.out / (self.preset if self.tried is None else f"{self.preset}-tuned")

    @property
    def settings(self) -> TrainSettings:
        """Of every class, but for what is chosen for each."""
        return TrainSettings.preset(self.preset, seed=self.seed, **self.changes)

    def settings_of(self, label: str) -> TrainSettings:
        chosen = self.chosen(label)
        if not chosen:
            return self.settings
        return replace(self.settings, regularisation=chosen["lambda"], alpha=chosen["alpha"])

    def chosen(self, label: str) -> dict[Step, float]:
        """What cross-validation chose for a class; empty where it chooses nothing."""
        if self.tried is None:
            return {}
        path = self.chosen_path(label)
        try:
            known = json.loads(path.read_bytes())
            return {step: float(known[step]) for step in STEPS}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SettingsError(
                f"{path}: not the values chosen for {label} ({error}); delete it to choose anew"
            ) from None

    def chosen_path(self, label: str) -> Path:
        return self.folder / "chosen" / f"{label}.json"

    def suppression(self, label: str) -> Suppress:
        """Of BL, BLT and VIS: what the preset's users have. The paper ranks by score alone."""
        chosen = self.chosen(label)
        given: dict[str, Any] = {"overlap": chosen["greedy overlap"]} if chosen else {}
        return partial(suppress, method="greedy" if self.preset == "paper" else "voting", **given)

    def covering(self, label: str) -> Suppress:
        """Of VIS+NMS: the preset's energy."""
        chosen = self.chosen(label)
        given: dict[str, Any] = {"overlap": chosen["covering overlap"]} if chosen else {}
        return partial(suppress, method="covering", energy=self.energy, **given)

    @property
    def energy(self) -> str:
        return "paper" if self.preset == "paper" else "odds"

    def model_path(self, label: str, method: str) -> Path:
        return self.folder / f"{label}-{method}.safetensors"


def claim(study: Study) -> None:
    """Notes what the folder holds; SettingsError if it holds a study of other images or seeds."""
    path = study.folder / "study.json"
    content: dict[str, Any] = {
        "images to train": study.train.digest(),
        "images to test": study.test.digest(),
        "seed": study.seed,
    }
    if study.changes:
        content["settings"] = dict(study.changes)
    if study.tried is not None:
        content["values to choose from"] = asdict(study.tried)
        content["images to choose by"] = study.images
    content = json.loads(json.dumps(content))  # lists for tuples, as they are read
    try:
        known = json.loads(path.read_bytes()) if path.exists() else content
        names = [*content, *(known.keys() - content.keys())]
        different = [name for name in names if known.get(name) != content.get(name)]
        if different:
            raise SettingsError(
                f"{study.folder}: holds a study with other {' and '.join(different)}; choose "
                "another folder, or delete it to start anew"
            )
        study.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(content, indent=1).encode())
    except (ValueError, AttributeError):
        raise SettingsError(f"{path}: not a study's; choose another folder") from None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be written: {error.strerror or error}") from None


def choose_class(
    study: Study, label: str, on_value: Callable[[Step, float, int, float], None] | None = None
) -> None:
    """Cross-validates the settings of a class, where that is wanted and not done yet.

    on_value  is called with step, value, fold and AP after every evaluation
    """
    path = study.chosen_path(label)
    if study.tried is None or path.exists():
        return
    claim(study)
    result = tune(
        draw_images(study.train, label, study.images, study.seed), label,
        study.folder / "tuning" / label, study.settings, study.tried,
        cores=study.cores, cluster=study.cluster, on_value=on_value,
    )  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    best = {step: result.best(step) for step in STEPS}
    write_atomically(path, json.dumps(best, indent=1).encode())


def train_class(
    study: Study, label: str, on_round: Callable[[Method, Round], None] | None = None
) -> None:
    """Trains what is missing of BL, BLT and VIS for a class, which share the features."""
    missing = [m for m in study.methods if not study.model_path(label, m).exists()]
    if not missing:
        return
    claim(study)
    settings = study.settings_of(label)
    with TrainingSet(study.train, label, settings, study.cores, study.cluster) as data:
        trainer = Trainer(data)
        for method in missing:
            path = study.model_path(label, method)
            partial = path.with_suffix(".checkpoint")
            trainer = trainer.with_method(method)

            def tell(entry: Round, method: Method = method) -> None:
                if on_round is not None:
                    on_round(method, entry)

            about = fingerprint(study.train, label, trainer.settings.as_json())
            save(trainer.run(tell, Checkpoint.open(partial, about, resume=True)), path)
            partial.unlink(missing_ok=True)


def detect_all(study: Study, on_done: Callable[[int, int], None] | None = None) -> None:
    """Finds the candidates of all models in all test images, features computed once an image."""
    models = [
        (label, method)
        for label in study.classes
        for method in study.methods
        if study.model_path(label, method).exists()
    ]
    count = len(study.test)
    for start in range(0, count, SHARD):
        todo = [m for m in models if not _shard(study, *m, start).exists()]
        if todo:
            detector = Detector([load(study.model_path(*m)) for m in todo])
            images = (study.test[i : i + 1] for i in range(start, min(start + SHARD, count)))

            def find(one: Dataset, detector: Detector = detector) -> list[Detections]:
                found = detector.search(detector.view(one.image(0)), THRESHOLD, MOST)
                return [found[found.model == m] for m in range(len(detector.models))]

            rows = list(map_images(find, images, study.cores, cluster=study.cluster))
            for k, name in enumerate(todo):
                path = _shard(study, *name, start)
                path.parent.mkdir(parents=True, exist_ok=True)
                write_candidates(path, [row[k] for row in rows])
        if on_done is not None:
            on_done(min(start + SHARD, count), count)


def _shard(study: Study, label: str, method: str, start: int) -> Path:
    return study.folder / "candidates" / f"{label}-{method}" / f"{start // SHARD:04}.npz"


def candidates(study: Study, label: str, method: str) -> Iterator[Detections]:
    """All windows that a model found in the test images, in order."""
    for start in range(0, len(study.test), SHARD):
        path = _shard(study, label, method, start)
        if not path.exists():
            raise HalfseenError(f"{path}: missing; run detection for {label} {method} first")
        yield from read_candidates(path)


def score_class(study: Study, label: str) -> dict[str, float]:
    """AP in percent of BL, BLT, VIS, VIS_t and VIS+NMS, by the devkit's all-point rule."""
    scores: dict[str, float] = {}
    for method in METHODS:
        found = list(candidates(study, label, method))
        scores[method] = _ap(study, label, found, study.suppression(label))
    high = [part[part.score >= PAPER_THRESHOLD] for part in found]
    scores["VIS_t"] = _ap(study, label, high, study.suppression(label))
    scores["VIS+NMS"] = _ap(study, label, high, study.covering(label))
    return scores


def _ap(study: Study, label: str, found: Sequence[Detections], method: Suppress) -> float:
    def choose(part: Detections) -> Detections:
        kept = method(part)
        return replace(part[kept.indices], score=kept.rank)

    chosen = list(map_images(choose, found, study.cores))
    return 100 * float(average_precision(study.test, chosen, label).ap)


def score_all(study: Study) -> dict[str, dict[str, float]]:
    """The table of all classes that are complete, also written to results.json."""
    scores = {}
    for label in study.classes:
        if all(_shard(study, label, m, 0).exists() for m in METHODS):
            scores[label] = score_class(study, label)
    write_atomically(study.folder / "results.json", json.dumps(scores, indent=1).encode())
    write_atomically(study.folder / "table.md", table(study, scores).markdown().encode())
    return scores


def table(study: Study, scores: dict[str, dict[str, float]]) -> Table:
    """Ours beside the paper's: AP in percent, and the means over the classes here."""
    columns = ("BL", "BLT", "VIS", "VIS_t", "VIS+NMS")
    paper = ("BL", "VIS", "VIS+NMS")
    steps = () if study.tried is None else STEPS
    figures = [
        [ours[m] for m in columns] + [paper_ap(m, label) for m in paper]
        for label, ours in scores.items()
    ]
    rows: list[list[str | float | None]] = []
    for label, values in zip(scores, figures, strict=True):
        chosen = study.chosen(label)
        rows.append([label, *values, *(f"{chosen[step]:g}" for step in steps)])
    if figures:
        means = [sum(column) / len(figures) for column in zip(*figures, strict=True)]
        rows.append(["mean", *means, *(None for _ in steps)])
    changed = "".join(f", {name} {value}" for name, value in study.changes.items())
    return Table(
        ["class", *columns, *(f"paper {m}" for m in paper), *steps], rows,
        notes=(
            f"AP in percent, all-point rule; preset {study.preset}{changed}, seed {study.seed}, "
            f"{len(study.train)} images to train, {len(study.test)} to test.",
            "The paper's figures are for VOC 2010 test, whose annotations are not public.",
        ),
    )  # fmt: skip


def paper_ap(method: str, label: str) -> float:
    return AP[method].get(label, float("nan"))
