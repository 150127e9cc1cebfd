"""Every choice of training, with its range, default and the paper's value."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from halfseen.errors import SettingsError
from halfseen.features.descriptor import Descriptor, make_descriptor
from halfseen.features.pyramid import PyramidSettings
from halfseen.learn.objective import Objective, Truncation
from halfseen.model.mixture import Method


@dataclass(frozen=True)
class TrainSettings:
    """How a detector is learnt. `TrainSettings.preset("paper")` gives the paper's values.

    method            BL, BLT or VIS (see Mixture)
    descriptor        "fhog" (paper: "hog"), with its `cell` in pixels: 8 (paper: 6)
    pyramid           the scales looked at; see `doubling`
    doubling          images are looked at larger than they are, up to pyramid.largest, only if more
                      than this share of the objects is too small for a window otherwise: it
                      makes four windows of one, and false alarms among them
    components        2 (paper: 2)
    mirrored          whether each component also looks for its mirror image: True (paper: False)
    blocks            a window has about this many: 100
    regularisation    lambda (preset paper: 5; the paper chooses it for each class)
    alpha             weight of the Ising prior, 0.01 to 0.1
    one_u             whether u_t is u (paper: True). Two biases work far better: a block outside
                      the image and one hidden by something say different things
    smoothing         width of the Huber hinge's quadratic part (preset paper: 0.05). The paper's
                      hinge is 0; on its kinks L-BFGS stalls at 6% more energy than with 0.05
    updates           updates of the latent variables (paper: 6)
    rounds            mining rounds at most before the next update (paper: 20)
    mining_images     images from which negatives are mined (paper: 200)
    stop              a mining round that finds fewer new false positives than this for each
                      component is the last before the next update (paper: 200)
    positive_overlap  IoU that a positive window must have with its object: 0.7 (paper: 0.7)
    negative_overlap  IoU with any object of the class above which a window is no negative: 0.3
    per_image         false positives taken from one image in one round
    store_bytes       bound on the memory of the stored negatives
    cache_bytes       bound on the memory of the mining images' cached features
    iterations        L-BFGS iterations at most in one fit
    masks             whether VIS also learns a mask head, as its last step: see `learn_masks`
    calibrate         whether detections also get a probability, learnt from two more models of half
                      the images each: see `learn_calibration`
    seed              of all that is random
    """

    method: Method = "VIS"
    descriptor: str = "fhog"
    cell: int = 8
    pyramid: PyramidSettings = field(default_factory=PyramidSettings)
    doubling: float = 0.3
    components: int = 2
    mirrored: bool = True
    blocks: int = 100
    regularisation: float = 10.0
    alpha: float = 0.02
    one_u: bool = False
    smoothing: float = 0.1
    updates: int = 3
    rounds: int = 4
    mining_images: int = 200
    stop: int = 200
    positive_overlap: float = 0.7
    negative_overlap: float = 0.3
    per_image: int = 100
    store_bytes: int = 700 << 20
    cache_bytes: int = 1200 << 20
    iterations: int = 60
    masks: bool = False
    calibrate: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        ranges = {
            "cell": (2, 64), "doubling": (0, 1), "components": (1, 16), "blocks": (4, 1024),
            "regularisation": (1e-6, 1e9), "alpha": (0, 100),
            "smoothing": (0, 1), "updates": (0, 100), "rounds": (1, 100),
            "mining_images": (1, 10**6), "stop": (0, 10**9), "positive_overlap": (0.1, 1),
            "negative_overlap": (0, 1), "per_image": (1, 10**6), "store_bytes": (1 << 20, 1 << 40),
            "cache_bytes": (0, 1 << 40), "iterations": (1, 10**5), "seed": (0, 2**32 - 1),
        }  # fmt: skip
        for name, (low, high) in ranges.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise SettingsError(f"{name} must be between {low} and {high}, found {value}")
        if self.method not in ("BL", "BLT", "VIS"):
            raise SettingsError(f"method must be BL, BLT or VIS, found {self.method!r}")

    @classmethod
    def preset(cls, name: Literal["default", "paper"], **changes: Any) -> TrainSettings:
        """The settings of a preset, with some changed."""
        if name == "default":
            return replace(cls(), **changes)
        if name == "paper":
            paper = cls(
                descriptor="hog", cell=6, pyramid=PyramidSettings(1.2, 1.0), mirrored=False,
                one_u=True, smoothing=0.05, updates=6, rounds=20, regularisation=5.0,
            )  # fmt: skip
            return replace(paper, **changes)
        raise SettingsError(f"preset must be default or paper, found {name!r}")

    def make_descriptor(self) -> Descriptor:
        return make_descriptor(self.descriptor, cell=self.cell)

    def objective(self, visibility: bool, truncation: bool) -> Objective:
        """The energy of a stage in which flags are inferred and u_t takes part, or not."""
        rule: Truncation = "zero"
        if truncation and self.method != "BL":
            rule = "tied" if self.one_u and self.method == "VIS" else "free"
        return Objective(
            self.regularisation,
            self.alpha,
            visibility and self.method == "VIS",
            rule,
            self.smoothing,
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
