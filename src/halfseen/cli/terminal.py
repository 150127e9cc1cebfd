"""The terminal: results go to stdout, everything about the run to stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID
    from rich.text import Text


def printable(text: str) -> str:
    """Escape what a terminal might obey or cannot show, such as escape sequences in labels."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def show(text: str) -> None:
    """Print a result for a person to read; names in it cannot command the terminal."""
    print("\n".join(map(printable, text.split("\n"))), flush=True)


def count(number: int, noun: str) -> str:
    """A number of things: "1 image", "2 images", "no image"."""
    return f"{number or 'no'} {noun}{'s' if number > 1 else ''}"


def complain(line: str) -> None:
    """Print one line about what went wrong."""
    print(f"halfseen: {printable(line)}", file=sys.stderr)


def note(line: str) -> None:
    """Print one line about the run."""
    print(printable(line), file=sys.stderr)


class Advance(Protocol):
    """Move a bar: how many are done and, where it was not known before, how many there are."""

    def __call__(self, done: int, total: int | None = None) -> None: ...


class Report:
    """Lines and bars about a command's run. `quiet` keeps only what went wrong."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self._progress: Progress | None = None

    def say(self, line: str) -> None:
        if not self.quiet:
            self._print("\n".join(map(printable, line.split("\n"))))

    def fail(self, line: str) -> None:
        self._print(printable(f"failed: {line}"))

    def wrote(self, path: Path, more: str = "") -> None:
        """Name a file or folder that was written; on a terminal its name is a link."""
        if self.quiet:
            return
        from rich.text import Text

        link = f"link {path.absolute().as_uri()}"
        self._print(
            Text.assemble("wrote ", (printable(str(path)), link), f" {more}" if more else "")
        )

    def _print(self, line: str | Text) -> None:
        # Above the bar, where there is one: it redraws itself below.
        if self._progress is not None and self._progress.live.is_started:
            console = self._progress.console
        elif isinstance(line, str):
            print(line, file=sys.stderr)
            return
        else:
            from rich.console import Console

            console = Console(stderr=True)
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Say, once a command, that kernels are being compiled, if and when they are."""
        from halfseen.compute.libraries import on_compile

        def announce(folder: Path | None) -> None:
            where = f" in {folder}, because no other folder can be written" if folder else ""
            self.say(f"compiling what is used for the first time; it is kept{where}")

        with on_compile(announce):
            yield

    @contextmanager
    def progress(self, what: str, total: int | None = None) -> Iterator[Advance]:
        """Show a bar with the time left, on a terminal; nothing elsewhere, or when quiet.

        Without a total it only shows that work goes on, until `Advance` is given one.
        """
        with self._bars() as bars:
            task = bars.add_task(what, total=total)

            def advance(done: int, total: int | None = None) -> None:
                bars.update(task, completed=done, total=total)

            yield advance

    @contextmanager
    def steps(self) -> Iterator[Callable[[str, int, int], None]]:
        """Provide a callback for steps: a step's name, how much of it is done, and of how much.

        On a terminal each step has its bar with the time left; elsewhere, a line as it begins.
        """
        with self._bars() as bars:
            tasks: dict[str, TaskID] = {}

            def advance(what: str, done: int, total: int) -> None:
                if what not in tasks:
                    for task in tasks.values():
                        bars.update(task, visible=False)
                    tasks[what] = bars.add_task(what)
                    if bars.disable:
                        self.say(what)
                bars.update(tasks[what], completed=done, total=total)

            yield advance

    @contextmanager
    def _bars(self) -> Iterator[Progress]:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("left"),
        )
        silent = self.quiet or not console.is_terminal
        with Progress(*columns, console=console, transient=True, disable=silent) as bars:
            self._progress = bars
            try:
                yield bars
            finally:
                self._progress = None
