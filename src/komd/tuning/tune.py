"""The search: Optuna proposes settings, inner folds judge them, and nothing but the training data is looked at."""

from __future__ import annotations

import time
from collections.abc import Callable
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
from komd.kernels.stages import RANK
from komd.matrix.eigenvectors import PRODUCTS, VECTORS
from komd.matrix.expected_density import saturating_density
from komd.matrix.ridge_filter import ridge_fits
from komd.memory import budget as memory_budget
from komd.models.registry import model_from_text
from komd.tuning.inner_fold import Workshop
from komd.tuning.optuna_search import Search
from komd.tuning.search_space import Choice, open_choices
from komd.tuning.trial_log import Notebook
from komd.tuning.tuning_result import Trial, Tuning

__all__ = ["tune"]

_INNER = 6  # sets the inner folds' random numbers apart from those of `komd.split.folds` with the same seed
_CACHE = 0.4  # of the memory budget, for matrices kept between trials, all rounds together
_OPERATIONS = 2e10  # of an exact filter, a second, at the least
_SPARSE_OPERATIONS = 2e9  # of products of a sparse K with vectors
_RANKS = (64, RANK)  # of filters, where exact ones do not fit
_LONGEST = 0.1  # of the budget, for one filter: where it takes longer there is no time to search over it


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
    """Search for the parameters with which a model does best on folds made inside `data`.

    Parameters
    ----------
    model
        A model or its text, such as "CFKOMD". Parameters that it sets to something other than their default are kept.
    data
        What may be learned from. The folds are cut from it (`komd.split.folds`), so what is to be tested later must not
        be in it.
    metric
        What to maximise: see docs/guide/metrics.md.
    budget
        Time: seconds, "10m", "1.5h". A setting under way when it ends is finished.
    trials
        At most so many settings, all told.
    folds, half, rng
        The inner protocol: as in `komd.split.folds`, but with the same seed other people are tested than there.
    rounds
        How many of the inner folds to measure on. A setting that does worse than the median of the others on the first
        is given up.
    held_out
        Interactions that are to be tested later. If one of their pairs is in `data` the search is refused.
    keep
        A folder for what was tried. The same question with the same folder goes on where it stopped.
    reuse
        Keep matrices between settings that share them. False fits each from nothing: the same search, slowly.
    threads, memory
        As in `fit`.
    say
        Called with a line after each setting.

    Examples
    --------
    >>> import komd
    >>> data = komd.generate(users=200, items=60, activity=12, rng=0)
    >>> found = komd.tune("EASE", data, metric="ndcg@10", trials=4, rounds=1)
    >>> found.model.fit(data)
    EASE(regularization=...)
    """
    base = model_from_text(model) if isinstance(model, str) else model.clone()
    choices = open_choices(base)
    wanted = parse_metrics(metric)
    if len(wanted) != 1:
        raise InputError(f"metric must be one measure, got {metric!r}")
    limit = in_seconds(budget)
    if trials is not None:
        whole("trials", trials, 1)
    if whole("rounds", rounds, 1) > folds:
        raise InputError(f"rounds must not outnumber the folds, got {rounds} rounds of {folds} folds")
    whole("rng", rng, 0, most=None)  # not a Generator: a search must be able to resume
    interactions = Interactions.of(data)
    if held_out is not None:
        _refuse_leak(interactions, Interactions.of(held_out))
    tell = say or (lambda line: None)
    choices = _affordable(base, choices, interactions, limit, memory, tell)
    question = {
        "model": base.text,
        "metric": str(wanted[0]),
        "folds": folds,
        "rounds": rounds,
        "half": half,
        "rng": int(rng),
        "space": {choice.name: [repr(value) for value in choice.values] for choice in choices},
    }
    notebook = Notebook.open(None if keep is None else Path(keep), interactions, question)
    search = Search(base, choices, int(rng), notebook.trials)
    workshops = _workshops(interactions, str(wanted[0]), folds, rounds, half, int(rng), reuse, threads, memory)
    start, before = time.monotonic(), sum(trial.seconds for trial in notebook.trials)
    while trials is None or len(notebook.trials) < trials:
        if time.monotonic() - start >= limit and notebook.trials:
            break
        asked = search.ask()
        if asked is None:
            tell("every setting has been tried")
            break
        trial = _tried(asked.model, asked.params, workshops, search, asked)
        search.tell(asked, trial)
        notebook.add(trial)
        best = max((t.value for t in notebook.trials if t.state == "complete"), default=float("nan"))
        found = f"{trial.value:.4f}" if trial.values else trial.reason
        mark = "" if trial.state == "complete" else f" ({trial.state})"
        spent = time.monotonic() - start
        tell(f"{len(notebook.trials)}: {found}{mark} {trial.text} | best {best:.4f} | {spent:.0f} of {limit:.0f} s")
    spent = sum(trial.seconds for trial in notebook.trials) - before
    result = Tuning(str(wanted[0]), tuple(notebook.trials), rounds, before + spent)
    result.best  # noqa: B018 (says why, where nothing could be measured)
    return result


