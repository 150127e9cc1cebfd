"""What a descriptor must offer, and the table of descriptors by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Float32
from halfseen.errors import ModelError


@runtime_checkable
class Descriptor(Protocol):
    """Maps a level of the pyramid to a grid of blocks.

    name      the name under which it is registered; stored in the model file
    cell      pixels from one block to the next
    channels  numbers a block
    offset    pixels from the level's corner to the corner of the first block's own square. Block
              (r, c) owns the square of `cell` pixels at `offset + cell * (r, c)`: visibility flags
              are of these squares, and boxes are counted in them.
    mirror    (channels,) such that the features of a flipped level are `f[:, ::-1][..., mirror]`
    """

    @property
    def name(self) -> str: ...
    @property
    def cell(self) -> int: ...
    @property
    def channels(self) -> int: ...
    @property
    def offset(self) -> float: ...
    @property
    def mirror(self) -> NDArray[np.intp]: ...

    def grid(self, height: int, width: int) -> tuple[int, int]:
        """(rows, cols) of blocks of a level of this size; (0, 0) where it is too small."""

    def __call__(self, level: Float32) -> Float32:
        """(rows, cols, channels) float32 of a level (channels, height, width) float32 in 0..255.

        One channel is grey, three are colour; planes, so that loops over x vectorise.
        """

    def options(self) -> dict[str, Any]:
        """The JSON values with which `register`'s factory makes this descriptor again."""


def describe(descriptor: Descriptor, level: Float32) -> Float32:
    """Return the features of a level (rows, cols, channels) in the order that costs least.

    A descriptor may offer `planes(level)`, (channels, rows, cols): search multiplies by planes.
    """
    planes: Callable[..., Float32] | None = getattr(descriptor, "planes", None)
    return descriptor(level) if planes is None else planes(level).transpose(1, 2, 0)


_registered: dict[str, Callable[..., Descriptor]] = {}


def register(name: str, factory: Callable[..., Descriptor]) -> None:
    """Make a descriptor known by name, so that a model file that names it can be loaded."""
    _registered[name] = factory


def known_descriptors() -> dict[str, Callable[..., Descriptor]]:
    """Return what makes each descriptor, by name: our own, and those registered."""
    from halfseen.features.fhog import Fhog
    from halfseen.features.hog import Hog
    from halfseen.features.net import Net

    return {"fhog": Fhog, "hog": Hog, "net": Net, **_registered}


def make_descriptor(name: str, **options: Any) -> Descriptor:
    """Return the descriptor of this name; `net:NAME` is `net` on the backbone NAME."""
    known = known_descriptors()
    name, _, backbone = name.partition(":")
    if name not in known:
        raise ModelError(
            f"unknown descriptor {name!r}; known: {', '.join(sorted(known))}. "
            "Import the module that registers it first"
        )
    return known[name](**options, **({"backbone": backbone} if backbone else {}))
