"""Training: start from whole objects, then alternate latent updates with mining and fitting."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from halfseen.data.dataset import Dataset
from halfseen.errors import TrainingError
from halfseen.learn import checkpoint
from halfseen.learn.latent import Assignment, Template
from halfseen.learn.masks import learn_masks
from halfseen.learn.material import Material, one_blas_thread
from halfseen.learn.mining import NegativeStore
from halfseen.learn.objective import Objective, Positives, Vector
from halfseen.learn.settings import TrainSettings
from halfseen.model.component import Component
from halfseen.model.mixture import Method, Mixture

if TYPE_CHECKING:
    from distributed import Client

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
    cluster: str | Client | None = None,
    on_round: Callable[[Round], None] | None = None,
    save_to: str | PathLike[str] | None = None,
    resume: bool = False,
) -> Mixture:
    """Learns a detector of one class from boxes.

    cluster   the address of a Dask scheduler, or a client: its workers read and mine the images,
              which must be files that they see; the model is the same, to the byte
    on_round  is called after every round
    save_to   a checkpoint file, rewritten after every round; with `resume` training goes on from it
              and ends in the same model, to the byte, as if it had never stopped
    """
    with Trainer(dataset, label, settings or TrainSettings(), cores, cluster) as trainer:
        model = trainer.run(on_round, None if save_to is None else Path(save_to), resume)
    if trainer.settings.calibrate:
        from halfseen.learn.calibration import learn_calibration

        model = learn_calibration(dataset, model, trainer.settings, cores=cores, cluster=cluster)
    return model


class Trainer(Material):
    """Trains on its material, as often as asked: `with_method` shares the features with another."""

    # The start, once it is done: what the state was, and where the stored negatives come from.
    _started: tuple[State, list[NDArray[np.int64]]] | None = None

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
        with one_blas_thread():
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
                positives = self.positives(stage, state.assignments)
                while state.round < settings.rounds:
                    done = self._round(state, objective, positives, store)
                    if on_round is not None:
                        on_round(state.history[-1])
                    state.round = settings.rounds if done else state.round + 1
                    if save_to is not None:
                        checkpoint.save(save_to, self, state, store)
                if stage == 0:
                    self._started = replace(state, history=list(state.history)), list(store.keys)
            model = self._model(state, objective, final=True)
            if settings.masks and settings.method == "VIS":
                model = learn_masks(self.dataset, model, seed=settings.seed)
            return model

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

    def _begin(self, stage: int, state: State, objective: Objective, store: NegativeStore) -> None:
        """The start, or a latent update."""
        if stage == 0:
            state.vector = np.zeros(self.parameters.length)
            self._add_random(store)
        else:
            if stage == 1 and objective.visibility:
                self._start_u(state)
            templates = self._templates(state.vector)
            improve = partial(self.work.improve, templates, objective, self.settings.mirrored)
            found = self._map(improve, self._with_objects)
            state.assignments = [assignment for part in found for assignment in part]
        state.stage, state.round = stage, 0

    def _start_u(self, state: State) -> None:
        """u begins at the 10% quantile of the positives' block responses.

        Much higher and every window of the background profits; much lower and it is never used.
        """
        for (w, bias), batch in zip(
            self.parameters.split(state.vector), self.positives(0, []), strict=True
        ):
            features = batch.examples.features.reshape(len(batch.visible), *w.shape)
            responses = np.einsum("nik,ik->ni", features, w.astype(np.float32))
            bias[1] = float(np.quantile(responses, 0.1)) if len(responses) else 0.0

    def _templates(self, vector: Vector) -> list[Template]:
        return [
            Template(shape, np.array([0.0, 0.0, shape[1], shape[0]]), w, bias)
            for shape, (w, bias) in zip(self.shapes, self.parameters.split(vector), strict=True)
        ]

    def _add_random(self, store: NegativeStore) -> None:
        blank = self._model(State(vector=np.zeros(self.parameters.length)), None, final=False)
        draw = partial(
            self.work.draw, blank, RANDOM_WINDOWS, self.settings.negative_overlap,
            self.settings.seed,
        )  # fmt: skip
        drawn = self._map(draw, [self.pictures[i] for i in self.mining])
        self._store(store, np.concatenate([m.keys for m in drawn]))

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
        search = partial(
            self.work.search, model, -1.0, settings.per_image, settings.negative_overlap
        )
        known = store.known()
        mined = list(self._map(search, [self.pictures[i] for i in self.mining]))
        keys = np.concatenate([m.keys for m in mined])
        scores = np.concatenate([m.scores for m in mined])
        new = np.array([tuple(key) not in known for key in keys.tolist()], bool)
        keys, scores = keys[new], scores[new]
        self._store(store, keys[np.argsort(-scores, kind="stable")])
        return [int((keys[:, 4] == m).sum()) for m in range(len(self.shapes))]

    def _store(self, store: NegativeStore, keys: NDArray[np.int64]) -> None:
        """Fetches windows by their keys, hardest first, and stores what there is room for."""
        for m in range(len(self.shapes)):
            mine_keys = keys[keys[:, 4] == m][: store.room(m)]
            mine_keys = mine_keys[np.argsort(mine_keys[:, 0], kind="stable")]
            images, starts = np.unique(mine_keys[:, 0], return_index=True)
            parts = np.split(mine_keys, starts[1:]) if len(images) else []
            items = [(self.pictures[int(part[0, 0])], part) for part in parts]
            for part, examples in zip(parts, self._map(self.work.take, items), strict=True):
                store.add(m, examples, part)

    def _restore(self, store: NegativeStore, keys: list[NDArray[np.int64]]) -> None:
        """Fetches the windows that a checkpoint names, in their order: sums depend on it."""
        for m, rows in enumerate(keys):
            store.keys[m] = rows
            places = [np.flatnonzero(rows[:, 0] == i) for i in np.unique(rows[:, 0])]
            items = [(self.pictures[int(rows[at[0], 0])], rows[at]) for at in places]
            for at, window in zip(places, self._map(self.work.take, items), strict=True):
                store.features[m][at], store.outside[m][at] = window.features, window.outside

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
                    self.average_box(m, state.assignments) if final else window,
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
                "hidden": self.hidden_maps(state.assignments),
                "history": [asdict(entry) for entry in state.history],
            }
        method = settings.method if final else ("VIS" if inferred else "BLT")
        return Mixture(
            self.label, method, tuple(components), settings.mirrored, settings.alpha,
            self.descriptor, settings.pyramid, training,
        )  # fmt: skip
