"""For the API reference: lists in docstrings, "name  what it is" a line, become lists of Markdown.

An extension of griffe, which reads the source for mkdocstrings; mkdocs.yml names it.
"""

import re
from typing import Any

import griffe

ITEM = re.compile(r"^(?P<name>[A-Za-z_*][\w*.]*(?:, [\w*.]+)*) {2,}(?P<text>\S.*)$")


def as_markdown(text: str) -> str:
    """The docstring with its aligned lists as Markdown; other lines are left alone."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        item = ITEM.match(line)
        if item:
            if not inside and lines and lines[-1]:
                lines.append("")
            lines.append(f"- `{item['name']}`: {item['text']}")
        elif inside and line.startswith("  "):
            lines.append("  " + line.strip())
            continue
        else:
            if inside and line:
                lines.append("")
            lines.append(line)
        inside = bool(item)
    return "\n".join(lines)


class Layout(griffe.Extension):
    """Rewrites every docstring as it is read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called with each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
