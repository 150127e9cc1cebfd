"""What the page shows of one image: the methods side by side, and one detection taken apart.

Pure functions of pixels, models and settings; they give plain JSON values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfseen.data.records import Record, records
from halfseen.detect.follow import SAME, follow
from halfseen.detect.view import View
from halfseen.detect.windows import gather_features
from halfseen.detections import Detections
from halfseen.errors import SettingsError
from halfseen.geometry import clip, iou_matrix
from halfseen.model.mixture import Component, Mixture
from halfseen.refine.detector import Detector
from halfseen.suppression import Interpretation

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

STEPS = 200_000_000
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


def compare(
    image: NDArray[np.uint8],
    models: Mapping[str, Mixture],
    settings: LiveSettings,
    watched: Sequence[float] | None = None,
) -> Record:
    """What each method reports of an image.

    models   by their methods, all of one class
    watched  the box of an object whose score is followed even below the threshold
    """
    names = list(models)
    detector = Detector([settings.applied(models[name]) for name in names])
    view = detector.view(image)
    found = detector.search(view, settings.threshold)
    followed: dict[str, Detections | None] = {}
    if watched is not None:
        for m, name in enumerate(names):
            window = follow(view, watched, m)
            followed[name] = None if window is None else detector.finish(view, window)
    reports = []
    for method, (name, _) in METHODS.items():
        if name in names:
            m = names.index(name)
            own = found[found.model == m]
            report = _report(method, detector, view, own, settings)
            reports.append({**report, "watched": _watched(report, followed.get(name), watched)})
    return {"size": [image.shape[1], image.shape[0]], "methods": reports}


def _report(
    method: str, detector: Detector, view: View, found: Detections, settings: LiveSettings
) -> Record:
    """What one method reports of its model's candidates."""
    candidates, choice = _interpret(method, detector, view, found[:CANDIDATES], settings)
    kept = detector.finish(view, candidates[choice.indices[:MOST]])
    reported = [
        {**record, "index": int(i), "rank": round(float(rank), 4)}
        for record, i, rank in zip(records(kept), choice.indices, choice.rank, strict=False)
    ]
    return {
        "method": method,
        "suppression": choice.method,
        "candidates": len(found),
        "optimal": choice.optimal if choice.method == "covering" else None,
        "detections": reported,
    }


def _watched(
    report: Record, followed: Detections | None, watched: Sequence[float] | None
) -> Record | None:
    """The followed window, and whether the method reports one that overlaps what is watched."""
    if watched is None or followed is None:
        return None
    target = clip(np.asarray([watched], np.float64), followed.size)
    boxes = np.array([row["full"] for row in report["detections"]]).reshape(-1, 4)
    overlaps = iou_matrix(clip(boxes, followed.size), target)[:, 0]
    return {**records(followed)[0], "reported": bool((overlaps >= SAME).any())}


def _interpret(
    method: str, detector: Detector, view: View, found: Detections, settings: LiveSettings
) -> tuple[Detections, Interpretation]:
    """The candidates as the method's suppression saw them, and which of them it keeps."""
    options: dict[str, Any] = {"overlap": settings.overlap}
    name = METHODS[method][1]
    if name == "covering" and len(found):
        model = detector.models[int(found.model[0])]
        options |= {
            "threshold": settings.threshold,
            "block": model.descriptor.cell,
            "max_work": STEPS,
        }
    return detector.suppress(view, found, name, **options)


def inspect(
    image: NDArray[np.uint8],
    models: Mapping[str, Mixture],
    settings: LiveSettings,
    method: str,
    index: int,
) -> Record:
    """One reported detection taken apart: where its score comes from, and whom it displaced.

    index  as `compare` gave it for this method, of the same image and settings
    """
    own = METHODS.get(method, ("", ""))[0]
    if own not in models:
        known = [name for name, (model, _) in METHODS.items() if model in models]
        raise SettingsError(f"method must be one of {', '.join(known)}, found {method!r}")
    detector = Detector(settings.applied(models[own]))
    view = detector.view(image)
    found = detector.search(view, settings.threshold)[:CANDIDATES]
    candidates, choice = _interpret(method, detector, view, found, settings)
    if index not in choice.indices:
        raise SettingsError(f"detection {index} is not among those that {method} reports")
    finished = detector.finish(view, candidates[[index]])
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
        "detection": records(finished)[0],
        "suppressed": int((choice.excluder == index).sum()),
        "limit": settings.overlap,
        "neighbours": neighbours,
        **take_apart(view, found[index]),
    }


def take_apart(view: View, found: Detections) -> Record:
    """The block responses of one candidate and the sum of its score (Eqn 1).

    score = b + sum over visible blocks of w_i . B_i + hidden u + outside u_t - alpha edges

    found   as `search` found it: its blocks are those that decided its score
    """
    m = int(found.model[0])
    model = view.levels_of(m).group.models[m]
    component = model.components[int(found.component[0])]
    if found.mirrored[0]:
        component = component.mirrored(model.descriptor.mirror)
    responses, outside = _block_responses(view, m, component, found.window)
    flags = found.visibility[0]
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
    view: View, m: int, component: Component, window: NDArray[np.float64]
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """(rows, cols) responses of a window (1, 4), and which of its blocks lie outside the image."""
    rows, cols = component.shape
    levels = view.levels_of(m)
    level = levels.nearest(window, np.array([[rows, cols]], np.float64))
    top, left = levels.first_blocks(window, level)
    features = levels.features(int(level[0]))
    y, x = top + (rows + 1) // 2, left + (cols + 1) // 2
    blocks, outside = gather_features(features, rows, cols, y, x, 0, 0, *features.shape[:2])
    return np.einsum("rcq,rcq->rc", blocks[0], component.weights), outside[0]
