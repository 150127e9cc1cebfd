"""`halfseen demo`: the whole story on built-in scenes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from halfseen.cli.terminal import Report

NAME = "demo"


def command(
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="FOLDER", help="Where to write.")
    ] = Path("demo"),
    label: Annotated[
        str, typer.Option("--class", metavar="NAME", help="What to learn: car or horse.")
    ] = "car",
    scenes: Annotated[int, typer.Option(min=20, metavar="N", help="Scenes to learn from.")] = 150,
    tests: Annotated[int, typer.Option(min=1, metavar="N", help="Scenes to look at.")] = 60,
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="The same seed gives the same demo.")
    ] = 1,
    cores: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Cores to use.", show_default="all")
    ] = None,
    quiet: Annotated[
        bool, typer.Option("-q", "--quiet", metavar="", help="Print only errors.")
    ] = False,
) -> int:
    """Learn from drawn scenes, detect in others, and draw what was found.

    Needs no data and no model. Writes the model, pictures, and a sheet of
    them: visible blocks tinted, hidden ones hatched, the whole object dashed.

    [bold]Example[/bold]
      halfseen demo -o demo
    """
    from halfseen.view.demo import run_demo

    report = Report(quiet)
    with report.compiling():
        demo = run_demo(out, label, scenes, tests, seed=seed, cores=cores, on_step=report.say)
    report.say(f"AP {100 * demo.ap:.1f}% (VOC, all-point) on {demo.images} new scenes")
    for path in demo.files[:2]:
        report.say(f"wrote {path}")
    report.say(f"wrote {out / 'pictures'}")
    return 0
