"""Measures in one place, methods side by side, and the page that shows them."""

import json
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from halfseen.data.dataset import Dataset
from halfseen.detections import Detections, GroundTruth
from halfseen.errors import AnnotationError, ImageError, SettingsError
from halfseen.evaluate.bootstrap import crowded
from halfseen.evaluate.evaluation import Conditions, Evaluation, Method
from halfseen.evaluate.overview import by_fraction, overview, sweep_table, what_is_seen
from halfseen.evaluate.summary import measure
from halfseen.evaluate.visibility import best_recall
from halfseen.evaluate.voc_ap import average_precision, match
from halfseen.refine.detector import Detector
from halfseen.report import plots, report
from halfseen.report.cases import Case, choose_cases, picture
from halfseen.report.report import report_html
from halfseen.studies.evaluate import evaluate, with_covering
from tests.builders import (
    HEIGHT,
    WIDTH,
    make_dataset,
    make_detections,
    make_image,
    make_model,
    make_noise,
)

CONDITIONS = Conditions(threshold=-0.8, shares=(0.0, 0.4))


def make_methods() -> list[Method]:
    """BLT and VIS of the pattern, and VIS again with covering suppression.

    Nobody trained the pattern: little in its score tells it from noise, so that votes of noise must
    count less than they do by default.
    """
    methods = [
        Method(
            name, "pattern", make_model(name, u_t=0.02), f"{name}.safetensors",
            settings={"beta": 40.0},
        )
        for name in ("BLT", "VIS")
    ]  # fmt: skip
    return with_covering(methods)


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return evaluate(make_dataset(), "pattern", make_methods(), CONDITIONS, cores=1)


def test_methods_find_what_each_model_finds_alone(evaluation: Evaluation) -> None:
    """All models share one pass over the features; that must not change what any of them finds."""
    assert [m.name for m in evaluation.methods] == ["BLT", "VIS", "VIS+NMS"]
    dataset = make_dataset()
    for method in evaluation.methods:
        assert method.model is not None
        detector = Detector(method.model)
        for k in range(len(dataset)):
            alone = detector.detect(
                dataset.image(k), CONDITIONS.threshold, method.suppression, **method.settings
            )
            seen = evaluation.found[method.name][k]
            np.testing.assert_array_equal(alone.score, seen.score)
            np.testing.assert_array_equal(alone.full, seen.full)
    assert len(evaluation.found["BLT"][0]) > 0


def test_measures_agree_with_those_they_gather(evaluation: Evaluation) -> None:
    truth = evaluation.dataset.truths
    for summary in evaluation.summaries:
        found = evaluation.found[summary.name]
        result = average_precision(truth, found, "pattern")
        assert summary.ap == result.ap > 0.5
        assert summary.recall == best_recall(result)
        assert summary.ap_visible == average_precision(truth, found, "pattern", box="visible").ap
        assert summary.objects == 8
        assert summary.subsets["whole"].objects == 6
        assert summary.subsets["truncated"].objects == 1


def test_crowded_ap_is_the_ap_of_the_crowded_images(evaluation: Evaluation) -> None:
    truth = evaluation.dataset.truths
    together = crowded(truth, "pattern")
    assert [truth[k].image for k in together] == ["close"]
    for summary in evaluation.summaries:
        found = evaluation.found[summary.name]
        alone = average_precision(
            [truth[k] for k in together], [found[k] for k in together], "pattern"
        )
        assert summary.crowded.ap == alone.ap
        assert summary.crowded.objects == 2


def test_the_sweep_starts_at_the_plain_images_and_hurts(evaluation: Evaluation) -> None:
    """At share 0 the AP is that of the whole objects; under texture it falls."""
    for summary in evaluation.summaries:
        first, last = summary.sweep
        assert first.share == 0
        assert first.ap == summary.subsets["whole"].ap
        assert last.ap < first.ap
        assert first.blocks.recall != first.blocks.recall  # nothing was hidden: not known


def test_a_thing_without_texture_is_not_swept() -> None:
    images = Dataset("only", ("pattern",), (make_image("a", [(16, 16)]),))
    result = evaluate(images, "pattern", make_methods()[:1], CONDITIONS, cores=1)
    assert result.summaries[0].sweep == ()
    (note,) = result.notes
    assert note.startswith("no sweep: it needs an image without a pattern")
    assert result.problems == ()


