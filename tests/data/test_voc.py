import os
import pickle
import re
import tracemalloc
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from halfseen.data.dataset import Dataset
from halfseen.data.image import write_image
from halfseen.data.limits import Limits
from halfseen.data.voc import read_voc, write_voc
from halfseen.data.voc_writer import voc_palette
from halfseen.detections import GroundTruth
from halfseen.errors import AnnotationError, ImageError, SettingsError

WHOLE = "<xmin>3</xmin><ymin>2</ymin><xmax>10</xmax><ymax>8</ymax>"


def thing(name: str = "<name>car</name>", box: str = WHOLE, rest: str = "") -> str:
    return f"<object>{name}<bndbox>{box}</bndbox>{rest}</object>"


def annotation(*objects: str, size: str = "<width>20</width><height>12</height>") -> str:
    return f"<annotation><size>{size}</size>{''.join(objects)}</annotation>"


@pytest.fixture
def voc(tmp_path: Path) -> Path:
    """A VOC folder of the one sound image `good`; `add` puts others beside it."""
    root = tmp_path / "VOC2099"
    for part in ("Annotations", "ImageSets/Main", "JPEGImages", "SegmentationObject"):
        (root / part).mkdir(parents=True)
    add(root, "good", annotation(thing()))
    return root


def add(root: Path, name: str, xml: str, suffix: str = "png") -> None:
    (root / "Annotations" / f"{name}.xml").write_text(xml)
    write_image(root / "JPEGImages" / f"{name}.{suffix}", np.zeros((12, 20, 3), np.uint8))
    with (root / "ImageSets" / "Main" / "train.txt").open("a") as split:
        split.write(f"{name}\n")


def test_boxes_become_zero_based_and_half_open(voc: Path) -> None:
    dataset = read_voc(voc, "train")
    (truth,) = dataset
    assert truth.image == "good"
    assert truth.size == (12, 20)
    assert truth.label.tolist() == ["car"]
    assert truth.box.tolist() == [[2, 1, 10, 8]]
    assert truth.full.tolist() == truth.box.tolist()
    assert np.isnan(truth.visible_fraction).all()
    assert truth.mask(0) is None
    assert dataset.image(0).shape == (12, 20, 3)
    assert (dataset.name, dataset.classes, dataset.problems) == ("VOC2099 train", ("car",), ())


def test_flags_and_our_own_elements(voc: Path) -> None:
    rest = (
        "<truncated>1</truncated><occluded>1</occluded><difficult>1</difficult><crowd>1</crowd>"
        "<visible_fraction>0.25</visible_fraction>"
        "<full><xmin>-4</xmin><ymin>2</ymin><xmax>30.5</xmax><ymax>8</ymax></full>"
        "<part><name>wheel</name><bndbox><xmin>1</xmin></bndbox></part>"
    )
    add(voc, "b", annotation(thing(rest=rest), thing(rest="<truncated>Unspecified</truncated>")))
    truth = read_voc(voc, "train")[1]
    for flag in ("difficult", "truncated", "occluded", "crowd"):
        assert getattr(truth, flag).tolist() == [True, False]
    assert truth.full[0].tolist() == [-5, 1, 30.5, 8]
    np.testing.assert_array_equal(truth.visible_fraction, [0.25, np.nan])


def test_float_boxes_and_boxes_one_pixel_outside(voc: Path) -> None:
    box = "<xmin>0.5</xmin><ymin>0</ymin><xmax>20.75</xmax><ymax>7.25</ymax>"
    add(voc, "b", annotation(thing(box=box)), suffix="jpg")
    dataset = read_voc(voc, "train")
    assert dataset.problems == ()
    assert dataset[1].box.tolist() == [[0, 0, 20, 7.25]]


def without(text: str) -> str:
    return WHOLE.replace(text, "")


