"""Applies the grouping network to the logits of a mask head."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from halfseen.model.grouping import INPUTS, Grouping

Floats = NDArray[np.float32]
# Logits beyond this say no more.
CLIP = 8.0
# Units of the inputs, so that all are of about the same size.
LOGITS, COLOURS = 2.0, 20.0


def group(
    grouping: Grouping, logits: Floats, quarters: Floats, outside: NDArray[np.bool_]
) -> Floats:
    """New logits (N, rows, cols), each judged with those of the window.

    quarters   (N, 2 rows, 2 cols, 3): Lab colours of the quarters of the blocks
    """
    from halfseen.infer.grouping_kernels import forward

    if not len(logits):
        return logits
    return forward(inputs(logits, quarters, outside), *grouping.ready)


def inputs(logits: Floats, quarters: Floats, outside: NDArray[np.bool_]) -> Floats:
    """(N, rows, cols, INPUTS): what the network is told of each block: its logit, whether it is
    outside, how its quarters' colours differ from the window's mean, its row and its column.
    """
    from halfseen.infer.grouping_kernels import told_blocks

    out = np.empty((*logits.shape, INPUTS), np.float32)
    told_blocks(out, logits, quarters, outside, CLIP, 1 / LOGITS, 1 / COLOURS)
    return out
