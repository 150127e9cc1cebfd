"""The third place of work: a Dask scheduler and two workers, each a process on loopback."""

import contextlib
import io
import json
import operator
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cloudpickle
import numpy as np
import pytest
from distributed import Client, KilledWorker

import halfseen as hs
from halfseen.cli import run
from halfseen.collection.photo import Photo
from halfseen.compute import cluster
from halfseen.compute.map import map_images
from halfseen.data.image import write_image
from halfseen.data.voc import read_voc, write_voc
from halfseen.errors import ClusterError, SettingsError
from halfseen.learn import checkpoint
from halfseen.learn.tuning import TuneSettings, tune
from tests.builders import (
    make_dataset,
    make_image,
    make_model,
    make_noise,
    tiny_scenes,
    tiny_settings,
    wait_for,
)

IMAGES = 500
ROOT = Path(__file__).parents[2]


class Cluster:
    """A scheduler and workers that a test may kill."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "scheduler.json"
        self.workers: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0")
        wait_for(self.file.exists)
        self.address: str = json.loads(self.file.read_text())["address"]
        self.client = Client(self.address, set_as_default=False)

    def _start(self, what: str, *more: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "dask", what, "--scheduler-file", str(self.file)]
        return subprocess.Popen(
            [*command, "--no-dashboard", *more],
            cwd=ROOT,  # where the processes find these tests
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def have_workers(self, count: int) -> None:
        """Start or kill workers until there are so many, whatever a test before has left."""
        while len(self.workers) > count:
            self.kill()
        while len(self.workers) < count:
            self.workers.append(self._start("worker", "--nthreads", "1", "--no-nanny"))
        wait_for(lambda: len(self.client.nthreads()) == count)

    def kill(self) -> None:
        worker = self.workers.pop()
        worker.kill()
        worker.wait()

    def close(self) -> None:
        self.client.close()
        while self.workers:
            self.kill()
        self.scheduler.kill()
        self.scheduler.wait()


@pytest.fixture(scope="module")
def cluster_of_two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    found = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def machines(cluster_of_two: Cluster) -> Cluster:
    """The cluster, each time with two workers."""
    cluster_of_two.have_workers(2)
    return cluster_of_two


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model and a folder of images, one of them damaged, and what a local run finds in them."""
    folder = tmp_path_factory.mktemp("data")
    hs.save(make_model(), folder / "model.safetensors")
    (folder / "photos").mkdir()
    for n in range(IMAGES):
        truth = make_noise("n", n) if n % 3 else make_image("p", [(n % 90, 16)])
        write_image(folder / "photos" / f"{n:03}.bmp", truth.source)
    (folder / "photos" / "007.bmp").write_bytes(b"damaged")
    assert run(words(folder, folder / "local", "--cores", "2")) == 1
    return folder


def words(data: Path, out: Path, *more: str) -> list[str]:
    found = ["detect", str(data / "model.safetensors"), str(data / "photos"), "-o", str(out)]
    return [*found, "--shard", "40", "--threshold", "0", "-q", *more]


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "shards").iterdir())}


