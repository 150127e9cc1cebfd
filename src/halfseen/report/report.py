"""One HTML file that shows an evaluation: tables, curves, the sweep, pictures, and what made it.

It holds everything it shows and may load nothing: it can be mailed, and it runs no script.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from PIL import Image

from halfseen.arrays import Pixels
from halfseen.errors import HalfseenError, ImageError
from halfseen.evaluate.evaluation import Evaluation, Method
from halfseen.evaluate.overview import by_fraction, overview, sweep_table, what_is_seen
from halfseen.evaluate.table import Cell, Table
from halfseen.report import plots
from halfseen.report.cases import Case, choose_cases, picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
MOST_SECTIONS = 80  # classes with curves and pictures of their own: those of COCO
NOT_RANKED = ("seen", "(box)", "false")
READING = (
    "Blocks that the detector sees are tinted, those it takes for hidden are dimmed and hatched. "
    "Dashed: the whole object; solid: what is seen of it; white: the truth."
)
READING_BOXES = "Solid: the detection; white: the truth."
HEADINGS = {
    "Best": "The right detections with the highest scores.",
    "Partly hidden and found": "Right detections of occluded or truncated objects, best first.",
    "Weakest of the right ones": "Right detections with the lowest scores.",
    "False alarms": "The wrong detections with the highest scores, and what they mistook.",
    "Missed": "Objects that no detection found, the largest first.",
}


def report_html(
    evaluations: Sequence[Evaluation],
    facts: Mapping[str, str],
    pictures: int = 6,
    figures: Mapping[str, Figure] | None = None,
) -> str:
    """The page. `pictures` at most under each heading of cases; `figures` come first, by name."""
    shown = _sections(evaluations)
    labels = [evaluation.label for evaluation in shown]
    more = len(evaluations) - len(shown)
    names = ", ".join(labels) + (f" and {more} more classes" if more else "")
    title = f"halfseen: {names} on {evaluations[0].dataset.name}"
    style = files("halfseen.report").joinpath("report.css").read_text()
    links = ""
    if len(evaluations) > 1:
        items = (f'<a href="#{_anchor(n)}">{escape(label)}</a>' for n, label in enumerate(labels))
        links = f"<p>{' · '.join(items)}</p>{_table(_means(evaluations))}"
    if more:
        links += (
            f"<p>Curves and pictures are of the {len(shown)} classes with the most objects; the "
            f"figures of the other {more} are in results.json and results.csv.</p>"
        )
    body = _own_figures(figures or {})
    body += "".join(_class_section(n, e, pictures) for n, e in enumerate(shown))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>"
        f"<h1>{escape(title)}</h1>{links}{body}{_made(evaluations, facts)}</body></html>\n"
    )


def _sections(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """The evaluations with sections of their own: of all classes, or of the most common ones."""
    order = sorted(
        range(len(evaluations)), key=lambda n: evaluations[n].summaries[0].objects, reverse=True
    )
    return [evaluations[n] for n in sorted(order[:MOST_SECTIONS])]


def _own_figures(figures: Mapping[str, Figure]) -> str:
    parts = [
        f"<h2>{escape(name)}</h2><figure>{plots.as_svg(figure, f'own-{n}', escape(name))}</figure>"
        for n, (name, figure) in enumerate(figures.items())
    ]
    return "".join(parts)


def _anchor(number: int) -> str:
    return f"class-{number}"


def _means(evaluations: Sequence[Evaluation]) -> Table:
    """AP of every class and method, and the means over the classes that a method has."""
    names = list(dict.fromkeys(s.name for e in evaluations for s in e.summaries))
    rows: list[list[Cell]] = []
    for e in evaluations:
        ap = {s.name: 100 * s.ap for s in e.summaries}
        rows.append([e.label, *(ap.get(name) for name in names)])
    columns = [[row[c] for row in rows if row[c] is not None] for c in range(1, len(names) + 1)]
    rows.append(["mean", *(sum(map(float, c)) / len(c) for c in columns)])  # type: ignore[arg-type]
    return Table(["class", *names], rows, "AP % (VOC, all-point)")


def _class_section(number: int, evaluation: Evaluation, pictures: int) -> str:
    summaries = evaluation.summaries
    parts = [
        f'<section id="{_anchor(number)}"><h2>{escape(evaluation.label)}</h2>',
        _headline(evaluation),
        _table(overview(summaries)),
        _figures(number, evaluation),
    ]
    told = {table.title for table in evaluation.tables}
    details = (sweep_table(summaries), by_fraction(summaries), what_is_seen(summaries))
    parts += [_table(table) for table in evaluation.tables]
    parts += [_table(one) for one in details if one is not None and one.title not in told]
    if pictures:
        parts.append(_cases(evaluation, pictures))
    return "".join([*parts, "</section>"])


def _headline(evaluation: Evaluation) -> str:
    first = evaluation.summaries[0]
    text = f"{first.objects} objects to be found in {first.images} images."
    lines = [f'<p class="headline">{text}</p>']
    differences = [
        f"<b>{escape(name)}</b> {escape(str(difference))}"
        for name, difference in evaluation.differences.items()
    ]
    if differences:
        lines.append(
            f"<p>Against {escape(evaluation.baseline)}, with 95% intervals of a paired bootstrap "
            f"over images: {'; '.join(differences)}.</p>"
        )
    return "".join(lines)


def _table(table: Table) -> str:
    """A table under its title; the best number of each column is bold."""
    best = [_best(table, c) for c in range(len(table.columns))]
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.columns)
    rows = []
    for row in table.rows:
        cells = [f'<th scope="row">{escape(table.shown(row[0]))}</th>']
        for c, cell in enumerate(row[1:], start=1):
            shown = table.shown(cell)
            mark = ' class="best"' if isinstance(cell, float) and shown == best[c] else ""
            cells.append(f"<td{mark}>{escape(shown)}</td>")
        kind = ' class="count"' if row[0] in ("objects", "mean") else ""
        rows.append(f"<tr{kind}>{''.join(cells)}</tr>")
    notes = f'<p class="note">{escape(" ".join(table.notes))}</p>' if table.notes else ""
    return (
        f'<h3>{escape(table.title)}</h3><div class="scroll"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>{notes}"
    )


def _best(table: Table, column: int) -> str | None:
    """The best number as it is shown; None where there is nothing to choose from."""
    values = [row[column] for row in table.rows]
    known = [v for v in values if isinstance(v, float) and not math.isnan(v)]
    if (
        not table.ranked
        or table.columns[column] in NOT_RANKED
        or len({table.shown(v) for v in known}) < 2
    ):
        return None
    return table.shown(max(known))


def _figures(number: int, evaluation: Evaluation) -> str:
    summaries = evaluation.summaries
    figure = plots.precision_recall(summaries)
    drawn = {"curve": (figure, "Precision against recall of each method")}
    if evaluation.misses:
        figure = plots.miss_rates(evaluation.misses)
        drawn["misses"] = (figure, "Share missed against false positives per image")
    drawn["subsets"] = (plots.recall_by_subset(summaries), "Recall of each method by subset")
    if any(s.sweep for s in summaries):
        drawn["sweep"] = (plots.sweep_ap(summaries), "AP against the share of objects covered")
        figure = plots.sweep_accuracy(summaries)
        drawn["blocks"] = (figure, "Accuracy of hidden blocks against the share covered")
    parts = [
        f"<figure>{plots.as_svg(figure, f'{_anchor(number)}-{name}', words)}</figure>"
        for name, (figure, words) in drawn.items()
    ]
    return f'<div class="grid plots">{"".join(parts)}</div>'


def shown_method(methods: Iterable[Method]) -> Method:
    """The method that is pictured: the first that knows what is hidden, else the last."""
    *others, last = methods
    return next((m for m in [*others, last] if m.visibility), last)


def _cases(evaluation: Evaluation, count: int) -> str:
    name = shown_method(evaluation.methods).name
    found = evaluation.found[name]
    others = {other: m for other, m in evaluation.matches.items() if other != name}
    truth = evaluation.dataset.truths
    method = next(m for m in evaluation.methods if m.name == name)
    reading = READING_BOXES if method.model is None else READING
    parts: list[str] = []
    missing: list[str] = []
    for heading, cases in choose_cases(
        truth, found, evaluation.matches[name], others, count
    ).items():
        if cases:
            figures = "".join(_case(evaluation, name, case, missing) for case in cases)
            parts.append(
                f'<h3>{heading}</h3><p class="soft">{HEADINGS[heading]}</p>'
                f'<div class="grid">{figures}</div>'
            )
    if missing:
        reading += f" Some are not here: {escape(missing[0])}; --images FOLDER says where they are."
    return "".join([f"<h3>Pictures: {escape(name)}</h3><p>{reading}</p>", *parts])


def _case(evaluation: Evaluation, name: str, case: Case, missing: list[str]) -> str:
    image, source = evaluation.dataset[case.image].image, evaluation.dataset[case.image].source
    try:
        if isinstance(source, str) and not source:
            raise ImageError(f"{image}: no image is named")
        pixels = picture(evaluation.dataset, evaluation.found[name], case, evaluation.label)
        shown = f'<img alt="{escape(f"{image}: {case.caption}")}" src="{_data_uri(pixels)}">'
    except HalfseenError as error:
        # The detections of a results file can be judged without their pictures.
        missing.append(str(error))
        shown = ""
    return (
        f"<figure>{shown}<figcaption><b>{escape(image)}</b> {escape(case.caption)}</figcaption>"
        "</figure>"
    )


def _data_uri(pixels: Pixels) -> str:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=82, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(out.getvalue()).decode()}"


def _made(evaluations: Sequence[Evaluation], facts: Mapping[str, str]) -> str:
    parts = [f"<section><h2>What made this</h2>{_list(facts)}"]
    for evaluation in evaluations:
        for method in evaluation.methods:
            title = f"{escape(evaluation.label)}: {escape(method.name)}"
            parts += [
                f"<details><summary>{title}</summary>",
                f"{_list(settings_of(method))}</details>",
            ]
    problems = list(dict.fromkeys(p for e in evaluations for p in e.problems))
    if problems:
        items = "".join(f"<li>{escape(problem)}</li>" for problem in problems)
        parts.append(f'<h3>Left out</h3><ul class="problems">{items}</ul>')
    return "".join([*parts, "</section>"])


def settings_of(method: Method) -> dict[str, Any]:
    """All that decided what a method found, by name."""
    fields: dict[str, Any] = {"file": method.source}
    model = method.model
    if model is None:
        return fields
    fields["method"] = model.method
    fields["suppression"] = method.suppression
    fields.update({f"suppression {name}": value for name, value in method.settings.items()})
    fields["components"] = ", ".join(
        f"{c.shape[0]} x {c.shape[1]} blocks, u {c.u:.4f}, u_t {c.u_t:.4f}, b {c.bias:.3f}"
        for c in model.components
    )
    fields["mirrored"] = model.mirrored
    fields["alpha"] = model.alpha
    fields["descriptor"] = f"{model.descriptor.name} {model.descriptor.options()}"
    fields["pyramid"] = f"factor {model.pyramid.factor}, largest {model.pyramid.largest}"
    settings = model.training.get("settings")
    if isinstance(settings, dict):
        fields.update({f"training {name}": value for name, value in settings.items()})
    return fields


def _list(fields: Mapping[str, Any]) -> str:
    items = (f"<dt>{escape(str(k))}</dt><dd>{escape(str(v))}</dd>" for k, v in fields.items())
    return f"<dl>{''.join(items)}</dl>"
