"""Rows of figures as text for a terminal, Markdown or CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

WIDTH = 80
Cell = str | float | int | None


@dataclass(frozen=True)
class Table:
    """A table: a name for every column, then rows of as many cells.

    Floats are shown with `digits` decimals; None and NaN, which stand for "not known", as "-".
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    digits: int = 1
    notes: Sequence[str] = field(default_factory=tuple)

    def __post_init__(self) -> None:
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

        If the columns do not fit, long words of the first column are cut with an ellipsis; if
        that is not enough, the columns that are over go into further parts below, each led by the
        first column.
        """
        parts = [self._part(group, width) for group in self._groups(width)]
        head = [self.title] if self.title else []
        return "\n".join([*head, *"\n\n".join(parts).split("\n"), *self.notes]).rstrip()

    def _widths(self) -> list[int]:
        return [
            max(len(str(name)), *(len(self.shown(row[c])) for row in self.rows), 1)
            for c, name in enumerate(self.columns)
        ]

    def _groups(self, width: int) -> list[list[int]]:
        """Which columns stand side by side in each part."""
        sizes = self._widths()
        if not sizes:
            return []
        lead = min(sizes[0], width // 2)
        groups, used = [[0]], lead
        for c in range(1, len(sizes)):
            if used + 2 + sizes[c] > width and len(groups[-1]) > 1:
                groups.append([0])
                used = lead
            groups[-1].append(c)
            used += 2 + sizes[c]
        return groups

    def _part(self, group: list[int], width: int) -> str:
        sizes = self._widths()
        rest = sum(2 + sizes[c] for c in group[1:])
        sizes[0] = min(sizes[0], max(width - rest, 1))
        numeric = [self._is_numeric(c) for c in range(len(self.columns))]

        def line(cells: Sequence[str]) -> str:
            fitted = []
            for c in group:
                word = cells[c] if len(cells[c]) <= sizes[c] else cells[c][: sizes[c] - 1] + "…"
                fitted.append(word.rjust(sizes[c]) if numeric[c] else word.ljust(sizes[c]))
            return "  ".join(fitted).rstrip()[:width]

        rule = "  ".join("-" * sizes[c] for c in group)[:width]
        body = [line([self.shown(cell) for cell in row]) for row in self.rows]
        return "\n".join([line(list(self.columns)), rule, *body])

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
        return "\n".join([*head, line(list(self.columns)), line(marks), *body, *foot])

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
