"""Tuning: Optuna proposes settings, inner folds evaluate them; only the training data are used."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from komd.checks import whole
from komd.data import split
from komd.data.interactions import Interactions
from komd.engine.recommender import Recommender
from komd.errors import InputError, KomdError
from komd.evaluation.compare import seconds as in_seconds
from komd.evaluation.metrics import parse_metrics
from komd.memory import budget as memory_budget
from komd.models.registry import model_from_text
from komd.tuning.inner_fold import InnerFold
from komd.tuning.optuna_search import OptunaSearch, Proposal
from komd.tuning.search_space import affordable, free_parameters
from komd.tuning.trial_log import TrialLog
from komd.tuning.tuning_result import Trial, Tuning

__all__ = ["inner_folds", "tune"]

_INNER = 6  # makes the random numbers of inner folds different from those of `komd.split.folds` with the same seed
_CACHE = 0.4  # of the memory budget, for matrices cached between trials, all rounds together


def tune(
    model: str | Recommender,
    data: Any,
    *,
    metric: str = "ndcg@100",
    budget: str | float = "10m",
    trials: int | None = None,
    folds: int = 5,
    rounds: int = 2,
    half: str = "random",
    rng: int = 0,
    held_out: Any = None,
    keep: str | Path | None = None,
    reuse: bool = True,
    threads: int | None = None,
    memory: str | int | None = None,
    say: Callable[[str], None] | None = None,
) -> Tuning:
    """Search for the parameters with which a model does best on folds inside the training data.

    Parameters
    ----------
    model : str or Recommender
        A model or its text, such as "CFKOMD". Parameters that differ from their defaults are kept.
    data : Interactions or anything that `komd.read` accepts
        The training data. Folds are made inside it (`komd.split.folds`), so it must not contain the final test data.
    metric : str
        The metric to maximise; see docs/guide/metrics.md.
    budget : str or float
        Time for the search: seconds, or a text such as "10m" or "1.5h". The last trial is finished.
    trials : int, optional
        Maximum number of trials, including those of earlier runs.
    folds : int
        Number of inner folds, as in `komd.split.folds`.
    half : {"random", "given", "time", "rolling"}
        As in `komd.split.folds`. For data with times, "rolling" and "time" test on what came later, which is needed to
        judge a half-life.
    rng : int
        Seed. The inner folds have other test users than those of `komd.split.folds` with the same seed.
    rounds : int
        Number of inner folds that are used. A trial is pruned if its result on the first of them is below the median of
        the trials before.
    held_out : Interactions, optional
        The final test data. The search is refused if one of its pairs is in `data`.
    keep : str or Path, optional
        Folder for trials. The same search with the same folder is resumed.
    reuse : bool
        Cache matrices that settings share. False fits every model from the data: the same search, but slower.
    threads : int, optional
        Number of threads; all cores by default.
    memory : str or int, optional
        Memory budget, as in `fit`.
    say : callable, optional
        Called with a line after each trial; by default nothing is printed.

    Returns
    -------
    Tuning
        All trials, and the best model as text.

    Raises
    ------
    InputError
        If the model, the metric or the protocol is invalid, if `held_out` overlaps `data`, or if no trial succeeded.

    Examples
    --------
    >>> import komd
    >>> data = komd.generate(users=200, items=60, activity=12, rng=0)
    >>> found = komd.tune("EASE", data, metric="ndcg@10", trials=4, rounds=1)
    >>> found.model.fit(data)
    EASE(...)
    """
    base = model_from_text(model) if isinstance(model, str) else model.clone()
    wanted = parse_metrics(metric)
    if len(wanted) != 1:
        raise InputError(f"metric must be the name of one metric, got {metric!r}")
    limit = in_seconds(budget, "budget")
    if trials is not None:
        whole("trials", trials, 1)
    if whole("rounds", rounds, 1) > folds:
        raise InputError(f"rounds must not outnumber the folds, got {rounds} rounds of {folds} folds")
    whole("rng", rng, 0, most=None)  # not a Generator: a search must be able to resume
    interactions = Interactions.of(data)
    if held_out is not None:
        _refuse_leak(interactions, Interactions.of(held_out))
    tell = say or (lambda line: None)
    parameters = affordable(base, free_parameters(base, interactions), interactions, limit, memory, tell)
    settings = {
        "model": base.text,
        "metric": str(wanted[0]),
        "folds": folds,
        "rounds": rounds,
        "half": half,
        "rng": int(rng),
        "space": {parameter.name: [repr(value) for value in parameter.values] for parameter in parameters},
    }
    log = TrialLog.open(keep, interactions, settings)
    search = OptunaSearch(base, parameters, int(rng), log.trials)
    inner = inner_folds(interactions, str(wanted[0]), folds, rounds, half, int(rng), reuse, threads, memory)
    start = time.monotonic()
    while trials is None or len(log.trials) < trials:
        if time.monotonic() - start >= limit and log.trials:
            break
        proposal = search.ask()
        if proposal is None:
            tell("every setting has been tried")
            break
        trial = _evaluated(proposal, inner, search)
        search.tell(proposal, trial)
        log.add(trial)
        best = max((t.value for t in log.trials if t.state == "complete"), default=float("nan"))
        found = f"{trial.value:.4f}" if trial.values else trial.reason
        mark = "" if trial.state == "complete" else f" ({trial.state})"
        spent = time.monotonic() - start
        tell(f"{len(log.trials)}: {found}{mark} {trial.text} | best {best:.4f} | {spent:.0f} of {limit:.0f} s")
    result = Tuning(str(wanted[0]), tuple(log.trials), rounds, sum(trial.seconds for trial in log.trials))
    result.best  # noqa: B018 (raises if no trial is complete)
    return result


def _evaluated(proposal: Proposal, inner: list[InnerFold], search: OptunaSearch) -> Trial:
    """A setting on all rounds, or on fewer if it is pruned."""
    begun = time.monotonic()
    values: list[float] = []
    state, reason = "complete", ""
    try:
        for step, fold in enumerate(inner):
            values.append(fold.measure(proposal.model))
            if step + 1 < len(inner) and search.should_prune(proposal, step, values[-1]):
                state = "pruned"
                break
    except KomdError as error:
        values, state, reason = [], "failed", str(error)
    if any(np.isnan(values)):
        values, state, reason = [], "failed", "the metric is not defined for any test user"
    return Trial(proposal.model.text, proposal.params, values, time.monotonic() - begun, state, reason)


def inner_folds(
    data: Interactions,
    metric: str,
    folds: int,
    rounds: int,
    half: str,
    rng: int,
    reuse: bool,
    threads: int | None,
    memory: str | int | None,
) -> list[InnerFold]:
    """The inner folds of a search, as many as there are rounds; each caches matrices unless `reuse` is False."""
    room = int(_CACHE * memory_budget(memory) / rounds)
    made = []
    # The groups that the same seed gives outside must not be used: an inner fold would test exactly the users whose
    # histories were halved there.
    inner = np.random.default_rng([rng, _INNER])
    for number, (train, test) in enumerate(islice(split.folds(data, folds=folds, half=half, rng=inner), rounds)):
        if not test.pairs:
            raise InputError(
                f"no test users in inner fold {number + 1} of {folds}: {data!r} is too small; use fewer folds"
            )
        made.append(InnerFold(train, test, metric, room=room, reuse=reuse, threads=threads, memory=memory))
    return made


def _refuse_leak(data: Interactions, held_out: Interactions) -> None:
    """Refuse data that contain a pair which is to be tested later."""
    items = data.items.find(held_out.items.values, on_unknown="skip")[held_out.indices]
    users = data.users.find(held_out.users.values, on_unknown="skip")[held_out.rows]
    known = (items >= 0) & (users >= 0)
    m = data.shape[1]
    tested = users[known].astype(np.int64) * m + items[known]
    leaked = int(np.isin(tested, data.rows.astype(np.int64) * m + data.indices).sum())
    if leaked:
        raise InputError(
            f"{leaked:,} of {held_out.pairs:,} held-out pairs are in the data to tune on, which must not contain them; "
            "tune on the training part alone"
        )
