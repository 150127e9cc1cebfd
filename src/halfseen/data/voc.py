"""Reading folders laid out like PASCAL VOC.

`Annotations/<id>.xml`, `JPEGImages/<id>.jpg`, `SegmentationObject/<id>.png` (optional) and
`ImageSets/Main/<split>.txt`. Boxes in XML are 1-based and inclusive; only this module and
`voc_writer` know it. Beyond VOC, an `<object>` may hold `<full>`, the box of the whole object with
its hidden parts, which may reach outside the image; the flags `<crowd>` and `<ignore>`; and the
numbers `<visible_fraction>`, `<truncation>`, `<area>`, `<level>` and `<identity>`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError, TreeBuilder

import numpy as np
from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from halfseen.arrays import Bool, Int64, Pixels
from halfseen.data.boxes import Box, check_box, fit_box
from halfseen.data.dataset import Dataset
from halfseen.data.files import FilePath, is_plain_name, read_bounded
from halfseen.data.gather import Gathered, by_stem
from halfseen.data.image import read_indices
from halfseen.data.limits import LIMITS, Limits
from halfseen.data.objects import Object, at, integer, number, read_text
from halfseen.data.voc_writer import SUFFIXES, write_voc
from halfseen.errors import AnnotationError, ImageError, SettingsError, suggest
from halfseen.ground_truth import FLAGS

__all__ = ["find_voc", "read_voc", "write_voc"]


def read_voc(
    root: FilePath,
    split: FilePath = "train",
    classes: Sequence[str] | None = None,
    limits: Limits = LIMITS,
) -> Dataset:
    """The images that `split` lists, with their objects of `classes` (all when None).

    `root` is the VOC folder, or a folder that holds exactly one (VOCdevkit, or its parent). `split`
    names a list in ImageSets/Main, or is the path of a text file of ids.

    An image without a usable annotation is left out and named in `problems`: its other boxes would
    make negatives of the faulty one. A box that exceeds the image by a pixel at most is cut to it.
    AnnotationError when the folder or the split is missing, or no image is left.
    """
    folder = find_voc(root)
    images = by_stem(folder / "JPEGImages", SUFFIXES)
    masks = by_stem(folder / "SegmentationObject", (".png",))
    found = Gathered(limits)
    for name in _read_split(folder, split, limits):
        with found.leaving_out():
            if not is_plain_name(name):
                raise AnnotationError(f"{split}: '{name:.80}' is not an image id")
            if name not in images:
                kinds = ", ".join(SUFFIXES)
                raise AnnotationError(f"{folder / 'JPEGImages' / name}: no image ({kinds})")
            file = folder / "Annotations" / f"{name}.xml"
            size, objects = read_annotation(file, limits)
            mask = InstanceMasks(masks[name], size, limits) if name in masks else None
            with at(split):
                found.add(name, images[name], size, objects, mask)
    with at(f"{folder}: split {split} has no usable image"):
        dataset = found.dataset(f"{folder.name} {Path(split).stem}")
    if classes is None:
        return dataset
    for label in classes:
        if label not in dataset.classes:
            raise SettingsError(
                f"{folder}: no object '{label}' in {split}; {suggest(label, dataset.classes)}"
            )
    kept = tuple(truth[np.isin(truth.label, list(classes))] for truth in dataset)
    return replace(dataset, classes=tuple(classes), truths=kept)


def find_voc(root: FilePath) -> Path:
    """The one VOC folder that `root` is, or holds directly or in its VOCdevkit."""
    top = Path(root)
    if not top.is_dir():
        raise AnnotationError(f"{top}: no such folder; expected a VOC folder with Annotations")
    if (top / "Annotations").is_dir():
        return top
    found = sorted(
        path.parent for path in [*top.glob("*/Annotations"), *top.glob("VOCdevkit/*/Annotations")]
    )
    if not found:
        raise AnnotationError(f"{top}: not a VOC folder: it has no Annotations")
    if len(found) > 1:
        names = ", ".join(str(path.relative_to(top)) for path in found)
        raise AnnotationError(f"{top}: holds several VOC folders ({names}); name one of them")
    return found[0]


@dataclass(frozen=True)
class InstanceMasks:
    """The masks of an image's objects from its SegmentationObject file, read when asked for.

    Index k + 1 marks object k in the order of the XML; 0 is background and 255, the border that
    VOC's annotators left open, belongs to nobody. An object without any pixel was not segmented.
    """

    path: str
    size: tuple[int, int]
    limits: Limits

    def __call__(self, i: int) -> Bool | None:
        mask = self._indices() == i + 1 if i + 1 < 255 else np.zeros(0, bool)
        return mask if mask.any() else None

    def known(self, objects: Int64) -> Bool:
        """Of each object, whether it was segmented."""
        return np.isin(objects + 1, np.setdiff1d(self._indices(), [0, 255]))

    def _indices(self) -> Pixels:
        try:
            indices = read_indices(self.path, self.limits)
        except ImageError as error:
            raise AnnotationError(str(error)) from None
        if indices.shape != self.size:
            raise AnnotationError(
                f"{self.path}: expected {self.size[1]} x {self.size[0]} pixels as the image, "
                f"found {indices.shape[1]} x {indices.shape[0]}"
            )
        return indices


def _read_split(folder: Path, split: FilePath, limits: Limits) -> list[str]:
    """The ids of a list: the first word of each line, since lists of a class add a flag."""
    lists = folder / "ImageSets" / "Main"
    file = lists / f"{split}.txt"
    if not (is_plain_name(str(split)) and file.is_file()):
        file = Path(split)
    if not file.is_file():
        known = sorted(path.stem for path in lists.glob("*.txt"))
        whole = [name for name in known if "_" not in name] or known
        raise AnnotationError(f"{lists}: no split '{split}'; {suggest(str(split), whole)}")
    text = read_text(file, limits.xml_bytes)
    return [line.split()[0] for line in text.splitlines() if line.strip()]


class _BoundedBuilder(TreeBuilder):
    """A tree builder that refuses to nest deeper than the limit."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._depth, self._most = 0, most

    def start(self, tag: Any, attributes: Any, /) -> Element:
        self._depth += 1
        if self._depth > self._most:
            raise AnnotationError(f"elements nested deeper than {self._most}")
        return super().start(tag, attributes)

    def end(self, tag: Any, /) -> Element:
        self._depth -= 1
        return super().end(tag)


