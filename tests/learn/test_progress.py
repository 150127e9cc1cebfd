"""How far a training is, and how long the rest takes."""

import pytest

from halfseen.learn.checkpoint import Checkpoint
from halfseen.learn.progress import Clock, Progress, Run


class Watch:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def test_time_left_follows_the_pace_of_what_is_done() -> None:
    """Estimates are a third of what this machine takes: it is learnt from the first step."""
    message: list[Progress] = []
    watch = Watch()
    clock = Clock({"detector": 10.0, "mask head": 4.0, "calibration": 20.0}, message.append, watch)
    clock.report("detector", 0.0)
    assert message[-1].left == pytest.approx(34)
    watch.time += 15
    clock.report("detector", 0.5)
    assert message[-1]._replace(left=0.0) == Progress("detector", 0.5, 0.0)
    assert message[-1].left == pytest.approx(15 + 72)
    watch.time += 15
    clock.report("detector", 1.0)
    assert message[-1].left == pytest.approx(72)
    clock.report("mask head", 0.0)
    watch.time += 2  # half of it: this step is quicker than estimated
    clock.report("mask head", 0.5)
    assert message[-1].left == pytest.approx(2 + 20 * 32 / 12)
    clock.report("mask head", 1.0)
    clock.report("calibration", 1.0)
    assert message[-1] == Progress("calibration", 1.0, 0.0)
    assert all(progress.left > 0 for progress in message[:-1])


def test_what_an_earlier_run_has_done_does_not_count_as_quick() -> None:
    message: list[Progress] = []
    watch = Watch()
    clock = Clock({"detector": 10.0}, message.append, watch)
    clock.report("detector", 0.8)
    watch.time += 3
    clock.report("detector", 0.9)
    assert message[-1].left == pytest.approx(3)


def test_parts_of_a_step_report_their_share_of_it_and_keep_their_own_entries() -> None:
    shares: list[float] = []
    run = Run(
        cores=1, checkpoint=Checkpoint(), report=lambda share, entry=None: shares.append(share)
    )
    part = run.part("second half", 0.5, 1.0).part("detector", 0.0, 0.5)
    part.report(0.5)
    assert list(part.map(abs, [-1, 2], 0.5, 1.0)) == [1, 2]
    assert shares == pytest.approx([0.625, 0.6875, 0.75])
    assert part.checkpoint.prefix == "second half/detector/"
