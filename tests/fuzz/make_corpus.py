"""Writes tests/corpus: one small file of each kind that the readers know, and some hostile ones."""

from __future__ import annotations

import io
import json
import sys
import tarfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.readers import TRAINER
from halfseen.data import rle
from halfseen.data.candidates import write_candidates
from halfseen.features.fhog import Fhog
from halfseen.features.pyramid import PyramidSettings
from halfseen.learn.checkpoint import DIGEST, fingerprint
from halfseen.model.component import Component
from halfseen.model.mixture import Mixture
from halfseen.model.store import save
from pattern_scenes import make_detections

CORPUS = Path(__file__).parents[1] / "corpus"


def put(reader: str, name: str, content: bytes | str) -> None:
    path = CORPUS / reader / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    target = io.BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


def images() -> None:
    rng = np.random.default_rng(0)
    rgb = Image.fromarray(rng.integers(0, 255, (12, 17, 3)).astype(np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6
    kinds: dict[str, tuple[Image.Image, str, dict[str, Any]]] = {
        "jpg": (rgb, "JPEG", {"exif": exif}),
        "progressive.jpg": (rgb, "JPEG", {"progressive": True}),
        "cmyk.jpg": (rgb.convert("CMYK"), "JPEG", {}),
        "png": (rgb, "PNG", {}),
        "rgba.png": (rgb.convert("RGBA"), "PNG", {}),
        "palette.png": (rgb.convert("P"), "PNG", {"transparency": 3}),
        "grey16.png": (
            Image.fromarray(rng.integers(0, 65535, (9, 7)).astype(np.uint16)),
            "PNG",
            {},
        ),
        "gif": (rgb.convert("P"), "GIF", {"save_all": True, "append_images": [rgb.convert("P")]}),
        "bmp": (rgb, "BMP", {}),
        "tif": (rgb, "TIFF", {"compression": "tiff_lzw"}),
        "raw.tif": (rgb.convert("L"), "TIFF", {}),
        "webp": (rgb, "WEBP", {}),
        "lossless.webp": (rgb.convert("RGBA"), "WEBP", {"lossless": True}),
        "ppm": (rgb, "PPM", {}),
    }
    for name, (image, kind, options) in kinds.items():
        put("image", name, encoded(image, kind, **options))
    header = b"IHDR" + (20_000).to_bytes(4, "big") * 2 + b"\x08\x02\0\0\0"
    huge = b"\x89PNG\r\n\x1a\n\0\0\0\r" + header + zlib.crc32(header).to_bytes(4, "big")
    put("image", "huge.png", huge)
    put("image", "text.ppm", "P3 2 2 255 " + "1 " * 12)
    indices = Image.fromarray(rng.integers(0, 4, (12, 17)).astype(np.uint8))
    put("mask", "grey.png", encoded(indices, "PNG"))
    put("mask", "palette.png", encoded(rgb.convert("P"), "PNG"))
    put("mask", "grey.bmp", encoded(indices, "BMP"))


def annotations() -> None:
    thing = (
        "<object><name>car</name><truncated>1</truncated><occluded>0</occluded><difficult>0"
        "</difficult><bndbox><xmin>3</xmin><ymin>4.5</ymin><xmax>40</xmax><ymax>30</ymax></bndbox>"
        "<full><xmin>-3</xmin><ymin>4</ymin><xmax>40</xmax><ymax>30</ymax></full>"
        "<visible_fraction>0.5</visible_fraction></object>"
    )
    size = "<size><width>80</width><height>60</height><depth>3</depth></size>"
    whole = f"<annotation><filename>a.jpg</filename>{size}{thing}{thing}</annotation>"
    put("voc", "two.xml", whole)
    put("voc", "none.xml", f"<?xml version='1.0' encoding='utf-8'?><annotation>{size}</annotation>")
    bomb = "".join(f'<!ENTITY a{n + 1} "&a{n};&a{n};">' for n in range(9))
    put("voc", "bomb.xml", f'<!DOCTYPE x [<!ENTITY a0 "ha">{bomb}]><annotation>&a9;</annotation>')
    put("voc", "outside.xml", '<!DOCTYPE x [<!ENTITY a SYSTEM "/etc/passwd">]><x>&a;</x>')
    put("voc", "deep.xml", "<a>" * 50 + "</a>" * 50)
    mask = np.zeros((60, 80), bool)
    mask[10:20, 5:50] = True
    lengths = rle.encode(mask)
    plain = {"size": [3, 4], "counts": [2, 3, 7]}
    polygon = [[5, 5, 50, 5, 50.5, 40, 5, 40], [1, 1, 9, 1, 5, 8]]
    rows = [
        {"id": n, "image_id": 1, "category_id": 7, "bbox": [5, 5, 45, 35], "area": 9,
         "iscrowd": n % 2, "segmentation": segmentation}
        for n, segmentation in enumerate([polygon, lengths])
    ]  # fmt: skip
    put("coco", "small.json", json.dumps({
        "images": [{"id": n, "file_name": name, "width": 80, "height": 60}
                   for n, name in enumerate(("b.jpg", "a.jpg"))],
        "annotations": rows, "categories": [{"id": 7, "name": "car"}],
    }))  # fmt: skip
    put("coco", "deep.json", "[" * 5000)
    found = [{**row, "score": 0.5} for row in rows]
    put("results", "masks.json", json.dumps(found))
    put("results", "boxes.json", json.dumps([{**found[0], "segmentation": []}]))
    put("results", "nan.json", '[{"image_id": 1, "category_id": 1, "score": NaN, "bbox": []}]')
    put("run_lengths", "compressed.json", json.dumps(lengths))
    put("run_lengths", "plain.json", json.dumps(plain))
    put("run_lengths", "raw", bytes([60]) + lengths["counts"].encode())
    put("voc_results", "three.txt", "a 0.5 1 2 30 40\nb -1.25 3 4 80 60\n\na 1e-3 1 1 2 2\n")
    put("name_list", "names.txt", "a.jpg\n../b c.png\nmemory://x/y.jpg\n\n")


def arrays() -> None:
    rng = np.random.default_rng(1)
    path = CORPUS / "model"
    path.mkdir(parents=True, exist_ok=True)
    component = Component(
        rng.normal(size=(2, 3, 31)).astype(np.float32), -1.0, -0.1, 0.02, np.array([0.0, 0, 3, 2])
    )
    mixture = Mixture(
        "car", "VIS", (component,) * 2, True, 0.05, Fhog(8), PyramidSettings(), {"seed": 1}
    )
    save(mixture, path / "two.safetensors")
    (CORPUS / "candidates").mkdir(exist_ok=True)
    found = make_detections([(1, 2, 30, 40), (-5, 3, 20, 30)], [0.5, -0.5])
    write_candidates(CORPUS / "candidates" / "three.npz", [found, found[:0], found[:1]])
    history = [{"stage": 0, "round": 0, "energy": 1.5, "positives": 2, "negatives": 3, "found": 4,
                "hidden_share": 0.1, "u": [0.1], "u_t": [0.2], "bias": [-1.0]}]  # fmt: skip
    header = {"fingerprint": fingerprint(TRAINER), "stage": 1, "round": 0, "history": history}  # type: ignore[arg-type]
    content = io.BytesIO()
    np.savez_compressed(
        content, header=np.frombuffer(json.dumps(header).encode(), np.uint8), vector=np.zeros(9),
        latent=np.array([[0, 1, 0, 2, 3], [-1, 0, 0, 0, 0]]), flags=np.ones(6, bool),
        flag_counts=np.array([6, 0]), keys0=np.zeros((2, 6), np.int64),
    )  # fmt: skip
    put("checkpoint", "one.npz", content.getvalue())
    bomb = io.BytesIO()
    np.savez_compressed(bomb, score=np.zeros(1 << 16))
    put("candidates", "bomb.npz", bomb.getvalue())


def archives() -> None:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name in ("a.jpg", "deep/é.png", "n" * 120 + ".png", "../../up.jpg"):
            info = tarfile.TarInfo(name)
            info.size = 5
            archive.addfile(info, io.BytesIO(b"hello"))
        link = tarfile.TarInfo("link.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    put("archive", "four.tar", target.getvalue())


if __name__ == "__main__":
    assert DIGEST == 32, "the reader seals checkpoints itself"
    images()
    annotations()
    arrays()
    archives()
