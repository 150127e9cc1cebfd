"""Suppression for any detector: from masks and scores, whatever made them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from halfseen.errors import SettingsError
from halfseen.geometry import Boxes
from halfseen.suppress.covering import Covering, covering_of
from halfseen.suppress.greedy import Greedy, greedy_by
from halfseen.suppress.interpretation import (
    Floats,
    Indices,
    Interpretation,
    check_range,
    check_scores,
)
from halfseen.suppress.mask_scene import scene_of_grids, scene_of_masks
from halfseen.suppress.meanshift import MeanShift, meanshift_of
from halfseen.suppress.scene import Scene
from halfseen.suppress.soft import Soft, soft_by
from halfseen.suppress.voting import Voting, voting_by


def suppress_masks(
    masks: Iterable[Any],
    scores: ArrayLike,
    overlap: float = 0.5,
    full: ArrayLike | None = None,
    labels: Sequence[Any] | NDArray[Any] | None = None,
    *,
    windows: ArrayLike | None = None,
    grid: int = 256,
    method: str = "covering",
    **settings: Any,
) -> Interpretation:
    """Chooses among masks, each label by itself; `indices` count the masks in the order given.

    masks     an (N, height, width) array, or any iterable, of which one at a time is held, of
              (height, width) arrays of one shape and COCO run lengths, compressed or not; or, with
              `windows`, grids of flags of any shape
    scores    (N,) higher is better, such as probabilities
    overlap   the largest overlap of two kept masks: shared over either for "covering" (and the
              decay of "soft"), shared over the lower-ranked one for "greedy" and "voting"
    full      (N, 4) boxes of the whole objects, hidden parts included, where they are known
    labels    (N,) classes, default one for all
    windows   (N, 4) the pixels that each grid of flags spans
    grid      masks with more cells along a side are reduced: a cell counts where at least half of
              it is covered, and a mask that fills no cell so far gets its fullest one
    method    "covering", "greedy", "voting", "soft" or "meanshift" (by `full`, or the boxes of the
              masks)
    settings  the method's own; `threshold` is by default 0, or the lowest score if that is less

    A mask with no pixel adds nothing, and goes. Raises SettingsError for numbers out of range or
    unequal lengths, AnnotationError for masks that are malformed or of unequal shapes.
    """
    score = np.asarray(scores, dtype=np.float64)
    if score.ndim != 1:
        raise SettingsError(f"scores must have shape (N,), found {score.shape}")
    check_scores(score)
    check_range("grid", grid, 1, 65536)
    label = _labels(labels, len(score))
    box = None if full is None else _boxes("full", full, len(score))
    if windows is None:
        scene, whole = scene_of_masks(masks, len(score), box, int(grid))
    else:
        spans = _boxes("windows", windows, len(score))
        scene, whole = scene_of_grids(masks, spans, box, int(grid))
    settings.setdefault("threshold", min(0.0, score.min(initial=0.0)))
    alive = np.flatnonzero(scene.visible.any(axis=1))
    kept = _choose(
        score[alive], label[alive], scene[alive], whole[alive], method, overlap, settings
    )
    return _among(kept, alive, len(score))


def _choose(
    score: Floats, label: NDArray[np.str_], scene: Scene, full: Boxes, method: str, overlap: float,
    settings: dict[str, Any],
) -> Interpretation:  # fmt: skip
    from halfseen.suppress.kernels import extents, shared_blocks

    size = extents(scene.visible)[0]

    def over_lower(k: int, others: Indices) -> Floats:
        return np.asarray(shared_blocks(scene.visible, k, others) / size[others])

    def over_either(k: int, others: Indices) -> Floats:
        shared = shared_blocks(scene.visible, k, others)
        return np.asarray(shared / (size[k] + size[others] - shared))

    try:
        if method == "covering":
            energy = settings.pop("energy", "odds")
            if energy == "odds":
                # Support would take another detector's scores out of their scale.
                settings.setdefault("rank", "marginal")
            return covering_of(
                score, label, scene, Covering.named(energy, overlap=overlap, **settings)
            )
        if method == "soft":
            return soft_by(
                score, label, scene.content, Soft(overlap=overlap, **settings), over_either
            )
        if method == "meanshift":
            return meanshift_of(score, label, full, MeanShift(**settings))
        if method == "greedy":
            settings.pop("threshold")
            return greedy_by(score, label, scene.content, Greedy(overlap, **settings), over_lower)
        if method == "voting":
            return voting_by(
                score, label, scene.content, Voting(overlap, **settings), over_lower,
                lambda some, others: np.stack([over_either(int(k), others) for k in some]),
            )  # fmt: skip
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        raise SettingsError(f"{method} suppression: {error}") from None
    raise SettingsError(
        f"method must be one of covering, greedy, meanshift, soft, voting, found {method!r}"
    )


def _among(kept: Interpretation, members: Indices, count: int) -> Interpretation:
    """An interpretation of some of `count` detections as one of all; the others added nothing."""
    excluder, overlap = np.full(count, -1, dtype=np.int64), np.zeros(count)
    by = kept.excluder
    excluder[members] = np.where(by >= 0, members[by] if len(members) else by, -1)
    overlap[members] = kept.overlap
    return replace(kept, indices=members[kept.indices], excluder=excluder, overlap=overlap)


def _labels(labels: Any, count: int) -> NDArray[np.str_]:
    if labels is None:
        return np.zeros(count, dtype=np.str_)
    label = np.asarray(labels).astype(np.str_)
    if label.shape != (count,):
        raise SettingsError(f"labels must have shape ({count},) as scores, found {label.shape}")
    return label


def _boxes(name: str, boxes: ArrayLike, count: int) -> Boxes:
    array = np.asarray(boxes, dtype=np.float64)
    if array.shape != (count, 4):
        raise SettingsError(f"{name} must have shape ({count}, 4) as scores, found {array.shape}")
    right = np.isfinite(array).all(axis=1) & (array[:, :2] <= array[:, 2:]).all(axis=1)
    if not right.all():
        first = int(right.argmin())
        raise SettingsError(
            f"{name} must be finite with x1 <= x2 and y1 <= y2,"
            f" found {array[first].tolist()} at detection {first}"
        )
    return array
