"""Plots in one look: the palette's colours, thin grey axes, no ornament.

A figure is made for a page: as SVG it takes the page's own text colour and so fits light and dark.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from halfseen.evaluate.summary import CURVE_POINTS, Covered, Summary
from halfseen.report.palette import BLACK, WHITE, colour, hexadecimal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from halfseen.evaluate.miss_rate import MissRate

SIZE = (4.4, 3.3)  # inches: the width of a phone, so that letters stay readable there
INK = "#010203"  # a colour nothing else has; becomes the page's own in SVG
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
MARKERS = "osD^vPX"
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": INK,
    "grid.alpha": 0.12,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "svg.fonttype": "none",
    "svg.hashsalt": "halfseen",
    "figure.dpi": 100,
}


@contextmanager
def style() -> Iterator[None]:
    """Within it, matplotlib draws as all plots here do."""
    from matplotlib import rc_context

    with rc_context(STYLE):
        yield


def new_figure(title: str, x: str, y: str) -> tuple[Figure, Axes]:
    """An empty figure and its axes; draw on them within `style()`."""
    from matplotlib.figure import Figure

    figure = Figure(SIZE, layout="constrained")
    axes = figure.add_subplot(title=title, xlabel=x, ylabel=y)
    return figure, axes


def line(axes: Axes, number: int, name: str, x: Sequence[float], y: Sequence[float]) -> None:
    """The curve of method `number`: its colour and its dashes."""
    axes.plot(x, y, color=_tone(number), linestyle=DASHES[number % len(DASHES)], label=name)


def points(axes: Axes, number: int, name: str, x: Sequence[float], y: Sequence[float]) -> None:
    """A few measured points of method `number`, joined."""
    axes.plot(
        x, y, color=_tone(number), linestyle=DASHES[number % len(DASHES)], label=name,
        marker=MARKERS[number % len(MARKERS)],
    )  # fmt: skip


def _tone(number: int) -> str:
    return hexadecimal(colour(number))


def precision_recall(summaries: Sequence[Summary]) -> Figure:
    """The curves of one class."""
    with style():
        figure, axes = new_figure("Precision and recall", "recall", "precision")
        for n, s in enumerate(summaries):
            line(axes, n, f"{s.name}  AP {100 * s.ap:.1f}", s.recall_curve, s.precision_curve)
        axes.set(xlim=(0, 1), ylim=(0, 1.02))
        axes.legend()
    return figure


def miss_rates(methods: Mapping[str, MissRate]) -> Figure:
    """The share missed against false positives per image, of the objects of every size."""
    with style():
        figure, axes = new_figure("Misses and false alarms", "false positives per image", "missed")
        for n, (name, one) in enumerate(methods.items()):
            wrong, missed = one.curve
            wrong, missed = np.append(0, wrong), np.append(1, missed)
            few = np.unique(np.geomspace(1, len(wrong), CURVE_POINTS).astype(int) - 1)
            text = f"{name}  MR {100 * one.value:.1f}"
            # No place on a logarithmic axis is 0: curves begin at its end.
            line(axes, n, text, np.maximum(wrong[few], 0.01).tolist(), missed[few].tolist())
        axes.set(xscale="log", xlim=(0.01, None), ylim=(0, 1.02))
        axes.legend()
    return figure


def recall_by_subset(summaries: Sequence[Summary]) -> Figure:
    """Bars of recall for every subset that has an object."""
    names = [name for name, part in summaries[0].subsets.items() if part.objects]
    with style():
        figure, axes = new_figure("Found at any score", "share of the objects found", "")
        each = 0.8 / len(summaries)
        places = np.arange(len(names))
        for n, s in enumerate(summaries):
            values = [s.subsets[name].recall for name in names]
            axes.barh(places + (n - (len(summaries) - 1) / 2) * each, values, 0.85 * each,
                      color=_tone(n), label=s.name)  # fmt: skip
        labels = [f"{name} ({summaries[0].subsets[name].objects})" for name in names]
        axes.set_yticks(places, labels)
        axes.invert_yaxis()
        axes.grid(False, axis="y")
        axes.set(xlim=(0, 1))
        figure.legend(loc="outside lower center", ncols=4)
    return figure


def sweep_ap(summaries: Sequence[Summary]) -> Figure:
    """AP of whole objects against the share of them that is covered."""
    return _sweep(summaries, "AP, whole objects under texture", "AP", lambda step: step.ap, 0)


def sweep_accuracy(summaries: Sequence[Summary]) -> Figure:
    """Balanced accuracy of the hidden blocks against the share covered; chance is 0.5."""
    return _sweep(
        summaries, "Hidden blocks found", "balanced accuracy",
        lambda step: step.blocks.balanced_accuracy, 0.4,
    )  # fmt: skip


def _sweep(
    summaries: Sequence[Summary],
    title: str,
    what: str,
    value: Callable[[Covered], float],
    low: float,
) -> Figure:
    with style():
        figure, axes = new_figure(title, "share of each object covered", what)
        for n, s in enumerate(summaries):
            shown = [(step.share, value(step)) for step in s.sweep if not np.isnan(value(step))]
            if shown:
                points(axes, n, s.name, *zip(*shown, strict=True))
        shares = [step.share for s in summaries for step in s.sweep]
        axes.set_xticks(sorted(set(shares)), [f"{share:.0%}" for share in sorted(set(shares))])
        axes.set(ylim=(low, 1.02))
        if axes.get_legend_handles_labels()[0]:
            axes.legend()
    return figure


def as_svg(figure: Figure, name: str, description: str) -> str:
    """An <svg> element to stand in a page; `name` keeps its ids apart from other figures'."""
    out = io.StringIO()
    with style():
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", text)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    size = re.compile(r' width="[\d.]+pt" height="[\d.]+pt"| height="[\d.]+pt" width="[\d.]+pt"')
    text = size.sub("", text.replace(INK, "currentColor"), count=1)
    return text.replace("<svg", f'<svg role="img" aria-label="{description}"', 1).strip()


def as_png(figure: Figure, dpi: float = 160) -> bytes:
    """A picture file on white, for documents that cannot hold SVG."""
    out = io.BytesIO()
    with style():
        figure.savefig(
            out, format="png", dpi=dpi, facecolor=hexadecimal(WHITE), edgecolor=hexadecimal(BLACK)
        )
    return out.getvalue()
