"""Puts models on network blocks into the package, with their average precision, and prints a table.

    python benchmarks/voc/ship_net.py MODELS OUT/ap.json [--blt BLT/ap.json]

MODELS is a folder that train_net.py filled, OUT one that evaluate_net.py did. Every
CLASS-VIS.safetensors becomes src/halfseen/models/net/CLASS.safetensors. The table, in Markdown, has
the AP of the shipped models on `fhog` beside it.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

from halfseen.evaluate.table import Table
from halfseen.model.shipped import FOLDER, SUFFIX, shipped
from halfseen.model.store import load, save


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=Path)
    parser.add_argument("ap", type=Path)
    parser.add_argument("--blt", type=Path, help="the same of models by method BLT")
    parser.add_argument("--test", default="VOC 2010 val", help="of the results")
    parser.add_argument("--out", type=Path, default=FOLDER.parent / "net")
    options = parser.parse_args()
    result = json.loads(options.ap.read_text())
    columns = [{name: load(path).training["tested"]["ap"] for name, path in shipped().items()}]
    if options.blt:
        columns.append(json.loads(options.blt.read_text())["ap"])
    columns.append(result["ap"])
    data = f"{options.test} ({result['images']:,} images)"
    options.out.mkdir(parents=True, exist_ok=True)
    for path in sorted(options.models.glob(f"*-VIS{SUFFIX}")):
        model = load(path)
        tested = {"data": data, "ap": result["ap"].get(model.label)}
        model = replace(model, training={**model.training, "tested": tested})
        save(model, options.out / f"{model.label}{SUFFIX}")
    rows = [[label, *(column.get(label) for column in columns)] for label in sorted(result["ap"])]
    means = [
        sum(values) / len(values) if all(v is not None for v in values) else None
        for values in list(zip(*rows, strict=True))[1:]
    ]
    heading = ["class", "`fhog`, VIS", *(["`net`, BLT"] if options.blt else []), "`net`, VIS"]
    print(Table(heading, [*rows, ["mean", *means]]).markdown())


if __name__ == "__main__":
    main()
