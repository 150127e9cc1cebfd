"""Learns the calibrations and mask heads of models on network blocks.

    python benchmarks/voc/finish_net.py VOC MODELS OUT --train train.txt --features features

takes MODELS/CLASS-VIS.safetensors, which train_net.py made, and writes OUT/CLASS-VIS.safetensors.
What is there is not learnt again. The blocks of each level are kept in `features`: see
kept_features.py. A head learns from fewer pasted windows than one on `fhog` (`--windows`), as each
is a run of the network. `--figures` leaves calibrations and heads as they are and learns only what
object and ground of a head's class look like.
"""

import argparse
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from kept_features import KeptNet

from halfseen.data.dataset import Dataset
from halfseen.data.voc import read_voc
from halfseen.features.descriptor import register
from halfseen.features.net import Net
from halfseen.learn.masks.head import learn_figure, learn_masks
from halfseen.learn.masks.samples import ObjectSamples, Samples, collect_samples
from halfseen.learn.probability import learn_calibration
from halfseen.learn.progress import Run
from halfseen.learn.settings import MaskSettings
from halfseen.model.mixture import Mixture
from halfseen.model.store import load, save
from halfseen.refine.figure import Surroundings


def with_figures(dataset: Dataset, model: Mixture) -> Mixture:
    """The model with the figures of its mask head learnt anew, from its whole objects."""
    assert model.head is not None
    settings = MaskSettings(windows=1, fewest=1, most=1)
    parts: list[list[ObjectSamples]] = [[] for _ in model.components]
    for part in collect_samples(dataset, model, settings, 0):
        parts[part.component].append(part)
    learnt = []
    for own in parts:
        around = zip(*(part.around for part in own), strict=True)
        joined = Surroundings(*(np.concatenate(rows) for rows in around))
        samples = Samples.stack([part.samples for part in own])
        learnt.append(learn_figure(samples, joined, settings))
    figure, looks = zip(*learnt, strict=True)
    return replace(model, head=replace(model.head, figure=figure, looks=looks))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("voc", "models", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--class", dest="labels", action="append", help="default: all")
    parser.add_argument("--windows", type=int, default=6000)
    parser.add_argument("--no-grouping", action="store_true")
    parser.add_argument("--figures", action="store_true", help="only those of models with heads")
    options = parser.parse_args()
    dataset = read_voc(options.voc, str(options.train))
    settings = MaskSettings(windows=options.windows, grouping=not options.no_grouping)
    options.out.mkdir(parents=True, exist_ok=True)
    for label in options.labels or dataset.classes:
        path = options.out / f"{label}-VIS.safetensors"
        if path.exists():
            continue
        start = time.time()
        if options.figures:
            save(with_figures(dataset, load(options.models / path.name)), path)
            print(f"{label}: {time.time() - start:.0f} s", flush=True)
            continue
        register("net", partial(KeptNet, folder=str(options.features)))
        model = learn_calibration(dataset, load(options.models / path.name), run=Run(cores=1))
        save(model, path.with_suffix(".part"))
        register("net", Net)  # no two pasted windows are alike: nothing to keep
        model = learn_masks(dataset, load(path.with_suffix(".part")), settings)
        save(model, path)
        path.with_suffix(".part").unlink()
        print(f"{label}: {time.time() - start:.0f} s, {model}", flush=True)


if __name__ == "__main__":
    main()
