"""Suppression of other detectors' masks, COCO results and arrays."""

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from halfseen.data.rle import decode, encode, mask_runs
from halfseen.errors import AnnotationError, HalfseenError, SettingsError
from halfseen.geometry import iou_matrix
from halfseen.suppression import meanshift, results, suppress, suppress_boxes, suppress_masks
from halfseen.suppression.adapters import from_numpy, suppress_supervision
from halfseen.suppression.results import suppress_file, suppress_results

Masks = NDArray[np.bool_]


def discs(count: int = 12, size: tuple[int, int] = (60, 80), seed: int = 0) -> tuple[Masks, Any]:
    """Ellipses around three places, and scores."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[: size[0], : size[1]] / max(size)
    place = rng.uniform(0.2, 0.6, (3, 2))[rng.integers(3, size=count)]
    middle = place + rng.normal(0, 0.03, (count, 2))
    half = rng.uniform(0.1, 0.2, (count, 2))
    far = ((y - middle[:, 0, None, None]) / half[:, 0, None, None]) ** 2
    far = far + ((x - middle[:, 1, None, None]) / half[:, 1, None, None]) ** 2
    return far < 1, rng.uniform(0.05, 1, count)


def iou(first: Masks, second: Masks) -> float:
    return float((first & second).sum() / (first | second).sum())


@pytest.mark.parametrize("method", ["covering", "greedy", "soft", "meanshift"])
def test_arrays_run_lengths_and_iterators_agree(method: str) -> None:
    masks, scores = discs()
    plain = suppress_masks(masks, scores, method=method)
    packed = [encode(mask) for mask in masks]
    loose = [{"size": [60, 80], "counts": _counts(mask)} for mask in masks]
    given: list[Any] = [list(masks), masks.astype(np.uint8), packed, loose, iter(packed)]
    for other in given:
        again = suppress_masks(other, scores, method=method)
        np.testing.assert_array_equal(again.indices, plain.indices)
        np.testing.assert_allclose(again.rank, plain.rank)
    assert len(plain) >= 1


def _counts(mask: Masks) -> list[int]:
    flat = mask.ravel(order="F")
    edges = np.flatnonzero(np.diff(np.r_[False, flat, not flat[-1]]))
    return [int(n) for n in np.diff(np.r_[0, edges, flat.size][: len(edges) + 1])]


def test_uncompressed_counts_are_right() -> None:
    masks, _ = discs(3)
    for mask in masks:
        np.testing.assert_array_equal(decode({"size": [60, 80], "counts": _counts(mask)}), mask)


def test_kept_masks_overlap_no_more_than_allowed() -> None:
    for seed in range(10):
        masks, scores = discs(15, seed=seed)
        kept = suppress_masks(masks, scores, overlap=0.3)
        assert kept.optimal
        for i in kept.indices:
            for j in kept.indices:
                assert i == j or iou(masks[i], masks[j]) <= 0.3
        for i in range(15):
            if kept.why(i).kind == "excluded":
                by = kept.why(i).by
                assert by is not None
                assert kept.why(i).overlap == pytest.approx(iou(masks[i], masks[by]))


def test_greedy_masks_match_a_loop() -> None:
    masks, scores = discs(15, seed=3)
    kept: list[int] = []
    for i in np.argsort(-scores):
        if all((masks[i] & masks[k]).sum() / masks[i].sum() <= 0.4 for k in kept):
            kept.append(int(i))
    chosen = suppress_masks(masks, scores, 0.4, method="greedy", measure="lower")
    assert list(chosen.indices) == kept


def test_soft_masks_match_a_loop() -> None:
    masks, scores = discs(8, seed=4)
    rest, remaining, order = scores.copy(), list(range(8)), []
    while remaining:
        best = max(remaining, key=lambda i: rest[i])
        order.append(best)
        remaining.remove(best)
        for i in remaining:
            rest[i] *= np.exp(-(iou(masks[best], masks[i]) ** 2) / 0.5)
    kept = suppress_masks(masks, scores, method="soft", least=0.0)
    assert list(kept.indices) == order
    np.testing.assert_allclose(kept.rank, rest[order])


def test_large_masks_are_read_one_at_a_time() -> None:
    alive = 0
    most = 0

    class Watched(np.ndarray):
        def __del__(self) -> None:
            nonlocal alive
            alive -= self.base is not None

    def stream() -> Iterator[Any]:
        nonlocal alive, most
        for mask in masks:
            large = np.kron(mask, np.ones((8, 8), bool)).view(Watched)
            alive += 1
            most = max(most, alive)
            yield large

    masks, scores = discs(12)
    kept = suppress_masks(stream(), scores)
    assert most <= 3
    np.testing.assert_array_equal(kept.indices, suppress_masks(masks, scores).indices)


@pytest.mark.parametrize("method", ["covering", "greedy", "voting"])
def test_small_objects_in_large_pictures(method: str) -> None:
    """Objects of 32 pixels in a picture of 10000: decisions follow exact overlaps."""
    rng = np.random.default_rng(8)
    corner = np.repeat(rng.integers(0, 9900, (100, 2)), 3, axis=0) + rng.integers(0, 24, (300, 2))
    boxes = np.hstack([corner, corner + 32]).astype(float)
    scores = rng.permutation(300) / 300
    masks = []
    for x, y in corner:
        counts = [int(x) * 10_000 + int(y), *([32, 9968] * 32)[:-1]]
        masks.append({"size": [10_000, 10_000], "counts": [*counts, 10**8 - sum(counts)]})
    settings: Any = {"weight": 1.0} if method == "voting" else {}
    small = suppress_boxes(boxes, scores, overlap=0.5, method=method, **settings)
    kept = suppress_masks(masks, scores, method=method)
    np.testing.assert_array_equal(kept.indices, small.indices)
    np.testing.assert_allclose(kept.rank, small.rank)
    overlap = iou_matrix(boxes, boxes) - np.eye(300)
    assert overlap[np.ix_(kept.indices, kept.indices)].max() <= 0.5
    for i in range(300):
        if overlap[i].max() == 0:
            assert i in kept.indices
        if kept.why(i).kind == "excluded":
            by = kept.why(i).by
            assert by is not None
            assert kept.why(i).overlap == pytest.approx(overlap[i, by])


def test_labels_and_full_boxes() -> None:
    mask = np.zeros((2, 20, 20), bool)
    mask[0, :, :10] = mask[1, :, 10:] = True
    full = [[0, 0, 20, 20], [0, 0, 20, 20]]
    assert len(suppress_masks(mask, [0.9, 0.8], full=full)) == 2
    both = suppress_masks(mask, [0.9, 0.8], full=full, energy="paper")
    assert list(both.indices) == [0]
    assert both.why(1).kind == "nothing"
    boxed = suppress_masks(mask, [0.9, 0.8], full=full, measure="box")
    assert boxed.why(1).by == 0
    apart = suppress_masks(mask, [0.9, 0.8], full=full, measure="box", labels=[1, 2])
    assert len(apart) == 2


def test_grids_in_windows() -> None:
    left = np.array([[True, False]])
    grids = [left, ~left, np.ones((3, 3), bool)]
    windows = [[0, 0, 40, 40], [0, 0, 40, 40], [100, 0, 140, 40]]
    kept = suppress_masks(grids, [0.9, 0.8, 0.7], windows=windows)
    assert set(kept.indices) == {0, 1, 2}
    whole = [np.ones((1, 1), bool)] * 3
    assert set(suppress_masks(whole, [0.9, 0.8, 0.7], windows=windows).indices) == {0, 2}


@pytest.mark.parametrize("method", ["covering", "greedy", "soft", "meanshift"])
def test_empty_sets_and_empty_masks(method: str) -> None:
    assert len(suppress_masks([], [], method=method)) == 0
    assert len(suppress_masks([], [], method=method, windows=np.zeros((0, 4)))) == 0
    masks, scores = discs(4)
    masks[1] = False
    kept = suppress_masks(masks, scores, method=method, full=np.tile([0, 0, 80, 60], (4, 1)))
    assert 1 not in kept.indices
    assert str(kept.why(1)) == "has no area"
    assert len(suppress_masks(masks[1:2], scores[1:2], method=method)) == 0
    assert list(suppress_masks(masks[:1], scores[:1], method=method).indices) == [0]


SQUARE = np.ones((4, 4), bool)


@pytest.mark.parametrize(
    ("masks", "scores", "given", "message"),
    [
        (
            [SQUARE, np.ones((4, 5), bool)],
            [1, 1],
            {},
            r"mask 1 has shape \(4, 5\), expected \(4, 4\)",
        ),
        ([SQUARE], [1, 1], {}, "expected 2 as scores, found 1"),
        ([SQUARE] * 3, [1, 1], {}, "expected 2 as scores, found more"),
        ([SQUARE], [np.nan], {}, "finite, found nan at detection 0"),
        ([SQUARE], [[1.0]], {}, r"shape \(N,\)"),
        (["no"], [1], {}, r"mask 0: expected \(height, width\) booleans"),
        ([np.ones(4)], [1], {}, r"mask 0: .*shape \(4,\)"),
        ([{"size": [4, 4], "counts": "?"}], [1], {}, "mask 0: counts"),
        ([{"size": [4, 4], "counts": [3]}], [1], {}, "mask 0: counts.*sum to 16"),
        ([{"counts": [3]}], [1], {}, "mask 0: run lengths"),
        ([SQUARE], [1], {"labels": ["a", "b"]}, r"labels must be 1 as scores"),
        ([SQUARE], [1], {"labels": "a"}, r"labels must be 1 as scores, found 'a'"),
        ([SQUARE], [1], {"labels": [[1]]}, "labels must be words or numbers"),
        ([SQUARE], [1], {"images": [1, 2]}, "images must be 1 as scores"),
        ([SQUARE], [1.5], {}, r"probabilities from 0 to 1, found 1\.5 at detection 0; say scale="),
        ([SQUARE], ["x"], {}, "scores must be numbers"),
        ([SQUARE], [1], {"scale": "logits"}, "found 'logits'; did you mean 'logit'"),
        ([SQUARE], [1], {"measure": "ios"}, "measure must be one of iou, smaller"),
        ([SQUARE], [1], {"groups": "klass"}, "found 'klass'; did you mean 'class'"),
        ([SQUARE], [1], {"groups": ["car", "bus"]}, 'groups must be "class", "all" or lists'),
        ([SQUARE], [1], {"groups": [["car", "bus"]]}, "groups: lists of classes need labels"),
        ([SQUARE], [1j], {}, "scores must be numbers"),
        ([SQUARE], [1], {"groups": 3}, 'groups must be "class", "all" or lists'),
        ([SQUARE], [1], {"groups": [["a"], ["a", "b"]]}, "each class in one group"),
        ([SQUARE / 3], [1], {}, r"found 0\.33.*; threshold the masks first, as in masks > 0\.5"),
        ([SQUARE * 7], [1], {}, "numbers that are 0 and 1, found 7"),
        ([np.full((4, 4), np.nan)], [1], {}, "numbers that are 0 and 1, found nan"),
        ([SQUARE], [1], {"full": [[0, 0, 1]]}, r"full must have shape \(1, 4\)"),
        ([SQUARE], [1], {"full": [[0, 0, 1, 1, 0.9, 2]]}, r"found \(1, 6\); pass rows\[:, :4\]"),
        ([SQUARE], [1], {"full": [["a"]]}, "full must be numbers"),
        ([SQUARE], [1], {"full": [[5, 0, 1, 4]]}, "x1 <= x2"),
        ([SQUARE], [1], {"windows": [[0, 0, np.inf, 4]]}, "windows must be finite"),
        ([SQUARE], [1], {"method": "nms"}, "found 'nms'"),
        ([SQUARE], [1], {"method": "greedy", "beta": 3}, "has no setting 'beta'"),
    ],
)
def test_bad_input(masks: Any, scores: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(HalfseenError, match=message) as caught:
        suppress_masks(masks, scores, **given)
    assert "\n" not in str(caught.value)


def rows_of(masks: Masks, scores: Any, image: int = 1) -> list[dict[str, Any]]:
    return [
        {"image_id": image, "category_id": 1 + i % 2, "score": float(s), "segmentation": encode(m)}
        for i, (m, s) in enumerate(zip(masks, scores, strict=True))
    ]


def test_results_are_suppressed_by_image_and_category(tmp_path: Path) -> None:
    rows, expected = [], []
    for image in (7, 3):
        masks, scores = discs(10, seed=image)
        rows += rows_of(masks, scores, image)
        kept = suppress_masks(masks, scores, labels=[1 + i % 2 for i in range(10)])
        own = rows[-10:]
        expected += [{**own[i], "score": r} for i, r in zip(kept.indices, kept.rank, strict=True)]
    seen: list[tuple[int, int]] = []
    source, target = tmp_path / "in.json", tmp_path / "out.json"
    source.write_text(json.dumps(rows))
    counts = suppress_file(source, target, progress=lambda done, all_: seen.append((done, all_)))
    assert counts == (20, len(expected))
    assert seen == [(1, 2), (2, 2)]
    written = json.loads(target.read_text())
    assert written == [{**row, "score": pytest.approx(row["score"])} for row in expected]
    assert suppress_results(rows, rescore=False)[0] in rows


def test_results_without_masks_or_with_polygons() -> None:
    boxes = [[0, 0, 40, 40], [2, 0, 40, 40], [100, 0, 40, 40], [5, 5, 0, 0]]
    rows = [
        {"image_id": "a", "category_id": 1, "score": 0.9 - i / 10, "bbox": box}
        for i, box in enumerate(boxes)
    ]
    assert [row["bbox"][0] for row in suppress_results(rows)] == [0, 100]
    rows[0]["segmentation"] = [[0, 0, 40, 0, 40, 40, 0, 40]]
    assert [row["bbox"][0] for row in suppress_results(rows[:3])] == [0, 100]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "not valid JSON"),
        ("{}", "expected a list"),
        ('[{"image_id": 1, "category_id": 1, "score": NaN, "bbox": [0, 0, 1, 1]}]', "NaN"),
        (
            '[{"image_id": 9, "category_id": 1, "score": 1,'
            ' "segmentation": {"size": [4, 4], "counts": "0"}}]',
            "image 9: mask 0: counts",
        ),
        (
            '[{"image_id": 9, "category_id": 1, "score": 1, "segmentation": [[1, "x", 3]]}]',
            "image 9: segmentation: expected polygons",
        ),
        (
            '[{"image_id": 9, "category_id": 1, "score": 1, "segmentation": []}]',
            "result 0: expected a bbox or a segmentation, found neither",
        ),
        (
            '[{"image_id": 9, "category_id": 1, "score": 1, "bbox": [1e308, 0, 1e308, 1],'
            ' "segmentation": [[1, 1, 3, 1, 3, 3]]}]',
            "image 9: bbox: expected corners at most 1e[+]09 pixels away",
        ),
        (
            '[{"image_id": 9, "category_id": 1, "score": 1, "bbox": [0, 0, 1e300, 1e300]}]',
            "image 9: bbox: expected corners at most 1e[+]09 pixels away",
        ),
    ],
)
def test_malformed_results_write_nothing(tmp_path: Path, text: str, message: str) -> None:
    source, target = tmp_path / "in.json", tmp_path / "out.json"
    source.write_text(text)
    with pytest.raises(AnnotationError, match=message) as caught:
        suppress_file(source, target)
    assert str(source) in str(caught.value)
    assert list(tmp_path.iterdir()) == [source]


def test_more_results_of_an_image_than_memory_could_hold() -> None:
    row = {"image_id": 4, "category_id": 1, "score": 0.5, "bbox": [0, 0, 5, 5]}
    with pytest.raises(AnnotationError, match="image 4: expected at most 100,000 results"):
        suppress_results([row] * 100_001)


def test_arrays_in() -> None:
    boxes = [[0, 0, 40, 40], [2, 0, 42, 40], [100, 0, 140, 40]]
    found = from_numpy(boxes, [0.9, 0.8, 0.7], ["a", "a", "a"])
    assert found.size == (40, 140)
    for method in ("covering", "greedy", "meanshift"):
        assert list(suppress(found, method).indices)[:1] == [0]
        assert set(suppress(found, method).indices) == {0, 2}
    assert len(from_numpy([], [])) == 0
    with pytest.raises(SettingsError, match="as many, found 3, 2, 2"):
        from_numpy(boxes, [1, 1])
    with pytest.raises(SettingsError, match="x1 < x2"):
        from_numpy([[0, 0, 0, 5]], [1])


class Supervised(SimpleNamespace):
    """The part of supervision's Detections that matters."""

    def __getitem__(self, index: Any) -> "Supervised":
        return Supervised(
            **{name: None if array is None else array[index] for name, array in vars(self).items()}
        )


