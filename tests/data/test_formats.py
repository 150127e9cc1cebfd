"""Every annotation format: golden files by hand, exact round trips, and bad files named."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.io import savemat

from halfseen.data import rle
from halfseen.data.convert import compare, convert, rename_classes
from halfseen.data.dataset import Dataset
from halfseen.data.formats import FORMATS, guess_format, read_dataset, write_dataset
from halfseen.data.gather import Gathered
from halfseen.data.image import write_image
from halfseen.data.limits import LIMITS, Limits
from halfseen.data.objects import NAN, Object, objects_of
from halfseen.errors import AnnotationError, SettingsError
from halfseen.ground_truth import COLUMNS, MEASURES, GroundTruth
from tests.fuzz.multiply import many_cells

SIZE = (80, 120)


def one_image(*objects: Object, name: str = "000001", size: tuple[int, int] = SIZE) -> Dataset:
    found = Gathered(LIMITS)
    found.add(name, f"{name}.png", size, objects)
    return found.dataset("drawn")


def only(dataset: Dataset) -> list[Object]:
    assert dataset.problems == ()
    (truth,) = dataset
    return objects_of(truth)


def same(found: Object, **expected: Any) -> None:
    for name in COLUMNS:
        value = getattr(found, name)
        wanted = expected.get(name, MEASURES[name][1] if name in MEASURES else False)
        if name in ("label", "box", "full") and name not in expected:
            continue
        assert value == pytest.approx(wanted, nan_ok=True), name


# Golden files: one line of each format written by hand, with what it says.


def test_crowdhuman_golden(tmp_path: Path) -> None:
    file = tmp_path / "val.odgt"
    boxes = [
        {"fbox": [10, 20, 40, 80], "vbox": [10, 20, 40, 20], "hbox": [1, 2, 3, 4], "tag": "person",
         "extra": {"box_id": 7, "occ": 1}, "head_attr": {}},
        {"fbox": [-5, 0, 10, 10], "vbox": [0, 0, 5, 10], "tag": "person", "extra": {"ignore": 1}},
        {"fbox": [50, 50, 9, 9], "tag": "mask", "extra": {"ignore": 1}},
    ]  # fmt: skip
    file.write_text("\ufeff" + json.dumps({"ID": "273,c9", "gtboxes": boxes}) + "\n\n")
    first, second, third = only(read_dataset(file))
    same(first, label="person", full=(10, 20, 50, 100), box=(10, 20, 50, 40), occluded=True,
         identity=7, visible_fraction=0.25)  # fmt: skip
    same(second, full=(-5, 0, 5, 10), box=(0, 0, 5, 10), ignore=True, visible_fraction=0.5)
    same(third, label="person", box=(50, 50, 59, 59), ignore=True, crowd=True)


def test_kitti_golden(tmp_path: Path) -> None:
    (tmp_path / "000007.txt").write_text(
        "Car 0.25 2 -1.57 10.5 20 30 40.25 1.5 1.6 3.7 1.0 1.5 8.4 0.0\n"
        "Van 0.00 3 -1.57 10 20 30 40 1.5 1.6 3.7 1.0 1.5 8.4 0.0\n"
        "DontCare -1 -1 -10 1 2 3 4 -1 -1 -1 -1000 -1000 -1000 -10\n"
    )
    dataset = read_dataset(tmp_path)
    car, van, region = only(dataset)
    same(car, label="Car", box=(10.5, 20, 30, 40.25), truncation=0.25, truncated=True, level=2,
         occluded=True)  # fmt: skip
    same(van, label="Van", truncation=0.0)
    same(region, label="DontCare", ignore=True)
    assert dataset.neighbours["Car"] == ("Van", "DontCare")
    assert dataset[0].size == (0, 0)


def test_caltech_golden(tmp_path: Path) -> None:
    (tmp_path / "set00_V000_I00029.txt").write_text(
        "% bbGt version=3\n"
        "person 10 20 20 40 0 0 0 0 0 0 0\n"
        "person 10 20 20 40 1 10 20 20 10 0 0\n"
        "person 10 20 20 40 1 10 20 20 40 0 0\n"
        "people 10 20 20 40 1 0 0 0 0 1 0\n"
    )
    free, part, barely, group = only(read_dataset(tmp_path))
    same(free, label="person", box=(10, 20, 30, 60), visible_fraction=1.0)
    same(part, full=(10, 20, 30, 60), box=(10, 20, 30, 30), occluded=True, visible_fraction=0.25)
    same(barely, box=(10, 20, 30, 60), occluded=True, visible_fraction=0.0)
    same(group, label="people", occluded=True, ignore=True)


def test_kaist_golden(tmp_path: Path) -> None:
    """Its `occluded` has three values; where no visible box is given, no fraction is known."""
    (tmp_path / "set06_V000_I00019.txt").write_text(
        "% bbGt version=3\n"
        "person 10 20 20 40 0 0 0 0 0 0 0\n"
        "person 10 20 20 40 1 10 20 20 30 0 0\n"
        "cyclist 10 20 20 40 2 0 0 0 0 1 0\n"
    )
    free, partly, heavily = only(read_dataset(tmp_path, "kaist"))
    same(free, label="person", visible_fraction=1.0, level=0)
    same(partly, label="person", full=(10, 20, 30, 60), box=(10, 20, 30, 50), occluded=True,
         visible_fraction=0.75, level=1)  # fmt: skip
    same(heavily, label="cyclist", occluded=True, ignore=True, level=2)
    assert guess_format(tmp_path).name == "caltech"  # nothing tells them apart


def test_bbgt_in_the_folders_of_videos(tmp_path: Path) -> None:
    """As KAIST unpacks."""
    for place in ("labels/set06/V000", "images/set06/V000/visible"):
        (tmp_path / place).mkdir(parents=True)
    text = "% bbGt version=3\nperson 1 2 3 4 0 0 0 0 0 0 0\n"
    (tmp_path / "labels" / "set06" / "V000" / "I00019.txt").write_text(text)
    picture = tmp_path / "images" / "set06" / "V000" / "visible" / "I00019.jpg"
    write_image(picture, np.zeros((8, 9, 3), np.uint8))
    assert guess_format(tmp_path / "labels").name == "caltech"
    dataset = read_dataset(tmp_path / "labels", "kaist", images=tmp_path / "images")
    assert (dataset[0].image, dataset[0].source) == ("set06_V000_I00019", str(picture))
    assert dataset[0].size == (8, 9)
    assert read_dataset(tmp_path / "labels")[0].size == (0, 0)


def test_mot_golden(tmp_path: Path) -> None:
    folder = tmp_path / "MOT17-02"
    (folder / "gt").mkdir(parents=True)
    (folder / "seqinfo.ini").write_text(
        "[Sequence]\nname=MOT17-02\nimDir=img1\nseqLength=3\nimWidth=120\nimHeight=80\n"
    )
    (folder / "gt" / "gt.txt").write_text("2,5,1,11,20,100,1,1,0.5\n2,6,31,1,10,10,0,9,1\n")
    for place in (tmp_path, folder):
        dataset = read_dataset(place)
        assert [len(truth) for truth in dataset] == [0, 2, 0]
        assert dataset[1].image == "000002"
        person, thing = objects_of(dataset[1])
        same(person, label="pedestrian", full=(0, 10, 20, 110), box=(0, 10, 20, 80), identity=5,
             visible_fraction=0.5)  # fmt: skip
        same(thing, label="occluder", identity=6, ignore=True, visible_fraction=1.0)
        assert dataset[1].size == (80, 120)


def test_several_mot_sequences_have_images_of_their_own(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "gt").mkdir(parents=True)
        (tmp_path / name / "gt" / "gt.txt").write_text("1,1,1,1,5,5,1,1,1\n")
    assert [truth.image for truth in read_dataset(tmp_path)] == ["a-000001", "b-000001"]


def test_citypersons_golden(tmp_path: Path) -> None:
    (tmp_path / "aachen_000000_000019_gtBboxCityPersons.json").write_text(
        '{"imgHeight": 1024, "imgWidth": 2048, "objects": ['
        '{"instanceId": 24000, "bbox": [10, 20, 41, 100], "bboxVis": [10, 20, 41, 50], '
        '"label": "pedestrian"}, {"instanceId": 0, "bbox": [1, 2, 3, 4], "bboxVis": [1, 2, 3, 4],'
        '"label": "ignore"}]}'
    )
    dataset = read_dataset(tmp_path)
    assert (dataset[0].image, dataset[0].size) == ("aachen_000000_000019", (1024, 2048))
    walker, region = only(dataset)
    same(walker, label="pedestrian", full=(10, 20, 51, 120), box=(10, 20, 51, 70), identity=24000,
         visible_fraction=0.5)  # fmt: skip
    same(region, label="ignore", ignore=True, identity=0, visible_fraction=1.0)


def test_citypersons_in_folders_of_cities(tmp_path: Path) -> None:
    """As Cityscapes' archives unpack: labels and images, each in the folder of its city."""
    name = "ulm_000001_000019"
    for place in ("labels", "images"):
        (tmp_path / place / "ulm").mkdir(parents=True)
    (tmp_path / "labels" / "ulm" / f"{name}_gtBboxCityPersons.json").write_text(
        '{"imgHeight": 8, "imgWidth": 9, "objects": [{"instanceId": 24000, "label": "pedestrian", '
        '"bbox": [1, 2, 3, 4], "bboxVis": [1, 2, 3, 4]}]}'
    )
    picture = tmp_path / "images" / "ulm" / f"{name}_leftImg8bit.png"
    write_image(picture, np.zeros((8, 9, 3), np.uint8))
    dataset = read_dataset(tmp_path / "labels", images=tmp_path / "images")
    assert (dataset[0].image, dataset[0].source) == (name, str(picture))
    write_dataset(dataset, tmp_path / "anno.mat", "citypersons")
    again = read_dataset(tmp_path / "anno.mat", images=tmp_path / "images")
    assert (again[0].source, again[0].size) == (str(picture), (8, 9))


