"""Cross-validation as a table and as a plot."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from halfseen.data.files import write_atomically
from halfseen.evaluate.table import Table
from halfseen.learn.tuning import STEPS, Tuning
from halfseen.report.palette import VERMILION, hexadecimal
from halfseen.report.plots import as_png, points, style

WIDE = (8.4, 5.6)  # inches, four plots


def as_table(result: Tuning) -> Table:
    """One row a value: its mean AP, the folds' spread, and a mark at the best of each step."""
    rows = []
    for step in STEPS:
        best = result.best(step)
        for value in result.tried.values(step):
            aps = [100 * ap for ap in result.aps(step, value) if not np.isnan(ap)]
            low, high = (min(aps), max(aps)) if aps else (float("nan"),) * 2
            mark = "best" if value == best else ""
            rows.append((step, f"{value:g}", 100 * result.mean(step, value), low, high, mark))
    return Table(("step", "value", "AP", "lowest fold", "highest fold", ""), rows)


def write_plot(result: Tuning, label: str, path: Path) -> Path:
    """AP against the value of each step; every fold as a dot, the mean as a line."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(WIDE, layout="constrained")
        for axes, step in zip(figure.subplots(2, 2).ravel(), STEPS, strict=True):
            values = result.tried.values(step)
            if step in ("lambda", "alpha"):
                axes.set(xscale="log", xlim=(min(values) / 1.5, max(values) * 1.5))
            else:
                axes.set(xlim=(min(values) - 0.05, max(values) + 0.05))
            points(axes, 0, "mean", values, [100 * result.mean(step, v) for v in values])
            for value in values:
                folds = [100 * ap for ap in result.aps(step, value)]
                axes.plot([value] * len(folds), folds, ".", color="0.6", zorder=0)
            axes.axvline(result.best(step), color=hexadecimal(VERMILION), linewidth=0.8)
            axes.set(title=f"{label}: {step}", ylabel="AP, held out")
        write_atomically(path, as_png(figure))
    return path
