"""Several methods on one class of a dataset: run them, measure them, keep what the report shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from halfseen.arrays import Pixels
from halfseen.compute.map import map_images
from halfseen.data.dataset import Dataset
from halfseen.detect.detector import SEARCHED
from halfseen.detections import Detections
from halfseen.errors import AnnotationError, HalfseenError, SettingsError
from halfseen.evaluate.bootstrap import bootstrap_difference
from halfseen.evaluate.evaluation import Conditions, Evaluation, Method
from halfseen.evaluate.results import read_voc_results, results_label
from halfseen.evaluate.summary import measure
from halfseen.evaluate.sweep import Swept, summarise_sweep, sweep_image
from halfseen.geometry import clip
from halfseen.model.store import load
from halfseen.refine.detector import Detector

TEXTURES = 20  # images to cut occluders from: many kinds, little memory
RESAMPLES = 1000


def name_methods(
    files: Sequence[str], suppression: str = "voting", settings: Mapping[str, Any] | None = None
) -> list[Method]:
    """The rows for model files and VOC results files (.txt), in order, each with its own name.

    A model is named by its method (BL, BLT, VIS), and by its file too where a class has several of
    one method; "+" names a suppression that is not voting, "NMS" the paper's, which is covering.
    """
    ending = {"voting": "", "covering": "+NMS"}.get(suppression, f"+{suppression}")
    rows = []
    for file in files:
        stem = Path(file).stem
        if Path(file).suffix == ".txt":
            rows.append(Method(stem, results_label(file), None, file))
            continue
        model = load(file)
        options = dict(settings or {})
        if suppression == "covering":
            options["block"] = model.descriptor.cell
        rows.append(
            Method(f"{model.method}{ending}", model.label, model, file, suppression, options)
        )
    places = Counter((row.label, row.name) for row in rows)
    rows = [
        replace(row, name=f"{row.name} {Path(row.source).stem}")
        if places[row.label, row.name] > 1
        else row
        for row in rows
    ]
    again = [pair for pair, times in Counter((r.label, r.name) for r in rows).items() if times > 1]
    if again:
        raise SettingsError(f"two files of the same name and class, {' '.join(again[0])}")
    return with_covering(rows)


def with_covering(methods: Sequence[Method]) -> list[Method]:
    """Each voting method that knows what is hidden, followed by the same with covering: +NMS."""
    rows = []
    for method in methods:
        rows.append(method)
        if method.visibility and method.model is not None and method.suppression == "voting":
            settings = {"block": method.model.descriptor.cell}
            name = f"{method.name}+NMS"
            rows.append(replace(method, name=name, suppression="covering", settings=settings))
    return rows


def with_paper_flags(methods: Sequence[Method]) -> list[Method]:
    """Each method with a mask head, followed by the same without it: by the paper's flags."""
    rows = []
    for method in methods:
        rows.append(method)
        if method.model is not None and method.model.head is not None:
            plain = replace(method.model, head=None, calibration=None)
            rows.append(replace(method, name=f"{method.name} paper", model=plain))
    return rows


def evaluate(
    dataset: Dataset,
    label: str,
    methods: Sequence[Method],
    conditions: Conditions | None = None,
    *,
    cores: int | None = None,
    on_done: Callable[[int], None] | None = None,
    cluster: str | None = None,
) -> Evaluation:
    """Runs the methods over all images and measures them.

    An image that cannot be read is left out for every method, and a results file that cannot is
    left out of the methods; `problems` tells of both. AnnotationError if the split has no object
    of the class to be found, or no method is left.
    """
    conditions = conditions or Conditions()
    names = [method.name for method in methods]
    if not names or len(set(names)) != len(names):
        raise SettingsError(f"methods need names of their own, found {', '.join(names) or 'none'}")
    check_objects(dataset, label)
    problems: list[str] = []
    given, methods = _read_results(dataset, label, methods, problems)
    sweeps = conditions.shares and any(method.model for method in methods)
    textures = _textures(dataset, label, conditions.seed) if sweeps else []
    note = f"no sweep: it needs an image without a {label} for texture, and every image has one"
    run = MethodsOnImage(dataset, label, [m for m in methods if m.model], conditions, textures)
    outcomes = list(map_images(run, range(len(dataset)), cores, on_done, cluster))
    good = [k for k, result in enumerate(outcomes) if not isinstance(result, str)]
    problems += [result for result in outcomes if isinstance(result, str)]
    if not good:
        raise AnnotationError(f"{dataset.name}: no image could be read: {problems[-1]}")
    dataset = dataset[good]
    annotated = dataset.truths
    if conditions.whole_boxes:
        dataset = with_whole_boxes(dataset)
    truth = dataset.truths
    results = [result for result in outcomes if isinstance(result, ImageFindings)]
    swept = [result.swept for result in results if result.swept is not None]
    points = summarise_sweep(truth, swept, label)
    summaries, matches, found = [], {}, {}
    for method in methods:
        if method.model is None:
            kept = [given[method.name][k] for k in good]
        else:
            kept = [result.found[method.name] for result in results]
        summary, matches[method.name] = measure(method.name, label, truth, kept, points, annotated)
        summaries.append(summary)
        found[method.name] = kept
    baseline = _baseline(methods)
    differences = {
        name: bootstrap_difference(matches[baseline], matches[name], resamples=RESAMPLES)
        for name in matches
        if name != baseline
    }
    return Evaluation(
        label, dataset, tuple(methods), conditions, tuple(summaries), matches, found, baseline,
        differences, tuple(problems), notes=(note,) if sweeps and not textures else (),
    )  # fmt: skip