def test_citypersons_mat_golden(tmp_path: Path) -> None:
    cells = np.empty((1, 2), dtype=object)
    rows = np.array([[1, 10, 20, 41, 100, 24000, 10, 20, 41, 50], [5, 1, 2, 3, 4, 9, 1, 2, 3, 4.0]])
    for n, bbs in enumerate((rows, np.zeros((0, 10)))):
        cells[0, n] = {"cityname": "ulm", "im_name": f"ulm_{n}_leftImg8bit.png", "bbs": bbs}
    for compressed in (False, True):
        file = tmp_path / "anno.mat"
        savemat(file, {"anno_val_aligned": cells}, do_compression=compressed)
        dataset = read_dataset(file)
        assert [truth.image for truth in dataset] == ["ulm_0", "ulm_1"]
        walker, group = objects_of(dataset[0])
        same(walker, label="pedestrian", full=(10, 20, 51, 120), identity=24000,
             visible_fraction=0.5)  # fmt: skip
        same(group, label="person group", identity=9, visible_fraction=1.0)
        assert "person group" in dataset.neighbours["pedestrian"]


def test_visdrone_golden(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("10,20,30,40,1,4,1,2\n1,2,3,4,0,0,0,0,\n")
    car, region = only(read_dataset(tmp_path))
    same(car, label="car", box=(10, 20, 40, 60), truncated=True, occluded=True, level=2)
    same(region, label="ignored region", ignore=True, level=0)


def test_bdd_golden(tmp_path: Path) -> None:
    file = tmp_path / "val.json"
    file.write_text(json.dumps([{"name": "b1.jpg", "attributes": {}, "labels": [
        {"id": 1, "category": "car", "attributes": {"occluded": True, "truncated": False},
         "box2d": {"x1": 10, "y1": 20, "x2": 29, "y2": 39.5}},
        {"id": 2, "category": "lane", "poly2d": []}]}]))  # fmt: skip
    (car,) = only(read_dataset(file))
    same(car, label="car", box=(10, 20, 30, 40.5), occluded=True)


def coco_file(path: Path, *annotations: dict[str, Any], **image: Any) -> Path:
    content = {
        "images": [{"id": 1, "file_name": "a.jpg", "width": 120, "height": 80, **image}],
        "categories": [{"id": 3, "name": "car"}],
        "annotations": [
            {"id": n, "image_id": 1, "category_id": 3, **row} for n, row in enumerate(annotations)
        ],
    }
    path.write_text(json.dumps(content))
    return path


def test_coco_with_what_is_visible_golden(tmp_path: Path) -> None:
    cvat = {"bbox": [10, 20, 20, 30], "area": 500, "iscrowd": 0,
            "attributes": {"occluded": True, "truncated": "false", "colour": "red"}}  # fmt: skip
    citypersons = {"bbox": [-4, 20, 20, 40], "vis_bbox": [0, 20, 16, 20], "vis_ratio": 0.4,
                   "ignore": 1, "height": 40, "iscrowd": 0}  # fmt: skip
    kins = {"a_bbox": [10, 20, 20, 30], "i_bbox": [10, 20, 10, 30], "bbox": [10, 20, 20, 30]}
    kins_other = {"bbox": [10, 20, 20, 30], "inmodal_bbox": [10, 20, 5, 30], "occluded": 1}
    tracker = {"bbox": [-4, 20, 20, 40], "bbox_vis": [0, 20, 8, 20], "track_id": -1}
    rows: list[dict[str, Any]] = [cvat, citypersons, kins, kins_other, tracker]
    found = only(read_dataset(coco_file(tmp_path / "val.json", *rows)))
    same(found[0], label="car", box=(10, 20, 30, 50), occluded=True, area=500)
    same(found[1], full=(-4, 20, 16, 60), box=(0, 20, 16, 40), ignore=True, visible_fraction=0.4)
    same(found[2], full=(10, 20, 30, 50), box=(10, 20, 20, 50))
    same(found[3], full=(10, 20, 30, 50), box=(10, 20, 15, 50), occluded=True)
    same(found[4], full=(-4, 20, 16, 60), box=(0, 20, 8, 40))


def test_a_track_of_cvat_golden(tmp_path: Path) -> None:
    track = {
        "bbox": [10, 20, 20, 30],
        "area": 600.0,
        "iscrowd": 0,
        "segmentation": [],
        "attributes": {"occluded": True, "rotation": 0.0, "track_id": 0, "keyframe": True},
    }
    (found,) = only(read_dataset(coco_file(tmp_path / "instances_default.json", track)))
    same(found, label="car", box=(10, 20, 30, 50), occluded=True, area=600, identity=0)


def test_label_studio_golden(tmp_path: Path) -> None:
    """Its export counts from 0, and its percents become pixels with a rest."""
    file = tmp_path / "result.json"
    row = {"id": 0, "image_id": 0, "category_id": 0, "segmentation": [], "ignore": 0, "iscrowd": 0,
           "bbox": [59.99999999999999, 20.0, 60.00000000000002, 30.0], "area": 1800.0}  # fmt: skip
    image = {"width": 120, "height": 80, "id": 0, "file_name": "images/0b5f-a.jpg"}
    about = {"year": 2024, "version": "1.0", "contributor": "Label Studio", "url": ""}
    content = {"images": [image], "categories": [{"id": 0, "name": "car"}], "annotations": [row],
               "info": about}  # fmt: skip
    file.write_text(json.dumps(content, indent=2))
    dataset = read_dataset(file)
    (found,) = only(dataset)
    same(found, label="car", area=1800)
    assert found.box == pytest.approx((60, 20, 120, 50))
    assert found.box[2] <= 120
    assert dataset[0].source == str(tmp_path / "images" / "0b5f-a.jpg")


def test_cocoa_golden(tmp_path: Path) -> None:
    file = tmp_path / "amodal.json"
    hidden = {"size": [80, 120], "counts": [80 * 10 + 20, 5, 80 * 110 - 25]}  # column 10, 20 to 25
    outline = [10, 20, 30, 20, 30, 50, 10, 50]
    regions = [
        {"name": "dog", "segmentation": outline, "occlude_rate": 0.75, "visible_mask": hidden},
        {"name": "wall", "segmentation": outline, "isStuff": 1},
        {"name": "cat", "segmentation": outline, "occlude_rate": 0, "isStuff": 0},
    ]
    image = {"id": 4, "file_name": "a.jpg", "width": 120, "height": 80}
    content = {"images": [image], "annotations": [{"image_id": 4, "regions": regions}]}
    file.write_text(json.dumps(content))
    dataset = read_dataset(file)
    dog, cat = only(dataset)
    same(dog, label="dog", full=(10, 20, 30, 50), box=(10, 20, 11, 25), occluded=True,
         visible_fraction=0.25)  # fmt: skip
    same(cat, label="cat", box=(10, 20, 30, 50), visible_fraction=1.0)
    mask = dataset[0].mask(0)
    assert mask is not None
    assert mask.sum() == 5


# Round trips: what a format can hold comes back exactly.

quarters = st.integers(0, 160).map(lambda n: n / 4)
fractions = st.integers(0, 64).map(lambda n: n / 64)
maybe = fractions | st.just(NAN)


@st.composite
def boxes(draw: Callable[..., Any]) -> tuple[float, float, float, float]:
    x, y = draw(quarters), draw(quarters)
    return x, y, x + draw(quarters) + 0.25, y + draw(quarters) + 0.25


@st.composite
def any_objects(draw: Callable[..., Any]) -> Object:
    box = draw(boxes())
    return Object(
        draw(st.sampled_from(["car", "pedestrian"])), box,
        draw(st.just(box) | boxes().map(lambda b: (b[0] - 3, b[1] - 3, b[2] + 9, b[3] + 9))),
        difficult=draw(st.booleans()), truncated=draw(st.booleans()), occluded=draw(st.booleans()),
        crowd=draw(st.booleans()), ignore=draw(st.booleans()),
        visible_fraction=draw(maybe), truncation=draw(maybe),
        area=draw(st.integers(1, 99).map(float)),
        level=draw(st.integers(-1, 2)), identity=draw(st.integers(-1, 9)),
    )  # fmt: skip


def held_by(kind: str, one: Object) -> Object:
    """The object with what a format cannot hold taken away, in the way its reader gives it."""
    bare = Object(one.label, one.box)
    if kind in ("voc", "coco"):
        return one
    if kind == "cocoa":
        rate = 1 - one.visible_fraction
        whole = replace(bare, full=one.full, visible_fraction=1 - rate, occluded=rate > 0)
        x1, y1, x2, y2 = one.box  # what is visible is pixels
        pixels = (math.floor(x1), math.floor(y1), math.ceil(x2), math.ceil(y2))
        return whole if one.box == one.full else replace(whole, box=pixels)
    if kind == "kitti":
        known = not np.isnan(one.truncation)
        return replace(bare, truncation=one.truncation if known else 0.0, level=one.level,
                       truncated=known and one.truncation > 0, occluded=one.level > 0)  # fmt: skip
    if kind == "crowdhuman":
        crowd = replace(bare, full=one.full, occluded=one.occluded, identity=one.identity,
                        ignore=one.ignore, crowd=one.crowd and one.ignore)  # fmt: skip
        crowd.label = "person" if crowd.crowd else one.label
        return replace(crowd, visible_fraction=crowd.area_ratio)
    if kind == "citypersons":
        walker = replace(bare, label="pedestrian", full=one.full, identity=one.identity)
        return replace(walker, visible_fraction=walker.area_ratio)
    if kind in ("caltech", "kaist"):
        hidden = replace(bare, full=one.full, ignore=one.ignore, occluded=one.box != one.full)
        fraction = hidden.area_ratio if hidden.occluded else 1.0
        level = int(hidden.occluded) if kind == "kaist" else -1
        return replace(hidden, visible_fraction=fraction, level=level)
    if kind == "mot":
        return replace(bare, label="pedestrian", ignore=one.ignore, identity=one.identity,
                       visible_fraction=one.visible_fraction)  # fmt: skip
    if kind == "bdd":
        return replace(bare, occluded=one.occluded, truncated=one.truncated, crowd=one.crowd)
    assert kind == "visdrone"
    level = max(one.level, 0)
    return replace(bare, ignore=one.ignore, truncated=one.truncated, level=level,
                   occluded=level > 0)  # fmt: skip


TARGETS = {
    "coco": "a.json", "cocoa": "a.json", "crowdhuman": "a.odgt", "mot": "gt.txt", "bdd": "a.json",
}  # fmt: skip


@pytest.mark.parametrize("kind", [*FORMATS, "citypersons.mat"])
@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(drawn=st.lists(any_objects(), max_size=6))
def test_what_a_format_holds_comes_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, kind: str, drawn: list[Object]
) -> None:
    folder = tmp_path_factory.mktemp("formats")
    name, _, suffix = kind.partition(".")
    objects = [held_by(name, one) for one in drawn]
    dataset = one_image(*objects, size=(200, 300))
    if name == "voc":
        pixels = np.zeros((200, 300, 3), np.uint8)
        dataset = replace(dataset, truths=(replace(dataset[0], source=pixels),))
    target = folder / TARGETS.get(name, f"out.{suffix}" if suffix else "out")
    if name == "mot" and not objects:
        with pytest.raises(AnnotationError, match="a list of objects, and there is none"):
            write_dataset(dataset, target, name)
        return
    write_dataset(dataset, target, name)
    again = read_dataset(target, name)
    for column in COLUMNS:
        before, after = getattr(dataset[0], column), getattr(again[0], column)
        if column == "area" and name == "coco":
            before = np.where(np.isnan(before), after, before)
        np.testing.assert_array_equal(after, before, err_msg=column)
    done = compare(dataset, again)
    assert (done.lost, done.assumed, done.masks, done.names, done.left_out) == ({}, {}, 0, 0, 0)


