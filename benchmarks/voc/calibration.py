"""Calibrated scores on VOC: learnt on halves of train, AP measured on val, whole and covered.

Needs VOC, and a folder that `halfseen reproduce` has filled for the classes asked for:

    python benchmarks/voc/calibration.py VOC STUDY --train ids --test ids --folds FOLDER

As `learn_calibration` does, each half of train is searched with models of the other half, those of
VIS with mask heads. What was searched before is not searched again: the candidates of the halves
and of val are the 1,000 best windows of an image. BLT is calibrated in the same way, without masks;
once with the boxes that its components predict, and once with these moved by constants, as VIS's
are by their figures.

Measured are AP on val, for what a calibration may know; and AP of whole objects among all of val by
votes and by probability, with nothing and with 40% of each covered by texture from images without
the class. FOLDER then also holds the study's models with their heads and calibrations,
CLASS-METHOD.safetensors. A run that was stopped goes on where it was; the last line printed is
JSON.
"""

import argparse
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from halfseen.data.dataset import Dataset
from halfseen.data.files import write_atomically
from halfseen.data.voc import read_voc
from halfseen.detections import Detections
from halfseen.evaluate.crowd import bootstrap_difference
from halfseen.evaluate.sweep import cover_objects
from halfseen.evaluate.visibility import whole
from halfseen.evaluate.voc_ap import Matches, match, summarise
from halfseen.infer.calibration import LOWEST, Known, probabilities
from halfseen.infer.detector import Detector
from halfseen.infer.refine import correct
from halfseen.learn.calibration import (
    FOLDS,
    SHARE,
    SPARSE,
    Judged,
    alarms,
    coverable,
    fit,
    judge,
    judge_covered,
    learn_scale,
    sparse,
)
from halfseen.learn.masks import learn_masks
from halfseen.learn.tuning import split_folds
from halfseen.model.calibration import EVIDENCE, TOLD
from halfseen.model.mixture import Mixture
from halfseen.model.store import load, save
from halfseen.reproduce import Study, candidates, detect_all, train_class
from halfseen.suppress import suppress

CLASSES = ["car", "motorbike", "bus", "bicycle", "horse", "aeroplane"]
METHODS = ("BLT", "VIS")
# BLT again, with boxes moved by constants: as VIS's are by their figures, but without masks.
MOVED = "BLT, boxes moved"
NAMES = (*METHODS, MOVED)
# See benchmarks/voc/boxes.py, "no figure".
CONSTANTS = -0.0236, -0.0167, -0.0109
# What a calibration may know.
KNOWN = {
    "score": ("score",),
    "score, visible": ("score", "visible"),
    "all but agreement": tuple(name for name in EVIDENCE if name != "agreement"),
    "all but mask": tuple(name for name in EVIDENCE if name not in TOLD),
    "all but visible": tuple(name for name in EVIDENCE if name != "visible"),
    "all but figure": tuple(name for name in EVIDENCE if name not in ("outline", "misfit")),
    "all": EVIDENCE,
}
TEXTURES = 40
# Lower ends of the bins of probability in which the promise is compared with the truth.
BINS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.0)


def ask_halves(text: str) -> tuple[Dataset, list[str], Path]:
    """What scripts that look at halves of train are told: train, the classes, and the folder."""
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument("voc")
    parser.add_argument("--train", default="train")
    parser.add_argument("--folds", type=Path, default=Path("calibration"))
    parser.add_argument("--class", dest="classes", action="append", default=[])
    options = parser.parse_args()
    return read_voc(options.voc, options.train), options.classes or CLASSES, options.folds


def weighted_ap(rank: Any, right: Any, weight: Any, positives: int) -> float:
    """VOC's all-point AP of detections (N,), each false alarm counted as often as `weight` says."""
    order = np.argsort(-rank, kind="stable")
    right = right[order]
    found, wrong = np.cumsum(right), np.cumsum(np.where(right, 0.0, weight[order]))
    precision = np.maximum.accumulate((found / (found + wrong))[::-1])[::-1]
    return 100 * float((precision * right).sum()) / positives