@pytest.fixture(scope="module")
def lessons(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small scenes to train on, and the model that this machine learns from them."""
    folder = tmp_path_factory.mktemp("lessons")
    write_voc(tiny_scenes(), folder, "train", "png")
    hs.save(hs.train(read_voc(folder, "train"), "car", tiny_settings()), folder / "local")
    return folder


def train_words(lessons: Path, out: Path, *more: str) -> list[str]:
    settings = tiny_settings()
    changed = ("blocks", "updates", "rounds", "mining_images", "stop", "per_image", "iterations",
               "store_bytes", "doubling")  # fmt: skip
    chosen = [word for k in changed for word in ("--set", f"{k}={getattr(settings, k)}")]
    return ["train", str(lessons), "--class", "car", "-o", str(out), "-q", "--fast", *chosen, *more]


def test_results_come_in_order_and_errors_in_their_place(machines: Cluster) -> None:
    items: list[tuple[int, ...]] = [(n,) for n in range(50)]
    done: list[int] = []
    found = map_images(operator.itemgetter(0), items, None, done.append, machines.client)
    assert list(found) == list(range(50))
    assert done == list(range(1, 51))
    items[20] = ()
    seen: list[int] = []
    with pytest.raises(IndexError):
        seen.extend(map_images(operator.itemgetter(0), items, cluster=machines.address))
    results = map_images(operator.itemgetter(0), items, cluster=machines.address)
    assert [next(results) for _ in range(20)] == list(range(20))
    with pytest.raises(IndexError):
        next(results)


def test_detect_gives_the_same_bytes(machines: Cluster, data: Path, tmp_path: Path) -> None:
    assert run(words(data, tmp_path / "out", "--cluster", machines.address)) == 1
    assert content(tmp_path / "out") == content(data / "local")


def test_evaluate_gives_the_same_figures(
    machines: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hs.save(make_model(), tmp_path / "vis.safetensors")
    hs.save(make_model("BLT"), tmp_path / "blt.safetensors")
    write_voc(make_dataset(), tmp_path / "data", "val")
    command = ["evaluate", str(tmp_path / "vis.safetensors"), str(tmp_path / "blt.safetensors")]
    # Few candidates, so that covering suppression does not reach its limit of time.
    command += [str(tmp_path / "data"), "--threshold", "-0.3", "--json", "-q"]
    printed = []
    for more in (["--cores", "1"], ["--cluster", machines.address]):
        assert run([*command, *more]) == 0
        printed.append(json.loads(capsys.readouterr().out)["classes"])
    assert printed[0] == printed[1]


def weigh_tasks(client: Client, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that gets the bytes of what each task carries."""
    sizes: list[int] = []
    submit = client.submit

    def weigh(function: Any, *arguments: Any, **options: Any) -> Any:
        sizes.append(len(cloudpickle.dumps(arguments)))
        return submit(function, *arguments, **options)

    monkeypatch.setattr(client, "submit", weigh)
    return sizes


def test_work_is_small(machines: Cluster, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task carries names, not pictures nor the model."""
    sizes = weigh_tasks(machines.client, monkeypatch)
    photos = [Photo(str(p), str(p)) for p in sorted((data / "photos").iterdir())[8:40]]
    shapes = [p.shape for p in map_images(Photo.pixels, photos, cluster=machines.client)]
    assert shapes == [(96, 144, 3)] * 32
    assert max(sizes) < 3000


def test_training_gives_the_same_bytes(
    machines: Cluster, lessons: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work goes out as names and numbers; a task is a hundred times smaller than its picture."""
    sizes = weigh_tasks(machines.client, monkeypatch)
    model = hs.train(read_voc(lessons, "train"), "car", tiny_settings(), cluster=machines.client)
    hs.save(model, tmp_path / "model")
    assert (tmp_path / "model").read_bytes() == (lessons / "local").read_bytes()
    pixels = 160 * 214 * 3
    assert max(sizes) < pixels / 10
    assert np.median(sizes) < pixels / 50

    def caches_left() -> int:
        import gc

        from halfseen.learn.per_image import _caches

        gc.collect()
        return len(_caches)

    assert set(machines.client.run(caches_left).values()) == {0}


def test_pictures_in_memory_are_not_sent(machines: Cluster) -> None:
    with pytest.raises(SettingsError, match="its pixels are in memory"):
        hs.train(tiny_scenes(), "car", tiny_settings(), cluster=machines.client)


def test_tuning_gives_the_same_models_and_figures(
    machines: Cluster, lessons: Path, tmp_path: Path
) -> None:
    tried = TuneSettings(2, lambdas=(5.0,), overlaps=(0.5,), alphas=(0.05,), threshold=0.0)
    small, scenes = tiny_settings(updates=1, rounds=1), read_voc(lessons, "train")
    here = tune(scenes, "car", tmp_path / "here", small, tried, cores=2)
    there = tune(scenes, "car", tmp_path / "there", small, tried, cluster=machines.address)
    models = sorted((tmp_path / "here" / "models").iterdir())
    assert len(models) == 4
    for path in models:
        assert path.read_bytes() == (tmp_path / "there" / "models" / path.name).read_bytes()
    # Covering suppression has a limit of time, so that its figures depend on the machine.
    for key in here.done.keys() | there.done.keys():
        if not key.startswith("covering"):
            np.testing.assert_equal(here.done[key], there.done[key])


def kill_after(
    shards: int, out: Path, kill: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Has `kill` called once, in the middle of a run of detection."""
    kill_when(lambda: len(list(out.glob("shards/*.jsonl"))) >= shards, kill, monkeypatch)


def kill_when(
    due: Callable[[], bool], kill: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Has `kill` called once, while work is being waited for."""
    take = cluster._Run._chunk
    killed = False

    def take_and_kill(*arguments: Any) -> Iterator[Any]:
        nonlocal killed
        if not killed and due():
            killed = True
            kill()
        yield from take(*arguments)

    monkeypatch.setattr(cluster._Run, "_chunk", take_and_kill)


def test_a_killed_worker_costs_nothing(
    machines: Cluster, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_after(2, tmp_path / "out", machines.kill, monkeypatch)
    assert run(words(data, tmp_path / "out", "--cluster", machines.address)) == 1
    assert len(machines.workers) == 1
    assert content(tmp_path / "out") == content(data / "local")


def test_a_result_that_takes_longer_than_a_poll_arrives(
    machines: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "POLL", 0.001)
    results = map_images(bytes, [50_000_000], cluster=machines.client)
    arrived: list[int] = []
    waiting = threading.Thread(target=lambda: arrived.extend(map(len, results)), daemon=True)
    waiting.start()
    waiting.join(60)
    assert arrived == [50_000_000]


def test_no_worker_left_is_a_clear_message_and_the_run_goes_on_later(
    machines: Cluster, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(cluster, "PATIENCE", 1.0)
    monkeypatch.setattr(cluster, "POLL", 0.2)
    out = tmp_path / "out"
    machines.have_workers(1)
    kill_after(3, out, machines.kill, monkeypatch)
    assert run(words(data, out, "--cluster", machines.address)) == 1
    assert machines.workers == []
    message = capsys.readouterr().err.splitlines()[-1]
    assert "no worker left for 1 s; what is finished is kept" in message
    finished = content(out)
    assert 3 <= len(finished) < 13
    machines.have_workers(1)
    assert run(words(data, out, "--cluster", machines.address)) == 1
    assert content(out) == content(data / "local")
    assert finished.items() <= content(out).items()


def rounds_kept(model: Path) -> int:
    """How often the checkpoint of a training was written, by the rounds that it holds."""
    file = model.with_name(f"{model.name}.checkpoint")
    if not file.exists():
        return 0
    with np.load(io.BytesIO(file.read_bytes()[checkpoint.DIGEST :])) as arrays:
        entries = json.loads(arrays["header"].tobytes())["entries"]
        return len(entries["detector/rounds"]["history"])


def test_a_worker_killed_in_training_costs_nothing(
    machines: Cluster, lessons: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "model"
    kill_when(lambda: rounds_kept(out) >= 3, machines.kill, monkeypatch)
    assert run(train_words(lessons, out, "--cluster", machines.address)) == 0
    assert len(machines.workers) == 1
    assert out.read_bytes() == (lessons / "local").read_bytes()


def test_training_without_workers_is_told_and_goes_on_later(
    machines: Cluster, lessons: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(cluster, "PATIENCE", 1.0)
    monkeypatch.setattr(cluster, "POLL", 0.2)
    out = tmp_path / "model"
    machines.have_workers(1)
    kill_when(lambda: rounds_kept(out) >= 3, machines.kill, monkeypatch)
    words = train_words(lessons, out, "--cluster", machines.address)
    assert run(words) == 1
    assert machines.workers == []
    message = capsys.readouterr().err.splitlines()[-1]
    assert "no worker left for 1 s; what is finished is kept" in message
    assert message.endswith(f"with --resume: {out}.checkpoint keeps the rounds so far")
    assert not out.exists()
    machines.have_workers(1)
    assert run([*words, "--resume"]) == 0
    assert out.read_bytes() == (lessons / "local").read_bytes()


def die_with_workers() -> None:
    worker: Any = SimpleNamespace(address="tcp://nowhere")
    raise KilledWorker("task", worker, 4)


def test_an_item_that_kills_workers_is_found_and_given_up(
    machines: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = machines.client.submit

    def submit_or_die(function: Any, name: str, chunk: bytes, **options: Any) -> Any:
        """A task with the fifth item ends as one whose workers all died."""
        if (5,) in cloudpickle.loads(chunk):
            return submit(die_with_workers, pure=False)
        return submit(function, name, chunk, **options)

    monkeypatch.setattr(machines.client, "submit", submit_or_die)
    items = [(n,) for n in range(20)]
    take = operator.itemgetter(0)
    found = list(map_images(take, items, cluster=machines.client, on_lost=lambda item: -item[0]))
    assert found == [*range(5), -5, *range(6, 20)]
    with pytest.raises(ClusterError, match=r"\(5,\): every worker that took it died"):
        list(map_images(take, items, cluster=machines.client))


def test_a_scheduler_that_is_not_there_or_goes_away(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "CONNECT", 0.5)
    assert run(words(data, tmp_path / "out", "--cluster", "tcp://127.0.0.1:9")) == 1
    assert "tcp://127.0.0.1:9: no Dask scheduler answers there" in capsys.readouterr().err
    with contextlib.closing(Cluster(tmp_path)) as machines:
        machines.have_workers(1)
        results = map_images(np.sqrt, range(10_000), cluster=machines.address)
        next(results)
        machines.scheduler.kill()
        machines.scheduler.wait()
        with pytest.raises(ClusterError, match="lost the scheduler; what is finished is kept"):
            list(results)
