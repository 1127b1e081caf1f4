"""Pairs of numbers grouped by user, and one pair made of repeated ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from komd.data.weights import single_precision
from komd.rows import frozen

__all__ = ["REPEATED", "Grouped", "decided_by_last", "grouped"]

REPEATED = ("sum", "max", "last", "count")
"""What the weight of a repeated pair may be."""

_NO_TIMES = np.zeros(0, np.int64)
_NO_WEIGHTS = np.zeros(0, np.float64)


class Grouped(NamedTuple):
    """Compressed rows of distinct pairs, in the order of their first appearance within a row."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    times: NDArray[np.int64] | None
    weights: NDArray[np.float32] | None


def grouped(
    rows: NDArray[np.int32],
    columns: NDArray[np.int32],
    shape: tuple[int, int],
    times: NDArray[np.int64] | None,
    weights: NDArray[np.floating] | None,
    repeated: str,
) -> Grouped:
    """Group pairs by row; a repeated pair is one, where it first stood.

    Its time is the earliest; its weight the sum of all, the largest, or how many there are ("count", which needs no
    weights). With "last", time and weight are those of the latest, or, without times, of the last given.
    """
    from komd._core import compressed_rows as csr

    rows, columns = frozen(rows, np.int32), frozen(columns, np.int32)
    in_times = frozen(_NO_TIMES if times is None else times, np.int64)
    indptr = np.zeros(shape[0] + 1, np.int64)
    csr.count(rows, indptr)
    seen = np.full(shape[1], -1, np.int64)
    if weights is None and (repeated in ("sum", "max") or (repeated == "last" and times is None)):
        indices, out_times = np.empty(len(rows), np.int32), np.empty_like(in_times)
        csr.group(rows, columns, in_times, indptr[:-1].copy(), indices, out_times)
        left = csr.distinct(indptr, indices, out_times, seen)
        totals = _NO_WEIGHTS
    else:
        order = np.empty(len(rows), np.int64)
        csr.places(rows, indptr[:-1].copy(), order)
        indices, out_times = columns[order], in_times if times is None else in_times[order]
        out_times = np.array(out_times)  # writeable
        totals = np.ones(len(rows)) if repeated == "count" else _NO_WEIGHTS.copy()
        if weights is not None and repeated != "count":
            totals = np.asarray(weights, np.float64)[order]
        how = {"sum": csr.SUM, "count": csr.SUM, "max": csr.LARGEST, "last": csr.LAST}[repeated]
        left = csr.merge(indptr, indices, out_times, totals, seen, how)
    if left < len(indices):
        indices, out_times = indices[:left].copy(), out_times[:left].copy()
    weighted = weights is not None or repeated == "count"
    return Grouped(
        indptr,
        indices,
        None if times is None else out_times,
        single_precision(totals[:left]) if weighted else None,
    )


def decided_by_last(
    rows: NDArray[np.int32],
    columns: NDArray[np.int32],
    times: NDArray[np.int64] | None,
    *masks: NDArray[np.bool_],
) -> tuple[NDArray[np.bool_], ...]:
    """The masks (bool, one a pair) such that each says of a repeated pair what it says of the last.

    >>> pairs = np.array([0, 0, 1], np.int32), np.array([5, 5, 5], np.int32)
    >>> decided_by_last(*pairs, None, np.array([True, False, True]))
    (array([False, False,  True]),)
    """
    if len(rows) == 0:
        return masks
    pairs = rows.astype(np.int64) * (int(columns.max()) + 1) + columns
    order = np.argsort(pairs, kind="stable") if times is None else np.lexsort((times, pairs))
    ends = np.append(np.diff(pairs[order]) != 0, True)  # the last of each pair
    group = np.cumsum(ends) - ends
    last = order[ends][group]
    decided = []
    for mask in masks:
        out = np.empty_like(mask)
        out[order] = mask[last]
        decided.append(out)
    return tuple(decided)
