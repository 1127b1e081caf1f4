"""What is tried: for each model the parameters worth tuning, each a short list of values in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from komd.engine.recommender import Recommender
from komd.errors import InputError, nearest
from komd.kernels import Polynomial

__all__ = ["IDLE", "SPACES", "Choice", "open_choices"]


@dataclass(frozen=True)
class Choice:
    """A parameter and its values, in an order in which neighbours are alike.

    `cheap`: a change of it alone leaves the item-item matrix as it is, so that trying it costs little.
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


_SPREAD = Choice("regularization", _factors(0.001, 10, 9), cheap=True)

SPACES: dict[str, tuple[Choice, ...]] = {
    "CFKOMD": (
        Choice("kernel", ("linear", "tanimoto", "rbf", Polynomial(degree=3, c=0.5))),
        Choice("user_damping", _steps(0, 1, 5)),
        Choice("popularity", _steps(0, 1, 11)),
        # Without a filter is the same as with an endless μ: the last of the row.
        Choice("ridge", (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, None)),
        Choice("prior", (0.0, 0.0003, 0.001, 0.003, 0.01, 0.03), cheap=True),
        Choice("prior_power", (0.25, 0.5, 1.0), cheap=True),
        _SPREAD,
        Choice("negatives_weight", _steps(0, 1, 5), cheap=True),
    ),
    "ECFOMD": (_SPREAD,),
    "CFOMD": (
        Choice("kernel", ("linear", "tanimoto")),
        Choice("regularization", _factors(0.001, 10, 9)),
        Choice("regularization_negatives", _factors(0.1, 1e4, 6)),
    ),
    "MSDW": (Choice("alpha", _steps(0, 1, 21)), Choice("locality", (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0))),
    "RP3Beta": (Choice("alpha", _steps(0, 2, 21)), Choice("beta", _steps(0, 1, 21))),
    "EASE": (Choice("regularization", _factors(1, 1e4, 25)),),
    "SLIM": (Choice("l1", (0.0, *_factors(0.03, 30, 10))), Choice("l2", _factors(1, 1e4, 13))),
    "WRMF": (
        Choice("factors", (8, 16, 32, 64, 128)),
        Choice("regularization", _factors(0.1, 1000, 13)),
        Choice("alpha", _factors(0.1, 100, 10)),
    ),
    "BPR": (
        Choice("factors", (8, 16, 32, 64, 128)),
        Choice("iterations", (30, 100, 300)),
        Choice("learning_rate", _factors(0.001, 0.3, 8)),
        Choice("regularization", _factors(0.0001, 0.3, 8)),
    ),
    "BPRKNN": (
        Choice("epochs", (5, 10, 20, 40)),
        Choice("learning_rate", _factors(0.0003, 0.1, 8)),
        Choice("regularization", _factors(0.001, 1, 7)),
        Choice("regularization_negatives", _factors(0.001, 1, 7)),
    ),
}
"""Every model that has something to tune."""

IDLE: dict[str, tuple[str, Any]] = {"rank": ("ridge", None), "prior_power": ("prior", 0.0)}
"""Parameters that say nothing where another has this value."""


def open_choices(model: Recommender) -> tuple[Choice, ...]:
    """The choices for a model; parameters that it sets to something other than their default are kept as they are."""
    name = type(model).__name__
    if name not in SPACES:
        raise InputError(f"{name} has nothing to tune; {nearest(name, SPACES)}")
    defaults, params = type(model)().get_params(), model.get_params()
    free = tuple(choice for choice in SPACES[name] if params[choice.name] == defaults[choice.name])
    if not free:
        raise InputError(f"{model.text} leaves nothing to tune: every parameter is set")
    return free
