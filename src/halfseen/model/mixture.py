"""A mixture of components: one object class, and all that is needed to look for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from halfseen.errors import ModelError
from halfseen.features.descriptor import Descriptor
from halfseen.features.pyramid import PyramidSettings
from halfseen.model.calibration import Calibration
from halfseen.model.component import Component
from halfseen.model.mask_head import MaskHead

Method = Literal["BL", "BLT", "VIS"]


@dataclass(frozen=True, eq=False)
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
    head        what tells which blocks of a detection are hidden, better than u does, if learnt
    calibration what makes probabilities of detections, if learnt: with the flags of this head
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
        if self.method not in ("BL", "BLT", "VIS"):
            raise ModelError(
                f"model {self.label!r}: method must be BL, BLT or VIS, found {self.method!r}"
            )
        if not 0 <= self.alpha < float("inf"):
            raise ModelError(f"model {self.label!r}: alpha must be 0 or more, found {self.alpha}")
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
