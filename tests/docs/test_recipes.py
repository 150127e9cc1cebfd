"""The recipes run as they stand: with supervision itself, and with stand-ins for what is not here.

A stand-in has the attributes and array shapes that its package documents, and nothing else: code on
a page that asks for more fails.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import halfseen as hs
from halfseen.data.image import write_image
from halfseen.data.scenes import render_scenes
from halfseen.geometry import clip

PAGES = Path(__file__).parents[2] / "docs" / "recipes"
CAR = 2


class Tensor(np.ndarray):
    """An array that answers to the names of a torch tensor."""

    def cpu(self) -> "Tensor":
        return self

    def numpy(self) -> np.ndarray:
        return np.asarray(self)

    def permute(self, *axes: int) -> "Tensor":
        return self.transpose(axes)


def tensor(values: Any) -> Any:
    return np.asarray(values).view(Tensor)


class Fields(dict[str, Any]):
    """Named arrays of one length that are selected together."""

    def __getattr__(self, name: str) -> Any:
        return self[name]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return super().__getitem__(key)
        return type(self)({name: values[key] for name, values in self.items()})


class Raw:
    """Each object of a scene four times, as a detector has them before its suppression."""

    def __init__(self) -> None:
        data = render_scenes(1, seed=8, classes=["car"])
        self.image, truth = data.image(0), data[0]
        rng = np.random.default_rng(0)
        boxes = np.repeat(clip(truth.box, truth.size), 4, axis=0)
        self.owner = np.repeat(np.arange(len(truth)), 4)
        self.boxes = clip(boxes + rng.normal(0, 2, boxes.shape), truth.size)
        self.masks = np.array([truth.mask(i) for i in self.owner.tolist()])
        self.scores = rng.uniform(0.3, 0.99, len(boxes))
        self.classes = np.full(len(boxes), CAR)
        self.names = np.full(len(boxes), "car")


@pytest.fixture
def raw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Raw:
    raw = Raw()
    write_image(tmp_path / "street.jpg", raw.image)
    monkeypatch.chdir(tmp_path)
    return raw


def modules(monkeypatch: pytest.MonkeyPatch, **named: dict[str, Any]) -> None:
    """Put modules, `_` for the dot of their names, where an import finds them."""
    for name, members in named.items():
        module = ModuleType(name.replace("_", "."))
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, module.__name__, module)


def run(page: str, **given: Any) -> dict[str, Any]:
    code = "\n".join(re.findall(r"```python\n(.*?)```", (PAGES / page).read_text(), re.DOTALL))
    names: dict[str, Any] = dict(given)
    exec(compile(code, page, "exec"), names)
    return names


def check(raw: Raw, indices: Any, seen: Any) -> None:
    """One candidate of each object was kept, and what is visible of each was said."""
    assert sorted(raw.owner[indices].tolist()) == sorted(set(raw.owner.tolist()))
    assert len(seen) == len(indices)
    assert np.isfinite(seen.visible_fraction).any()
    assert seen.mask(0).shape == raw.image.shape[:2]


def test_supervision(raw: Raw) -> None:
    names = run(
        "supervision.md", boxes=raw.boxes, masks=raw.masks, scores=raw.scores,
        classes=raw.classes, names=raw.names,
    )  # fmt: skip
    kept, cars = names["kept"], names["cars"]
    indices = [int(np.flatnonzero(raw.scores == score)[0]) for score in kept.confidence]
    check(raw, indices, names["seen"])
    assert type(kept) is type(names["detections"])
    assert cars.mask.shape == (len(kept), *raw.image.shape[:2])
    np.testing.assert_array_equal(cars["visible_fraction"], names["seen"].visible_fraction)
    assert len(names["theirs"]) == len(names["found"])
    assert (names["picture"] != raw.image).any()


class Result(SimpleNamespace):
    """ultralytics' Results: boxes and masks that are selected together."""

    def __getitem__(self, rows: Any) -> "Result":
        data = SimpleNamespace(data=self.masks.data[rows])
        return Result(**vars(self) | {"boxes": self.boxes[rows], "masks": data})


