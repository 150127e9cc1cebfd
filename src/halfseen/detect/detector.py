"""The paper's detector: from an image to objects, with what is visible of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfseen.arrays import UInt8
from halfseen.compute.memory import keep_freed_memory
from halfseen.data.image import as_image, read_image
from halfseen.detect.search import search_levels
from halfseen.detect.see import check_boxes, in_order, models_of, windows_of_boxes
from halfseen.detect.stage import Stage
from halfseen.detect.view import FeatureGroup, View
from halfseen.detections import Detections
from halfseen.errors import SettingsError
from halfseen.model.mixture import Mixture
from halfseen.suppression import Interpretation, suppress

if TYPE_CHECKING:
    from PIL import Image as Pillow

Image: TypeAlias = "UInt8 | str | PathLike[str] | Pillow.Image"

SEARCHED = -1.0
"""Suppression sees every candidate from this score on, whatever is reported: a detection is the
same at every threshold that lets it pass."""

keep_freed_memory()


class PaperDetector:
    """Looks for the objects of one or more models. Holds no state: one may serve many threads.

    Models with the same descriptor share the features of an image where their pyramids are one, or
    one is the other from some level on.

    models  one, or several
    cores   among which several models are shared out; None for those that are free: all, but where
            `map_images` works on several images at once, its share. One model needs one. What is
            found does not depend on it.
    """

    stages: Sequence[Stage] = ()
    """What `finish` applies, in this order, to the detections that suppression kept. Here none."""

    kernels: Sequence[str] = ("halfseen.visibility.infer", "halfseen.suppression.ranked")
    """Modules whose kernels come late: where none is compiled yet, they are compiled ahead."""

    lowest: float = float("inf")
    """Stages also want to know of candidates down to this score."""

    def __init__(self, models: Mixture | Sequence[Mixture], cores: int | None = None) -> None:
        self.models = (models,) if isinstance(models, Mixture) else tuple(models)
        if not self.models:
            raise SettingsError("a detector needs at least one model")
        if cores is not None and cores < 1:
            raise SettingsError(f"cores must be at least 1, found {cores}")
        self.cores = cores
        self.groups = FeatureGroup.of(self.models)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(model.label for model in self.models)})"

    def detect(
        self, image: Image, threshold: float = -1.0, method: str = "voting", **settings: Any
    ) -> Detections:
        """The objects of an image, best first, duplicates suppressed.

        image       (H, W, 3) uint8, an image of Pillow, or a path
        threshold   the lowest score reported. Suppression sees all candidates from -1 on, so that
                    what is reported of a detection does not depend on it
        method      of suppression, with its `overlap` and other settings: see `hs.suppress`
        The `score` of what is returned is the method's rank: for voting h(x), raised by the votes
        of what it suppressed; for greedy suppression h(x). An image smaller than every window gives
        no detections. Calibrated models also give each detection a `probability`.
        """
        threshold = _number("threshold", threshold)
        view = self.view(image)
        candidates = self.search(view, min(threshold, SEARCHED))
        candidates, choice = self.suppress(view, candidates, method, **settings)
        kept = choice.of(candidates)
        return self.finish(view, kept[kept.score >= threshold])

    def view(self, image: Image) -> View:
        """An image as this detector sees it; its features are made once, for all that follows."""
        pixels = read_image(image) if isinstance(image, (str, PathLike)) else as_image(image)
        return View(pixels, self.groups, self.cores, self.kernels)

    def search(self, view: View, threshold: float = -1.0, most: int | None = None) -> Detections:
        """Every window that reaches the threshold, best first, before suppression (Eqns 1 to 4).

        Their blocks are those that decided their scores. Windows of which nothing is visible are
        left out: whatever their score, they show no object.

        most   at most so many of each model, the best: this costs less
        """
        threshold = _number("threshold", threshold)
        if most is not None:
            if most < 0:
                raise SettingsError(f"most must be at least 0, found {most}")
            return self._search(view, threshold, int(most))
        if min(threshold, self.lowest) < view.searched:
            view.searched = min(threshold, self.lowest)
            view.candidates = self._search(view, view.searched)
        found = view.candidates
        count = int((found.score >= threshold).sum())
        return found if count == len(found) else found[:count]

    def suppress(
        self, view: View, candidates: Detections, method: str = "voting", **settings: Any
    ) -> tuple[Detections, Interpretation]:
        """The candidates as the method saw them, and which of them it keeps."""
        return candidates, suppress(candidates, method, **settings)

    def finish(self, view: View, kept: Detections) -> Detections:
        """Detections that suppression kept, refined by the detector's stages, one after another.

        They may come from another image of the same size, such as one without an occluder.
        """
        if kept.size != view.size:
            raise SettingsError(
                f"detections of an image of {kept.size[0]} x {kept.size[1]} pixels, but this one "
                f"has {view.size[0]} x {view.size[1]}"
            )
        for stage in self.stages:
            kept = stage(view, kept)
        return kept

    def see(
        self,
        image: Image,
        boxes: ArrayLike,
        labels: str | Sequence[str] | NDArray[np.str_] | None = None,
    ) -> Detections:
        """What is visible of the boxes of any detector: one row for each, in their order.

        image   as in `detect`
        boxes   (N, 4) x1 y1 x2 y2, 0-based and half-open, in pixels of the image; they may leave it
        labels  their classes, of which the detector must have models; one text for all. Not needed
                where the detector has one class

        Each box gets the best-scoring window of its class that overlaps it by half (IoU, within the
        image), and the detector's stages. `score` is that window's; `full` is the box as given,
        which beyond the image reaches as far as the window says; blocks, mask, `visible` and
        `visible_fraction` are what `detect` would say of that window and box. There is no
        `probability`: that the box is right is for its own detector to say.

        Of a box that no window reaches nothing is known: `score`, `visible` and `visible_fraction`
        are NaN, `component` is -1, the grid has no blocks (0, 0), and the mask is empty.
        """
        given = check_boxes(boxes)
        model = models_of(labels, len(given), self.models)
        view = self.view(image)
        windows, reached = windows_of_boxes(view, given, model)
        found = replace(self.finish(view, windows), probability=None)
        return in_order(found, reached, given, model, self.models)

    def candidates(self, image: Image, threshold: float = -1.0) -> Detections:
        """What `search` finds in an image: see `detect`."""
        return self.search(self.view(image), threshold)

    def _search(self, view: View, threshold: float, most: int | None = None) -> Detections:
        parts = [Detections.empty(view.size) for _ in self.models]
        with view.spread() as each:
            for levels in view.levels:
                for m, found in search_levels(view, levels, threshold, most, each).items():
                    parts[m] = found
        return Detections.concatenate(parts).sorted() if len(parts) > 1 else parts[0]


def _number(name: str, value: Any) -> float:
    """Return a setting as a Python float: kernels would be compiled again for NumPy's."""
    if np.ndim(value) or not isinstance(value, (int, float, np.number, np.ndarray)):
        raise SettingsError(f"{name} must be a number, found {value!r:.60}")
    if np.isnan(value):
        raise SettingsError(f"{name} must be a number, found nan")
    return float(value)
