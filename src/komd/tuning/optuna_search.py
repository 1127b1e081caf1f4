"""Which setting to try next: Optuna's tree-structured Parzen estimator, and cheap neighbours of good settings.

A setting is a point of a grid: the position of each parameter's value in its list.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from komd.engine.recommender import Recommender
from komd.errors import InputError, install
from komd.models.cfkomd import CFKOMD
from komd.tuning.search_space import INACTIVE, SearchParameter
from komd.tuning.tuning_result import Trial

__all__ = ["OptunaSearch", "Proposal"]

_STARTUP = 10  # settings drawn at random before the estimator is used
_REPEATS = 10  # proposals in a row that were tried already, after which a new one is drawn at random
_FIRST = ("prior", "regularization", "negatives_weight", "target", "ridge", "head", "prior_power")  # of neighbours
_GOOD = 0.3  # the best share of trials, whose cheap neighbours are tried

_USUAL = {"user_damping": 0.5, "regularization": 1.0, "rank": 64}
_STARTS: tuple[dict[str, Any], ...] = (
    {"popularity": 0.2, "ridge": 10.0, "negatives_weight": 0.25},
    {"popularity": 0.2},
    {"popularity": 0.6},
    {"popularity": 0.3, "ridge": 10.0, "negatives_weight": 0.5, "prior": 0.003},
    {"negatives_weight": 0.5, "prior": 0.001, "prior_power": 1.0},
    {"kernel": "linear", "popularity": 0.2, "ridge": 30.0, "negatives_weight": 0.0},
    {"kernel": "linear", "user_damping": 0.75, "popularity": 0.15, "ridge": 30.0, "head": 2.0, "rank": 256}
    | {"negatives_weight": 0.0},
)

GridPoint = tuple[int, ...]


@dataclass(frozen=True)
class Proposal:
    """A setting to try: the model, its parameters as texts, its point of the grid, and Optuna's trial."""

    model: Recommender
    params: dict[str, str]
    point: GridPoint
    trial: Any


