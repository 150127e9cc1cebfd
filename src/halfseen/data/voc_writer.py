"""Writing a dataset as a folder laid out like PASCAL VOC; `voc.read_voc` reads it back the same."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Literal
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import numpy as np

from halfseen.arrays import Float64, Pixels, UInt8
from halfseen.data.dataset import Dataset
from halfseen.data.files import FilePath, is_plain_name, write_atomically
from halfseen.data.image import write_image
from halfseen.errors import AnnotationError
from halfseen.geometry import clip
from halfseen.ground_truth import MEASURES, GroundTruth

SUFFIXES = (".jpg", ".jpeg", ".png")
FLAGS = ("difficult", "truncated", "occluded", "crowd")
_MOST_INSTANCES = 254  # 0 is background and 255 nobody's


def write_voc(
    dataset: Dataset, root: FilePath, split: str, images: Literal["png", "jpg"] = "png"
) -> None:
    """Write images, annotations, instance masks and lists; existing files of the same names go.

    Images as "png" are lossless; as "jpg" they have quality 95. Instance masks are written for
    images of which any object's mask is known; where masks overlap, the later object has the pixel.
    Lists come last, and each file whole or not at all, so a list never names an image that is not
    there. Visible boxes are cut to the image; `full` keeps the whole of them. AnnotationError when
    an id or label cannot be a file name, or a box is outside the image.
    """
    folder = Path(root)
    names = [truth.image for truth in dataset]
    for word in [split, *names, *dataset.classes]:
        if not is_plain_name(word):
            raise AnnotationError(f"{folder}: '{word}' cannot be part of a file name")
    for truth in dataset:
        if isinstance(truth.source, str) and not Path(truth.source).is_file():
            raise AnnotationError(
                f"{truth.image}: no image '{truth.source}'; a VOC folder holds the images: give "
                "their folder, --images FOLDER"
            )
    if len(set(names)) < len(names):
        raise AnnotationError(f"{folder}: the image ids of {dataset.name} are not distinct")
    try:
        for part in ("Annotations", "ImageSets/Main", "JPEGImages", "SegmentationObject"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        for i, truth in enumerate(dataset):
            _write_image(folder, truth, dataset.image(i), images)
        for label in dataset.classes:
            lines = "".join(f"{truth.image} {_presence(truth, label):2d}\n" for truth in dataset)
            write_atomically(_list(folder, f"{label}_{split}"), lines.encode())
        lines = "".join(f"{name}\n" for name in names)
        write_atomically(_list(folder, split), lines.encode())
    except OSError as error:
        raise AnnotationError(f"{error.filename or folder}: {error.strerror}") from None


def voc_palette() -> UInt8:
    """(256, 3): VOC's colours, which spread the bits of an index over red, green and blue.

    Bit 3k of the index is bit 7 - k of red, bit 3k + 1 of green, bit 3k + 2 of blue.
    """
    index = np.arange(256)[:, None]
    channel = np.arange(3)
    colours = np.zeros((256, 3), dtype=np.int64)
    for k in range(3):
        colours |= ((index >> (3 * k + channel)) & 1) << (7 - k)
    return colours.astype(np.uint8)


def _list(folder: Path, name: str) -> Path:
    return folder / "ImageSets" / "Main" / f"{name}.txt"


def _presence(truth: GroundTruth, label: str) -> int:
    """1 where an image has the class, 0 where all of it is difficult, -1 where there is none."""
    of_class = truth.label == label
    if not of_class.any():
        return -1
    return 0 if truth.difficult[of_class].all() else 1


def _write_image(folder: Path, truth: GroundTruth, pixels: Pixels, suffix: str) -> None:
    file = folder / "JPEGImages" / f"{truth.image}.{suffix}"
    others = [path for path in map(file.with_suffix, SUFFIXES) if path != file and path.exists()]
    if others:
        raise AnnotationError(
            f"{others[0]}: stands beside the image to be written; use a new folder"
        )
    write_image(file, pixels)
    instances = _instances(truth)
    mask = folder / "SegmentationObject" / f"{truth.image}.png"
    if instances is None:
        mask.unlink(missing_ok=True)
    else:
        write_atomically(mask, _png(instances))
    xml = _annotation(truth, folder.name, file.name, instances is not None)
    write_atomically(folder / "Annotations" / f"{truth.image}.xml", xml)


def _instances(truth: GroundTruth) -> UInt8 | None:
    """(height, width): k + 1 where object k is seen; None where no mask is known."""
    indices, known = np.zeros(truth.size, dtype=np.uint8), False
    for k in range(len(truth)):
        mask = truth.mask(k)  # one at a time: each is as large as the image
        if mask is None:
            continue
        if len(truth) > _MOST_INSTANCES:
            raise AnnotationError(
                f"{truth.image}: {len(truth)} objects; an instance mask holds {_MOST_INSTANCES} at "
                "most"
            )
        indices[mask], known = k + 1, True
    return indices if known else None


def _png(indices: UInt8) -> bytes:
    from PIL import Image

    image = Image.fromarray(indices)
    image.putpalette(voc_palette().tobytes())
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _annotation(truth: GroundTruth, folder: str, file: str, segmented: bool) -> bytes:
    root = Element("annotation")
    _add(root, "folder", folder)
    _add(root, "filename", file)
    size = SubElement(root, "size")
    for name, value in zip(("height", "width", "depth"), (*truth.size, 3), strict=True):
        _add(size, name, value)
    _add(root, "segmented", int(segmented))
    for k in range(len(truth)):
        element = SubElement(root, "object")
        _add(element, "name", truth.label[k])
        for flag in FLAGS:
            _add(element, flag, int(getattr(truth, flag)[k]))
        box = clip(truth.box[k], truth.size)
        if not (box[:2] < box[2:]).all():
            raise AnnotationError(
                f"{truth.image}: object {k + 1} is outside the image, where VOC has no box"
            )
        _add_box(element, "bndbox", box)
        if not np.array_equal(truth.full[k], box):
            _add_box(element, "full", truth.full[k])
        if truth.ignore[k]:
            _add(element, "ignore", 1)
        for name in MEASURES:
            value = getattr(truth, name)[k].item()
            if value >= 0:  # what is not known is NaN or -1
                _add(element, name, repr(value))
    indent(root, "\t")
    return bytes(tostring(root, encoding="utf-8")) + b"\n"


def _add_box(parent: Element, name: str, box: Float64) -> None:
    """A box in 1-based, inclusive pixels."""
    element = SubElement(parent, name)
    ends = ("xmin", "ymin", "xmax", "ymax")
    for end, value in zip(ends, box + np.array([1, 1, 0, 0]), strict=True):
        _add(element, end, int(value) if float(value).is_integer() else repr(float(value)))


def _add(parent: Element, name: str, value: object) -> None:
    SubElement(parent, name).text = str(value)
