"""The demo from scenes to report, at a tiny size; the filmstrip; the command around them."""

import json
from pathlib import Path

import numpy as np
import pytest

import halfseen as hs
from halfseen.cli import run
from halfseen.data.image import read_image
from halfseen.evaluate.voc_ap import average_precision
from halfseen.geometry import clip
from halfseen.report.filmstrip import BEYOND, SHARES, cover, film, plot_film
from halfseen.studies.demo import Demo, DemoSettings, run_demo, short_table
from tests.builders import tiny_settings

Steps = list[tuple[str, int, int]]


@pytest.fixture(scope="module")
def message() -> Steps:
    return []


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, message: Steps) -> Demo:
    settings = DemoSettings(
        scenes=16, tests=8, shares=(0.0, 0.4), size=(160, 214),
        training=tiny_settings(
            components=1,
            masks=True,
            mask_head=hs.MaskSettings(
                windows=100, fewest=2, most=3, folds=2, iterations=4, textures=8, least_objects=2
            ),
        ),
    )  # fmt: skip
    out = tmp_path_factory.mktemp("demo")
    return run_demo(out, settings, on_step=lambda *step: message.append(step))


def test_the_demo_compares_all_methods_and_writes_what_it_names(demo: Demo) -> None:
    assert [s.name for s in demo.evaluation.summaries] == ["BL", "BLT", "VIS", "VIS+NMS"]
    assert all(path.exists() for path in demo.files)
    names = {path.name for path in demo.files}
    assert {"report.html", "results.json", "sheet.png", "filmstrip.png", "pictures"} <= names
    for method in ("BL", "BLT", "VIS"):
        (file,) = (path for path in demo.files if path.name == f"car-{method}.safetensors")
        assert hs.load(file).method == method
    assert hs.load(file).head is not None  # VIS: what is hidden is what it is about
    report = demo.files[0].read_text()
    assert "An object being covered" in report
    assert report.count("<svg") == 5
    drawn = demo.files[0].parent / "pictures"
    assert {path.name for path in drawn.iterdir()} == {
        path.name for path in (demo.files[0].parent / "scenes").iterdir()
    }


def test_objects_are_judged_by_their_whole_boxes(demo: Demo) -> None:
    evaluation = demo.evaluation
    for truth in evaluation.dataset:
        assert np.array_equal(truth.box, clip(truth.full, truth.size))
    found = evaluation.found["VIS"]
    expected = average_precision(evaluation.dataset.truths, found, "car").ap
    assert evaluation.summaries[2].ap == expected


def test_its_table_is_short_and_of_the_same_figures(demo: Demo) -> None:
    table = short_table(demo)
    lines = table.text().splitlines()
    assert max(map(len, lines)) <= 80
    assert all(f"{name}: " in table.text() for name in ("BL", "BLT", "VIS", "VIS+NMS"))
    assert list(table.columns) == ["", "all", "whole", "half hidden", "40% covered"]
    assert table.rows[2][1] == 100 * demo.evaluation.summaries[2].ap


def test_it_tells_how_far_it_is(demo: Demo, message: Steps) -> None:
    steps = list(dict.fromkeys(what for what, _, _ in message))
    assert steps[0] == "drawing scenes"
    learnt = [s.split()[-1] for s in steps if s.startswith("learning")]
    assert learnt == ["BL", "BLT", "VIS", "hidden"]
    assert steps[-1] == "detecting"
    for what in steps:
        done = [(d, total) for w, d, total in message if w == what]
        assert done == sorted(done)
        assert all(0 <= d <= total for d, total in done)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6])
def test_boards_cover_the_share_and_leave_the_rest(share: float) -> None:
    image = np.full((100, 200, 3), 255, np.uint8)
    box = np.array([50.0, 20.0, 150.0, 80.0])
    changed = (cover(image, box, share) != image).any(axis=2)
    assert changed[20:80, 50:150].mean() == pytest.approx(share)
    assert not changed[:, round(50 + 100 * share) :].any()
    assert not changed[:, : round(50 - 100 * BEYOND)].any()
    assert (image == 255).all()


def test_the_filmstrip_follows_one_object(demo: Demo) -> None:
    assert [frame.share for frame in demo.film] == list(SHARES)
    first = demo.film[0]
    assert set(first.found) == {"BL", "BLT", "VIS"}
    assert all(np.isfinite(frame.score("VIS")) for frame in demo.film)
    (alone,) = film(
        first.image, first.box, {"BL": hs.load(demo.files[0].parent / "car-BL.safetensors")}, [0.0]
    )
    assert alone.score("BL") == first.score("BL")
    assert len(plot_film(demo.film).axes) == len(SHARES) + 1
    assert read_image(demo.files[0].parent / "filmstrip.png").shape[1] > 600


def test_the_command_prints_a_table_and_what_to_type_next(
    demo: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("halfseen.studies.demo.run_demo", lambda *_, **__: demo)
    assert run(["demo", "-o", "out"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == short_table(demo).text().splitlines()
    assert f"wrote {demo.files[0]}" in said.err
    assert "halfseen detect out/car-VIS.safetensors out/scenes" in said.err
    assert run(["demo", "--json", "--quiet"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    methods = json.loads(said.out)["classes"]["car"]["methods"]
    assert [method["name"] for method in methods] == ["BL", "BLT", "VIS", "VIS+NMS"]
    (tmp_path / "file").touch()
    monkeypatch.undo()
    assert run(["demo", "-o", str(tmp_path / "file")]) == 2
    assert "cannot write there" in capsys.readouterr().err
