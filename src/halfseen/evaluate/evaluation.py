"""Which methods are evaluated on a class, under which conditions, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from halfseen.data.dataset import Dataset
from halfseen.detections import Detections
from halfseen.errors import SettingsError
from halfseen.evaluate.bootstrap import APDifference
from halfseen.evaluate.summary import Summary
from halfseen.evaluate.sweep import SHARES
from halfseen.evaluate.table import Table
from halfseen.evaluate.voc_ap import Matches

if TYPE_CHECKING:
    from halfseen.evaluate.miss_rate import MissRate
    from halfseen.model.mixture import Mixture


@dataclass(frozen=True, eq=False)
class Method:
    """One way to detect a class, under the name of its row.

    model         what detects, or None for a results file that something else made
    source        the file that it came from
    suppression   the method of suppression, and its `settings`
    """

    name: str
    label: str
    model: Mixture | None
    source: str
    suppression: str = "voting"
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def visibility(self) -> bool:
        """Whether the method marks hidden blocks."""
        return self.model is not None and self.model.visibility


@dataclass(frozen=True)
class Conditions:
    """How the methods are run.

    threshold    the lowest score of a window
    shares       of the occlusion sweep; none: no sweep
    seed         of its occluders
    whole_boxes  whether objects are compared by their whole boxes, hidden parts included, cut to
                 the image, where annotations know them; VOC's rule takes their visible boxes
    """

    threshold: float = -1.1
    shares: tuple[float, ...] = SHARES
    seed: int = 0
    whole_boxes: bool = False

    def __post_init__(self) -> None:
        if not np.isfinite(self.threshold):
            raise SettingsError(f"threshold must be a finite number, found {self.threshold}")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What became of every method on one class.

    dataset      the images that could be read, with the objects of all classes
    found        by method, one Detections an image
    differences  by method, its AP minus that of the `baseline`, with a bootstrap interval
    problems     one line for each image or results file that was left out
    notes        one line for each measure that the data do not allow
    tables       more of them, of other protocols and of groups of objects
    misses       miss rates of all objects by method, where they were measured
    """

    label: str
    dataset: Dataset
    methods: tuple[Method, ...]
    conditions: Conditions
    summaries: tuple[Summary, ...]
    matches: dict[str, Matches]
    found: dict[str, list[Detections]]
    baseline: str
    differences: dict[str, APDifference]
    problems: tuple[str, ...]
    tables: tuple[Table, ...] = ()
    misses: dict[str, MissRate] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