@pytest.mark.parametrize(
    ("xml", "words"),
    [
        ("", "not well-formed"),
        ("<annotation>", "not well-formed"),
        ("\x00\x01", "not well-formed"),
        ('<?xml version="1.0" encoding="nonsense"?><annotation/>', "not well-formed"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><annotation>&b;</annotation>', "entity declarations"),
        ('<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>', "entity"),
        ("<a>" * 40 + "</a>" * 40, "nested deeper than 32"),
        ("<annotation/>", "size/width: missing"),
        (annotation(size="<width>20</width>"), "size/height: missing"),
        (annotation(size="<width>0</width><height>5</height>"), "size: expected whole"),
        (annotation(size="<width>nan</width><height>5</height>"), "size/width: expected a number"),
        (annotation(size="<width>99999</width><height>99999</height>"), "exceed"),
        (annotation(thing(name="")), "object 1: name: missing"),
        (
            annotation(thing(), "<object><name>car</name></object>"),
            "object 2: bndbox/xmin: missing",
        ),
        (annotation(thing(box=without("<ymax>8</ymax>"))), "bndbox/ymax: missing"),
        (annotation(thing(box=WHOLE.replace("10", "ten"))), "bndbox/xmax: expected a number.*ten"),
        (annotation(thing(box=WHOLE.replace("10", "nan"))), "bndbox/xmax: expected a number"),
        (annotation(thing(box=WHOLE.replace("10", "inf"))), "bndbox/xmax: expected a number"),
        (annotation(thing(box=WHOLE.replace("10", "2"))), "bndbox: empty or reversed: 0 x 7"),
        (annotation(thing(box=WHOLE.replace("10", "1"))), "bndbox: empty or reversed: -1 x 7"),
        (annotation(thing(box=WHOLE.replace("10", "22"))), "2 pixels outside the image of 20 x 12"),
        (annotation(thing(box=WHOLE.replace("3", "-1"))), "2 pixels outside"),
        (annotation(thing(rest="<difficult>yes</difficult>")), "difficult: expected 0 or 1"),
        (annotation(thing(rest="<visible_fraction>2</visible_fraction>")), "visible_fraction"),
        (annotation(thing(rest="<full><xmin>1</xmin></full>")), "full/ymin: missing"),
        (annotation(thing(rest=f"<full>{WHOLE.replace('10', '1')}</full>")), "full: empty or rev"),
    ],
)
def test_a_faulty_annotation_is_told_and_the_others_go_on(voc: Path, xml: str, words: str) -> None:
    add(voc, "bad", xml)
    add(voc, "last", annotation(thing()))
    dataset = read_voc(voc, "train")
    assert [truth.image for truth in dataset] == ["good", "last"]
    (problem,) = dataset.problems
    assert problem.startswith(str(voc / "Annotations" / "bad.xml"))
    assert "\n" not in problem
    assert re.search(words, problem)


def test_limits(voc: Path) -> None:
    add(voc, "many", annotation(*[thing()] * 5))
    (problem,) = read_voc(voc, "train", limits=Limits(objects=4)).problems
    assert "5 objects exceed the limit of 4" in problem
    (problem,) = read_voc(voc, "train", limits=Limits(xml_bytes=300)).problems
    assert "many.xml: larger than the limit of 300 bytes" in problem


def test_ids_that_are_absent_repeated_or_lead_elsewhere(voc: Path) -> None:
    (voc / "JPEGImages" / "lonely.jpg").touch()
    split = voc.parent / "mine.txt"
    split.write_text(
        "good  1\ngood -1\n../VOC2099/Annotations/good\n/etc/passwd\nabsent\nlonely\n\n"
    )
    dataset = read_voc(voc, split)
    assert [truth.image for truth in dataset] == ["good"]
    words = ("more than once", "not an image id", "not an image id", "no image", "no such file")
    assert len(dataset.problems) == len(words)
    for problem, word in zip(dataset.problems, words, strict=True):
        assert word in problem


def test_the_root_may_be_the_devkit_or_its_parent(voc: Path) -> None:
    devkit = voc.parent / "VOCdevkit"
    devkit.mkdir()
    voc.rename(devkit / "VOC2099")
    for root in (devkit / "VOC2099", devkit, devkit.parent):
        assert read_voc(root, "train").name == "VOC2099 train"
    (devkit / "VOC2007" / "Annotations").mkdir(parents=True)
    with pytest.raises(AnnotationError, match="several VOC folders"):
        read_voc(devkit, "train")


def test_missing_folders_and_splits(voc: Path) -> None:
    with pytest.raises(AnnotationError, match="no such folder"):
        read_voc(voc / "absent", "train")
    with pytest.raises(AnnotationError, match="has no Annotations"):
        read_voc(voc / "JPEGImages", "train")
    with pytest.raises(AnnotationError, match="no split 'trian'; did you mean 'train'"):
        read_voc(voc, "trian")
    (voc / "ImageSets" / "Main" / "none.txt").touch()
    with pytest.raises(AnnotationError, match=r"no usable image: .*no image is listed"):
        read_voc(voc, "none")
    (voc / "ImageSets" / "Main" / "bad.txt").write_text("absent")
    with pytest.raises(AnnotationError, match=r"no usable image: .*absent: no image"):
        read_voc(voc, "bad")


def test_classes_select_objects_and_their_masks(voc: Path) -> None:
    add(voc, "b", annotation(thing("<name>dog</name>"), thing()))
    indices = np.zeros((12, 20), np.uint8)
    indices[2, 3], indices[4, 5], indices[6, 7] = 1, 2, 255
    Image.fromarray(indices).save(voc / "SegmentationObject" / "b.png")
    dataset = read_voc(voc, "train", classes=["car"])
    assert dataset.classes == ("car",)
    assert dataset[1].label.tolist() == ["car"]
    np.testing.assert_array_equal(dataset[1].mask(0), indices == 2)
    with pytest.raises(SettingsError, match="no object 'caar' in train; did you mean 'car'"):
        read_voc(voc, "train", classes=["caar"])


def test_masks_are_checked_when_read(voc: Path) -> None:
    add(voc, "b", annotation(thing()))
    path = voc / "SegmentationObject" / "b.png"
    for content, words in [((3, 4), "expected 20 x 12"), ((12, 20, 3), "palette or grey")]:
        Image.fromarray(np.ones(content, np.uint8)).save(path)
        with pytest.raises(AnnotationError, match=words):
            read_voc(voc, "train")[1].mask(0)
    path.write_bytes(b"junk")
    with pytest.raises(AnnotationError, match="not an image"):
        read_voc(voc, "train")[1].mask(0)


def test_an_image_of_another_size_than_annotated(voc: Path) -> None:
    write_image(voc / "JPEGImages" / "good.png", np.zeros((20, 12, 3), np.uint8))
    with pytest.raises(ImageError, match="annotated as 20 x 12 pixels, found 12 x 20"):
        read_voc(voc, "train").image(0)


class Masks:
    """Disjoint strips: object i is seen in column i; the last object has no mask."""

    def __init__(self, size: tuple[int, int], count: int) -> None:
        self.size, self.count = size, count

    def __call__(self, i: int) -> Any:
        if i == self.count - 1:
            return None
        mask = np.zeros(self.size, dtype=bool)
        mask[:, i] = True
        return mask


@st.composite
def truths(draw: Callable[..., Any], name: str = "a") -> GroundTruth:
    height, width = draw(st.integers(6, 12)), draw(st.integers(6, 12))
    count = draw(st.integers(0, 5))
    sides = st.floats(0, 5), st.floats(0, 5), st.floats(5.5, 6), st.floats(5.5, 6)
    flags = st.lists(st.booleans(), min_size=count, max_size=count)
    seed = draw(st.integers(0, 99))
    return GroundTruth.make(
        name,
        np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8),
        (height, width),
        [draw(st.sampled_from(["car", "dog & cat", "pferd <ü>"])) for _ in range(count)],
        [draw(st.tuples(*sides)) for _ in range(count)],
        full=[draw(st.tuples(*sides)) for _ in range(count)],
        visible_fraction=[draw(st.floats(0, 1) | st.just(np.nan)) for _ in range(count)],
        read_mask=Masks((height, width), count),
        **{flag: draw(flags) for flag in ("difficult", "truncated", "occluded", "crowd")},
    )


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(truths("a"), truths("b"))
def test_a_written_folder_reads_back_equal(
    tmp_path_factory: pytest.TempPathFactory, first: GroundTruth, second: GroundTruth
) -> None:
    root = tmp_path_factory.mktemp("voc")
    labels = tuple(sorted({*first.label.tolist(), *second.label.tolist()}))
    written = Dataset("drawn", labels, (first, second))
    write_voc(written, root, "train")
    found = read_voc(root, "train")
    assert found.classes == labels
    assert found.problems == ()
    for i in range(2):
        np.testing.assert_array_equal(found.image(i), written.image(i))
        for name in (f.name for f in fields(GroundTruth) if f.name not in ("source", "read_mask")):
            expected, value = getattr(written[i], name), getattr(found[i], name)
            if name in ("box", "full"):  # x + 1 - 1 may round in its last digits
                np.testing.assert_allclose(value, expected, rtol=0, atol=1e-14)
            else:
                np.testing.assert_array_equal(value, expected)
        for k in range(len(written[i])):
            np.testing.assert_array_equal(found[i].mask(k), written[i].mask(k))
    assert not list(root.rglob("*.part"))


