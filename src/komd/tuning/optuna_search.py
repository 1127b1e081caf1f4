"""Which setting to try next: Optuna's tree-structured Parzen estimator, and the cheap neighbours of what did well."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from komd.engine.recommender import Recommender
from komd.errors import InputError, install
from komd.models.cfkomd import CFKOMD
from komd.tuning.search_space import IDLE, Choice
from komd.tuning.tuning_result import Trial

__all__ = ["Asked", "Search"]

_STARTUP = 10  # settings drawn at random before the estimator takes over
_REPEATS = 10  # proposals already tried in a row, after which one that is not is drawn
_BORROWED = 3  # of the best settings, their cheap parameters, for a new matrix
_GOOD = 0.3  # the share of trials, the best, whose cheap neighbours are worth trying

_USUAL = {"user_damping": 0.5, "regularization": 1.0, "rank": 64}
_STARTS: tuple[dict[str, Any], ...] = (
    {"popularity": 0.2, "ridge": 10.0, "negatives_weight": 0.25},
    {"popularity": 0.2},
    {"popularity": 0.6},
    {"popularity": 0.3, "ridge": 10.0, "negatives_weight": 0.5, "prior": 0.003},
    {"negatives_weight": 0.5, "prior": 0.001, "prior_power": 1.0},
    {"kernel": "linear", "popularity": 0.2, "ridge": 30.0, "negatives_weight": 0.0},
)

Places = tuple[int, ...]


@dataclass(frozen=True)
class Asked:
    """A setting to try: the model, its parameters as texts, and its place on the grid."""

    model: Recommender
    params: dict[str, str]
    places: Places
    trial: Any


class Search:
    """Proposes settings of a grid, each once. Fed with what was tried before, it goes on from there."""

    def __init__(self, base: Recommender, choices: tuple[Choice, ...], rng: int, tried: list[Trial]) -> None:
        try:
            import optuna
        except ImportError:
            raise InputError(f"tuning needs Optuna: {install('tune')}") from None
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._optuna, self._base, self._choices = optuna, base, choices
        self._distributions = {c.name: optuna.distributions.IntDistribution(0, len(c.values) - 1) for c in choices}
        self._random = np.random.default_rng([rng, len(tried)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a multivariate estimator is called experimental
            sampler = optuna.samplers.TPESampler(seed=rng + len(tried), n_startup_trials=_STARTUP, multivariate=True)
        pruner = optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=0)
        self._study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
        self._waiting: list[Places] = []
        self._seen: dict[Places, Trial] = {}
        for trial in tried:
            self._replay(trial)
        self._waiting = [places for places in self._first() if places not in self._seen] + self._waiting

    def ask(self) -> Asked | None:
        """The next setting; None when all have been tried."""
        if len(self._seen) >= self._size():
            return None
        while self._waiting:
            places = self._waiting.pop(0)
            if places not in self._seen:
                return self._asked(places)
        for _ in range(_REPEATS):
            trial = self._study.ask(self._distributions)
            places = self._settled(tuple(int(trial.params[choice.name]) for choice in self._choices))
            if places not in self._seen:
                return self._built(places, trial)
            known = self._seen[places]
            for step, value in enumerate(known.values):
                trial.report(value, step)
            self._finish(trial, known)
        while True:
            places = self._settled(tuple(int(self._random.integers(len(choice.values))) for choice in self._choices))
            if places not in self._seen:
                return self._asked(places)

    def hopeless(self, asked: Asked, step: int, value: float) -> bool:
        """Whether a setting with this value in this round is below the median of the others."""
        asked.trial.report(value, step)
        return bool(asked.trial.should_prune())

    def tell(self, asked: Asked, trial: Trial) -> None:
        """What became of a setting."""
        self._seen[asked.places] = trial
        self._finish(asked.trial, trial)
        self._spread(asked.places, trial)

    def _finish(self, asked: Any, trial: Trial) -> None:
        if trial.state == "complete":
            self._study.tell(asked, trial.value)
        else:
            self._study.tell(asked, state=self._state(trial))

    def _state(self, trial: Trial) -> Any:
        states = self._optuna.trial.TrialState
        return {"complete": states.COMPLETE, "pruned": states.PRUNED, "failed": states.FAIL}[trial.state]

    def _spread(self, places: Places, trial: Trial) -> None:
        """Put settings in line that share the matrix of a setting and differ in cheap parameters, so cost little.

        A matrix that is new and did not disappoint gets the cheap parameters of the best settings so far. A setting
        that is among the best of all and better than all with its matrix gets its neighbours in one cheap parameter: so
        each matrix that is worth it is climbed to its top.
        """
        if trial.state != "complete":
            return
        done = {p: t.value for p, t in self._seen.items() if t.state == "complete" and p != places}
        dear = [at for at, choice in enumerate(self._choices) if not choice.cheap]
        alike = [value for p, value in done.items() if all(p[at] == places[at] for at in dear)]
        if not alike:
            for best in sorted(done, key=done.__getitem__, reverse=True)[:_BORROWED]:
                self._line_up(tuple(places[at] if at in dear else best[at] for at in range(len(places))))
        values = sorted([*done.values(), trial.value], reverse=True)
        if trial.value < values[int(_GOOD * (len(values) - 1))] or trial.value <= max(alike, default=-math.inf):
            return
        for at, choice in enumerate(self._choices):
            for step in (-1, 1) if choice.cheap else ():
                if 0 <= places[at] + step < len(choice.values):
                    self._line_up((*places[:at], places[at] + step, *places[at + 1 :]))

    def _line_up(self, places: Places) -> None:
        places = self._settled(places)
        if places not in self._seen and places not in self._waiting:
            self._waiting.append(places)

    def _idle(self, places: Places) -> list[int]:
        """Which parameters say nothing here, another being what it is."""
        at = {choice.name: k for k, choice in enumerate(self._choices)}
        return [
            at[name]
            for name, (other, off) in IDLE.items()
            if name in at and other in at and self._choices[at[other]].values[places[at[other]]] == off
        ]

    def _settled(self, places: Places) -> Places:
        """The same setting with those parameters at their first value, so that it is tried once."""
        idle = self._idle(places)
        return tuple(0 if at in idle else place for at, place in enumerate(places))

    def _size(self) -> int:
        """How many settings there are."""
        sizes = {choice.name: len(choice.values) for choice in self._choices}
        total = math.prod(sizes.values())
        for name, (other, off) in IDLE.items():
            if name in sizes and any(choice.name == other and off in choice.values for choice in self._choices):
                both, n, k = sizes[name] * sizes[other], sizes[other], sizes[name]
                total = total // both * ((n - 1) * k + 1)
        return total

    def _first(self) -> list[Places]:
        """Where to begin: the model as it is, and for CF-KOMD what does well on dense, middling and sparse data."""
        starts: list[dict[str, Any]] = [self._base.get_params()]
        if isinstance(self._base, CFKOMD):
            starts += [self._base.get_params() | _USUAL | start for start in _STARTS]
        found = [tuple(self._nearest(choice, start[choice.name]) for choice in self._choices) for start in starts]
        return list(dict.fromkeys(map(self._settled, found)))

    def _nearest(self, choice: Choice, value: Any) -> int:
        """The place of the value on the grid, or of the one nearest to it."""
        if isinstance(value, str):  # a kernel by its name
            names = [type(each).__name__.lower() if not isinstance(each, str) else each for each in choice.values]
            return names.index(value.lower()) if value.lower() in names else 0
        if value in choice.values:
            return choice.values.index(value)
        if value is None or not isinstance(value, (int, float)):
            return len(choice.values) - 1
        far = [abs(each - value) if isinstance(each, (int, float)) else math.inf for each in choice.values]
        return int(np.argmin(far))

    def _asked(self, places: Places) -> Asked:
        self._study.enqueue_trial({c.name: place for c, place in zip(self._choices, places, strict=True)})
        return self._built(places, self._study.ask(self._distributions))

    def _built(self, places: Places, trial: Any) -> Asked:
        chosen = {choice.name: choice.values[place] for choice, place in zip(self._choices, places, strict=True)}
        idle = {self._choices[at].name for at in self._idle(places)}
        model = self._base.clone().set_params(**{name: value for name, value in chosen.items() if name not in idle})
        return Asked(model, {name: str(value) for name, value in chosen.items()}, places, trial)

    def _replay(self, trial: Trial) -> None:
        """Take in a trial of an earlier run."""
        texts = [[str(value) for value in choice.values] for choice in self._choices]
        places = tuple(words.index(trial.params[c.name]) for words, c in zip(texts, self._choices, strict=True))
        params = {choice.name: place for choice, place in zip(self._choices, places, strict=True)}
        self._study.add_trial(
            self._optuna.trial.create_trial(
                params=params,
                distributions=self._distributions,
                state=self._state(trial),
                value=trial.value if trial.values else None,
                intermediate_values=dict(enumerate(trial.values)),
            )
        )
        self._seen[places] = trial
        self._spread(places, trial)
