"""Detection in photographs of a run: memory, names, and what is kept when something fails."""

import json
import subprocess
import sys
import threading
import time
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import halfseen as hs
from halfseen.cli import run
from halfseen.collection.photo import Photo, file_photo
from halfseen.collection.result import ImageResult
from halfseen.compute.map import map_images
from halfseen.compute.memory import MIB, MemoryBudget
from halfseen.data.image import OpenImage, open_image, write_image
from halfseen.model.calibration import EVIDENCE, Calibration
from halfseen.studies import photos
from halfseen.studies.photos import PhotoDetector, PhotoSettings, picture_paths
from tests.builders import make_image, make_model, wait_for


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "pattern.safetensors"
    hs.save(make_model(), path)
    return path


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    write_image(path, make_image("p", [(8, 16)]).source)
    return path


def two_names() -> hs.Detector:
    """The pattern under two names, the second of which is always the more probable."""
    weights = np.zeros((1, len(EVIDENCE)))
    weights[0, EVIDENCE.index("score")] = 5.0
    models = [
        replace(make_model(label=label), calibration=Calibration(np.array([bias]), weights))
        for label, bias in (("bus", -1.0), ("train", 0.0))
    ]
    return hs.Detector(models)


def test_an_object_of_two_classes_is_the_more_probable_one(photo: Path) -> None:
    one, every = (
        PhotoDetector(two_names(), PhotoSettings(0.5, every_class=every))(file_photo(photo))
        for every in (False, True)
    )
    assert one.detections is not None
    assert every.detections is not None
    assert one.detections.label.tolist() == ["train"]
    assert every.detections.label.tolist() == ["train", "bus"]  # the most probable first
    assert every.detections.probability is not None
    assert np.diff(every.detections.probability)[0] < 0


def test_explanations_name_what_is_reported(photo: Path) -> None:
    """All that was dropped for a reported detection: by suppression, and of another class."""
    settings = PhotoSettings(0.5, explain=True)
    result = PhotoDetector(two_names(), settings)(file_photo(photo))
    assert result.detections is not None
    assert len(result.detections) == 1
    labels = {row["label"] for row in result.suppressed}
    assert labels == {"bus", "train"}
    (best,) = [row for row in result.suppressed if row["label"] == "bus"]
    assert (best["by"], best["overlap"]) == (0, 1.0)  # other buses were dropped for this one
    assert {row["by"] for row in result.suppressed} == {0}


def test_what_does_not_fit_is_refused_with_what_it_would_take(
    model: Path, photo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["detect", str(model), str(photo), "--memory", "20"]) == 1
    said = capsys.readouterr().err
    assert "photo.png: would take about " in said
    assert "MiB of memory, of 20 MiB allowed; allow more (--memory), or shrink it" in said
    assert run(["detect", str(model), str(photo), "--memory", "200", "-q"]) == 0


PEAK = """
import sys, numpy as np, halfseen as hs
from halfseen.model.calibration import EVIDENCE, Calibration
from halfseen.studies.photos import BASE_BYTES, PhotoDetector, PhotoSettings
from halfseen.collection.photo import file_photo
detect = PhotoDetector(hs.Detector(hs.load(sys.argv[1]), cores=1), PhotoSettings())
def status(field):
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(lines[field].split()[0]) << 10
detect(file_photo(sys.argv[2]))
before = status("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
result = detect(file_photo(sys.argv[3]))
assert result.detections is not None, result.error
print(status("VmHWM") - before, detect._need(1200 * 1200))
"""


@pytest.mark.parametrize("name", ["car.fast", "car.fhog"])
def test_a_search_takes_no_more_memory_than_was_estimated(name: str, tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (1200, 1200, 3), dtype=np.uint8)
    write_image(tmp_path / "large.png", noise)
    write_image(tmp_path / "small.png", noise[:200, :200])
    words = [name, str(tmp_path / "small.png"), str(tmp_path / "large.png")]
    output = subprocess.run(
        [sys.executable, "-c", PEAK, *words], capture_output=True, text=True, check=True
    ).stdout
    peak, estimate = map(int, output.split())
    assert peak <= estimate
    assert estimate < 4 * peak + 64 * MIB  # and the estimate is of some use


