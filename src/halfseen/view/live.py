"""What the page shows of one image: the methods side by side, and one detection taken apart.

Pure functions of pixels, models and settings; they give plain JSON values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfseen.detections import Detections
from halfseen.errors import SettingsError
from halfseen.features.pyramid import LevelPlan
from halfseen.geometry import clip, iou_matrix
from halfseen.infer.detector import Detector
from halfseen.infer.levels import feature_levels
from halfseen.infer.masks import find_masks
from halfseen.infer.planes import MirrorBasis, Planes
from halfseen.infer.showing import Masks, show
from halfseen.infer.visibility import infer_visibility
from halfseen.infer.windows import gather_features
from halfseen.model.component import Component
from halfseen.model.mixture import Mixture
from halfseen.suppress import Interpretation, suppress
from halfseen.view.follow import SAME, follow
from halfseen.view.records import Record, records

CANDIDATES = 500
"""The best candidates that suppression is given. Sliders can make every window one."""

MOST = 200
"""Detections sent for one method at most: more cannot be told apart."""

NEIGHBOURS = 40
"""Suppressed neighbours sent of one detection at most."""

METHODS: dict[str, tuple[str, str]] = {
    "BL": ("BL", "voting"),
    "BLT": ("BLT", "voting"),
    "VIS": ("VIS", "voting"),
    "VIS+NMS": ("VIS", "covering"),
}
"""Each method of the page: the method of its model, and its suppression."""

SECONDS = 0.2
"""For the proof that covering suppression found the best set; the page says if it did not end."""


@dataclass(frozen=True)
class LiveSettings:
    """What the sliders set.

    threshold  the lowest score reported, -1 to 3
    alpha      Ising weight, 0 to 1; None leaves the model's own
    shift      added to every component's u, -0.2 to 0.2: above 0 hiding is cheaper
    overlap    eta, the largest overlap of two reported detections, 0 to 1
    """

    threshold: float = 0.0
    alpha: float | None = None
    shift: float = 0.0
    overlap: float = 0.5

    def __post_init__(self) -> None:
        ranges = {"threshold": (-1, 3), "alpha": (0, 1), "shift": (-0.2, 0.2), "overlap": (0, 1)}
        for name, (low, high) in ranges.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise SettingsError(f"{name} must be between {low} and {high}, found {value}")

    def applied(self, model: Mixture) -> Mixture:
        """The model with the sliders' alpha and u; only visibility knows them.

        A mask head does not: who moves them sees the flags of the score itself.
        """
        alpha = model.alpha if self.alpha is None else self.alpha
        if not model.visibility or (alpha == model.alpha and not self.shift):
            return model
        components = tuple(replace(c, u=c.u + self.shift) for c in model.components)
        return replace(model, components=components, alpha=alpha, head=None, calibration=None)


def look(
    image: NDArray[np.uint8],
    models: Mapping[str, Mixture],
    settings: LiveSettings,
    watched: Sequence[float] | None = None,
) -> Record:
    """What each method reports of an image.

    models   by their methods, all of one class
    watched  the box of an object whose score is followed even below the threshold
    """
    own = {name: settings.applied(model) for name, model in models.items()}
    detector = Remembering(list(own.values()))
    found = dict(zip(own, detector.candidates_by_model(image, settings.threshold), strict=True))
    size = (image.shape[0], image.shape[1])
    followed: dict[str, Detections | None] = {}
    if watched is not None:
        for i, (name, model) in enumerate(own.items()):
            window = follow(model, detector.levels(i), size, watched)
            followed[name] = None if window is None else detector.finished(i, image, window)
    return {
        "size": [image.shape[1], image.shape[0]],
        "methods": [
            _report(
                method,
                found[name],
                settings,
                own[name],
                watched,
                followed.get(name),
                partial(detector.finished, list(own).index(name), image),
            )
            for method, (name, _) in METHODS.items()
            if name in own
        ],
    }


class Remembering(Detector):
    """A detector for one image, which keeps the features that each of its models was shown."""

    def __init__(self, models: Sequence[Mixture]) -> None:
        super().__init__(models)
        self._made: list[list[tuple[LevelPlan, NDArray[np.float32]]]] = [[] for _ in models]

    def levels(self, m: int) -> list[tuple[LevelPlan, NDArray[np.float32]]]:
        """The levels that model m was shown, largest first."""
        return sorted(self._made[m], key=lambda made: (-made[0].scale_x, -made[0].scale_y))

    def finished(self, m: int, image: NDArray[np.uint8], found: Detections) -> Detections:
        """Windows of model m in the image it was shown, as `detect` returns them."""
        masker = self._maskers[m]
        if masker is None or not len(found):
            return found
        levels = self.levels(m)
        scales = np.array([(plan.scale_x, plan.scale_y) for plan, _ in levels])
        features = dict(enumerate(f for _, f in levels))
        maskers = [masker] * len(found)
        seen = sorted(find_masks(image, found, maskers, features, scales), key=itemgetter(0))
        _, flags, says, verdicts = zip(*seen, strict=True)
        masks = Masks(replace(found, visibility=flags), np.array(says), verdicts)
        return show(image, masks, maskers)[0]

    def _make(
        self, group: list[int], bases: set[MirrorBasis | None], plan: LevelPlan
    ) -> tuple[NDArray[np.float32], dict[MirrorBasis | None, Planes]]:
        features, planes = super()._make(group, bases, plan)
        for m in group:
            self._made[m].append((plan, features))
        return features, planes


def _report(
    method: str,
    found: Detections,
    settings: LiveSettings,
    model: Mixture,
    watched: Sequence[float] | None,
    followed: Detections | None,
    finish: Callable[[Detections], Detections],
) -> Record:
    total, found = len(found), found[:CANDIDATES]
    choice = _interpret(method, found, settings, model)
    kept = found[choice.indices[:MOST]]
    reported = [
        {**record, "index": int(i), "rank": round(float(rank), 4)}
        for record, i, rank in zip(records(finish(kept)), choice.indices, choice.rank, strict=False)
    ]
    report: Record = {
        "method": method,
        "suppression": choice.method,
        "candidates": total,
        "optimal": choice.optimal if choice.method == "covering" else None,
        "detections": reported,
        "watched": None,
    }
    if watched is not None and followed is not None:
        target = clip(np.asarray([watched], np.float64), found.size)
        overlaps = iou_matrix(kept.clipped, target)[:, 0]
        report["watched"] = {**records(followed)[0], "reported": bool((overlaps >= SAME).any())}
    return report


def _interpret(
    method: str, found: Detections, settings: LiveSettings, model: Mixture
) -> Interpretation:
    """Which of the candidates the method keeps."""
    options: dict[str, Any] = {"overlap": settings.overlap}
    if METHODS[method][1] == "covering":
        options |= {
            "threshold": settings.threshold,
            "block": model.descriptor.cell,
            "max_seconds": SECONDS,
        }
    return suppress(found, METHODS[method][1], **options)


def inspect(
    image: NDArray[np.uint8],
    models: Mapping[str, Mixture],
    settings: LiveSettings,
    method: str,
    index: int,
) -> Record:
    """One reported detection taken apart: where its score comes from, and whom it displaced.

    index  as `look` gave it for this method, of the same image and settings
    """
    own = METHODS.get(method, ("", ""))[0]
    if own not in models:
        known = [name for name, (model, _) in METHODS.items() if model in models]
        raise SettingsError(f"method must be one of {', '.join(known)}, found {method!r}")
    model = settings.applied(models[own])
    detector = Detector(model)
    candidates = detector.candidates(image, settings.threshold)[:CANDIDATES]
    choice = _interpret(method, candidates, settings, model)
    if index not in choice.indices:
        raise SettingsError(f"detection {index} is not among those that {method} reports")
    finished = detector.finish(image, candidates[choice.indices])
    neighbours = []
    for i in np.flatnonzero(choice.excluder == index)[:NEIGHBOURS]:
        reason = choice.why(int(i))
        neighbours.append(
            {
                **records(candidates[int(i)])[0],
                "why": reason.kind,
                "overlap": round(reason.overlap, 4),
            }
        )
    return {
        "method": method,
        "index": index,
        "detection": records(finished)[choice.indices.tolist().index(index)],
        "suppressed": int((choice.excluder == index).sum()),
        "limit": settings.overlap,
        "neighbours": neighbours,
        **take_apart(image, model, candidates[index]),
    }


def take_apart(image: NDArray[np.uint8], model: Mixture, found: Detections) -> Record:
    """The block responses of one detection and the sum of its score (Eqn 1).

    score = b + sum over visible blocks of w_i . B_i + hidden u + outside u_t - alpha edges
    """
    component = model.components[int(found.component[0])]
    if found.mirrored[0]:
        component = component.mirrored(model.descriptor.mirror)
    responses, outside = _block_responses(image, model, component, found.window[0])
    flags = found.visibility[0]
    if model.head is not None:
        # The head says what is hidden; the score has flags of its own.
        _, best = infer_visibility(responses[None], component.u, model.alpha, outside[None])
        flags = best[0] if model.visibility else ~outside
    hidden = ~flags & ~outside
    pairs = [
        (flags[:, 1:] != flags[:, :-1]) & ~outside[:, 1:] & ~outside[:, :-1],
        (flags[1:] != flags[:-1]) & ~outside[1:] & ~outside[:-1],
    ]
    edges = sum(int(pair.sum()) for pair in pairs) if model.visibility else 0
    return {
        "responses": [[round(float(r), 4) for r in row] for row in responses],
        "outside": ["".join("01"[o] for o in row) for row in outside.tolist()],
        "sum": {
            "bias": component.bias,
            "visible": float(responses[flags].sum(dtype=np.float64)),
            "visible_blocks": int(flags.sum()),
            "hidden_blocks": int(hidden.sum()),
            "u": component.u,
            "outside_blocks": int(outside.sum()),
            "u_t": component.u_t,
            "edges": edges,
            "alpha": model.alpha if model.visibility else 0.0,
        },
    }


def _block_responses(
    image: NDArray[np.uint8], model: Mixture, component: Component, window: NDArray[np.float64]
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """(rows, cols) responses of the window, and which of its blocks lie outside the image."""
    rows, cols = component.shape
    descriptor = model.descriptor
    shapes = {c.shape for c in model.components}
    level, features = min(
        feature_levels(image, descriptor, model.pyramid, shapes),
        key=lambda pair: abs(pair[0].scale_x * (window[2] - window[0]) - cols * descriptor.cell),
    )
    scale = np.array([level.scale_x, level.scale_y])
    left, top = np.rint((window[:2] * scale - descriptor.offset) / descriptor.cell).astype(int)
    y = np.array([top + (rows + 1) // 2])
    x = np.array([left + (cols + 1) // 2])
    height, width = features.shape[:2]
    blocks, outside = gather_features(features, rows, cols, y, x, 0, 0, height, width)
    return np.einsum("rcq,rcq->rc", blocks[0], component.weights), outside[0]
