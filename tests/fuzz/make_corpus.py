"""Writes tests/corpus: one small file of each kind that the readers know, and some hostile ones."""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from halfseen.data import rle
from halfseen.data.candidates import write_candidates
from halfseen.data.coco import write_coco
from halfseen.data.dataset import Dataset
from halfseen.features.fhog import Fhog
from halfseen.features.pyramid import PyramidSettings
from halfseen.ground_truth import GroundTruth
from halfseen.learn.checkpoint import DIGEST, Checkpoint
from halfseen.learn.latent import Assignment
from halfseen.learn.mining import Keys
from halfseen.learn.state import Round, State, pack
from halfseen.model.mixture import Component, Mixture
from halfseen.model.store import save
from tests.builders import make_detections, make_model, random_head, tiny_scenes
from tests.fuzz.readers import FINGERPRINT

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


def annotation_files() -> None:
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
    save(random_head(make_model()), path / "head.safetensors")
    (CORPUS / "candidates").mkdir(exist_ok=True)
    found = make_detections([(1, 2, 30, 40), (-5, 3, 20, 30)], [0.5, -0.5])
    write_candidates(CORPUS / "candidates" / "three.npz", [found, found[:0], found[:1]])
    grid = np.ones((2, 3), bool)
    assigned = Assignment(0, True, 0, 2, 3, grid, np.zeros((2, 3, 31), np.float32), ~grid, 0.5)
    history = [Round(0, 0, 1.5, 2, 3, 4, 0.1, (0.1,), (0.2,), (-1.0,))]
    state = State(1, 0, np.zeros(9), [assigned, None], history)
    checkpoint = Checkpoint(path / "checkpoint", FINGERPRINT)
    checkpoint.part("detector").put("rounds", pack(state, [Keys(np.zeros((2, 6), np.int64))]))
    content = (path / "checkpoint").read_bytes()[DIGEST:]
    (path / "checkpoint").unlink()
    put("checkpoint", "one.npz", content)
    bomb = io.BytesIO()
    np.savez_compressed(bomb, score=np.zeros(1 << 16))
    put("candidates", "bomb.npz", bomb.getvalue())


def datasets() -> None:
    """One file of each format that is written, in the shape that its reader is given."""
    from halfseen.data.formats import write_dataset

    places = {
        "crowdhuman": ("a.odgt", "a.odgt"), "citypersons": ("folder", "folder/a_*"),
        "citypersons_mat": ("a.mat", "a.mat"), "caltech": ("folder", "folder/a.txt"),
        "kaist": ("folder", "folder/a.txt"), "kitti": ("folder", "folder/a.txt"),
        "visdrone": ("folder", "folder/a.txt"), "mot": ("gt.txt", "gt.txt"),
        "bdd": ("a.json", "a.json"),
    }  # fmt: skip
    boxes = np.array([[3.0, 4, 40, 30], [10, 12, 22, 50]])
    for reader, (target, written) in places.items():
        labels = ["pedestrian", "pedestrian"]
        truth = GroundTruth.make("a", "a.jpg", (60, 80), labels, boxes)
        dataset = Dataset("made", ("pedestrian",), (truth,))
        with tempfile.TemporaryDirectory() as folder:
            write_dataset(dataset, Path(folder, target), reader.removesuffix("_mat"))
            (file,) = Path(folder).glob(written)
            put(reader, f"two{file.suffix}", file.read_bytes())
    region = {"segmentation": [5, 5, 50, 5, 50, 40, 5, 40], "name": "car", "order": 1,
              "occlude_rate": 0.3, "visible_mask": rle.encode(np.ones((60, 80), bool))}  # fmt: skip
    put("cocoa", "two.json", json.dumps({
        "images": [{"id": 1, "file_name": "a.jpg", "width": 80, "height": 60}],
        "annotations": [{"id": 1, "image_id": 1, "regions": [region, region]}],
    }))  # fmt: skip


def runs() -> None:
    """Shards, requests to the server, and what other readers' files are read for."""
    from halfseen.collection.shards import JSON_LINES, PARQUET
    from halfseen.web.catalogue import scene_pixels

    found = [{"label": "car", "score": 0.5, "full": [1.0, 2.0, 3.0, 4.0]}]
    records: list[dict[str, Any]] = [
        {"image": "a.jpg", "width": 3, "height": 2, "detections": found},
        {"image": "b.jpg", "error": "why"},
    ]
    put("shard", "two.jsonl", JSON_LINES.encode(records))
    put("shard", "two.parquet", PARQUET.encode(records))
    host = b"Host: localhost\n\n"
    put("request", "page", b"GET /page.js\n" + host)
    put("request", "setup", b"GET /api/setup\n" + host)
    put("request", "scene", b"GET /api/scenes/1/thumbnail.jpg\n" + host)
    query = b"width=32&height=24&threshold=-0.5&overlap=0.4&models=0"
    pixels = bytes(range(256)) * 12
    put("request", "look", b"POST /api/look?" + query + b"&watched=1,2,30,20\n" + host + pixels)
    put(
        "request",
        "inspect",
        b"POST /api/inspect?" + query + b"&method=VIS&index=0\n" + host + pixels,
    )
    scene = scene_pixels(0)[:96, :128]
    opaque = np.dstack([scene, np.full(scene.shape[:2], 255, np.uint8)]).tobytes()
    size = b"width=128&height=96&threshold=-1"
    put("request", "classes", b"POST /api/classes?" + size + b"\n" + host + opaque)
    picture = encoded(Image.new("RGB", (9, 7)), "PNG")
    put("request", "photo", b"POST /api/photo\nOrigin: http://localhost\n" + host + picture)
    noise = np.random.default_rng(2).integers(0, 255, (60, 80, 3), np.uint8)
    put("detect", "noise.png", encoded(Image.fromarray(noise), "PNG"))
    rows = [
        {"image_id": n % 2, "category_id": 1, "score": n / 9, "bbox": [3 * n, 5, 40, 30]}
        for n in range(9)
    ]
    put("suppression", "nine.json", json.dumps(rows))
    places = np.random.default_rng(3)
    put("suppression", "many.json", json.dumps([
        {"image_id": 1, "category_id": 1, "score": 0.5,
         "bbox": [*places.integers(0, 300, 2).tolist(), *places.integers(20, 90, 2).tolist()]}
        for _ in range(150)
    ]))  # fmt: skip


def training() -> None:
    """The built-in scenes that are learnt from, with their masks."""
    labels = CORPUS / "train" / "scenes.json"
    labels.parent.mkdir(parents=True, exist_ok=True)
    scenes = tiny_scenes()[:6]
    truths = [replace(truth, image=str(n), source=f"{n}.png") for n, truth in enumerate(scenes)]
    write_coco(replace(scenes, truths=tuple(truths)), labels)


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
    annotation_files()
    arrays()
    archives()
    datasets()
    runs()
    training()
