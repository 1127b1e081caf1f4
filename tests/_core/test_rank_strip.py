"""Ranking strip by strip: the lists and the areas of scores that are held whole."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from komd._core.auc import LOWEST
from komd._core.groups import TieRule
from komd._core.rank_strip import ItemTerms, Lists, Masked, NeverListed, TargetPairs, rank_strip
from komd._core.scoring import score_dense
from komd._core.top_n import sort_top, waiting_for
from tests import reference
from tests._core.arrays import random_rows, rows_of, strip_of, weighted


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.tuples(*[st.booleans()] * 5), st.sampled_from([0.0, 0.5, None]))
def test_lists_and_pairs_lost(seed, switches, tie):
    """A tie of None: places decide between equal scores."""
    exclude, listed, corrected, multiplied, opposed = switches
    rng = np.random.default_rng(seed)
    m, count, n = int(rng.integers(1, 40)), 5, 7
    K = np.round(rng.random((m, m)) * (rng.random((m, m)) < 0.5), 1).astype(np.float32)  # rounded: there are ties
    S, popularity = rng.standard_normal(m), np.sort(rng.integers(0, 9, m)).astype(float)[::-1].copy()
    histories = [[], *random_rows(rng, count - 1, m)]
    users = weighted(rng, histories)
    known = [np.union1d(history, rng.choice(m, min(m, 2))).astype(int) for history in histories]
    disliked = [seen[rng.random(len(seen)) < 0.5] if opposed else [] for seen in known]
    tested = [np.setdiff1d(mine, seen) for mine, seen in zip(random_rows(rng, count, m), known, strict=True)]
    candidates = np.flatnonzero(rng.random(m) < 0.8).astype(np.int32)
    chosen, places = int(rng.integers(0, m + 1)), rng.integers(0, m, m).astype(np.int32)
    correction = np.round(rng.standard_normal((count, m)), 1).astype(np.float32)
    factors = rng.choice([0.5, 1.0, 3.0], m)

    # What is held whole, and the answers by the slow twins.
    scores = np.empty((count, m))
    score_dense(K, S, users, scores)
    for u, history in enumerate(histories):
        if not len(history):
            scores[u] = popularity
            continue
        if corrected:
            scores[u] -= correction[u]
        if multiplied:
            scores[u] *= factors
    levelled = scores.copy()
    levelled[:, chosen:] = LOWEST
    top, lost = [], []
    for u in range(count):
        masked = scores[u].copy()
        masked[known[u] if exclude else disliked[u]] = -np.inf
        top.append(reference.top(masked, candidates, n) if listed else [])
        others = np.setdiff1d(np.arange(m), [*known[u], *tested[u]])
        pairs = len(tested[u]) * len(others)
        if tie is None:
            area = reference.area_in_order(*([(levelled[u, j], places[j]) for j in s] for s in (tested[u], others)))
        else:
            area = reference.area_under_curve(levelled[u][tested[u]], levelled[u][others], tie)
        lost.append((1.0 - area) * pairs if pairs else 0.0)

    rows, targets, never = rows_of(known), rows_of(tested), rows_of(disliked)
    masks = Masked(*rows, rows.indptr[:-1].copy(), exclude)
    nothing = np.zeros(0, np.int64)
    never = NeverListed(nothing, never.indices, nothing) if exclude else NeverListed(*never, never.indptr[:-1].copy())
    ascending = [mine[np.argsort(levelled[u][mine])] for u, mine in enumerate(tested)]
    known_scores = np.concatenate([np.zeros(0), *(levelled[u][mine] for u, mine in enumerate(ascending))])
    known_places = places[np.concatenate([np.zeros(0, int), *ascending])]
    measured = TargetPairs(
        *targets, targets.indptr[:-1].copy(), known_scores, known_places, TieRule(0.5, places), chosen, np.zeros(count)
    )
    length = n if listed else 0
    best = np.zeros((count, length), np.int32), np.zeros((count, length)), np.zeros(count, np.int64)
    for first, last in pairwise([0, *np.sort(rng.integers(0, m + 1, 2)), m]):
        inside = candidates[(candidates >= first) & (candidates < last)]
        rank_strip(
            strip_of(K, first, last, rng, int(rng.integers(1, 30))),
            first,
            ItemTerms(S[first:last], factors[first:last] if multiplied else factors[:0], popularity[first:last]),
            users,
            correction[:, first:last].copy() if corrected else np.zeros((0, 0), np.float32),
            masks,
            never,
            Lists(inside, *best, waiting_for(*best[1:])),
            measured._replace(rule=TieRule(0.5, places[first:last]) if tie is None else TieRule(tie, places[:0])),
        )
    sort_top(*best)
    for u in range(count):
        assert best[0][u, : best[2][u]].tolist() == top[u]
        assert best[1][u, : best[2][u]].tolist() == scores[u][top[u]].tolist()
    assert measured.lost.tolist() == pytest.approx(lost, abs=1e-9)
