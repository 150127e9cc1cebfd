"""The rule of the house: imports point the way the data flows, and the package starts light."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import halfseen

SOURCE = Path(halfseen.__file__).parent
BASE = {"errors", "geometry", "detections", "data"}
IMAGES = BASE | {"features"}
INFERENCE = IMAGES | {"model", "suppress", "compute", "compilation"}

# What each part may import besides itself. Only the front, view and cli, may import everything
# that comes before it.
ALLOWED = {
    "errors": set(),
    "paper": set(),
    "compilation": {"errors"},
    "compute": {"errors", "compilation", "cluster", "processes"},
    "cluster": {"errors", "processes"},
    "processes": {"errors"},
    "geometry": {"errors"},
    "detections": {"errors", "geometry"},
    "data": {"errors", "geometry", "detections"},
    "features": {"errors", "geometry", "data"},
    "model": IMAGES,
    "suppress": BASE,
    "collection": BASE | {"compute"},
    "infer": INFERENCE,
    "evaluate": BASE | {"compute", "suppress"},
    "learn": INFERENCE | {"infer", "evaluate"},
    "reproduce": INFERENCE | {"infer", "evaluate", "learn", "paper"},
    "view": INFERENCE | {"infer", "evaluate", "learn", "reproduce", ""},
    "cli": INFERENCE
    | {"collection", "infer", "evaluate", "learn", "reproduce", "paper", "view", ""},
    # The package's own page of public names; "" is `import halfseen` itself.
    "": INFERENCE | {"infer", "evaluate", "learn", "reproduce"},
    "__main__": {"cli"},
}


def part(module: str) -> str:
    """The first name below halfseen: its package or module."""
    names = module.split(".")
    return names[1] if len(names) > 1 else ""


def imports(source: str, package: str) -> Iterator[str]:
    """The modules of halfseen that a source imports, wherever in it the statement stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (n.name for n in node.names if n.name.split(".")[0] == "halfseen")
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                module = ".".join([*above, *filter(None, [module])])
            if module == "halfseen":
                yield from (f"halfseen.{n.name}" for n in node.names)
            elif module.split(".")[0] == "halfseen":
                yield module


def edges() -> list[tuple[str, str, str]]:
    """(file, importing part, imported part) of every import within the package."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        relative = path.relative_to(SOURCE)
        package = ".".join(["halfseen", *relative.parts[:-1]])
        own = "" if relative.parts == ("__init__.py",) else relative.parts[0].removesuffix(".py")
        for module in imports(path.read_text(), package):
            if part(module) != own:
                found.append((str(relative), own, part(module)))
    return found


def test_imports_point_the_way_the_data_flows() -> None:
    found = edges()
    assert ("infer/detector.py", "infer", "model") in found
    assert {own for _, own, _ in found} <= ALLOWED.keys(), "a new part needs a line in the table"
    wrong = [
        f"{file} imports {to or 'halfseen'}" for file, own, to in found if to not in ALLOWED[own]
    ]
    assert wrong == []


def test_the_table_has_no_circle() -> None:
    """Parts can be put in an order in which each imports only earlier ones."""
    # The front may ask the package for its public names, which are looked up when they are used.
    left = {name: allowed - {""} for name, allowed in ALLOWED.items()}
    while left:
        free = {name for name, allowed in left.items() if not allowed & left.keys()}
        assert free, f"circle among {sorted(left)}"
        left = {name: allowed for name, allowed in left.items() if name not in free}


def test_the_promises_of_the_design_are_in_the_table() -> None:
    front = {"view", "cli"}
    assert {name for name, allowed in ALLOWED.items() if allowed & front} == {"cli", "__main__"}
    assert not ALLOWED["evaluate"] & {"infer", "learn", "model", "features"}
    assert ALLOWED["suppress"] == {"detections", "geometry", "errors", "data"}


@pytest.mark.parametrize(
    ("source", "package", "expected"),
    [
        ("import halfseen.view.draw as d", "halfseen", ["halfseen.view.draw"]),
        ("def f():\n    from halfseen import cli", "halfseen.data", ["halfseen.cli"]),
        ("from ..learn import trainer", "halfseen.data", ["halfseen.learn"]),
        ("from . import voc", "halfseen.data", ["halfseen.data"]),
        ("import numpy\nfrom halfseenish import x", "halfseen", []),
    ],
)
def test_no_form_of_import_escapes(source: str, package: str, expected: list[str]) -> None:
    assert list(imports(source, package)) == expected


def test_the_package_starts_light() -> None:
    heavy = ("numba", "scipy", "matplotlib", "sklearn", "skimage", "joblib", "dask", "fastapi")
    program = (
        "import sys, halfseen, halfseen.errors\n"
        f"print(sorted(name for name in {heavy!r} if name in sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"
