"""Latent variables: the best allowed window of each object, and the blocks hidden in it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from halfseen.detect.view import feature_levels
from halfseen.detect.windows import place_boxes
from halfseen.features.fhog import Fhog
from halfseen.features.pyramid import PyramidSettings
from halfseen.geometry import clip, iou
from halfseen.learn.latent import Fit, Template, collect_bags, reachable_places, update
from halfseen.learn.mining import Keys, MiningImage, take_windows
from halfseen.learn.objective import Examples, Negatives, Objective, Parameters, Positives
from halfseen.learn.state import State
from halfseen.learn.trainer import Trainer
from halfseen.learn.training_set import TrainingSet
from tests.builders import tiny_scenes, tiny_settings

PYRAMID = PyramidSettings(1.3, 1.5)
SHAPES = ((3, 6), (4, 4))


def test_overlaps_at_every_place_are_those_of_the_placed_boxes() -> None:
    descriptor, shape, size, scale = Fhog(), (3, 6), (17, 23), (0.9, 0.92)
    image_size = (150, 200)
    box = np.array([30.0, 20.0, 110.0, 75.0])
    blocks = np.array([0.4, -0.2, 5.5, 3.1])
    found = reachable_places(box, image_size, shape, blocks, descriptor, size, scale)
    y, x = (part.ravel() for part in np.mgrid[: size[0] + 1, : size[1] + 1])
    placed = clip(place_boxes(y, x, shape, blocks, descriptor, scale), image_size)
    np.testing.assert_allclose(found.ravel(), iou(placed, box), atol=1e-12)


@pytest.mark.parametrize(
    ("visibility", "contracted"), [(False, False), (True, False), (True, True)]
)
def test_an_update_takes_the_best_of_all_windows_that_overlap_enough(
    visibility: bool, contracted: bool
) -> None:
    scenes, descriptor = tiny_scenes(), Fhog()
    i = next(i for i in range(len(scenes)) if (~scenes[i].difficult).any())
    box = scenes[i].box[int(np.flatnonzero(~scenes[i].difficult)[0])]
    image = scenes.image(i)
    rng = np.random.default_rng(1)
    u = 0.0 if contracted else -0.05
    templates = [
        Template(
            shape, np.array([0.2, 0.0, shape[1] - 0.1, shape[0]]),
            rng.normal(0, 0.2, (shape[0] * shape[1], 31)), np.array([-0.5, u, 0.02]),
        )
        for shape in SHAPES
    ]  # fmt: skip
    objective = Objective(1.0, 0.05, visibility, "free")
    bag = collect_bags(
        image, box[None], box[None], np.zeros(1, bool), SHAPES, descriptor, PYRAMID, 0.6
    )[0]
    assert bag.reach > 0.6
    found = update(bag, templates, objective, descriptor, True, Fit(0.6, contracted=contracted))
    assert found is not None
    mining = MiningImage.make(image, np.zeros((0, 4)), descriptor, PYRAMID, SHAPES)
    expected, left_out = -np.inf, 0
    for number, (level, features) in enumerate(feature_levels(image, descriptor, PYRAMID, SHAPES)):
        scale = (level.scale_x, level.scale_y)
        for template in templates:
            for flipped in (0, 1):
                cols = template.shape[1]
                blocks = template.box.copy()
                if flipped:
                    blocks[[0, 2]] = cols - blocks[[2, 0]]
                y, x = (p.ravel() for p in np.mgrid[: len(features) + 1, : features.shape[1] + 1])
                placed = place_boxes(y, x, template.shape, blocks, descriptor, scale)
                allowed = iou(clip(placed, image.shape[:2]), box) >= 0.6
                if not allowed.any():
                    continue
                keys = Keys.make(0, number, y[allowed], x[allowed], 0, flipped)
                windows = take_windows(mining, keys, template.shape, descriptor.mirror)
                scores, flags = objective.best_scores(
                    template.weights, template.bias, windows, -np.inf
                )
                for n, (score, visible) in enumerate(zip(scores, flags, strict=True)):
                    if contracted:
                        rows, across = np.nonzero(visible[:, ::-1] if flipped else visible)
                        if not len(rows):
                            continue
                        seen = [across.min(), rows.min(), across.max() + 1, rows.max() + 1]
                        place = (y[allowed][n : n + 1], x[allowed][n : n + 1])
                        around = place_boxes(*place, template.shape, seen, descriptor, scale)
                        if iou(clip(around, image.shape[:2]), box)[0] < 0.6:
                            left_out += 1
                            continue
                    expected = max(expected, float(score))
    assert (left_out > 0) == contracted
    assert found.score == pytest.approx(expected, abs=1e-5)
    assert not (found.visible & found.outside).any()


def test_an_occluded_object_takes_a_larger_window_only_where_that_is_wanted() -> None:
    """Half of a square is seen: no square window overlaps that by 0.7."""
    seen = np.array([[60.0, 50.0, 110.0, 76.0]])
    bag = collect_bags(
        tiny_scenes().image(0), seen, seen, np.ones(1, bool), SHAPES, Fhog(), PYRAMID, 0.7
    )[0]
    template = Template((4, 4), np.array([0.0, 0, 4, 4]), np.zeros((16, 31)), np.zeros(3))
    objective = Objective(1.0, 0.05, True, "free")
    found = update(bag, [template], objective, Fhog(), False, Fit(0.7))
    assert found is not None
    assert not found.visible.all()
    assert update(bag, [template], objective, Fhog(), False, Fit(0.7, completed=False)) is None


def test_an_object_that_no_window_overlaps_enough_is_left_without_one() -> None:
    speck = np.array([[50.0, 40.0, 53.0, 42.0]])
    bag = collect_bags(
        tiny_scenes().image(0), speck, speck, np.zeros(1, bool), SHAPES, Fhog(), PYRAMID, 0.7
    )[0]
    assert bag.reach < 0.1
    template = Template((3, 6), np.array([0.0, 0, 6, 3]), np.zeros((18, 31)), np.zeros(3))
    objective = Objective(1.0, 0.05, True, "free")
    assert update(bag, [template], objective, Fhog(), True, Fit(0.7)) is None


@pytest.mark.parametrize("method", ["BLT", "VIS"])
def test_an_update_never_raises_the_energy(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At unchanged parameters and negatives: each object's window may only score higher."""
    measured = []
    begin = Trainer._begin

    def watched(
        self: Trainer, stage: int, state: State, objective: Objective, store: object
    ) -> None:
        data = self.data
        before = data.positives(stage - 1, state.assignments) if stage >= 2 else None
        begin(self, stage, state, objective, store)  # type: ignore[arg-type]
        if before is not None:
            none = [
                Negatives(Examples(p.examples.features[:0], p.examples.outside[:0]),
                          np.zeros(0, np.int64))
                for p in before
            ]  # fmt: skip
            after = data.positives(stage, state.assignments)
            measured.append(
                tuple(objective(state.vector, data.parameters, p, none)[0] for p in (before, after))
            )

    monkeypatch.setattr(Trainer, "_begin", watched)
    settings = tiny_settings(method=method, updates=4, rounds=1)
    with TrainingSet(tiny_scenes(), "car", settings, 1) as data:
        Trainer(data).run()
    assert len(measured) == 3
    for before, after in measured:
        assert after <= before + 1e-6 * abs(before)


