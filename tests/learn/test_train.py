"""Training as a whole: detector, mask head and calibration as three steps of one run."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import halfseen as hs
from halfseen.data.dataset import Dataset
from halfseen.data.scenes import render_scenes
from halfseen.learn.progress import Progress
from halfseen.learn.settings import CalibrateSettings, MaskSettings, TrainSettings
from halfseen.learn.train import train
from halfseen.learn.tuning import TuneSettings, tune
from tests.builders import tiny_settings


class Killed(Exception):
    """Stands for whatever ends a run in the middle."""


@cache
def scenes() -> Dataset:
    return render_scenes(40, seed=5, classes=["car"], size=(160, 214))


def all_steps() -> TrainSettings:
    """Everything that can be learnt, as quickly as possible."""
    masks = MaskSettings(
        windows=100, fewest=2, most=3, folds=2, iterations=4, textures=8, least_objects=2
    )
    return tiny_settings(
        components=1, updates=1, rounds=1, masks=True, mask_head=masks, calibrate=True,
        calibration=CalibrateSettings(least_right=1),
    )  # fmt: skip


def as_bytes(model: hs.Mixture, folder: Path) -> bytes:
    hs.save(model, folder / "model.safetensors")
    return (folder / "model.safetensors").read_bytes()


@cache
def unbroken() -> tuple[hs.Mixture, tuple[Progress, ...]]:
    message: list[Progress] = []
    model = train(scenes(), "car", all_steps(), cores=1, on_progress=message.append)
    return model, tuple(message)


def test_progress_names_each_step_and_ends_when_all_is_done() -> None:
    model, message = unbroken()
    assert model.head is not None
    assert model.calibration is not None
    steps = list(dict.fromkeys(progress.step for progress in message))
    assert steps == ["detector", "mask head", "calibration"]
    for step in steps:
        shares = [progress.share for progress in message if progress.step == step]
        assert shares == sorted(shares)
        assert (shares[0], shares[-1]) == (0, 1)
        assert len(shares) > 3 or step == "detector"
    assert message[-1].left == 0
    assert all(progress.left > 0 for progress in message[:-1])
    # The rounds of the halves are not told as rounds of the detector.
    assert sum(progress.round is not None for progress in message) == 2


def test_all_steps_give_the_same_bytes_on_any_number_of_cores(tmp_path: Path) -> None:
    again = train(scenes(), "car", all_steps(), cores=2)
    assert as_bytes(again, tmp_path) == as_bytes(unbroken()[0], tmp_path)


@pytest.mark.parametrize(
    ("step", "share"),
    [("mask head", 0.2), ("mask head", 1.0), ("calibration", 0.3), ("calibration", 0.6),
     ("calibration", 0.97)],
)  # fmt: skip
def test_a_run_killed_in_any_step_goes_on_to_the_same_bytes(
    step: str, share: float, tmp_path: Path
) -> None:
    def kill(progress: Progress) -> None:
        if progress.step == step and progress.share >= share:
            raise Killed

    file = tmp_path / "checkpoint"
    with pytest.raises(Killed):
        train(scenes(), "car", all_steps(), cores=1, on_progress=kill, save_to=file)
    message: list[Progress] = []
    model = train(
        scenes(), "car", all_steps(), cores=1, on_progress=message.append, save_to=file, resume=True
    )
    assert as_bytes(model, tmp_path) == as_bytes(unbroken()[0], tmp_path)
    assert all(progress.round is None for progress in message)  # the detector was finished


def test_tuning_learns_no_head(tmp_path: Path) -> None:
    tried = TuneSettings(2, lambdas=(10.0,), overlaps=(0.5,), alphas=(0.05,), threshold=0.2)
    tune(scenes(), "car", tmp_path, all_steps(), tried, cores=1)
    models = [hs.load(path) for path in (tmp_path / "models").iterdir()]
    assert len(models) == 4
    assert all(model.head is None and model.calibration is None for model in models)


def test_settings_come_back_from_the_record_of_a_model() -> None:
    model, _ = unbroken()
    settings = TrainSettings.from_json(model.training["settings"])
    assert settings.mask_head == all_steps().mask_head
    assert settings.calibration == all_steps().calibration
    assert settings.mask_head.shares == (0.1, 0.7)
    assert TrainSettings.from_json({}) == TrainSettings()
    assert TrainSettings.from_json({"forgotten": 3, "mask_head": {"gone": 1}}) == TrainSettings()


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (MaskSettings, {"folds": 1}),
        (MaskSettings, {"shares": (0.5, 0.2)}),
        (CalibrateSettings, {"folds": 1}),
        (CalibrateSettings, {"own_ridge": float("nan")}),
    ],
)
def test_impossible_settings_are_refused(kind: type, change: dict[str, object]) -> None:
    (name,) = change
    with pytest.raises(hs.HalfseenError, match=name):
        kind(**change)


def test_windows_of_a_head_are_shared_out_among_its_objects() -> None:
    counts = [MaskSettings(windows=600).count(n) for n in (0, 5, 20, 30, 1000)]
    np.testing.assert_array_equal(counts, [60, 60, 30, 20, 6])