def test_supervision_detections() -> None:
    masks, scores = discs(10)
    boxes = np.array([mask_runs(mask).box for mask in masks])
    given = Supervised(xyxy=boxes, mask=masks, confidence=scores, class_id=np.zeros(10, int))
    kept = suppress_supervision(given, overlap=0.4)
    expected = suppress_masks(masks, scores, overlap=0.4).indices
    np.testing.assert_array_equal(kept.confidence, scores[expected])
    given.mask = None
    by_box = suppress_supervision(given, method="greedy")
    assert by_box.mask is None
    assert 0 < len(by_box.confidence) < 10
    given.confidence = None
    with pytest.raises(SettingsError, match="expected confidence"):
        suppress_supervision(given)


NEAR: list[list[float]] = [[0, 0, 40, 40], [2, 0, 42, 40], [100, 0, 140, 40], [1, 0, 41, 40]]
SCORES = [0.9, 0.8, 0.7, 0.6]


@pytest.mark.parametrize("method", ["covering", "greedy", "voting"])
def test_groups_of_classes(method: str) -> None:
    labels = ["car", "truck", "car", "cat"]

    def kept(**settings: Any) -> set[int]:
        chosen = suppress_boxes(NEAR, SCORES, labels=labels, method=method, **settings)
        return {int(i) for i in chosen.indices}

    assert kept() == kept(groups="class") == {0, 1, 2, 3}
    assert kept(groups="all") == {0, 2}
    assert kept(groups=[["car", "truck"]]) == {0, 2, 3}
    assert kept(groups=[["truck", "cat"], ["car"]]) == {0, 1, 2}
    numbers = suppress_boxes(
        NEAR, SCORES, labels=np.array([0, 1, 0, 2]), method=method, groups=[[np.int64(0), 1]]
    )
    assert set(numbers.indices) == {0, 2, 3}
    assert len(suppress_boxes([], [], labels=[], groups=[["a"]], method=method)) == 0