def test_ultralytics(raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    first = Result(
        boxes=Fields(
            xyxy=tensor(raw.boxes), conf=tensor(raw.scores), cls=tensor(raw.classes * 1.0)
        ),
        masks=SimpleNamespace(data=tensor(raw.masks.astype(np.float32))),
        orig_img=raw.image[..., ::-1],
        names={CAR: "car"},
    )  # fmt: skip

    class YOLO:
        def __init__(self, name: str) -> None:
            assert name

        def predict(self, source: str, **settings: Any) -> list[Result]:
            assert Path(source).is_file()
            asked.update(settings)
            return [first]

    modules(monkeypatch, ultralytics={"YOLO": YOLO})
    names = run("ultralytics.md")
    assert asked == {"iou": 1.0, "conf": 0.05, "max_det": 1000, "retina_masks": True}
    expected = hs.suppress_masks(raw.masks, raw.scores, labels=raw.classes)
    np.testing.assert_array_equal(names["result"].boxes.xyxy, raw.boxes[expected.indices])
    check(raw, expected.indices, names["seen"])
    np.testing.assert_array_equal(names["image"], raw.image)


class Mode:
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


def test_torchvision(raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    class Model:
        def eval(self) -> "Model":
            return self

        def __call__(self, images: list[Any]) -> list[dict[str, Any]]:
            assert images[0].shape == (3, *raw.image.shape[:2])
            assert images[0].max() <= 1
            return [{
                "boxes": tensor(raw.boxes), "labels": tensor(raw.classes + 1),
                "scores": tensor(raw.scores), "masks": tensor(raw.masks[:, None] * 0.9),
            }]  # fmt: skip

    def make(**settings: Any) -> Model:
        asked.update(settings)
        return Model()

    modules(
        monkeypatch,
        torch={"from_numpy": tensor, "inference_mode": Mode},
        torchvision={},
        torchvision_models={},
        torchvision_models_detection={"maskrcnn_resnet50_fpn_v2": make},
    )
    names = run("torchvision.md")
    assert asked["box_nms_thresh"] == 1
    expected = hs.suppress_masks(raw.masks, raw.scores, labels=raw.classes)
    np.testing.assert_array_equal(names["found"]["boxes"], raw.boxes[expected.indices])
    assert len(names["kept"].indices) == len(expected.indices)
    check(raw, expected.indices, names["seen"])


class Config(SimpleNamespace):
    def __getattr__(self, name: str) -> Any:
        value = Config()
        setattr(self, name, value)
        return value

    def merge_from_file(self, path: str) -> None:
        assert path.endswith(".yaml")


class Instances(Fields):
    def to(self, device: str) -> "Instances":
        assert device == "cpu"
        return self


def test_detectron2(raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    def predictor(cfg: Config) -> Callable[[Any], Any]:
        assert cfg.MODEL.ROI_HEADS.NMS_THRESH_TEST == 1

        def predict(image: Any) -> dict[str, Instances]:
            # A JPEG's pixels are near those that were drawn.
            assert np.abs(image[..., ::-1].astype(float) - raw.image).mean() < 8
            return {"instances": Instances(
                pred_boxes=Fields(tensor=tensor(raw.boxes)), scores=tensor(raw.scores),
                pred_classes=tensor(raw.classes), pred_masks=tensor(raw.masks),
            )}  # fmt: skip

        return predict

    zoo = {"get_config_file": str, "get_checkpoint_url": str}
    modules(
        monkeypatch,
        detectron2={"model_zoo": SimpleNamespace(**zoo)},
        detectron2_config={"get_cfg": Config},
        detectron2_engine={"DefaultPredictor": predictor},
    )
    names = run("detectron2.md")
    expected = hs.suppress_masks(raw.masks, raw.scores, labels=raw.classes)
    np.testing.assert_array_equal(names["boxes"], raw.boxes[expected.indices])
    check(raw, expected.indices, names["seen"])


def test_a_raw_array(raw: Raw) -> None:
    sides = raw.boxes[:, 2:] - raw.boxes[:, :2]
    output = np.zeros((1, 84, len(raw.boxes) + 3), np.float32)
    scale = 1.5
    output[0, :2, :-3] = scale * (raw.boxes[:, :2] + sides / 2).T
    output[0, 2:4, :-3] = scale * sides.T
    output[0, 4 + CAR, :-3] = raw.scores
    output[0, 2:4, -3:], output[0, 4, -3:] = 9, 0.01  # too faint to count
    names = run("yolo-array.md", output=output, scale=scale)
    expected = hs.suppress_boxes(raw.boxes, raw.scores, labels=raw.classes)
    np.testing.assert_allclose(names["boxes"], raw.boxes[expected.indices], atol=1e-3)
    np.testing.assert_allclose(names["scores"], raw.scores[expected.indices], atol=1e-6)
    assert (names["classes"] == CAR).all()
    check(raw, expected.indices, names["seen"])


def test_every_recipe_is_run_and_in_the_contents() -> None:
    tested = set(re.findall(r'run\(\s*"([\w-]+\.md)"', Path(__file__).read_text()))
    assert tested == {page.name for page in PAGES.glob("*.md")}
    contents = (PAGES.parents[1] / "mkdocs.yml").read_text()
    for page in tested:
        assert f"recipes/{page}" in contents
