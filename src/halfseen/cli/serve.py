"""`halfseen serve`: the web page."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from halfseen.cli.models import complete_model
from halfseen.cli.options import flag
from halfseen.cli.terminal import Report
from halfseen.errors import SettingsError, install

NAME = "serve"


def command(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODELS",
            help="Model files or shipped classes: the page opens with them.",
            autocompletion=complete_model,
        ),
    ] = None,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="Port; 0 takes a free one.")
    ] = 8000,
    workers: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Threads.", show_default="all cores")
    ] = None,
    browse: Annotated[bool, flag("--open", help="Open the page in a browser.")] = False,
    quiet: Annotated[bool, flag("-q", "--quiet", help="Print only the page's address.")] = False,
) -> int:
    r"""Show a web page: cover an object and watch what each method finds.

    Drop in a photograph: all shipped classes are looked for, or those of your
    own MODELS. Models of one class and different methods (BL, BLT, VIS) are
    compared side by side. Listens on this machine alone unless another
    address is given. In a clone, pip install '.\[web]' installs what it needs.

    [bold]Examples[/bold]
      halfseen serve --open
      halfseen serve car-BL.safetensors car-VIS.safetensors --port 9000
    """
    report = Report(quiet)
    try:
        from halfseen.web.guard import ServeLimits
        from halfseen.web.server import is_local, serve
    except ModuleNotFoundError as error:
        raise SettingsError(f"the page needs {error.name}: {install('web')}") from None
    from halfseen.model.shipped import name_models
    from halfseen.web.catalogue import find_sets

    sets = find_sets(name_models(models or [], report.say))
    limits = ServeLimits() if workers is None else ServeLimits(workers=workers)
    if not is_local(host):
        report.say(f"listening on {host}: whoever can reach this machine can use the page")

    def ready(url: str) -> None:
        print(url, flush=True)
        report.say("Ctrl-C stops it")
        if browse:
            import webbrowser

            webbrowser.open(url)

    with report.compiling(), suppress(KeyboardInterrupt):
        serve(sets, host, port, limits, ready)
    return 0
