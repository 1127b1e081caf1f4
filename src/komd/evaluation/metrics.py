"""The measures, each defined once. docs/guide/metrics.md says the same in words, with the tie rules.

For a user with test items T (|T| = t), ranked list π of the items not in the training history, cut at k:

    auc              share of pairs (test item, other item) in the right order; ties one half (or nothing: "strict")
    precision@k      |π_1..k ∩ T| / k
    recall@k         |π_1..k ∩ T| / t
    recall_capped@k  |π_1..k ∩ T| / min(k, t)
    hit@k            1 if π_1..k ∩ T is not empty
    mrr@k            1 / rank of the first test item in π_1..k, or 0
    map@k            Σ_{r ≤ k, π_r ∈ T} precision@r / min(k, t)
    ndcg@k           Σ_{r ≤ k, π_r ∈ T} 1/log2(r + 1)  /  Σ_{r ≤ min(k, t)} 1/log2(r + 1)
    novelty@k        mean over π_1..k of −log2(share of training users who chose the item)
    coverage@k       share of all items that stand in somebody's π_1..k (one number for all users)

In lists equal scores are ordered by falling popularity, then by id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from komd.errors import InputError, nearest

__all__ = ["BY_LIST", "Metric", "parse_metrics"]

Hits: TypeAlias = NDArray[np.bool_]
Counts: TypeAlias = NDArray[np.int64]
Values: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Metric:
    """A measure by name and depth; `str` gives the name it was asked for."""

    name: str
    k: int | None = None

    def __str__(self) -> str:
        return self.name if self.k is None else f"{self.name}@{self.k}"


def parse_metrics(names: str | Iterable[str]) -> list[Metric]:
    """Measures from their names, each once.

    >>> [str(m) for m in parse_metrics("auc, ndcg@100")]
    ['auc', 'ndcg@100']
    >>> parse_metrics(["ndgc@10"])
    Traceback (most recent call last):
    komd.errors.InputError: unknown metric 'ndgc@10'; did you mean 'ndcg@k'? (known: auc, coverage@k, ...
    """
    if isinstance(names, str):
        names = names.split(",")
    known = ["auc", *(f"{name}@k" for name in (*BY_LIST, "novelty", "coverage"))]
    found: dict[Metric, None] = {}
    for name in names:
        match = re.fullmatch(r"([a-z_]+)(?:@([0-9]+))?", str(name).strip().lower())
        base, depth = (match.group(1), match.group(2)) if match else ("", None)
        if base == "auc" and depth is None:
            found[Metric("auc")] = None
        elif f"{base}@k" in known and depth is not None and int(depth) > 0:
            found[Metric(base, int(depth))] = None
        elif f"{base}@k" in known:
            raise InputError(f"metric {name!r} needs a depth of at least 1, such as '{base}@10'")
        else:
            raise InputError(f"unknown metric {str(name)!r}; {nearest(str(name), known)}")
    if not found:
        raise InputError(f"no metric asked for; known: {', '.join(known)}")
    return list(found)


def _share(rows: NDArray[np.generic], of: Counts | int) -> Values:
    return np.asarray(np.sum(rows, axis=1, dtype=np.float64) / of)


def _precision(hits: Hits, test: Counts, k: int) -> Values:
    return _share(hits, k)


def _recall(hits: Hits, test: Counts, k: int) -> Values:
    return _share(hits, test)


def _recall_capped(hits: Hits, test: Counts, k: int) -> Values:
    return _share(hits, np.minimum(test, k))


def _hit(hits: Hits, test: Counts, k: int) -> Values:
    return np.asarray(hits.any(axis=1), np.float64)


def _mrr(hits: Hits, test: Counts, k: int) -> Values:
    first = hits.argmax(axis=1) + 1
    return np.asarray(hits.any(axis=1) / first)


def _map(hits: Hits, test: Counts, k: int) -> Values:
    precision = np.cumsum(hits, axis=1) / np.arange(1, hits.shape[1] + 1)
    return _share(precision * hits, np.minimum(test, k))


def _ndcg(hits: Hits, test: Counts, k: int) -> Values:
    gain = 1.0 / np.log2(np.arange(2, k + 2))
    ideal = np.cumsum(gain)[np.minimum(test, k) - 1]
    out: Values = (hits @ gain[: hits.shape[1]]) / ideal
    return out


BY_LIST: dict[str, Callable[[Hits, Counts, int], Values]] = {
    "precision": _precision,
    "recall": _recall,
    "recall_capped": _recall_capped,
    "hit": _hit,
    "mrr": _mrr,
    "map": _map,
    "ndcg": _ndcg,
}
"""Measures of one ranked list: from hits (users × at most k), test sizes (at least 1) and k."""
