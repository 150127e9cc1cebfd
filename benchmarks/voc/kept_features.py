"""A descriptor that keeps the blocks of each level in a folder, and never makes them twice.

    python benchmarks/voc/kept_features.py VOCDEVKIT/VOC2012 --ids val.txt --out features --half

fills the folder with all levels of the preset `net`. A level is known by the hash of its pixels, so
that one folder serves training, search and masks, of all classes and in any order.
"""

import argparse
import hashlib
import time
from dataclasses import dataclass
from io import BytesIO
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from halfseen.arrays import Float32
from halfseen.data.files import write_atomically
from halfseen.data.image import read_image
from halfseen.features.net import Net
from halfseen.features.pyramid import PyramidSettings, plan_levels

PYRAMID = PyramidSettings(1.25, 2.0)
# Blocks along a side of the smallest level that is kept ahead.
SMALLEST = 4


@dataclass(frozen=True)
class KeptNet(Net):
    """`Net`, with its blocks in `folder`; `half` keeps them in half precision."""

    folder: str = ""
    half: bool = False

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.cell, self.backbone, self.sha256, self.folder, self.half)

    def __call__(self, level: Float32) -> Float32:
        digest = hashlib.sha1(f"{level.shape}{self.sha256}".encode())
        digest.update(level.tobytes())
        key = digest.hexdigest()
        path = Path(self.folder, key[:2], f"{key[2:]}.npy")
        if path.exists():
            kept: Float32 = np.load(path).astype(np.float32, copy=False)
            return kept
        blocks = super().__call__(level)
        content = BytesIO()
        np.save(content, blocks.astype(np.float16 if self.half else np.float32))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content.getvalue())
        return blocks

    def options(self) -> dict[str, Any]:
        return {"cell": self.cell, "backbone": self.backbone, "sha256": self.sha256}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voc", type=Path)
    parser.add_argument("--ids", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--half", action="store_true")
    parser.add_argument("--reverse", action="store_true", help="begin with the last")
    parser.add_argument("--images", type=int, help="a random sample of so many, with seed 0")
    options = parser.parse_args()
    ids = options.ids.read_text().split()
    order = np.random.default_rng(0).permutation(len(ids))[: options.images]
    order = order[::-1] if options.reverse else order
    net = KeptNet(folder=str(options.out), half=options.half)
    start = time.time()
    for n, i in enumerate(order):
        image = read_image(options.voc / "JPEGImages" / f"{ids[i]}.jpg")
        plans = plan_levels(image, PYRAMID)
        for plan in takewhile(lambda plan: min(net.grid(*plan.size)) >= SMALLEST, plans):
            net(plan.make().pixels)
        if n % 50 == 49:
            print(n + 1, f"{(time.time() - start) / (n + 1):.3f} s an image", flush=True)


if __name__ == "__main__":
    main()