def test_an_unreadable_image_is_left_out_and_told(
    evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Dataset.image

    def fail(self: Dataset, i: int) -> np.ndarray:
        if self[i].image == "covered":
            raise ImageError("covered: cannot be read")
        return read(self, i)

    monkeypatch.setattr(Dataset, "image", fail)
    conditions = Conditions(-0.8, ())
    result = evaluate(make_dataset(), "pattern", make_methods()[:1], conditions, cores=1)
    assert result.problems == ("covered: cannot be read",)
    assert [t.image for t in result.dataset] == [
        t.image for t in make_dataset() if t.image != "covered"
    ]
    assert result.summaries[0].objects == evaluation.summaries[0].objects - 1


def test_a_class_without_objects_is_an_error() -> None:
    with pytest.raises(AnnotationError, match="no class 'patern'; did you mean 'pattern'"):
        evaluate(make_dataset(), "patern", make_methods())
    truth = make_image("a", [(16, 16)])
    hard = Dataset("hard", ("pattern",), (replace(truth, difficult=np.array([True])),))
    with pytest.raises(AnnotationError, match="no pattern to be found in 1 images"):
        evaluate(hard, "pattern", make_methods())


def test_methods_need_names_of_their_own() -> None:
    with pytest.raises(SettingsError, match="names of their own"):
        evaluate(make_dataset(), "pattern", [make_methods()[0]] * 2)


def test_a_summary_is_plain_json_and_flat_figures(evaluation: Evaluation) -> None:
    summary = evaluation.summaries[1]
    plain = json.loads(json.dumps(summary.as_json(), allow_nan=False))
    assert plain["subsets"]["whole"]["ap"] == summary.subsets["whole"].ap
    assert plain["subsets"]["0-25% visible"]["ap"] is None
    assert len(plain["precision_curve"]) == len(plain["recall_curve"]) <= 400
    figures = summary.figures()
    assert figures["subsets.whole.ap"] == summary.subsets["whole"].ap
    assert figures["sweep.40%.blocks.recall"] == summary.sweep[1].blocks.recall
    assert all(isinstance(value, (str, int, float)) for value in figures.values())


def test_long_curves_keep_their_ends() -> None:
    truth = [make_image("a", [(16, 16)])]
    many = [make_detections([(16, 16, 64, 48)] * 1000, np.linspace(1, 0, 1000).tolist())]
    summary, _ = measure("many", "pattern", truth, many)
    assert len(summary.precision_curve) <= 400
    assert (summary.precision_curve[0], summary.precision_curve[-1]) == (1.0, 0.001)


def test_tables_fit_a_terminal(evaluation: Evaluation) -> None:
    summaries = evaluation.summaries
    for table in (overview, by_fraction, what_is_seen, sweep_table):
        made = table(summaries)
        assert made is not None
        lines = made.text().splitlines()
        assert max(map(len, lines)) <= 80
        assert sum(line.startswith("VIS+NMS") for line in lines) == 1  # in one part, not two
    bare = [replace(s, sweep=(), subsets={"all": s.subsets["all"]}) for s in summaries]
    assert by_fraction(bare) is None
    assert sweep_table(bare) is None


def cases_of(found: Detections, count: int = 9) -> dict[str, list[Case]]:
    """The cases of one image with patterns at (16, 16), 48 x 32, and at (80, 56), and a disc."""
    truth = make_image("a", [(16, 16), (80, 56)])
    disc = make_noise("d", 3)
    both = GroundTruth.make(
        "a", truth.source, truth.size, ["pattern", "pattern", "disc"],
        np.concatenate([truth.box, [[100, 0, 140, 40]]]),
        full=np.concatenate([truth.full, [[100, 0, 140, 40]]]), visible_fraction=np.ones(3),
    )  # fmt: skip
    truths, all_found = [both, disc], [found, Detections.empty((HEIGHT, WIDTH))]
    matches = match(truths, all_found, "pattern")
    return choose_cases(truths, all_found, matches, {"other": matches}, count)


@pytest.mark.parametrize(
    ("box", "why"),
    [
        ((18, 16, 66, 48), "a second time, IoU 0.92"),
        ((40, 16, 88, 48), "badly placed, IoU 0.33"),
        ((100, 0, 140, 36), "on a disc, IoU 0.90"),
        ((0, 60, 40, 90), "on background"),
    ],
)
def test_a_false_alarm_says_what_it_mistook(box: tuple[float, ...], why: str) -> None:
    cases = cases_of(make_detections([(16, 16, 64, 48), box], [1.0, 0.5]))
    assert [case.caption for case in cases["False alarms"]] == [f"score 0.50, {why}"]


def test_misses_and_hits() -> None:
    cases = cases_of(make_detections([(16, 16, 64, 48), (60, 50, 108, 80)], [1.0, 0.5]))
    (best,) = cases["Best"]
    assert (best.detection, best.target) == (0, 0)
    assert best.caption == "score 1.00, IoU 1.00, 100% seen; other 1.00"
    (missed,) = cases["Missed"]
    assert (missed.detection, missed.target) == (1, 1)
    assert missed.caption == "nearest: score 0.50, IoU 0.29; other missed"
    (alone,) = cases_of(make_detections([], []))["Missed"]
    assert alone.caption == "nothing near it; other missed"


def test_partly_hidden_ones_have_a_heading_of_their_own(evaluation: Evaluation) -> None:
    truth = evaluation.dataset.truths
    cases = choose_cases(truth, evaluation.found["VIS"], evaluation.matches["VIS"], {})
    assert {truth[case.image].image for case in cases["Partly hidden and found"]} == {
        "covered", "cut"
    }  # fmt: skip
    assert all(len({case.image for case in part}) == len(part) for part in cases.values())


def test_a_picture_shows_the_case_where_it_is() -> None:
    """A red object fills the middle of its picture, whatever its place in the image."""
    truth = make_image("a", [(80, 56)])
    pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    pixels[56:88, 80:128, 0] = 255
    dataset = Dataset("red", ("pattern",), (replace(truth, source=pixels),))
    nothing = [Detections.empty((HEIGHT, WIDTH))]
    drawn = picture(dataset, nothing, Case(0, None, 0, ""), "pattern")
    assert drawn.shape[1] == 360
    red = (drawn[..., 0] > 150) & (drawn[..., 1] < 90)
    rows, columns = np.flatnonzero(red.any(1)), np.flatnonzero(red.any(0))
    assert columns[-1] - columns[0] > 150
    # The true box is drawn in white just around it.
    assert (drawn[rows[0] - 4 : rows[0] + 4, 180] > 200).all(axis=1).any()


class Page(HTMLParser):
    """Tags, ids and addresses of a page; AssertionError where tags do not close in order."""

    VOID = ("meta", "img", "link", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        if tag not in self.VOID:
            self.open.append(tag)
        self._note(attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self._note(attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def _note(self, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "xlink:href", "srcset", "action"):
                self.addresses.append(value or "")


def test_the_page_stands_alone(evaluation: Evaluation) -> None:
    text = report_html([evaluation], {"command": "halfseen evaluate a b"})
    page = Page(text)
    assert page.tags["svg"] == 4
    assert page.tags["img"] > 5
    assert page.tags["script"] == page.tags["link"] == 0
    assert all(a.startswith(("data:image/jpeg;base64,", "#")) for a in page.addresses)
    assert not re.search(r"url\((?!#)|@import", text)
    assert "default-src 'none'" in text
    assert len(set(page.ids)) == len(page.ids)
    assert {a[1:] for a in page.addresses if a.startswith("#")} <= set(page.ids)
    for words in (
        "halfseen evaluate a b",
        "VIS+NMS",
        "False alarms",
        "covering",
        "BLT.safetensors",
    ):
        assert words in text
    assert "prefers-color-scheme: dark" in text
    assert plots.INK not in text
    assert "currentColor" in text


def test_strangers_names_are_text_not_markup(evaluation: Evaluation) -> None:
    evil = "<script>alert(1)</script>\"'&"
    truths = tuple(replace(t, image=evil) for t in evaluation.dataset)
    methods = tuple(replace(m, source=evil) for m in evaluation.methods)
    dataset = replace(evaluation.dataset, name=evil, truths=truths)
    hostile = replace(
        evaluation, label="pattern", dataset=dataset, methods=methods, problems=(evil,)
    )
    page = Page(report_html([hostile], {evil: evil}, pictures=1))
    assert page.tags["script"] == 0


def test_several_classes_are_summed_up_first(evaluation: Evaluation) -> None:
    page = Page(text := report_html([evaluation, evaluation], {}, pictures=0))
    assert "#class-1" in page.addresses
    assert len(set(page.ids)) == len(page.ids)
    mean = 100 * evaluation.summaries[0].ap
    assert re.search(rf'<tr class="count"><th scope="row">mean</th><td[^>]*>{mean:.1f}<', text)


def test_of_very_many_classes_the_most_common_have_sections(
    evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "MOST_SECTIONS", 2)
    few = replace(
        evaluation,
        label="rare",
        summaries=tuple(replace(s, objects=1) for s in evaluation.summaries),
    )
    text = report_html([evaluation, few, evaluation], {}, pictures=0)
    assert text.count("<section id=") == 2
    assert "Curves and pictures are of the 2 classes with the most objects" in text
    assert '<th scope="row">rare</th>' in text
    assert "<h2>rare</h2>" not in text


def test_plots_are_the_same_bytes_every_time(evaluation: Evaluation) -> None:
    made = [plots.as_svg(plots.precision_recall(evaluation.summaries), "a", "curves") for _ in "12"]
    assert made[0] == made[1]
    assert made[0].startswith('<svg role="img" aria-label="curves"')
    assert plots.as_png(plots.sweep_ap(evaluation.summaries), 50).startswith(b"\x89PNG")
