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

`factor=1.4` and `largest=1` are those of the pyramid, `hog.side=3` and other words that begin with
`hog.` those of hog_variants.py, which then takes the place of `hog`. Two more words are ways to
treat mirror images: `mirror=average` averages the blocks of a level with those of its mirror image,
`mirror=flip` learns from mirrored images too, without components' mirror images. `u=zero` starts u
at 0 instead of at a quantile of responses, `u=learnt` where the first stage leaves it, which then
learns it from negatives beyond the border.
"""

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from hog_variants import HogVariant
from kept_features import KeptNet
from numpy.typing import NDArray

from halfseen.data.dataset import Dataset
from halfseen.data.files import write_atomically
from halfseen.data.voc import read_voc
from halfseen.detections import Detections
from halfseen.evaluate.voc_ap import average_precision
from halfseen.features.descriptor import register
from halfseen.features.hog import Hog
from halfseen.geometry import mirror
from halfseen.learn.folds import split_folds
from halfseen.learn.objective import Objective, U
from halfseen.learn.progress import Run
from halfseen.learn.settings import TrainSettings
from halfseen.learn.state import State
from halfseen.learn.trainer import Trainer, fit_detector
from halfseen.refine.detector import Detector
from halfseen.suppression import suppress

# Ways to suppress duplicates, each with its overlap; and candidates of an image, at most.
WAYS = ("greedy 0.5", "greedy 0.4", "greedy 0.3", "voting 0.4")
MOST = 1000


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


@contextmanager
def start_of_u(kind: str) -> Iterator[None]:
    """While this lasts, u starts in another way."""
    begin, objective = Trainer._start_u, TrainSettings.objective

    def zero(self: Trainer, state: State) -> None:
        for _, bias in self.data.parameters.split(state.vector):
            bias[U] = 0.0

    def learnt(self: TrainSettings, visibility: bool, truncation: bool) -> Objective:
        return objective(self, visibility, True)

    try:
        if kind == "zero":
            Trainer._start_u = zero  # type: ignore[method-assign]
        elif kind == "learnt":
            Trainer._start_u = lambda self, state: None  # type: ignore[method-assign]
            TrainSettings.objective = learnt  # type: ignore[method-assign]
        yield
    finally:
        Trainer._start_u, TrainSettings.objective = begin, objective  # type: ignore[method-assign]


def setting(text: str) -> float | int | bool | str:
    """The value of a setting, as JSON writes it."""
    value: Any = json.loads(text)
    assert isinstance(value, (float, int, bool, str))
    return value


def compare(
    dataset: Dataset, label: str, settings: TrainSettings, turned: str, half: int
) -> dict[str, float]:
    """What a model of one half is worth in images of the other, by each way to suppress."""
    folds = split_folds(dataset, label, 2, 0)
    first, second = folds[half], folds[1 - half]
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
    found = [detector.search(detector.view(test.image(n)), -1.0, MOST) for n in range(len(test))]
    return {
        **{way: judge(test, found, label, way) for way in WAYS},
        "unreached": model.training["unreached"] / model.training["objects"],
        "hidden": model.training["history"][-1]["hidden_share"],
        "shares": [entry["hidden_share"] for entry in model.training["history"]],
        "u": model.training["history"][-1]["u"],
    }


def judge(test: Dataset, found: list[Detections], label: str, way: str) -> float:
    """AP in percent of what is left of the candidates."""
    method, overlap = way.split()
    kept = []
    for part in found:
        chosen = suppress(part, method, overlap=float(overlap))
        kept.append(replace(part[chosen.indices], score=chosen.rank))
    return 100 * float(average_precision(test.truths, kept, label).ap)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voc", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ids", type=Path, required=True)
    parser.add_argument("--features", type=Path, help="where blocks of `net` are kept")
    parser.add_argument("--preset", choices=["net", "default", "paper"], default="net")
    parser.add_argument("--suppression", choices=WAYS, default="voting 0.4")
    parser.add_argument("--half", type=int, choices=[0, 1], default=0, help="what is learnt from")
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
            name = f"{label} {options.preset} {options.half} {text}.json".replace("/", " ")
            path = options.out / name
            if not path.exists():
                start = time.process_time()
                words = dict(word.split("=") for word in text.split())
                variant = {k[4:]: setting(words.pop(k)) for k in list(words) if k[:4] == "hog."}
                register("hog", partial(HogVariant, **variant) if variant else Hog)
                turned, start_u = words.pop("mirror", ""), words.pop("u", "")
                base = TrainSettings.preset(options.preset)
                shape = {k: float(words.pop(k)) for k in ("factor", "largest") if k in words}
                changes: dict[str, Any] = {name: setting(value) for name, value in words.items()}
                pyramid = replace(base.pyramid, **shape)
                settings = replace(base, pyramid=pyramid, **changes)
                with start_of_u(start_u):
                    result = compare(dataset, label, settings, turned, options.half)
                result["seconds"] = time.process_time() - start
                write_atomically(path, json.dumps(result).encode())
            row = json.loads(path.read_text())
            table.setdefault(text or "preset", {})[label] = row[options.suppression]
            aps = ", ".join(f"{way} {row[way]:5.1f}" for way in WAYS)
            print(
                f"{label:12} {text or 'preset':40} {aps}, unreached {row['unreached']:.2f}, "
                f"hidden {row['hidden']:.3f}, {row['seconds']:.0f} s",
                flush=True,
            )
    for text, row in table.items():
        row["mean"] = float(np.mean(list(row.values())))
        print(f"{'mean':12} {text:40} {row['mean']:5.1f}")
    print(json.dumps(table))


if __name__ == "__main__":
    main()
