"""Runs over collections: sources, shards, kills at any moment, retries, interrupts."""

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

import halfseen as hs
from halfseen.cli import run
from halfseen.collection.formats import FORMATS, shard_codec
from halfseen.collection.journal import Journal, open_journal
from halfseen.collection.photo import Photo, file_photo
from halfseen.collection.run import Stop, run_collection
from halfseen.collection.sources import find_photos
from halfseen.data.image import read_image, write_image
from halfseen.errors import HalfseenError, ImageError, SettingsError
from tests.builders import make_image, make_model, make_noise, wait_for

SHARDED = [name for name, one in FORMATS.items() if one.shards is not None]
REQUEST = {"shard": 3, "format": "jsonl", "model": "m"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "pattern.safetensors"
    hs.save(make_model(), path)
    return path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Eleven small images; number 4 is damaged."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for n in range(11):
        truth = make_noise("n", n) if n % 3 else make_image("p", [(8 * n, 16)])
        write_image(folder / f"{n:02}.png", truth.source)
    (folder / "04.png").write_bytes(b"damaged")
    return folder


def names(words: list[str]) -> list[str]:
    return [photo.name for photo in find_photos(words)]


def test_lists_name_one_image_a_line(tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.write_bytes("a.png\n\n  b c.jpg \nmemory://x/é.png\n".encode() + b"caf\xe9.jpg\n")
    found = list(find_photos([str(file)]))
    assert [p.name for p in found] == ["a.png", "b c.jpg", "memory://x/é.png", "caf\udce9.jpg"]
    assert found[0].place == os.path.abspath("a.png")
    file.write_bytes(b"x" * 40_000)
    with pytest.raises(ImageError, match="line 1: expected a path"):
        list(find_photos([str(file)]))


def make_tar(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        link = tarfile.TarInfo("link.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)


def test_tar_archives_are_read_in_place(tmp_path: Path, photos: Path) -> None:
    content = (photos / "00.png").read_bytes()
    path = tmp_path / "a.tar"
    make_tar(
        path,
        {
            "x/é.png": content,
            "notes.md": b"",
            "./y.png": b"bad",
            "x/" + "n" * 200 + ".png": content,
        },
    )
    found = list(find_photos([str(path)]))
    shown = [p.name.removeprefix(f"{path}/") for p in found]
    assert shown == ["x/é.png", "y.png", "x/" + "n" * 200 + ".png"]
    assert found[0].read() == content
    assert np.array_equal(found[2].pixels(), read_image(photos / "00.png"))
    assert names([str(tmp_path / "*.tar")]) == [p.name for p in found]
    with path.open("r+b") as file:
        file.truncate(found[2].start + 20)  # type: ignore[operator]
    with pytest.raises(ImageError, match="the archive ends before it does"):
        found[2].read()


def test_archives_that_change_are_noticed(tmp_path: Path, photos: Path) -> None:
    content = (photos / "00.png").read_bytes()
    path = tmp_path / "a.tar"
    make_tar(path, {"1.png": content, "2.png": content})
    found = list(find_photos([str(path)]))
    make_tar(path, {"1.png": (photos / "01.png").read_bytes(), "2.png": content})
    for photo in found:
        with pytest.raises(ImageError, match="the archive changed after its images were listed"):
            photo.read()


def test_bad_archives_are_refused_with_a_reason(tmp_path: Path) -> None:
    for name, content, words in [
        ("a.tar", b"nonsense" * 100, "damaged tar"),
        ("b.tar", b"", "damaged tar"),
        ("c.tar.gz", b"", "decompress it first"),
    ]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ImageError, match=words):
            list(find_photos([str(tmp_path / name)]))
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 2**32
    (tmp_path / "d.tar").write_bytes(header.tobuf() + bytes(2048))
    with pytest.raises(ImageError, match=r"header of .* exceeds"):
        list(find_photos([str(tmp_path / "d.tar")]))


def test_a_damaged_or_cut_archive_loses_no_image_silently(tmp_path: Path, photos: Path) -> None:
    path = tmp_path / "a.tar"
    make_tar(path, dict.fromkeys(("1.png", "2.png", "3.png"), (photos / "00.png").read_bytes()))
    whole = path.read_bytes()
    second = list(find_photos([str(path)]))[1]
    start = second.start - tarfile.BLOCKSIZE  # type: ignore[operator]
    damaged = bytearray(whole)
    damaged[start + 10] ^= 0xFF
    for content in (bytes(damaged), whole[: start + 100]):
        path.write_bytes(content)
        with pytest.raises(ImageError, match=f"a damaged tar archive: no header at byte {start:,}"):
            list(find_photos([str(path)]))
    path.write_bytes(whole[:start])  # some writers end so
    assert len(names([str(path)])) == 1


def test_what_names_no_image_is_told_from_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "none.txt").write_text("")
    make_tar(tmp_path / "none.tar", {"notes.md": b""})
    for name in ("none.txt", "none.tar"):
        with pytest.raises(ImageError, match="names no image"):
            list(find_photos([str(tmp_path / name)]))


def test_object_stores_through_fsspec(tmp_path: Path, photos: Path) -> None:
    store = fsspec.filesystem("memory")
    content = (photos / "00.png").read_bytes()
    make_tar(tmp_path / "a.tar", {"in.png": content})
    store.pipe({"/b/2.png": content, "/b/1.jpg": b"", "/b/deep/3.png": content, "/b/x.md": b""})
    store.pipe({"/t/a.tar": (tmp_path / "a.tar").read_bytes()})
    assert names(["memory://b"]) == [
        "memory:///b/1.jpg",
        "memory:///b/2.png",
        "memory:///b/deep/3.png",
    ]
    assert names(["memory://b/*.png"]) == ["memory:///b/2.png"]
    (member,) = find_photos(["memory://t/a.tar"])
    assert member.name == "memory:///t/a.tar/in.png"
    assert member.read() == content
    assert next(find_photos(["memory://b/2.png"])).read() == content
    with pytest.raises(ImageError, match=r"gone\.png: cannot be read"):
        Photo("memory://gone.png", "memory://gone.png").read()
    with pytest.raises(ImageError, match=r"nonsense://x\.png: cannot be opened"):
        Photo("nonsense://x.png", "nonsense://x.png").read()  # one line of a list
    with pytest.raises(SettingsError, match="nonsense://x: cannot be opened"):
        list(find_photos(["nonsense://x"]))
    with pytest.raises(ImageError, match="nothing: no such file or folder"):
        list(find_photos(["memory://nothing"]))


def test_each_image_comes_once(photos: Path) -> None:
    assert len(names([str(photos), f"{photos}/*.png", f"{photos}/03.png"])) == 11


def a_record(photo: Photo) -> dict[str, Any]:
    """Depends on the file's content alone."""
    try:
        height, width = photo.pixels().shape[:2]
    except HalfseenError as error:
        return {"image": photo.name, "error": str(error)}
    return {"image": photo.name, "width": width, "height": height, "detections": [{}] * 2}


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "shards").iterdir())}


def test_a_run_can_die_at_every_image(photos: Path, tmp_path: Path) -> None:
    """Unbroken, and killed before each image in turn: the same bytes.

    Each image is looked at once unless its shard was not finished.
    """

    class Kill(BaseException):
        pass

    found = list(find_photos([str(photos)]))
    with open_journal(tmp_path / "whole", REQUEST, found) as journal:
        summary = run_collection(journal, a_record, cores=1)
    assert (summary.images, summary.done, summary.failed, summary.objects) == (11, 11, 1, 20)
    assert summary.complete
    expected = content(tmp_path / "whole")
    assert list(expected) == [f"{n:06}.jsonl" for n in range(4)]
    lines = b"".join(expected.values()).splitlines()
    assert [json.loads(line)["image"] for line in lines] == [photo.name for photo in found]
    for place in range(11):
        looked: list[str] = []

        def dying(photo: Photo, place: int = place, looked: list[str] = looked) -> dict[str, Any]:
            if photo.name == found[place].name:
                raise Kill
            looked.append(photo.name)
            return a_record(photo)

        folder = tmp_path / f"killed-{place}"
        with pytest.raises(Kill), open_journal(folder, REQUEST, found) as journal:
            run_collection(journal, dying, cores=1)
        assert len(content(folder)) == place // 3

        def counting(photo: Photo, looked: list[str] = looked) -> dict[str, Any]:
            looked.append(photo.name)
            return a_record(photo)

        with open_journal(folder, REQUEST, iter(())) as journal:
            run_collection(journal, counting, cores=1)
        assert content(folder) == expected
        assert len(looked) == 11 + place % 3


def test_failed_images_are_told_and_retried(photos: Path, tmp_path: Path) -> None:
    found, out = list(find_photos([str(photos)])), tmp_path / "out"
    with open_journal(out, REQUEST, found) as journal:
        run_collection(journal, a_record)
    (failed,) = map(json.loads, (out / "failed.jsonl").read_text().splitlines())
    assert failed["image"].endswith("04.png")
    assert "not an image" in failed["error"]
    before = content(out)
    write_image(photos / "04.png", np.zeros((5, 7, 3), np.uint8))
    looked: list[str] = []

    def counting(photo: Photo) -> dict[str, Any]:
        looked.append(photo.name)
        return a_record(photo)

    with open_journal(out, REQUEST, found) as journal:
        run_collection(journal, counting)
        assert looked == []
        summary = run_collection(journal, counting, retry_failed=True)
    assert looked == [failed["image"]]
    assert (summary.done, summary.failed) == (11, 0)
    assert json.loads((out / "summary.json").read_text())["failed"] == 0
    assert (out / "failed.jsonl").read_text() == ""
    after = content(out)
    assert [name for name in after if after[name] != before[name]] == ["000001.jsonl"]


def test_a_kill_while_failed_images_are_retried(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between a shard and its note: what was noted of the old shard must not be believed."""
    (photos / "08.png").write_bytes(b"damaged")
    found, out = list(find_photos([str(photos)])), tmp_path / "out"
    with open_journal(out, REQUEST, found) as journal:
        run_collection(journal, a_record)
    write_image(photos / "04.png", np.zeros((5, 7, 3), np.uint8))

    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, open_journal(out, REQUEST, found) as journal:
        patch.setattr(Journal, "_note", kill)
        with pytest.raises(KeyboardInterrupt):
            run_collection(journal, a_record, cores=1, retry_failed=True)
    with open_journal(out, REQUEST, found) as journal:
        assert run_collection(journal, a_record).failed == 1
    write_image(photos / "08.png", np.zeros((5, 7, 3), np.uint8))
    with open_journal(out, REQUEST, found) as journal:
        summary = run_collection(journal, a_record, retry_failed=True)
    assert (summary.done, summary.failed) == (11, 0)


def test_notes_are_only_notes(photos: Path, tmp_path: Path) -> None:
    """Lost or torn, they are made again from the shards; a shard that is gone is made again."""
    found, out = list(find_photos([str(photos)])), tmp_path / "out"
    with open_journal(out, REQUEST, found) as journal:
        expected = run_collection(journal, a_record)
    shards = content(out)
    notes = out / "notes.jsonl"
    for damage in (b"", notes.read_bytes()[:-9], b'{"shard": 0}\n[]\nxx'):
        notes.write_bytes(damage)
        (out / "shards" / "000002.jsonl").unlink()
        (out / "shards" / ".000001.jsonl.abc.part").write_bytes(b"half")
        with open_journal(out, REQUEST, found) as journal:
            assert sorted(journal.notes) == [0, 1, 3]
            assert run_collection(journal, a_record) == expected
        assert content(out) == shards
    (out / "shards" / "000001.jsonl").write_bytes(b"{")
    notes.unlink()
    with pytest.raises(HalfseenError, match=r"000001.jsonl: not JSON lines.*delete it"):
        open_journal(out, REQUEST, found).__enter__()


def test_a_folder_holds_one_run(photos: Path, tmp_path: Path) -> None:
    found, out = list(find_photos([str(photos)])), tmp_path / "out"
    with open_journal(out, REQUEST, found), pytest.raises(SettingsError, match="at work there"):
        open_journal(out, REQUEST, found).__enter__()
    with pytest.raises(SettingsError, match="holds a run with another model; give the same"):
        open_journal(out, {**REQUEST, "model": "n"}, found).__enter__()
    (out / "images.jsonl").write_text("[]")
    with pytest.raises(HalfseenError, match="changed since the run began"):
        open_journal(out, REQUEST, found).__enter__()
    (out / "run.json").write_text("{}")
    with pytest.raises(SettingsError, match="not a run of halfseen"):
        open_journal(out, REQUEST, found).__enter__()


def test_a_full_disk_is_one_line_and_loses_nothing(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, out = list(find_photos([str(photos)])), tmp_path / "out"
    full = False
    replace = os.replace

    def choke(source: Any, target: Any) -> None:
        if full and "000001" in str(target):
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", choke)
    with open_journal(out, REQUEST, found) as journal:
        full = True
        with pytest.raises(
            HalfseenError, match="No space left on device; finished shards are kept"
        ):
            run_collection(journal, a_record)
    full = False
    assert list(content(out)) == ["000000.jsonl"]
    with open_journal(out, REQUEST, found) as journal:
        assert run_collection(journal, a_record).complete


@pytest.mark.parametrize("name", ["failed.jsonl", "summary.json"])
def test_a_disk_full_at_the_end_is_one_line_too(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    found, out = list(find_photos([str(photos)])), tmp_path / "out"
    replace = os.replace

    def choke(source: Any, target: Any) -> None:
        if str(target).endswith(name):
            raise OSError(28, "No space left on device")
        replace(source, target)

    with open_journal(out, REQUEST, found) as journal:
        monkeypatch.setattr(os, "replace", choke)
        with pytest.raises(HalfseenError, match=rf"{name}: cannot be written: No space left"):
            run_collection(journal, a_record)
    monkeypatch.setattr(os, "replace", replace)
    with open_journal(out, REQUEST, found) as journal:
        assert len(journal.notes) == journal.shards
        assert run_collection(journal, a_record).complete


def test_files_that_change_during_a_run_are_read_once(photos: Path, tmp_path: Path) -> None:
    """Shards written before the change keep what was seen then; later ones see the new file."""
    found, out = list(find_photos([str(photos)])), tmp_path / "out"

    def change(count: int) -> None:
        if count == 3:  # the first shard is done; 00 was read, 09 was not
            (photos / "00.png").write_bytes(b"damaged")
            (photos / "09.png").write_bytes(b"cut off")

    with open_journal(out, REQUEST, found) as journal:
        run_collection(journal, a_record, cores=1, on_done=change)
        failures = [record["image"] for record in journal.failures()]
    assert failures == [str(photos / "04.png"), str(photos / "09.png")]


def test_files_that_vanish_are_failures(photos: Path, tmp_path: Path) -> None:
    found = list(find_photos([str(photos)]))
    with open_journal(tmp_path / "out", REQUEST, found) as journal:
        (photos / "05.png").unlink()
        message: list[str] = []
        assert run_collection(journal, a_record, on_failed=message.append).failed == 2
    assert message[1] == f"{photos / '05.png'}: no such file"


def test_stop_ends_after_the_present_shard(photos: Path, tmp_path: Path) -> None:
    found, out = list(find_photos([str(photos)])), tmp_path / "out"
    stop = Stop()

    def done(count: int) -> None:
        stop.requested = count >= 4

    with open_journal(out, REQUEST, found) as journal:
        summary = run_collection(journal, a_record, cores=2, on_done=done, stop=stop)
    assert summary.done == 6
    assert not summary.complete
    assert len(content(out)) == 2


def test_memory_does_not_grow_with_the_collection(tmp_path: Path) -> None:
    """Nothing but the present shard is kept: names come from disk, results go there."""
    alive = most = 0

    class Counted(dict[str, Any]):
        def __init__(self, name: str) -> None:
            nonlocal alive, most
            super().__init__(image=name, detections=[])
            alive += 1
            most = max(most, alive)

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    photos: Iterator[Photo] = (file_photo(f"{n}.png") for n in range(900))
    with open_journal(tmp_path, {**REQUEST, "shard": 50}, photos) as journal:
        summary = run_collection(journal, lambda photo: Counted(photo.name), cores=2)
    assert summary.done == 900
    assert most <= 50 + 3 * 8


RECORDS: list[dict[str, Any]] = [
    {"image": "a.png", "width": 3, "height": 2, "detections": []},
    {"image": "caf\udce9.png", "error": "why"},
    {
        "image": "b.png", "width": 30, "height": 20,
        "detections": [
            {
                "label": "car", "score": 0.1 + 0.2, "full": [1.0, 2.0, 3.5, 4.0],
                "visible": [1.0, 2.0, 3.0, 4.0], "visible_fraction": 0.5, "component": 1,
                "mirrored": True, "window": [0.0, 0.0, 8.0, 8.0], "blocks": ["ho", "go"],
            }
        ],
    },
]  # fmt: skip


@pytest.mark.parametrize("name", SHARDED)
def test_shards_keep_records_and_bytes(name: str) -> None:
    encoded = shard_codec(name).encode(RECORDS)
    assert shard_codec(name).encode(RECORDS) == encoded
    back = shard_codec(name).decode(encoded)
    assert back[0] == RECORDS[0]
    assert back[1]["error"] == "why"
    assert back[2] == RECORDS[2]
    with pytest.raises(HalfseenError, match="not "):
        shard_codec(name).decode(b"\xff nonsense")


def words(model: Path, photos: Path, out: Path, *more: str) -> list[str]:
    return ["detect", str(model), str(photos), "-o", str(out), "--shard", "3", "-q", *more]


@pytest.mark.parametrize("file_format", SHARDED)
def test_detect_in_shards_says_what_detect_says(
    model: Path, photos: Path, tmp_path: Path, file_format: str
) -> None:
    plain = [
        "detect",
        str(model),
        str(photos),
        "-o",
        str(tmp_path / "plain"),
        "-q",
        "--no-pictures",
    ]
    assert run(plain) == 1
    lines = (tmp_path / "plain" / "detections.jsonl").read_text().splitlines()
    out = tmp_path / "out"
    assert run(words(model, photos, out, "--format", file_format)) == 1
    shards = [shard_codec(file_format).decode(data) for data in content(out).values()]
    assert [len(shard) for shard in shards] == [3, 3, 3, 2]
    assert [record for shard in shards for record in shard] == list(map(json.loads, lines))
    assert not (out / "pictures").exists()
    write_image(photos / "04.png", np.zeros((50, 70, 3), np.uint8))
    assert run(words(model, photos, out, "--format", file_format)) == 1
    assert run(words(model, photos, out, "--format", file_format, "--retry-failed")) == 0


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (["--threshold", "0"], "holds a run with another threshold"),
        (["--json"], "-o, without pictures"),
        (["--format", "coco"], "shards are jsonl or parquet files, not coco"),
        (["--cluster", "tcp://127.0.0.1:1", "--cores", "2"], "cores or a cluster, not both"),
    ],
)
def test_wrong_use_of_shards(
    change: list[str], expected: str, model: Path, photos: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    run(words(model, photos, tmp_path / "out"))
    (tmp_path / "out" / "shards" / "000000.jsonl").unlink()
    capsys.readouterr()
    assert run(words(model, photos, tmp_path / "out", *change)) == 2
    assert expected in capsys.readouterr().err


def start(model: Path, photos: Path, out: Path, slow: float) -> "subprocess.Popen[str]":
    """`detect` in a process of its own, each image slowed down."""
    program = (
        "import sys, time\n"
        "from halfseen.collection.photo import Photo\n"
        "from halfseen.cli import run\n"
        "read = Photo.read\n"
        "def slowly(self):\n"
        f"    time.sleep({slow})\n"
        "    return read(self)\n"
        "Photo.read = slowly\n"
        "sys.exit(run(sys.argv[1:]))\n"
    )
    command = [sys.executable, "-c", program, *words(model, photos, out)]
    command.remove("-q")
    return subprocess.Popen([*command, "--cores", "1"], stderr=subprocess.PIPE, text=True)


def test_ctrl_c_once_finishes_the_shard_twice_stops(
    model: Path, photos: Path, tmp_path: Path
) -> None:
    (photos / "04.png").unlink()
    out = tmp_path / "out"
    process = start(model, photos, out, 0.3)
    wait_for(lambda: (out / "shards" / "000000.jsonl").exists())
    process.send_signal(signal.SIGINT)
    message = process.communicate()[1]
    assert process.returncode == 130
    # The signal may come between two shards: then there is none to finish.
    done = list(content(out))
    assert done in (["000000.jsonl"], ["000000.jsonl", "000001.jsonl"])
    assert ("stopping after this shard" in message) == (len(done) == 2)
    assert f"{3 * len(done)} of 10 images" in message
    process = start(model, photos, out, 1.0)
    assert process.stderr is not None
    begun = f"{len(done)} of 4 shards"
    wait_for(lambda: begun in process.stderr.readline())  # type: ignore[union-attr]
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
    assert list(content(out)) == done
    assert run(words(model, photos, out)) == 0
    assert run(words(model, photos, tmp_path / "whole")) == 0
    assert content(out) == content(tmp_path / "whole")


def test_killed_by_the_system(model: Path, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for shards in (1, 2):
        process = start(model, photos, out, 0.2)
        wait_for(lambda n=shards: len(list(out.glob("shards/0*"))) >= n)  # type: ignore[misc]
        process.kill()
        process.communicate()
    assert run(words(model, photos, out)) == 1
    assert run(words(model, photos, tmp_path / "whole")) == 1
    assert content(out) == content(tmp_path / "whole")


def test_pictures_of_archive_members_stay_in_their_folder(
    model: Path, photos: Path, tmp_path: Path
) -> None:
    image = (photos / "00.png").read_bytes()
    make_tar(
        tmp_path / "evil.tar",
        {"../../../up.png": image, "/etc/absolute.png": image, "in.png": image},
    )
    out = tmp_path / "deep" / "er" / "out"
    assert run(["detect", str(model), str(tmp_path / "evil.tar"), "-o", str(out), "-q"]) == 0
    pictures = [path for path in tmp_path.rglob("*.png") if path.parent != photos]
    assert len(pictures) == 3
    assert all(out / "pictures" in path.parents for path in pictures)
