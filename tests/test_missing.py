"""The second look: what is typical and missing is the likelier hidden, by an exact cut."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

import halfseen as hs
from halfseen.data.scenes import render_scenes
from halfseen.errors import SettingsError
from halfseen.infer import missing
from halfseen.infer.calibration import probabilities
from halfseen.infer.masks import Verdict, contrast_edges, reluctant, verdict_on
from halfseen.infer.missing import hide_missing, not_surely_hidden
from halfseen.infer.visibility import best_flags, infer_visibility
from halfseen.model.calibration import EVIDENCE, RISING, Calibration
from halfseen.suppress import suppress
from test_masks import headless, random_head

Bools = NDArray[np.bool_]


def some_windows(seed: int, count: int = 1, shape: tuple[int, int] = (3, 4)):  # type: ignore[no-untyped-def]
    """A verdict on windows, their flags, figures, and what is typical of them."""
    rng = np.random.default_rng(seed)
    size = (count, *shape)
    logits = rng.normal(-1, 2, size).astype(np.float32)
    outside = rng.random(size) < 0.1
    colours = rng.normal(0, 10, (count, 2 * shape[0], 2 * shape[1], 3)).astype(np.float32)
    verdict = verdict_on(logits, colours, outside, 0.7)
    figure = rng.random(size) < 0.6
    return verdict, verdict.cut(), figure, rng.uniform(0.05, 0.95, size).astype(np.float32)


def best_choice(verdict: Verdict, more: NDArray[np.float64] | float) -> Bools:
    """Of every choice of the blocks of one small window."""
    logits, across, down = (part[0].astype(np.float64) for part in verdict)
    inside = ~np.isnan(logits)
    unary = np.nan_to_num(logits) + more
    values = {}
    for choice in itertools.product([False, True], repeat=int(inside.sum())):
        v = np.zeros(logits.shape, bool)
        v[inside] = choice
        cut = (across * (v[:, 1:] != v[:, :-1]) * inside[:, 1:] * inside[:, :-1]).sum()
        cut += (down * (v[1:] != v[:-1]) * inside[1:] * inside[:-1]).sum()
        values[choice] = (unary * v).sum() + cut
    best = np.zeros(logits.shape, bool)
    best[inside] = min(values, key=lambda choice: values[choice])
    return best


@pytest.mark.parametrize("seed", range(12))
def test_the_cuts_are_the_best_of_all(seed: int) -> None:
    """The first, the second, and that of what may be visible."""
    verdict, flags, figure, typical = some_windows(seed)
    np.testing.assert_array_equal(flags[0], best_choice(verdict, 0.0))
    best = best_choice(verdict, missing.MISSING * typical[0] * (flags & ~figure)[0])
    expected = flags[0] & best if (flags[0] & best).any() else flags[0]
    np.testing.assert_array_equal(hide_missing(verdict, flags, figure, typical)[0], expected)
    may_be = not_surely_hidden(verdict, flags)
    np.testing.assert_array_equal(may_be[0], best_choice(verdict, -missing.SURE))


def test_a_verdict_weighs_neighbours_by_the_mean_colours_of_blocks() -> None:
    rng = np.random.default_rng(0)
    blocks = rng.normal(0, 10, (3, 4, 5, 3)).astype(np.float32)
    shift = rng.normal(0, 3, (3, 4, 1, 5, 1, 3)) * np.array([1, -1])[:, None, None, None]
    quarters = (blocks[:, :, None, :, None] + shift * np.array([1, 1])[:, None]).reshape(
        3, 8, 10, 3
    )
    logits, outside = np.zeros((3, 4, 5), np.float32), rng.random((3, 4, 5)) < 0.3
    verdict = verdict_on(logits, quarters.astype(np.float32), outside, 0.3)
    np.testing.assert_array_equal(np.isnan(verdict.logits), outside)
    for ours, theirs in zip(verdict[1:], contrast_edges(blocks), strict=True):
        np.testing.assert_allclose(ours, 0.3 * theirs, atol=1e-5)


def test_what_was_hidden_stays_so_and_something_stays_visible() -> None:
    verdict, flags, figure, typical = some_windows(0, 200)
    found = hide_missing(verdict, flags, figure, typical)
    assert not (found & ~flags).any()
    assert (found != flags).any()
    assert (found.any((1, 2)) == flags.any((1, 2))).all()
    # Where all is figure nothing is missing.
    same = hide_missing(verdict, flags, np.ones_like(figure), typical)
    np.testing.assert_array_equal(same, flags)
    colours, nowhere = np.zeros((1, 4, 4, 3), np.float32), np.zeros((1, 2, 2), bool)
    almost = verdict_on(np.full((1, 2, 2), -0.1, np.float32), colours, nowhere, 0.7)
    assert hide_missing(almost, ~nowhere, nowhere, np.full((1, 2, 2), 0.9, np.float32)).all()


def test_what_may_be_visible_holds_what_is_and_less_than_all() -> None:
    verdict, flags, *_ = some_windows(0, 200)
    may_be = not_surely_hidden(verdict, flags)
    assert not (flags & ~may_be).any()
    assert not (may_be & np.isnan(verdict.logits)).any()
    assert flags.sum() < may_be.sum() < (~np.isnan(verdict.logits)).sum()


def test_trusted_flags_are_those_of_infer_visibility() -> None:
    (logits, *edges), *_ = some_windows(1, 50)
    outside = np.isnan(logits)
    unary = -np.nan_to_num(logits)
    _, expected = infer_visibility(unary, 0.0, 0.7, outside, tuple(edges))
    np.testing.assert_array_equal(best_flags(unary, 0.7, outside, tuple(edges)), expected)
    turned = best_flags(
        unary[:, :, ::-1],
        0.7,
        outside[:, :, ::-1],
        tuple(e[:, :, ::-1] for e in edges),  # type: ignore[arg-type]
    )
    np.testing.assert_array_equal(turned[:, :, ::-1], expected)
    with pytest.raises(hs.HalfseenError, match="finite"):
        best_flags(np.full((1, 2, 2), np.inf, np.float32), 0.7, np.zeros((1, 2, 2), bool),
                   (np.ones((1, 2, 1), np.float32), np.ones((1, 1, 2), np.float32)))  # fmt: skip


def test_logits_are_less_by_the_share_that_looks_hidden() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 3, (4, 3, 5)).astype(np.float32)
    logits[3] = [[-900, 900, 0, 0, 0]] * 3
    outside = rng.random((4, 3, 5)) < 0.3
    outside[2] = True
    found = reluctant(logits, outside)
    for n in range(4):
        inside = logits[n][~outside[n]].astype(np.float64)
        share = np.mean(1 / (1 + np.exp(-np.clip(inside, -50, 50)))) if len(inside) else 0.0
        np.testing.assert_allclose(found[n], logits[n] - share, rtol=1e-6, atol=1e-5)


def test_detections_are_looked_at_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is not figure that is hidden which ought to be figure often enough."""
    image = render_scenes(1, seed=5, classes=["car"]).image(0)
    model = random_head(headless())
    assert model.head is not None
    quiet = replace(
        model.head,
        weights=tuple(0 * w for w in model.head.weights),
        bias=tuple(np.full_like(b, -1.0) for b in model.head.bias),
        alpha=0.0,
    )
    detector = hs.Detector(replace(model, head=quiet))
    monkeypatch.setattr(missing, "MISSING", 2.0)
    found = detector.detect(image, -1)
    assert found.figure is not None
    share = 1 / (1 + np.exp(1.0))
    hidden = 0
    for n in range(len(found)):
        usual = quiet.figure[found.component[n]][:, :: -1 if found.mirrored[n] else 1]
        expected = found.figure[n] | (2.0 * usual < 1.0 + share)
        near = np.abs(2.0 * usual - 1.0 - share) < 1e-3
        seen = found.visibility[n]
        # What else is hidden lies outside the image, or behind another car.
        assert not (seen & ~expected & ~near).any()
        hidden += int((~seen & ~expected).sum())
    assert hidden > 10
    again = detector.look_again(image, found)
    for ours, theirs in zip(found.visibility, again.visibility, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    monkeypatch.setattr(missing, "MISSING", 0.0)
    before = detector.detect(image, -1)
    assert sum(g.sum() for g in before.visibility) > sum(g.sum() for g in found.visibility)


def test_what_is_finished_is_what_is_detected() -> None:
    """Flags, figures and boxes, by any way to them; beside a model without a head, too."""
    image = render_scenes(1, seed=5, classes=["car"]).image(0)
    detector = hs.Detector([headless(), random_head(headless())])
    parts = detector.candidates_by_model(image, -1)
    alone = hs.Detector(random_head(headless()))
    expected = alone.detect(image, -1, "greedy")
    finished = detector.finish(image, parts[1][suppress(parts[1], "greedy").indices], 1)
    covering = alone.choose(image, -1, "covering").kept
    pairs = [(finished, expected), (covering, alone.look_again(image, covering))]
    for ours, theirs in pairs:
        assert len(ours)
        np.testing.assert_allclose(ours.full, theirs.full, atol=1e-9)
        assert ours.figure is not None
        assert theirs.figure is not None
        for name in ("visibility", "figure"):
            for one, other in zip(getattr(ours, name), getattr(theirs, name), strict=True):
                np.testing.assert_array_equal(one, other)
    kept = parts[0][suppress(parts[0], "greedy").indices]
    plain = detector.finish(image, kept, 0)
    assert plain.figure is not None
    for grid, flags in zip(plain.figure, kept.visibility, strict=True):
        np.testing.assert_array_equal(grid, flags)
    np.testing.assert_array_equal(plain.full, kept.full)


def test_what_is_told_to_learn_from_is_what_is_told_when_detecting() -> None:
    image = render_scenes(1, seed=5, classes=["car"]).image(0)
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(2, len(EVIDENCE)))
    weights[:, [EVIDENCE.index(name) for name in RISING]] **= 2
    model = replace(random_head(headless()), calibration=Calibration(rng.normal(size=2), weights))
    detector = hs.Detector(model)
    (known,) = detector.known_by_model(image)
    found = detector.detect(image, -1, "greedy")
    assert found.probability is not None
    assert model.calibration is not None
    np.testing.assert_allclose(found.probability, probabilities(model.calibration, *known))
    assert np.ptp(known.told, axis=0).min() > 0


def test_what_cannot_be_finished_is_refused() -> None:
    image = render_scenes(1, seed=5, classes=["car"]).image(0)
    detector = hs.Detector(random_head(headless()))
    found = detector.candidates(image, -1)[:3]
    with pytest.raises(SettingsError, match="model must be 0 to 0, found 7"):
        detector.finish(image, found, 7)
    with pytest.raises(SettingsError, match="is not of this model"):
        detector.finish(image, replace(found, component=found.component + 7))
    window = found.window.copy()
    window[0, 2] = window[0, 0]
    for look in (detector.finish, detector.look_again):
        with pytest.raises(SettingsError, match="is empty"):
            look(image, replace(found, window=window))
