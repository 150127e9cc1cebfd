"""What the page shows of one image: the methods side by side, and one detection taken apart.

Pure functions of pixels, models and settings; they give plain JSON values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from halfseen.arrays import Bool, Float32, Float64, UInt8
from halfseen.data.records import Record, records
from halfseen.detect.detector import SEARCHED
from halfseen.detect.follow import SAME, follow
from halfseen.detect.view import View
from halfseen.detect.windows import gather_features, place_of
from halfseen.detections import Detections
from halfseen.errors import SettingsError
from halfseen.geometry import clip, iou_matrix
from halfseen.model.mixture import Component, Mixture
from halfseen.refine.detector import Detector
from halfseen.settings import Checked, number
from halfseen.suppression import Interpretation
from halfseen.suppression.classes import one_class
from halfseen.suppression.greedy import Voting

CANDIDATES = {"voting": 2000, "covering": 500}
"""The best candidates that each suppression is given. Sliders can make every window one."""

MOST = 200
"""Detections sent for one method at most: more cannot be told apart."""

NEIGHBOURS = 40
"""Suppressed neighbours sent of one detection at most."""

RIGID = "Rigid"
"""The same templates as VIS, but every block counts: what a photograph's class is compared with."""

SHOWN: dict[str, tuple[str, str]] = {
    RIGID: (RIGID, "voting"),
    "BL": ("BL", "voting"),
    "BLT": ("BLT", "voting"),
    "VIS": ("VIS", "voting"),
    "VIS+NMS": ("VIS", "covering"),
}
"""Each method of the page: the method of its model, and its suppression."""

STEPS = 200_000_000
"""For the proof that covering suppression found the best set; the page says if it did not end."""


@dataclass(frozen=True)
class LiveSettings(Checked):
    """What the sliders set.

    threshold  the lowest score reported, -1 to 3. What is reported of a detection does not depend
               on it: voting sees all candidates, as it does elsewhere
    alpha      Ising weight, 0 to 1; None leaves the model's own
    shift      added to every component's u, -0.2 to 0.2: above 0 hiding is cheaper
    overlap    eta, the largest overlap of two reported detections, 0 to 1; as voting's
    """

    threshold: float = number(0.0, -1, 3)
    alpha: float | None = number(None, 0, 1)
    shift: float = number(0.0, -0.2, 0.2)
    overlap: float = number(Voting.overlap, 0, 1)

    def applied(self, model: Mixture) -> Mixture:
        """The model with the sliders' alpha and u; only visibility knows them.

        A mask head does not: who moves them sees the flags of the score itself.
        """
        alpha = model.alpha if self.alpha is None else self.alpha
        if not model.visibility or (alpha == model.alpha and not self.shift):
            return model
        components = tuple(replace(c, u=c.u + self.shift) for c in model.components)
        return replace(model, components=components, alpha=alpha, head=None, calibration=None)


class Followed(NamedTuple):
    """The box of an object, and the best window of a model that overlaps it."""

    box: Sequence[float]
    window: Detections


