"""Learns the grouping network that halfseen ships, from boxes alone, on all classes of VOC train.

    python benchmarks/voc/grouping.py samples VOC STUDY/default OUT --train ids [--class car ...]
    python benchmarks/voc/grouping.py learn OUT src/halfseen/models/grouping.safetensors

`samples` pastes occluders over the whole objects of each class, as learning a mask head does, lets
heads that have not seen an object give the logits of its blocks, and keeps what the network is
told in OUT/CLASS.safetensors; a class that is there is not made again. `learn` fits one network to
all of them (Adam, on one core half an hour), holds a tenth of the objects out, and prints
one line of JSON: the balanced accuracy of blocks, before and after, on those.

`learn` needs JAX (pip install "halfseen[networks]"); nothing else of halfseen does.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from halfseen.data.dataset import Dataset
from halfseen.data.voc import read_voc
from halfseen.learn.masks.head import held_out
from halfseen.learn.masks.samples import Samples, collect_samples, whole_objects
from halfseen.learn.settings import MaskSettings
from halfseen.model.mask_head import Grouping, HiddenSettings, shapes
from halfseen.model.store import load
from halfseen.refine.grouping import inputs
from halfseen.refine.kernels import lab
from halfseen.studies.paper import CLASSES

# Of each class: at most so many objects, in so many windows; and other images for textures.
OBJECTS, WINDOWS, OTHERS = 600, 18000, 500
CHANNELS, EPOCHS, BATCH, RATE, DECAY = 24, 7, 64, 3e-3, 1e-5
HELD_OUT = 10


def some_of(dataset: Dataset, label: str) -> Dataset:
    """Images with enough whole objects of the class, and some without any."""
    order = np.random.default_rng(0).permutation(len(dataset))
    counts = np.array([len(whole_objects(dataset[i], label)) for i in order])
    enough = np.cumsum(counts) - counts < OBJECTS
    others = np.cumsum(counts == 0) <= OTHERS
    chosen: Dataset = dataset[order[np.where(counts > 0, enough, others)]]
    return chosen


def make_samples(options: argparse.Namespace) -> None:
    train = read_voc(options.voc, options.train)
    for label in options.classes or CLASSES:
        path = options.out / f"{label}.safetensors"
        if path.exists():
            continue
        start = time.process_time()
        model = load(options.study / f"{label}-VIS.safetensors")
        parts: dict[int, list[Samples]] = {}
        wanted = MaskSettings(windows=WINDOWS)
        for m, part, _ in collect_samples(some_of(train, label), model, wanted, 2):
            parts.setdefault(m, []).append(part)
        tensors = {}
        for m, rows in parts.items():
            samples = Samples.stack(rows)
            everything = np.ones(len(samples), bool)
            judged, logits = held_out(samples, everything, MaskSettings())
            for name in ("quarters", "hidden", "known", "outside", "object"):
                tensors[f"{m}.{name}"] = np.ascontiguousarray(getattr(judged, name))
            tensors[f"{m}.logits"] = logits.astype(np.float16)
        save_file(tensors, path)
        print(label, {m: len(rows) for m, rows in parts.items()}, "objects,",
              round(time.process_time() - start), "s of processor", flush=True)  # fmt: skip


def groups(folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The samples of every component to learn from, and those held out."""
    learnt: list[dict[str, Any]] = []
    held: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.safetensors")):
        tensors = load_file(path)
        for m in sorted({name.split(".")[0] for name in tensors}):
            part = {n.split(".")[1]: t for n, t in tensors.items() if n.startswith(f"{m}.")}
            apart = part["object"] % HELD_OUT == 0
            for chosen, rows in ((~apart, learnt), (apart, held)):
                rows.append({name: tensor[chosen] for name, tensor in part.items()})
    return learnt, held


def batch(part: dict[str, Any], index: Any, flip: bool) -> tuple[Any, Any, Any]:
    """Inputs, +1 where hidden and -1 elsewhere, and weights: hidden and visible weigh the same."""
    side = slice(None, None, -1 if flip else 1)
    logits, quarters, outside, hidden, known = (
        part[name][index][:, :, side]
        for name in ("logits", "quarters", "outside", "hidden", "known")
    )
    x = inputs(
        logits.astype(np.float32), lab(quarters.astype(np.float32)), outside, HiddenSettings()
    )
    share = part["share"]
    weight = np.where(hidden, 0.5 / share, 0.5 / (1 - share)) * known
    return x, np.where(hidden, 1, -1).astype(np.float32), weight.astype(np.float32)


