"""Writes the walk of one image into docs/architecture.md, as a run of the command shows it.

    python docs/make_walk.py            # writes it anew
    python docs/make_walk.py --check    # says whether it is stale; changes nothing

The walk is that of `halfseen detect car.fhog photo.jpg` on a drawn scene: every module of which a
function is called, in the order of the first call, and the modules that call it. What
`compute/map` runs is called by the module that handed it over. Calls of compiled kernels count as
well; those that kernels make among themselves are read from their source.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- walk: python docs/make_walk.py -->\n", "<!-- end of walk -->\n"
COMMAND = "import sys; from halfseen import cli; sys.exit(cli.run(sys.argv[1:]))"
PACKAGE = str(ROOT / "src" / "halfseen") + "/"
MAP = "compute/map"
# What everybody reads or asks, so that it is no stage: classes, the image, and `map` itself.
VALUES = {
    "geometry", "detections", "model/mixture", "model/mask_head", "suppression/candidates",
    "detect/view", MAP,
}  # fmt: skip
MOST_MODULES, MOST_CALLERS = 40, 2


class Walk:
    """The modules of halfseen that calls enter, with the modules that they come from."""

    def __init__(self) -> None:
        self.entered: dict[str, dict[str, None]] = {}
        self.first: dict[str, str] = {}

    def enter(self, module: str, function: str, caller: str) -> None:
        """Note a call of `module.function` from the module `caller`."""
        if module == caller:
            return
        self.first.setdefault(module, function)
        self.entered.setdefault(module, {}).setdefault(caller)

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        """For sys.setprofile: a call of a function, not the body of a module or class."""
        if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            module = name_module(frame.f_code)
            caller = calling_module(frame.f_back, module) if module else ""
            if caller:
                self.enter(module, frame.f_code.co_name, caller)

    def enter_kernel(self, kernel: Any, caller: str, known: frozenset[str] = frozenset()) -> None:
        """Note a call of a compiled kernel, and those of the kernels that its source names."""
        function = kernel.py_func
        module = name_module(function.__code__)
        if not module or f"{module}.{function.__name__}" in known:
            return
        self.enter(module, function.__name__, caller)
        known |= {f"{module}.{function.__name__}"}
        for name in function.__code__.co_names:
            called = function.__globals__.get(name)
            if hasattr(called, "py_func"):
                self.enter_kernel(called, module, known)

    @contextlib.contextmanager
    def trace(self) -> Iterator[None]:
        """Follow all calls, in new threads too."""
        from numba.core.dispatcher import Dispatcher

        compiled = Dispatcher.__call__

        def call(kernel: Any, *args: Any, **named: Any) -> Any:
            module = name_module(kernel.py_func.__code__)
            self.enter_kernel(kernel, calling_module(sys._getframe(1), module))
            return compiled(kernel, *args, **named)

        with mock.patch.object(Dispatcher, "__call__", call):
            threading.setprofile(self.profile)
            sys.setprofile(self.profile)
            try:
                yield
            finally:
                sys.setprofile(None)
                threading.setprofile(None)


def name_module(code: CodeType) -> str:
    """`detect/search` for a function of that file; nothing for code of others."""
    if not code.co_filename.startswith(PACKAGE):
        return ""
    return code.co_filename.removeprefix(PACKAGE).removesuffix(".py").removesuffix("/__init__")


def calling_module(frame: FrameType | None, called: str) -> str:
    """The nearest module of halfseen among the callers; nothing while it is being imported."""
    while frame is not None:
        module = name_module(frame.f_code)
        handed_over = module == MAP and not called.startswith("compute/")
        if module and not handed_over:
            return module if frame.f_code.co_flags & inspect.CO_OPTIMIZED else ""
        frame = frame.f_back
    return "shell"


def follow() -> Walk:
    """The walk of the command on a drawn scene, on one core."""
    from halfseen import cli
    from halfseen.data.image import write_image
    from halfseen.data.scenes import render_scene

    walk = Walk()
    with tempfile.TemporaryDirectory() as folder:
        photo = Path(folder) / "photo.jpg"
        write_image(photo, render_scene(2024, 26, ("car",)).truth.source)
        words = ["detect", "car.fhog", str(photo), "--cores", "1", "--quiet"]
        # Once without being followed: kernels that are compiled would enter modules of their own.
        subprocess.run([sys.executable, "-c", COMMAND, *words], check=True, capture_output=True)
        with contextlib.redirect_stdout(io.StringIO()), walk.trace():
            code = cli.run(words)
    if code:
        raise SystemExit(f"halfseen {' '.join(words)}: exit code {code}")
    check(walk)
    return walk


def check(walk: Walk) -> None:
    """Fail where the walk has become too long, or a stage is entered from all sides."""
    if len(walk.entered) > MOST_MODULES:
        raise SystemExit(f"{len(walk.entered)} modules, expected at most {MOST_MODULES}")
    for module, callers in walk.entered.items():
        if module not in VALUES and len(callers) > MOST_CALLERS:
            raise SystemExit(
                f"{module} is entered from {', '.join(callers)}: expected at most {MOST_CALLERS}"
            )


def as_table(walk: Walk) -> str:
    """The walk as a table of Markdown."""
    values = ", ".join(f"`{module}`" for module in walk.entered if module in VALUES)
    lines = [
        f"{len(walk.entered)} modules, of which no stage is entered from more than two others.",
        f"Not stages, but what all of them read or ask, are {values}.",
        "",
    ]
    lines += ["| | module | first call | called from |", "|---|---|---|---|"]
    for number, (module, callers) in enumerate(walk.entered.items(), start=1):
        names = ", ".join(f"`{caller}`" for caller in callers)
        lines.append(f"| {number} | `{module}` | `{walk.first[module]}` | {names} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether the page is stale")
    only_check = parser.parse_args().check
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"{PAGE}: expected {BEGIN.strip()} and {END.strip()}")
    renewed = before + BEGIN + as_table(follow()) + END + after
    if renewed == text:
        print(f"{PAGE}: the walk is up to date")
    elif only_check:
        raise SystemExit(f"{PAGE}: the walk is stale; run `python docs/make_walk.py`")
    else:
        PAGE.write_text(renewed)
        print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