def _tried(model: Recommender, params: dict[str, str], workshops: list[Workshop], search: Search, asked: Any) -> Trial:
    """One setting on all rounds, or on fewer where it is not worth going on."""
    begun = time.monotonic()
    values: list[float] = []
    state, reason = "complete", ""
    try:
        for step, workshop in enumerate(workshops):
            values.append(workshop.measure(model))
            if step + 1 < len(workshops) and search.hopeless(asked, step, values[-1]):
                state = "pruned"
                break
    except KomdError as error:
        values, state, reason = [], "failed", str(error)
    if any(np.isnan(values)):
        values, state, reason = [], "failed", "the metric is not defined for any test user"
    return Trial(model.text, params, values, time.monotonic() - begun, state, reason)


def _workshops(
    data: Interactions,
    metric: str,
    folds: int,
    rounds: int,
    half: str,
    rng: int,
    reuse: bool,
    threads: int | None,
    memory: str | int | None,
) -> list[Workshop]:
    room = int(_CACHE * memory_budget(memory) / rounds)
    made = []
    # Not the groups that the same seed gives outside: an inner fold would test the very people whose histories were
    # halved there, and nobody else.
    inner = np.random.default_rng([rng, _INNER])
    for place, (train, test) in enumerate(split.folds(data, folds=folds, half=half, rng=inner)):
        if place == rounds:
            break
        if not test.pairs:
            raise InputError(
                f"nobody is tested in inner fold {place + 1} of {folds}: {data!r} is too small; use fewer folds"
            )
        made.append(Workshop(train, test, metric, room=room, reuse=reuse, threads=threads, memory=memory))
    return made


def _refuse_leak(data: Interactions, held_out: Interactions) -> None:
    """Refuse to search on data that hold a pair which is to be tested."""
    items, users = (
        theirs.find(ours.values, on_unknown="skip")
        for ours, theirs in ((held_out.items, data.items), (held_out.users, data.users))
    )
    theirs_item, theirs_user = items[held_out.indices], users[held_out.rows]
    known = (theirs_item >= 0) & (theirs_user >= 0)
    m = data.shape[1]
    tested = theirs_user[known].astype(np.int64) * m + theirs_item[known]
    leaked = int(np.isin(tested, data.rows.astype(np.int64) * m + data.indices).sum())
    if leaked:
        raise InputError(
            f"{leaked:,} of {held_out.pairs:,} held-out pairs are in the data to tune on: what is tested later must "
            "not be seen; tune on the training part alone"
        )


def _affordable(
    base: Any,
    choices: tuple[Choice, ...],
    data: Interactions,
    limit: float,
    memory: str | int | None,
    tell: Callable[[str], None],
) -> tuple[Choice, ...]:
    """The choices with filters of low rank, or without any, where the exact ones do not fit the memory or the time."""
    if not any(choice.name == "ridge" for choice in choices):
        return choices
    chosen = int(np.count_nonzero(data.popularity))
    full = saturating_density(data.popularity, data.activity) * float(chosen) ** 2

    def fits(rank: int) -> bool:
        narrow = min(rank, chosen)
        enough = VECTORS * 4 * narrow * data.shape[1] <= memory_budget(memory) / 2
        return enough and full * narrow * PRODUCTS / _SPARSE_OPERATIONS <= _LONGEST * limit

    if base.rank is None:
        soon = float(chosen) ** 3 / _OPERATIONS <= _LONGEST * limit
        if soon and ridge_fits(data.shape[1], chosen, memory):
            return choices
    ranks = tuple(rank for rank in (_RANKS if base.rank is None else (base.rank,)) if fits(rank))
    if not ranks:
        tell("no filters are tried: neither an exact one nor one of low rank fits the memory and the time")
        return tuple(Choice(choice.name, (None,)) if choice.name == "ridge" else choice for choice in choices)
    if base.rank is not None:
        return choices
    tell(f"filters are of rank {' or '.join(map(str, ranks))}: an exact one does not fit the memory, or the time")
    return (*choices, Choice("rank", ranks))