@pytest.mark.parametrize("kind", ["coco", "crowdhuman", "mot"])
@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(x=st.floats(0, 100), width=st.floats(0.01, 100))
def test_boxes_of_any_digits_come_back_to_a_billionth_of_a_pixel(
    tmp_path_factory: pytest.TempPathFactory, kind: str, x: float, width: float
) -> None:
    target = tmp_path_factory.mktemp("digits") / TARGETS[kind]
    box = (x, 1 / 3, x + width, 70.0)
    write_dataset(one_image(Object("pedestrian", box), size=(200, 300)), target, kind)
    np.testing.assert_allclose(read_dataset(target, kind)[0].full, [box], rtol=0, atol=1e-9)


# What conversion loses is said in one line.


def test_conversion_says_what_was_lost(tmp_path: Path) -> None:
    box, full = (10.0, 20.0, 30.0, 40.0), (10.0, 20.0, 50.0, 40.0)
    dataset = one_image(
        Object("car", box, full, occluded=True, visible_fraction=0.5, identity=3),
        Object("car", box, truncated=True),
    )
    assert str(convert(dataset, tmp_path / "a.json", "coco")) == (
        "nothing was lost; assumed: area of 2 objects"
    )
    assert str(convert(dataset, tmp_path / "labels", "kitti")) == (
        "lost: whole box of 1 object, visible fraction of 1 object, identity of 1 object, size of "
        "1 image; assumed: truncation of 2 objects, level of occlusion of 1 object"
    )
    assert "lost: visible box of 1 object" in str(
        convert(rename_classes(dataset, {"car": "pedestrian"}), tmp_path / "gt.txt", "mot")
    )