def with_whole_boxes(dataset: Dataset) -> Dataset:
    """The dataset with the boxes of whole objects, cut to their images, where they are known."""
    truths = tuple(replace(truth, box=clip(truth.full, truth.size)) for truth in dataset)
    return replace(dataset, truths=truths)


def check_objects(dataset: Dataset, label: str) -> None:
    """AnnotationError, with the nearest class, if there is no object of the class to be found."""
    try:
        dataset.check_class(label)
    except SettingsError as error:
        raise AnnotationError(str(error)) from None
    own = [(t.label == label) & ~t.difficult & ~t.crowd for t in dataset]
    if not any(members.any() for members in own):
        raise AnnotationError(
            f"{dataset.name}: no {label} to be found in {len(dataset)} images: "
            "every one is difficult or a crowd, or there is none; choose another split"
        )


def _read_results(
    dataset: Dataset, label: str, methods: Sequence[Method], problems: list[str]
) -> tuple[dict[str, list[Detections]], list[Method]]:
    """The detections of results files by method, and the methods that remain."""
    given: dict[str, list[Detections]] = {}
    remaining = []
    for method in methods:
        try:
            if method.model is None:
                given[method.name] = read_voc_results(method.source, dataset.truths, label)
        except AnnotationError as error:
            problems.append(str(error))
        else:
            remaining.append(method)
    if not remaining:
        raise AnnotationError(problems[-1])
    return given, remaining


def _baseline(methods: Sequence[Method]) -> str:
    """The honest comparator: BLT, else BL, else the first."""
    for wanted in ("BLT", "BL"):
        for method in methods:
            if method.model is not None and method.model.method == wanted:
                return method.name
    return methods[0].name


def _textures(dataset: Dataset, label: str, seed: int) -> list[Pixels]:
    """Images without the class, drawn from the seed. Unreadable ones are reported elsewhere."""
    free = [k for k, truth in enumerate(dataset) if not (truth.label == label).any()]
    order = np.random.default_rng([seed, len(dataset)]).permutation(free)
    textures: list[Pixels] = []
    for k in order:
        if len(textures) == TEXTURES:
            break
        try:
            textures.append(dataset.image(int(k)))
        except HalfseenError:
            continue
    return textures


@dataclass(frozen=True, eq=False)
class ImageFindings:
    """One image: what each method found, plain and at each share of the sweep."""

    found: dict[str, Detections]
    swept: Swept | None


class MethodsOnImage:
    """Runs every method on image i of a dataset. Holds no state: may serve many threads.

    Methods share the features of an image, and those of one model its candidates.
    """

    def __init__(
        self,
        dataset: Dataset,
        label: str,
        methods: Sequence[Method],
        conditions: Conditions,
        textures: Sequence[Pixels] = (),
    ) -> None:
        self.dataset = dataset
        self.label = label
        self.methods = methods
        self.conditions = conditions
        self.textures = textures
        models = {id(m.model): m.model for m in methods if m.model is not None}
        order = list(models)
        self.place = {m.name: order.index(id(m.model)) for m in methods if m.model is not None}
        self.detector = Detector(list(models.values())) if models else None

    def __call__(self, i: int) -> ImageFindings | str:
        """What was found, or one line on why the image could not be searched."""
        if self.detector is None:
            return ImageFindings({}, None)
        try:
            image = self.dataset.image(i)
        except HalfseenError as error:
            return str(error)
        found = self.detect(image)
        if not self.textures:
            return ImageFindings(found, None)

        def once(pixels: Pixels) -> dict[str, Detections]:
            # At share 0, and without a whole object, the picture is the one already searched.
            return found if np.array_equal(pixels, image) else self.detect(pixels)

        settings = self.conditions
        swept = sweep_image(
            image, self.dataset[i], self.label, once, self.textures, settings.shares, settings.seed
        )
        return ImageFindings(found, swept)

    def detect(self, image: Pixels) -> dict[str, Detections]:
        """The detections of each method by name, best first."""
        assert self.detector is not None
        view = self.detector.view(image)
        least, results = self.conditions.threshold, {}
        candidates = self.detector.search(view, min(least, SEARCHED))
        for method in self.methods:
            own = candidates[candidates.model == self.place[method.name]]
            own, choice = self.detector.suppress(view, own, method.suppression, **method.settings)
            kept = choice.of(own)
            results[method.name] = self.detector.finish(view, kept[kept.score >= least])
        return results
