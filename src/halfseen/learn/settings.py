"""Every choice of training, with its range, default and the paper's value."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, TypeVar

from halfseen.errors import SettingsError, suggest
from halfseen.features.descriptor import Descriptor, known_descriptors, make_descriptor
from halfseen.features.pyramid import PyramidSettings
from halfseen.learn.latent import Fit
from halfseen.learn.objective import Objective, Truncation
from halfseen.model.mixture import Method
from halfseen.settings import Checked, number

Settings = TypeVar("Settings")


@dataclass(frozen=True)
class MaskSettings(Checked):
    """How a mask head is learnt, as chosen on VOC train.

    windows        about how many windows with pasted occluders
    fewest, most   of them for each object
    overlap        IoU that a window must have with its object
    shift, zoom    greatest move of a window, in blocks, and change of its size: windows of
                   detections do not fit as well as those chosen for an object
    clean          one in so many windows has nothing pasted over it
    shares         least and greatest share of a window that is covered
    neighbours     share of occluders that are pictures of objects; the others are textures
    textures       images that these are cut from
    pictures       of objects of one class, at most, with
    picture_side   pixels at most on their longest side, of boxes with
    least_side     pixels at least on their shortest
    move           how far a neighbour is moved from where one stood, in sides of the object's box
    shared_ridge   of what the regressions of all blocks of a component share
    own_ridge      of how far each block departs from it
    iterations     of a regression, at most
    shared_blocks  about how many blocks the shared regression is fitted to
    false_hidden   the share of the visible blocks of held-out whole objects that may be called
                   hidden: what sets the operating point
    alpha          weight of the contrast-sensitive Ising prior, in units of the logits
    grouping       whether the shipped grouping network is applied to the logits of a window
    folds          parts of the objects; each is decided by a head that was fitted to the others
    least_objects  fewer whole objects of a component than this teach no head
    figure_rounds  how often typical figures are found, each time with those found before
    figure_doubt   so many objects with no known figure count as well, so that no block is figure,
                   or ground, for certain
    figure_ridge   of the regression that tells figure from ground by what a block looks like
    """

    windows: int = number(16000, 1, 10**7)
    fewest: int = number(6, 1, 10**4)
    most: int = number(60, 1, 10**4)
    overlap: float = number(0.7, 0.1, 1)
    shift: float = number(0.6, 0, 4)
    zoom: float = number(0.1, 0, 0.9)
    clean: int = number(5, 2, 10**4)
    shares: tuple[float, float] = (0.1, 0.7)
    neighbours: float = number(0.5, 0, 1)
    textures: int = number(100, 1, 10**5)
    pictures: int = number(100, 1, 10**5)
    picture_side: int = number(160, 8, 4096)
    least_side: int = number(40, 1, 4096)
    move: float = number(0.05, 0, 1)
    shared_ridge: float = number(0.01, 1e-9, 1e9)
    own_ridge: float = number(0.3, 1e-9, 1e9)
    iterations: int = number(25, 1, 10**5)
    shared_blocks: int = number(60_000, 1, 10**8)
    false_hidden: float = number(0.075, 0, 1)
    alpha: float = number(1.0, 0, 1e6)
    grouping: bool = True
    folds: int = number(3, 2, 100)
    least_objects: int = number(4, 2, 10**6)
    figure_rounds: int = number(3, 1, 100)
    figure_doubt: float = number(5.0, 1e-3, 1e6)
    figure_ridge: float = number(0.1, 1e-6, 1e6)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.shares) != 2 or not 0 <= self.shares[0] <= self.shares[1] < 1:
            raise SettingsError(f"shares must rise from 0 to below 1, found {self.shares}")

    def count(self, objects: int) -> int:
        """How many windows are made of each of so many objects, beside the one as it is."""
        return min(max(round(self.windows / max(objects, 1)), self.fewest), self.most)


@dataclass(frozen=True)
class CalibrateSettings(Checked):
    """How a calibration is learnt, as chosen on VOC train.

    folds           parts of the images; the detections in each are those of a model of the others
    sparse          one in so many of the held-out images without the class is used
    covered_share   of whole objects, covered by texture in images that are used once more
    textures        images that the texture over one image comes from
    covered_weight  of a detection in such an image
    shared_ridge    of what all components share
    own_ridge       of how far each component departs from it
    alarms          so many of the strongest false alarms are compared, for each image
    least_right     fewer right detections than this teach no calibration
    """

    folds: int = number(2, 2, 20)
    sparse: int = number(3, 1, 10**6)
    covered_share: float = number(0.4, 0, 0.95)
    textures: int = number(3, 1, 100)
    covered_weight: float = number(0.3, 0, 100)
    shared_ridge: float = number(1.0, 1e-9, 1e9)
    own_ridge: float = number(100.0, 1e-9, 1e9)
    alarms: float = number(0.1, 0, 100)
    least_right: int = number(10, 1, 10**9)


@dataclass(frozen=True)
class TrainSettings(Checked):
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
    completed         whether occluded objects may also take larger windows that contain what is
                      seen of them, with hidden blocks beyond it: True (paper: no other windows)
    contracted        whether the box around the visible blocks must have that IoU as well: False
                      (preset paper: True; the paper says "the detection", whose box is that one)
    negative_overlap  IoU with any object of the class above which a window is no negative: 0.3
    per_image         false positives taken from one image in one round
    store_bytes       bound on the memory of the stored negatives
    cache_bytes       bound on the memory of the mining images' cached features
    iterations        L-BFGS iterations at most in one fit
    masks             whether VIS also learns a mask head: see `learn_masks`
    mask_head         how
    calibrate         whether detections also get a probability, learnt from two more models of half
                      the images each: see `learn_calibration`
    calibration       how
    seed              of all that is random
    """

    method: Method = "VIS"
    descriptor: str = "fhog"
    cell: int = number(8, 2, 64)
    pyramid: PyramidSettings = field(default_factory=PyramidSettings)
    doubling: float = number(0.3, 0, 1)
    components: int = number(2, 1, 16)
    mirrored: bool = True
    blocks: int = number(100, 4, 1024)
    regularisation: float = number(10.0, 1e-6, 1e9)
    alpha: float = number(0.02, 0, 100)
    one_u: bool = False
    smoothing: float = number(0.1, 0, 1)
    updates: int = number(3, 0, 100)
    rounds: int = number(4, 1, 100)
    mining_images: int = number(200, 1, 10**6)
    stop: int = number(200, 0, 10**9)
    positive_overlap: float = number(0.7, 0.1, 1)
    completed: bool = True
    contracted: bool = False
    negative_overlap: float = number(0.3, 0, 1)
    per_image: int = number(100, 1, 10**6)
    store_bytes: int = number(700 << 20, 1 << 20, 1 << 40)
    cache_bytes: int = number(1200 << 20, 0, 1 << 40)
    iterations: int = number(60, 1, 10**5)
    masks: bool = False
    mask_head: MaskSettings = field(default_factory=MaskSettings)
    calibrate: bool = False
    calibration: CalibrateSettings = field(default_factory=CalibrateSettings)
    seed: int = number(0, 0, 2**32 - 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in ("BL", "BLT", "VIS"):
            raise SettingsError(f"method must be BL, BLT or VIS, found {self.method!r}")
        name = self.descriptor.partition(":")[0]
        if name not in known_descriptors():
            raise SettingsError(f"no descriptor {name!r}; {suggest(name, known_descriptors())}")

    @classmethod
    def preset(cls, name: Literal["default", "paper", "net"], **changes: Any) -> TrainSettings:
        """The settings of a preset, with some changed."""
        if name == "default":
            return replace(cls(), **changes)
        if name == "paper":
            paper = cls(
                descriptor="hog", cell=6, pyramid=PyramidSettings(1.2, 1.0), mirrored=False,
                one_u=True, smoothing=0.05, updates=6, rounds=20, regularisation=5.0,
                completed=False, contracted=True,
            )  # fmt: skip
            return replace(paper, **changes)
        if name == "net":
            net = cls(
                descriptor="net", cell=16, pyramid=PyramidSettings(1.25, 2.0), doubling=0.0,
                blocks=64, components=3, store_bytes=350 << 20,
            )  # fmt: skip
            return replace(net, **changes)
        raise SettingsError(f"preset must be default, paper or net, found {name!r}")

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

    @property
    def fit(self) -> Fit:
        """Which windows may be an object's."""
        return Fit(self.positive_overlap, self.completed, self.contracted)

    @property
    def with_head(self) -> bool:
        """Whether a mask head is learnt: only VIS has hidden blocks."""
        return self.masks and self.method == "VIS"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, recorded: dict[str, Any]) -> TrainSettings:
        """The settings that a model's file records; the defaults of those it does not name.

        TypeError, ValueError, AttributeError or SettingsError for what are no settings.
        """
        kinds = {
            "pyramid": PyramidSettings,
            "mask_head": MaskSettings,
            "calibration": CalibrateSettings,
        }
        return _from_json(
            cls, {k: _from_json(kinds[k], v) if k in kinds else v for k, v in recorded.items()}
        )


def _from_json(kind: type[Settings], recorded: dict[str, Any]) -> Settings:
    """JSON has lists where settings have tuples, and an older file may have other names."""
    names = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    known = {k: tuple(v) if isinstance(v, list) else v for k, v in recorded.items() if k in names}
    return kind(**known)