def test_boxes_that_leave_the_image_go_over(tmp_path: Path) -> None:
    """As MOT's and Caltech's do; what the other format cannot hold, it says."""
    gt, picture = tmp_path / "gt.txt", tmp_path / "000001.png"
    gt.write_text("1,5,-9,11,20,100,1,1,0.5\n1,6,200,1,10,10,1,1,0\n")
    write_image(picture, np.zeros((80, 120, 3), np.uint8))
    dataset = read_dataset(gt, images=tmp_path)
    leaving, outside = only(dataset)
    same(leaving, full=(-10, 10, 10, 110), box=(0, 10, 10, 80), identity=5, visible_fraction=0.5)
    same(outside, box=(199, 0, 209, 10), identity=6, visible_fraction=0.0)
    done = convert(dataset, tmp_path / "a.json", "coco")
    assert str(done) == "nothing was lost; assumed: area of 2 objects"
    with pytest.raises(AnnotationError, match="000001: object 2 is outside the image"):
        convert(dataset, tmp_path / "voc", "voc")
    kept = replace(dataset, truths=(dataset[0][:1],))
    assert str(convert(kept, tmp_path / "other", "voc")) == "nothing was lost"
    whole = one_image(Object("car", (-9, 2, 5, 6)))
    whole = replace(whole, truths=(replace(whole[0], source=np.zeros((80, 120, 3), np.uint8)),))
    for kind, lost in (("coco", "nothing was lost; assumed: area of 1 object"),
                       ("voc", "lost: visible box of 1 object")):  # fmt: skip
        assert str(convert(whole, tmp_path / f"whole.{kind}", kind)) == lost


