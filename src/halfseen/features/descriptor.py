"""What a descriptor must offer, and how a model file names one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from halfseen.errors import ModelError


@runtime_checkable
class Descriptor(Protocol):
    """Maps a level of the pyramid to a grid of blocks.

    name      the name under which it is registered; stored in the model file
    cell      pixels from one block to the next
    channels  numbers a block
    offset    pixels from the level's corner to the corner of the first block's own square. Block
              (r, c) owns the square of `cell` pixels at `offset + cell * (r, c)`: this is what a
              visibility flag speaks about, and what boxes are counted in.
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

    def __call__(self, level: NDArray[np.float32]) -> NDArray[np.float32]:
        """(rows, cols, channels) float32 of a level (channels, height, width) float32 in 0..255.

        One channel is grey, three are colour; planes, so that loops over x vectorise.
        """

    def options(self) -> dict[str, Any]:
        """The JSON values with which `register`'s factory makes this descriptor again."""


_factories: dict[str, Callable[..., Descriptor]] = {}


def register(name: str, factory: Callable[..., Descriptor]) -> None:
    """Makes a descriptor known by name, so that a model file that names it can be loaded."""
    _factories[name] = factory


def make_descriptor(name: str, **options: Any) -> Descriptor:
    """The registered descriptor of this name."""
    from halfseen.features import fhog, hog  # noqa: F401  (they register themselves)

    if name not in _factories:
        raise ModelError(
            f"unknown descriptor {name!r}; known: {', '.join(sorted(_factories))}. "
            "Import the module that registers it first"
        )
    return _factories[name](**options)
