"""`halfseen demo`: the whole story on built-in scenes."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halfseen.cli.options import Cores, Quiet, duration, flag
from halfseen.cli.terminal import Report
from halfseen.errors import SettingsError

if TYPE_CHECKING:
    from halfseen.studies.demo import Demo, DemoSettings

NAME = "demo"


def command(
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="FOLDER", help="Where to write.")
    ] = Path("demo"),
    label: Annotated[
        str, typer.Option("--class", metavar="NAME", help="What to learn: car or horse.")
    ] = "car",
    scenes: Annotated[int, typer.Option(min=20, metavar="N", help="Scenes to learn from.")] = 110,
    tests: Annotated[int, typer.Option(min=5, metavar="N", help="Scenes to test on.")] = 70,
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="The same seed gives the same demo.")
    ] = 1,
    cores: Cores = None,
    json: Annotated[bool, flag("--json", help="Print all figures as JSON, no table.")] = False,
    quiet: Quiet = False,
) -> int:
    """Learn from drawn scenes with three methods, and compare them.

    Needs no data and no model, and about three minutes on two cores. BL knows
    nothing of hidden parts, BLT knows the border of the image, VIS infers
    which blocks of each object are visible. Writes FOLDER/report.html, the
    models, pictures of what was learnt and found, and a filmstrip of an
    object being covered.

    [bold]Examples[/bold]
      halfseen demo -o demo
      halfseen demo -o horses --class horse --scenes 200
    """
    from halfseen.report.files import as_document, as_text
    from halfseen.studies.demo import DemoSettings, run_demo, short_table

    report = Report(quiet)
    begin = time.monotonic()
    settings = DemoSettings(label, scenes, tests, seed=seed)
    facts = _facts(settings)
    with report.compiling(), report.steps() as on_step:
        try:
            demo = run_demo(out, settings, cores=cores, facts=facts, on_step=on_step)
        except OSError as error:
            raise SettingsError(f"{out}: cannot write there: {error.strerror}") from None
    if json:
        print(as_text(as_document([demo.evaluation], facts)))
    elif not quiet:
        print(short_table(demo).text())
    report.say(f"done in {duration(time.monotonic() - begin)}")
    _guide(demo, out, settings.label, report)
    return 0


def _facts(settings: DemoSettings) -> dict[str, str]:
    """What made the results, for the record."""
    import halfseen

    return {
        "halfseen": halfseen.__version__,
        "command": shlex.join(["halfseen", *sys.argv[1:]]),
        "data": f"{settings.tests} built-in scenes; {settings.scenes} others to learn from",
        "seed": str(settings.seed),
        "boxes": "whole objects, cut to the image",
    }


def _guide(demo: Demo, out: Path, label: str, report: Report) -> None:
    """Where to look, and what to type next."""
    shown = {"report.html", "sheet.png", "filmstrip.png", f"{label}-VIS.hidden.png", "pictures"}
    for path in demo.files:
        if path.name in shown:
            report.wrote(path)
    vis = out / f"{label}-VIS.safetensors"
    report.say("look at the report first; then try:")
    for line in (
        f"halfseen serve {out}/{label}-*.safetensors --open",
        f"halfseen detect {vis} {out / 'scenes'} -o {out / 'found'} --explain",
        "halfseen check PHOTOS --class NAME",
    ):
        report.say(f"  {line}")