def test_names_and_empty_images_that_are_lost_are_counted(tmp_path: Path) -> None:
    walker = Object("pedestrian", (1, 2, 5, 6), identity=1, visible_fraction=1.0)
    found = Gathered(LIMITS)
    for name, objects in (("a", [walker]), ("b", []), ("c", [walker]), ("d", [])):
        found.add(name, f"{name}.png", SIZE, objects)
    dataset = found.dataset("drawn")
    assert str(convert(dataset, tmp_path / "gt.txt", "mot")) == (
        "lost: size of 2 images, name of 2 images, 1 image without objects"
    )
    assert str(convert(dataset, tmp_path / "labels", "kitti")).startswith(
        "lost: visible fraction of 2 objects, identity of 2 objects, size of 4 images; assumed: "
    )


def test_masks_that_are_lost_are_counted(tmp_path: Path) -> None:
    """Lost are those that are not there, and those that are others; others may be made up."""
    truth = one_image(Object("car", (1, 2, 5, 6)), Object("car", (2, 2, 6, 6)))[0]
    masks = np.zeros((2, *SIZE), bool)
    masks[0, 2:6, 1:5] = masks[1, 2:6, 2:6] = True
    pixels = np.zeros((*SIZE, 3), np.uint8)
    seen = replace(truth, read_mask=lambda i: masks[i], source=pixels)
    dataset = Dataset("drawn", ("car",), (seen,))
    assert convert(dataset, tmp_path / "labels", "kitti").masks == 2
    for kind in ("coco", "cocoa"):
        assert convert(dataset, tmp_path / f"{kind}.json", kind).masks == 0
    # Two objects cannot have one pixel there.
    assert convert(dataset, tmp_path / "voc", "voc").masks == 1
    box, full = (1.0, 2.0, 5.0, 6.0), (1.0, 2.0, 9.0, 9.0)
    hidden = one_image(Object("car", box, full, occluded=True, visible_fraction=0.5))
    assert str(convert(hidden, tmp_path / "a.json", "cocoa")) == (
        "nothing was lost; assumed: mask of 1 object"
    )


def test_classes_that_a_format_does_not_have(tmp_path: Path) -> None:
    dataset = one_image(Object("cat", (1, 2, 3, 4)))
    for kind in ("mot", "visdrone"):
        with pytest.raises(AnnotationError, match="has no class 'cat'; did you mean 'car'"):
            write_dataset(dataset, tmp_path / kind, kind)
        # A class that no object has does not matter.
        others = one_image(Object("car", (1, 2, 3, 4)))
        write_dataset(replace(others, classes=("car", "cat")), tmp_path / kind, kind)
    with pytest.raises(SettingsError, match="no class 'dog'"):
        rename_classes(dataset, {"dog": "cat"})


@pytest.mark.parametrize("kind", FORMATS)
def test_boxes_that_are_not_finite_are_not_written(kind: str, tmp_path: Path) -> None:
    for box, full in (((1, 2, NAN, 4), None), ((1, 2, 3, 4), (1, 2, np.inf, 4))):
        dataset = one_image(Object("pedestrian", box, full))
        name = "box" if full is None else "full"
        with pytest.raises(AnnotationError, match=f"000001: {name} of object 1: not finite"):
            write_dataset(dataset, tmp_path / "out", kind)
    assert list(tmp_path.iterdir()) == []


def test_sizes_come_from_the_images(tmp_path: Path) -> None:
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "7.txt").write_text(f"Car 0 0 -1 1 2 3 4{' 0' * 7}\n")
    write_image(tmp_path / "7.png", np.zeros((8, 9, 3), np.uint8))
    dataset = read_dataset(tmp_path / "labels", images=tmp_path)
    assert dataset[0].size == (8, 9)
    assert dataset.image(0).shape == (8, 9, 3)
    with pytest.raises(AnnotationError, match="its size is not known; give its images"):
        write_dataset(read_dataset(tmp_path / "labels"), tmp_path / "a.json", "coco")
    with pytest.raises(AnnotationError, match=r"7: no such image"):
        read_dataset(tmp_path / "labels", images=tmp_path / "labels")
    with pytest.raises(AnnotationError, match="no such folder"):
        read_dataset(tmp_path / "labels", images=tmp_path / "absent")


# Bad files: one line that names file, line and field.