def halves(train: Dataset, label: str, folder: Path, cores: int | None = None) -> Iterator[Study]:
    folds = split_folds(train, label, FOLDS, 0)
    for k, held in enumerate(folds):
        rest = np.sort(np.concatenate([fold for n, fold in enumerate(folds) if n != k]))
        test, out = sparse(train[held], label), folder / f"{label}-{k}"
        yield Study(train[rest], test, out, [label], cores=cores, methods=METHODS)


def headed(study: Study, label: str, method: str, path: Path) -> Mixture:
    """A study's model; that of VIS with a mask head, learnt once and kept."""
    model = load(study.model_path(label, method))
    if method == "VIS" and not path.exists():
        save(learn_masks(study.train, model), path)
    return load(path) if method == "VIS" else model


def reaching(study: Study, label: str, method: str) -> list[Detections]:
    return [part[part.score >= LOWEST] for part in candidates(study, label, method)]


def known(test: Dataset, model: Mixture, found: Sequence[Detections]) -> list[Known]:
    """What is kept of the candidates of images, and its evidence."""
    detector = Detector(model)
    rows = []
    for i, part in enumerate(found):
        # Without candidates there is nothing that a head would have to look at the image for.
        image = test.image(i) if len(part) and model.head else np.zeros((*part.size, 3), np.uint8)
        rows += detector.known_by_model(image, [part])
    return rows


def learn(study: Study, label: str, folder: Path) -> dict[str, tuple[Judged, list[float]]]:
    """For each method the judged detections of both halves, and how loud their false alarms are."""
    halves_ = [look_at_half(fold, label) for fold in halves(study.train, label, folder)]
    return {
        method: (
            Judged.stack([part for rows in halves_ for part in rows[method][0]]),
            [rows[method][1] for rows in halves_],
        )
        for method in NAMES
    }


def look_at_half(fold: Study, label: str) -> dict[str, tuple[list[Judged], float]]:
    """For each method what is judged in a half, as it is and covered, and its false alarms."""
    path = fold.out / f"{label}-judged.npz"
    if not path.exists():
        content = io.BytesIO()
        np.savez(content, **judge_half(fold, label))
        write_atomically(path, content.getvalue())
    stored = np.load(path)
    names = [field.name for field in fields(Judged)]
    return {
        method: (
            [Judged(*(stored[f"{method}.{k}.{name}"] for name in names)) for k in range(2)],
            float(stored[f"{method}.alarms"]),
        )
        for method in NAMES
    }


def moved(parts: Sequence[Known]) -> list[Known]:
    """The same, with boxes moved by constants."""
    weights = np.zeros((4, 7))
    weights[:, 6] = [CONSTANTS[0], CONSTANTS[1], CONSTANTS[0], CONSTANTS[2]]
    return [
        part._replace(
            kept=replace(
                part.kept, full=correct(part.kept, np.zeros((len(part.kept), 4, 6)), weights)
            )
        )
        for part in parts
    ]


def judge_half(fold: Study, label: str) -> dict[str, Any]:
    train_class(fold, label)
    detect_all(fold)
    test = fold.test
    models = [headed(fold, label, m, fold.out / f"{label}-head.safetensors") for m in METHODS]
    detector = Detector(models)
    shown, textures = coverable(test, label)
    covered = []
    for i, some in zip(shown.tolist(), textures.tolist(), strict=True):
        other = [test.image(k) for k in some]
        pixels, _ = cover_objects(test.image(i), test[i], label, SHARE, other, 0)
        covered.append(detector.known_by_model(pixels))
    result: dict[str, Any] = {}
    seen = {
        method: (known(test, model, reaching(fold, label, method)), [row[k] for row in covered])
        for k, (method, model) in enumerate(zip(METHODS, models, strict=True))
    }
    seen[MOVED] = moved(seen["BLT"][0]), moved(seen["BLT"][1])
    for method, (plain, hidden) in seen.items():
        parts = (
            judge(test.truths, plain, label, SPARSE),
            judge_covered(test[shown].truths, hidden, label),
        )
        for n, part in enumerate(parts):
            for field in fields(Judged):
                result[f"{method}.{n}.{field.name}"] = getattr(part, field.name)
        result[f"{method}.alarms"] = alarms(test.truths, [part.kept for part in plain], label)
    return result


