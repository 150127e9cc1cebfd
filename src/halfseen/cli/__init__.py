"""The command line: each command parses, calls public functions, and prints.

A command is a function in a module of its own, added to the `app` here. Heavy imports stand inside
the commands, so that `halfseen --help` answers at once.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import typer

from halfseen.cli import (
    backbone,
    check,
    convert,
    demo,
    detect,
    evaluate,
    models,
    reproduce,
    scenes,
    see,
    serve,
    suppress,
    train,
    tune,
)
from halfseen.cli.terminal import complain
from halfseen.errors import HalfseenError, SettingsError

PROGRAM = "halfseen"
ADVICE = "this is a bug: please report what `halfseen --debug ...` prints"

app = typer.Typer(
    name=PROGRAM,
    help="Find objects that are only partly visible, and say which part of each can be seen.",
    epilog="Try it: [bold]halfseen demo -o demo[/bold]. "
    "Completion by <Tab>: [bold]halfseen --install-completion bash[/bold]. "
    "Help for a command: [bold]halfseen detect --help[/bold].",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (
    demo, scenes, check, train, tune, detect, models, suppress, see, evaluate, convert, reproduce,
    serve, backbone,
):  # fmt: skip
    app.command(module.NAME)(module.command)


def _print_version(wanted: bool) -> None:
    if wanted:
        import halfseen

        print(f"halfseen {halfseen.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            metavar="",
            help="Print the version.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", metavar="", help="Show the traceback of an unexpected error."),
    ] = False,
) -> None:
    if debug:
        os.environ["HALFSEEN_DEBUG"] = "1"


def main() -> None:
    """The entry point. Exits with 0 if all is well, 1 for failed work, 2 for wrong use."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A file's name need not be text.
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Runs a command and returns its exit code. Whatever goes wrong is one line on stderr."""
    try:
        if _complete(arguments):
            return 0
        code = app(arguments, prog_name=PROGRAM, standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except SettingsError as error:
        complain(str(error))
        return 2
    except HalfseenError as error:
        complain(str(error))
        return 1
    except BrokenPipeError:
        # Whoever read our output has had enough; Python must not try to flush it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        return _unexpected(error)
    if code == 130:
        complain("interrupted; files are written whole or not at all")
    return code if isinstance(code, int) else 0


def _complete(arguments: list[str]) -> bool:
    """Show or install completion for a shell that is named; typer guesses one that is not."""
    match arguments:
        case ["--show-completion" | "--install-completion" as option, shell]:
            pass
        case _:
            return False
    from typer._completion_shared import Shells, get_completion_script, install

    variable, known = f"_{PROGRAM.upper()}_COMPLETE", [each.value for each in Shells]
    if shell not in known:
        raise SettingsError(f"{option}: expected {', '.join(known)}, found '{shell}'")
    if option == "--show-completion":
        print(get_completion_script(prog_name=PROGRAM, complete_var=variable, shell=shell))
    else:
        print(f"wrote {install(shell, PROGRAM, variable)[1]}; start a new terminal")
    return True


def _unexpected(error: Exception) -> int:
    # Wrong options and arguments: typer's own errors, under names that differ between its versions.
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "halfseen"
        if type(error).__name__ == "NoArgsIsHelpError":
            print(context.get_help() if context else "", end="")
        else:
            complain(f"{' '.join(error.format_message().split())} (see {path} --help)")
        return int(error.exit_code)
    if os.environ.get("HALFSEEN_DEBUG"):
        raise error
    if isinstance(error, OSError) and error.strerror:
        complain(f"{error.filename or 'input or output'}: {error.strerror}")
    else:
        complain(f"unexpected {type(error).__name__}: {' '.join(str(error).split())}; {ADVICE}")
    return 1
