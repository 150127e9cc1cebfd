"""What detections show: their figures, boxes that follow these, and what stands before what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfseen.compute import spread
from halfseen.detections import Detections
from halfseen.infer.calibration import Floats
from halfseen.infer.figure import Typical, find_figures
from halfseen.infer.masks import Masker, Verdict, with_flags
from halfseen.infer.order import hide_behind
from halfseen.infer.refine import Seen, corrected_boxes, look, misfit
from halfseen.model.calibration import TOLD


class Masks(NamedTuple):
    """Detections with the flags of mask heads, those of models without a head as they were.

    visible   (N,) what is visible of each says for it, if that was asked; else, and without a
              head, 0
    judged    for each what its flags were cut from; None without a head
    """

    found: Detections
    visible: Floats
    judged: Sequence[Verdict | None]

    def some(self, indices: NDArray[np.int64]) -> Masks:
        judged = [self.judged[n] for n in indices.tolist()]
        return Masks(self.found[indices], self.visible[indices], judged)


class Headed(NamedTuple):
    """Those of some detections that have flags of a mask head.

    indices  which they are
    typical  what is typically figure in windows of their kind
    seen     what their figures tell
    """

    indices: list[int]
    typical: list[Typical]
    seen: Seen


def parts_alike(found: Detections, mine: NDArray[np.int64], parts: int) -> list[NDArray[np.int64]]:
    """Some of the detections in so many parts, those with windows of one shape side by side: of
    these, many cost little more than one.
    """
    if parts == 1:
        return [mine]
    shapes = np.array([found.visibility[n].shape for n in mine.tolist()]).reshape(-1, 2)
    return np.array_split(mine[np.lexsort(shapes.T)], parts)


def look_at(
    pixels: NDArray[np.uint8], masks: Masks, maskers: Sequence[Masker | None], cores: int = 1
) -> tuple[Headed, Floats]:
    """What figures tell of detections, each with the masker of its model; and (N, len(TOLD)) all
    that is told of them to `evidence`, zeros without a head.
    """
    found = masks.found
    mine: list[int] = []
    judged: list[Verdict] = []
    typical: list[Typical] = []
    places = zip(found.component.tolist(), found.mirrored.tolist(), strict=True)
    for n, (place, masker, verdict) in enumerate(zip(places, maskers, masks.judged, strict=True)):
        if masker is not None and verdict is not None:
            mine.append(n)
            judged.append(verdict)
            typical.append(masker.typical_figure(*place))
    headed = found[mine] if len(mine) < len(found) else found

    def look_at_some(some: NDArray[np.int64]) -> Seen:
        parts = ([grids[n] for n in some.tolist()] for grids in (typical, judged))
        return look(pixels, headed[some], *parts)

    if cores > 1:
        shares = parts_alike(headed, np.arange(len(mine)), cores)
        with spread(cores) as each:
            seen = Seen.join(each(look_at_some, shares), np.argsort(np.concatenate(shares)))
    else:
        seen = look(pixels, headed, typical, judged)
    told = np.zeros((len(found), len(TOLD)))
    told[:, 0] = masks.visible
    told[mine, 1:] = np.column_stack([seen.outline, misfit(seen.away)])
    return Headed(mine, typical, seen), told


def show(
    pixels: NDArray[np.uint8], masks: Masks, maskers: Sequence[Masker | None], cores: int = 1
) -> tuple[Detections, Floats]:
    """Detections with their figures and the boxes of these, and less of what is not where it
    typically is, and of those that stand behind others, if mask heads tell what of them is hidden.
    Those of models without a head are figure where they are visible. And what is told of them: see
    `look_at`.
    """
    (mine, typical, seen), told = look_at(pixels, masks, maskers, cores)
    found = masks.found
    boxes = found.full.copy()
    boxes[mine] = corrected_boxes(found[mine] if len(mine) < len(found) else found, seen.away)
    visible, figure, may_be = (list(found.visibility) for _ in range(3))
    for k, n in enumerate(mine):
        visible[n], figure[n], may_be[n] = seen.flags[k], seen.figures[k], seen.may_be[k]
    found = replace(found, visibility=tuple(visible), figure=tuple(figure))
    shown, left = (
        hide_behind(replace(found, visibility=tuple(flags)), mine) for flags in (visible, may_be)
    )
    behind = [n for n in mine if left[n] is not may_be[n]]
    if behind:
        # What is hidden now was taken for a part of them. Their boxes stay as they are: the
        # calibration has learnt from detections one by one.
        usual = [grid for n, grid in zip(mine, typical, strict=True) if n in behind]
        again = find_figures(pixels, replace(found, visibility=left)[behind], usual)
        for n, grid in zip(behind, again, strict=True):
            figure[n] = grid
    return with_flags(found, shown, boxes, tuple(figure)), told