def network(p: Any, x: Any) -> Any:
    """The same as `infer.grouping_kernels.forward`, for JAX to differentiate."""
    import jax
    import jax.numpy as jnp

    count, rows, cols, _ = x.shape

    def around(h: Any, step: int) -> Any:
        padded = jnp.pad(h, ((0, 0), (step, step), (step, step), (0, 0)))
        parts = [
            padded[:, a * step : a * step + rows, b * step : b * step + cols]
            for a in range(3)
            for b in range(3)
        ]
        return jnp.concatenate(parts, -1)

    mean = x[..., 2:14].reshape(count, rows * cols, 4, 3).mean(2)
    near = 1 / (1 + ((mean[:, :, None] - mean[:, None]) ** 2).sum(-1))
    alike = [a / a.sum(-1, keepdims=True) for a in (near**2, near**8)]

    def pooled(h: Any) -> Any:
        flat = h.reshape(count, rows * cols, -1)
        means = [(a @ flat).reshape(h.shape) for a in alike]
        return jnp.concatenate(
            [h, *means, jnp.broadcast_to(h.mean((1, 2), keepdims=True), h.shape)], -1
        )

    h = jax.nn.relu(around(x, 1) @ p["enter"] + p["enter_bias"])
    h = jax.nn.relu(around(h, 2) @ p["wide"] + p["wide_bias"])
    h = jax.nn.relu(pooled(h) @ p["pool"] + p["pool_bias"])
    h = h + jax.nn.relu(around(h, 2) @ p["again"] + p["again_bias"])
    h = jax.nn.relu(pooled(h) @ p["repool"] + p["repool_bias"])
    return (around(h, 1) @ p["leave"] + p["leave_bias"])[..., 0] + p["gain"] * x[..., 0]


def learn(options: argparse.Namespace) -> None:
    import jax
    import jax.numpy as jnp

    learnt, held = groups(options.out)
    for part in learnt + held:
        known = part["known"]
        part["share"] = float((known & part["hidden"]).sum() / max(known.sum(), 1))
    rng = np.random.default_rng(0)
    p = {
        name: np.zeros(shape, np.float32)
        if len(shape) == 1
        else rng.normal(0, np.sqrt(2 / shape[0]), shape).astype(np.float32)
        for name, shape in shapes(CHANNELS).items()
    }
    p["leave"] *= 0.1
    p["gain"] += 2

    def loss(p: Any, x: Any, y: Any, weight: Any) -> Any:
        fit = (weight * jnp.logaddexp(0, -network(p, x) * y)).sum() / weight.sum()
        return fit + DECAY * sum((v**2).sum() for v in p.values())

    @jax.jit  # type: ignore[untyped-decorator]
    def step(p: Any, m: Any, v: Any, t: Any, rate: Any, x: Any, y: Any, weight: Any) -> Any:
        value, g = jax.value_and_grad(loss)(p, x, y, weight)
        m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
        v = jax.tree.map(lambda a, b: 0.99 * a + 0.01 * b * b, v, g)
        p = jax.tree.map(
            lambda q, a, b: q - rate * a / (1 - 0.9**t) / (jnp.sqrt(b / (1 - 0.99**t)) + 1e-8),
            p, m, v,
        )  # fmt: skip
        return p, m, v, value

    look = jax.jit(network)
    m = v = jax.tree.map(np.zeros_like, p)
    total, t = EPOCHS * sum(len(part["object"]) // BATCH for part in learnt), 0
    for epoch in range(EPOCHS):
        todo = [
            (k, chunk)
            for k, part in enumerate(learnt)
            for chunk in rng.permutation(len(part["object"]))[
                : len(part["object"]) // BATCH * BATCH
            ].reshape(-1, BATCH)
        ]
        values = []
        for k in rng.permutation(len(todo)):
            which, chunk = todo[k]
            t += 1
            rate = RATE * min(1, 1.5 * (1 - t / (total + 1)), t / 100)
            data = batch(learnt[which], np.sort(chunk), bool(rng.random() < 0.5))
            p, m, v, value = step(p, m, v, float(t), rate, *data)
            values.append(value)
        print(epoch, "loss", float(np.mean(jnp.array(values))), judge(look, p, held), flush=True)
    tensors = {name: np.asarray(value).astype(np.float16) for name, value in p.items()}
    save_file(Grouping.of(tensors).tensors(), options.network)
    print(
        json.dumps({"samples": sum(len(part["object"]) for part in learnt), **judge(look, p, held)})
    )


def judge(look: Any, p: Any, held: list[dict[str, Any]]) -> dict[str, float]:
    """Balanced accuracy of blocks at logit 0 on objects held out, without and with the network."""
    counts = np.zeros((2, 2, 2))
    for part in held:
        for start in range(0, len(part["object"]) // BATCH * BATCH, BATCH):
            x, y, weight = batch(part, slice(start, start + BATCH), False)
            for k, logits in enumerate((x[..., 0], np.asarray(look(p, x)))):
                for hidden in (0, 1):
                    here = (weight > 0) & ((y > 0) == hidden)
                    counts[k, hidden] += ((logits[here] > 0) == hidden).sum(), here.sum()
    before, after = (counts[..., 0] / counts[..., 1]).mean(1)
    return {"before": round(float(before), 4), "after": round(float(after), 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    make = commands.add_parser("samples")
    for name in ("voc", "study", "out"):
        make.add_argument(name, type=Path)
    make.add_argument("--train", default="train")
    make.add_argument("--class", dest="classes", action="append")
    make.set_defaults(run=make_samples)
    fit = commands.add_parser("learn")
    fit.add_argument("out", type=Path)
    fit.add_argument("network", type=Path)
    fit.set_defaults(run=learn)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    options.run(options)


if __name__ == "__main__":
    main()
