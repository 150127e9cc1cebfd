"""Fuzz every reader: python -m tests.fuzz [--seconds 600] [--seed N] [--corpus] [READER ...].

Each reader works in a process of its own. An input is at fault if it raises anything but our
errors, takes more than 500 MiB or 10 s of processor time, or kills the process, which may grow by
1 GiB. The process leaves each input in shared memory before it is tried, so that one that kills
it, or keeps it busy for 20 s, is known. Inputs at fault are written to fuzz-faults/, and the exit
code is 1. The last line is JSON: how many inputs were tried, the most memory and time that one
took, and what was found. --corpus reads the corpus and what multiplies it only, without damage:
with NUMBA_BOUNDSCHECK=1, a kernel that reads outside its arrays is found.
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
from tests.fuzz.multiply import MOST, multiply
from tests.fuzz.mutate import mutate
from tests.fuzz.readers import Readers

CORPUS = Path(__file__).parents[1] / "corpus"
ALSO = {"photo": ("image",), "suppression": ("results",)}  # corpora that serve other readers too
GROWTH = 1 << 30  # bytes that a process may grow by
MEMORY = 500 << 20  # bytes that one input may take
SECONDS = 10.0  # of processor time that one input may take
PATIENCE = 20.0  # seconds of processor time after which it is ended
MULTIPLIED = 24  # of each file of the corpus, before anything is damaged
SHARE = 1 / 64  # of the inputs after these that multiply; they take much longer
HEAD = 32  # bytes of shared memory before the input: inputs tried, length, most memory and time


def corpus(reader: str) -> list[bytes]:
    """Return the files that a reader starts from."""
    folders = [CORPUS / reader, *(CORPUS / other for other in ALSO.get(reader, ()))]
    return [path.read_bytes() for folder in folders for path in sorted(folder.iterdir())]


def attempt(readers: Readers, name: str, content: bytes) -> str | None:
    """Return None if all is well, else what went wrong."""
    try:
        getattr(readers, name)(content)
    except HalfseenError:
        return None
    except Exception:
        return traceback.format_exc()
    return None


class Meter:
    """The memory and processor time that one input takes."""

    def __init__(self) -> None:
        self.base = self._peak()
        self.memory = self.most_memory = 0
        self.seconds = self.most_seconds = 0.0
        self.start = time.process_time()

    def begin(self) -> None:
        self.start = time.process_time()

    def end(self) -> str | None:
        """Return what an input took beyond the limits, or None."""
        self.seconds = time.process_time() - self.start
        self.memory = self._peak() - self.base
        self.most_seconds = max(self.most_seconds, self.seconds)
        self.most_memory = max(self.most_memory, self.memory)
        if self.memory > MEMORY // 4:  # let the next one's peak be its own
            Path("/proc/self/clear_refs").write_text("5")
        if self.memory > MEMORY:
            return f"more than {MEMORY >> 20} MiB"
        return f"more than {SECONDS:g} s" if self.seconds > SECONDS else None

    @staticmethod
    def _peak() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def inputs(files: list[bytes], rng: random.Random, damage: bool) -> Iterator[bytes]:
    """Yield the corpus, what multiplies it, and then damaged files for ever."""
    yield from files
    for content in files:
        yield from (multiply(content, rng) for _ in range(MULTIPLIED))
    while damage:
        content = rng.choice(files)
        yield multiply(content, rng) if rng.random() < SHARE else mutate(content, files, rng)


def work(name: str, end: float, seed: int, shared: mmap.mmap, faults: Path) -> None:
    """Try inputs of one reader in this process until a time, or without one the corpus alone."""
    folder = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    readers = Readers(Path(folder))
    files = corpus(name)
    for content in files:  # imports and compiles all there is to
        attempt(readers, name, content)
    _limit_growth()
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())  # libtiff speaks there
    warnings.simplefilter("error")
    seen, meter = set(), Meter()
    source = inputs(files, random.Random(seed), end < math.inf)
    for tried, content in enumerate(source, start=1):
        shared[HEAD : HEAD + len(content)] = content
        figures = (tried, len(content), meter.most_memory, round(meter.most_seconds * 1000))
        shared[:HEAD] = struct.pack("<4q", *figures)
        meter.begin()
        wrong = attempt(readers, name, content)
        wrong = meter.end() or wrong
        if wrong is not None and wrong not in seen:
            seen.add(wrong)
            _keep(faults, name, content, wrong)
        if time.monotonic() > end:
            break
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


def watch(name: str, end: float, seed: int, faults: Path) -> Outcome:
    """Run one reader's process, and another where an input has killed it."""
    total = Outcome()
    while time.monotonic() < end:
        shared = mmap.mmap(-1, HEAD + MOST)
        process = multiprocessing.get_context("fork").Process(
            target=work, args=(name, end, seed + total.tried, shared, faults)
        )
        process.start()
        wrong = _follow(process, shared)
        tried, length, memory, milliseconds = struct.unpack("<4q", shared[:HEAD])
        total = Outcome(
            total.tried + tried,
            max(total.memory, memory),
            max(total.milliseconds, milliseconds),
        )
        if wrong is None and process.exitcode:
            wrong = f"the process died with {process.exitcode}"
        if wrong is not None:
            _keep(faults, name, shared[HEAD : HEAD + length], wrong)
        if tried == 0 or end == math.inf:
            break
    return total


def _follow(process: Any, shared: mmap.mmap) -> str | None:
    """Wait for a process; kill it if one input takes all its time."""
    last, since = -1, 0.0
    while process.is_alive():
        process.join(0.5)
        now, busy = int.from_bytes(shared[:8], "little"), _busy(process.pid)
        if now != last:
            last, since = now, busy
        elif now and busy - since > PATIENCE:
            process.kill()
            process.join()
            return f"one input took more than {PATIENCE:g} s"
    return None


def _busy(pid: int) -> float:
    """Return processor time in seconds: a crowded machine must not look like a hang."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="fuzz")
    parser.add_argument("readers", nargs="*", metavar="READER")
    parser.add_argument("--seconds", type=float, default=600.0, help="for all readers together")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--faults", type=Path, default=Path("fuzz-faults"))
    parser.add_argument("--corpus", action="store_true", help="the corpus alone, undamaged")
    options = parser.parse_args(words)
    names = options.readers or sorted(path.name for path in CORPUS.iterdir())
    share = math.inf if options.corpus else options.seconds / len(names)
    done: dict[str, Outcome] = {}
    for name in names:
        done[name] = watch(name, time.monotonic() + share, options.seed, options.faults)
        print(
            f"{name}: {done[name].tried} inputs, at most {done[name].memory >> 20} MiB and "
            f"{done[name].milliseconds} ms each",
            flush=True,
        )
    faults = sorted(options.faults.glob("*.txt")) if options.faults.exists() else []
    summary = {
        "inputs": sum(one.tried for one in done.values()),
        "readers": {name: one.tried for name, one in done.items()},
        "faults": [f.stem for f in faults],
        "memory_mib": max(one.memory for one in done.values()) >> 20,
        "slowest_ms": max(one.milliseconds for one in done.values()),
        "seconds": options.seconds,
        "seed": options.seed,
    }
    print(json.dumps(summary))
    return 1 if faults or not all(one.tried for one in done.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