def _parse(file: Path, limits: Limits) -> Element:
    content = read_bounded(file, limits.xml_bytes)
    parser = DefusedXMLParser(target=_BoundedBuilder(limits.xml_depth), forbid_dtd=True)
    try:
        parser.feed(content)
        root: Element = parser.close()
    except DefusedXmlException:
        raise AnnotationError(f"{file}: DTD or entity declarations are not allowed") from None
    except AnnotationError as error:
        raise AnnotationError(f"{file}: {error}") from None
    except (ParseError, ValueError, LookupError) as error:
        raise AnnotationError(f"{file}: not well-formed XML: {error}") from None
    return root


def read_annotation(file: Path, limits: Limits) -> tuple[tuple[int, int], list[Object]]:
    """Return the image's (height, width) and objects from one XML file."""
    root = _parse(file, limits)
    with at(file):
        size = _image_size(root, limits)
        elements = root.findall("object")
        if len(elements) > limits.objects:
            raise AnnotationError(f"{len(elements)} objects exceed the limit of {limits.objects}")
        objects = []
        for n, element in enumerate(elements, start=1):
            with at(f"object {n}"):
                objects.append(_object(element, size))
    return size, objects


def _image_size(root: Element, limits: Limits) -> tuple[int, int]:
    width, height = (_number(root, f"size/{side}") for side in ("width", "height"))
    if not (width.is_integer() and height.is_integer() and width >= 1 and height >= 1):
        raise AnnotationError(f"size: expected whole numbers from 1, found {width:g} x {height:g}")
    if width * height > limits.pixels:
        raise AnnotationError(f"size: {width:g} x {height:g} pixels exceed {limits.pixels:,}")
    return int(height), int(width)


def _object(element: Element, size: tuple[int, int]) -> Object:
    label = (element.findtext("name") or "").strip()
    if not label:
        raise AnnotationError("name: missing")
    box = _box(element, "bndbox")
    with at("bndbox"):
        box = fit_box(box, size)
    full = box
    if element.find("full") is not None:
        full = _box(element, "full")
        with at("full"):
            check_box(full)
    one = Object(label, box, full)
    for name in FLAGS:
        setattr(one, name, _flag(element, name))
    for name, most in (("visible_fraction", 1.0), ("truncation", 1.0), ("area", np.inf)):
        if element.find(name) is not None:
            setattr(one, name, number(_text(element, name), name, 0.0, most))
    for name, high in (("level", 2), ("identity", 2**62)):
        if element.find(name) is not None:
            setattr(one, name, integer(_text(element, name), name, 0, high))
    return one


def _box(element: Element, name: str) -> Box:
    """A box from 1-based, inclusive pixels to 0-based, half-open ones."""
    x1, y1, x2, y2 = (_number(element, f"{name}/{end}") for end in ("xmin", "ymin", "xmax", "ymax"))
    return x1 - 1, y1 - 1, x2, y2


def _number(element: Element, path: str) -> float:
    return number(_text(element, path), path)


def _text(element: Element, path: str) -> str:
    text = element.findtext(path)
    if text is None:
        raise AnnotationError(f"{path}: missing")
    return text.strip()


def _flag(element: Element, name: str) -> bool:
    text = (element.findtext(name) or "0").strip()
    if text not in ("0", "1", "Unspecified"):
        raise AnnotationError(f"{name}: expected 0 or 1, found '{text[:40]}'")
    return text == "1"