@pytest.mark.parametrize("method", ["covering", "greedy", "voting", "soft", "meanshift"])
def test_a_batch_is_its_images_one_by_one(method: str) -> None:
    parts = [discs(9, seed=seed) for seed in range(4)]
    masks, scores = (np.concatenate(list(p)) for p in zip(*parts, strict=True))
    image = np.repeat(["a", "b", "c", "d"], 9)
    batch = suppress_masks(masks, scores, images=image, method=method)
    for n, (own, score) in enumerate(parts):
        alone = suppress_masks(own, score, method=method)
        place = np.flatnonzero(image[batch.indices] == "abcd"[n])
        np.testing.assert_array_equal(batch.indices[place] - 9 * n, alone.indices)
        np.testing.assert_allclose(batch.rank[place], alone.rank)
        for i in range(9):
            assert batch.why(9 * n + i).kind == alone.why(i).kind
    sizes = [np.ones((4, 4), bool), np.ones((5, 7), bool)]
    assert len(suppress_masks(sizes, [0.5, 0.4], images=[1, 2], method=method)) == 2


@pytest.mark.parametrize("method", ["covering", "voting", "soft", "meanshift", "greedy"])
def test_scales_of_one_set_of_scores_agree(method: str) -> None:
    masks, scores = discs(15, seed=2)
    logits = np.log(scores / (1 - scores))
    kept = suppress_masks(masks, scores, method=method)
    again = suppress_masks(masks, logits, method=method, scale="logit")
    np.testing.assert_array_equal(kept.indices, again.indices)
    if method != "meanshift":
        assert ((kept.rank >= 0) & (kept.rank <= 1)).all()
        np.testing.assert_allclose(np.log(kept.rank / (1 - kept.rank)), again.rank, rtol=1e-6)
    margin = suppress_masks(masks, 4 * scores - 3, method=method, scale="margin")
    assert len(margin) >= 1