@pytest.mark.parametrize("name", ["n" * 246 + ".png", "é" * 125 + ".png", "w" * 250 + ".webp"])
def test_long_names_of_photographs_lose_nothing(
    name: str, model: Path, photo: Path, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_bytes(photo.read_bytes())
    out = tmp_path / "out"
    assert run(["detect", str(model), str(tmp_path / "in"), "-o", str(out), "-q"]) == 0
    (line,) = (out / "detections.jsonl").read_text().splitlines()
    assert json.loads(line)["detections"]
    assert len(list((out / "pictures").iterdir())) == 1


def test_long_names_that_become_one_get_pictures_of_their_own(tmp_path: Path) -> None:
    names = ["n" * 250 + suffix for suffix in (".bmp", ".gif", ".tif")]
    paths = picture_paths([Photo(name, name) for name in names], tmp_path)
    assert len(set(paths.values())) == 3
    assert all(len(path.name.encode()) <= 255 for path in paths.values())


def test_a_picture_that_cannot_be_written_does_not_lose_its_detections(
    model: Path, photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "pictures").write_text("a file where a folder should be")
    assert run(["detect", str(model), str(photo), "-o", str(out)]) == 1
    assert "failed: " in capsys.readouterr().err
    assert json.loads((out / "detections.jsonl").read_text())["detections"]


def test_an_image_waits_for_memory_and_is_not_refused(model: Path, photo: Path) -> None:
    detect = PhotoDetector(hs.Detector(hs.load(model)), PhotoSettings(), MemoryBudget(60 * MIB))
    results = list(map_images(detect, [file_photo(photo)] * 6, cores=3))
    assert all(result.detections is not None for result in results)


def test_what_is_read_counts_before_anything_is_known_of_it(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three workers two may read, where the budget holds two of the files."""
    (tmp_path / "padded.jpg").write_bytes(b"\xff\xd8" + b"\xff" * (24 * MIB))
    photo, lock, reading, most = file_photo(tmp_path / "padded.jpg"), threading.Lock(), 0, 0
    read = Photo.read

    def slow_read(self: Photo) -> bytes:
        nonlocal reading, most
        with lock:
            reading += 1
            most = max(most, reading)
        time.sleep(0.05)
        content = read(self)
        with lock:
            reading -= 1
        return content

    monkeypatch.setattr(Photo, "read", slow_read)
    detect = PhotoDetector(hs.Detector(hs.load(model)), PhotoSettings(), MemoryBudget(60 * MIB))
    results = list(map_images(detect, [photo] * 6, cores=3))
    assert all("padded" in result.error for result in results)
    assert most == 2
    small = PhotoDetector(detect.detector, PhotoSettings(), MemoryBudget(20 * MIB))
    assert "would take about 25 MiB of memory, of 20 MiB" in small(photo).error


def test_an_image_that_waits_for_memory_holds_none(
    model: Path, photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read, found to need more than is free, given up, and read again."""
    memory = MemoryBudget(60 * MIB)
    detect = PhotoDetector(hs.Detector(hs.load(model)), PhotoSettings(), memory)
    reads, read, results = [0], Photo.read, []

    def counted(self: Photo) -> bytes:
        reads[0] += 1
        return read(self)

    monkeypatch.setattr(Photo, "read", counted)
    thread = threading.Thread(target=lambda: results.append(detect(file_photo(photo))))
    with memory.hold(50 * MIB):
        thread.start()
        wait_for(lambda: reads[0] == 1)
        wait_for(lambda: memory._used.value == 50 * MIB)
    thread.join(20)
    assert results[0].detections is not None
    assert reads == [2]


def test_what_was_decoded_is_given_up_before_the_search(
    model: Path, photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, found = [], PhotoDetector._detect_in

    def keep(*arguments: Any) -> OpenImage:
        image = open_image(*arguments)
        opened.append(weakref.ref(image.image))
        return image

    def detect_in(self: PhotoDetector, *arguments: Any) -> ImageResult:
        assert opened[0]() is None
        return found(self, *arguments)

    monkeypatch.setattr(photos, "open_image", keep)
    monkeypatch.setattr(PhotoDetector, "_detect_in", detect_in)
    result = PhotoDetector(hs.Detector(hs.load(model)), PhotoSettings())(file_photo(photo))
    assert result.detections is not None, result.error


def test_an_empty_word_is_not_the_current_folder(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["detect", str(model), ""]) == 2
    assert "an empty text names no image" in capsys.readouterr().err