def compare(
    image: UInt8,
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
    found = detector.search(view, SEARCHED)
    followed: dict[str, Followed] = {}
    for m, name in enumerate(names if watched is not None else ()):
        window = follow(view, watched or (), m)
        if window is not None:
            followed[name] = Followed(watched or (), window)
    reports = []
    for method, (name, _) in SHOWN.items():
        if name in names:
            m = names.index(name)
            own = found[found.model == m]
            reports.append(_report(method, detector, view, own, settings, followed.get(name)))
    return {"size": [image.shape[1], image.shape[0]], "methods": reports}


def classes(image: UInt8, sets: Sequence[tuple[int, Mixture]]) -> list[Record]:
    """The classes that are found in an image, the surest first: what `halfseen detect` lists.

    sets  the numbers of sets of models, each with the model that looks for its class
    Each has the number of its set, how many objects of it are found, the whole box, score and
    probability of the best, and the lowest score of them.
    """
    if not sets:
        return []
    numbers, models = zip(*sets, strict=True)
    detector = Detector(list(models))
    view = detector.view(image)
    candidates, choice = detector.suppress(view, detector.search(view, SEARCHED))
    found = detector.finish(view, choice.of(candidates))
    found = found[(one_class(found)[0] < 0) & found.strong()]
    rows = []
    for m in dict.fromkeys(found.model.tolist()):
        own = found[found.model == m]
        if own.probability is not None:
            own = own[np.argsort(-own.probability, kind="stable")]
        rows.append(
            {
                **records(own[:1])[0],
                "models": numbers[m],
                "count": len(own),
                "lowest": float(own.score.min()),
            }
        )
    return sorted(rows, key=lambda row: -row.get("probability", row["score"]))


def _report(
    method: str, detector: Detector, view: View, found: Detections, settings: LiveSettings,
    followed: Followed | None,
) -> Record:  # fmt: skip
    """What one method reports of its model's candidates, and of what is followed."""
    candidates, choice = _interpret(method, detector, view, found, settings)
    kept = choice.of(candidates)
    above = np.flatnonzero(kept.score >= settings.threshold)[:MOST]
    reported = records(detector.finish(view, kept[above]))
    return {
        "method": method,
        "suppression": choice.method,
        "candidates": len(candidates),
        "optimal": choice.optimal if choice.method == "covering" else None,
        "detections": [
            {**row, "index": int(choice.indices[k])} for row, k in zip(reported, above, strict=True)
        ],
        "watched": followed and _watched(detector, view, kept, followed, settings.threshold),
    }


def _watched(
    detector: Detector, view: View, kept: Detections, followed: Followed, threshold: float
) -> Record:
    """The best detection that overlaps what is followed; where there is none, the best window."""
    target = clip(np.asarray([followed.box], np.float64), view.size)
    near = kept[iou_matrix(kept.clipped, target)[:, 0] >= SAME][:1]
    shown = detector.finish(view, near if len(near) else followed.window)
    reported = bool(len(near) and near.score[0] >= threshold)
    return {**records(shown)[0], "reported": reported}


def _interpret(
    method: str, detector: Detector, view: View, found: Detections, settings: LiveSettings
) -> tuple[Detections, Interpretation]:
    """The candidates as the method's suppression saw them, and which of them it keeps.

    Voting sees all from `SEARCHED` on, covering those that may be reported.
    """
    options: dict[str, Any] = {"overlap": settings.overlap}
    name = SHOWN[method][1]
    if name == "covering":
        found = found[found.score >= settings.threshold]
    found = found[: CANDIDATES[name]]
    if name == "covering" and len(found):
        model = detector.models[int(found.model[0])]
        options |= {
            "threshold": settings.threshold,
            "block": model.descriptor.cell,
            "max_work": STEPS,
        }
    return detector.suppress(view, found, name, **options)


def inspect(
    image: UInt8,
    models: Mapping[str, Mixture],
    settings: LiveSettings,
    method: str,
    index: int,
) -> Record:
    """One reported detection taken apart: where its score comes from, and whom it displaced.

    index  as `compare` gave it for this method, of the same image and settings
    """
    own = SHOWN.get(method, ("", ""))[0]
    if own not in models:
        known = [name for name, (model, _) in SHOWN.items() if model in models]
        raise SettingsError(f"method must be one of {', '.join(known)}, found {method!r}")
    detector = Detector(settings.applied(models[own]))
    view = detector.view(image)
    found = detector.search(view, SEARCHED)
    candidates, choice = _interpret(method, detector, view, found, settings)
    kept = choice.of(candidates)
    place = np.flatnonzero((choice.indices == index) & (kept.score >= settings.threshold))
    if not len(place):
        raise SettingsError(f"detection {index} is not among those that {method} reports")
    finished = detector.finish(view, kept[place])
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
        **take_apart(view, candidates[index]),
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
        "flags": records(found)[0]["blocks"],
        "window_score": float(found.score[0]),
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
    view: View, m: int, component: Component, window: Float64
) -> tuple[Float32, Bool]:
    """(rows, cols) responses of a window (1, 4), and which of its blocks lie outside the image."""
    rows, cols = component.shape
    levels = view.levels_of(m)
    level = levels.nearest(window, np.array([[rows, cols]], np.float64))
    top, left = levels.first_blocks(window, level)
    features = levels.features(int(level[0]))
    y, x = place_of(top, rows), place_of(left, cols)
    blocks, outside = gather_features(features, rows, cols, y, x, 0, 0, *features.shape[:2])
    return np.einsum("rcq,rcq->rc", blocks[0], component.weights), outside[0]
