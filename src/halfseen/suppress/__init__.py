"""From many overlapping detections to one for each object.

The package can be called: `halfseen.suppress(found, method=...)` is `suppress.suppress(...)`.
"""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from halfseen.detections import Detections
from halfseen.errors import SettingsError
from halfseen.suppress.covering import covering
from halfseen.suppress.greedy import greedy
from halfseen.suppress.interpretation import Interpretation, Reason
from halfseen.suppress.masks import suppress_masks
from halfseen.suppress.meanshift import meanshift
from halfseen.suppress.soft import soft
from halfseen.suppress.voting import voting

__all__ = [
    "Interpretation",
    "Reason",
    "covering",
    "greedy",
    "meanshift",
    "soft",
    "suppress",
    "suppress_masks",
    "voting",
]

METHODS: dict[str, Callable[..., Interpretation]] = {
    "covering": covering,
    "greedy": greedy,
    "meanshift": meanshift,
    "soft": soft,
    "voting": voting,
}


def suppress(found: Detections, method: str = "covering", **settings: Any) -> Interpretation:
    """Chooses the detections that remain, each label by itself.

    method    "covering" (exact, by visible blocks), "voting" (what detectors use by default),
              "greedy", "meanshift" or "soft"
    settings  those of the method, such as `overlap`; `energy="paper"` gives the paper's covering
    """
    if method not in METHODS:
        raise SettingsError(f"method must be one of {', '.join(METHODS)}, found {method!r}")
    try:
        return METHODS[method](found, **settings)
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        raise SettingsError(f"{method} suppression: {error}") from None


class _CallablePackage(ModuleType):
    """Lets the public name `halfseen.suppress` be both the function and its package."""

    def __call__(self, found: Detections, *arguments: Any, **settings: Any) -> Interpretation:
        return suppress(found, *arguments, **settings)


sys.modules[__name__].__class__ = _CallablePackage
