"""Training of a detector (Eqn 5).

Start from whole objects, then alternate latent updates with mining and fitting.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from halfseen.compute.libraries import one_blas_thread
from halfseen.data.dataset import Dataset
from halfseen.errors import TrainingError
from halfseen.learn.checkpoint import Checkpoint, Saved
from halfseen.learn.latent import Template
from halfseen.learn.mining import Keys, Mined, NegativeStore
from halfseen.learn.objective import U_T, B, Objective, Positives, U, Vector
from halfseen.learn.progress import Run
from halfseen.learn.settings import TrainSettings
from halfseen.learn.state import Restored, Round, State, pack, unpack
from halfseen.learn.training_set import TrainingSet
from halfseen.model.mixture import Component, Method, Mixture

# Random windows of each mining image for the first fit.
RANDOM_WINDOWS = 20
# After a fit, negatives this far below the margin are dropped; mining finds them again if need be.
EASY = -1.5
# The entry of the checkpoint.
ROUNDS = "rounds"


def fit_detector(
    dataset: Dataset, label: str, settings: TrainSettings, run: Run | None = None
) -> Mixture:
    """Learn a detector without mask head or calibration: the first step of `train`."""
    run = run or Run()
    with TrainingSet(dataset, label, settings, run.cores, run.cluster) as data:
        trainer = Trainer(data)
        total = (settings.updates + 1) * settings.rounds

        def on_round(entry: Round) -> None:
            run.report((entry.stage * settings.rounds + entry.round + 1) / total, entry)

        run.report(trainer.done(run.checkpoint) / total)
        model = trainer.run(on_round, run.checkpoint)
    run.report(1.0)
    return model


class Started(NamedTuple):
    """The state after the start, and where its stored negatives come from."""

    state: State
    keys: list[Keys]


class Trainer:
    """Trains a detector on a training set, as often as wanted.

    changes  of the settings that the training set was made with; they must not concern features
    """

    def __init__(self, data: TrainingSet, **changes: Any) -> None:
        self.data = data
        self.settings = replace(data.settings, **changes)
        self._started: Started | None = None

    def with_settings(self, **changes: Any) -> Trainer:
        """A trainer of other settings on the same training set.

        The start knows neither u nor u_t, so it is the same for every method and alpha, and shared
        if it is done.
        """
        other = copy.copy(self)
        other.settings = replace(self.settings, **changes)
        if not changes.keys() <= {"method", "alpha", "one_u"}:
            other._started = None
        return other

    def with_method(self, method: Method) -> Trainer:
        """A trainer of another method on the same training set."""
        return self.with_settings(method=method)

    def done(self, checkpoint: Checkpoint) -> int:
        """How many rounds a checkpoint holds, with those that converged mining has spared."""
        kept = checkpoint.get(ROUNDS, unpack)
        return 0 if kept is None else kept.stage * self.settings.rounds + kept.round

    def run(
        self,
        on_round: Callable[[Round], object] | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Mixture:
        """Train to the end, from where the checkpoint is, and return the model."""
        data, settings = self.data, self.settings
        checkpoint = checkpoint or Checkpoint()
        with one_blas_thread():
            store = NegativeStore(data.shapes, data.descriptor.channels, settings.store_bytes)
            state = self._first_state(store, checkpoint)
            for stage in range(state.stage, settings.updates + 1):
                objective = settings.objective(stage > 0, stage > 0)
                if stage > state.stage or not len(state.vector):
                    self._begin(stage, state, objective, store)
                positives = data.positives(stage, state.assignments)
                while state.round < settings.rounds:
                    converged = self._round(state, objective, positives, store)
                    if on_round is not None:
                        on_round(state.history[-1])
                    state.round = settings.rounds if converged else state.round + 1
                    checkpoint.put(ROUNDS, pack(state, store.keys))
                if stage == 0:
                    before = replace(state, history=list(state.history))
                    self._started = Started(before, list(store.keys))
            return self._model(state, objective, final=True)

    def _first_state(self, store: NegativeStore, checkpoint: Checkpoint) -> State:
        """The state to go on from, with its negatives in the store."""

        def decode(saved: Saved) -> tuple[Restored, State]:
            kept = unpack(saved)
            assignments = self.data.reassign(kept.places, kept.flags)
            return kept, State(kept.stage, kept.round, kept.vector, assignments, kept.history)

        found = checkpoint.get(ROUNDS, decode)
        if found is not None:
            kept, state = found
            if state.stage < self.settings.updates or state.round < self.settings.rounds:
                self._restore(store, kept.keys)
            return state
        if self._started is not None:
            self._restore(store, self._started.keys)
            state = self._started.state
            return replace(state, history=list(state.history))
        return State(assignments=[None] * len(self.data.objects))

    def _begin(self, stage: int, state: State, objective: Objective, store: NegativeStore) -> None:
        """The start, or a latent update."""
        data = self.data
        if stage == 0:
            state.vector = np.zeros(data.parameters.length)
            blank = self._model(State(vector=state.vector), None, final=False)
            self._store(store, data.draw_negatives(blank, RANDOM_WINDOWS))
        else:
            if stage == 1 and objective.visibility:
                self._start_u(state)
            state.assignments = data.assign(self._templates(state.vector), objective)
        state.stage, state.round = stage, 0

    def _start_u(self, state: State) -> None:
        """u begins at the 10% quantile of the positives' block responses.

        Much higher and every window of the background profits; much lower and it is never used.
        """
        for (w, bias), batch in zip(
            self.data.parameters.split(state.vector), self.data.positives(0, []), strict=True
        ):
            features = batch.examples.features.reshape(len(batch.visible), *w.shape)
            responses = np.einsum("nik,ik->ni", features, w.astype(np.float32))
            bias[U] = float(np.quantile(responses, 0.1)) if len(responses) else 0.0

    def _templates(self, vector: Vector) -> list[Template]:
        parts = self.data.parameters.split(vector)
        return [
            Template(shape, np.array([0.0, 0.0, shape[1], shape[0]]), w, bias)
            for shape, (w, bias) in zip(self.data.shapes, parts, strict=True)
        ]

    def _round(
        self, state: State, objective: Objective, positives: list[Positives], store: NegativeStore
    ) -> bool:
        """Mine and fit once. Returns whether mining has converged."""
        settings = self.settings
        found = [settings.stop] * len(self.data.shapes)
        if state.stage > 0 or state.round > 0:
            found = self._mine(state, objective, store)
        energy = self._fit(state, objective, positives, store)
        blocks = sum(int((~p.examples.outside).sum()) for p in positives)
        visible = sum(int(p.visible.sum()) for p in positives)
        biases = [bias for _, bias in self.data.parameters.split(state.vector)]
        state.history.append(
            Round(
                state.stage,
                state.round,
                energy,
                sum(len(p.visible) for p in positives),
                len(store),
                sum(found),
                1 - visible / max(blocks, 1),
                tuple(float(bias[U]) for bias in biases),
                tuple(float(bias[U_T]) for bias in biases),
                tuple(float(bias[B]) for bias in biases),
            )
        )
        # The first mining of a stage still judges the last stage's fit.
        return state.round > 0 and all(count < settings.stop for count in found)

    def _mine(self, state: State, objective: Objective, store: NegativeStore) -> list[int]:
        """Store new false positives of all mining images; how many there were by component."""
        settings = self.settings
        model = self._model(state, objective, final=False)
        search = partial(
            self.data.work.search, model, -1.0, settings.per_image, settings.negative_overlap
        )
        known = store.known()
        mined: list[Mined] = self.data.mine(search)
        keys = Keys.join([m.keys for m in mined])
        scores = np.concatenate([m.scores for m in mined])
        new = np.array([tuple(key) not in known for key in keys.rows.tolist()], bool)
        keys, scores = keys[new], scores[new]
        self._store(store, keys[np.argsort(-scores, kind="stable")])
        return [int((keys.component == m).sum()) for m in range(len(self.data.shapes))]

    def _store(self, store: NegativeStore, keys: Keys) -> None:
        """Fetch windows by their keys, hardest first, and store what there is room for."""
        for m in range(len(self.data.shapes)):
            chosen = keys[keys.component == m][: store.room(m)]
            for rows, examples in self.data.take(chosen):
                store.add(m, examples, chosen[rows])

    def _restore(self, store: NegativeStore, keys: list[Keys]) -> None:
        """Fetch the windows that keys name, in their order: sums depend on it."""
        for m, chosen in enumerate(keys):
            store.keys[m] = chosen
            for rows, window in self.data.take(chosen):
                store.features[m][rows], store.outside[m][rows] = window.features, window.outside

    def _fit(
        self, state: State, objective: Objective, positives: list[Positives], store: NegativeStore
    ) -> float:
        """Fit by L-BFGS from where the last fit ended, drop easy negatives, return the energy."""
        from scipy.optimize import minimize

        parameters, pool = self.data.parameters, self.data.pool
        negatives = store.negatives()
        result = minimize(
            objective, state.vector, args=(parameters, positives, negatives, pool),
            jac=True, method="L-BFGS-B",
            options={"maxiter": self.settings.iterations, "ftol": 1e-5, "gtol": 1e-4, "maxcor": 20},
        )  # fmt: skip
        if not np.isfinite(result.fun):
            raise TrainingError(
                f"the energy became {result.fun} in stage {state.stage}; raise `regularisation`"
            )
        state.vector = objective.tie(result.x, parameters)
        for m, ((w, bias), batch) in enumerate(
            zip(parameters.split(state.vector), negatives, strict=True)
        ):
            scores, _ = objective.best_scores(w, bias, batch.examples, EASY, pool)
            hard = scores > EASY
            if hard.sum() > 0.8 * len(store.features[m]):
                hard &= scores > np.quantile(scores, 0.5)
            store.keep(m, hard)
        return float(result.fun)

    def _model(self, state: State, objective: Objective | None, final: bool) -> Mixture:
        """The mixture of the present parameters; the final one with average boxes and history."""
        data, settings = self.data, self.settings
        components = []
        for m, (shape, (w, bias)) in enumerate(
            zip(data.shapes, data.parameters.split(state.vector), strict=True)
        ):
            window = np.array([0.0, 0.0, shape[1], shape[0]])
            components.append(
                Component(
                    w.reshape(*shape, -1).astype(np.float32),
                    float(bias[B]),
                    float(bias[U]),
                    float(bias[U_T]),
                    data.average_box(m, state.assignments) if final else window,
                )
            )
        inferred = objective is not None and objective.visibility
        training: dict[str, Any] = {}
        if final:
            training = {
                "settings": settings.as_json(),
                "images": len(data.dataset),
                "objects": len(data.objects),
                "unreached": len(data.unreached()),
                "hidden": data.hidden_maps(state.assignments),
                "history": [asdict(entry) for entry in state.history],
            }
        method = settings.method if final else ("VIS" if inferred else "BLT")
        return Mixture(
            data.label, method, tuple(components), settings.mirrored, settings.alpha,
            data.descriptor, settings.pyramid, training,
        )  # fmt: skip