def own_alarms(study: Study, test: Dataset, label: str) -> dict[str, float]:
    """The false alarms of the study's models in images that they were learnt from."""
    detector = Detector([load(study.model_path(label, method)) for method in METHODS])
    # Objects are not looked for: their images would cost time for nothing.
    free = test[np.array([not (truth.label == label).any() for truth in test])]
    rows = [detector.known_by_model(free.image(i)) for i in range(len(free))]
    return {
        method: alarms(free.truths, [row[k].kept for row in rows], label)
        for k, method in enumerate(METHODS)
    }


def tell_all(study: Study, classes: list[str], folder: Path) -> None:
    """What the heads say of val, for all classes together: an image is described but once."""
    classes = [label for label in classes if not (folder / f"{label}-told.npz").exists()]
    if not classes:
        return
    paths = [folder / f"{label}-head.safetensors" for label in classes]
    pairs = zip(classes, paths, strict=True)
    detector = Detector([headed(study, label, "VIS", path) for label, path in pairs])
    rows: dict[str, list[Any]] = {label: [] for label in classes}
    parts = [reaching(study, label, "VIS") for label in classes]
    for i, found in enumerate(zip(*parts, strict=True)):
        seen = detector.known_by_model(study.test.image(i), found)
        for label, row in zip(classes, seen, strict=True):
            rows[label].append((row.told, row.kept.full))
    for label in classes:
        told, full = (np.concatenate(part) for part in zip(*rows[label], strict=True))
        content = io.BytesIO()
        np.savez(content, told=told, full=full)
        write_atomically(folder / f"{label}-told.npz", content.getvalue())


def look_at_val(study: Study, label: str, folder: Path) -> dict[str, list[list[Known]]]:
    """For each method what is known of val as it is, and with its whole objects covered."""
    test = study.test
    models = [headed(study, label, m, folder / f"{label}-head.safetensors") for m in METHODS]
    result: dict[str, list[list[Known]]] = {}
    for method, model in zip(METHODS, models, strict=True):
        found = reaching(study, label, method)
        if method == "VIS":
            kept = [part[suppress(part, "greedy").indices] for part in found]
            stored = np.load(folder / f"{label}-told.npz")
            ends = np.cumsum([len(part) for part in kept])[:-1]
            told, full = (np.split(stored[name], ends) for name in ("told", "full"))
            kept = [replace(part, full=box) for part, box in zip(kept, full, strict=True)]
            plain = [Known(*part) for part in zip(kept, found, told, strict=True)]
        else:
            plain = known(test, model, found)
        result[method] = [plain, list(plain)]
    shown = np.array([bool((truth.label == label).any()) for truth in test])
    textures = [test.image(int(i)) for i in np.flatnonzero(~shown)[:TEXTURES]]
    detector = Detector(models)
    for i, truth in enumerate(test):
        if (whole(truth) & (truth.label == label)).any():
            pixels, _ = cover_objects(test.image(i), truth, label, SHARE, textures, 0)
            for method, row in zip(METHODS, detector.known_by_model(pixels), strict=True):
                result[method][1][i] = row
    result[MOVED] = [moved(parts) for parts in result["BLT"]]
    return result


def knowing(judged: Judged, names: Sequence[str]) -> Judged:
    """The same, but what else was known is lost: a constant never weighs."""
    return replace(judged, evidence=judged.evidence * np.isin(EVIDENCE, names))


def ap(matches: Matches) -> float:
    return round(100 * float(summarise(matches).ap), 2)


def reliability(matches: Matches) -> list[dict[str, float]]:
    """For bins of probability, what was promised and how many were right."""
    counted, rows, top = matches.outcome >= 0, [], 1.0
    for low in BINS:
        here = counted & (matches.rank >= low) & (matches.rank <= top)
        if here.any():
            promised, right = matches.rank[here].mean(), (matches.outcome[here] == 1).mean()
            rows.append(
                {"from": low, "count": int(here.sum()), "promised": round(float(promised), 3),
                 "right": round(float(right), 3)}
            )  # fmt: skip
        top = np.nextafter(low, 0)
    return rows


def votes(part: Known) -> Any:
    """(N,) how voting ranks what was kept."""
    result = suppress(part.candidates, "voting")
    rank = dict(zip(result.indices.tolist(), result.rank.tolist(), strict=True))
    # Voting keeps what greedy suppression keeps, in another order.
    kept = suppress(part.candidates, "greedy").indices
    return np.array([rank[i] for i in kept.tolist()])


def measure(study: Study, label: str, folder: Path) -> dict:
    judged = learn(study, label, folder)
    last = list(halves(study.train, label, folder))[-1]
    own = own_alarms(study, last.test, label)
    seen = look_at_val(study, label, folder)
    ignored = [~whole(truth) for truth in study.test]
    row: dict = {"ap": {}, "covered": {}, "scale": {}, "reliability": {}, "weights": {}}
    best: dict[str, Matches] = {}
    own[MOVED] = own["BLT"]
    for method in NAMES:
        rows, loud = judged[method]
        row["scale"][method] = scale = learn_scale(loud, own[method])
        plain, covered = seen[method]
        kept = [part.kept for part in plain]
        row["ap"][method] = {"as it is": ap(match(study.test, kept, label))}
        for name, names in KNOWN.items():
            calibration = fit(knowing(rows, names), int(rows.component.max()) + 1)
            if calibration is None:
                raise SystemExit(f"{label}: too few objects were found to calibrate")
            calibration = replace(calibration, scale=scale)
            ranks = [probabilities(calibration, *part) for part in plain]
            best[method] = match(study.test, kept, label, rank=ranks)
            row["ap"][method][name] = ap(best[method])
        # The last knows it all.
        for share, parts in (("0%", plain), (f"{SHARE:.0%}", covered)):
            for by, rank in (
                ("votes", [votes(part) for part in parts]),
                ("probability", [probabilities(calibration, *part) for part in parts]),
            ):
                found = match(
                    study.test.truths, [part.kept for part in parts], label, ignored=ignored,
                    rank=rank,
                )  # fmt: skip
                row["covered"][f"{method} {share} {by}"] = ap(found)
        if method in METHODS:
            model = headed(study, label, method, folder / f"{label}-head.safetensors")
            save(replace(model, calibration=calibration), folder / f"{label}-{method}.safetensors")
        row["reliability"][method] = reliability(best[method])
        row["weights"][method] = np.round(calibration.weights, 2).tolist()
    for method in ("BLT", MOVED):
        row[f"VIS against {method}"] = str(bootstrap_difference(best[method], best["VIS"]))
    return row


def average(rows: list[dict[str, float]]) -> dict[str, float]:
    return {key: round(float(np.mean([row[key] for row in rows])), 2) for key in rows[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voc")
    parser.add_argument("study", type=Path)
    parser.add_argument("--train", default="train")
    parser.add_argument("--test", default="val")
    parser.add_argument("--folds", type=Path, default=Path("calibration"))
    parser.add_argument("--class", dest="classes", action="append", default=[])
    parser.add_argument("--cores", type=int)
    options = parser.parse_args()
    train, test = read_voc(options.voc, options.train), read_voc(options.voc, options.test)
    classes = options.classes or CLASSES
    study = Study(train, test, options.study, classes, cores=options.cores)
    options.folds.mkdir(parents=True, exist_ok=True)
    tell_all(study, classes, options.folds)
    rows = {}
    for label in classes:
        path = options.folds / f"{label}.json"
        if not path.exists():
            row = measure(study, label, options.folds)
            write_atomically(path, json.dumps(row).encode())
        rows[label] = json.loads(path.read_text())
        print(label, json.dumps(rows[label]), flush=True)
    mean = {m: average([row["ap"][m] for row in rows.values()]) for m in NAMES}
    covered = average([row["covered"] for row in rows.values()])
    ratio = {
        f"VIS over {m}": round(covered["VIS 40% probability"] / covered[f"{m} 40% probability"], 3)
        for m in ("BLT", MOVED)
    }
    print(
        json.dumps(
            {"classes": rows, "mean_ap": mean, "mean_covered": covered,
             "covered_ratio": ratio}
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
