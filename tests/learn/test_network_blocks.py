"""Training and detection on the blocks of a network: the same bytes on any number of cores."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from halfseen.data.dataset import Dataset
from halfseen.data.scenes import render_scenes
from halfseen.evaluate.voc_ap import average_precision
from halfseen.features.net import Net
from halfseen.features.pyramid import PyramidSettings
from halfseen.learn.check import check
from halfseen.learn.settings import TrainSettings
from halfseen.learn.train import train
from halfseen.model.mixture import Mixture
from halfseen.model.store import load, save
from halfseen.refine.detector import Detector

SETTINGS = TrainSettings.preset(
    "net", pyramid=PyramidSettings(1.25, 1.0), blocks=24, components=1, mining_images=6, updates=1,
    rounds=2,
)  # fmt: skip


@cache
def scenes() -> Dataset:
    return render_scenes(10, seed=3, classes=["car"])


@cache
def model(cores: int) -> Mixture:
    return train(scenes(), "car", SETTINGS, cores=cores)


def test_one_core_and_two_learn_the_same_bytes(tmp_path: Path) -> None:
    files = [tmp_path / f"{cores}.safetensors" for cores in (1, 2)]
    for cores, path in zip((1, 2), files, strict=True):
        save(model(cores), path)
    assert files[0].read_bytes() == files[1].read_bytes()
    again = load(files[0])
    assert again.descriptor == Net()
    assert again.descriptor.options()["sha256"] == Net().sha256


def test_training_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    """The checkpoint of the last round but one goes on to the end."""
    place, kept = tmp_path / "checkpoint", []
    whole = train(
        scenes(), "car", SETTINGS, cores=1, save_to=place,
        on_progress=lambda _: kept.append(place.read_bytes() if place.exists() else b""),
    )  # fmt: skip
    place.write_bytes(kept[-3])
    rest = train(scenes(), "car", SETTINGS, cores=1, save_to=place, resume=True)
    for ours, theirs in zip(rest.components, whole.components, strict=True):
        np.testing.assert_array_equal(ours.weights, theirs.weights)
        assert (ours.bias, ours.u, ours.u_t) == (theirs.bias, theirs.u, theirs.u_t)


def test_what_was_learnt_is_found_on_any_number_of_cores() -> None:
    data = scenes()
    two = [Detector([model(1)] * 2, cores=n) for n in (1, 2)]
    found = [Detector(model(1)).detect(data.image(n)) for n in range(len(data))]
    assert average_precision(data.truths, found, "car").ap > 0.3
    one, other = (detector.detect(data.image(0)) for detector in two)
    np.testing.assert_array_equal(one.score, other.score)
    np.testing.assert_array_equal(one.full, other.full)


def test_the_estimate_of_time_knows_that_a_network_is_slower() -> None:
    """Of the same blocks, which another descriptor makes twenty times faster."""
    other = replace(SETTINGS, descriptor="fhog")
    seconds = [check(scenes(), "car", settings, cores=1).seconds for settings in (SETTINGS, other)]
    assert seconds[0] > 2 * seconds[1]
