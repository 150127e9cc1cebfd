"""Detect in a folder of the worst files under a hard limit of memory: python -m tests.worst_files.

Noise of many megapixels, small files that ask for much, damaged ones, long names. The process may
have 1.5 GiB in all (--limit), and `detect` is told to use 900 MiB of them (--memory). Every file
must be there at the end: with detections, or with the reason why it has none. Results with
thousands of categories are suppressed under the same limit. The last line is JSON.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import os
import resource
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from halfseen import cli
from halfseen.data.image import write_image

MIB = 1 << 20
CATEGORIES = 5_000


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    target = io.BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


def make_files(folder: Path, megapixels: float) -> dict[str, bool]:
    """Write the files; return which of them must give detections rather than a reason."""
    rng = np.random.default_rng(0)
    small = Image.fromarray(rng.integers(0, 256, (90, 120, 3), dtype=np.uint8))
    jpeg = encoded(small, "JPEG")
    contents = {
        "flat.gif": encoded(Image.new("P", (10_000, 10_000)), "GIF"),
        "flat.webp": encoded(Image.new("RGB", (9_000, 9_000)), "WEBP", lossless=True),
        "flat.png": encoded(Image.new("RGB", (9_000, 9_000)), "PNG"),
        "comment.ppm": b"P6\n#" + b"x" * 64 * MIB + b"\n2 2\n255\n" + bytes(12),
        "padding.jpg": jpeg[:2] + b"\xff" * 64 * MIB + jpeg[2:],
        "cut.jpg": jpeg[: len(jpeg) // 2],
        "empty.png": b"",
        "text.png": b"hello",
        "deep.tif": encoded(Image.fromarray(np.full((50, 60), 9_999_999, np.int32)), "TIFF"),
        "small.jpg": jpeg,
        "n" * 246 + ".jpg": jpeg,
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    side = int((megapixels * 1e6) ** 0.5)
    noise = rng.integers(0, 256, (side, side, 3), dtype=np.uint8)
    write_image(folder / "noise.jpg", noise)
    write_image(folder / "noise-part.jpg", noise[: side // 2, : side // 2])
    good = {"small.jpg", "n" * 246 + ".jpg", "noise-part.jpg"}
    return {path.name: path.name in good for path in folder.iterdir()}


def status(field: str) -> int:
    """Return a size of this process in bytes, from the kernel."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[field].split()[0]) * 1024


def limited(words: list[str], limit: int, figures: Any) -> None:
    """Run a command in this process, which may have no more than `limit` bytes in all."""
    most = status("VmSize") + limit - status("VmRSS")
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    code = cli.run(words)
    figures.put((code, status("VmHWM")))


def run(words: list[str], limit: int) -> tuple[int, int]:
    """Run a command under a limit in a process of its own; its exit code and largest memory."""
    context = multiprocessing.get_context("fork")
    figures = context.Queue()
    process = context.Process(target=limited, args=(words, limit, figures))
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"{' '.join(words)}: died with {process.exitcode}")
    code, memory = figures.get()
    return int(code), int(memory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, default=1536, metavar="MIB")
    parser.add_argument("--memory", type=int, default=900, metavar="MIB")
    parser.add_argument("--megapixels", type=float, default=25.0)
    parser.add_argument("--model", default="car.fhog")
    options = parser.parse_args()
    os.environ.setdefault("MALLOC_ARENA_MAX", "4")
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        photos, out = top / "photos", top / "out"
        photos.mkdir()
        expected = make_files(photos, options.megapixels)
        words = ["detect", options.model, str(photos), "-o", str(out), "--no-pictures"]
        words += ["--memory", str(options.memory)]
        cli.run(["detect", options.model, str(photos / "small.jpg"), "-q", "--json"])  # compiles
        _, memory = run(words, options.limit * MIB)
        lines = (out / "detections.jsonl").read_text().splitlines()
        found = {Path(r["image"]).name: "detections" in r for r in map(json.loads, lines)}
        if found.keys() != expected.keys():
            raise SystemExit(f"lost: {expected.keys() ^ found.keys()}")
        wrong = [name for name in found if expected[name] and not found[name]]
        if wrong:
            raise SystemExit(f"refused, but expected to fit: {wrong}")
        rows = [
            {"image_id": n % 3, "category_id": n % CATEGORIES, "score": 0.5, "bbox": [n, 5, 40, 30]}
            for n in range(4 * CATEGORIES)
        ]
        (top / "rows.json").write_text(json.dumps(rows))
        words = ["suppress", str(top / "rows.json"), "-o", str(top / "kept.json"), "-q"]
        code, suppressing = run(words, options.limit * MIB)
        if code or not json.loads((top / "kept.json").read_text()):
            raise SystemExit("suppression of many categories failed")
    figures = {
        "files": len(found), "with_detections": sum(found.values()), "limit_mib": options.limit,
        "detect_mib": memory // MIB, "suppress_mib": suppressing // MIB,
    }  # fmt: skip
    print(json.dumps(figures))
    if max(memory, suppressing) > options.limit * MIB:
        raise SystemExit("more memory than allowed")


if __name__ == "__main__":
    main()