class OptunaSearch:
    """Proposes settings of a grid, each once. Given the trials of an earlier run, it continues from there."""

    def __init__(self, base: Recommender, space: tuple[SearchParameter, ...], rng: int, tried: list[Trial]) -> None:
        try:
            import optuna
        except ImportError:
            raise InputError(f"tuning needs Optuna: {install('tune')}") from None
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._optuna, self._base, self._space = optuna, base, space
        self._distributions = {p.name: optuna.distributions.IntDistribution(0, len(p.values) - 1) for p in space}
        self._random = np.random.default_rng([rng, len(tried)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna calls multivariate estimators experimental
            sampler = optuna.samplers.TPESampler(seed=rng + len(tried), n_startup_trials=_STARTUP, multivariate=True)
        pruner = optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=0)
        self._study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
        # Settings to try: the value of the one that each is like, and whether it is so with another matrix.
        self._queue: dict[GridPoint, tuple[float, bool]] = {}
        self._tried: dict[GridPoint, Trial] = {}
        for trial in tried:
            self._replay(trial)
        for point in self._starting_points():
            self._enqueue(point, math.inf)

    def ask(self) -> Proposal | None:
        """The next setting; None when all have been tried."""
        if len(self._tried) >= self._size():
            return None
        if self._queue:
            point = max(self._queue, key=self._queue.__getitem__)  # the first of equals
            del self._queue[point]
            return self._fixed_proposal(point)
        for _ in range(_REPEATS):
            trial = self._study.ask(self._distributions)
            point = self._canonical(tuple(int(trial.params[parameter.name]) for parameter in self._space))
            if point not in self._tried:
                return self._proposal(point, trial)
            known = self._tried[point]
            for step, value in enumerate(known.values):
                trial.report(value, step)
            self._finish(trial, known)
        while True:
            point = self._canonical(tuple(int(self._random.integers(len(p.values))) for p in self._space))
            if point not in self._tried:
                return self._fixed_proposal(point)

    def should_prune(self, proposal: Proposal, step: int, value: float) -> bool:
        """Whether this value in this round is below the median of the other settings."""
        proposal.trial.report(value, step)
        return bool(proposal.trial.should_prune())

    def tell(self, proposal: Proposal, trial: Trial) -> None:
        """Record the trial of a proposal."""
        self._tried[proposal.point] = trial
        self._queue.pop(proposal.point, None)
        self._finish(proposal.trial, trial)
        self._enqueue_neighbours(proposal.point, trial)

    def _finish(self, optuna_trial: Any, trial: Trial) -> None:
        value = trial.value if trial.state == "complete" else None
        self._study.tell(optuna_trial, value, state=self._state(trial))

    def _state(self, trial: Trial) -> Any:
        states = self._optuna.trial.TrialState
        return {"complete": states.COMPLETE, "pruned": states.PRUNED, "failed": states.FAIL}[trial.state]

    def _enqueue_neighbours(self, point: GridPoint, trial: Trial) -> None:
        """Enqueue settings with the same item-item matrix that differ in cheap parameters, so that they cost little.

        A new matrix is tried with the cheap parameters of the best setting so far. A setting that is among the best
        of all and the best with its matrix is followed by its neighbours in one cheap parameter: so the cheap
        parameters of every good matrix are optimised by hill climbing. What is like the best settings is tried first.
        """
        if trial.state != "complete":
            return
        done = {p: t.value for p, t in self._tried.items() if t.state == "complete" and p != point}
        expensive = [at for at, parameter in enumerate(self._space) if not parameter.cheap]
        same_matrix = [value for p, value in done.items() if all(p[at] == point[at] for at in expensive)]
        if not same_matrix:
            best = max(done, key=done.__getitem__, default=point)
            borrowed = tuple(point[at] if at in expensive else best[at] for at in range(len(point)))
            self._enqueue(borrowed, done.get(best, trial.value), other_matrix=True)
        values = sorted([*done.values(), trial.value], reverse=True)
        if trial.value < values[int(_GOOD * (len(values) - 1))] or trial.value <= max(same_matrix, default=-math.inf):
            return
        for at in sorted(range(len(point)), key=lambda at: _place(self._space[at].name)):
            for step in (-1, 1) if self._space[at].cheap else ():
                if 0 <= point[at] + step < len(self._space[at].values):
                    self._enqueue((*point[:at], point[at] + step, *point[at + 1 :]), trial.value)

    def _enqueue(self, point: GridPoint, like: float, other_matrix: bool = False) -> None:
        point = self._canonical(point)
        if point not in self._tried:
            self._queue[point] = max((like, other_matrix), self._queue.get(point, (-math.inf, False)))

    def _inactive(self, point: GridPoint) -> list[int]:
        """The positions of parameters without effect in this setting."""
        at = {parameter.name: k for k, parameter in enumerate(self._space)}
        params = self._base.get_params()

        def value(name: str) -> Any:
            return self._space[at[name]].values[point[at[name]]] if name in at else params[name]

        return [
            at[name]
            for name, others in INACTIVE.items()
            if name in at and all(value(other) == off for other, off in others.items())
        ]

    def _canonical(self, point: GridPoint) -> GridPoint:
        """The same setting with parameters without effect at their first value, so that it is tried once."""
        inactive = self._inactive(point)
        return tuple(0 if at in inactive else position for at, position in enumerate(point))

    def _size(self) -> int:
        """How many settings there are."""
        values, params = {parameter.name: parameter.values for parameter in self._space}, self._base.get_params()
        total = math.prod(map(len, values.values()))
        for name, others in INACTIVE.items():
            of_others = {other: values.get(other, (params.get(other),)) for other in others}
            if name in values and all(off in of_others[other] for other, off in others.items()):
                n, k = math.prod(map(len, of_others.values())), len(values[name])
                total = total // (n * k) * ((n - 1) * k + 1)
        return total

    def _starting_points(self) -> list[GridPoint]:
        """The model as it is, and for CF-KOMD settings that do well on dense, medium and sparse data."""
        starts: list[dict[str, Any]] = [self._base.get_params()]
        if isinstance(self._base, CFKOMD):
            starts += [self._base.get_params() | _USUAL | start for start in _STARTS]
        points = [tuple(_nearest(parameter, start[parameter.name]) for parameter in self._space) for start in starts]
        return list(dict.fromkeys(map(self._canonical, points)))

    def _fixed_proposal(self, point: GridPoint) -> Proposal:
        self._study.enqueue_trial(self._positions(point))
        return self._proposal(point, self._study.ask(self._distributions))

    def _proposal(self, point: GridPoint, trial: Any) -> Proposal:
        values = {p.name: p.values[position] for p, position in zip(self._space, point, strict=True)}
        inactive = {self._space[at].name for at in self._inactive(point)}
        model = self._base.clone().set_params(**{name: value for name, value in values.items() if name not in inactive})
        return Proposal(model, {name: str(value) for name, value in values.items()}, point, trial)

    def _positions(self, point: GridPoint) -> dict[str, int]:
        return {parameter.name: position for parameter, position in zip(self._space, point, strict=True)}

    def _replay(self, trial: Trial) -> None:
        """Record a trial of an earlier run."""
        point = tuple([str(value) for value in p.values].index(trial.params[p.name]) for p in self._space)
        self._study.add_trial(
            self._optuna.trial.create_trial(
                params=self._positions(point),
                distributions=self._distributions,
                state=self._state(trial),
                value=trial.value if trial.values else None,
                intermediate_values=dict(enumerate(trial.values)),
            )
        )
        self._tried[point] = trial
        self._queue.pop(point, None)
        self._enqueue_neighbours(point, trial)


def _nearest(parameter: SearchParameter, value: Any) -> int:
    """The position of the value in the parameter's list, or of the one nearest to it."""
    values = parameter.values
    if isinstance(value, str):  # a kernel by its name
        names = [type(each).__name__.lower() if not isinstance(each, str) else each for each in values]
        return names.index(value.lower()) if value.lower() in names else 0
    if value in values:
        return values.index(value)
    if value is None or not isinstance(value, (int, float)):
        return len(values) - 1
    return int(np.argmin([abs(each - value) if isinstance(each, (int, float)) else math.inf for each in values]))


def _place(name: str) -> int:
    """Where a parameter stands in the order in which neighbours are tried."""
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)
