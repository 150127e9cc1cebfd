"""The grouping network: which blocks belong together, so that each is decided with the others."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Float32
from halfseen.errors import ModelError

# Of each block: its logit, whether it is outside, the colours of its quarters, its place.
INPUTS = 1 + 1 + 12 + 2
SHIPPED = Path(__file__).parent.parent / "models" / "grouping.safetensors"
# More channels than any network has, and larger numbers: no sum of their products overflows.
MOST = 128
LARGEST = 100.0


class Network(NamedTuple):
    """The tensors of a `Grouping` as float32."""

    enter: Float32
    enter_bias: Float32
    wide: Float32
    wide_bias: Float32
    pool: Float32
    pool_bias: Float32
    again: Float32
    again_bias: Float32
    repool: Float32
    repool_bias: Float32
    leave: Float32
    leave_bias: Float32
    gain: Float32


@dataclass(frozen=True, eq=False)
class Grouping:
    """A small convolutional network on the blocks of a window; float16, C channels.

    The head decides each block from its nearest surroundings. What hides an object, however, is
    one thing: it has a colour and an outline, and covers blocks side by side. The network knows
    nothing of classes: its input is the head's logits and colours (`INPUTS`), and one serves all.

    enter    3 x 3 blocks, INPUTS to C
    wide     3 x 3 blocks two apart, C to C
    pool     C of the block, their means over blocks of like colours (two measures of likeness) and
             over the window, to C
    again    3 x 3 blocks two apart, C to C, added to what it is given
    repool   like pool
    leave    3 x 3 blocks, C to the new logit, to which `gain` times the old one is added
    """

    enter: NDArray[np.float16]
    enter_bias: NDArray[np.float16]
    wide: NDArray[np.float16]
    wide_bias: NDArray[np.float16]
    pool: NDArray[np.float16]
    pool_bias: NDArray[np.float16]
    again: NDArray[np.float16]
    again_bias: NDArray[np.float16]
    repool: NDArray[np.float16]
    repool_bias: NDArray[np.float16]
    leave: NDArray[np.float16]
    leave_bias: NDArray[np.float16]
    gain: NDArray[np.float16]

    def __post_init__(self) -> None:
        channels = self.enter_bias.size
        if not 1 <= channels <= MOST:
            raise ModelError(f"a grouping network has 1 to {MOST} channels, found {channels}")
        for name, shape in shapes(channels).items():
            tensor = getattr(self, name)
            if tensor.shape != shape or tensor.dtype != np.float16:
                raise ModelError(
                    f"a grouping network's {name} must be {shape} float16, "
                    f"found {tensor.shape} {tensor.dtype}"
                )
            if not (np.abs(tensor) <= LARGEST).all():
                raise ModelError(
                    f"a grouping network's {name} holds NaN or values beyond {LARGEST:g}"
                )

    @classmethod
    def of(cls, tensors: dict[str, NDArray[np.float16]]) -> Grouping:
        """The network of these tensors; ModelError unless they are just those that it needs."""
        expected = {f.name for f in fields(cls)}
        if set(tensors) != expected:
            odd = repr(sorted(expected ^ set(tensors)))[:200]
            raise ModelError(f"a grouping network has tensors too many or too few: {odd}")
        return cls(**tensors)

    @cached_property
    def ready(self) -> Network:
        """The tensors as the kernels take them."""
        return Network(*(tensor.astype(np.float32) for tensor in self.tensors().values()))

    def tensors(self) -> dict[str, NDArray[np.float16]]:
        """By name, as they are stored."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def shapes(channels: int) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor of a network of so many channels."""
    c = channels
    return {
        "enter": (9 * INPUTS, c), "enter_bias": (c,),
        "wide": (9 * c, c), "wide_bias": (c,),
        "pool": (4 * c, c), "pool_bias": (c,),
        "again": (9 * c, c), "again_bias": (c,),
        "repool": (4 * c, c), "repool_bias": (c,),
        "leave": (9 * c, 1), "leave_bias": (1,), "gain": (1,),
    }  # fmt: skip


@cache
def shipped_grouping() -> Grouping:
    """The network that comes with halfseen."""
    from safetensors.numpy import load_file

    return Grouping.of(load_file(SHIPPED))
