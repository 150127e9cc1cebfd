"""What is said of a dataset before training starts."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from halfseen.data.scenes import render_scenes
from halfseen.data.voc import read_voc
from halfseen.data.voc_writer import write_voc
from halfseen.errors import SettingsError, TrainingError
from halfseen.learn.check import best_overlaps, check
from halfseen.learn.estimate import detector_memory, detector_seconds
from halfseen.learn.plan import fit_pyramid, make_plan
from halfseen.learn.settings import MaskSettings, TrainSettings
from halfseen.learn.training_set import TrainingSet
from tests.builders import boxed, dataset, tiny_scenes, tiny_settings


def test_overlaps_from_geometry_are_those_that_training_finds() -> None:
    settings = tiny_settings()
    plan = make_plan(tiny_scenes(), "car", settings)
    found = best_overlaps(plan)
    with TrainingSet(tiny_scenes(), "car", settings, 1) as data:
        np.testing.assert_allclose(found, [bag.reach for bag in data.bags], atol=1e-12)
        assert data.shapes == plan.shapes
        assert data.mining == plan.mining


def test_the_summary_counts_what_training_would_use() -> None:
    scenes = tiny_scenes()
    found = check(scenes, "car", tiny_settings(), cores=1)
    usable = [t[~t.difficult & ~t.crowd] for t in scenes]
    assert found.images == len(scenes)
    assert found.objects == sum(len(t) for t in usable)
    assert found.whole == sum(int((~t.truncated & ~t.occluded).sum()) for t in usable)
    assert sum(part.objects for part in found.components) == found.whole
    assert found.problems == ()
    assert found.seconds > 0


def test_boxes_out_of_reach_are_named_with_file_box_and_overlap() -> None:
    large = [[10, 10, 70, 50], [30, 20, 100, 65]]
    found = check(dataset(boxed([*large, [50, 40, 53, 42]])), "car", tiny_settings(), cores=1)
    [missed] = found.unreached
    assert missed.box == (50, 40, 53, 42)
    assert missed.file == "noise"
    assert 0 < missed.overlap < 0.1


def test_damaged_files_that_training_would_draw_next_are_found_too(tmp_path: Path) -> None:
    """Without the unreadable ones others are drawn; masks and calibrations read any."""
    write_voc(tiny_scenes(), tmp_path, "train", "png")
    scenes = read_voc(tmp_path, "train")
    free = [i for i, truth in enumerate(scenes) if not (truth.label == "car").any()]
    assert len(free) >= 2
    for i in free:
        Path(str(scenes[i].source)).write_bytes(b"damaged")
    settings = tiny_settings(mining_images=2)
    found = set(check(scenes, "car", settings, cores=1).unreadable)
    rest = scenes[[i not in found for i in range(len(scenes))]]
    for i in make_plan(rest, "car", settings).images:
        rest.image(i)
    for more in (replace(settings, masks=True), replace(settings, calibrate=True)):
        assert check(scenes, "car", more, cores=1).unreadable == tuple(free)


def test_unreadable_files_are_named_and_the_others_counted(tmp_path: Path) -> None:
    write_voc(tiny_scenes(), tmp_path, "train", "png")
    scenes = read_voc(tmp_path, "train")
    broken = Path(str(scenes[2].source))
    broken.write_bytes(broken.read_bytes()[:400])
    found = check(scenes, "car", tiny_settings(mining_images=100), cores=1)
    assert found.unreadable == (2,)
    [line] = found.problems
    assert str(broken) in line


def test_progress_ends_with_all_images_that_training_reads() -> None:
    seen: list[tuple[int, int]] = []
    found = check(
        tiny_scenes(), "car", tiny_settings(), cores=2, on_done=lambda *now: seen.append(now)
    )
    assert seen[-1] == (found.read, found.read)


def test_estimates_grow_with_the_work() -> None:
    scenes = tiny_scenes()

    def estimates(**changes: int) -> tuple[int, float]:
        plan = make_plan(scenes, "car", tiny_settings(**changes))
        return detector_memory(plan), detector_seconds(plan)

    small, large = estimates(mining_images=4), estimates(mining_images=14)
    assert large[0] > small[0]
    assert large[1] > small[1]
    assert estimates(rounds=8)[1] > estimates(rounds=2)[1]
    assert estimates(cache_bytes=0)[0] < estimates()[0]


def test_all_that_is_wanted_is_estimated() -> None:
    scenes = render_scenes(40, seed=5, classes=["car"], size=(160, 214))
    plain = check(scenes, "car", tiny_settings(), cores=2)
    whole = check(scenes, "car", tiny_settings(masks=True, calibrate=True), cores=2)
    assert [cost.step for cost in plain.costs] == ["detector"]
    assert [cost.step for cost in whole.costs] == ["detector", "mask head", "calibration"]
    detector, head, calibration = whole.costs
    assert detector == plain.costs[0]
    assert min(head.seconds, calibration.seconds) > 0
    # Its models of half the images have no heads.
    headless = check(scenes, "car", tiny_settings(calibrate=True), cores=2)
    assert headless.costs == (detector, calibration)
    assert whole.seconds == pytest.approx(sum(cost.seconds for cost in whole.costs) / 2)
    assert whole.memory == max(cost.memory for cost in whole.costs)
    message = whole.as_json()
    assert (message["memory"], message["seconds"]) == (whole.memory, whole.seconds)
    assert [cost["step"] for cost in message["costs"]] == ["detector", "mask head", "calibration"]
    few = tiny_settings(masks=True, mask_head=MaskSettings(windows=100))
    assert check(scenes, "car", few, cores=2).costs[1].seconds < head.seconds
    assert len(check(scenes, "car", tiny_settings(masks=True, method="BLT"), cores=2).costs) == 1


def test_a_typo_gets_the_nearest_class_and_too_little_data_its_reason() -> None:
    with pytest.raises(SettingsError, match="did you mean 'car'"):
        check(tiny_scenes(), "ca", tiny_settings())
    none = replace(render_scenes(0, 1), truths=(boxed([], label="car"),))
    with pytest.raises(TrainingError, match="found 0 among 0"):
        check(none, "car", tiny_settings())


@pytest.mark.parametrize(("side", "largest"), [(27, 2 / 1.2 / 1.2 / 1.2 / 1.2), (26, 2.0)])
def test_images_are_enlarged_for_small_objects_only(side: int, largest: float) -> None:
    """A window of 16 blocks of 8 pixels is 32 wide: 0.7 of its area is 26.8 squared."""
    data = dataset(boxed([[0, 0, side, side]] * 4 + [[0, 0, 80, 80]] * 6))
    settings = TrainSettings(blocks=16)
    assert fit_pyramid(data, "car", settings).pyramid.largest == largest
    plain = fit_pyramid(data, "car", replace(settings, doubling=0.4)).pyramid
    assert plain.largest == 2 / 1.2 / 1.2 / 1.2 / 1.2
    paper = TrainSettings.preset("paper", blocks=16)
    assert fit_pyramid(data, "car", paper) is paper


def test_one_image_is_too_little_for_a_calibration_and_no_fault() -> None:
    """Of two folds one holds no image: nothing is left to learn from."""
    data = dataset(boxed([[10, 10, 70, 50], [30, 20, 100, 65]]))
    found = check(data, "car", tiny_settings(calibrate=True), cores=1)
    assert found.objects == 2
    with pytest.raises(TrainingError, match="found no image"):
        make_plan(data[[]], "car", tiny_settings())
