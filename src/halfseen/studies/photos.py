"""Detection in photographs of a run: one result each, whatever becomes of the photograph."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from halfseen.arrays import Float64, Int64, Pixels
from halfseen.collection.photo import Photo
from halfseen.collection.result import ImageResult, Record
from halfseen.compute.memory import MIB, MemoryBudget
from halfseen.data.files import fit_name
from halfseen.data.image import DECODING_BYTES, open_image, write_image
from halfseen.data.limits import LIMITS
from halfseen.data.records import records
from halfseen.detect.detector import SEARCHED
from halfseen.detections import Detections
from halfseen.errors import HalfseenError, ImageError, SettingsError
from halfseen.refine.detector import Detector
from halfseen.suppression.candidates import Interpretation
from halfseen.suppression.classes import one_class

# Bytes for each pixel of the largest level that is searched, without and with mask heads; for each
# pixel of the photograph that is drawn on; and for each photograph, measured on noise.
SEARCH_BYTES = 22
HEAD_BYTES = 30
DRAWING_BYTES = 10
BASE_BYTES = 32 * MIB


@dataclass(frozen=True)
class Drawing:
    """The pictures of a run.

    paths    where to draw which photograph, by name; empty draws none
    strong   the probability, or score without calibration, from which detections are drawn
    all      draw the weaker ones as well, as hairlines
    compare  put the photograph beside what is seen in it
    """

    paths: dict[str, Path] = field(default_factory=dict)
    strong: float | None = None
    all: bool = False
    compare: bool = False


@dataclass(frozen=True)
class PhotoSettings:
    """What is detected in every photograph of a run.

    threshold    the lowest probability reported; of models without calibration, the lowest score;
                 None reports all from score -1 on
    method       of suppression, with its settings
    explain      also record what was suppressed, and by what
    every_class  report an object of several classes as each of them, not as the most probable one
    drawing      what is drawn of it
    """

    threshold: float | None = None
    method: str = "voting"
    settings: dict[str, Any] = field(default_factory=dict)
    explain: bool = False
    every_class: bool = False
    drawing: Drawing = field(default_factory=Drawing)


class PhotoDetector:
    """Detects objects in photographs. Used by several threads, processes or machines at once."""

    def __init__(
        self, detector: Detector, settings: PhotoSettings, memory: MemoryBudget | None = None
    ) -> None:
        self.detector = detector
        self.settings = settings
        self.memory = memory or MemoryBudget()

    def __call__(self, photo: Photo) -> ImageResult:
        """Return the detections in a photograph, or why there are none."""
        try:
            return self._detect(photo)
        except SettingsError:
            raise
        except HalfseenError as error:
            return ImageResult(photo.name, None, str(error))
        except Exception as error:
            # One image must not end the work on the others, whatever it does to us.
            if os.environ.get("HALFSEEN_DEBUG"):
                raise
            return ImageResult(photo.name, None, f"{photo}: {type(error).__name__}: {error}")

    def record(self, photo: Photo) -> Record:
        """Return the same as a JSON object."""
        return self(photo).record()

    def lost(self, photo: Photo) -> ImageResult:
        """Return the result of an image that killed every worker that took it."""
        return ImageResult(photo.name, None, f"{photo}: every worker that took it died")

    def _detect(self, photo: Photo) -> ImageResult:
        need = photo.size()
        while True:
            if need > self.memory.total:
                raise ImageError(
                    f"{photo}: would take about {-(-need // MIB):,} MiB of memory, of "
                    f"{self.memory.total // MIB:,} MiB allowed; allow more (--memory), or shrink it"
                )
            with self.memory.hold(need) as grow:
                content = photo.read()
                image = open_image(content, photo.name)
                need = len(content) + self._need(image.pixels)
                if need <= self.memory.total and grow(need):
                    pixels = image.decode(upright=True)
                    del content, image  # which hold its pixels once more, or several times
                    return self._detect_in(photo, pixels)
            # Others hold what it needs: it is read again when there is enough.
            del content, image

    def _need(self, pixels: int) -> int:
        """Return the bytes that a photograph takes at most while it is decoded and searched."""
        models, drawing = self.detector.models, self.settings.drawing
        largest = max(1.0, *(model.pyramid.largest for model in models))
        searched = max(min(int(pixels * largest**2), LIMITS.pixels), pixels)
        heads = any(model.head is not None for model in models)
        search = searched * (HEAD_BYTES if heads else SEARCH_BYTES)
        picture = DRAWING_BYTES * (2 if drawing.compare else 1) if drawing.paths else 0
        return BASE_BYTES + max(DECODING_BYTES * pixels, search + (3 + picture) * pixels)

    def _detect_in(self, photo: Photo, image: Pixels) -> ImageResult:
        settings = self.settings
        view = self.detector.view(image)
        least = SEARCHED if settings.threshold is None else min(settings.threshold, SEARCHED)
        candidates = self.detector.search(view, least)
        candidates, choice = self.detector.suppress(
            view, candidates, settings.method, **settings.settings
        )
        kept = self.detector.finish(view, choice.of(candidates))
        by, overlap = np.full(len(kept), -1), np.zeros(len(kept))
        if not settings.every_class and len({model.label for model in self.detector.models}) > 1:
            by, overlap = one_class(kept)
        reported = self._reported(kept, by)
        found = kept[reported]
        suppressed: tuple[Record, ...] = ()
        shown: tuple[Detections, Interpretation | None] = found, None
        if settings.explain:
            rows, choice = _explanation(choice, reported, by, overlap)
            candidates = self.detector.finish(view, candidates[rows])
            suppressed = _suppressed(candidates, choice)
            candidates.score[choice.indices] = choice.rank
            shown = candidates, choice
        error = ""
        if settings.drawing.paths:
            try:
                self._draw(image, photo.name, *shown)
            except Exception as fault:  # the detections are not lost with their picture
                error = f"{photo}: no picture: {' '.join(str(fault).split())}"
        return ImageResult(photo.name, found, error, suppressed)

    def _reported(self, kept: Detections, by: Int64) -> Int64:
        """Which detections are reported, in order: those that nothing replaces, best first."""
        passing = by < 0
        if self.settings.threshold is not None:
            passing &= kept.strong(self.settings.threshold)
        rows = np.flatnonzero(passing)
        if kept.probability is None or np.isnan(kept.probability[rows]).any():
            return rows
        return rows[np.argsort(-kept.probability[rows], kind="stable")]

    def _draw(
        self, image: Pixels, name: str, found: Detections, explain: Interpretation | None
    ) -> None:
        from halfseen.report.draw import beside, draw_detections

        drawing = self.settings.drawing
        picture = draw_detections(
            image, found, explain=explain, strong=drawing.strong, weak=drawing.all
        )
        if drawing.compare:
            picture = beside(image, picture)
        path = drawing.paths[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        write_image(path, picture)


def _explanation(
    choice: Interpretation, reported: Int64, by: Int64, overlap: Float64
) -> tuple[Int64, Interpretation]:
    """The candidates that were reported or dropped for what was, and the choice among them alone.

    reported     which of the kept ones
    by, overlap  what replaced each of the kept ones, as `one_class` says
    """
    excluder, shared = choice.excluder.copy(), choice.overlap.copy()
    replaced = np.flatnonzero(by >= 0)
    excluder[choice.indices[replaced]] = choice.indices[by[replaced]]
    shared[choice.indices[replaced]] = overlap[replaced]
    kept = choice.indices[reported]
    wanted = np.isin(excluder, kept) | ((excluder < 0) & ~choice.kept)
    wanted[kept] = True
    rows = np.flatnonzero(wanted)
    place = np.full(len(excluder), -1)
    place[rows] = np.arange(len(rows))
    left = excluder[rows]
    return rows, replace(
        choice, indices=place[kept], rank=choice.rank[reported],
        excluder=np.where(left >= 0, place[left], left), overlap=shared[rows],
    )  # fmt: skip


def _suppressed(candidates: Detections, choice: Interpretation) -> tuple[Record, ...]:
    """Return the records of dropped candidates, each with what it overlaps of those reported."""
    place = {int(index): k for k, index in enumerate(choice.indices)}
    rows = []
    for i, record in enumerate(records(candidates)):
        if i not in place:
            reason = choice.why(i)
            by = None if reason.by is None else place[reason.by]
            rows.append({**record, "by": by, "overlap": round(reason.overlap, 4)})
    return tuple(rows)


def picture_paths(photos: Sequence[Photo], folder: Path) -> dict[str, Path]:
    """Return a path for the picture of each photograph, in the same folders below `folder`.

    No two are the same, and none leads out of the folder, not even of a name in an archive.
    """
    places = {p.name: Path(os.path.abspath(p.name.replace("://", "/"))) for p in photos}
    above = Path(os.path.commonpath([place.parent for place in places.values()]))
    paths: dict[str, Path] = {}
    taken: set[Path] = set()
    for name, place in places.items():
        copy = folder / place.relative_to(above)
        suffix = ".png" if copy.suffix.lower() == ".png" else ".jpg"
        path = copy.with_name(fit_name(copy.stem, suffix))
        if path in taken:
            path = copy.with_name(fit_name(copy.name, suffix))
        paths[name] = path
        taken.add(path)
    return paths
