"""The conditions of a training: where it runs, its checkpoint, its callback for progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from halfseen.compute.map import map_images
from halfseen.learn.checkpoint import Checkpoint
from halfseen.learn.state import Round

if TYPE_CHECKING:
    from distributed import Client

Item = TypeVar("Item")
Result = TypeVar("Result")


class Progress(NamedTuple):
    """How far a training is.

    step   "detector", "mask head" or "calibration"
    share  of the step that is done, 0 to 1
    left   seconds until all steps are done, about; 0 when they are
    round  the round of the detector that was just finished, if one was
    """

    step: str
    share: float
    left: float
    round: Round | None = None


def _silent(share: float, entry: Round | None = None) -> None:
    pass


@dataclass(frozen=True, eq=False)
class Run:
    """Where a step of training runs, its checkpoint, and its callback for progress.

    cores, cluster  see `map_images`
    checkpoint      what the step has finished
    report          is called with the share of the step that is done, and a finished round; first
                    when the step begins, with what an earlier run has done of it
    """

    cores: int | None = None
    cluster: str | Client | None = None
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    report: Callable[..., None] = _silent

    def part(self, name: str, first: float, last: float) -> Run:
        """The run of a part of this step, which takes it from one share to another.

        Rounds of a part are not reported: they are of another detector.
        """

        def report(share: float, entry: Round | None = None) -> None:
            self.report(first + share * (last - first))

        return replace(self, checkpoint=self.checkpoint.part(name), report=report)

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item], first: float, last: float
    ) -> Iterator[Result]:
        """`function` of each item, in order; reported as the step's share from first to last."""
        count = len(items) if isinstance(items, Sized) else 0

        def on_done(done: int) -> None:
            self.report(first + done / max(count, 1) * (last - first))

        return map_images(
            function, items, self.cores, on_done if count else None, cluster=self.cluster
        )


class Clock:
    """Tells how far a training of several steps is, and how long the rest will take.

    seconds  for each step an estimate: only how they compare matters, once some work is done
    tell     is called with a Progress
    """

    def __init__(
        self,
        seconds: dict[str, float],
        tell: Callable[[Progress], Any],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seconds, self.tell, self.now = seconds, tell, now
        self._step, self._since, self._from = "", 0.0, 0.0
        # Seconds spent on steps that are finished, and what they were estimated at.
        self._spent, self._expected = 0.0, 0.0

    def report(self, step: str, share: float, entry: Round | None = None) -> None:
        """Tells that a share of a step is done."""
        now = self.now()
        if step != self._step:
            self._step, self._since, self._from = step, now, share
        spent = now - self._since
        expected = (share - self._from) * self.seconds[step]
        pace = spent / expected if expected > 0 else 1.0
        total = self._expected + expected
        overall = (self._spent + spent) / total if total > 0 else 1.0
        names = list(self.seconds)
        later = sum(self.seconds[name] for name in names[names.index(step) + 1 :])
        left = (1 - share) * self.seconds[step] * pace + later * overall
        if share >= 1:
            self._spent, self._expected = self._spent + spent, total
        self.tell(Progress(step, share, left, entry))
