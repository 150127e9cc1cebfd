"""Fuzzes every reader: python tests/fuzz [--seconds 600] [--seed N] [READER ...].

Each reader works in a process of its own, which may grow by 1 GiB. The process leaves each input
in shared memory before it is tried, so that an input that kills it, or keeps it busy for longer
than 20 s of its own time, is known. Inputs at fault are written to fuzz-faults/, and the exit code
is 1. The last line is JSON: how many inputs were tried, and what was found.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import mmap
import multiprocessing
import os
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.mutate import MOST, mutate
from fuzz.readers import Readers
from halfseen.errors import HalfseenError

CORPUS = Path(__file__).parents[1] / "corpus"
GROWTH = 1 << 30  # bytes that a process may grow by
PATIENCE = 20.0  # seconds of processor time for one input
HEAD = 16  # bytes of shared memory before the input: how many were tried, and its length


def corpus(reader: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / reader).iterdir())]


def attempt(readers: Readers, name: str, content: bytes) -> str | None:
    """None if all is well, else what went wrong."""
    try:
        getattr(readers, name)(content)
    except HalfseenError:
        return None
    except Exception:
        return traceback.format_exc()
    return None


def work(name: str, seconds: float, seed: int, shared: mmap.mmap, faults: Path) -> None:
    """One reader, in its own process."""
    folder = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    readers = Readers(Path(folder))
    files = corpus(name)
    for content in files:  # imports and compiles all there is to
        attempt(readers, name, content)
    _limit_growth()
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())  # libtiff speaks there
    warnings.simplefilter("error")
    rng = random.Random(seed)
    tried, seen = 0, set()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        content = files[tried] if tried < len(files) else mutate(rng.choice(files), files, rng)
        tried += 1
        shared[HEAD : HEAD + len(content)] = content
        shared[:HEAD] = tried.to_bytes(8, "little") + len(content).to_bytes(8, "little")
        wrong = attempt(readers, name, content)
        if wrong is not None and wrong not in seen:
            seen.add(wrong)
            _keep(faults, name, content, wrong)
    for path in Path(folder).iterdir():
        path.unlink()
    os.rmdir(folder)


def _limit_growth() -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + GROWTH, size + GROWTH))


def _keep(faults: Path, name: str, content: bytes, wrong: str) -> None:
    faults.mkdir(exist_ok=True)
    stem = f"{name}-{hashlib.sha256(content).hexdigest()[:12]}"
    (faults / stem).write_bytes(content)
    (faults / f"{stem}.txt").write_text(wrong)
    print(f"FAULT {name}: {wrong.strip().splitlines()[-1][:200]} ({faults / stem})", flush=True)


def watch(name: str, seconds: float, seed: int, faults: Path) -> tuple[int, int]:
    """Runs one reader's process; the inputs tried, and its largest memory in bytes."""
    tried = most = 0
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        shared = mmap.mmap(-1, HEAD + MOST)
        process = multiprocessing.get_context("fork").Process(
            target=work, args=(name, left, seed + tried, shared, faults)
        )
        process.start()
        wrong = _follow(process, shared)
        count = int.from_bytes(shared[:8], "little")
        tried += count
        if wrong is None and process.exitcode:
            wrong = f"the process died with {process.exitcode}"
        if wrong is not None:
            length = int.from_bytes(shared[8:HEAD], "little")
            _keep(faults, name, shared[HEAD : HEAD + length], wrong)
        most = max(most, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
        if count == 0:
            break
    return tried, most


def _follow(process: Any, shared: mmap.mmap) -> str | None:
    """Waits for a process; kills it if one input takes all its time."""
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
    """Processor time in seconds: a crowded machine must not look like a hang."""
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
    options = parser.parse_args(words)
    names = options.readers or sorted(path.name for path in CORPUS.iterdir())
    tried, memory = {}, 0
    for name in names:
        tried[name], most = watch(name, options.seconds / len(names), options.seed, options.faults)
        memory = max(memory, most)
        print(f"{name}: {tried[name]} inputs", flush=True)
    faults = sorted(options.faults.glob("*.txt")) if options.faults.exists() else []
    if memory > GROWTH:
        faults.append(Path("memory"))
    summary = {
        "inputs": sum(tried.values()), "readers": tried, "faults": [f.stem for f in faults],
        "memory_mib": memory >> 20, "seconds": options.seconds, "seed": options.seed,
    }  # fmt: skip
    print(json.dumps(summary))
    return 1 if faults or not all(tried.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
