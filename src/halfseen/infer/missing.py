"""A second look: what ought to be there and is not, is the likelier hidden.

A mask head judges a window by its gradients and colours, and knows nothing of the object's shape.
Where a block shows the object in most whole objects, and here, by its colour, shows something else,
there may be something before it. And where the head is not sure, colours tell what is the object's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from halfseen.infer.masks import Verdict

# What is added to the logit of a block that is figure in all whole objects, and not in this one.
MISSING = 1.0
# How far beyond the operating point logits have to be for blocks to be hidden for sure.
SURE = 2.0
Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]


def not_surely_hidden(verdict: Verdict, flags: Bools) -> Bools:
    """(N, rows, cols): what is visible by the flags of N windows, or may be.

    The operating point has to find most of what is hidden, and calls some of what is not hidden,
    too. Whoever asks what shows the object leaves out only what is more likely hidden than not.
    """
    doubtful = ~flags.all(axis=(1, 2))
    may_be = flags.copy()
    some = Verdict(*(part[doubtful] for part in verdict))
    may_be[doubtful] |= some.cut(-SURE)
    return may_be


def hide_missing(verdict: Verdict, flags: Bools, figure: Bools, typical: Floats) -> Bools:
    """The flags (N, rows, cols) of windows, and less of what is missing, cut again.

    typical   the share of whole objects in which a block is figure
    What was hidden stays so, and something stays visible.
    """
    missing = np.float32(MISSING) * typical * (flags & ~figure)
    some = missing.any(axis=(1, 2))
    after = flags.copy()
    again = Verdict(*(part[some] for part in verdict)).cut(missing[some])
    after[some] &= again
    gone = ~after.any(axis=(1, 2))
    after[gone] = flags[gone]
    return after
