"""Parts of K that people need, taken from rows that are counted once and forgotten: for their problems and targets."""

from __future__ import annotations

import numpy as np

from komd._core.compile import compiled
from komd._core.cooccurrence import count_row

__all__ = ["deliver", "gather_rows", "score_targets"]

_CLEARED = 16  # counters cleared in the time of one count: a row with more counts than one in so many keeps no list


@compiled
def gather_rows(
    item_indptr: np.ndarray,
    item_users: np.ndarray,
    user_indptr: np.ndarray,
    user_items: np.ndarray,
    rows: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    people_indptr: np.ndarray,
    people: np.ndarray,
    wanted_indptr: np.ndarray,
    wanted: np.ndarray,
    counter: np.ndarray,
    touched: np.ndarray,
    columns: np.ndarray,
    products: np.ndarray,
    weights: np.ndarray | None = None,
) -> int:
    """For i in `rows` and each of the people who have i: |U_i ∩ U_j| · left_i · right_j for the items j they want.

    `people_indptr` and `people` are compressed rows by item. `counter` (one number an item, zero on entry and return)
    and `touched` (one place more than items) are scratch. Returns the entries written.
    """
    mean = user_items.shape[0] // max(user_indptr.shape[0] - 1, 1)
    end = 0
    for r in range(rows.shape[0]):
        i = rows[r]
        first, stop = item_indptr[i], item_indptr[i + 1]
        whole = (stop - first) * mean * _CLEARED > counter.shape[0]
        met = count_row(first, stop, item_users, user_indptr, user_items, whole, counter, touched, 0, weights)
        scale = left[i]
        for p in range(people_indptr[i], people_indptr[i + 1]):
            u = people[p]
            for k in range(wanted_indptr[u], wanted_indptr[u + 1]):
                j = wanted[k]
                columns[end] = j
                products[end] = counter[j] * scale * right[j]
                end += 1
        if whole:
            counter[:] = 0
        for k in range(met):
            counter[touched[k]] = 0
    return end


@compiled
def deliver(values: np.ndarray, destinations: np.ndarray, lengths: np.ndarray, blocks: np.ndarray) -> None:
    """Copy pieces of `values`, one after another, each to its place in `blocks`."""
    start = 0
    for p in range(destinations.shape[0]):
        to = destinations[p]
        for k in range(lengths[p]):
            blocks[to + k] = values[start + k]
        start += lengths[p]


@compiled
def score_targets(
    blocks: np.ndarray,
    starts: np.ndarray,
    skip: bool,
    S: np.ndarray,
    indptr: np.ndarray,
    weights: np.ndarray,
    offsets: np.ndarray,
    target_indptr: np.ndarray,
    targets: np.ndarray,
    scores: np.ndarray,
) -> None:
    """The scores of each person's targets, from K(i, t) gathered: to the last bit those of `score_strip`.

    The block of person u begins at `starts[u]` of `blocks`: a row for each item of the history, a column a target,
    after one a history item if `skip`.
    """
    for u in range(indptr.shape[0] - 1):
        first = target_indptr[u]
        out = scores[first : target_indptr[u + 1]]
        width = out.shape[0]
        offset = offsets[u]
        for k in range(width):
            out[k] = -offset * S[targets[first + k]]
        before = indptr[u + 1] - indptr[u] if skip else 0
        at = starts[u] + before
        for p in range(indptr[u], indptr[u + 1]):
            w = weights[p]
            line = blocks[at : at + width]
            for k in range(width):
                out[k] += w * line[k]
            at += before + width
