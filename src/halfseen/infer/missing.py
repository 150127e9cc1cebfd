"""A second look: what ought to be there and is not, is the likelier hidden.

A mask head judges a window by its gradients and colours, and knows nothing of the object's shape.
Where a block shows the object in most whole objects, and here, by its colour, shows something else,
there may be something before it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from halfseen.detections import Detections
from halfseen.features.colour import lab
from halfseen.infer.figure import Typical
from halfseen.infer.masks import Judged, contrast_edges
from halfseen.infer.visibility import infer_visibility

# What is added to the logit of a block that is figure in all whole objects, and not in this one.
MISSING = 1.0
Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]


def look_twice(
    pixels: NDArray[np.uint8],
    found: Detections,
    figures: Sequence[Bools],
    typical: Sequence[Typical],
    judged: Sequence[Judged | None],
) -> tuple[Bools, ...]:
    """The flags of detections after a second look; as they were where nothing typical is known.

    figures, typical   see `find_figures`
    judged             what their mask heads said of them
    """
    from halfseen.infer.mask_kernels import block_colours

    flags = list(found.visibility)
    groups: dict[tuple[tuple[int, ...], float], list[tuple[int, Floats, Floats]]] = {}
    for n, (usual, said) in enumerate(zip(typical, judged, strict=True)):
        if usual is not None and said is not None:
            groups.setdefault((usual.shape, said.alpha), []).append((n, usual, said.logits))
    for (shape, alpha), rows in groups.items():
        mine = [n for n, _, _ in rows]
        usual, logits = (np.stack([row[k] for row in rows]) for k in (1, 2))
        before = np.stack([flags[n] for n in mine])
        figure = np.stack([figures[n] for n in mine])
        colours = lab(block_colours(pixels, found.window[mine], *shape))
        for n, grid in zip(
            mine, hide_missing(logits, before, figure, usual, colours, alpha), strict=True
        ):
            flags[n] = grid
    return tuple(flags)


def hide_missing(
    logits: Floats, flags: Bools, figure: Bools, typical: Floats, colours: Floats, alpha: float
) -> Bools:
    """The flags (N, rows, cols) of windows, and less of what is missing, by the same cut.

    logits    see `Judged`
    typical   the share of whole objects in which a block is figure
    colours   (N, rows, cols, 3) of the blocks in Lab
    What was hidden stays so, and something stays visible.
    """
    outside = np.isnan(logits)
    missing = np.float32(MISSING) * typical * (flags & ~figure)
    again = np.where(outside, 0, logits) + missing
    _, seen = infer_visibility(-again, 0.0, alpha, outside, contrast_edges(colours))
    both = flags & seen
    some = both.any(axis=(1, 2), keepdims=True)
    return np.where(some, both, flags)
