"""Keeps a few of a study's candidate sets beside the benchmarks: numbers only, no images.

    python benchmarks/voc/dump_candidates.py STUDY/default

takes from each class's VIS candidates at t = -1 the sets of up to 150 images that have any, spread
evenly over the test images, and writes benchmarks/candidates/CLASS.npz.
"""

import sys
from pathlib import Path

from halfseen.data.candidates import read_candidates, write_candidates

COUNT = 150


def main() -> None:
    study = Path(sys.argv[1])
    target = Path(__file__).parent.parent / "candidates"
    target.mkdir(exist_ok=True)
    for label in sys.argv[2:] or ("car", "motorbike", "bus"):
        shards = sorted((study / "candidates" / f"{label}-VIS").glob("*.npz"))
        found = [part for shard in shards for part in read_candidates(shard)]
        found = [part[part.score >= -1] for part in found]
        found = [part for part in found if len(part)]
        chosen = found[:: max(len(found) // COUNT, 1)][:COUNT]
        write_candidates(target / f"{label}.npz", chosen)
        print(label, len(chosen), "images", sum(map(len, chosen)), "candidates")


if __name__ == "__main__":
    main()
