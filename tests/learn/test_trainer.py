"""Training: the same bytes from the same seed, whatever stops it in between."""

import errno
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from halfseen.data.dataset import Dataset
from halfseen.data.voc import read_voc
from halfseen.data.voc_writer import write_voc
from halfseen.detections import Detections
from halfseen.errors import ImageError, SettingsError, TrainingError
from halfseen.ground_truth import GroundTruth
from halfseen.learn import checkpoint
from halfseen.learn.progress import Progress
from halfseen.learn.settings import TrainSettings
from halfseen.learn.train import train
from halfseen.learn.trainer import Trainer
from halfseen.learn.training_set import TrainingSet
from halfseen.model.mixture import Mixture
from halfseen.model.store import save
from halfseen.refine.detector import Detector
from tests.builders import boxed, dataset, tiny_scenes, tiny_settings


class Killed(Exception):
    """Stands for whatever ends a run in the middle."""


def killer(rounds: int) -> Callable[[Progress], None]:
    """Kills the run after so many rounds, before their last checkpoint is written."""
    left = [rounds]

    def on_progress(progress: Progress) -> None:
        left[0] -= progress.round is not None
        if left[0] < 0:
            raise Killed

    return on_progress


def as_bytes(model: Mixture, folder: Path) -> bytes:
    save(model, folder / "model.safetensors")
    return (folder / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def unbroken() -> Mixture:
    return train(tiny_scenes(), "car", tiny_settings(), cores=1)


def test_the_same_seed_gives_the_same_bytes_on_any_number_of_cores(
    unbroken: Mixture, tmp_path: Path
) -> None:
    again = train(tiny_scenes(), "car", tiny_settings(), cores=2)
    assert as_bytes(again, tmp_path) == as_bytes(unbroken, tmp_path)


def test_another_seed_gives_another_model(unbroken: Mixture, tmp_path: Path) -> None:
    other = train(tiny_scenes(), "car", tiny_settings(seed=1), cores=1)
    assert not np.array_equal(other.components[0].weights, unbroken.components[0].weights)


@pytest.mark.parametrize("rounds", range(6))
def test_a_killed_run_goes_on_to_the_same_bytes(
    rounds: int, unbroken: Mixture, tmp_path: Path
) -> None:
    file = tmp_path / "checkpoint"
    with pytest.raises(Killed):
        train(
            tiny_scenes(), "car", tiny_settings(), cores=1, on_progress=killer(rounds), save_to=file
        )
    assert file.exists() == (rounds > 0)
    seen: list[Progress] = []
    model = train(
        tiny_scenes(), "car", tiny_settings(), cores=1, on_progress=seen.append, save_to=file,
        resume=True,
    )  # fmt: skip
    assert sum(p.round is not None for p in seen) == 6 - rounds  # nothing was done twice
    assert seen[0].share == pytest.approx(rounds / 6)
    assert (seen[-1].share, seen[-1].left) == (1, 0)
    assert all(p.left > 0 for p in seen[:-2])
    assert as_bytes(model, tmp_path) == as_bytes(unbroken, tmp_path)


def test_a_finished_checkpoint_gives_the_model_at_once(unbroken: Mixture, tmp_path: Path) -> None:
    file = tmp_path / "checkpoint"
    train(tiny_scenes(), "car", tiny_settings(), cores=1, save_to=file)
    seen: list[Progress] = []
    model = train(
        tiny_scenes(), "car", tiny_settings(), on_progress=seen.append, save_to=file, resume=True
    )
    assert all(p.round is None for p in seen)
    assert as_bytes(model, tmp_path) == as_bytes(unbroken, tmp_path)


def test_a_full_disk_leaves_the_last_checkpoint_and_says_how_to_go_on(
    unbroken: Mixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "checkpoint"
    written = 0

    def fill(path: Path, content: bytes) -> None:
        nonlocal written
        written += 1
        if written == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        path.write_bytes(content)

    monkeypatch.setattr(checkpoint, "write_atomically", fill)
    with pytest.raises(TrainingError, match=r"No space left.*--resume"):
        train(tiny_scenes(), "car", tiny_settings(), cores=1, save_to=file)
    model = train(tiny_scenes(), "car", tiny_settings(), cores=1, save_to=file, resume=True)
    assert as_bytes(model, tmp_path) == as_bytes(unbroken, tmp_path)


def test_a_damaged_checkpoint_is_refused_at_every_byte(tmp_path: Path) -> None:
    file = tmp_path / "checkpoint"
    short = tiny_settings(updates=0, rounds=1)
    data = tiny_scenes()
    train(data, "car", short, cores=1, save_to=file)
    whole = file.read_bytes()
    cuts = [whole[:k] for k in (0, 1, len(whole) // 3, len(whole) - 30)]
    places = np.random.default_rng(0).integers(0, len(whole), 25)
    flips = [whole[:k] + bytes([whole[k] ^ 0x55]) + whole[k + 1 :] for k in places.tolist()]
    for content in [*cuts, *flips, b"not a checkpoint"]:
        file.write_bytes(content)
        with pytest.raises(TrainingError, match=r"damaged.*delete it"):
            train(data, "car", short, cores=1, save_to=file, resume=True)


@pytest.mark.parametrize("change", ["settings", "class", "boxes"])
def test_a_checkpoint_of_something_else_is_refused(change: str, tmp_path: Path) -> None:
    file = tmp_path / "checkpoint"
    short = tiny_settings(updates=0, rounds=1)
    data = tiny_scenes()
    train(data, "car", short, cores=1, save_to=file)
    label = "car"
    if change == "settings":
        short = replace(short, regularisation=3.0)
    elif change == "class":
        data = renamed(data, "bus")
        label = "bus"
    else:
        truths = [replace(t, box=t.box + 1.0) if len(t) else t for t in data]
        data = replace(data, truths=tuple(truths))
    with pytest.raises(TrainingError, match="other data or settings"):
        train(data, label, short, cores=1, save_to=file, resume=True)


def renamed(data: Dataset, label: str) -> Dataset:
    truths = tuple(replace(t, label=np.full(len(t), label)) for t in data)
    return replace(data, classes=(label,), truths=truths)


def test_features_serve_other_settings_without_a_trace(unbroken: Mixture, tmp_path: Path) -> None:
    """What ran before on the same features does not change a model."""
    with TrainingSet(tiny_scenes(), "car", tiny_settings(method="BLT"), 1) as data:
        trainer = Trainer(data)
        trainer.run()
        trainer.with_settings(regularisation=1.0, method="VIS").run()
        model = trainer.with_method("VIS").run()
    assert as_bytes(model, tmp_path) == as_bytes(unbroken, tmp_path)


@pytest.mark.parametrize("method", ["BL", "BLT", "VIS"])
def test_each_method_learns_the_biases_that_it_has(method: str) -> None:
    model = train(tiny_scenes(), "car", tiny_settings(method=method, updates=1), cores=1)
    assert model.method == method
    u, u_t = ([getattr(c, name) for c in model.components] for name in ("u", "u_t"))
    assert any(u) == (method == "VIS")
    assert any(u_t) == (method != "BL")
    hidden = np.concatenate([np.ravel(m) for m in model.training["hidden"]])
    assert (hidden >= 0).all()
    assert (hidden <= 1).all()
    assert hidden.any() == (method == "VIS")


def test_the_papers_preset_ties_the_biases_and_uses_its_features() -> None:
    settings = TrainSettings.preset(
        "paper", blocks=24, updates=1, rounds=1, mining_images=6, iterations=10
    )
    model = train(tiny_scenes(), "car", settings, cores=1)
    assert (model.descriptor.name, model.descriptor.cell, model.mirrored) == ("hog", 6, False)
    assert all(c.u == c.u_t for c in model.components)


def test_the_model_finds_the_objects_it_learnt_from(unbroken: Mixture) -> None:
    detector = Detector(unbroken)
    scenes = tiny_scenes()
    # By score alone: what it was taught. Eight steps of learning leave all of them near -1.
    found: list[Detections] = [
        detector.detect(scenes.image(i), method="greedy") for i in range(len(scenes))
    ]
    from halfseen.evaluate.voc_ap import average_precision

    assert average_precision(scenes.truths, found, "car").ap > 0.5


def test_the_record_of_training_can_be_kept_as_json(unbroken: Mixture) -> None:
    record = json.loads(json.dumps(unbroken.training))
    assert record["settings"]["blocks"] == 24
    assert len(record["history"]) == 6
    shapes = [np.shape(m) for m in record["hidden"]]
    assert shapes == [c.shape for c in unbroken.components]


def test_a_class_with_a_typo_gets_the_nearest_name() -> None:
    with pytest.raises(SettingsError, match="did you mean 'car'"):
        train(tiny_scenes(), "cra", tiny_settings())


BOX = [20.0, 20.0, 70.0, 60.0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (dataset(boxed([BOX], label="dog"), classes=("car", "dog")), "found 0 among 0"),
        (dataset(boxed([BOX])), "found 1 among 1"),
        (dataset(boxed([BOX] * 3, truncated=[1, 1, 1])), "found 0 among 3"),
        (dataset(boxed([[20.0 + k, 20, 23.0 + k, 22] for k in range(9)])), "too small"),
        (dataset(boxed([[20.0 + k, 20, 20.2 + k, 20.1] for k in range(9)])), "too small"),
    ],
    ids=["no object", "one object", "only truncated", "smaller than a cell", "specks"],
)
def test_data_from_which_nothing_can_be_learnt(data: Dataset, message: str) -> None:
    with pytest.raises(TrainingError, match=message) as caught:
        train(data, "car", tiny_settings())
    assert "\n" not in str(caught.value)


def test_objects_out_of_reach_are_counted_and_the_rest_is_learnt(tmp_path: Path) -> None:
    scenes = tiny_scenes()
    first = scenes[0]
    speck = GroundTruth.make(
        first.image,
        first.source,
        first.size,
        [*first.label, "car"],
        [*first.box, [5, 5, 9, 8]],
        full=[*first.full, [5, 5, 9, 8]],
        truncated=[*first.truncated, False],
        occluded=[*first.occluded, False],
    )
    data = replace(scenes, truths=(speck, *scenes.truths[1:]))
    with TrainingSet(data, "car", tiny_settings(updates=1, rounds=1), 1) as lessons:
        [number] = lessons.unreached()
        np.testing.assert_array_equal(lessons.objects.box[number], [5, 5, 9, 8])
        assert 0 < lessons.bags[number].reach < 0.7
        assert Trainer(lessons).run().training["unreached"] == 1


def test_an_image_that_vanishes_before_it_is_read_is_named(tmp_path: Path) -> None:
    write_voc(tiny_scenes(), tmp_path, "train")
    scenes = read_voc(tmp_path, "train")
    lost = tmp_path / "JPEGImages" / f"{scenes[0].image}.png"
    lost.unlink()
    with pytest.raises(ImageError, match=rf"{lost.name}: no such file"):
        train(scenes, "car", tiny_settings())
