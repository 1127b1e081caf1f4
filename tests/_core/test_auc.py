"""Where test items stand: AUC against scikit-learn, the strict reading against its sum, hits against sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from komd._core.auc import LOWEST, area_under_curve, level_unchosen, mark_hits, pairs_lost, ties_won
from komd._core.groups import TieRule
from tests import reference
from tests._core.arrays import compiled_anew


def rule(share, places=()):
    return TieRule(share, np.array(places, np.int32))


def problem(seed, levels):
    """Scores of four users with `levels` distinct values; -inf marks the training history."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 40))
    scores = rng.integers(0, levels, (4, m)).astype(float) - levels / 2
    kind = rng.integers(0, 3, (4, m))  # 0 history, 1 test, 2 neither
    scores[kind == 0] = -np.inf
    test = [np.flatnonzero(row == 1) for row in kind]
    indptr = np.cumsum([0, *map(len, test)]).astype(np.int64)
    return scores, kind, indptr, np.concatenate(test).astype(np.int32)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 5, 1000]))
def test_area_is_scikit_learns_with_ties_one_half(seed, levels):
    scores, kind, indptr, test = problem(seed, levels)
    areas = np.empty(4)
    area_under_curve(scores.copy(), scores.shape[1], indptr, test, rule(0.5), areas)
    for u in range(4):
        seen = kind[u] > 0
        labels = kind[u][seen] == 1
        if labels.all() or not labels.any():
            assert np.isnan(areas[u])
        else:
            assert areas[u] == pytest.approx(roc_auc_score(labels, scores[u][seen]), abs=1e-12)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 5, 1000]), st.sampled_from([0.0, 0.5]))
def test_area_is_the_printed_sum(seed, levels, tie):
    scores, kind, indptr, test = problem(seed, levels)
    areas = np.empty(4)
    area_under_curve(scores.copy(), scores.shape[1], indptr, test, rule(tie), areas)
    for u in range(4):
        expected = reference.area_under_curve(scores[u][kind[u] == 1], scores[u][kind[u] == 2], tie)
        assert areas[u] == pytest.approx(expected, abs=1e-12, nan_ok=True)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 5, 1000]), st.sampled_from([0.0, 0.5]), st.integers(0, 40))
def test_items_nobody_chose_are_below_all_others_and_equal(seed, levels, tie, chosen):
    scores, kind, indptr, test = problem(seed, levels)
    areas = np.empty(4)
    area_under_curve(scores.copy(), chosen, indptr, test, rule(tie), areas)
    scores[:, chosen:] = -1e9
    for u in range(4):
        expected = reference.area_under_curve(scores[u][kind[u] == 1], scores[u][kind[u] == 2], tie)
        assert areas[u] == pytest.approx(expected, abs=1e-12, nan_ok=True)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 5, 1000]), st.integers(0, 40))
def test_places_decide_between_equal_scores(seed, levels, chosen):
    """Some places are equal; items nobody chose are equal in score, so that places decide among them too."""
    scores, kind, indptr, test = problem(seed, levels)
    m = scores.shape[1]
    places = np.random.default_rng(seed).integers(0, m, m)
    areas = np.empty(4)
    area_under_curve(scores.copy(), chosen, indptr, test, rule(0.5, places), areas)
    scores[:, chosen:] = -1e9
    for u in range(4):
        tested, others = ([(scores[u, j], places[j]) for j in np.flatnonzero(kind[u] == which)] for which in (1, 2))
        assert areas[u] == pytest.approx(reference.area_in_order(tested, others), abs=1e-12, nan_ok=True)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 1000]))
def test_equal_places_decide_nothing(seed, levels):
    scores, _, indptr, test = problem(seed, levels)
    areas, same = np.empty(4), np.empty(4)
    area_under_curve(scores.copy(), scores.shape[1], indptr, test, rule(0.5), areas)
    area_under_curve(scores.copy(), scores.shape[1], indptr, test, rule(0.5, [7] * scores.shape[1]), same)
    np.testing.assert_array_equal(areas, same)


