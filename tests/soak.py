"""Kills `detect` and `train` at random moments, again and again, and compares bytes.

python -m tests.soak [--kills 20] [--images 300] [--seed N]. Each command is killed (SIGKILL) that
many times at moments drawn over its whole duration, gone on with after each, and must end in the
files of an unbroken run: nothing lost, nothing twice. The last line is JSON.

A command runs in a fork of this process, which has done it once: so kills meet the work itself,
not the loading of libraries and kernels before it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from halfseen import cli
from halfseen.data.image import write_image
from halfseen.data.scenes import render_scenes
from halfseen.data.voc import write_voc
from halfseen.model.store import save
from tests.builders import make_image, make_model, make_noise


def run(words: list[str], seconds: float | None = None) -> bool:
    """Runs a command in a process of its own, killed after a time; whether it came to its end."""
    with tempfile.TemporaryFile() as message:

        def command() -> None:
            os.dup2(message.fileno(), sys.stderr.fileno())
            os._exit(cli.run(words))

        process = multiprocessing.get_context("fork").Process(target=command)
        process.start()
        process.join(seconds)
        if process.is_alive():
            process.kill()
            process.join()
            return False
        if process.exitcode:
            message.seek(0)
            raise SystemExit(f"{' '.join(words)}: {message.read().decode()}")
    return True


def soak(
    command: Callable[[Path], list[str]], files: Callable[[Path], dict[str, bytes]], place: Path,
    kills: int, rng: random.Random,
) -> dict[str, float]:  # fmt: skip
    """Kills a command `kills` times; how often it came to its end in between."""
    whole = place / "whole"
    whole.mkdir()
    assert cli.run(command(whole)) == 0
    expected = files(whole)
    assert expected
    shutil.rmtree(whole)
    whole.mkdir()
    before = time.monotonic()
    run(command(whole))
    length = time.monotonic() - before
    assert files(whole) == expected
    done = finished = 0
    folder = place / "killed"
    while done < kills or folder.exists():
        folder.mkdir(exist_ok=True)
        if run(command(folder), rng.uniform(0, length) if done < kills else None):
            if files(folder) != expected:
                raise SystemExit(f"{folder}: other bytes than the unbroken run in {whole}")
            shutil.rmtree(folder)
            finished += 1
        else:
            done += 1
    return {"kills": done, "finished_and_equal": finished, "unbroken_seconds": round(length, 1)}


def detect_files(folder: Path) -> dict[str, bytes]:
    shards = {path.name: path.read_bytes() for path in (folder / "shards").iterdir()}
    images = [json.loads(line)["image"] for text in shards.values() for line in text.splitlines()]
    assert len(images) == len(set(images)), "an image was done twice"
    return shards


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        photos, model = top / "photos", top / "model.safetensors"
        photos.mkdir()
        for n in range(options.images):
            truth = make_noise("n", n) if n % 2 else make_image("p", [(n % 90, 16)])
            write_image(photos / f"{n:05}.png", truth.source)
        save(make_model(), model)
        write_voc(render_scenes(14, seed=5, classes=["car"], size=(160, 214)), top / "voc", "train")

        def detect(folder: Path) -> list[str]:
            return ["detect", str(model), str(photos), "-o", str(folder), "--shard", "20", "-q"]

        def train(folder: Path) -> list[str]:
            out = folder / "car.safetensors"
            words = ["train", str(top / "voc"), "--class", "car", "-o", str(out), "-q"]
            small = {"blocks": 24, "updates": 2, "rounds": 2, "mining_images": 8, "stop": 0,
                     "per_image": 30, "iterations": 8, "store_bytes": 4 << 20}  # fmt: skip
            words += [word for k, v in small.items() for word in ("--set", f"{k}={v}")]
            return [*words, "--resume"] if (folder / f"{out.name}.checkpoint").exists() else words

        figures = {}
        for what, command, files in (
            ("detect", detect, detect_files),
            ("train", train, lambda f: {"model": (f / "car.safetensors").read_bytes()}),
        ):
            place = top / what
            place.mkdir()
            figures[what] = soak(command, files, place, options.kills, rng)
            print(f"{what}: {figures[what]}", flush=True)
    print(json.dumps({**figures, "seed": options.seed}))


if __name__ == "__main__":
    main()
