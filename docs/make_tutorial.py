"""Renders examples/tutorial.py as docs/tutorial.md: `python docs/make_tutorial.py`."""

from pathlib import Path

DOCS = Path(__file__).parent
SOURCE = DOCS.parent / "examples" / "tutorial.py"
PAGE = DOCS / "tutorial.md"


def render(source: str) -> str:
    """Cells begin with `# %%`; those marked [markdown] become text, the others code."""
    parts = []
    for cell in source.split("# %%")[1:]:
        mark, _, body = cell.partition("\n")
        if "[markdown]" in mark:
            lines = [line.removeprefix("#").removeprefix(" ") for line in body.strip().split("\n")]
            parts.append("\n".join(lines))
        else:
            parts.append(f"```python\n{body.strip()}\n```")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(SOURCE.read_text()))
    print(f"wrote {PAGE}")