def test_lists_of_classes(tmp_path: Path) -> None:
    pixels = np.zeros((9, 9, 3), np.uint8)
    box = [0, 0, 5, 5]
    parts = (
        GroundTruth.make("a", pixels, (9, 9), ["car"], [box]),
        GroundTruth.make("b", pixels, (9, 9), ["car"], [box], difficult=[True]),
        GroundTruth.make("c", pixels, (9, 9), [], []),
    )
    write_voc(Dataset("drawn", ("car",), parts), tmp_path / "new", "val", images="jpg")
    lists = tmp_path / "new" / "ImageSets" / "Main"
    assert (lists / "val.txt").read_text() == "a\nb\nc\n"
    assert (lists / "car_val.txt").read_text() == "a  1\nb  0\nc -1\n"
    assert sorted(os.listdir(tmp_path / "new" / "JPEGImages")) == ["a.jpg", "b.jpg", "c.jpg"]
    assert os.listdir(tmp_path / "new" / "SegmentationObject") == []


@pytest.mark.parametrize(
    ("image", "label", "split"), [("../a", "car", "t"), ("a", "c/r", "t"), ("a", "car", "../t")]
)
def test_nothing_is_written_outside_the_folder(
    tmp_path: Path, image: str, label: str, split: str
) -> None:
    truth = GroundTruth.make(image, np.zeros((9, 9, 3), np.uint8), (9, 9), [label], [[0, 0, 5, 5]])
    with pytest.raises(AnnotationError, match="cannot be part of a file name"):
        write_voc(Dataset("drawn", (label,), (truth,)), tmp_path / "new", split)
    assert os.listdir(tmp_path) == []


