"""Damaged journals and shards, two runs at once, and full disks: one line each, nothing lost."""

import json
import multiprocessing
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import halfseen as hs
from halfseen.cli import run
from halfseen.collection.formats import FORMATS, shard_codec
from halfseen.collection.journal import open_journal
from halfseen.collection.photo import Photo, file_photo
from halfseen.collection.run import run_collection
from halfseen.data.image import write_image
from halfseen.errors import HalfseenError
from tests.builders import make_image, make_model

REQUEST = {"shard": 2, "format": "jsonl"}
PHOTOS = [file_photo(f"{n}.png") for n in range(5)]


def record(photo: Photo) -> dict[str, Any]:
    return {"image": photo.name, "width": 3, "height": 2, "detections": [{"label": "car"}]}


@pytest.fixture(params=["jsonl", "parquet"])
def finished(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    plan = REQUEST | {"format": request.param}
    with open_journal(tmp_path / "out", plan, PHOTOS) as journal:
        run_collection(journal, record, cores=1)
    return tmp_path / "out", plan


def reopen(folder: Path, plan: dict[str, Any]) -> None:
    with open_journal(folder, plan, PHOTOS) as journal:
        run_collection(journal, record, cores=1)


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
    "zeros": lambda content: bytes(len(content)),
    "noise": lambda content: os.urandom(len(content)),
    "first-line": lambda content: content.splitlines(keepends=True)[0],
    "twice": lambda content: content + content[:-9],
    "list": lambda content: b"[1, 2]\n" * 2,
    "number": lambda content: b"7\n" * 2,
    "no-image": lambda content: b"{}\n" * 2,
    "deep": lambda content: b"[" * 100_000 + b"\n",
    "detections": lambda content: b'{"image": "a", "detections": 7}\n' * 2,
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("noted", [True, False])
def test_a_damaged_shard_is_never_taken_for_done(
    finished: tuple[Path, dict[str, Any]], damage: str, noted: bool
) -> None:
    folder, plan = finished
    shard = folder / "shards" / f"000001{FORMATS[plan['format']].suffix}"
    whole = shard.read_bytes()
    shard.write_bytes(DAMAGE[damage](whole))
    if not noted:
        (folder / "notes.jsonl").unlink()
    with pytest.raises(HalfseenError, match="delete it to have it made again") as caught:
        reopen(folder, plan)
    assert shard.name in str(caught.value)
    assert "\n" not in str(caught.value)
    shard.unlink()
    reopen(folder, plan)
    assert shard.read_bytes() == whole


@pytest.mark.parametrize("damage", [*DAMAGE, "types"])
@pytest.mark.parametrize("name", ["run.json", "images.jsonl", "notes.jsonl"])
def test_damaged_journals_are_refused_or_made_again(
    finished: tuple[Path, dict[str, Any]], name: str, damage: str
) -> None:
    folder, plan = finished
    path = folder / name
    wrong = b'{"shard": [], "images": "x", "failed": null, "objects": {}, "digest": 1.5}\n'
    path.write_bytes(wrong if damage == "types" else DAMAGE[damage](path.read_bytes()))
    if name == "notes.jsonl":  # they are notes only
        reopen(folder, plan)
        with open_journal(folder, plan, PHOTOS) as journal:
            assert sum(note.images for note in journal.notes.values()) == len(PHOTOS)
    else:
        with pytest.raises(HalfseenError, match="use another folder") as caught:
            reopen(folder, plan)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("count", [-5, 10**15, "5", 2.5, None, [5]])
def test_a_wrong_number_of_images_is_noticed(
    finished: tuple[Path, dict[str, Any]], count: object
) -> None:
    folder, plan = finished
    content = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(content | {"count": count}))
    with pytest.raises(HalfseenError, match="use another folder"):
        reopen(folder, plan)


def race(folder: Path, barrier: Any, results: Any) -> None:
    barrier.wait(60)
    try:
        reopen(folder, REQUEST)
        results.put("done")
    except HalfseenError as error:
        results.put(str(error))


