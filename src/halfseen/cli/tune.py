"""`halfseen tune`: choose settings by cross-validation."""

from __future__ import annotations

import json as text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halfseen.cli.data import Data, Images, Label, Split, open_dataset
from halfseen.cli.options import (
    Chosen,
    Cluster,
    Cores,
    MethodName,
    Preset,
    PresetOption,
    Quiet,
    Seed,
    flag,
    make_settings,
)
from halfseen.cli.terminal import Report, complain
from halfseen.errors import SettingsError

if TYPE_CHECKING:
    from halfseen.data.dataset import Dataset

NAME = "tune"


def command(
    data: Data,
    label: Label,
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="FOLDER", help="Where to keep everything.")
    ],
    split: Split = "train",
    images: Images = None,
    folds: Annotated[
        int, typer.Option(min=2, max=20, metavar="N", help="Number of folds, each held out once.")
    ] = 3,
    most: Annotated[
        int | None,
        typer.Option("--most", min=4, metavar="N", help="Images to use.", show_default="all"),
    ] = None,
    lambdas: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Values of lambda to try.")
    ] = None,
    alphas: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Values of alpha to try.")
    ] = None,
    overlaps: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Overlaps of suppression to try.")
    ] = None,
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
    from halfseen.learn.tuning import STEPS, Step, TuneSettings, tune
    from halfseen.report.tuning import as_table, write_plot

    report = Report(quiet)
    settings = make_settings(preset, MethodName.VIS, seed, chosen)
    given = {
        name: _numbers(name, value)
        for name, value in (("lambdas", lambdas), ("alphas", alphas), ("overlaps", overlaps))
        if value is not None
    }
    tried = TuneSettings(folds=folds, threshold=threshold, **given)
    if cluster:  # workers start in folders of their own
        data, images = data.absolute(), images.absolute() if images else None
    dataset = open_dataset(data, split, images)
    dataset = _take(dataset, label, most, seed)
    total = sum(len(tried.values(step)) for step in STEPS) * folds
    done = 0

    with report.progress("tuning") as advance, report.compiling():

        def tell(step: Step, value: float, fold: int, ap: float) -> None:
            nonlocal done
            done += 1
            advance(done, total)
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


def _numbers(name: str, value: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in value.split(","))
    except ValueError:
        raise SettingsError(f"--{name}: expected numbers such as 0.1,1,10; found {value}") from None


def _take(dataset: Dataset, label: str, most: int | None, seed: int) -> Dataset:
    """At most so many images, half of them, if there are as many, with the class."""
    import numpy as np

    if most is None or most >= len(dataset):
        return dataset
    random = np.random.default_rng(seed)
    has = np.array([bool((truth.label == label).any()) for truth in dataset])
    with_it, without = (random.permutation(np.flatnonzero(m)) for m in (has, ~has))
    half = max(min(len(with_it), most // 2), most - len(without))
    chosen: Dataset = dataset[np.sort(np.concatenate([with_it[:half], without[: most - half]]))]
    return chosen
