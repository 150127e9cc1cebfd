"""A mixture of components: one object class, and all that is needed to look for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Float32
from halfseen.errors import ModelError
from halfseen.features.descriptor import Descriptor
from halfseen.features.pyramid import PyramidSettings
from halfseen.geometry import Boxes, mirror
from halfseen.model.calibration import Calibration
from halfseen.model.mask_head import LARGEST, MaskHead

Method = Literal["BL", "BLT", "VIS"]
METHODS: tuple[Method, ...] = get_args(Method)


@dataclass(frozen=True, eq=False)
class Component:
    """A template over a grid of blocks, with its biases and its average box.

    weights  (rows, cols, channels) float32: w_i of every block
    bias     b
    u        what a hidden block contributes instead of w_i . B_i
    u_t      what a block outside the image contributes (truncation)
    box      (4,) the average box in blocks from the window's corner; the window itself is
             (0, 0, cols, rows)
    """

    weights: Float32
    bias: float
    u: float
    u_t: float
    box: Boxes

    def __post_init__(self) -> None:
        if self.weights.ndim != 3 or min(self.weights.shape) < 1:
            raise ModelError(
                f"a component's weights must be (rows, cols, channels), found {self.weights.shape}"
            )
        if self.weights.dtype != np.float32:
            raise ModelError(f"a component's weights must be float32, found {self.weights.dtype}")
        values = [self.bias, self.u, self.u_t, *np.ravel(self.box)]
        if not (np.isfinite(self.weights).all() and np.isfinite(values).all()):
            raise ModelError("a component holds NaN or infinite values; train the model again")
        if np.shape(self.box) != (4,) or self.box[2] <= self.box[0] or self.box[3] <= self.box[1]:
            raise ModelError(f"a component's box must be x1 < x2, y1 < y2, found {self.box}")

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, cols) of the window."""
        return self.weights.shape[0], self.weights.shape[1]

    def mirrored(self, channels: NDArray[np.intp]) -> Component:
        """The component of the flipped image; `channels` says where each channel goes."""
        weights = np.ascontiguousarray(self.weights[:, ::-1][..., channels])
        return Component(weights, self.bias, self.u, self.u_t, mirror(self.box, self.shape[1]))


@dataclass(frozen=True, eq=False, repr=False)
class Mixture:
    """A trained detector of one class (Eqn 4: a window's score is its best component's).

    label       the class
    method      BL: every block counts, padding adds 0. BLT: padding adds u_t. VIS: blocks that do
                not look like the object may be hidden, each for u
    components  the templates
    mirrored    whether each component also looks for its mirror image
    alpha       weight of the Ising prior between neighbouring blocks
    descriptor  the features
    pyramid     the scales
    training    the settings and the history that made it, for the record (JSON values only)
    head        finds the hidden blocks of a detection, better than u does, if learnt
    calibration turns scores into probabilities, if learnt: with the flags of this head
    """

    label: str
    method: Method
    components: tuple[Component, ...]
    mirrored: bool
    alpha: float
    descriptor: Descriptor
    pyramid: PyramidSettings = field(default_factory=PyramidSettings)
    training: dict[str, Any] = field(default_factory=dict)
    head: MaskHead | None = None
    calibration: Calibration | None = None

    def __post_init__(self) -> None:
        if not self.components:
            raise ModelError(f"model {self.label!r} has no components")
        if self.method not in METHODS:
            raise ModelError(
                f"model {self.label!r}: method must be BL, BLT or VIS, found {self.method!r}"
            )
        if not 0 <= self.alpha <= LARGEST:
            raise ModelError(
                f"model {self.label!r}: alpha must be 0 to {LARGEST:g}, found {self.alpha}"
            )
        for component in self.components:
            channels = component.weights.shape[2]
            if channels != self.descriptor.channels:
                raise ModelError(
                    f"model {self.label!r}: a component has {channels} channels, "
                    f"descriptor {self.descriptor.name!r} gives {self.descriptor.channels}"
                )

        if self.head is not None:
            self.head.check([c.weights.shape for c in self.components])
        if self.calibration is not None:
            self.calibration.check(len(self.components))

    def __repr__(self) -> str:
        count = len(self.components)
        parts = [self.label, self.method, f"{count} component{'s' * (count > 1)}"]
        parts.append(f"{self.descriptor.name} blocks")
        parts += ["mask head"] if self.head is not None else []
        parts += ["calibrated"] if self.calibration is not None else []
        return f"Mixture({', '.join(parts)})"

    @property
    def visibility(self) -> bool:
        """Whether hidden blocks are inferred."""
        return self.method == "VIS"

    def templates(self) -> list[tuple[int, bool, Component]]:
        """Every template to look for: (component index, mirrored, component)."""
        plain = [(i, False, component) for i, component in enumerate(self.components)]
        if not self.mirrored:
            return plain
        flip = self.descriptor.mirror
        return plain + [(i, True, c.mirrored(flip)) for i, c in enumerate(self.components)]
