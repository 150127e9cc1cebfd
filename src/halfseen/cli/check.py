"""`halfseen check`: look at a dataset as training will."""

from __future__ import annotations

from typing import Annotated

from halfseen.cli.data import Data, Images, Label, Split, open_dataset
from halfseen.cli.options import (
    Chosen,
    Cores,
    Fast,
    MethodName,
    MethodOption,
    Preset,
    PresetOption,
    Quiet,
    Seed,
    flag,
    make_settings,
    show_check,
)
from halfseen.cli.terminal import Report

NAME = "check"


def command(
    data: Data,
    label: Label,
    split: Split = "train",
    images: Images = None,
    method: MethodOption = MethodName.VIS,
    preset: PresetOption = Preset.default,
    fast: Fast = False,
    seed: Seed = 0,
    chosen: Chosen = None,
    cores: Cores = None,
    json: Annotated[bool, flag("--json", help="Print everything as one line of JSON.")] = False,
    quiet: Quiet = False,
) -> int:
    """Look at a dataset before training, in seconds.

    Names the files that cannot be read and the boxes that no window can
    reach, and estimates memory and time. The exit code is 1 if a file cannot
    be used.

    [bold]Examples[/bold]
      halfseen check VOCdevkit/VOC2012 --class car
      halfseen check labels.json --images photos --class mug --json
    """
    import json as text

    from halfseen.learn.check import check

    report = Report(quiet)
    settings = make_settings(preset, method, seed, chosen, fast)
    dataset = open_dataset(data, split, images)
    with report.progress("reading images") as advance:
        found = check(dataset, label, settings, cores=cores, on_done=advance)
    if json:
        print(text.dumps(found.as_json()))
    else:
        show_check(found, report)
    return 1 if found.problems else 0
