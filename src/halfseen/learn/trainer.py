"""Training: start from whole objects, then alternate latent updates with mining and fitting."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfseen.compute import available_cores
from halfseen.data.dataset import Dataset
from halfseen.errors import TrainingError
from halfseen.geometry import clip
from halfseen.infer.boxes import place_boxes
from halfseen.learn import checkpoint
from halfseen.learn.latent import Assignment, Bag, Template, collect_bags, update, windows_of
from halfseen.learn.mining import MiningImage, NegativeStore, draw_random, mine, take_windows
from halfseen.learn.objective import Examples, Objective, Parameters, Positives, Vector
from halfseen.learn.plan import make_plan
from halfseen.learn.positives import (
    average_box,
    choose_flips,
    in_blocks,
    warp,
)
from halfseen.learn.settings import TrainSettings
from halfseen.model.component import Component
from halfseen.model.mixture import Method, Mixture

log = logging.getLogger(__name__)

# Random windows of each mining image for the first fit.
RANDOM_WINDOWS = 20
# After a fit, negatives this far below the margin are dropped; mining finds them again if need be.
EASY = -1.5


@dataclass(frozen=True)
class Round:
    """What one round of mining and fitting did: the live view, and the history in the model."""

    stage: int
    round: int
    energy: float
    positives: int
    negatives: int
    found: int
    hidden_share: float
    u: tuple[float, ...]
    u_t: tuple[float, ...]
    bias: tuple[float, ...]


@dataclass
class State:
    """All that decides how training goes on; what a checkpoint keeps."""

    stage: int = 0
    round: int = 0
    vector: Vector = field(default_factory=lambda: np.zeros(0))
    assignments: list[Assignment | None] = field(default_factory=list)
    history: list[Round] = field(default_factory=list)


def train(
    dataset: Dataset,
    label: str,
    settings: TrainSettings | None = None,
    *,
    cores: int | None = None,
    on_round: Callable[[Round], None] | None = None,
    save_to: str | PathLike[str] | None = None,
    resume: bool = False,
) -> Mixture:
    """Learns a detector of one class from boxes.

    on_round  is called after every round
    save_to   a checkpoint file, rewritten after every round; with `resume` training goes on from it
              and ends in the same model, to the byte, as if it had never stopped
    """
    with Trainer(dataset, label, settings or TrainSettings(), cores) as trainer:
        return trainer.run(on_round, None if save_to is None else Path(save_to), resume)


class Trainer:
    """One class of one dataset, made ready for learning.

    The features of the positives and of the mining images are computed once for all runs.
    """

    def __init__(
        self, dataset: Dataset, label: str, settings: TrainSettings, cores: int | None = None
    ) -> None:
        plan = make_plan(dataset, label, settings)
        self.dataset, self.label, self.settings = dataset, label, settings
        self.objects, self.descriptor = plan.objects, plan.descriptor
        self.starts, self.shapes, self.mining = plan.starts, plan.shapes, plan.mining
        self.cores = cores or available_cores()
        self.pool = ThreadPoolExecutor(self.cores)
        self.parameters = Parameters(tuple((*s, self.descriptor.channels) for s in self.shapes))
        with _one_blas_thread():
            self.bags = self._collect_bags()
            self._check_reached()
            self._mining_cache: dict[int, MiningImage] = {}
            self._started: tuple[State, list[NDArray[np.int64]]] | None = None
            self._fill_mining_cache()

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *_: object) -> None:
        # Whatever ended the work, an interrupt perhaps, does not want the rest of it done.
        self.pool.shutdown(cancel_futures=True)

    def _check_reached(self) -> None:
        missed = self.unreached()
        if len(self.objects) - len(missed) < 2:
            best = max(overlap for _, overlap in missed)
            raise TrainingError(
                f"expected at least 2 objects of class {self.label!r} that some window overlaps by "
                f"{self.settings.positive_overlap}, found {len(self.objects) - len(missed)} of "
                f"{len(self.objects)} (best overlap {best:.2f}): they are too small or of too many "
                "shapes; take larger pictures, or set a smaller `cell`, fewer `blocks` or more "
                "`components`"
            )

    def unreached(self) -> list[tuple[int, float]]:
        """Objects that no window overlaps enough: (object, best IoU of any window)."""
        return [
            (n, best)
            for n, (bag, best) in enumerate(self.bags)
            if best < self.settings.positive_overlap
        ]

    def run(
        self,
        on_round: Callable[[Round], None] | None = None,
        save_to: Path | None = None,
        resume: bool = False,
    ) -> Mixture:
        """Trains to the end, and gives the model."""
        settings = self.settings
        store = NegativeStore(self.shapes, self.descriptor.channels, settings.store_bytes)
        state = State(assignments=[None] * len(self.objects))
        with _one_blas_thread():
            if resume and save_to is not None and save_to.exists():
                state = checkpoint.load(save_to, self)
                self._restore(store, checkpoint.load_keys(save_to))
            elif self._started is not None:
                state = replace(self._started[0], history=list(self._started[0].history))
                self._restore(store, self._started[1])
            for stage in range(state.stage, settings.updates + 1):
                objective = settings.objective(stage > 0, stage > 0)
                if stage > state.stage or not len(state.vector):
                    self._begin(stage, state, objective, store)
                positives = self._positives(stage, state.assignments)
                while state.round < settings.rounds:
                    done = self._round(state, objective, positives, store)
                    if on_round is not None:
                        on_round(state.history[-1])
                    state.round = settings.rounds if done else state.round + 1
                    if save_to is not None:
                        checkpoint.save(save_to, self, state, store)
                if stage == 0:
                    self._started = replace(state, history=list(state.history)), list(store.keys)
            return self._model(state, objective, final=True)

    def with_method(self, method: Method) -> Trainer:
        """A trainer of another method that shares the features, and the start if it is done."""
        return self.with_settings(method=method)

    def with_settings(self, **changes: Any) -> Trainer:
        """A trainer of other settings that shares the features; the changes must not concern them.

        The start knows neither u nor u_t, so it is the same for every method and alpha, and shared
        as well if it is done.
        """
        other = copy.copy(self)
        other.settings = replace(self.settings, **changes)
        if not changes.keys() <= {"method", "alpha", "one_u"}:
            other._started = None
        return other

    def _map(self, function: Callable[..., Any], *items: Any) -> Iterator[Any]:
        """In order, on all cores; the kernels release the GIL."""
        return self.pool.map(function, *items)

    def _collect_bags(self) -> list[tuple[Bag, float]]:
        settings, objects = self.settings, self.objects
        images = np.unique(objects.image)

        def collect(i: int) -> list[tuple[Bag, float]]:
            mine = objects.image == i
            return collect_bags(
                self.dataset.image(int(i)), objects.box[mine], objects.seen[mine],
                objects.occluded[mine], self.shapes, self.descriptor, settings.pyramid,
                settings.positive_overlap,
            )  # fmt: skip

        # list_objects goes through the images in order, so the bags come in the objects' order.
        return [bag for bags in self._map(collect, images) for bag in bags]

    def _fill_mining_cache(self) -> None:
        used = 0
        for i, image in zip(self.mining, self._map(self._mining_image, self.mining), strict=True):
            used += image.bytes
            if used > self.settings.cache_bytes:
                break
            self._mining_cache[i] = image

    def _mining_image(self, i: int) -> MiningImage:
        if i in self._mining_cache:
            return self._mining_cache[i]
        truth = self.dataset[i]
        truth = truth[truth.label == self.label]
        return MiningImage.make(
            self.dataset.image(i), np.concatenate([truth.box, clip(truth.full, truth.size)]),
            self.descriptor, self.settings.pyramid, self.shapes,
        )  # fmt: skip

    def _begin(self, stage: int, state: State, objective: Objective, store: NegativeStore) -> None:
        """The start, or a latent update."""
        if stage == 0:
            state.vector = np.zeros(self.parameters.length)
            self._add_random(store)
        else:
            if stage == 1 and objective.visibility:
                self._start_u(state)
            templates = self._templates(state.vector)

            def improve(bag: tuple[Bag, float]) -> Assignment | None:
                return update(
                    bag[0], templates, objective, self.descriptor, self.settings.mirrored,
                    self.settings.positive_overlap,
                )  # fmt: skip

            state.assignments = list(self._map(improve, self.bags))
        state.stage, state.round = stage, 0

    def _start_u(self, state: State) -> None:
        """u begins at the 10% quantile of the positives' block responses.

        Much higher and every window of the background profits; much lower and it is never used.
        """
        for (w, bias), batch in zip(
            self.parameters.split(state.vector), self._positives(0, []), strict=True
        ):
            features = batch.examples.features.reshape(len(batch.visible), *w.shape)
            responses = np.einsum("nik,ik->ni", features, w.astype(np.float32))
            bias[1] = float(np.quantile(responses, 0.1)) if len(responses) else 0.0

    def _templates(self, vector: Vector) -> list[Template]:
        return [
            Template(shape, np.array([0.0, 0.0, shape[1], shape[0]]), w, bias)
            for shape, (w, bias) in zip(self.shapes, self.parameters.split(vector), strict=True)
        ]

    def _positives(self, stage: int, assignments: list[Assignment | None]) -> list[Positives]:
        """The positive windows by component: warped whole objects at first, then the assigned."""
        if stage == 0:
            return self._warped()
        batches = []
        for m, (rows, cols) in enumerate(self.shapes):
            chosen = [a for a in assignments if a is not None and a.component == m]
            empty = np.zeros((0, rows, cols, self.descriptor.channels), np.float32)
            flags = np.zeros((0, rows, cols), bool)
            examples = Examples(
                np.stack([a.features for a in chosen]) if chosen else empty,
                np.stack([a.outside for a in chosen]) if chosen else flags,
            )
            batches.append(
                Positives(examples, np.stack([a.visible for a in chosen]) if chosen else flags)
            )
        return batches

    def _warped(self) -> list[Positives]:
        if not hasattr(self, "_warped_cache"):
            batches = []
            for start, shape in zip(self.starts, self.shapes, strict=True):

                def stretch(n: int, shape: tuple[int, int] = shape) -> NDArray[np.float32]:
                    image = self.dataset.image(int(self.objects.image[n]))
                    return warp(image, self.objects.box[n], shape, self.descriptor)

                features = np.stack(list(self._map(stretch, start)))
                if self.settings.mirrored:
                    flips = choose_flips(features, self.descriptor.mirror)
                    features[flips] = features[flips][:, :, ::-1][..., self.descriptor.mirror]
                outside = np.zeros(features.shape[:3], bool)
                batches.append(Positives(Examples(features, outside), ~outside))
            self._warped_cache = batches
        return self._warped_cache

    def _add_random(self, store: NegativeStore) -> None:
        blank = self._model(State(vector=np.zeros(self.parameters.length)), None, final=False)

        def draw(i: int) -> Any:
            return draw_random(
                i, self._mining_image(i), blank, RANDOM_WINDOWS, self.settings.negative_overlap,
                self.settings.seed,
            )  # fmt: skip

        self._store(store, np.concatenate([m.keys for m in self._map(draw, self.mining)]))

    def _round(
        self, state: State, objective: Objective, positives: list[Positives], store: NegativeStore
    ) -> bool:
        """Mines and fits once. Whether mining has converged."""
        settings = self.settings
        found = [settings.stop] * len(self.shapes)
        if state.stage > 0 or state.round > 0:
            found = self._mine(state, objective, store)
        energy = self._fit(state, objective, positives, store)
        blocks = sum(int((~p.examples.outside).sum()) for p in positives)
        seen = sum(int(p.visible.sum()) for p in positives)
        biases = [bias for _, bias in self.parameters.split(state.vector)]
        state.history.append(
            Round(
                state.stage,
                state.round,
                energy,
                sum(len(p.visible) for p in positives),
                len(store),
                sum(found),
                1 - seen / max(blocks, 1),
                tuple(float(b[1]) for b in biases),
                tuple(float(b[2]) for b in biases),
                tuple(float(b[0]) for b in biases),
            )
        )
        # The first mining of a stage still judges the last stage's fit.
        return state.round > 0 and all(count < settings.stop for count in found)

    def _mine(self, state: State, objective: Objective, store: NegativeStore) -> list[int]:
        """Adds the new false positives of all mining images; how many there were by component."""
        settings = self.settings
        model = self._model(state, objective, final=False)

        def search(i: int) -> Any:
            return mine(
                i, self._mining_image(i), model, -1.0, settings.per_image, settings.negative_overlap
            )

        known = store.known()
        mined = list(self._map(search, self.mining))
        keys = np.concatenate([m.keys for m in mined])
        scores = np.concatenate([m.scores for m in mined])
        new = np.array([tuple(key) not in known for key in keys.tolist()], bool)
        keys, scores = keys[new], scores[new]
        self._store(store, keys[np.argsort(-scores, kind="stable")])
        return [int((keys[:, 4] == m).sum()) for m in range(len(self.shapes))]

    def _store(self, store: NegativeStore, keys: NDArray[np.int64]) -> None:
        """Fetches windows by their keys, hardest first, and stores what there is room for."""
        for m, shape in enumerate(self.shapes):
            mine_keys = keys[keys[:, 4] == m][: store.room(m)]
            mine_keys = mine_keys[np.argsort(mine_keys[:, 0], kind="stable")]
            images, starts = np.unique(mine_keys[:, 0], return_index=True)
            parts = np.split(mine_keys, starts[1:]) if len(images) else []

            def take(part: NDArray[np.int64], shape: tuple[int, int] = shape) -> Examples:
                image = self._mining_image(int(part[0, 0]))
                return take_windows(image, part, shape, self.descriptor.mirror)

            for part, examples in zip(parts, self._map(take, parts), strict=True):
                store.add(m, examples, part)

    def _restore(self, store: NegativeStore, keys: list[NDArray[np.int64]]) -> None:
        """Fetches the windows that a checkpoint names, in their order: sums depend on it."""
        for m, (shape, rows) in enumerate(zip(self.shapes, keys, strict=True)):
            store.keys[m] = rows
            for i in np.unique(rows[:, 0]):
                index = np.flatnonzero(rows[:, 0] == i)
                image = self._mining_image(int(i))
                window = take_windows(image, rows[index], shape, self.descriptor.mirror)
                store.features[m][index], store.outside[m][index] = window.features, window.outside

    def _fit(
        self, state: State, objective: Objective, positives: list[Positives], store: NegativeStore
    ) -> float:
        """L-BFGS from where the last fit ended; then easy negatives are dropped."""
        from scipy.optimize import minimize

        negatives = store.negatives()
        result = minimize(
            objective, state.vector, args=(self.parameters, positives, negatives, self.pool),
            jac=True, method="L-BFGS-B",
            options={"maxiter": self.settings.iterations, "ftol": 1e-5, "gtol": 1e-4, "maxcor": 20},
        )  # fmt: skip
        if not np.isfinite(result.fun):
            raise TrainingError(
                f"the energy became {result.fun} in stage {state.stage}; raise `regularisation`"
            )
        state.vector = objective.tie(result.x, self.parameters)
        for m, ((w, bias), batch) in enumerate(
            zip(self.parameters.split(state.vector), negatives, strict=True)
        ):
            scores, _ = objective.best_scores(w, bias, batch.examples, EASY, self.pool)
            hard = scores > EASY
            if hard.sum() > 0.8 * len(store.features[m]):
                hard &= scores > np.quantile(scores, 0.5)
            store.keep(m, hard)
        return float(result.fun)

    def _model(self, state: State, objective: Objective | None, final: bool) -> Mixture:
        """The mixture of the present parameters; the final one with average boxes and history."""
        settings = self.settings
        components = []
        for m, (shape, (w, bias)) in enumerate(
            zip(self.shapes, self.parameters.split(state.vector), strict=True)
        ):
            window = np.array([0.0, 0.0, shape[1], shape[0]])
            components.append(
                Component(
                    w.reshape(*shape, -1).astype(np.float32),
                    float(bias[0]),
                    float(bias[1]),
                    float(bias[2]),
                    self._average_box(m, state.assignments) if final else window,
                )
            )
        inferred = objective is not None and objective.visibility
        training: dict[str, Any] = {}
        if final:
            training = {
                "settings": settings.as_json(),
                "images": len(self.dataset),
                "objects": len(self.objects),
                "unreached": len(self.unreached()),
                "hidden": self._hidden_maps(state.assignments),
                "history": [asdict(entry) for entry in state.history],
            }
        method = settings.method if final else ("VIS" if inferred else "BLT")
        return Mixture(
            self.label, method, tuple(components), settings.mirrored, settings.alpha,
            self.descriptor, settings.pyramid, training,
        )  # fmt: skip

    def _hidden_maps(self, assignments: list[Assignment | None]) -> list[list[list[float]]]:
        """For each component, the share of its positives in which a block is hidden."""
        maps = []
        for p in self._positives(1, assignments):
            hidden = (~p.visible & ~p.examples.outside).sum(0)
            inside = np.maximum((~p.examples.outside).sum(0), 1)
            maps.append(np.round(hidden / inside, 4).tolist())
        return maps

    def _average_box(self, m: int, assignments: list[Assignment | None]) -> NDArray[np.float64]:
        """The box that overlaps best with the whole objects assigned to a component."""
        rows, cols = self.shapes[m]
        window = np.array([0.0, 0.0, cols, rows])
        boxes, windows, mirrored = [], [], []
        for (bag, _), a, whole in zip(self.bags, assignments, self.objects.whole, strict=True):
            if a is None or a.component != m or not whole:
                continue
            place = (np.array([a.y]), np.array([a.x]))
            scale = bag.crops[a.crop].scale
            boxes.append(bag.box)
            windows.append(place_boxes(*place, (rows, cols), window, self.descriptor, scale)[0])
            mirrored.append(a.mirrored)
        if not boxes:
            return window
        blocks = in_blocks(np.array(boxes), np.array(windows), (rows, cols), np.array(mirrored))
        return average_box(blocks, window)

    def reassign(
        self, rows: list[tuple[int, int, int, int, int]], flags: list[NDArray[np.bool_]]
    ) -> list[Assignment | None]:
        """Assignments from their stored numbers: component (-1 for none), mirrored, crop, y, x."""
        result: list[Assignment | None] = []
        for (bag, _), (m, mirrored, c, y, x), visible in zip(self.bags, rows, flags, strict=True):
            if m < 0:
                result.append(None)
                continue
            flip = self.descriptor.mirror if mirrored else None
            window = windows_of(bag.crops[c], self.shapes[m], np.array([y]), np.array([x]), flip)
            result.append(
                Assignment(
                    m,
                    bool(mirrored),
                    c,
                    y,
                    x,
                    visible.reshape(self.shapes[m]),
                    window.features[0],
                    window.outside[0],
                    0.0,
                )
            )
        return result


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """Training brings its own threads; BLAS threads on top would fight them for the cores."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield
