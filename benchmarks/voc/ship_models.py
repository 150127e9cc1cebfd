"""Puts a reproduction's models into the package, and writes their model card.

    python benchmarks/voc/ship_models.py reproduction/default --calibrated calibration

Every CLASS-VIS.safetensors of the folder becomes src/halfseen/models/voc/CLASS.safetensors, with
its average precision on the test images from the folder's results.json noted in the file; shipped
models of other classes are removed. With `--calibrated`, a folder that calibration.py has filled,
the models are taken from there, and must be there. docs/models.md is written anew from
model_card.md, beside this script, and the same figures; ship_masks.py has to make the models with
mask heads again for new models.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from halfseen.data.files import write_atomically
from halfseen.evaluate.table import Table
from halfseen.model.mixture import Mixture
from halfseen.model.shipped import FOLDER, SUFFIX, shipped
from halfseen.model.store import load, save

CARD = Path(__file__).parents[2] / "docs" / "models.md"
METHOD = "VIS"
PROBABILITY = "VIS by probability"
COLUMNS = ("BLT", "VIS", "VIS+NMS")
POOR = 10.0  # AP in percent below which a model is of little use by itself
TEXT = Path(__file__).with_name("model_card.md")
WITH_MASKS = """
The heads of `car.fhog` were learnt from the same images and boxes; their files take {:.1f} MB
(`python benchmarks/voc/ship_masks.py VOC OUT --train TRAIN --test VAL`).
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", type=Path, help="a folder that `halfseen reproduce` filled")
    parser.add_argument("--calibrated", type=Path, help="a folder that calibration.py filled")
    parser.add_argument("--results", type=Path, help="default: STUDY/results.json")
    parser.add_argument("--train", default="VOC 2010 train", help="what they were learnt from")
    parser.add_argument("--test", default="VOC 2010 val (5,105 images)", help="of the results")
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--card", type=Path, default=CARD)
    options = parser.parse_args()
    results = options.results or options.study / "results.json"
    scores = json.loads(results.read_text()) if results.exists() else {}
    if options.calibrated:
        missing = [c for c in scores if not (options.calibrated / f"{c}.json").exists()]
        if missing:
            raise SystemExit(
                f"{options.calibrated}: no calibration of {', '.join(missing)}; make them with "
                "calibration.py, --class for each"
            )
    for label in scores if options.calibrated else ():
        row = json.loads((options.calibrated / f"{label}.json").read_text())
        scores[label][PROBABILITY] = row["ap"][METHOD]["all"]
    models = ship(options.calibrated or options.study, options.out, scores, options.test)
    write_atomically(options.card, card(models, scores, options).encode())
    print(f"wrote {len(models)} models into {options.out}, and {options.card}")


def ship(
    study: Path, out: Path, scores: dict[str, dict[str, float]], test: str
) -> dict[str, Mixture]:
    """Writes the models, each with its AP; those of classes that the study lacks are removed."""
    files = {
        p.name.removesuffix(f"-{METHOD}{SUFFIX}"): p for p in study.glob(f"*-{METHOD}{SUFFIX}")
    }
    if not files:
        raise SystemExit(f"{study}: no *-{METHOD}{SUFFIX}; expected what `reproduce` makes")
    out.mkdir(parents=True, exist_ok=True)
    models = {}
    for label, file in sorted(files.items()):
        model = load(file)
        own = scores.get(label, {})
        tested = {"data": test, "ap": own.get(METHOD), "ap_by_probability": own.get(PROBABILITY)}
        models[label] = replace(model, training={**model.training, "tested": tested})
        save(models[label], out / f"{label}{SUFFIX}")
    for masks in (False, True):
        for name, path in shipped("fhog" if masks else "fast", out).items():
            if name not in models:
                path.unlink()
    return models


def card(
    models: dict[str, Mixture], scores: dict[str, dict[str, float]], options: argparse.Namespace
) -> str:
    """The model card. Every figure of it comes from the results."""
    calibrated = options.calibrated is not None
    columns = (*COLUMNS[:2], PROBABILITY, *COLUMNS[2:]) if calibrated else COLUMNS
    headed = shipped("fhog", options.out)
    rows: list[list[Any]] = [
        [label, *(scores.get(label, {}).get(name) for name in columns)] for label in models
    ]
    commands = [
        "`halfseen reproduce VOCDEVKIT --train TRAIN --test VAL`",
        "`python benchmarks/voc/calibration.py VOC reproduction` with `--class` for each class",
        "`python benchmarks/voc/ship_models.py reproduction/default --calibrated calibration`",
    ]
    if not calibrated:
        commands = [commands[0], "`python benchmarks/voc/ship_models.py reproduction/default`"]
    if rows and all(value is not None for row in rows for value in row):
        means = [sum(column) / len(rows) for column in list(zip(*rows, strict=True))[1:]]
        rows.append(["mean", *means])
    poor = [label for label in models if scores.get(label, {}).get(METHOD, POOR) < POOR]
    first = next(iter(models.values())).training
    return TEXT.read_text().format(
        count=len(models),
        size=sum(path.stat().st_size for path in shipped("fast", options.out).values()) / 1e6,
        masks=WITH_MASKS.format(sum(path.stat().st_size for path in headed.values()) / 1e6)
        if headed
        else "",
        method=METHOD,
        preset=f"preset `{options.study.name}`, seed {first['settings']['seed']}",
        train=options.train,
        images=f"{first['images']:,}",
        test=options.test,
        commands=", then ".join(commands),
        probability=(
            f'"{PROBABILITY}" ranks the detections by their [probability](probability.md) instead '
            "of their score; "
            if calibrated
            else ""
        ),
        instead=(
            "; their [probabilities](probability.md) roughly are, though they promise too much"
            if calibrated
            else ""
        ),
        table=Table(["class", *columns], rows).markdown(),
        poor=(
            f"Of little use by themselves, AP under {POOR:g}: {', '.join(poor)}."
            if poor
            else f"No class measured above has an AP under {POOR:g}."
        ),
    )


if __name__ == "__main__":
    main()