BAD = [
    ("kitti", "a.txt", "Car 0 0 -1 1 2 3\n", "a.txt, line 1: expected 15 fields"),
    ("kitti", "a.txt", f"Car 0 7 -1 1 2 3 4{' 0' * 7}", "line 1: occluded: expected a whole"),
    ("kitti", "a.txt", f"Car 9 0 -1 1 2 3 4{' 0' * 7}", "line 1: truncated: expected a number"),
    ("kitti", "a.txt", f"\nCar 0 0 -1 1 2 x 4{' 0' * 7}", "line 2: box: expected a number"),
    ("kitti", "a.txt", f"Car 0 0 -1 9 2 3 4{' 0' * 7}", "line 1: box: empty or reversed"),
    ("caltech", "a.txt", "% bbGt version=9\n", "line 1: version: expected"),
    ("caltech", "a.txt", "% bbGt version=3\np 1 2 3 4\n", "line 2: expected 12 fields"),
    ("caltech", "a.txt", "% bbGt version=3\np 1 2 3 4 5 0 0 0 0 0 0\n", "line 2: occluded"),
    ("caltech", "a.txt", "% bbGt version=3\np 1 2 0 4 0 0 0 0 0 0 0\n", "line 2: x y w h: empty"),
    ("kaist", "a.txt", "% bbGt version=3\np 1 2 3 4 3 0 0 0 0 0 0\n", "line 2: occluded: expected"),
    ("kaist", "a.txt", "% bbGt version=3\np 1 2 3 4 1 1 2 x 4 0 0\n", "line 2: xv yv wv hv: expec"),
    ("caltech", "a.txt", "% bbGt version=3\np 1 2 3 4 1 0 0 0 0 2 0\n", "line 2: ignore: expected"),
    ("kitti", "a.txt", f"Car x 0 -1 1 2 3 4{' 0' * 7}", "line 1: truncated: expected a number"),
    ("mot", "gt.txt", "1,1,1,1,0,5,1,1,1\n", "line 1: box: empty or reversed"),
    ("mot", "gt.txt", "1,1,1,1,5,5,2,1,1\n", "line 1: consider: expected 0 or 1"),
    ("visdrone", "a.txt", "1,2,3,4,1,1,2,0\n", "a.txt, line 1: truncation: expected 0 or 1"),
    ("visdrone", "a.txt", "1,2,3,4,1,1,0,3\n", "line 1: occlusion: expected a whole number"),
    ("visdrone", "a.txt", "1,2,0,4,1,1,0,0\n", "line 1: box: empty or reversed"),
    ("crowdhuman", "a.odgt", '{"ID": "a", "gtboxes": [{"tag": "person", "fbox": [1, 2, 3, 4], '
     '"vbox": [1, 2, 3]}]}', r"line 1: gtboxes\[0\]: vbox: expected"),
    ("crowdhuman", "a.odgt", '{"ID": "a", "gtboxes": 3}', "line 1: gtboxes: expected a list"),
    ("bdd", "a.json", '[{"name": "a", "labels": [{"category": "c", "attributes": {"occluded": 2}, '
     '"box2d": {"x1": 1, "y1": 1, "x2": 5, "y2": 5}}]}]',
     r"frame 0: labels\[0\]: attributes.occluded: expected 0 or 1"),
    ("bdd", "a.json", '[{"name": "a", "labels": [{"category": "c", '
     '"box2d": {"x1": 9, "y1": 1, "x2": 5, "y2": 5}}]}]', r"labels\[0\]: box2d: empty or reversed"),
    ("cocoa", "a.json", '{"annotations": [{"image_id": 1, "regions": [{"name": "a", '
     '"segmentation": [1, 1, 5, 1, 5, 5], "occlude_rate": 7}]}]}',
     r"regions\[0\]: occlude_rate: expected a number from 0 to 1"),
    ("cocoa", "a.json", '{"annotations": [{"image_id": 1, "regions": [{"name": "a", '
     '"segmentation": [1, 1, 5, 1, 5, 5], "visible_mask": {"size": [2, 2], "counts": [3]}}]}]}',
     r"regions\[0\]: visible_mask: counts"),
    ("cocoa", "a.json", '{"annotations": [{"regions": []}]}', r"annotations\[0\]: image_id: "),
    ("citypersons", "a.json", '{"imgHeight": 9, "imgWidth": 9, "objects": [{"label": 3}]}',
     r"objects\[0\]: label: expected a text"),
    ("citypersons", "a.json", '{"imgHeight": 0, "imgWidth": 9, "objects": []}',
     "a.json: imgHeight: expected a whole number from 1"),
    ("mot", "gt.txt", "1,2,3\n", "gt.txt, line 1: expected 6 to 10 fields"),
    ("mot", "gt.txt", "0,1,1,1,5,5,1,1,1\n", "line 1: frame: expected a whole number"),
    ("mot", "gt.txt", "999999999,1,1,1,5,5,1,1,1\n", "line 1: frame: expected a whole number"),
    ("mot", "gt.txt", "1,1,1,1,5,5,1,99,1\n", "line 1: class: expected a whole number"),
    ("mot", "gt.txt", "1,1,1,1,5,5,1,1,7\n", "line 1: visibility: expected a number"),
    ("visdrone", "a.txt", "1,2,3,4,1,99,0,0\n", "a.txt, line 1: category: expected a whole"),
    ("visdrone", "a.txt", "1,2,3\n", "line 1: expected 8 fields"),
    ("crowdhuman", "a.odgt", "{\n", "a.odgt, line 1: not valid JSON"),
    ("crowdhuman", "a.odgt", '{"ID": 3}', "line 1: ID: expected a text"),
    ("crowdhuman", "a.odgt", '{"ID": "a", "gtboxes": [{"tag": "person"}]}', r"\[0\]: fbox: expect"),
    ("crowdhuman", "a.odgt", '{"ID": "a", "gtboxes": [{"tag": "p", "fbox": [1, 2, 3, 4], '
     '"extra": {"box_id": "x"}}]}', r"gtboxes\[0\]: extra.box_id: expected"),
    ("bdd", "a.json", '[{"labels": []}]', "a.json: frame 0: name: expected a text"),
    ("bdd", "a.json", '[{"name": "a", "labels": [{"category": "c", "box2d": {"x1": 1}}]}]',
     r"frame 0: labels\[0\]: box2d.y1: expected a number"),
    ("bdd", "a.json", "[3]", "frame 0: name"),
    ("citypersons", "a.json", '{"objects": 3}', "a.json: expected imgHeight"),
    ("citypersons", "a.json", '{"imgHeight": 9, "imgWidth": 9, "objects": [{"label": "p", '
     '"bbox": [1, 2, 3], "bboxVis": [1, 2, 3, 4]}]}', r"a.json: objects\[0\]: bbox"),
    ("citypersons", "a.mat", "MATLAB 5.0 MAT-file" + "x" * 200, "a.mat: expected one variable"),
    ("cocoa", "a.json", '{"annotations": [{"image_id": 1, "regions": [{"name": "a"}]}]}',
     r"annotations\[0\]: regions\[0\]: segmentation: expected"),
    ("coco", "a.json", '{"images": [{"id": 1, "width": 9, "height": 9}], "categories": [{"id": 1, '
     '"name": "a"}], "annotations": [{"id": 5, "image_id": 1, "category_id": 1, '
     '"bbox": [1, 1, 2, 2], "vis_ratio": 7}]}', "annotation 5: vis_ratio: expected a number"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "name", "text", "words"), BAD)
