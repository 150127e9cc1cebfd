"""Tables as text, Markdown and CSV."""

import csv
import io
import math

import pytest

from halfseen.evaluate.table import Table

SMALL = Table(
    ["class", "BL", "n"], [["car", 27.14, 5], ["a|b", math.nan, None]], title="AP", notes=["VOC."]
)


def test_text() -> None:
    assert SMALL.text().split("\n") == [
        "AP",
        "class    BL  n",
        "-----  ----  -",
        "car    27.1  5",
        "a|b       -  -",
        "VOC.",
    ]


def test_markdown() -> None:
    assert SMALL.markdown().split("\n") == [
        "**AP**",
        "",
        "| class | BL | n |",
        "| --- | ---: | ---: |",
        "| car | 27.1 | 5 |",
        "| a\\|b | - | - |",
        "",
        "VOC.",
    ]


def test_csv_keeps_all_digits() -> None:
    table = Table(["a", "b"], [["x, y", 0.1 + 0.2], ["-", math.nan]])
    rows = list(csv.reader(io.StringIO(table.csv())))
    assert rows == [["a", "b"], ["x, y", "0.30000000000000004"], ["-", ""]]


@pytest.mark.parametrize("width", [20, 40, 80])
@pytest.mark.parametrize("columns", [1, 3, 8, 25])
def test_text_fits(width: int, columns: int) -> None:
    names = ["a name that is far too long to fit", *[f"col {c}" for c in range(1, columns)]]
    table = Table(names, [["word " * 20, *[100.0 * c for c in range(1, columns)]]] * 2)
    text = table.text(width)
    assert max(map(len, text.split("\n"))) <= width
    for c in range(1, columns):
        assert f"col {c}" in text
        assert f"{100.0 * c:.1f}" in text


def test_long_words_are_cut_visibly() -> None:
    assert Table(["a", "b"], [["x" * 30, "y" * 30]]).text(20).split("\n") == [
        "a           b",
        "----------  --------",
        "xxxxxxxxx…  yyyyyyy…",
    ]
    assert Table(["a"], [["x" * 30]]).text(8).endswith("xxxxxxx…")


def test_empty_table() -> None:
    assert Table(["a", "b"], []).text() == "a  b\n-  -"


def test_rows_must_have_every_column() -> None:
    with pytest.raises(ValueError, match="row 1 has 1 cells for 2 columns"):
        Table(["a", "b"], [[1, 2], [1]])
    with pytest.raises(ValueError, match="at least one column"):
        Table([], [])