def test_of_several_runs_at_once_in_one_folder_none_does_an_image_twice(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(3), context.Queue()
    workers = [
        context.Process(target=race, args=(tmp_path / "out", barrier, results)) for _ in range(3)
    ]
    for worker in workers:
        worker.start()
    said = [results.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    assert "done" in said
    assert all(line == "done" or "another run is at work there" in line for line in said)
    reopen(tmp_path / "out", REQUEST)
    lines = [
        line for p in (tmp_path / "out").glob("shards/0*") for line in p.read_text().splitlines()
    ]
    assert sorted(json.loads(line)["image"] for line in lines) == [p.name for p in PHOTOS]


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    write_image(path, make_image("p", [(8, 16)]).source)
    return path


def save_model(path: Path, label: str) -> Path:
    from dataclasses import replace

    hs.save(replace(make_model(), label=label), path)
    return path


@pytest.mark.parametrize("file_format", list(FORMATS))
def test_a_full_disk_is_one_line_and_leaves_no_half_file(
    file_format: str, photo: Path, tmp_path: Path
) -> None:
    """The process may write files of a few bytes only: what is written then fails like a disk.

    Of many photographs results are written before the last of them.
    """
    model, out = save_model(tmp_path / "m.safetensors", "pattern"), tmp_path / "out"
    photos = [str(photo)]
    for n in range(20):
        (tmp_path / f"{n}.png").write_bytes(photo.read_bytes())
        photos.append(str(tmp_path / f"{n}.png"))
    words = ["detect", str(model), *photos, "-o", str(out), "--format", file_format]
    words += ["--cores", "1"]  # processes share memory by files
    program = (
        "import resource, sys\n"
        "from halfseen.cli import run\n"
        "run(['detect', *sys.argv[2:4], '-q'])\n"  # compiled kernels are files, too
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20))\n"
        "sys.exit(run(sys.argv[1:]))\n"
    )
    ended = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True)
    assert ended.returncode in (1, 2)
    last = ended.stderr.splitlines()[-1]
    assert last.startswith(f"halfseen: {out}")
    assert "File too large" in last
    assert "bug" not in ended.stderr
    left = [path for path in out.rglob("*") if path.is_file() and path.stat().st_size]
    assert left == []
    assert run([*words, "-q", *(["--no-pictures"] if file_format != "parquet" else [])]) == 0
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 20


LABELS = {
    "long": "n" * 256,
    "wide": "é" * 256,
    "surrogate": "a\ud800b",
    "escape": "\x1b[2J\x1b]0;owned\x07car",
    "path": "../../up",
    "newline": "a\nb",
}


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("file_format", list(FORMATS))
def test_odd_labels_reach_every_format_and_never_the_terminal(
    label: str, file_format: str, photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, out = save_model(tmp_path / "m.safetensors", LABELS[label]), tmp_path / "out"
    assert run(["detect", str(model), str(photo), "-o", str(out), "--format", file_format]) == 0
    assert run(["detect", str(model), str(photo)]) == 0
    said = capsys.readouterr()
    for text in (said.out, said.err):
        assert all(c.isprintable() or c == "\n" for c in text)
    files = [path for path in out.rglob("*") if path.is_file()]
    assert files
    assert all(out in path.resolve().parents for path in files)
    if file_format == "parquet":
        (found,) = shard_codec("parquet").decode((out / "shards" / "000000.parquet").read_bytes())
        assert found["detections"]


def test_classes_whose_files_would_have_one_name_get_their_own(tmp_path: Path) -> None:
    labels = ["a/b", "a:b", "A-B", "c"]
    names = FORMATS["voc"].names(labels)
    assert len({name.casefold() for name in names}) == 4
    assert names[3] == "comp3_det_val_c.txt"
    assert FORMATS["voc"].names(["car", "traffic light"])[1] == "comp3_det_val_traffic light.txt"
    assert all(len(name.encode()) < 240 for name in FORMATS["voc"].names(["x" * 999, "é" * 999]))
