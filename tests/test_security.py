"""SECURITY.md: the limits it states are those of the code, and the tests it names are there."""

import re
from dataclasses import asdict
from pathlib import Path

from halfseen.data.limits import LIMITS

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "SECURITY.md").read_text()
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def test_the_limits_are_those_of_the_code() -> None:
    stated = {}
    for name, number, unit in re.findall(r"^\| `(\w+)` \| ([\d,]+) ?(\w*) \|", TEXT, re.MULTILINE):
        stated[name] = int(number.replace(",", "")) * UNITS.get(unit, 1)
    assert stated == asdict(LIMITS)


def test_every_promise_names_what_holds_it() -> None:
    rows = re.findall(r"^\| ([A-Z`].*) \| (.*) \|$", TEXT.split("## What is trusted")[0], re.M)
    assert len(rows) >= 12
    makefile = (ROOT / "Makefile").read_text()
    for promise, held in rows:
        named = re.findall(r"(tests/[\w/]+\.py)(?:::(\w+))?", held)
        commands = re.findall(r"`make ([\w-]+)", held)
        assert named or commands, promise
        for file, test in named:
            assert f"def {test}" in (ROOT / file).read_text()
        for command in commands:
            assert f"\n{command}:" in makefile
