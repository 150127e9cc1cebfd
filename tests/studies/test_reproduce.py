"""A reproduction that chooses settings by cross-validation first, stopped anywhere and resumed."""

import json
from pathlib import Path
from typing import Any

import pytest

from halfseen.cli import run
from halfseen.data.voc_writer import write_voc
from halfseen.errors import SettingsError
from halfseen.learn.tuning import STEPS, TuneSettings
from halfseen.studies.reproduce import (
    Study,
    choose_class,
    claim,
    detect_all,
    score_all,
    table,
    train_class,
)
from tests.builders import tiny_scenes

TRIED = TuneSettings(
    folds=2, lambdas=(1.0, 10.0), overlaps=(0.3, 0.5), alphas=(0.02, 0.05), threshold=0.2
)
BRIEF = {
    "blocks": 24, "updates": 1, "rounds": 1, "mining_images": 5, "stop": 0, "per_image": 30,
    "iterations": 8, "store_bytes": 4 << 20, "doubling": 0.0,
}  # fmt: skip


def make_study(out: Path, **changes: Any) -> Study:
    scenes = tiny_scenes()
    given: dict[str, Any] = {"changes": BRIEF, "tried": TRIED, "cores": 1, "images": 12} | changes
    return Study(scenes, scenes[:4], out, ["car"], **given)


class Stopped(BaseException):
    """What a kill is here."""


class Clock:
    """Called at every step; stops at the step of this number."""

    def __init__(self, stop: int | None = None) -> None:
        self.stop, self.count = stop, 0

    def __call__(self, *_: object) -> None:
        self.count += 1
        if self.count == self.stop:
            raise Stopped


def reproduce(study: Study, clock: Clock) -> dict[str, dict[str, float]]:
    choose_class(study, "car", clock)
    train_class(study, "car", clock)
    detect_all(study, clock)
    return score_all(study)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Clock]:
    study, clock = make_study(tmp_path_factory.mktemp("study")), Clock()
    reproduce(study, clock)
    return study, clock


def test_models_are_learnt_with_what_was_chosen(finished: tuple[Study, Clock]) -> None:
    from halfseen.model.store import load

    study, _ = finished
    assert study.folder.name == "default-tuned"
    chosen = study.chosen("car")
    assert chosen.keys() == set(STEPS)
    for step in STEPS:
        assert chosen[step] in TRIED.values(step)
    settings = load(study.model_path("car", "VIS")).training["settings"]
    assert settings["regularisation"] == chosen["lambda"]
    assert settings["alpha"] == chosen["alpha"]
    assert settings["blocks"] == BRIEF["blocks"]
    tuned = json.loads((study.folder / "tuning" / "car" / "tuning.json").read_bytes())
    assert len(tuned["done"]) == 16


def test_the_table_says_what_was_chosen(finished: tuple[Study, Clock]) -> None:
    study, _ = finished
    scores = json.loads((study.folder / "results.json").read_bytes())
    made = table(study, scores)
    assert tuple(made.columns[-4:]) == STEPS
    assert list(made.rows[0][-4:]) == [f"{study.chosen('car')[step]:g}" for step in STEPS]
    assert "blocks 24" in made.notes[0]


# 16 evaluations, 2 rounds of BL, 1 each of BLT and VIS, which share the first, 1 run of images.
@pytest.mark.parametrize("stop", [3, 16, 18, 21])
def test_stopped_anywhere_it_ends_in_the_same_table(
    stop: int, finished: tuple[Study, Clock], tmp_path: Path
) -> None:
    whole, clock = finished
    assert clock.count == 21
    study, stopped = make_study(tmp_path), Clock(stop)
    with pytest.raises(Stopped):
        reproduce(study, stopped)
    resumed = Clock()
    reproduce(study, resumed)
    # The step at which it was stopped is not done again, but for a round that was not yet kept.
    assert clock.count <= stopped.count + resumed.count <= clock.count + 1
    for name in ("results.json", "table.md", "chosen/car.json", "tuning/car/tuning.json"):
        assert (study.folder / name).read_bytes() == (whole.folder / name).read_bytes(), name


def test_other_values_or_settings_need_another_folder(finished: tuple[Study, Clock]) -> None:
    study, _ = finished
    fewer = TuneSettings(folds=2, lambdas=(1.0,))
    for changes, what in (
        ({"tried": fewer}, "values to choose from"),
        ({"images": 10}, "images to choose by"),
        ({"changes": {}}, "settings"),
    ):
        with pytest.raises(SettingsError, match=f"other {what}"):
            claim(make_study(study.out, **changes))
    claim(study)


def test_a_damaged_choice_is_named(finished: tuple[Study, Clock], tmp_path: Path) -> None:
    study = make_study(tmp_path)
    path = study.chosen_path("car")
    path.parent.mkdir(parents=True)
    for content in ("", "[]", '{"lambda": "a"}', '{"lambda": 1}'):
        path.write_text(content)
        with pytest.raises(SettingsError, match=r"car\.json: not the values chosen"):
            train_class(study, "car")


def test_the_papers_preset_covers_by_the_papers_energy(tmp_path: Path) -> None:
    from tests.builders import make_found

    found = make_found([[0, 0, 40, 40], [20, 20, 60, 60]], [0.5, 0.2], size=(100, 100))
    for preset, value in (("paper", "score"), ("default", "odds")):
        study = make_study(tmp_path, preset=preset, tried=None)
        assert study.covering("car")(found).settings["value"] == value
        assert study.suppression("car")(found).method == (
            "greedy" if preset == "paper" else "voting"
        )


def test_the_command_chooses_learns_and_resumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = tmp_path / "voc", tmp_path / "out"
    write_voc(tiny_scenes(), data, "train", "png")
    words = [
        "reproduce", str(data), "-o", str(out), "--train", "train", "--test", "train",
        "--class", "car", "--class", "unicorn", "--cores", "1", "--tune", "--folds", "2",
        "--lambdas", "10", "--alphas", "0.05", "--overlaps", "0.4,0.5", "--most", "12",
        *(part for name, value in BRIEF.items() for part in ("--set", f"{name}={value}")),
    ]  # fmt: skip
    capsys.readouterr()
    assert run(words) == 1  # there are no unicorns
    first = capsys.readouterr()
    assert "car: lambda 10, fold 1: AP" in first.err
    assert first.err.count("failed: unicorn") == 1
    assert "covering" in first.out
    assert run(words) == 1
    again = capsys.readouterr()
    assert again.out == first.out
    assert "fold" not in again.err