def test_hidden_blocks_of_occluded_positives_are_recovered() -> None:
    """Half of the positives have a known patch replaced by something else; nobody says where.

    Objects have a pattern of their own in every block, background is noise, and what hides them
    looks half like the opposite. Learning starts from whole objects with u at a low quantile of
    their responses, as the trainer's does, then alternates fits with updates of all flags.
    """
    rng = np.random.default_rng(0)
    rows, cols, channels, count, others = 6, 8, 8, 60, 120
    pattern = rng.normal(size=(rows, cols, channels))

    def noise(n: int) -> np.ndarray:
        return rng.normal(0, 0.5, (n, rows, cols, channels))

    hidden = np.zeros((count, rows, cols), bool)
    for n in range(0, count, 2):
        top, left = rng.integers(0, rows - 3), rng.integers(0, cols - 3)
        hidden[n, top : top + 4, left : left + 4] = True
    features = noise(count) + np.where(hidden[..., None], -0.5, 1.0) * pattern
    inside = np.zeros((count, rows, cols), bool)
    windows = Examples(features.astype(np.float32), inside)
    background = Examples(
        noise(others).astype(np.float32), np.zeros((others, rows, cols), bool)
    )  # fmt: skip
    parameters = Parameters(((rows, cols, channels),))

    def fit(objective: Objective, vector: np.ndarray, positives: Positives) -> np.ndarray:
        result = minimize(
            objective, vector, jac=True, method="L-BFGS-B", options={"maxiter": 60},
            args=(parameters, [positives], [Negatives(background, np.arange(others))]),
        )  # fmt: skip
        return objective.tie(result.x, parameters)

    whole = np.flatnonzero(~hidden.any((1, 2)))
    start = Positives(Examples(windows.features[whole], inside[whole]), ~inside[whole])
    plain = Objective(1.0, 0.005, False, "zero", 0.1)
    vector = fit(plain, np.zeros(parameters.length), start)
    w, bias = parameters.split(vector)[0]
    bias[1] = np.quantile(np.einsum("nik,ik->ni", start.examples.features.reshape(
        len(whole), rows * cols, channels), w), 0.1)  # fmt: skip
    learning = replace(plain, visibility=True)
    for _ in range(3):
        w, bias = parameters.split(vector)[0]
        _, visible = learning.best_scores(w, bias, windows, -np.inf)
        vector = fit(learning, vector, Positives(windows, visible))
    w, bias = parameters.split(vector)[0]
    _, visible = learning.best_scores(w, bias, windows, -np.inf)
    assert (~visible)[hidden].mean() > 0.98
    assert (~visible)[~hidden].mean() < 0.02
