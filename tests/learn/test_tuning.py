"""Cross-validation: the paper's order, what is kept, and going on with it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from halfseen.errors import SettingsError, TrainingError
from halfseen.learn.settings import TrainSettings
from halfseen.learn.trainer import Trainer
from halfseen.learn.tuning import STEPS, Step, TuneSettings, Tuning, tune
from halfseen.report.tuning import as_table, write_plot
from tests.builders import tiny_scenes, tiny_settings

# Models learnt so briefly find thousands of windows above -1: a higher threshold spares the time.
TRIED = TuneSettings(
    folds=2, lambdas=(1.0, 10.0), overlaps=(0.3, 0.5), alphas=(0.02, 0.05), threshold=0.2
)
SETTINGS = tiny_settings(updates=1, rounds=1, mining_images=5)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Tuning]:
    folder = tmp_path_factory.mktemp("tuning")
    return folder, tune(tiny_scenes(), "car", folder, SETTINGS, TRIED, cores=1)


def test_every_value_is_judged_on_every_fold(finished: tuple[Path, Tuning]) -> None:
    folder, result = finished
    for step in STEPS:
        for value in TRIED.values(step):
            assert len(result.aps(step, value)) == 2
        assert result.best(step) in TRIED.values(step)
    assert json.loads((folder / "tuning.json").read_text())["class"] == "car"


def test_steps_come_in_the_papers_order_each_with_the_best_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[TrainSettings] = []
    run = Trainer.run

    def watched(self: Trainer) -> object:
        used.append(self.settings)
        return run(self)

    monkeypatch.setattr(Trainer, "run", watched)
    order: list[Step] = []
    result = tune(
        tiny_scenes(), "car", tmp_path, SETTINGS, TRIED, cores=1,
        on_value=lambda step, *rest: order.append(step),
    )  # fmt: skip
    assert order == [step for step in STEPS for _ in range(4)]
    assert [s.method for s in used] == ["BL"] * 4 + ["VIS"] * 4
    assert [s.regularisation for s in used[:4]] == [1.0, 10.0] * 2
    assert {s.regularisation for s in used[4:]} == {result.best("lambda")}
    assert [s.alpha for s in used[4:]] == [0.02, 0.05] * 2


def test_what_is_done_is_not_done_again(
    finished: tuple[Path, Tuning], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, result = finished
    monkeypatch.setattr(Trainer, "run", lambda self: pytest.fail("trained again"))
    seen: list[Step] = []
    again = tune(
        tiny_scenes(), "car", folder, SETTINGS, TRIED, on_value=lambda s, *rest: seen.append(s)
    )
    assert seen == []
    assert again.done == result.done


def test_a_better_value_that_is_added_is_followed_by_new_figures(
    finished: tuple[Path, Tuning], tmp_path: Path
) -> None:
    """The steps after a lambda are of the best one: an added one makes them anew."""
    _, whole = finished
    best = whole.best("lambda")
    (worse,) = set(TRIED.lambdas) - {best}
    tune(tiny_scenes(), "car", tmp_path, SETTINGS, replace(TRIED, lambdas=(worse,)), cores=1)
    added = tune(tiny_scenes(), "car", tmp_path, SETTINGS, TRIED, cores=1)
    assert added.done == whole.done
    asked: list[Step] = []
    tune(
        tiny_scenes(), "car", tmp_path, SETTINGS, TRIED, cores=1,
        on_value=lambda step, *rest: asked.append(step),
    )  # fmt: skip
    assert asked == []


@pytest.mark.parametrize("stop", [3, 9])
def test_a_stopped_run_goes_on_to_the_same_figures(
    stop: int, finished: tuple[Path, Tuning], tmp_path: Path
) -> None:
    count = 0

    def interrupt(*_: object) -> None:
        nonlocal count
        count += 1
        if count == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(tiny_scenes(), "car", tmp_path, SETTINGS, TRIED, cores=1, on_value=interrupt)
    count = -100
    result = tune(tiny_scenes(), "car", tmp_path, SETTINGS, TRIED, cores=1, on_value=interrupt)
    assert count == -100 + 16 - stop
    assert result.done == finished[1].done


def test_the_record_of_other_data_or_settings_is_refused(finished: tuple[Path, Tuning]) -> None:
    folder, _ = finished
    with pytest.raises(TrainingError, match="other data or settings"):
        tune(tiny_scenes()[:10], "car", folder, SETTINGS, TRIED)
    with pytest.raises(TrainingError, match="other data or settings"):
        tune(tiny_scenes(), "car", folder, tiny_settings(blocks=30), TRIED)


@pytest.mark.parametrize(
    "content", ["", "[1]", '{"done": 3}', '{"done": {}}', '{"done": {"a": []}}']
)
def test_a_damaged_record_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "tuning.json").write_text(content)
    with pytest.raises(TrainingError, match="not a record of tuning"):
        tune(tiny_scenes(), "car", tmp_path, SETTINGS, TRIED)


def test_the_best_is_the_highest_mean_of_known_folds() -> None:
    nan = float("nan")
    aps = {"lambda|1|0": 0.2, "lambda|1|1": 0.4, "lambda|10|0": nan, "lambda|10|1": 0.35}
    result = Tuning(aps, TRIED)
    assert result.mean("lambda", 1.0) == pytest.approx(0.3)
    assert result.best("lambda") == 10.0
    with pytest.raises(TrainingError, match="no alpha"):
        result.best("alpha")


def test_table_and_plot_show_every_value(finished: tuple[Path, Tuning], tmp_path: Path) -> None:
    _, result = finished
    table = as_table(result)
    assert len(table.rows) == 8
    assert sum(row[-1] == "best" for row in table.rows) == 4
    assert max(map(len, table.text().splitlines())) <= 80
    assert write_plot(result, "car", tmp_path / "t.png").read_bytes()[:4] == b"\x89PNG"


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(SettingsError, match="folds"):
        TuneSettings(folds=1)
    with pytest.raises(SettingsError, match="alphas"):
        TuneSettings(alphas=())
