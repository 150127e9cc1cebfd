"""The pointers of the page lead somewhere, and its example runs."""

import re
from pathlib import Path
from typing import Any

import halfseen as hs
from halfseen.data.image import as_image

ROOT = Path(__file__).parents[2]
SOURCE = Path(hs.__file__).parent
PAGE = (ROOT / "docs" / "architecture.md").read_text()
QUOTED = re.compile(r"`([\w/.]+)`")


def place(name: str) -> Path | None:
    """The file or folder that a quoted name with a slash stands for."""
    found = [SOURCE / name, SOURCE / f"{name}.py", ROOT / name]
    return next((path for path in found if path.exists()), None)


def test_every_file_that_the_page_names_exists() -> None:
    names = {name for name in QUOTED.findall(PAGE) if "/" in name}
    assert len(names) > 40
    assert sorted(name for name in names if place(name) is None) == []


def test_what_is_looked_for_stands_where_the_page_says() -> None:
    for line in PAGE.split("## The map")[0].splitlines():
        quoted = QUOTED.findall(line)
        files = [path for name in quoted if "/" in name and (path := place(name)) is not None]
        text = "".join(file.read_text() for file in files if file.is_file())
        for name in quoted:
            assert "/" in name or re.search(rf"\b{name}\b", text), f"{name} in {quoted}"


def test_the_example_of_a_stage_runs() -> None:
    (code,) = re.findall(r"```python\n(import halfseen.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    scene = next(iter(hs.render_scenes(1, 2024, ("car",))))
    found = names["detector"].detect(as_image(scene.source))
    assert set(found.probability.tolist()) <= {0.0, 1.0}
