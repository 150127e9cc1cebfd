"""The rule of the house: imports point the way the data flows, and everything stays small.

Each KNOWN_ table names what does not keep a rule yet. It may only shrink: what is not in it fails,
and so does an entry that is no longer needed.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import halfseen

SOURCE = Path(halfseen.__file__).parent
TESTS = Path(__file__).parent
LINES = 350
PARAMETERS = 8

BASE = {"arrays", "errors", "settings", "geometry", "ground_truth", "detections", "data"}
IMAGES = BASE | {"features"}
DETECTION = IMAGES | {"model", "suppression", "compute", "visibility"}
STUDY = DETECTION | {"detect", "refine", "evaluate", "learn"}

# What each part may import besides itself. Only the front may import everything before it.
ALLOWED: dict[str, set[str]] = {
    "arrays": set(),
    "errors": set(),
    "settings": {"errors"},
    "compute": {"errors"},
    "geometry": {"arrays", "errors"},
    "ground_truth": {"arrays", "errors", "geometry"},
    "detections": {"arrays", "errors", "geometry", "ground_truth"},
    "data": BASE - {"data"},
    "features": BASE - {"detections"},
    "model": IMAGES,
    "visibility": {"arrays", "errors"},
    "suppression": BASE,
    "collection": BASE | {"compute", "evaluate"},
    "detect": DETECTION,
    "refine": DETECTION | {"detect"},
    "evaluate": BASE | {"compute", "model", "suppression"},
    "learn": DETECTION | {"detect", "refine", "evaluate"},
    "report": STUDY,
    "studies": STUDY | {"collection", "report"},
    # The package's own page of public names; "" is `import halfseen` itself.
    "": STUDY | {"collection", "studies", "report"},
    "web": STUDY | {"studies", "report", ""},
    "cli": STUDY | {"collection", "studies", "report", "web", ""},
    "__main__": {"cli"},
}

KNOWN_UPWARD: set[str] = set()
KNOWN_ON_CYCLES: set[str] = set()
KNOWN_LONG: set[str] = set()
KNOWN_MANY_PARAMETERS: set[str] = set()
KNOWN_TEST_IMPORTS: set[str] = set()


def assert_only(found: set[str], known: set[str]) -> None:
    assert sorted(found - known) == [], "breaks the rule"
    assert sorted(known - found) == [], "keeps the rule now: take it out of its KNOWN_ table"


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its full name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def relative(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def part(module: str) -> str:
    """The first name below halfseen: its package or module."""
    names = module.split(".")
    return names[1] if len(names) > 1 else ""


def imports(source: str, package: str, top: str = "halfseen") -> Iterator[str]:
    """The names below `top` that a source imports, wherever in it the statement stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (n.name for n in node.names if n.name.split(".")[0] == top)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                module = ".".join([*above, *filter(None, [module])])
            if module.split(".")[0] == top:
                yield from (f"{module}.{n.name}" for n in node.names)


@cache
def module_imports() -> dict[str, set[str]]:
    """The modules of the package that each module imports, also inside functions."""
    graph = {}
    for name, path in modules().items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        names = imports(path.read_text(), package)
        # A name that is no module is a function or class of the module before it.
        graph[name] = {n if n in modules() else n.rpartition(".")[0] for n in names} - {name}
    return graph


def test_imports_point_the_way_the_data_flows() -> None:
    edges = {
        (relative(modules()[name]), part(name), part(other))
        for name, others in module_imports().items()
        for other in others
        if part(name) != part(other)
    }
    assert ("detect/detector.py", "detect", "model") in edges
    assert {own for _, own, _ in edges} <= ALLOWED.keys(), "a new part needs a line in the table"
    wrong = {
        f"{file} imports {to or 'halfseen'}" for file, own, to in edges if to not in ALLOWED[own]
    }
    assert_only(wrong, KNOWN_UPWARD)


def test_the_table_of_imports_has_no_way_back() -> None:
    order = list(TopologicalSorter(ALLOWED).static_order())
    assert order.index("detect") < order.index("refine") < order.index("learn") < order.index("cli")


def on_cycles(graph: dict[str, set[str]]) -> set[str]:
    """The names from which a way leads back to themselves."""

    def reached(start: str) -> set[str]:
        found, waiting = set[str](), set(graph[start])
        while waiting:
            name = waiting.pop()
            found.add(name)
            waiting |= graph[name] - found
        return found

    return {name for name in graph if name in reached(name)}


def test_no_module_imports_itself_by_way_of_others() -> None:
    found = on_cycles(module_imports())
    assert_only({name.removeprefix("halfseen.") for name in found}, KNOWN_ON_CYCLES)


def test_cycles_are_found() -> None:
    assert on_cycles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == set()
    assert on_cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == {"b", "c"}


def test_modules_are_short() -> None:
    long = {relative(p) for p in modules().values() if len(p.read_text().splitlines()) > LINES}
    assert_only(long, KNOWN_LONG)


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many a caller may give; a method's own object is none of them."""
    given = function.args
    named = [a.arg for a in given.posonlyargs + given.args + given.kwonlyargs]
    return (
        len([n for n in named if n not in ("self", "cls")]) + bool(given.vararg) + bool(given.kwarg)
    )


def is_excepted(path: Path, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A command's parameters are its options; a compiled kernel takes arrays one by one."""
    command = path.parent.name == "cli" and function.name == "command"
    return command or any("jit" in ast.unparse(d) for d in function.decorator_list)


def test_functions_have_few_parameters() -> None:
    many = {
        f"{relative(path)} {node.name}"
        for path in modules().values()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and parameters(node) > PARAMETERS
        and not is_excepted(path, node)
    }
    assert_only(many, KNOWN_MANY_PARAMETERS)


def test_test_modules_do_not_import_each_other() -> None:
    wrong = {
        f"{path.relative_to(TESTS).as_posix()} imports {name.rpartition('.')[0]}"
        for path in TESTS.rglob("test_*.py")
        for name in imports(path.read_text(), "tests", "tests")
        if name.rpartition(".")[0].rpartition(".")[2].startswith("test_")
    }
    assert_only(wrong, KNOWN_TEST_IMPORTS)


@pytest.mark.parametrize(
    ("source", "package", "expected"),
    [
        ("import halfseen.report.draw as d", "halfseen", ["halfseen.report.draw"]),
        ("def f():\n    from halfseen import cli", "halfseen.data", ["halfseen.cli"]),
        ("from ..learn import trainer", "halfseen.data", ["halfseen.learn.trainer"]),
        ("from . import voc", "halfseen.data", ["halfseen.data.voc"]),
        ("import numpy\nfrom halfseenish import x", "halfseen", []),
    ],
)
def test_no_form_of_import_escapes(source: str, package: str, expected: list[str]) -> None:
    assert list(imports(source, package)) == expected


@pytest.mark.parametrize(
    ("imported", "heavy"),
    [
        (
            ["halfseen", "halfseen.errors"],
            ["numba", "scipy", "matplotlib", "sklearn", "skimage", "dask", "fastapi"],
        ),
        (
            [n for n in modules() if part(n) == "evaluate" and not n.endswith(".kernels")],
            ["numba", "matplotlib"],
        ),
    ],
)
def test_importing_is_light(imported: list[str], heavy: list[str]) -> None:
    program = (
        f"import sys, {', '.join(imported)}\n"
        f"print(sorted(name for name in {heavy!r} if name in sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"