@compiled_anew
def tied(row, tested, tested_places, rule):
    return ties_won(row, tested, tested_places, rule)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 1000]), st.sampled_from([0, 1, 9]))
def test_ties_won_are_counted_strip_by_strip(seed, levels, size):
    rng = np.random.default_rng(seed)
    others = rng.integers(0, levels, rng.integers(0, 60)).astype(float)
    others[rng.random(len(others)) < 0.2] = -np.inf
    positives = np.sort(rng.integers(0, levels, size).astype(float))
    mine, theirs = (rng.integers(0, 9, n).astype(np.int32) for n in (size, len(others)))
    expected = sum(
        (p == x) * ((a < b) + 0.5 * (a == b))
        for p, a in zip(positives, mine, strict=True)
        for x, b in zip(others, theirs, strict=True)
    )
    cut = int(rng.integers(0, len(others) + 1))
    parts = [tied(others[s], positives, mine, rule(0.5, theirs[s])) for s in (slice(cut), slice(cut, None))]
    assert tied(others, positives, mine, rule(0.5, theirs)) == sum(parts) == expected


@compiled_anew
def levelled(row, chosen):
    level_unchosen(row, chosen)


@compiled_anew
def lost(row, tested, tie):
    return pairs_lost(row, tested, tie, np.empty(len(row) + 1))


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(-3, 45))
def test_levelled_scores_are_below_all_others(seed, chosen):
    row = problem(seed, 1000)[0][0]
    expected = [LOWEST if j >= chosen and x > -np.inf else x for j, x in enumerate(row)]
    levelled(row, chosen)
    assert row.tolist() == expected


@settings(deadline=None, max_examples=100)
@given(
    st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 1000]), st.sampled_from([0.0, 0.5]), st.sampled_from([0, 9, 300])
)
def test_pairs_lost_are_counted_strip_by_strip(seed, levels, tie, tested):
    """Of few test items and of more than are compared one by one."""
    rng = np.random.default_rng(seed)
    others = rng.integers(0, levels, rng.integers(0, 80)).astype(float)
    others[rng.random(len(others)) < 0.2] = -np.inf
    positives = np.sort(rng.integers(0, levels, tested).astype(float))
    able = others[others > -np.inf]
    expected = sum(np.where(able < x, 0.0, np.where(able == x, 1.0 - tie, 1.0)).sum() for x in positives)
    cut = int(rng.integers(0, len(others) + 1))
    assert lost(others, positives, tie) == expected
    assert lost(others[:cut], positives, tie) + lost(others[cut:], positives, tie) == expected


def test_ties_move_the_area():
    """Correction 4: the printed formula counts ties as wrong."""
    scores, indptr, test = np.zeros((1, 4)), np.array([0, 2]), np.array([0, 1], np.int32)
    areas = np.empty(1)
    area_under_curve(scores.copy(), scores.shape[1], indptr, test, rule(0.5), areas)
    assert areas[0] == 0.5
    area_under_curve(scores.copy(), scores.shape[1], indptr, test, rule(0.0), areas)
    assert areas[0] == 0.0


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_hits(seed):
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(1, 20)), int(rng.integers(1, 12))
    counts = rng.integers(0, min(n, m) + 1, 3)
    best = np.zeros((3, n), np.int32)  # what stands past the count is never looked at
    for u in range(3):
        best[u, : counts[u]] = rng.choice(m, counts[u], replace=False)
    test = [np.sort(rng.choice(m, rng.integers(0, m + 1), replace=False)) for _ in range(3)]
    indptr = np.cumsum([0, *map(len, test)]).astype(np.int64)
    mark, hits = np.zeros(m, np.uint8), np.ones((3, n), np.bool_)
    mark_hits(best, counts, indptr, np.concatenate(test).astype(np.int32), mark, hits)
    assert not mark.any()
    for u in range(3):
        assert hits[u].tolist() == [r < counts[u] and best[u, r] in test[u] for r in range(n)]
