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
    """(N, rows, cols, INPUTS): what the network is told of each block."""
    count, rows, cols = logits.shape
    colours = quarters / np.float32(COLOURS)
    colours -= colours.reshape(count, -1, 3).mean(1)[:, None, None]
    out = np.empty((count, rows, cols, INPUTS), np.float32)
    out[..., 0] = np.clip(logits, -CLIP, CLIP) / np.float32(LOGITS)
    out[..., 1] = outside
    out[..., 2:14] = (
        colours.reshape(count, rows, 2, cols, 2, 3)
        .transpose(0, 1, 3, 2, 4, 5)
        .reshape(count, rows, cols, 12)
    )
    out[..., 14] = ((2 * np.arange(rows) + 1) / rows - 1)[:, None]
    # Left and right are alike.
    out[..., 15] = np.abs((2 * np.arange(cols) + 1) / cols - 1)
    return out
