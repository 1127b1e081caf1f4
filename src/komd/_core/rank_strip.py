"""What is done with a strip of K, one person after another, so that a person's scores of it never leave the cache."""

from __future__ import annotations

import numpy as np

from komd._core.auc import add_won, level_unchosen
from komd._core.compile import compiled
from komd._core.strip_counting import score_strip
from komd._core.top_n import push_top, veil_strip

__all__ = ["use_strip"]


@compiled
def use_strip(
    row_of: np.ndarray,
    places: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
    first: int,
    S: np.ndarray,
    popularity: np.ndarray,
    indptr: np.ndarray,
    indices: np.ndarray,
    weights: np.ndarray,
    offsets: np.ndarray,
    taken: np.ndarray,
    known_indptr: np.ndarray,
    known: np.ndarray,
    exclude_seen: bool,
    seen: np.ndarray,
    candidates: np.ndarray,
    best_items: np.ndarray,
    best_scores: np.ndarray,
    counts: np.ndarray,
    target_indptr: np.ndarray,
    targets: np.ndarray,
    met: np.ndarray,
    tested: np.ndarray,
    tie: float,
    chosen: int,
    won: np.ndarray,
    scores: np.ndarray,
) -> None:
    """Score a strip for each person, leave out the items they know, merge into their best, and count pairs won.

    `taken` is what a filtered matrix takes from the scores, or empty. People without history are scored by
    `popularity`. Lists of length 0 and an empty `target_indptr` are not asked for. Items from number `chosen` on, which
    nobody chose, lose to every other item. `scores` is scratch, one row as long as the strip is wide.
    The parts are `_core/strip_counting.py`, `topn.py`, `ranks.py`.
    """
    measured = target_indptr.shape[0] > 0
    for u in range(indptr.shape[0] - 1):
        row = indptr[u : u + 2]
        if row[0] == row[1]:
            scores[0] = popularity
        else:
            score_strip(row_of, places, columns, values, S, row, indices, weights, offsets[u : u + 1], scores)
            if taken.shape[0] > 0:
                for j in range(taken.shape[1]):
                    scores[0, j] -= taken[u, j]
        if exclude_seen:
            veil_strip(known_indptr[u : u + 2], known, first, seen[u : u + 1], scores)
        if best_items.shape[1] > 0:
            push_top(scores, candidates, first, best_items[u : u + 1], best_scores[u : u + 1], counts[u : u + 1])
        if measured:
            if not exclude_seen:
                veil_strip(known_indptr[u : u + 2], known, first, seen[u : u + 1], scores)
            veil_strip(target_indptr[u : u + 2], targets, first, met[u : u + 1], scores)
            level_unchosen(scores[0], chosen - first)
            add_won(scores, target_indptr[u : u + 2], tested, tie, won[u : u + 1])
