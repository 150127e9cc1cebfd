"""A second look: what ought to be there and is not, is the likelier hidden.

A mask head judges a window by its gradients and colours, and knows nothing of the object's shape.
Where a block shows the object in most whole objects, and here, by its colour, shows something else,
there may be something before it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from halfseen.infer.masks import contrast_edges
from halfseen.infer.visibility import best_flags

# What is added to the logit of a block that is figure in all whole objects, and not in this one.
MISSING = 1.0
Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]


def hide_missing(
    logits: Floats, flags: Bools, figure: Bools, typical: Floats, colours: Floats, alpha: float
) -> Bools:
    """The flags (N, rows, cols) of windows, and less of what is missing, cut again.

    logits    see `masks.Verdict`
    typical   the share of whole objects in which a block is figure
    colours   (N, rows, cols, 3) of the blocks in Lab, as figures know them: the first cut has the
              means of their quarters, so that edges differ a little
    What was hidden stays so, and something stays visible.
    """
    outside = np.isnan(logits)
    missing = np.float32(MISSING) * typical * (flags & ~figure)
    again = np.where(outside, 0, logits) + missing
    both = flags & best_flags(-again, alpha, outside, contrast_edges(colours))
    some = both.any(axis=(1, 2), keepdims=True)
    return np.where(some, both, flags)