def test_a_bad_file_is_named_with_line_and_field(
    tmp_path: Path, kind: str, name: str, text: str, words: str
) -> None:
    (tmp_path / name).write_text(text)
    place = tmp_path if kind in ("kitti", "caltech", "kaist", "visdrone") else tmp_path / name
    if (kind, name) == ("citypersons", "a.json"):
        place = tmp_path
    with pytest.raises(AnnotationError, match=words) as caught:
        read_dataset(place, kind)
    assert str(tmp_path / name) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [(0, 9, "class: expected a whole number"), (3, -1, "x y w h: empty or reversed"),
     (5, 0.5, "instance: expected a whole number"), (8, np.inf, "visible x y w h: expected")],
)  # fmt: skip
def test_a_bad_row_of_a_mat_file_is_named(
    tmp_path: Path, column: int, value: float, words: str
) -> None:
    cells = np.empty((1, 2), dtype=object)
    for n in range(2):
        bbs = np.array([[1, 10, 20, 41, 100, 24000, 10, 20, 41, 50.0]] * 2)
        bbs[1, column] = value if n else bbs[1, column]
        cells[0, n] = {"cityname": "ulm", "im_name": f"ulm_{n}_leftImg8bit.png", "bbs": bbs}
    savemat(tmp_path / "anno.mat", {"anno": cells})
    dataset = read_dataset(tmp_path / "anno.mat")
    assert [truth.image for truth in dataset] == ["ulm_0"]
    (line,) = dataset.problems
    assert f"anno.mat: image 2: bbs row 2: {words}" in line


def test_one_bad_file_does_not_cost_the_others(tmp_path: Path) -> None:
    good = f"Car 0 0 -1 1 2 3 4{' 0' * 7}\n"
    for name, text in (("a", good), ("b", "nonsense"), ("c", good)):
        (tmp_path / f"{name}.txt").write_text(text)
    dataset = read_dataset(tmp_path, "kitti")
    assert [truth.image for truth in dataset] == ["a", "c"]
    assert "b.txt, line 1" in dataset.problems[0]


