"""Fuzz readers, commands and routes: python -m tests.fuzz [--seconds 600] [--seed N] [READER ...].

As many processes as there are cores each try inputs of one reader after another. An input is at
fault if it raises anything but our errors, takes more than 500 MiB or 10 s of processor time, or
kills the process, which may grow by 1 GiB. The process leaves each input in shared memory before
it is tried, so that one that kills it, or keeps it busy for 20 s, is known. Inputs at fault are
written to fuzz-faults/, and the exit code is 1. The last line is JSON: how many inputs were tried,
the most memory and time that one took, and what was found.

--corpus reads the corpus and what multiplies it only, without damage, and says which compiled
kernels that has run: with NUMBA_BOUNDSCHECK=1, one that reads outside its arrays is found. The
exit code is 1 if a kernel was not run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import mmap
import multiprocessing
import os
import random
import resource
import shutil
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from halfseen.errors import HalfseenError
from tests.fuzz.commands import Commands
from tests.fuzz.coverage import all_kernels, kernels_run
from tests.fuzz.multiply import MOST, multiply
from tests.fuzz.mutate import mutate

CORPUS = Path(__file__).parents[1] / "corpus"
DATASETS = (
    "bdd", "caltech", "citypersons", "citypersons_mat", "coco", "cocoa", "crowdhuman", "kaist",
    "kitti", "mot", "visdrone", "voc",
)  # fmt: skip
# Corpora that serve other readers too, and those of readers that have none of their own.
ALSO = {
    "suppression": ("results",), "detect": ("image",),
    "convert": DATASETS, "check": ("coco", "voc"), "see": ("results",),
    "arrays": ("image", "run_lengths"), "truth": ("coco", "cocoa", "crowdhuman", "mot"),
    "evaluate": ("results", "voc_results", "mot", "kitti"),
}  # fmt: skip
LATE = ("request", "shard", "detect", "see", "check", "train")  # start threads, which do not fork
GROWTH = 1 << 30  # bytes that a process may grow by
MEMORY = 500 << 20  # bytes that one input may take
SECONDS = 10.0  # of processor time that one input may take
PATIENCE = 20.0  # seconds of processor time after which it is ended
MULTIPLIED = 8  # of each file of the corpus, where nothing is damaged
SHARE = 1 / 128  # of the inputs that multiply; they take much longer
TICK = 0.05  # seconds between looks at the processes
HEAD = 32  # bytes of shared memory before the input: inputs tried, length, most memory and time


def files_of(*names: str) -> list[Path]:
    """Return the files of corpora; a reader need not have one of its own."""
    folders = [CORPUS / name for name in names]
    return [path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir())]


def corpus(reader: str) -> list[bytes]:
    """Return what a reader starts from."""
    return [path.read_bytes() for path in files_of(reader, *ALSO.get(reader, ()))]


def attempt(readers: Commands, name: str, content: bytes) -> str | None:
    """Return None if all is well, else what went wrong."""
    try:
        getattr(readers, name)(content)
    except HalfseenError:
        return None
    except Exception:
        return traceback.format_exc()
    return None


class Meter:
    """The memory and processor time that one input takes, in processes that it starts too."""

    def __init__(self) -> None:
        self.base = self._peak()
        self.memory = self.most_memory = 0
        self.seconds = self.most_seconds = 0.0
        self.start = self._time()

    def begin(self) -> None:
        self.start = self._time()

    def end(self) -> str | None:
        """Return what an input took beyond the limits, or None."""
        self.seconds = self._time() - self.start
        self.memory = max(self._peak() - self.base, self._peak(resource.RUSAGE_CHILDREN))
        self.most_seconds = max(self.most_seconds, self.seconds)
        self.most_memory = max(self.most_memory, self.memory)
        if self.memory > MEMORY // 4:  # let the next one's peak be its own
            Path("/proc/self/clear_refs").write_text("5")
        if self.memory > MEMORY:
            return f"more than {MEMORY >> 20} MiB"
        return f"more than {SECONDS:g} s" if self.seconds > SECONDS else None

    @staticmethod
    def _time() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + children.ru_utime + children.ru_stime

    @staticmethod
    def _peak(of: int = resource.RUSAGE_SELF) -> int:
        return resource.getrusage(of).ru_maxrss * 1024


def inputs(files: list[bytes], rng: random.Random, damage: bool) -> Iterator[bytes]:
    """Yield the corpus, and then what multiplies it, among damaged files for ever."""
    yield from files
    if not damage:
        for content in files:
            yield from (multiply(content, rng) for _ in range(MULTIPLIED))
    while damage:
        content = rng.choice(files)
        yield multiply(content, rng) if rng.random() < SHARE else mutate(content, files, rng)


class Task(NamedTuple):
    """The work of one process: a reader, until a time, or without one the corpus alone."""

    name: str
    end: float
    seed: int
    faults: Path
    notes: Path

    @property
    def damage(self) -> bool:
        return self.end < math.inf


def work(task: Task, shared: mmap.mmap) -> None:
    """Try inputs of one reader in this process."""
    folder = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    readers, files = Commands(Path(folder)), corpus(task.name)
    for content in files:  # imports and compiles all there is to
        attempt(readers, task.name, content)
    _limit_growth()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libtiff speaks there
    warnings.simplefilter("error")
    seen, meter = set(), Meter()
    for tried, content in enumerate(inputs(files, random.Random(task.seed), task.damage), start=1):
        shared[HEAD : HEAD + len(content)] = content
        figures = (tried, len(content), meter.most_memory, round(meter.most_seconds * 1000))
        shared[:HEAD] = struct.pack("<4q", *figures)
        meter.begin()
        wrong = attempt(readers, task.name, content)
        wrong = meter.end() or wrong
        if wrong is not None and wrong not in seen:
            seen.add(wrong)
            _keep(task.faults, task.name, content, wrong)
        if time.monotonic() > task.end:
            break
    if not task.damage:
        (task.notes / task.name).write_text("\n".join(kernels_run()))
    shutil.rmtree(folder, ignore_errors=True)


def _limit_growth() -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + GROWTH, size + GROWTH))


def _keep(faults: Path, name: str, content: bytes, wrong: str) -> None:
    faults.mkdir(exist_ok=True)
    stem = f"{name}-{hashlib.sha256(content).hexdigest()[:12]}"
    (faults / stem).write_bytes(content)
    (faults / f"{stem}.txt").write_text(wrong, errors="backslashreplace")
    last = ascii(wrong.strip().splitlines()[-1][:200])
    print(f"FAULT {name}: {last} ({faults / stem})", flush=True)


class Outcome(NamedTuple):
    """How many inputs were tried, and the most bytes and milliseconds that one took."""

    tried: int = 0
    memory: int = 0
    milliseconds: int = 0

    def __add__(self, other: object) -> Outcome:
        assert isinstance(other, Outcome)
        return Outcome(
            self.tried + other.tried,
            max(self.memory, other.memory),
            max(self.milliseconds, other.milliseconds),
        )


class Watch:
    """One reader's process, and others after it where an input has killed it."""

    def __init__(self, task: Task) -> None:
        self.task, self.outcome = task, Outcome()
        self._start()

    def _start(self) -> None:
        self.shared = mmap.mmap(-1, HEAD + MOST)
        task = self.task._replace(seed=self.task.seed + self.outcome.tried)
        self.process = multiprocessing.get_context("fork").Process(
            target=work, args=(task, self.shared)
        )
        self.process.start()
        self.last, self.since = -1, 0.0

    def done(self) -> bool:
        """Whether the reader's time is over; a process that hangs or died is replaced."""
        alive = self.process.is_alive()
        tried, length, memory, milliseconds = struct.unpack("<4q", self.shared[:HEAD])
        wrong = None
        if alive:
            busy = _busy(self.process.pid)
            if tried != self.last:
                self.last, self.since = tried, busy
            if not tried or busy - self.since <= PATIENCE:
                return False
            wrong = f"one input took more than {PATIENCE:g} s"
            self.process.kill()
        self.process.join()
        self.outcome += Outcome(tried, memory, milliseconds)
        if wrong is None and self.process.exitcode:
            wrong = f"the process died with {self.process.exitcode}"
        if wrong is not None:
            content = self.shared[HEAD : HEAD + length]
            _keep(self.task.faults, self.task.name, content, wrong)
        if wrong is None or not tried or time.monotonic() > self.task.end or not self.task.damage:
            return True
        self._start()
        return False