def test_votes_add_odds() -> None:
    for weight in (1.0, 0.25):
        kept = suppress_boxes(NEAR, SCORES, method="voting", weight=weight)
        odds = 0.9 / 0.1 + weight * (0.8 / 0.2 + 0.6 / 0.4)
        assert list(kept.indices) == [0, 2]
        np.testing.assert_allclose(kept.rank, [odds / (1 + odds), 0.7])
        certain = suppress_boxes(NEAR, [1.0, 1.0, 1.0, 0.0], method="voting", weight=weight)
        assert (certain.rank <= 1).all()


def test_boxes_alone_by_a_direct_loop() -> None:
    """Nothing says what is visible: kept by IoU 0.7, and a vote counts a tenth."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        count = int(rng.integers(0, 60))
        place = rng.uniform(0, 60, (4, 2))[rng.integers(4, size=count)]
        corner = place + rng.normal(0, 4, (count, 2))
        boxes = np.hstack([corner, corner + 40])
        scores, labels = rng.permutation(count) / max(count, 1), rng.integers(2, size=count)
        odds = {i: scores[i] / (1 - scores[i]) for i in np.argsort(-scores).tolist()}
        chosen: dict[int, float] = {}
        by: dict[int, int] = {}
        for i in odds:
            near = [k for k in chosen if labels[k] == labels[i]]
            overlap = {k: iou_matrix(boxes[[k]], boxes[[i]])[0, 0] for k in near}
            by[i] = next((k for k in near if overlap[k] > 0.7), i)
            chosen[by[i]] = chosen.get(by[i], 0) + (odds[i] if by[i] == i else 0.1 * odds[i])
        kept = suppress_boxes(boxes, scores, labels=labels)
        assert kept.method == "voting"
        assert set(kept.indices.tolist()) == set(chosen)
        total = np.array([chosen[int(k)] for k in kept.indices])
        np.testing.assert_allclose(kept.rank, total / (1 + total), atol=1e-9)
        for i in odds:
            reason = kept.why(i)
            assert (reason.kind, reason.by) == (
                ("kept", None) if by[i] == i else ("excluded", by[i])
            )


def test_defaults_follow_what_is_known() -> None:
    assert suppress_boxes(NEAR, SCORES).settings["overlap"] == 0.7
    assert suppress_boxes(NEAR, SCORES, method="greedy").settings["overlap"] == 0.7
    assert suppress_boxes(NEAR, SCORES, overlap=0.3).settings["overlap"] == 0.3
    assert suppress_boxes(NEAR, SCORES, weight=0.5).settings["weight"] == 0.5
    seen = suppress_boxes(NEAR, SCORES, NEAR)
    assert (seen.method, seen.settings["overlap"]) == ("covering", 0.5)
    voting = suppress_boxes(NEAR, SCORES, NEAR, method="voting")
    assert voting.settings["weight"] == 1
    with pytest.raises(SettingsError, match="greedy suppression has no setting 'weight'"):
        suppress_boxes(NEAR, SCORES, method="greedy", weight=0.5)


def test_one_method_for_a_file_of_masks_and_boxes() -> None:
    masks, scores = discs(8)
    rows = rows_of(masks, scores)
    alone = [{"image_id": 2, "category_id": 1, "score": 0.5 - i / 10, "bbox": box}
             for i, box in enumerate([[0, 0, 40, 40], [8, 0, 40, 40]])]  # fmt: skip
    assert len(suppress_results(alone)) == 2  # IoU 0.67
    assert suppress_results([*rows, *alone])[-1]["bbox"] == [0, 0, 40, 40]
    assert len([row for row in suppress_results([*rows, *alone]) if row["image_id"] == 2]) == 1


def test_measures_by_name() -> None:
    boxes = [[0, 0, 40, 40], [10, 10, 20, 20], [0, 0, 30, 40]]
    for method in ("covering", "greedy", "voting"):
        chosen = {
            measure: set(
                suppress_boxes(boxes, [0.5, 0.9, 0.4], method=method, measure=measure).indices
            )
            for measure in ("iou", "smaller")
        }
        assert chosen["smaller"] == {1} or method == "covering"
        assert 1 in chosen["iou"]
        assert 0 in chosen["iou"]
        assert 2 not in chosen["iou"]


@pytest.mark.parametrize("method", ["covering", "greedy", "voting", "soft", "meanshift"])
def test_nothing_goes_that_nobody_excludes(method: str) -> None:
    """Boxes far apart: tiny, vast, beyond any corner, with the lowest scores."""
    boxes = np.array(
        [
            [-500, -500, -460, -470],
            [0, 0, 1e-3, 1e-3],
            [9988, 978, 10000, 990],
            [1e9, 0, 2e9, 1e9],
            [-1e11, 5e3, -9e10, 1e10],
        ]
    )
    assert len(suppress_boxes(boxes, [0.0, 1.0, 1e-9, 0.5, 0.3], method=method)) == 5


def test_visible_parts_decide() -> None:
    """Two people of whom one hides the other's left half, as CrowdHuman describes them."""
    full, visible = [[0, 0, 40, 100], [8, 0, 48, 100]], [[0, 0, 40, 100], [40, 0, 48, 100]]
    assert list(suppress_boxes(full, [0.9, 0.8], overlap=0.5).indices) == [0]
    assert set(suppress_boxes(full, [0.9, 0.8], visible, overlap=0.5).indices) == {0, 1}
    assert list(suppress_boxes(full, [0.9, 0.8], visible, measure="box").indices) == [0]
    with pytest.raises(SettingsError, match=r"visible must have shape \(2, 4\)"):
        suppress_boxes(full, [0.9, 0.8], [[0, 0, 1, 1]])