def test_text_that_is_no_text_and_byte_order_marks(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf")
    assert len(read_dataset(tmp_path)[0]) == 0
    (tmp_path / "a.txt").write_bytes(b"Car \xff")
    with pytest.raises(AnnotationError, match=r"a\.txt: not UTF-8 text at byte 4"):
        read_dataset(tmp_path, "kitti")
    line = f"Car 0 0 -1 1 2 3 4{' 0' * 7}\r\n"
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf" + line.encode())
    assert read_dataset(tmp_path)[0].label.tolist() == ["Car"]


# Small files that would take much memory.


def test_a_long_class_name_is_refused(tmp_path: Path) -> None:
    row = f"{'x' * 300} 0 0 -1 1 2 3 4{' 0' * 7}\n"
    (tmp_path / "a.txt").write_text(row)
    with pytest.raises(AnnotationError, match="class name of 300 characters exceeds 256"):
        read_dataset(tmp_path, "kitti")
    content = coco_file(tmp_path / "a.json").read_text().replace('"car"', f'"{"x" * 300}"')
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(AnnotationError, match="name: longer than 256 characters"):
        read_dataset(tmp_path / "a.json")


def test_class_names_are_counted_over_all_images(tmp_path: Path) -> None:
    for name in "abc":
        row = f"{'x' * 100} 0 0 -1 1 2 3 4{' 0' * 7}\n"
        (tmp_path / f"{name}.txt").write_text(row * 10)
    dataset = read_dataset(tmp_path, "kitti", limits=Limits(arrays_bytes=9_000))
    assert [truth.image for truth in dataset] == ["a", "b"]
    assert "class names exceed 9,000 bytes in all" in dataset.problems[0]


def test_problems_are_bounded() -> None:
    found = Gathered(Limits(problems=2))
    found.add("a", "", (1, 1), [])
    for n in range(5):
        found.left_out(f"line {n}")
    assert found.dataset("x").problems == ("line 0", "line 1", "x: ... and 3 more")


def test_a_mat_file_that_inflates_beyond_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "a.mat"
    savemat(file, {"x": np.zeros(10**6)}, do_compression=True)
    assert file.stat().st_size < 20_000
    with pytest.raises(AnnotationError, match="exceed the limit of 100,000"):
        read_dataset(file, limits=Limits(results_bytes=100_000))
    file.write_bytes(many_cells(1_000_000))  # which took 0.6 GB and 15 s
    assert file.stat().st_size < 30_000
    with pytest.raises(AnnotationError, match=r"a\.mat: .* exceed the limit of 4,194,304 bytes"):
        read_dataset(file)


def test_a_video_of_too_many_frames(tmp_path: Path) -> None:
    (tmp_path / "gt").mkdir()
    (tmp_path / "gt" / "gt.txt").write_text("1,1,1,1,5,5,1,1,1\n")
    (tmp_path / "seqinfo.ini").write_text("[Sequence]\nseqLength=900000\n")
    with pytest.raises(AnnotationError, match="900000 frames exceed 30000"):
        read_dataset(tmp_path)
    (tmp_path / "seqinfo.ini").write_text("nonsense")
    with pytest.raises(AnnotationError, match=r"seqinfo\.ini: expected a section"):
        read_dataset(tmp_path)


def test_names_cannot_leave_the_folder(tmp_path: Path) -> None:
    dataset = one_image(Object("car", (1, 2, 3, 4)), name="../a")
    for kind in ("kitti", "caltech", "visdrone", "citypersons"):
        with pytest.raises(AnnotationError, match="cannot be a file name"):
            write_dataset(dataset, tmp_path / "out", kind)
    assert list(tmp_path.iterdir()) == []
    file = tmp_path / "a.odgt"
    file.write_text('{"ID": "../../etc/passwd", "gtboxes": []}')
    with pytest.raises(AnnotationError, match="is not a path inside"):
        read_dataset(file, images=tmp_path)


def test_a_long_list_of_images_does_not_hide_the_format(tmp_path: Path) -> None:
    images = [{"id": n, "file_name": "x" * 200, "height": 9, "width": 9} for n in range(1000)]
    for kind, row in (("cocoa", {"regions": []}), ("coco", {"id": 1, "category_id": 1})):
        file = tmp_path / f"{kind}.json"
        file.write_text(json.dumps({"images": images, "annotations": [{"image_id": 1, **row}]}))
        assert guess_format(file).name == kind


def test_formats_that_cannot_be_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no such file or folder"):
        guess_format(tmp_path / "absent")
    (tmp_path / "a.xyz").touch()
    with pytest.raises(SettingsError, match="of no known format"):
        guess_format(tmp_path / "a.xyz")
    with pytest.raises(SettingsError, match="no format 'coca'; did you mean 'coco"):
        read_dataset(tmp_path / "a.xyz", "coca")


# Damaged files: one line or a data set, nothing else.

WHOLE = {
    "kitti": ("a.txt", f"Car 0.25 2 -1.57 10.5 20 30 40.25{' 0' * 7}\n"),
    "caltech": ("a.txt", "% bbGt version=3\nperson 10 20 20 40 1 10 20 20 10 0 0\n"),
    "visdrone": ("a.txt", "10,20,30,40,1,4,1,2\n"),
    "mot": ("gt.txt", "2,5,1,11,20,100,1,1,0.5\n"),
    "crowdhuman": ("a.odgt", '{"ID": "a", "gtboxes": [{"tag": "person", "fbox": [1, 2, 3, 4], '
                   '"vbox": [1, 2, 3, 4], "extra": {"box_id": 1, "ignore": 1}}]}'),
    "bdd": ("a.json", '[{"name": "a", "labels": [{"category": "c", "attributes": {"occluded": 1}, '
            '"box2d": {"x1": 1, "y1": 1, "x2": 5, "y2": 5}}]}]'),
    "cocoa": ("a.json", '{"images": [{"id": 1, "height": 9, "width": 9}], "annotations": '
              '[{"image_id": 1, "regions": [{"name": "a", "segmentation": [1, 1, 5, 1, 5, 5]}]}]}'),
    "coco": ("a.json", '{"images": [{"id": 1, "width": 9, "height": 9}], "categories": [{"id": 1, '
             '"name": "a"}], "annotations": [{"id": 5, "image_id": 1, "category_id": 1, "bbox": '
             '[1, 1, 2, 2], "vis_bbox": [1, 1, 1, 1], "attributes": {"occluded": false}}]}'),
    "citypersons": ("a.json", '{"imgHeight": 9, "imgWidth": 9, "objects": [{"label": "pedestrian", '
                    '"instanceId": 1, "bbox": [1, 2, 3, 4], "bboxVis": [1, 2, 3, 4]}]}'),
}  # fmt: skip
TOKENS = [
    "",
    "-",
    "1e999",
    "NaN",
    "null",
    "[]",
    "{}",
    '"',
    "\x00",
    "9" * 400,
    ",",
    " ",
    "\n",
    "\ufeff",
]


@pytest.mark.parametrize("kind", WHOLE)
@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(place=st.floats(0, 1), length=st.integers(0, 6), token=st.sampled_from(TOKENS))
def test_damaged_files_are_one_line(
    tmp_path_factory: pytest.TempPathFactory, kind: str, place: float, length: int, token: str
) -> None:
    name, text = WHOLE[kind]
    folder = tmp_path_factory.mktemp("damaged")
    start = int(place * len(text))
    (folder / name).write_text(text[:start] + token + text[start + length :])
    one_folder = kind in ("kitti", "caltech", "visdrone", "citypersons")
    truths: tuple[GroundTruth, ...] = ()
    try:
        dataset = read_dataset(folder if one_folder else folder / name, kind)
        truths, lines = dataset.truths, dataset.problems
    except AnnotationError as error:
        lines = (str(error),)
    assert not any("\n" in line for line in lines)
    assert all(np.isfinite(truth.box).all() for truth in truths)


def test_a_parser_that_crashes_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from halfseen.data import citypersons

    monkeypatch.setattr(citypersons, "PARSER", "import os; os.abort()")
    file = tmp_path / "a.mat"
    savemat(file, {"x": np.zeros(3)})
    with pytest.raises(AnnotationError, match=r"a\.mat: expected one variable .* crash the parser"):
        citypersons.read_citypersons(file)


@pytest.fixture
def vast(tmp_path: Path) -> Path:
    """A COCO file with masks, in polygons and run lengths, of a picture of 100 megapixels."""
    size = {"width": 10_000, "height": 10_000}
    outline = [1, 1, 9_000, 1, 9_000, 9_000, 1, 9_000]
    segmentations = [[outline], {"size": [10_000, 10_000], "counts": [5, 99_999_995]}, None]
    rows = [
        {"id": n, "image_id": 1, "category_id": 1, "bbox": [1, 1, 50, 50], "segmentation": one}
        for n, one in enumerate(segmentations)
    ]
    content = {"images": [{"id": 1, **size}], "annotations": rows,
               "categories": [{"id": 1, "name": "pedestrian"}]}  # fmt: skip
    path = tmp_path / "vast.json"
    path.write_text(json.dumps(content))
    return path


def test_conversion_makes_no_mask(
    vast: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of COCO go over as they are, and those that are lost are counted without being made."""
    monkeypatch.setattr(rle, "decode", None)
    monkeypatch.setattr(rle, "fill_polygons", None)
    dataset = read_dataset(vast)
    assert convert(dataset, tmp_path / "again.json", "coco").masks == 0
    rows = [json.loads(file.read_text())["annotations"] for file in (vast, tmp_path / "again.json")]
    assert [row.get("segmentation") for row in rows[0]] == [r.get("segmentation") for r in rows[1]]
    assert convert(dataset, tmp_path / "gt.txt", "mot").masks == 2
    assert dataset[0][[1, 2]].known_masks().tolist() == [True, False]


@pytest.mark.parametrize(
    "wrong",
    [[[1, 1, 2]], {"size": [9, 9], "counts": [81]}, {"size": [10_000, 10_000], "counts": [3]}],
)
def test_a_malformed_mask_is_not_passed_on(wrong: Any, vast: Path, tmp_path: Path) -> None:
    content = json.loads(vast.read_text())
    content["annotations"][0]["segmentation"] = wrong
    vast.write_text(json.dumps(content))
    with pytest.raises(AnnotationError, match="annotation 0: segmentation: "):
        convert(read_dataset(vast), tmp_path / "again.json", "coco")


def test_amodal_masks_are_not_made_for_their_boxes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rle, "decode", None)
    shown = {"size": [10_000, 10_000], "counts": [10_000 * 20 + 30, 500, 99_799_470]}
    region = {"name": "car", "segmentation": [5, 5, 900, 5, 900, 900], "visible_mask": shown}
    path = tmp_path / "cocoa.json"
    path.write_text(json.dumps({
        "images": [{"id": 1, "file_name": "a.jpg", "width": 10_000, "height": 10_000}],
        "annotations": [{"id": 1, "image_id": 1, "regions": [region]}],
    }))  # fmt: skip
    (found,) = only(read_dataset(path, "cocoa"))
    assert found.box == (20, 30, 21, 530)
