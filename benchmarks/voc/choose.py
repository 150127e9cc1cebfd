"""Compares settings of training: learnt on half of train, tested on the other.

    python benchmarks/voc/choose.py VOC OUT --ids train.txt --features features --class car
        --try "" --try components=3 --try "blocks=100 regularisation=3.0"
    python benchmarks/voc/choose.py VOC OUT --ids train.txt --preset paper --class car --try ""

Each `--try` changes some settings of the preset, `net` unless another is named; "" is the preset. A
model of each class is learnt on the first half of the images, drawn with seed 0, and searches those
of the second that show the class, and as many again that do not. The AP of such a part is higher
than on all images: compare within the table only. Beside it stand the share of objects that no
window reaches, and the share of the positives' blocks that VIS calls hidden. OUT keeps what is
finished. The last line printed is JSON.

`factor=1.4` and `largest=1` are those of the pyramid. Two more words are ways to treat mirror
images: `mirror=average` averages the blocks of a level with those of its mirror image,
`mirror=flip` learns from mirrored images too, without components' mirror images.
"""

import argparse
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from kept_features import KeptNet
from numpy.typing import NDArray

from halfseen.data.dataset import Dataset
from halfseen.data.files import write_atomically
from halfseen.data.voc import read_voc
from halfseen.evaluate.voc_ap import average_precision
from halfseen.features.descriptor import register
from halfseen.geometry import mirror
from halfseen.learn.folds import split_folds
from halfseen.learn.progress import Run
from halfseen.learn.settings import TrainSettings
from halfseen.learn.trainer import fit_detector
from halfseen.refine.detector import Detector


class AveragedNet(KeptNet):
    """Blocks that are the mean of a level's and of its mirror image's, put back in place."""

    def __call__(self, level: NDArray[np.float32]) -> NDArray[np.float32]:
        pad = -level.shape[2] % self.cell
        level = np.pad(level, [(0, 0), (0, 0), (0, pad)], "edge")
        there = super().__call__(np.ascontiguousarray(level[:, :, ::-1]))
        mean = (super().__call__(level) + there[:, ::-1]) / 2
        size = np.linalg.norm(mean, axis=2, keepdims=True)
        blocks: NDArray[np.float32] = mean * (self._found.length / np.maximum(size, 1e-6))
        return blocks


def with_mirrored(dataset: Dataset, label: str) -> Dataset:
    """The images, and those that show the class once more, mirrored."""
    more = []
    for i, truth in enumerate(dataset):
        if (truth.label == label).any():
            width = truth.size[1]
            turned = replace(
                truth,
                image=f"{truth.image} mirrored",
                source=np.ascontiguousarray(dataset.image(i)[:, ::-1]),
                box=mirror(truth.box, width),
                full=mirror(truth.full, width),
                read_mask=None,
            )
            more.append(turned)
    return replace(dataset, truths=(*dataset.truths, *more))


def setting(text: str) -> float | int | bool | str:
    """The value of a setting, as JSON writes it."""
    value: Any = json.loads(text)
    assert isinstance(value, (float, int, bool, str))
    return value


def compare(
    dataset: Dataset, label: str, settings: TrainSettings, turned: str, method: str
) -> dict[str, float]:
    """What a model of the first half is worth in images of the second."""
    first, second = split_folds(dataset, label, 2, 0)
    lessons = dataset[first]
    if turned == "flip":
        lessons, settings = with_mirrored(lessons, label), replace(settings, mirrored=False)
    elif turned == "average":
        settings = replace(settings, descriptor="averaged")
    shown = np.array([bool((truth.label == label).any()) for truth in dataset[second]])
    rng = np.random.default_rng(0)
    others = rng.permutation(np.flatnonzero(~shown))[: max(int(shown.sum()), 300)]
    test = dataset[second[np.sort(np.concatenate([np.flatnonzero(shown), others]))]]
    model = fit_detector(lessons, label, settings, Run(cores=1))
    detector = Detector(model, cores=1)
    found = [detector.detect(test.image(n), method=method) for n in range(len(test))]
    return {
        "AP": 100 * average_precision(test.truths, found, label).ap,
        "unreached": model.training["unreached"] / model.training["objects"],
        "hidden": model.training["history"][-1]["hidden_share"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voc", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ids", type=Path, required=True)
    parser.add_argument("--features", type=Path, help="where blocks of `net` are kept")
    parser.add_argument("--preset", choices=["net", "default", "paper"], default="net")
    parser.add_argument("--suppression", default="voting")
    parser.add_argument("--class", dest="labels", action="append", required=True)
    parser.add_argument("--try", dest="tries", action="append", required=True)
    options = parser.parse_args()
    register("net", partial(KeptNet, folder=str(options.features)))
    register("averaged", partial(AveragedNet, folder=str(options.features)))
    dataset = read_voc(options.voc, str(options.ids))
    options.out.mkdir(parents=True, exist_ok=True)
    table: dict[str, dict[str, float]] = {}
    for label in options.labels:
        for text in options.tries:
            path = options.out / f"{label} {options.preset} {text}.json".replace("/", " ")
            if not path.exists():
                words = dict(word.split("=") for word in text.split())
                turned = words.pop("mirror", "")
                base = TrainSettings.preset(options.preset)
                shape = {k: float(words.pop(k)) for k in ("factor", "largest") if k in words}
                changes: dict[str, Any] = {name: setting(value) for name, value in words.items()}
                pyramid = replace(base.pyramid, **shape)
                settings = replace(base, pyramid=pyramid, **changes)
                result = compare(dataset, label, settings, turned, options.suppression)
                write_atomically(path, json.dumps(result).encode())
            row = json.loads(path.read_text())
            table.setdefault(text or "preset", {})[label] = row["AP"]
            print(
                f"{label:12} {text or 'preset':40} AP {row['AP']:5.1f}, unreached "
                f"{row['unreached']:.2f}, hidden {row['hidden']:.3f}",
                flush=True,
            )
    for text, row in table.items():
        row["mean"] = float(np.mean(list(row.values())))
        print(f"{'mean':12} {text:40} {row['mean']:5.1f}")
    print(json.dumps(table))


if __name__ == "__main__":
    main()
