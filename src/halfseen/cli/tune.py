"""`halfseen tune`: choose settings by cross-validation."""

from __future__ import annotations

import json as text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halfseen.cli.data import Data, Images, Label, Split, open_dataset
from halfseen.cli.options import (
    Alphas,
    Chosen,
    Cluster,
    Cores,
    Folds,
    Lambdas,
    MethodName,
    Overlaps,
    Preset,
    PresetOption,
    Quiet,
    Seed,
    flag,
    make_settings,
    make_tried,
)
from halfseen.cli.terminal import Report, complain

if TYPE_CHECKING:
    from halfseen.learn.tuning import Step

NAME = "tune"


def command(
    data: Data,
    label: Label,
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="FOLDER", help="Where to keep everything.")
    ],
    split: Split = "train",
    images: Images = None,
    folds: Folds = 3,
    most: Annotated[
        int | None,
        typer.Option("--most", min=4, metavar="N", help="Images to use.", show_default="all"),
    ] = None,
    lambdas: Lambdas = None,
    alphas: Alphas = None,
    overlaps: Overlaps = None,
    threshold: Annotated[
        float, typer.Option(metavar="SCORE", help="The lowest score that counts.")
    ] = -1.0,
    preset: PresetOption = Preset.default,
    seed: Seed = 0,
    chosen: Chosen = None,
    cores: Cores = None,
    cluster: Cluster = None,
    json: Annotated[bool, flag("--json", help="Print the best values as JSON.")] = False,
    quiet: Quiet = False,
) -> int:
    """Choose lambda, alpha and the overlaps of suppression, one after another.

    The paper's way: lambda on the baseline, then the overlap of greedy
    suppression, then alpha with visibility, then the overlap of covering
    suppression; each by AP on held-out images. Run it again to resume after
    an interruption, or with more values.

    [bold]Examples[/bold]
      halfseen tune VOCdevkit/VOC2012 --class car -o tuning
      halfseen tune scenes --class car -o tuning --folds 2 --most 100 --set updates=1
    """
    from halfseen.learn.folds import draw_images
    from halfseen.learn.tuning import STEPS, tune
    from halfseen.report.tuning import as_table, write_plot

    report = Report(quiet)
    settings = make_settings(preset, MethodName.VIS, seed, chosen)
    tried = make_tried(
        {"lambdas": lambdas, "alphas": alphas, "overlaps": overlaps},
        folds=folds, threshold=threshold,
    )  # fmt: skip
    if cluster:  # workers start in folders of their own
        data, images = data.absolute(), images.absolute() if images else None
    dataset = draw_images(open_dataset(data, split, images), label, most, seed)

    with report.progress("tuning") as advance, report.compiling():

        def tell(step: Step, value: float, fold: int, ap: float) -> None:
            advance(*tried.progress(step, value, fold))
            report.say(f"{step} {value:g}, fold {fold + 1} of {folds}: AP {100 * ap:.1f}")

        try:
            result = tune(
                dataset, label, out, settings, tried, cores=cores, cluster=cluster, on_value=tell
            )
        except KeyboardInterrupt:
            complain(f"{out} keeps what was finished: go on with the same command")
            raise
    best = {step: result.best(step) for step in STEPS}
    print(text.dumps(best) if json else as_table(result).text())
    report.wrote(write_plot(result, label, out / "tuning.png"))
    report.say(
        f"train with it: --set lambda={best['lambda']:g} --set alpha={best['alpha']:g}; detect "
        f"with --overlap {best['greedy overlap']:g}, or with --method covering --overlap "
        f"{best['covering overlap']:g}"
    )
    return 0
