"""The grouping network: applied like its definition, stored with its model, refused if odd."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import halfseen as hs
from halfseen.errors import ModelError
from halfseen.model.calibration import EVIDENCE, Calibration
from halfseen.model.mask_head import INPUTS, Grouping, HiddenSettings, shapes, shipped_grouping
from halfseen.model.mixture import Mixture
from halfseen.model.store import _head
from halfseen.refine.grouping import group as group_with
from halfseen.refine.hidden import cut_hidden, grouped_logits
from halfseen.refine.kernels import lab
from tests.builders import headless, mirrored_pairs, random_head


def group(
    network: Grouping, logits: np.ndarray, quarters: np.ndarray, outside: np.ndarray
) -> np.ndarray:
    return group_with(network.ready, logits, quarters, outside, HiddenSettings())


def random_grouping(channels: int = 5, seed: int = 0) -> Grouping:
    rng = np.random.default_rng(seed)
    return Grouping(
        **{
            name: rng.normal(0, 0.4, shape).astype(np.float16)
            for name, shape in shapes(channels).items()
        }
    )


def grouped(model: Mixture, network: Grouping) -> Mixture:
    assert model.head is not None
    cutoff = tuple(0.1 * (m + 1) for m in range(len(model.components)))
    return replace(model, head=replace(model.head, grouping=network, cutoff=cutoff))


def slowly(
    network: Grouping, logits: np.ndarray, quarters: np.ndarray, outside: np.ndarray
) -> np.ndarray:
    """The definition, block by block, in float64."""
    t = {name: tensor.astype(np.float64) for name, tensor in network.tensors().items()}
    rows, cols = logits.shape
    colour = quarters.astype(np.float64) / 20
    colour -= colour.mean((0, 1))
    x = np.zeros((rows, cols, INPUTS))
    for i in range(rows):
        for j in range(cols):
            four = colour[2 * i : 2 * i + 2, 2 * j : 2 * j + 2].ravel()
            place = (2 * i + 1) / rows - 1, abs((2 * j + 1) / cols - 1)
            x[i, j] = [np.clip(logits[i, j], -8, 8) / 2, outside[i, j], *four, *place]

    def around(h: np.ndarray, step: int, name: str) -> np.ndarray:
        weights = t[name].reshape(3, 3, h.shape[2], -1)
        out = np.zeros((rows, cols, weights.shape[3])) + t[f"{name}_bias"]
        for i, j, a, b in np.ndindex(rows, cols, 3, 3):
            y, z = i + (a - 1) * step, j + (b - 1) * step
            if 0 <= y < rows and 0 <= z < cols:
                out[i, j] += h[y, z] @ weights[a, b]
        return out

    def pooled(h: np.ndarray, name: str) -> np.ndarray:
        mean = x[..., 2:14].reshape(rows, cols, 4, 3).mean(2)
        out = np.zeros(h.shape)
        for i, j in np.ndindex(rows, cols):
            distance = ((mean - mean[i, j]) ** 2).sum(-1)
            near, nearer = (1 + distance) ** -2, (1 + distance) ** -8
            means = [(h * w[..., None]).sum((0, 1)) / w.sum() for w in (near, nearer)]
            parts = [h[i, j], *means, h.mean((0, 1))]
            out[i, j] = np.concatenate(parts) @ t[name] + t[f"{name}_bias"]
        return out

    h = np.maximum(around(x, 1, "enter"), 0)
    h = np.maximum(around(h, 2, "wide"), 0)
    h = np.maximum(pooled(h, "pool"), 0)
    h = h + np.maximum(around(h, 2, "again"), 0)
    h = np.maximum(pooled(h, "repool"), 0)
    return around(h, 1, "leave")[..., 0] + t["gain"] * x[..., 0]


def windows(count: int, rows: int, cols: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(count)
    logits = rng.normal(0, 4, (count, rows, cols)).astype(np.float32)
    quarters = lab(rng.uniform(0, 255, (count, 2 * rows, 2 * cols, 3)).astype(np.float32))
    return logits, quarters, rng.random((count, rows, cols)) < 0.2


@pytest.mark.parametrize(("rows", "cols"), [(4, 5), (1, 3), (7, 2)])
def test_the_network_against_its_definition(rows: int, cols: int) -> None:
    network = random_grouping()
    data = windows(3, rows, cols)
    found = group(network, *data)
    for n in range(3):
        expected = slowly(network, *(part[n] for part in data))
        np.testing.assert_allclose(found[n], expected, rtol=1e-3, atol=1e-3)


def test_a_window_is_judged_alike_alone_and_among_others() -> None:
    network = shipped_grouping()
    logits, quarters, outside = windows(9, 6, 8)
    together = group(network, logits, quarters, outside)
    for n in range(9):
        part = slice(n, n + 1)
        np.testing.assert_array_equal(
            group(network, logits[part], quarters[part], outside[part])[0], together[n]
        )
    assert group(network, logits[:0], quarters[:0], outside[:0]).shape == (0, 6, 8)


def test_the_shipped_network_joins_blocks_of_one_colour() -> None:
    """A block in doubt is hidden if what has its colour is, and visible if that is."""
    quarters = np.full((2, 12, 16, 3), 200, np.float32)
    quarters[:, :, :8] = [40, 90, 40]
    logits = np.full((2, 6, 8), -2, np.float32)
    logits[0, :, :4] = 2
    logits[:, 2:4, 1:3] = 0
    hidden, visible = group(shipped_grouping(), logits, lab(quarters), np.zeros((2, 6, 8), bool))
    assert (hidden[2:4, 1:3] > visible[2:4, 1:3] + 1).all()
    assert hidden[:, :3].mean() > hidden[:, 5:].mean() + 2


def test_a_head_with_a_network_survives_the_file(tmp_path: Path) -> None:
    model = grouped(random_head(headless()), random_grouping())
    hs.save(model, tmp_path / "car.safetensors")
    back = hs.load(tmp_path / "car.safetensors").head
    assert back is not None
    assert model.head is not None
    assert back.cutoff == model.head.cutoff
    assert back.grouping is not None
    for name, tensor in random_grouping().tensors().items():
        np.testing.assert_array_equal(back.grouping.tensors()[name], tensor)


def test_mirrored_images_give_mirrored_flags() -> None:
    compared = 0
    for here, there in mirrored_pairs(grouped(random_head(headless()), random_grouping())):
        np.testing.assert_array_equal(here.visibility[0], there.visibility[0][:, ::-1])
        compared += 1
    assert compared >= 1


def test_a_strangers_network_is_refused() -> None:
    tensors = random_grouping().tensors()
    with pytest.raises(ModelError, match=r"too many or too few: .'gain'"):
        Grouping.of({name: t for name, t in tensors.items() if name != "gain"})
    with pytest.raises(ModelError, match="enter must be"):
        Grouping.of(tensors | {"enter": tensors["enter"][1:]})
    with pytest.raises(ModelError, match=r"wide must be .* float16"):
        Grouping.of(tensors | {"wide": tensors["wide"].astype(np.float32)})
    with pytest.raises(ModelError, match="NaN"):
        Grouping.of(tensors | {"leave": tensors["leave"] * np.float16("nan")})
    with pytest.raises(ModelError, match="1 to 128 channels"):
        Grouping.of(tensors | {"enter_bias": np.zeros(0, np.float16)})
    model = random_head(headless())
    assert model.head is not None
    for value in (float("nan"), 1e300):
        with pytest.raises(ModelError, match="cutoff is NaN or beyond"):
            replace(model.head, cutoff=(value,) * 2)
    with pytest.raises(ModelError, match="cutoff for each of its 2 components, found 3"):
        replace(model.head, cutoff=(0.0,) * 3)


def test_the_cutoff_and_the_border_reach_the_flags() -> None:
    model = grouped(random_head(headless()), random_grouping())
    assert model.head is not None
    head = replace(model.head, alpha=0.0)
    logits, quarters, outside = windows(4, *model.components[1].shape)
    grouped_ = grouped_logits(head, logits, quarters, outside) - np.float32(head.cutoff[1])
    flags = cut_hidden(grouped_, quarters, outside, np.zeros(4), 3.0)
    for n in range(4):
        slow = slowly(random_grouping(), logits[n], quarters[n], outside[n]) - head.cutoff[1]
        clear = np.abs(slow) > 1e-3
        expected = (slow < 0) & ~outside[n]
        np.testing.assert_array_equal(flags[n][clear], expected[clear])


@pytest.mark.parametrize("cores", [1, 2, 5])
def test_several_models_see_what_each_sees_alone(cores: int) -> None:
    """Windows of one shape are judged together, of all models, and shared out among the cores."""
    image = hs.render_scenes(1, seed=5, classes=["car"]).image(0)
    other = random_grouping()
    models = [
        replace(random_head(headless(), 1), label="one"),
        replace(grouped(random_head(headless(), 2), other), label="two"),
        replace(headless(), label="three"),
        replace(grouped(random_head(headless(), 3), other), label="four"),
    ]
    rng = np.random.default_rng(0)
    for k, model in enumerate(models):
        weights = rng.normal(size=(2, len(EVIDENCE))) ** 2
        known = Calibration(rng.normal(size=2), weights)
        head = model.head and replace(model.head, alpha=0.2 * k)
        models[k] = replace(model, head=head, calibration=known)
    together = hs.Detector(models, cores=cores).detect(image, -1)
    for model in models:
        alone = hs.Detector(model).detect(image, -1)
        expected = together[np.flatnonzero(together.label == model.label)]
        assert len(expected) == len(alone) > 1
        np.testing.assert_array_equal(expected.full, alone.full)
        np.testing.assert_array_equal(expected.probability, alone.probability)
        for ours, theirs in zip(expected.blocks, alone.blocks, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert any(not flags.all() for flags in together.visibility)


@pytest.mark.parametrize("cutoff", ["12", {"1": 0, "2": 0}, ["1", "2"], [True, False], ""])
def test_a_cutoff_that_is_no_list_of_numbers_is_refused(cutoff: object) -> None:
    tensors = {"head.weights.0": np.zeros((2, 2, 3, 3, 4), np.float16)}
    tensors["head.bias.0"] = np.zeros((2, 2), np.float32)
    with pytest.raises(ModelError, match="must be a list of numbers"):
        _head({"alpha": 1.0, "cutoff": cutoff}, tensors, 1)
    fields = {"alpha": 1.0, "settings": {}, "figures": {}}
    assert _head(fields, tensors, 1).cutoff == (0.0,)