def test_candidates_by_the_ten_thousand() -> None:
    rng = np.random.default_rng(4)
    middle = rng.uniform(0, 2000, (1000, 2))[rng.integers(1000, size=12_000)]
    corner = middle + rng.normal(0, 4, (12_000, 2))
    boxes, scores = np.hstack([corner, corner + 60]), rng.permutation(12_000) / 12_000
    kept = suppress_boxes(boxes, scores, overlap=0.5, method="covering")
    assert kept.energy is not None
    assert kept.bound is not None
    assert kept.energy <= kept.bound < 3 * kept.energy
    assert (iou_matrix(boxes[kept.indices], boxes[kept.indices]) > 0.5).sum() == len(kept)
    greedy = suppress_boxes(boxes, scores)
    assert (greedy.excluder >= 0).sum() + len(greedy) == 12_000


@pytest.mark.parametrize("side", [9_999, 40_000])
def test_polygons_in_vast_pictures_take_no_picture(side: int) -> None:
    """Sixty polygons of a small file, each of which would fill a picture of its own."""
    far = [[0, 0, side, 0, side, 2000, 0, 2000]]
    rows = [
        {"image_id": 1, "category_id": 1, "score": 0.9 - i / 100, "segmentation": far}
        for i in range(60)
    ]
    suppress_results(rows[:2])
    tracemalloc.start()
    try:
        assert len(suppress_results(rows)) == 1
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


