"""Pictures of what training learnt: the templates, where positives were hidden, and the energy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageDraw

from halfseen.arrays import Float64, Pixels
from halfseen.data.files import write_atomically
from halfseen.data.image import write_image
from halfseen.features.descriptor import Descriptor
from halfseen.model.mixture import Component, Mixture
from halfseen.report.palette import VERMILION
from halfseen.report.plots import as_png, line, new_figure, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TILE = 26  # pixels of a block
GAP = 14  # pixels around a template


def oriented_weights(component: Component, descriptor: Descriptor) -> Float64 | None:
    """(rows, cols, orientations): the positive weights of each block, by unsigned orientation.

    Signed and unsigned channels of `fhog`, and the four cells of a block of `hog`, are added up.
    None for another descriptor, whose channels are not known here.
    """
    w = np.maximum(component.weights.astype(np.float64), 0)
    if descriptor.name == "fhog":
        return np.asarray(w[..., :9] + w[..., 9:18] + w[..., 18:27])
    if descriptor.name == "hog":
        return np.asarray(w.reshape(*component.shape, 4, -1).sum(2))
    return None


def draw_template(component: Component, descriptor: Descriptor) -> Pixels:
    """A component as strokes along the edges that it likes; plain squares where none are known."""
    weights = oriented_weights(component, descriptor)
    rows, cols = component.shape
    if weights is None:
        strength = np.maximum(component.weights, 0).sum(2).astype(np.float64)
        ink = np.repeat(np.repeat(strength, TILE, 0), TILE, 1)
    else:
        strokes = _strokes(weights.shape[2])
        ink = np.einsum("rck,kyx->rycx", weights, strokes).reshape(rows * TILE, cols * TILE)
    # The strongest few strokes may saturate, so that the rest can be seen.
    ink = np.clip(ink / max(float(np.quantile(ink, 0.995)), 1e-12), 0, 1)
    return np.repeat((255 * (1 - ink)).astype(np.uint8)[:, :, None], 3, 2)


def _strokes(orientations: int) -> Float64:
    """(orientations, TILE, TILE): a line through the middle, at a right angle to each gradient."""
    zoom, side = 4, 4 * TILE
    found = []
    for k in range(orientations):
        angle = (k + 0.5) * np.pi / orientations
        across = np.array([-np.sin(angle), np.cos(angle)]) * side * 0.47
        tile = Image.new("L", (side, side))
        ends = [*(side / 2 - across), *(side / 2 + across)]
        ImageDraw.Draw(tile).line([float(v) for v in ends], 255, zoom * 2)
        found.append(np.asarray(tile.reduce(zoom), np.float64) / 255)
    return np.stack(found)


def draw_hidden(component: Component, descriptor: Descriptor, hidden: Float64) -> Pixels:
    """The template with each block tinted by the share (rows, cols) of positives that hide it."""
    picture = draw_template(component, descriptor).astype(np.float64)
    tint = np.repeat(np.repeat(hidden, TILE, 0), TILE, 1)[:, :, None] * 0.85
    picture = picture * (1 - tint) + np.array(VERMILION) * tint
    return np.asarray(np.rint(picture), np.uint8)


def side_by_side(pictures: list[Pixels]) -> Pixels:
    """Pictures in a row on white, each centred."""
    high = max(p.shape[0] for p in pictures) + 2 * GAP
    wide = sum(p.shape[1] + GAP for p in pictures) + GAP
    sheet = np.full((high, wide, 3), 255, np.uint8)
    left = GAP
    for picture in pictures:
        top = (high - picture.shape[0]) // 2
        sheet[top : top + picture.shape[0], left : left + picture.shape[1]] = picture
        left += picture.shape[1] + GAP
    return sheet


def plot_energy(model: Mixture) -> Figure:
    """The energy after every round; a line marks each latent update.

    Between updates it rises as mining adds negatives; an update itself can only lower it.
    """
    history = model.training["history"]
    with style():
        figure, axes = new_figure(
            f"Learning {model.label} ({model.method})", "rounds of mining", "energy"
        )
        line(axes, 0, "energy", range(1, len(history) + 1), [entry["energy"] for entry in history])
        for k in range(1, len(history)):
            if history[k]["stage"] != history[k - 1]["stage"]:
                axes.axvline(k + 0.5, color="0.6", linewidth=0.8, zorder=0)
        axes.set(ylim=(0, None))
    return figure


def write_pictures(model: Mixture, model_file: Path) -> list[Path]:
    """Writes the pictures of a model beside its file; gives their paths.

    `NAME.templates.png`, and from the record of its training, where it has one, `NAME.hidden.png`
    and `NAME.energy.png`.
    """
    descriptor = model.descriptor
    stem = model_file.with_suffix("")

    def beside(what: str) -> Path:
        return stem.with_name(f"{stem.name}.{what}.png")

    written = [beside("templates")]
    write_image(written[0], side_by_side([draw_template(c, descriptor) for c in model.components]))
    if model.visibility and "hidden" in model.training:
        maps = [np.asarray(m, np.float64) for m in model.training["hidden"]]
        drawn = [draw_hidden(c, descriptor, m) for c, m in zip(model.components, maps, strict=True)]
        written.append(beside("hidden"))
        write_image(written[-1], side_by_side(drawn))
    if model.training.get("history"):
        written.append(beside("energy"))
        write_atomically(written[-1], as_png(plot_energy(model)))
    return written
