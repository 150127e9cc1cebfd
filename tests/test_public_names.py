"""The public names: all of them resolve, and the documents tell users to import nothing else."""

import ast
import importlib
import re
from pathlib import Path

import pytest

import halfseen as hs

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
REFERENCE = (ROOT / "docs" / "reference.md").read_text()
DOCUMENTED = set(re.findall(r"^::: ([\w.]+)$", REFERENCE, re.MULTILINE))


def blocks(page: Path) -> list[str]:
    """The Python of a page; of an example, all of it."""
    text = page.read_text()
    return [text] if page.suffix == ".py" else re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def used(source: str) -> set[str]:
    """Dotted names of halfseen that a source imports, or takes from `hs`."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "halfseen":
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "hs":
            names.add(f"halfseen.{node.attr}")
    return names


@pytest.mark.parametrize("name", sorted(hs.__all__))
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(hs, name) is not None


def test_dir_shows_the_public_names_alone() -> None:
    assert dir(hs) == sorted(hs.__all__)


def test_type_checkers_see_the_same_names_in_the_same_places() -> None:
    tree = ast.parse(Path(hs.__file__).read_text())
    seen = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                name = (alias.asname or "").removeprefix("_")  # draw = _draw
                other = "" if name == alias.name else f":{alias.name}"
                seen[name] = f"{node.module}{other}"
    del seen[""]  # what the page itself needs
    assert seen == hs._PLACES


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES], ids=lambda page: page.name)
def test_documents_use_what_is_public_or_documented(page: Path) -> None:
    for source in blocks(page):
        for name in used(source):
            module, _, attribute = name.rpartition(".")
            assert getattr(importlib.import_module(module), attribute) is not None, name
            public = module == "halfseen" and attribute in hs.__all__
            assert public or {module, name} & DOCUMENTED, name


def test_the_reference_has_every_public_name() -> None:
    assert {f"halfseen.{name}" for name in hs.__all__ if name != "__version__"} <= {
        f"halfseen.{name}" for name in re.findall(r"`hs\.(\w+)`", REFERENCE)
    }


def test_shipped_models_are_listed_by_pattern() -> None:
    assert hs.models("car*") == ["car", "car.net", "car.fhog", "car.fast"]
    assert len(hs.models()) == 80