def test_masks_of_more_runs_than_memory_could_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one image, and in all of them together: each polygon of four corners spans 60 columns."""
    outline = [[2, 1, 62, 1, 62, 90, 2, 90]]

    def rows(images: int, each: int) -> list[dict[str, Any]]:
        row = {"category_id": 1, "score": 0.5, "segmentation": outline}
        return [{**row, "image_id": n} for n in range(images) for _ in range(each)]

    monkeypatch.setattr(results, "MOST_RUNS", 300)
    monkeypatch.setattr(results, "RUNS", 10)
    assert len(results.suppress_results(rows(5, 1))) == 5
    with pytest.raises(AnnotationError, match="image 0: its masks have more runs of pixels than"):
        results.suppress_results(rows(1, 6))
    with pytest.raises(AnnotationError, match=r"image 6: .* than 10 for each result"):
        results.suppress_results(rows(7, 1))


def test_long_names_of_classes_are_not_repeated() -> None:
    name = "x" * 1_000_000
    boxes = np.arange(8000.0).reshape(2000, 4) * [10, 0, 10, 0] + [0, 0, 35, 10]
    tracemalloc.start()
    try:
        assert len(suppress_boxes(boxes, np.full(2000, 0.5), labels=[name] * 2000)) > 0
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("method", ["covering", "voting", "soft", "meanshift"])
def test_enormous_scores_of_others(method: str) -> None:
    with pytest.raises(SettingsError, match="too large to compute with"):
        suppress_boxes(NEAR, [1e308, 1e307, 1.0, 0.0], method=method, scale="margin")
    kept = suppress_boxes(NEAR, [1e308, 1e307, 1.0, 0.0], method=method, scale="logit")
    assert {0, 2} <= set(kept.indices)


def test_too_many_pairs_are_refused_and_greedy_goes_on() -> None:
    boxes, scores = [[0, 0, 9, 9]] * 3300, np.linspace(0, 1, 3300)
    with pytest.raises(SettingsError, match=r"of 3,300 candidates more than 5,000,000 pairs over"):
        suppress_boxes(boxes, scores, method="covering")
    for method in ("greedy", "voting"):
        assert list(suppress_boxes(boxes, scores, method=method).indices) == [3299]
    assert list(suppress_boxes(boxes[:300], scores[:300], method="covering").indices) == [299]


def test_mean_shift_of_too_many_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(suppress_boxes(NEAR, [0.9, 0.8, 0.7, 0.6], method="meanshift"))
    monkeypatch.setattr(meanshift, "MOST", 7)
    with pytest.raises(SettingsError, match="4 candidates take too long"):
        suppress_boxes(NEAR, [0.9, 0.8, 0.7, 0.6], method="meanshift")
