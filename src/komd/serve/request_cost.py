"""How much work a request is, estimated before it is done: which thread does it, in what parts, and whether at all.

The unit is one operation of compiled code, about a nanosecond. Solving a user's problem takes a few operations for each
pair of items of the history, scoring reads one row of the item-item matrix for each of them, and every entry of the
answer is a Python object. The estimate depends only on the request and the model, so the same batch is always accepted
or always refused; it is within a factor of about three of the time that was measured (dense, sparse and streamed K).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from komd.errors import KomdError
from komd.serve import schemas

__all__ = ["BATCH", "PART", "SMALL", "BatchTooLarge", "LargeRequest", "RequestCost", "check_batch", "cut"]

SMALL = 2e6
"""More is a large request, done by another thread than small ones."""
PART = 2e7
"""Between two parts of about this size, work can be abandoned."""
BATCH = 1e9
"""More is refused in one batch."""

_PAIR = 4.0  # operations for each pair of items of a history
_ENTRY = 0.2  # for each entry of a row of K
_ITEM = 5.0  # for each item of the catalogue: scores are masked and searched for the best
_OBJECT = 5000.0  # for each recommended item, and for each contribution to one


class LargeRequest(KomdError):
    """A request that is not small, as its user's history shows: another thread is to do it."""


class BatchTooLarge(KomdError):
    """A batch that would take too long."""


@dataclass(frozen=True)
class RequestCost:
    """What requests to a model cost."""

    items: int
    """Items of the catalogue."""
    row_work: float
    """Operations to read or count a row of the model's item-item matrix."""

    def of(self, ask: schemas.Ask, history: int) -> float:
        """Operations for a request of a user with a history of so many items."""
        solving = _PAIR * history * history + _ENTRY * self.row_work * history
        listed = min(ask.n, self.items)
        if not ask.explain:
            return solving + _ITEM * self.items + _OBJECT * listed
        reasons = min(ask.reasons, history)
        return 2 * solving + _ITEM * self.items + listed * (_OBJECT * (1 + reasons) + _PAIR * history)


def check_batch(costs: Sequence[float]) -> None:
    """Raise BatchTooLarge if requests of these costs are too much for one batch."""
    total = sum(costs)
    if len(costs) > 1 and total > BATCH:
        fitting = max(1, int(len(costs) * BATCH / total))
        raise BatchTooLarge(
            f"this batch of {len(costs)} requests is {total / BATCH:.1f} times the work that one may ask for; split it "
            f"into batches of at most about {fitting}, or ask for shorter lists or fewer reasons"
        )


def cut(costs: Sequence[float]) -> Iterator[tuple[int, int]]:
    """Consecutive (start, stop) of requests with these costs, of about PART together, or one.

    >>> list(cut([1e6, 1e7, 1e7, 5e7, 1e6]))
    [(0, 2), (2, 3), (3, 4), (4, 5)]
    """
    start, total = 0, 0.0
    for k, cost in enumerate(costs):
        if k > start and total + cost > PART:
            yield start, k
            start, total = k, 0.0
        total += cost
    if costs:
        yield start, len(costs)