def test_writing_where_a_file_stands_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "new").touch()
    truth = GroundTruth.make("a", np.zeros((9, 9, 3), np.uint8), (9, 9), [], [])
    with pytest.raises(AnnotationError, match="new"):
        write_voc(Dataset("drawn", (), (truth,)), tmp_path / "new", "train")


def test_writing_again_leaves_nothing_stale(tmp_path: Path) -> None:
    pixels = np.zeros((9, 9, 3), np.uint8)
    seen = GroundTruth.make(
        "a", pixels, (9, 9), ["car", "car"], [[0, 0, 5, 5]] * 2, read_mask=Masks((9, 9), 2)
    )
    plain = GroundTruth.make("a", pixels, (9, 9), ["car"], [[0, 0, 5, 5]])
    write_voc(Dataset("drawn", ("car",), (seen,)), tmp_path, "train")
    assert read_voc(tmp_path, "train")[0].mask(0) is not None
    write_voc(Dataset("drawn", ("car",), (plain,)), tmp_path, "train")
    assert read_voc(tmp_path, "train")[0].mask(0) is None
    with pytest.raises(AnnotationError, match=r"a\.png: stands beside"):
        write_voc(Dataset("drawn", ("car",), (plain,)), tmp_path, "train", images="jpg")


def test_palette_begins_with_the_devkits_colours() -> None:
    first = [[0, 0, 0], [128, 0, 0], [0, 128, 0], [128, 128, 0], [0, 0, 128]]
    palette = voc_palette()
    assert palette[:5].tolist() == first
    assert palette[8].tolist() == [64, 0, 0]
    assert palette[255].tolist() == [224, 224, 192]


def test_datasets_select_pickle_and_suggest(voc: Path) -> None:
    add(voc, "b", annotation(thing("<name>dog</name>"), thing()))
    dataset = read_voc(voc, "train")
    assert [truth.image for truth in dataset[1:]] == ["b"]
    assert [truth.image for truth in dataset[np.array([True, False])]] == ["good"]
    assert dataset[np.int64(-1)].image == "b"
    dogs = dataset.of_class("dog")
    assert [len(truth) for truth in dogs] == [0, 1]
    assert dogs.classes == ("dog",)
    with pytest.raises(SettingsError, match="no class 'carr'; did you mean 'car'"):
        dataset.check_class("carr")
    with pytest.raises(SettingsError, match="known: car, dog"):
        dataset.of_class("zebra")
    assert len(pickle.loads(pickle.dumps(dataset))) == 2


def test_the_split_is_train_unless_named(tmp_path: Path) -> None:
    write_image(tmp_path / "a.png", np.zeros((6, 8, 3), np.uint8))
    truth = GroundTruth.make("a", str(tmp_path / "a.png"), (6, 8), ["cup"], [[1, 1, 4, 4]])
    write_voc(Dataset("cups", ("cup",), (truth,)), tmp_path / "voc", "train")
    assert [t.image for t in read_voc(tmp_path / "voc")] == ["a"]
    assert [t.image for t in read_voc(tmp_path / "voc", split="train")] == ["a"]


def test_masks_are_written_one_at_a_time(tmp_path: Path) -> None:
    pixels = np.zeros((1000, 1000, 3), np.uint8)
    truth = GroundTruth.make(
        "a", pixels, (1000, 1000), ["x"] * 100, [[0, 0, 9, 9]] * 100,
        read_mask=lambda k: np.ones((1000, 1000), bool),
    )  # fmt: skip
    tracemalloc.start()
    try:
        write_voc(Dataset("one", ("x",), (truth,)), tmp_path, "train")
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()
