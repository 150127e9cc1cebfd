"""Every reader with every file of the corpus, and with a few hundred damaged ones of each kind.

`make fuzz` tries many more; here the seeds are fixed.
"""

import json
import random
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from halfseen.data.limits import Limits
from halfseen.data.npz import read_arrays
from halfseen.errors import AnnotationError, HalfseenError
from tests.fuzz import __main__ as fuzz
from tests.fuzz.commands import Commands
from tests.fuzz.multiply import MOST, multiply
from tests.fuzz.mutate import mutate

READERS = Commands.names()
SLOW = {"train", "citypersons_mat"}  # which train, or start a process
HOSTILE = {
    "bomb.xml", "outside.xml", "deep.xml", "deep.json", "nan.json", "huge-number.json",
    "negative-size.json", "huge.png", "bomb.npz", "inspect",
    "other-schema.parquet",
}  # fmt: skip


def test_every_reader_has_a_corpus() -> None:
    assert all(map(fuzz.corpus, READERS))
    used = {*READERS, *(name for names in fuzz.ALSO.values() for name in names)}
    assert {path.name for path in fuzz.CORPUS.iterdir()} <= used


@pytest.mark.parametrize("name", READERS)
def test_the_corpus_is_read_and_hostile_files_are_refused(name: str, tmp_path: Path) -> None:
    readers = Commands(tmp_path)
    for path in fuzz.files_of(name):
        if path.name in HOSTILE:
            with pytest.raises(HalfseenError):
                getattr(readers, name)(path.read_bytes())
        else:
            getattr(readers, name)(path.read_bytes())


@pytest.mark.parametrize("name", READERS)
def test_damaged_files_raise_nothing_but_our_errors(name: str, tmp_path: Path) -> None:
    rng, files, readers = random.Random(3), fuzz.corpus(name), Commands(tmp_path)
    refused = []
    for _ in range(10 if name in SLOW else 150):
        content = mutate(rng.choice(files), files, rng)
        try:
            getattr(readers, name)(content)
        except HalfseenError as error:
            refused.append(str(error))
    assert refused or name == "arrays"
    assert not any("\n" in line for line in refused)


def test_the_fuzzer_finds_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Readers at fault: one raises, dies, hangs, takes memory or time. Each input is kept."""

    class Faulty(Commands):
        def mask(self, content: bytes) -> None:
            raise ZeroDivisionError("fault")

        def voc(self, content: bytes) -> None:
            import os

            if os.environ.get("HALFSEEN_WARM"):
                os._exit(9)
            os.environ["HALFSEEN_WARM"] = "1"

        def name_list(self, content: bytes) -> None:
            import time

            end = time.process_time() + 0.01
            while content == b"spin" or time.process_time() < end:
                pass

        def mot(self, content: bytes) -> None:
            bytearray(100 << 20 if content == b"spin" else 1).find(b"x")

        def kitti(self, content: bytes) -> None:
            import time

            end = time.process_time() + (0.1 if content == b"spin" else 0)
            while time.process_time() < end:
                pass

    monkeypatch.setattr(fuzz, "Commands", Faulty)
    monkeypatch.setattr(fuzz, "PATIENCE", 0.5)
    monkeypatch.setattr(fuzz, "SECONDS", 0.05)
    monkeypatch.setattr(fuzz, "MEMORY", 50 << 20)
    monkeypatch.setattr(fuzz, "MULTIPLIED", 1)
    monkeypatch.setattr(fuzz, "multiply", lambda content, rng: content)
    warm = [b"first"]
    monkeypatch.setattr(fuzz, "corpus", lambda name: warm)
    monkeypatch.setattr(fuzz, "mutate", lambda *_: b"spin")
    faults = tmp_path / "faults"
    names = ["mask", "voc", "name_list", "mot", "kitti"]
    assert fuzz.main([*names, "--seconds", "10", "--seed", "1", "--faults", str(faults)]) == 1
    message = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert {fault.split("-")[0] for fault in message["faults"]} == set(names)
    kept = {path.name.split("-")[0]: path for path in faults.glob("*.txt")}
    assert "ZeroDivisionError" in kept["mask"].read_text()
    assert "died with 9" in kept["voc"].read_text()
    assert "took more than" in kept["name_list"].read_text()
    assert kept["mot"].read_text() == "more than 50 MiB"
    assert kept["kitti"].read_text() == "more than 0.05 s"
    assert kept["name_list"].with_suffix("").read_bytes() == b"spin"


@pytest.mark.parametrize("name", READERS)
def test_what_multiplies_keeps_within_its_bounds(name: str) -> None:
    rng = random.Random(1)
    grown = [multiply(content, rng) for content in fuzz.corpus(name) for _ in range(20)]
    assert max(map(len, grown)) <= MOST
    assert max(map(len, grown)) > 2 * max(map(len, fuzz.corpus(name)))


def test_arrays_that_would_not_fit_are_refused_before_they_are_made(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, a=np.zeros(1 << 22))
    content = path.read_bytes()
    assert len(content) < 1 << 17
    tracemalloc.start()
    with pytest.raises(AnnotationError, match="exceed the limit of 1,000,000 bytes"):
        read_arrays(content, limits=Limits(arrays_bytes=1_000_000))
    assert tracemalloc.get_traced_memory()[1] < 4_000_000
    tracemalloc.stop()
    assert read_arrays(content)["a"].shape == (1 << 22,)
    np.savez(path, a=np.array([{}], dtype=object))
    with pytest.raises(AnnotationError, match="expected numbers or texts"):
        read_arrays(path.read_bytes())
