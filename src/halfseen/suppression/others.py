"""Suppression for any detector: masks or boxes with scores, whatever made them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfseen.arrays import Float64, Int64
from halfseen.errors import SettingsError
from halfseen.geometry import Boxes
from halfseen.settings import check_choice, check_number
from halfseen.suppression.candidates import EMPTY, Candidates, Interpretation, Shapes, of_boxes
from halfseen.suppression.mask_shapes import shapes_of_grids, shapes_of_masks
from halfseen.suppression.method import METHODS, Method
from halfseen.suppression.scores import LOWEST, SCALES, as_logit, as_probability, check_scores

FARTHEST = 1e12
"""Pixels from the corner beyond which no box reaches."""
BOXES_ALONE: dict[str, Any] = {"method": "voting", "overlap": 0.7, "weight": 0.1}
"""Defaults where nothing says what is visible (`benchmarks/voc/suppress_peer.py`)."""
Labels = Sequence[Any] | NDArray[Any]


def suppress_masks(
    masks: Iterable[Any],
    scores: ArrayLike,
    overlap: float = 0.5,
    full: ArrayLike | None = None,
    labels: Labels | None = None,
    *,
    windows: ArrayLike | None = None,
    method: str = "covering",
    **settings: Any,
) -> Interpretation:
    """Chooses among masks; `indices` count the masks in the order given.

    masks     an (N, height, width) array, or any iterable, of which one at a time is held, of
              (height, width) arrays and COCO run lengths, compressed or not; or, with `windows`,
              grids of flags of any shape. Masks hold booleans, or numbers that are 0 and 1
    scores    (N,) higher is better, on the `scale` below
    overlap   the largest overlap of two kept masks, from 0 to 1
    full      (N, 4) boxes of the whole objects, hidden parts included, where they are known
    labels    (N,) classes, default one for all
    windows   (N, 4) the pixels that each grid of flags spans
    method    "covering", "greedy", "voting", "soft" or "meanshift" (by `full`, or the boxes of the
              masks)
    settings  those of the method, and of all:
              images   (N,) the image of each, by any name; those of different images never meet
              groups   "class": classes do not exclude each other (default); "all": all exclude each
                       other; or lists of classes that do, as [["car", "truck"], ["cat", "dog"]]
              scale    of the scores: "probability" (default), "logit", or "margin" (as of an SVM,
                       about -1 to 1). Ranks are on the same scale
              measure  of overlap: shared area over that of either ("iou", default), of the
                       "smaller" mask, or, for greedy and voting, of the "lower"-ranked one; "box":
                       iou of the whole boxes

    Overlaps are exact, by pixels. A mask without any pixel goes. Raises SettingsError for numbers
    out of range or unequal lengths, AnnotationError for masks that are malformed.
    """
    score = check_scores(scores, _scale(settings))
    of_image = _codes("images", settings.pop("images", None), len(score))
    if windows is None:
        visible = shapes_of_masks(masks, of_image)
    else:
        visible = shapes_of_grids(masks, _boxes("windows", windows, len(score)))
    whole = None if full is None else _boxes("full", full, len(score))
    settings["overlap"] = overlap
    return _suppress(score, visible, whole, (labels, of_image), method, settings)


def suppress_boxes(
    full: ArrayLike,
    scores: ArrayLike,
    visible: ArrayLike | None = None,
    labels: Labels | None = None,
    overlap: float | None = None,
    *,
    method: str | None = None,
    **settings: Any,
) -> Interpretation:
    """Chooses among boxes x1 y1 x2 y2; `indices` count them in the order given.

    full      (N, 4) boxes, of the whole objects if `visible` says what is visible of each
    visible   (N, 4) boxes of the visible parts, by which candidates are compared; default `full`
    overlap   the largest overlap of two kept boxes, default 0.5; 0.7 without `visible`
    method    default "covering"; without `visible` "voting", with the setting `weight` 0.1: each
              object has many boxes that are hardly different, and each of these says little new

    The rest is as for `suppress_masks`. Boxes may lie anywhere; one without any area goes. Those
    kept are as they were given: none is moved or averaged.
    """
    score = check_scores(scores, _scale(settings))
    whole = _boxes("full", full, len(score))
    shown = whole if visible is None else _boxes("visible", visible, len(score))
    of_image = _codes("images", settings.pop("images", None), len(score))
    if visible is None:
        method = BOXES_ALONE["method"] if method is None else method
        overlap = BOXES_ALONE["overlap"] if overlap is None else overlap
        if method == "voting":
            settings.setdefault("weight", BOXES_ALONE["weight"])
    settings["overlap"] = 0.5 if overlap is None else overlap
    method = "covering" if method is None else method
    return _suppress(score, of_boxes(shown), whole, (labels, of_image), method, settings)


def _suppress(
    score: Float64,
    visible: Shapes,
    full: Boxes | None,
    named: tuple[Labels | None, Int64],
    method: str,
    settings: dict[str, Any],
) -> Interpretation:
    """Chooses among those that have an area, on the scale that the method computes with."""
    group = _groups(_codes("labels", named[0], len(score)), named, settings.pop("groups", "class"))
    box = visible.box if full is None else full
    scale = _scale(settings)
    settings.pop("scale", None)
    kind = METHODS[check_choice("method", method, tuple(METHODS))]
    computed, settings = _scaled(score, scale, kind, settings)
    alive = np.flatnonzero(visible.area > 0)
    shapes = visible.take(alive)
    candidates = Candidates(
        computed[alive], group[alive], _content(shapes, box[alive]), shapes,
        shapes if full is None else of_boxes(box[alive]), box[alive], box[alive],
        logits=kind.domain == "odds" and scale != "margin",
    )  # fmt: skip
    kept = kind.make(settings).choose(candidates)
    return _among(_on_scale(kept, scale, kind), alive, len(score))


def _scaled(
    score: Float64, scale: str, kind: type[Method], settings: dict[str, Any]
) -> tuple[Float64, dict[str, Any]]:
    """The scores that a method computes with, and its settings with defaults for them."""
    settings.setdefault("measure", "iou")
    if kind.domain == "order":
        return score, settings
    limit = settings.get("threshold")
    if limit is not None:
        limit = check_number("threshold", limit, -1e9, 1e9)
    if scale == "margin":
        settings.setdefault("threshold", min(-1.0, float(score.min(initial=0.0))))
    elif kind.domain == "odds":
        score = as_logit(score, scale)
        settings.setdefault("beta", 1.0)
        if kind.name == "covering":
            settings.setdefault("gamma", 1.0)
        low = LOWEST if limit is None else float(as_logit(np.array([limit]), scale)[0])
        settings["threshold"] = low
    else:
        score = as_probability(as_logit(score, scale))
        if limit is not None and scale == "logit":
            limit = float(as_probability(np.array([limit]))[0])
        settings["threshold"] = limit or 0.0
        if kind.name == "soft":
            settings.setdefault("least", min(1e-3, float(score.min(initial=1.0)) / 2))
    if kind.name == "meanshift":
        settings = {n: value for n, value in settings.items() if n not in ("measure", "overlap")}
    return score, settings


def _on_scale(kept: Interpretation, scale: str, kind: type[Method]) -> Interpretation:
    if kind.domain == "odds" and scale == "probability":
        return replace(kept, rank=as_probability(kept.rank))
    if kind.domain == "weight" and scale == "logit":
        return replace(kept, rank=as_logit(kept.rank, "probability"))
    return kept


def _among(kept: Interpretation, members: Int64, count: int) -> Interpretation:
    """An interpretation of some of `count` candidates as one of all; the others are empty."""
    excluder, overlap = np.full(count, EMPTY, dtype=np.int64), np.zeros(count)
    by = kept.excluder
    excluder[members] = np.where(by >= 0, members[by] if len(members) else by, by)
    overlap[members] = kept.overlap
    return replace(kept, indices=members[kept.indices], excluder=excluder, overlap=overlap)


def _content(shapes: Shapes, full: Boxes) -> Float64:
    """(N, 11) what tells candidates of equal score apart."""
    region = np.repeat(np.arange(len(full)), np.diff(shapes.start))
    ends = shapes.first, shapes.last
    sums = [np.bincount(region, end, len(full)) if shapes.runs else shapes.area for end in ends]
    return np.column_stack([shapes.box, full, shapes.area, *sums])


def _scale(settings: dict[str, Any]) -> str:
    return check_choice("scale", settings.get("scale", "probability"), SCALES)


def _codes(name: str, labels: Labels | None, count: int) -> Int64:
    """(N,) a whole number for each different label."""
    if labels is None:
        return np.zeros(count, dtype=np.int64)
    if isinstance(labels, str) or not hasattr(labels, "__len__") or len(labels) != count:
        found = np.shape(labels) if isinstance(labels, np.ndarray) else f"{str(labels)!r:.80}"
        raise SettingsError(f"{name} must be {count} as scores, found {found}")
    values = labels.tolist() if isinstance(labels, np.ndarray) else labels
    number: dict[Any, int] = {}
    try:
        return np.array([number.setdefault(v, len(number)) for v in values], dtype=np.int64)
    except TypeError:
        raise SettingsError(f"{name} must be words or numbers, found {values[0]!r:.80}") from None


def _groups(code: Int64, named: tuple[Labels | None, Int64], groups: Any) -> Int64:
    """(N,) numbers: candidates of different ones never exclude each other."""
    labels, image = named
    if isinstance(groups, str):
        check_choice("groups", groups, ("class", "all"))
        code = code if groups == "class" else np.zeros_like(code)
    else:
        try:
            lists = [[_plain(v) for v in group] for group in groups if not isinstance(group, str)]
            if len(lists) != len(groups):
                raise TypeError
            member = {v: -1 - g for g, group in enumerate(lists) for v in group}
        except TypeError:
            raise SettingsError(
                'groups must be "class", "all" or lists of classes, as [["car", "truck"]],'
                f" found {str(groups)!r:.80}"
            ) from None
        if len(member) != sum(map(len, lists)):
            raise SettingsError("groups: expected each class in one group, found one in two")
        if labels is None:
            raise SettingsError("groups: lists of classes need labels, one for each candidate")
        given = [_plain(v) for v in labels]
        code = np.array([member.get(v, c) for v, c in zip(given, code, strict=True)], np.int64)
    return np.unique(np.column_stack([image, code]), axis=0, return_inverse=True)[1].reshape(-1)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _boxes(name: str, boxes: ArrayLike, count: int) -> Boxes:
    try:
        array = np.asarray(boxes, dtype=np.float64)
    except (TypeError, ValueError):
        raise SettingsError(f"{name} must be numbers of shape ({count}, 4)") from None
    if count == 0 and array.size == 0:
        return np.zeros((0, 4))
    if array.shape != (count, 4):
        hint = "; pass rows[:, :4]" if array.ndim == 2 and array.shape[1] > 4 else ""
        raise SettingsError(
            f"{name} must have shape ({count}, 4) as scores, found {array.shape}{hint}"
        )
    right = (np.abs(array) <= FARTHEST).all(axis=1) & (array[:, :2] <= array[:, 2:]).all(axis=1)
    if not right.all():
        first = int(right.argmin())
        raise SettingsError(
            f"{name} must be finite with x1 <= x2 and y1 <= y2, at most {FARTHEST:g} pixels away,"
            f" found {array[first].tolist()} at detection {first}"
        )
    return np.ascontiguousarray(array)
