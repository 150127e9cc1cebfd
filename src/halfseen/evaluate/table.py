"""Rows of figures as text for a terminal, Markdown or CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

WIDTH = 80
Cell = str | float | int | None


@dataclass(frozen=True)
class Table:
    """A table: a name for every column, then rows of as many cells.

    Floats are shown with `digits` decimals; None and NaN, which stand for "not known", as "-".
    `ranked` columns compare methods: the highest number is the best.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    digits: int = 1
    notes: Sequence[str] = field(default_factory=tuple)
    ranked: bool = True

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError("a table needs at least one column")
        for n, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(f"row {n} has {len(row)} cells for {len(self.columns)} columns")

    def shown(self, cell: Cell) -> str:
        """One cell as it is read."""
        if _unknown(cell):
            return "-"
        if isinstance(cell, float):
            return f"{cell:.{self.digits}f}"
        return str(cell)

    def text(self, width: int = WIDTH) -> str:
        """Aligned columns, numbers to the right, no line longer than `width`.

        Words too long are cut with an ellipsis, those of the first column at half the width.
        Columns that do not fit go into further parts below, each led by the first column.
        """
        sizes = self._sizes(width)
        parts = [self._part(group, sizes) for group in _groups(sizes, width)]
        head = [self.title] if self.title else []
        return "\n".join([*head, *"\n\n".join(parts).split("\n"), *self.notes]).rstrip()

    def _sizes(self, width: int) -> list[int]:
        sizes = [
            max(len(name), *(len(self.shown(row[c])) for row in self.rows), 1)
            for c, name in enumerate(self.columns)
        ]
        lead = min(sizes[0], width // 2 if len(sizes) > 1 else width)
        return [lead, *(min(size, width - lead - 2) for size in sizes[1:])]

    def _part(self, group: list[int], sizes: list[int]) -> str:
        numeric = [self._is_numeric(c) for c in range(len(self.columns))]

        def line(cells: Sequence[str]) -> str:
            fitted = []
            for c in group:
                word = cells[c] if len(cells[c]) <= sizes[c] else cells[c][: sizes[c] - 1] + "…"
                fitted.append(word.rjust(sizes[c]) if numeric[c] else word.ljust(sizes[c]))
            return "  ".join(fitted).rstrip()

        rule = "  ".join("-" * sizes[c] for c in group)
        body = [line([self.shown(cell) for cell in row]) for row in self.rows]
        return "\n".join([line(self.columns), rule, *body])

    def _is_numeric(self, column: int) -> bool:
        cells = [row[column] for row in self.rows if row[column] is not None]
        return bool(cells) and not any(isinstance(cell, str) for cell in cells)

    def markdown(self) -> str:
        """A Markdown table; bars within cells are escaped."""

        def line(cells: Sequence[str]) -> str:
            return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

        marks = ["---:" if self._is_numeric(c) else "---" for c in range(len(self.columns))]
        body = [line([self.shown(cell) for cell in row]) for row in self.rows]
        head = [f"**{self.title}**", ""] if self.title else []
        foot = ["", *self.notes] if self.notes else []
        return "\n".join([*head, line(self.columns), line(marks), *body, *foot])

    def as_json(self) -> dict[str, Any]:
        """Plain values for JSON; what is not known is null."""
        rows = [[None if _unknown(cell) else cell for cell in row] for row in self.rows]
        return {"title": self.title, "columns": list(self.columns), "rows": rows}

    def csv(self) -> str:
        """CSV with all digits; what is not known is empty. Titles and notes are left out."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        for row in self.rows:
            writer.writerow(["" if _unknown(cell) else cell for cell in row])
        return out.getvalue()


def _unknown(cell: Cell) -> bool:
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def _groups(sizes: list[int], width: int) -> list[list[int]]:
    """Which columns stand side by side in each part."""
    groups, used = [[0]], sizes[0]
    for c in range(1, len(sizes)):
        if used + 2 + sizes[c] > width:
            groups.append([0])
            used = sizes[0]
        groups[-1].append(c)
        used += 2 + sizes[c]
    return groups
