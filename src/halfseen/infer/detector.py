"""The detector: from an image to objects, with what is visible of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfseen.compute import free_cores, spread
from halfseen.data.image import as_image, read_image
from halfseen.detections import Detections
from halfseen.errors import SettingsError
from halfseen.features.pyramid import Level, LevelPlan
from halfseen.infer.boxes import predicted_boxes
from halfseen.infer.calibration import LOWEST, Floats, Known, probabilities
from halfseen.infer.levels import batches, describe, fits, fitting_levels, shared_features
from halfseen.infer.masks import Masker, SeenLevels, Verdict, find_masks, with_flags
from halfseen.infer.planes import MirrorBasis, Planes
from halfseen.infer.refine import corrected_boxes
from halfseen.infer.responses import ModelSearch
from halfseen.infer.showing import Masks, look_at, parts_alike, show
from halfseen.infer.telling import told
from halfseen.model.calibration import TOLD
from halfseen.model.mixture import Mixture
from halfseen.suppress import suppress
from halfseen.suppress.interpretation import Interpretation

Image = NDArray[np.uint8] | str | PathLike[str]
Visibility = Literal["default", "head", "paper"]
# Methods of suppression that look at the flags.
BY_FLAGS = ("covering",)

# glibc hands freed memory back to the system beyond twice the largest block freed so far (mallopt's
# dynamic threshold), and every image would fault its arrays in again, for a third of its time. This
# block is never touched, so it costs nothing; its release raises the threshold.
np.empty(31 << 20, np.uint8)


class Choice(NamedTuple):
    """What suppression kept of an image's candidates.

    The flags of `candidates` are those that suppression saw: of methods that look at none, the
    paper's.
    """

    kept: Detections
    candidates: Detections
    suppression: Interpretation


class Detector:
    """Looks for the objects of one or more models. Holds no state: one may serve many threads.

    Models with the same descriptor share the features of an image where their pyramids are one, or
    one is the other from some level on.

    visibility  where the flags of detections come from. "paper": from the maximum of Eqn 1, which
                decides their scores. "head": from the models' mask heads, which every model must
                have. "default": from the mask head of each model that has one. Scores are the same.
    cores       among which several models are shared out; None for those that are free: all, but
                where `map_images` works on several images at once, its share. One model needs one.
                What is found does not depend on it.
    """

    def __init__(
        self,
        models: Mixture | Sequence[Mixture],
        visibility: Visibility = "default",
        cores: int | None = None,
    ) -> None:
        self.models = (models,) if isinstance(models, Mixture) else tuple(models)
        if not self.models:
            raise SettingsError("a detector needs at least one model")
        if visibility not in ("default", "head", "paper"):
            raise SettingsError(f"visibility must be default, head or paper, found {visibility!r}")
        if cores is not None and cores < 1:
            raise SettingsError(f"cores must be at least 1, found {cores}")
        self.cores = cores
        self._templates = [model.templates() for model in self.models]
        self._shapes = [{c.shape for c in model.components} for model in self.models]
        self._groups, self._first = shared_features(self.models)
        self._bases: list[MirrorBasis | None] = [None] * len(self.models)
        for group in self._groups:
            shared = MirrorBasis(self.models[group[0]].descriptor.mirror)
            for m in group:
                self._bases[m] = shared if self.models[m].mirrored else None
        self._maskers = [
            Masker(model)
            if visibility == "head" or (visibility == "default" and model.head is not None)
            else None
            for model in self.models
        ]
        # A calibration was learnt with the flags of its model's head.
        self._calibrations = [
            None if model.head is not None and visibility == "paper" else model.calibration
            for model in self.models
        ]

    def detect(
        self,
        image: Image,
        threshold: float = -1.0,
        method: str = "voting",
        **settings: Any,
    ) -> Detections:
        """The objects of an image (H, W, 3) uint8 or a path, best first, duplicates suppressed.

        threshold   the lowest score h(x) reported (the paper's t)
        method      of suppression, with its `overlap` and other settings: see `hs.suppress`
        The `score` of what is returned is the method's rank: for voting h(x), raised by the votes
        of what it suppressed, as far as that reaches the threshold; for greedy suppression h(x).
        An image smaller than every window gives no detections. Calibrated models also give each
        detection a `probability`; it depends neither on the threshold nor on the rank.
        """
        return self.choose(image, threshold, method, **settings).kept

    def choose(
        self, image: Image, threshold: float = -1.0, method: str = "voting", **settings: Any
    ) -> Choice:
        """The same as `detect`, with what was chosen from and why."""
        pixels = as_image(image) if isinstance(image, np.ndarray) else read_image(image)
        # Candidates below the threshold have a say in the probability of those above it.
        calibrated = any(c is not None for c in self._calibrations)
        parts, seen = self._search(pixels, min(threshold, LOWEST) if calibrated else threshold)
        owner = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        everything = Detections.concatenate(parts)
        order = np.argsort(-everything.score, kind="stable")
        everything, owner = everything[order], owner[order]
        found = everything[: int((everything.score >= threshold).sum())]
        masks = None
        if method in BY_FLAGS:
            masks = self._with_masks(pixels, found, owner[: len(found)], seen, calibrated)
            found = masks.found
        suppression = suppress(found, method, **settings)
        own = owner[suppression.indices]
        if masks is None:
            kept = found[suppression.indices]
            masks = self._with_masks(pixels, kept, own, seen, calibrated, contract=False)
        else:
            masks = masks.some(suppression.indices)
        kept, told = self._shown(pixels, masks, own)
        if calibrated:
            kept = self._with_probability(kept, own, told, everything, owner)
        return Choice(replace(kept, score=suppression.rank), found, suppression)

    def known_by_model(
        self, image: Image, candidates: Sequence[Detections] | None = None
    ) -> list[Known]:
        """What the calibration of each model is learnt from: what greedy suppression keeps.

        candidates   those of each model that reach -1, if they are there already
        """
        pixels = as_image(image) if isinstance(image, np.ndarray) else read_image(image)
        if candidates is None:
            candidates, seen = self._search(pixels, LOWEST)
        else:
            if len(candidates) != len(self.models):
                raise SettingsError(
                    f"candidates of {len(candidates)} models, but the detector has "
                    f"{len(self.models)}"
                )
            for part in candidates:
                _check_size(pixels, part)
            seen = [
                self._levels(pixels, group)
                if any(self._maskers[m] and len(candidates[m]) for m in group)
                else SeenLevels(keep=False)
                for group in self._groups
            ]
        result = []
        for m, part in enumerate(candidates):
            kept = part[suppress(part, "greedy").indices]
            owner = np.full(len(kept), m)
            masks = self._with_masks(pixels, kept, owner, seen, asked=True, contract=False)
            kept, told = masks.found, np.zeros((len(kept), len(TOLD)))
            if self._maskers[m]:
                headed, told = look_at(pixels, masks, self._owners(owner))
                boxes = corrected_boxes(kept, headed.seen.away)
                kept = with_flags(kept, kept.visibility, boxes)
            result.append(Known(kept, part, told))
        return result

    def candidates(self, image: Image, threshold: float = -1.0) -> Detections:
        """Every window that reaches the threshold, best first, before suppression.

        But none of which nothing is visible: whatever its score, it shows no object.
        """
        found = self.candidates_by_model(image, threshold)
        return found[0] if len(found) == 1 else Detections.concatenate(found).sorted()

    def candidates_by_model(
        self, image: Image, threshold: float = -1.0, most: int | None = None
    ) -> list[Detections]:
        """The candidates of each model apart, best first; at most so many, which costs less."""
        pixels = as_image(image) if isinstance(image, np.ndarray) else read_image(image)
        found, seen = self._search(pixels, threshold, most)
        if most is not None:
            found = [part[:most] for part in found]
        return [
            self._with_masks(pixels, part, np.full(len(part), m), seen).found
            for m, part in enumerate(found)
        ]

    def finish(self, image: Image, kept: Detections, model: int = 0) -> Detections:
        """Candidates of a model of which suppression has kept these, as `detect` returns them: with
        figures, the boxes of these, and less of what stands behind others.
        """
        if model not in range(len(self.models)):
            raise SettingsError(f"model must be 0 to {len(self.models) - 1}, found {model}")
        self._check_windows(kept, model)
        pixels = as_image(image) if isinstance(image, np.ndarray) else read_image(image)
        _check_size(pixels, kept)
        masks = Masks(kept, np.zeros(len(kept)), [None] * len(kept))
        if self._maskers[model] and len(kept):
            # The flags are there, but not the logits that a second look needs.
            masks = self.masks_of(pixels, kept, model)
        return self._shown(pixels, masks, np.full(len(kept), model))[0]

    def look_again(self, image: Image, found: Detections) -> Detections:
        """The same windows of a detector with one model, as its mask head sees them in this image.

        Their scores stay; their boxes are corrected anew. For another picture of the same objects,
        such as one with an occluder.
        """
        if len(self.models) != 1:
            raise SettingsError(f"look_again needs a detector of one model, not {len(self.models)}")
        if self._maskers[0] is None:
            raise SettingsError("look_again needs a detector that uses its model's mask head")
        self._check_windows(found, 0)
        pixels = as_image(image) if isinstance(image, np.ndarray) else read_image(image)
        _check_size(pixels, found)
        found = replace(found, full=predicted_boxes(self.models[0], found))
        masks = self.masks_of(pixels, found, 0)
        return self._shown(pixels, masks, np.zeros(len(found), np.int64))[0]

    def _check_windows(self, found: Detections, m: int) -> None:
        """SettingsError unless these are windows of model m."""
        shapes = [component.shape for component in self.models[m].components]
        own = {(index, mirrored): part.shape for index, mirrored, part in self._templates[m]}
        keys = zip(found.component.tolist(), found.mirrored.tolist(), strict=True)
        for (component, mirrored), flags in zip(keys, found.visibility, strict=True):
            if own.get((component, mirrored)) != flags.shape:
                raise SettingsError(
                    f"a {'mirrored ' if mirrored else ''}window of component {component} with "
                    f"{flags.shape} blocks is not of this model, whose components have {shapes}"
                )
        if not (found.window[:, :2] < found.window[:, 2:]).all():
            raise SettingsError("a window of a detection is empty")

    def masks_of(self, pixels: NDArray[np.uint8], found: Detections, m: int = 0) -> Masks:
        """Windows of model m, with the flags of its mask head in this image."""
        seen = [
            self._levels(pixels, group) if m in group else SeenLevels(keep=False)
            for group in self._groups
        ]
        if not any(levels.scales for levels in seen):
            raise SettingsError("no window fits into this image: it is too small")
        return self._with_masks(pixels, found, np.full(len(found), m), seen, contract=False)

    def _search(
        self, pixels: NDArray[np.uint8], threshold: float, most: int | None = None
    ) -> tuple[list[Detections], list[SeenLevels]]:
        """The candidates of each model with the paper's flags, and the levels of each group."""
        if np.isnan(threshold):
            raise SettingsError("threshold must be a number, found nan")
        found: list[Detections] = [Detections.empty(_size(pixels)) for _ in self.models]
        seen = []
        with spread(self._cores()) as each:
            for group in self._groups:
                bases = {self._bases[m] for m in group}
                searches: dict[int, ModelSearch] = {}
                looked = SeenLevels(keep=any(self._maskers[m] is not None for m in group))
                runs = list(batches(self._plans(pixels, group)))
                left_out = self.models[group[0]].pyramid.left_out(_size(pixels))
                for batch in runs:
                    number = left_out + len(looked.scales)
                    made = each(partial(self._make, group, bases), batch)
                    for plan, (features, _) in zip(batch, made, strict=True):
                        looked.add((plan.scale_x, plan.scale_y), features)
                    planes = {b: Planes.join([planes[b] for _, planes in made]) for b in bases}
                    look = partial(self._look, searches, threshold, most, planes, number)
                    if batch is not runs[-1]:
                        each(look, group)
                        continue
                    # With the last levels in one go, so that threads wait for each other least.
                    scales = np.array(looked.scales)
                    end = partial(self._end, searches, scales, left_out, _size(pixels), look)
                    for m, part in zip(group, each(end, group), strict=True):
                        found[m] = part
                seen.append(looked)
        return found, seen

    def _look(
        self,
        searches: dict[int, ModelSearch],
        threshold: float,
        most: int | None,
        levels: dict[MirrorBasis | None, Planes],
        number: int,
        m: int,
    ) -> None:
        """Shows model m those of the levels, the first of this number, that it looks at alone.

        They are a run of the group's: another model may begin with a larger one, and its windows
        may fit one that is too small for all of this one's.
        """
        if m not in searches:
            # A window that is not among the best of its component has `most` better places, so it
            # is not among the model's best either.
            basis = self._bases[m]
            searches[m] = ModelSearch(self.models[m], threshold, basis, most, blank=False)
        planes = levels[self._bases[m]]
        first = max(self._first[m] - number, 0)
        which = range(first, len(planes.sizes))
        searches[m].look(planes, [k for k in which if fits(*planes.sizes[k], self._shapes[m])])

    def _with_masks(
        self,
        pixels: NDArray[np.uint8],
        found: Detections,
        owner: NDArray[np.int64],
        seen: list[SeenLevels],
        asked: bool = False,
        contract: bool = True,
    ) -> Masks:
        """The detections, each of the model that owns it, with the flags of the mask heads.

        asked      also what is visible of each says for it
        contract   also `visible`, the box around the flags; not needed where figures follow
        """
        visible = np.zeros(len(found))
        judged: list[Verdict | None] = [None] * len(found)
        if not any(self._maskers):
            return Masks(found, visible, judged)
        flags = list(found.visibility)
        masked = False

        def mask(
            features: dict[int, NDArray[np.float32]], scales: Floats, mine: NDArray[np.int64]
        ) -> None:
            maskers = [masker for masker in self._owners(owner[mine]) if masker]
            own = found[mine] if len(mine) < len(found) else found
            for n, grid, says, said in find_masks(pixels, own, maskers, features, scales, asked):
                flags[mine[n]], visible[mine[n]], judged[mine[n]] = grid, says, said

        cores = self._cores()
        with spread(cores) as each:
            for group, looked in zip(self._groups, seen, strict=True):
                headed = [m for m in group if self._maskers[m]]
                mine = np.array([n for n, m in enumerate(owner.tolist()) if m in headed], np.int64)
                masked |= bool(len(mine))
                again = partial(self._features, pixels, group)
                for features in looked.parts(again) if len(mine) else ():
                    work = partial(mask, features, np.array(looked.scales))
                    each(work, parts_alike(found, mine, cores))
        if masked:
            found = (
                with_flags(found, flags) if contract else replace(found, visibility=tuple(flags))
            )
        return Masks(found, visible, judged)

    def _shown(
        self, pixels: NDArray[np.uint8], masks: Masks, owner: NDArray[np.int64]
    ) -> tuple[Detections, Floats]:
        """The detections as `detect` returns them, and what is told of them: see `show`."""
        if not any(self._maskers):
            return masks.found, np.zeros((len(owner), len(TOLD)))
        return show(pixels, masks, self._owners(owner), self._cores())

    def _cores(self) -> int:
        """Among how many cores models are shared out."""
        return min(self.cores or free_cores(), len(self.models))

    def _owners(self, owner: NDArray[np.int64]) -> list[Masker | None]:
        """The maskers of detections, of the models that own them."""
        return [self._maskers[m] for m in owner.tolist()]

    def _with_probability(
        self,
        result: Detections,
        own: NDArray[np.int64],
        told: Floats,
        candidates: Detections,
        owner: NDArray[np.int64],
    ) -> Detections:
        """The detections with the probability of each, NaN if its model is not calibrated."""
        known = np.full(len(result), np.nan)
        for m, calibration in enumerate(self._calibrations):
            if calibration is not None:
                mine = own == m
                known[mine] = probabilities(
                    calibration, result[mine], candidates[owner == m], told[mine]
                )
        return replace(result, probability=known)

    def _levels(self, pixels: NDArray[np.uint8], group: list[int]) -> SeenLevels:
        """The levels of a group of models, for masks of what was found before."""
        levels = SeenLevels(keep=True)
        for level, features in self._features(pixels, group):
            levels.add((level.scale_x, level.scale_y), features)
        return levels

    def _plans(self, pixels: NDArray[np.uint8], group: list[int]) -> Iterator[LevelPlan]:
        """The levels that a group of models looks at."""
        model = self.models[group[0]]
        shapes = set().union(*(self._shapes[m] for m in group))
        return fitting_levels(pixels, model.descriptor, model.pyramid, shapes)

    def _make(
        self, group: list[int], bases: set[MirrorBasis | None], plan: LevelPlan
    ) -> tuple[NDArray[np.float32], dict[MirrorBasis | None, Planes]]:
        """A level's features, and its planes in each basis."""
        features = describe(self.models[group[0]].descriptor, plan.make())
        return features, {basis: Planes.of(features, basis) for basis in bases}

    def _features(
        self, pixels: NDArray[np.uint8], group: list[int]
    ) -> Iterator[tuple[Level, NDArray[np.float32]]]:
        """The levels with their features, one after another."""
        descriptor = self.models[group[0]].descriptor
        for plan in self._plans(pixels, group):
            level = plan.make()
            yield level, describe(descriptor, level)

    def _end(
        self,
        searches: dict[int, ModelSearch],
        scales: NDArray[np.float64],
        left_out: int,
        size: tuple[int, int],
        look: Callable[[int], None],
        m: int,
    ) -> Detections:
        """Shows model m the last levels; what it has found in all of them."""
        look(m)
        own = scales[max(self._first[m] - left_out, 0) :]
        return told(self.models[m], self._templates[m], searches[m].windows(), own, size)


def _check_size(pixels: NDArray[np.uint8], found: Detections) -> None:
    if _size(pixels) != found.size:
        raise SettingsError(
            f"detections of an image of {found.size[0]} x {found.size[1]} pixels, but this one "
            f"has {pixels.shape[0]} x {pixels.shape[1]}"
        )


def _size(pixels: NDArray[np.uint8]) -> tuple[int, int]:
    return pixels.shape[0], pixels.shape[1]
