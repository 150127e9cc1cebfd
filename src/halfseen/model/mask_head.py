"""The mask head: which blocks look hidden, by their surroundings, and which belong together."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from halfseen.arrays import Float32
from halfseen.errors import ModelError
from halfseen.settings import Checked, number

# A block is decided from itself and its eight neighbours.
REACH = 1
SIDE = 2 * REACH + 1
# Beyond what any logit is.
LARGEST = 1e6
# Of each block: its logit, whether it is outside, the colours of its quarters, its place.
INPUTS = 1 + 1 + 12 + 2
SHIPPED = Path(__file__).parent.parent / "models" / "grouping.safetensors"
# More channels than any network has, and larger numbers: no sum of their products overflows.
MOST_CHANNELS = 128
LARGEST_TENSOR = 100.0


@dataclass(frozen=True)
class HiddenSettings(Checked):
    """How hidden blocks are found, as chosen on VOC train.

    contrast     how fast the weight of a pair of neighbours falls with their difference of colour
    clip         logits are cut to this for the grouping network
    logit_unit   of its inputs, and
    colour_unit  of theirs, so that all are of about the same size
    """

    about = "a mask head's "

    contrast: float = number(3.0, 1e-3, 1e3)
    clip: float = number(8.0, 1e-3, 1e3)
    logit_unit: float = number(2.0, 1e-3, 1e3)
    colour_unit: float = number(20.0, 1e-3, 1e3)


@dataclass(frozen=True)
class FigureSettings(Checked):
    """How object and ground are told apart by colour, as chosen on VOC train.

    ring      blocks around the window whose colours count as well
    near      how far from the box they are its ground, in blocks: most of the ground lies there,
              and little that is like the object
    width     of the kernel between colours, in Lab
    unseen    added to a density of colours, so that a colour found nowhere decides little
    place     weight of a block's place, and
    neutral   the place that favours neither (the box's centre is 1, its rim 0)
    alpha     weight of a pair of neighbours of the same colour
    contrast  as in `HiddenSettings`
    least     a figure of a smaller share of the box's blocks is dropped: all that is visible stays
    """

    about = "a mask head's "

    ring: int = number(4, 1, 16)
    near: float = number(2.0, 0, 1e3)
    width: float = number(6.0, 1e-3, 1e3)
    unseen: float = number(0.01, 1e-6, 1e3)
    place: float = number(4.0, 0, 1e3)
    neutral: float = number(0.1, 0, 1e3)
    alpha: float = number(4.0, 0, 1e3)
    contrast: float = number(3.0, 0, 1e3)
    least: float = number(0.1, 0, 1e3)


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
        if not 1 <= channels <= MOST_CHANNELS:
            raise ModelError(
                f"a grouping network has 1 to {MOST_CHANNELS} channels, found {channels}"
            )
        for name, shape in shapes(channels).items():
            tensor = getattr(self, name)
            if tensor.shape != shape or tensor.dtype != np.float16:
                raise ModelError(
                    f"a grouping network's {name} must be {shape} float16, "
                    f"found {tensor.shape} {tensor.dtype}"
                )
            if not (np.abs(tensor) <= LARGEST_TENSOR).all():
                raise ModelError(
                    f"a grouping network's {name} holds NaN or values beyond {LARGEST_TENSOR:g}"
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
    def ready(self) -> dict[str, Float32]:
        """The tensors by name, as float32."""
        return {name: tensor.astype(np.float32) for name, tensor in self.tensors().items()}

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


@dataclass(frozen=True, eq=False)
class MaskHead:
    """A logit of "hidden" for each block: l_i = bias_i + weights_i . (3 x 3 blocks around i).

    The most probable flags minimise, over the blocks inside the image,

        sum_i (g_i - cutoff) [i is visible] + alpha sum_ij e_ij [v_i != v_j]

    where g_i is what the grouping network makes of all logits of the window (without one, l_i), and
    e_ij = exp(-contrast d_ij^2 / mean d^2) falls with the difference d_ij of the colours of two
    neighbours.

    weights   for each component (rows, cols, 3, 3, channels) float16
    bias      for each component (rows, cols) float32
    alpha     weight of the Ising prior, in units of the logits
    cutoff    for each component the logit above which a block counts as hidden: the operating
              point; () for 0
    grouping  None if each block is decided for itself
    figure    for each component (rows, cols) float32: the share of whole objects in which a block
              shows the object and not its background; () if that is not known
    looks     for each component (channels + 1,) float32: what a block's features, and last a
              constant, add to the logit of its share in `figure`; () if that is not known
    settings  of finding hidden blocks
    figures   of telling object from ground
    """

    weights: tuple[NDArray[np.float16], ...]
    bias: tuple[Float32, ...]
    alpha: float
    cutoff: tuple[float, ...] = ()
    grouping: Grouping | None = None
    figure: tuple[Float32, ...] = ()
    looks: tuple[Float32, ...] = ()
    settings: HiddenSettings = field(default_factory=HiddenSettings)
    figures: FigureSettings = field(default_factory=FigureSettings)

    def __post_init__(self) -> None:
        if not self.cutoff:
            object.__setattr__(self, "cutoff", (0.0,) * len(self.weights))
        if not 0 <= self.alpha <= LARGEST:
            raise ModelError(f"a mask head's alpha must be 0 to {LARGEST:g}, found {self.alpha}")
        self._check_cutoff()
        self._check_weights()
        self._check_figure()

    def _check_cutoff(self) -> None:
        if len(self.cutoff) != len(self.weights):
            raise ModelError(
                f"a mask head needs a cutoff for each of its {len(self.weights)} components, "
                f"found {len(self.cutoff)}"
            )
        if not (np.abs(self.cutoff) <= LARGEST).all():
            raise ModelError(f"a mask head's cutoff is NaN or beyond {LARGEST:g}")

    def _check_weights(self) -> None:
        if len(self.weights) != len(self.bias):
            raise ModelError(
                f"a mask head needs a bias for each of its {len(self.weights)} components, "
                f"found {len(self.bias)}"
            )
        for weights, bias in zip(self.weights, self.bias, strict=True):
            if weights.ndim != 5 or weights.shape[2:4] != (SIDE, SIDE):
                raise ModelError(
                    f"a mask head's weights must be (rows, cols, 3, 3, channels), "
                    f"found {weights.shape}"
                )
            if weights.dtype != np.float16 or bias.dtype != np.float32:
                raise ModelError(
                    f"a mask head's weights must be float16 and its bias float32, "
                    f"found {weights.dtype} and {bias.dtype}"
                )
            if bias.shape != weights.shape[:2]:
                raise ModelError(
                    f"a mask head's bias must be {weights.shape[:2]}, found {bias.shape}"
                )
            if not (np.isfinite(weights).all() and np.isfinite(bias).all()):
                raise ModelError("a mask head holds NaN or infinite values; train the model again")

    def _check_figure(self) -> None:
        if self.figure and [f.shape for f in self.figure] != [b.shape for b in self.bias]:
            raise ModelError(
                f"a mask head's figures must be {[b.shape for b in self.bias]}, "
                f"found {[f.shape for f in self.figure]}"
            )
        for figure in self.figure:
            if figure.dtype != np.float32 or not ((figure > 0) & (figure < 1)).all():
                raise ModelError("a mask head's figures must be float32 and between 0 and 1")
        lengths = [(w.shape[4] + 1,) for w in self.weights]
        if self.looks and ([v.shape for v in self.looks] != lengths or not self.figure):
            raise ModelError(
                f"a mask head's looks must be {lengths} beside its figures, "
                f"found {[v.shape for v in self.looks]}"
            )
        for looks in self.looks:
            if looks.dtype != np.float32 or not (np.abs(looks) <= LARGEST).all():
                raise ModelError(f"a mask head's looks must be float32 and at most {LARGEST:g}")

    def check(self, shapes: list[tuple[int, int, int]]) -> None:
        """ModelError unless it belongs to components of these (rows, cols, channels)."""
        own = [(*w.shape[:2], w.shape[4]) for w in self.weights]
        if own != shapes:
            raise ModelError(f"a mask head for components of {own}, but the model has {shapes}")

    def template(self, component: int, mirror: NDArray[np.intp] | None) -> tuple[Float32, Float32]:
        """Weights and bias of a component as float32; of its mirror image if `mirror` is given."""
        weights, bias = self.weights[component].astype(np.float32), self.bias[component]
        if mirror is not None:
            weights, bias = weights[:, ::-1, :, ::-1][..., mirror], bias[:, ::-1]
        return np.ascontiguousarray(weights), np.ascontiguousarray(bias)
