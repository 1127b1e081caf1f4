"""The search space: for each model the parameters worth tuning, each with a short list of values in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from komd.data.interactions import Interactions
from komd.engine.recommender import Recommender
from komd.errors import InputError, nearest
from komd.kernels import Polynomial
from komd.kernels.interaction_weights import microseconds_in
from komd.matrix.build import DEFAULT_RANK
from komd.matrix.eigenvectors import PRODUCTS, low_rank_fits
from komd.matrix.expected_density import saturating_density
from komd.matrix.ridge_filter import ridge_fits

__all__ = ["INACTIVE", "SPACES", "SearchParameter", "affordable", "free_parameters"]

_OPERATIONS = 2e10  # of an exact filter, a second, at least
_SPARSE_OPERATIONS = 2e9  # of products of a sparse K with vectors, a second
_RANKS = (64, DEFAULT_RANK, 2 * DEFAULT_RANK)  # of filters, if exact ones do not fit
_FILTER: dict[str, tuple[Any, ...]] = {"ridge": (None,), "head": (0.0,)}  # its parameters, and no filter
_SHORTEST = 1000  # half-lives in the time that the data span, at most
_LONGEST = 0.1  # of the time budget, for one filter: if it takes longer there is no time to search


@dataclass(frozen=True)
class SearchParameter:
    """A parameter and its values, in an order in which neighbours are similar.

    `cheap`: a change of it alone does not change the item-item matrix, so that trying it costs little.
    """

    name: str
    values: tuple[Any, ...]
    cheap: bool = False


def _steps(first: float, last: float, number: int) -> tuple[float, ...]:
    """Equal steps, rounded to what can be read.

    >>> _steps(0, 1, 5)
    (0.0, 0.25, 0.5, 0.75, 1.0)
    """
    return tuple(round(first + (last - first) * k / (number - 1), 4) for k in range(number))


def _factors(first: float, last: float, number: int) -> tuple[float, ...]:
    """Equal factors, rounded to two digits.

    >>> _factors(1, 100, 5)
    (1.0, 3.2, 10.0, 32.0, 100.0)
    """
    return tuple(float(f"{first * (last / first) ** (k / (number - 1)):.2g}") for k in range(number))


_REGULARIZATION = SearchParameter("regularization", _factors(0.001, 10, 9), cheap=True)

_HALF_LIVES = ("1h", "6h", "1d", "3d", "7d", "14d", "30d", "60d", "120d", "365d", "1000d", None)
_WEIGHTING = SearchParameter("weighting", ("none", "log", "sqrt", "linear"))
# None is the limit of a long half-life: the last value.
_HALF_LIFE = SearchParameter("half_life", _HALF_LIVES, cheap=True)

SPACES: dict[str, tuple[SearchParameter, ...]] = {
    "CFKOMD": (
        SearchParameter("kernel", ("linear", "tanimoto", "rbf", Polynomial(degree=3, c=0.5))),
        SearchParameter("user_damping", _steps(0, 1, 5)),
        SearchParameter("popularity", (0.0, 0.05, 0.1, 0.15, *_steps(0.2, 1, 9))),
        # No filter is the limit of a large μ: the last value.
        SearchParameter("ridge", (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, None)),
        SearchParameter("head", (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)),
        SearchParameter("prior", (0.0, 0.001, 0.003, 0.01, 0.03), cheap=True),
        SearchParameter("prior_power", (0.25, 0.5, 1.0), cheap=True),
        SearchParameter("target", (-0.2, -0.1, 0.0, 0.1, 0.2, 0.3), cheap=True),
        _REGULARIZATION,
        SearchParameter("negatives_weight", _steps(0, 1, 5), cheap=True),
        _WEIGHTING,
        SearchParameter("weighted_kernel", (False, True)),
        _HALF_LIFE,
        SearchParameter("dislikes_weight", (0.0, 0.1, 0.25, 0.5, 1.0, 2.0), cheap=True),
    ),
    "ECFOMD": (_REGULARIZATION, _WEIGHTING, _HALF_LIFE),
    "CFOMD": (
        SearchParameter("kernel", ("linear", "tanimoto")),
        SearchParameter("regularization", _factors(0.001, 10, 9)),
        SearchParameter("regularization_negatives", _factors(0.1, 1e4, 6)),
        _WEIGHTING,
        _HALF_LIFE,
    ),
    "MSDW": (
        SearchParameter("alpha", _steps(0, 1, 21)),
        SearchParameter("locality", (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0)),
    ),
    "RP3Beta": (SearchParameter("alpha", _steps(0, 2, 21)), SearchParameter("beta", _steps(0, 1, 21))),
    "EASE": (SearchParameter("regularization", _factors(1, 1e6, 37)),),
    "SLIM": (SearchParameter("l1", (0.0, *_factors(0.03, 30, 10))), SearchParameter("l2", _factors(1, 1e4, 13))),
    "WRMF": (
        SearchParameter("factors", (8, 16, 32, 64, 128)),
        SearchParameter("regularization", _factors(0.1, 1000, 13)),
        SearchParameter("alpha", _factors(0.1, 100, 10)),
        _WEIGHTING,
        _HALF_LIFE,
    ),
    "BPR": (
        SearchParameter("factors", (8, 16, 32, 64, 128)),
        SearchParameter("iterations", (30, 100, 300)),
        SearchParameter("learning_rate", _factors(0.001, 0.3, 8)),
        SearchParameter("regularization", _factors(0.0001, 0.3, 8)),
    ),
    "BPRKNN": (
        SearchParameter("epochs", (5, 10, 20, 40)),
        SearchParameter("learning_rate", _factors(0.0003, 0.1, 8)),
        SearchParameter("regularization", _factors(0.001, 1, 7)),
        SearchParameter("regularization_negatives", _factors(0.001, 1, 7)),
    ),
}
"""Every model that has parameters to tune."""

INACTIVE: dict[str, dict[str, Any]] = {
    "rank": {"ridge": None, "head": 0.0},
    "prior_power": {"prior": 0.0},
    "weighted_kernel": {"weighting": "none"},
}
"""Parameters without effect if all of these others have these values."""


def free_parameters(model: Recommender, data: Interactions | None = None) -> tuple[SearchParameter, ...]:
    """The parameters to search for a model: those that it does not set to something other than their default.

    What belongs to weights, times or dislikes is searched only where the `data`, if given, have them.
    """
    name = type(model).__name__
    if name not in SPACES:
        raise InputError(f"{name} has nothing to tune; {nearest(name, SPACES)}")
    defaults, params = type(model)().get_params(), model.get_params()
    free = tuple(
        found
        for parameter in SPACES[name]
        if params[parameter.name] == defaults[parameter.name] and (found := _suited(parameter, data)) is not None
    )
    if not free:
        raise InputError(f"{model.text} leaves nothing to tune: every parameter is set")
    return free


def _suited(parameter: SearchParameter, data: Interactions | None) -> SearchParameter | None:
    """The parameter with the values that these data give a meaning to; None if there are none."""
    if data is None:
        return parameter
    if parameter.name in ("weighting", "weighted_kernel"):
        return parameter if data.weights is not None else None
    if parameter.name == "dislikes_weight":
        return parameter if data.dislikes is not None else None
    if parameter.name != "half_life":
        return parameter
    if data.time_unit is None or not data.pairs:
        return None
    first, last = np.quantile(data.microseconds, [0.05, 0.95])
    span = float(last - first)
    values = [v for v in parameter.values if v is None or span / _SHORTEST <= microseconds_in(v) <= span]
    return replace(parameter, values=tuple(values)) if len(values) > 1 else None


def affordable(
    base: Any,
    parameters: tuple[SearchParameter, ...],
    data: Interactions,
    limit: float,
    memory: str | int | None,
    tell: Callable[[str], None],
) -> tuple[SearchParameter, ...]:
    """The parameters with filters of low rank, or without filters, if exact ones do not fit the memory or the time."""
    if not any(parameter.name in _FILTER for parameter in parameters):
        return parameters
    chosen = int(np.count_nonzero(data.popularity))
    entries = saturating_density(data.popularity, data.activity) * float(chosen) ** 2

    def fits(rank: int) -> bool:
        rank = min(rank, chosen)
        in_memory = low_rank_fits(data.shape[1], rank, memory)
        return in_memory and entries * rank * PRODUCTS / _SPARSE_OPERATIONS <= _LONGEST * limit

    if base.rank is None and not base.head:
        in_time = float(chosen) ** 3 / _OPERATIONS <= _LONGEST * limit
        if in_time and ridge_fits(data.shape[1], chosen, memory):
            # Where an exact filter can be had, a head did no better (docs/results/rule.md).
            return tuple(each for each in parameters if each.name != "head")
    ranks = tuple(rank for rank in (_RANKS if base.rank is None else (base.rank,)) if fits(rank))
    if not ranks:
        tell("no filters are tried: neither an exact one nor one of low rank fits the memory and the time")
        return tuple(replace(each, values=_FILTER.get(each.name, each.values)) for each in parameters)
    # Another filter of the same eigenvectors costs little.
    parameters = tuple(replace(each, cheap=each.cheap or each.name in _FILTER) for each in parameters)
    if base.rank is not None:
        return parameters
    tell(f"filters are of rank {' or '.join(map(str, ranks))}: an exact one does not fit the memory, or the time")
    return (*parameters, SearchParameter("rank", ranks))