def _busy(pid: int | None) -> float:
    """Return processor time in seconds: a crowded machine must not look like a hang."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def warm(names: list[str]) -> None:
    """Import and compile once what the processes, which are forked, have from the beginning."""
    with tempfile.TemporaryDirectory() as folder:
        readers = Commands(Path(folder))
        for name in names:
            if name not in LATE:
                for content in corpus(name):
                    attempt(readers, name, content)


def run(names: list[str], options: Any) -> dict[str, Outcome]:
    """Let each reader have its share of the time, as many at once as there are cores."""
    waiting, active = list(names), dict[str, Watch]()
    done: dict[str, Outcome] = {}
    finish = math.inf if options.corpus else time.monotonic() + options.seconds
    while waiting or active:
        while waiting and len(active) < options.jobs:
            name = waiting.pop(0)
            left = max(finish - time.monotonic(), 0)
            rounds = math.ceil((len(waiting) + 1) / options.jobs)
            end = time.monotonic() + left / rounds
            faults = options.faults.absolute()
            active[name] = Watch(Task(name, end, options.seed, faults, options.notes))
        time.sleep(TICK)
        for name, watch in list(active.items()):
            if watch.done():
                one = done[name] = active.pop(name).outcome
                print(
                    f"{name}: {one.tried} inputs, at most {one.memory >> 20} MiB and "
                    f"{one.milliseconds} ms each",
                    flush=True,
                )
    return done


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="fuzz")
    parser.add_argument("readers", nargs="*", metavar="READER")
    parser.add_argument("--seconds", type=float, default=600.0, help="for all readers together")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at once")
    parser.add_argument("--faults", type=Path, default=Path("fuzz-faults"))
    parser.add_argument("--corpus", action="store_true", help="the corpus alone, undamaged")
    options = parser.parse_args(words)
    names = options.readers or Commands.names()
    with tempfile.TemporaryDirectory() as notes:
        options.notes = Path(notes)
        if not options.corpus:
            warm(names)
        start = time.monotonic()
        done = run(names, options)
        known = {name for path in options.notes.iterdir() for name in path.read_text().split()}
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    faults = sorted(options.faults.glob("*.txt")) if options.faults.exists() else []
    summary = {
        "inputs": sum(one.tried for one in done.values()),
        "readers": {name: one.tried for name, one in sorted(done.items())},
        "faults": [f.stem for f in faults],
        "memory_mib": max(one.memory for one in done.values()) >> 20,
        "slowest_ms": max(one.milliseconds for one in done.values()),
        "seconds": round(time.monotonic() - start, 1),
        "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
        "seed": options.seed,
    }
    missing: set[str] = set()
    if options.corpus:
        kernels = all_kernels()
        missing = set() if options.readers else kernels - known
        summary["kernels"] = {"run": len(known), "of": len(kernels), "not_run": sorted(missing)}
    print(json.dumps(summary))
    return 1 if faults or missing or not all(one.tried for one in done.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
