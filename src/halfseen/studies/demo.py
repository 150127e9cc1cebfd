"""The whole story on built-in scenes: learn with three methods, compare, draw, report."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from halfseen.arrays import Pixels
from halfseen.data.dataset import Dataset
from halfseen.data.image import write_image
from halfseen.data.scenes import CLASSES, render_scenes
from halfseen.errors import SettingsError, suggest
from halfseen.evaluate.evaluation import Conditions, Evaluation, Method
from halfseen.evaluate.table import Cell, Table
from halfseen.evaluate.visibility import ap_by_subset, whole
from halfseen.learn.masks.head import learn_masks
from halfseen.learn.progress import Run
from halfseen.learn.settings import TrainSettings
from halfseen.learn.state import Round
from halfseen.learn.trainer import Trainer
from halfseen.learn.training_set import TrainingSet
from halfseen.model.mixture import METHODS, Mixture
from halfseen.model.store import save
from halfseen.report.draw import draw_detections
from halfseen.report.files import write_files
from halfseen.report.filmstrip import Frame, film, plot_film, write_film
from halfseen.report.learnt import write_pictures
from halfseen.studies.evaluate import evaluate, with_covering

TEST_SEED = 1_000_000  # apart from any seed that a user would choose for training
STRONG = 0.0  # the score from which pictures show a detection in full
PICTURES = 12
HALF = (0.0, 0.25, 0.75, 1.0)  # edges of visible fraction; the middle part is about half hidden
GAP = 8  # pixels between the pictures of a sheet
FILM = "An object being covered"

OnStep = Callable[[str, int, int], None]


@dataclass(frozen=True)
class DemoSettings:
    """The sizes of the demo: as they are, it takes under three minutes on two cores.

    label    what to learn: a class of the scenes
    scenes   to learn from
    tests    to measure on
    shares   of whole objects that the sweep covers
    seed     of the scenes; tests have another
    size     of the scenes, (height, width)
    """

    label: str = "car"
    scenes: int = 110
    tests: int = 70
    shares: tuple[float, ...] = (0.0, 0.2, 0.4)
    seed: int = 1
    size: tuple[int, int] = (375, 500)
    training: TrainSettings = field(
        default_factory=lambda: TrainSettings(
            mining_images=80, per_image=60, updates=2, rounds=3, masks=True
        )
    )

    def __post_init__(self) -> None:
        if self.label not in CLASSES:
            raise SettingsError(
                f"the scenes have no class '{self.label}'; {suggest(self.label, CLASSES)}"
            )


@dataclass(frozen=True, eq=False)
class Demo:
    """What the demo found and wrote.

    film    the steps of the filmstrip; none where no whole object was in the tests
    files   the report first
    """

    evaluation: Evaluation
    film: tuple[Frame, ...]
    files: tuple[Path, ...]


def run_demo(
    out: Path,
    settings: DemoSettings | None = None,
    *,
    cores: int | None = None,
    facts: dict[str, str] | None = None,
    on_step: OnStep = lambda what, done, total: None,
) -> Demo:
    """Learns with BL, BLT and VIS from rendered scenes, and compares them on others.

    Writes into `out` the report, the models with pictures of what they learnt, the first test
    scenes, those with the detections drawn, a sheet of them, and the filmstrip. `on_step` is told
    what is going on, how much of it is done, and of how much.
    """
    settings = settings or DemoSettings()
    for folder in ("scenes", "pictures"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    lessons, tests = _draw_scenes(settings, on_step)
    models = _train(lessons, settings, cores, on_step)
    files = []
    for method, model in models.items():
        files.append(out / f"{settings.label}-{method}.safetensors")
        save(model, files[-1])
    files += write_pictures(models["VIS"], files[-1])
    evaluation = _compare(tests, models, settings, cores, on_step)
    files += _draw(out, evaluation)
    frames = _film(tests, models, settings.label)
    if frames:
        files.append(write_film(frames, out / "filmstrip.png"))
    figures = {FILM: plot_film(frames)} if frames else {}
    report = write_files(out, [evaluation], "test", facts or {}, figures)
    return Demo(evaluation, tuple(frames), (*report, *files))


def _draw_scenes(settings: DemoSettings, on_step: OnStep) -> tuple[Dataset, Dataset]:
    total = settings.scenes + settings.tests

    def tell(done: int) -> None:
        on_step("drawing scenes", done, total)

    lessons = render_scenes(settings.scenes, settings.seed, size=settings.size, on_done=tell)
    tests = render_scenes(
        settings.tests,
        settings.seed + TEST_SEED,
        size=settings.size,
        on_done=lambda done: tell(settings.scenes + done),
    )
    return lessons, tests


def _train(
    lessons: Dataset, settings: DemoSettings, cores: int | None, on_step: OnStep
) -> dict[str, Mixture]:
    """The three models. They share the features of the scenes, and the start; VIS gets a head."""
    rounds = settings.training.rounds
    total = (settings.training.updates + 1) * rounds
    models: dict[str, Mixture] = {}
    on_step("computing features", 0, 1)
    with TrainingSet(lessons, settings.label, settings.training, cores) as data:
        trainer = Trainer(data)
        for method in METHODS:
            what = f"learning {settings.label} with {method}"
            on_step(what, 0, total)

            def tell(entry: Round, what: str = what) -> None:
                on_step(what, entry.stage * rounds + entry.round + 1, total)

            trainer = trainer.with_method(method)
            models[method] = trainer.run(tell)
            on_step(what, total, total)
    if settings.training.masks:
        what = "learning what is hidden"
        run = Run(cores, report=lambda share: on_step(what, round(100 * share), 100))
        head = settings.training.mask_head
        models["VIS"] = learn_masks(lessons, models["VIS"], head, settings.seed, run)
    return models


def _compare(
    tests: Dataset,
    models: dict[str, Mixture],
    settings: DemoSettings,
    cores: int | None,
    on_step: OnStep,
) -> Evaluation:
    """Evaluate by whole boxes: scenes know them, and the detectors predict them."""
    label = settings.label
    rows = [Method(m, label, model, f"{label}-{m}.safetensors") for m, model in models.items()]
    conditions = Conditions(shares=settings.shares, seed=settings.seed, whole_boxes=True)
    return evaluate(
        tests, label, with_covering(rows), conditions, cores=cores,
        on_done=lambda done: on_step("detecting", done, len(tests)),
    )  # fmt: skip


def _draw(out: Path, evaluation: Evaluation) -> list[Path]:
    """The first test scenes with an object, plain and with what VIS sees of it, and a sheet."""
    dataset = evaluation.dataset
    own = [i for i, truth in enumerate(dataset) if (truth.label == evaluation.label).any()]
    drawn = []
    for i in own[:PICTURES]:
        image = dataset.image(i)
        drawn.append(draw_detections(image, evaluation.found["VIS"][i], strong=STRONG, weak=False))
        write_image(out / "scenes" / f"{dataset[i].image}.png", image)
        write_image(out / "pictures" / f"{dataset[i].image}.png", drawn[-1])
    write_image(out / "sheet.png", contact_sheet(drawn))
    return [out / "sheet.png", out / "pictures", out / "scenes"]


def _film(tests: Dataset, models: dict[str, Mixture], label: str) -> list[Frame]:
    """The largest whole object of the tests, covered step by step."""
    best, chosen = 0.0, None
    for i, truth in enumerate(tests):
        for j in np.flatnonzero(whole(truth) & (truth.label == label)):
            wide, high = truth.full[j, 2:] - truth.full[j, :2]
            if wide * high > best:
                best, chosen = wide * high, (i, j)
    if chosen is None:
        return []
    i, j = chosen
    return film(tests.image(i), tests[i].full[j], models)


def short_table(demo: Demo) -> Table:
    """AP in percent: of all objects, of whole and of half hidden ones, and under the sweep."""
    evaluation = demo.evaluation
    truth = evaluation.dataset.truths
    middle = f"{100 * HALF[1]:g}-{100 * HALF[2]:g}% visible"
    rows: list[list[Cell]] = []
    for s in evaluation.summaries:
        half = ap_by_subset(truth, evaluation.matches[s.name], HALF)[middle]
        covered = [100 * step.ap for step in s.sweep if step.share > 0]
        rows.append([s.name, 100 * s.ap, 100 * s.subsets["whole"].ap, 100 * half.ap, *covered])
    first = evaluation.summaries[0]
    steps = [f"{step.share:.0%} covered" for step in first.sweep if step.share > 0]
    title = f"{evaluation.label}, {first.images} new scenes, {first.objects} objects: AP %"
    notes = (
        "BL: every block counts. BLT: those beyond the border do not. VIS: nor do hidden",
        "ones. VIS+NMS: and of two detections that overlap, what is visible decides.",
        "half hidden: objects of which 25 to 75% are in view. covered: whole objects",
        "with texture pasted over them. VOC's all-point AP, whole boxes, IoU 0.5.",
    )
    return Table(["", "all", "whole", "half hidden", *steps], rows, title, notes=notes)


def contact_sheet(pictures: Sequence[Pixels], columns: int | None = None) -> Pixels:
    """Pictures side by side on white, in rows; each keeps its size."""
    across = columns or max(1, math.ceil(math.sqrt(len(pictures))))
    rows = [pictures[k : k + across] for k in range(0, len(pictures), across)]
    high = max(picture.shape[0] for picture in pictures) + GAP
    wide = max(picture.shape[1] for picture in pictures) + GAP
    sheet = np.full((high * len(rows) + GAP, wide * across + GAP, 3), 255, np.uint8)
    for r, row in enumerate(rows):
        for c, picture in enumerate(row):
            top, left = GAP + r * high, GAP + c * wide
            sheet[top : top + picture.shape[0], left : left + picture.shape[1]] = picture
    return sheet
