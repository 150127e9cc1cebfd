"""The boxes of PicoDet-S before its own suppression, of VOC images, for `suppress_peer.py`.

    pip download --no-deps paddlelabel-ml==1.0.0 && unzip -d peer paddlelabel_ml-1.0.0-*.whl
    pip install openvino "opencv-python-headless<5"
    python benchmarks/voc/dump_peer.py VOC peer candidates.npz --ids val.txt

A detector of COCO's 80 classes at 416 x 416 pixels (Apache-2.0), whose boxes and probabilities are
the inputs of the last node of its network. Of each image the best 200 of VOC's classes with a
probability of at least 0.1 are kept; the images are in random order, so that the halves of the file
are alike.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

# Places of VOC's classes among COCO's.
PLACES = {
    "aeroplane": 4, "bicycle": 1, "bird": 14, "boat": 8, "bottle": 39, "bus": 5, "car": 2,
    "cat": 15, "chair": 56, "cow": 19, "diningtable": 60, "dog": 16, "horse": 17, "motorbike": 3,
    "person": 0, "pottedplant": 58, "sheep": 18, "sofa": 57, "train": 6, "tvmonitor": 62,
}  # fmt: skip
SIDE = 416
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
SPREAD = np.array([0.229, 0.224, 0.225], np.float32)
LEAST, MOST = 0.1, 200


def network(folder: Path) -> Any:
    """The network up to its suppression: image and scale in, boxes and probabilities out."""
    import openvino  # type: ignore[import-not-found,unused-ignore]

    core = openvino.Core()
    whole = core.read_model(next(folder.rglob("PicoDet/ckpt/model.pdmodel")))
    last = next(node for node in whole.get_ops() if node.get_type_name() == "MulticlassNms")
    ends = [last.input_value(0), last.input_value(1)]
    model = openvino.Model(ends, whole.get_parameters(), "raw")
    model.reshape({"image": [1, 3, SIDE, SIDE], "scale_factor": [1, 2]})
    return core.compile_model(model, "CPU")


def main() -> None:
    import cv2

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voc", type=Path)
    parser.add_argument("peer", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ids", type=Path, required=True)
    options = parser.parse_args()
    ids = np.random.default_rng(0).permutation(options.ids.read_text().split())
    run, columns = network(options.peer), list(PLACES.values())
    found: dict[str, list[Any]] = {"image": [], "box": [], "score": [], "label": []}
    for number, name in enumerate(ids):
        picture = cv2.imread(str(options.voc / "JPEGImages" / f"{name}.jpg"))[..., ::-1]
        scale = np.array([[SIDE / side for side in picture.shape[:2]]], np.float32)
        small = cv2.resize(picture, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC)
        pixels = ((small.astype(np.float32) / 255 - MEAN) / SPREAD).transpose(2, 0, 1)[None]
        every = run({"image": np.ascontiguousarray(pixels), "scale_factor": scale})
        box, score = every[0][0], every[1][0][columns].T
        row, label = np.nonzero(score >= LEAST)
        best = np.argsort(-score[row, label], kind="stable")[:MOST]
        row, label = row[best], label[best]
        some = (box[row, :2] < box[row, 2:]).all(axis=1)
        row, label = row[some], label[some]
        found["image"].append(np.full(len(row), number))
        found["box"].append(box[row])
        found["score"].append(score[row, label])
        found["label"].append(label)
    arrays: Any = {name: np.concatenate(parts) for name, parts in found.items()}
    np.savez_compressed(options.out, ids=ids, names=np.array(list(PLACES)), **arrays)


if __name__ == "__main__":
    main()
