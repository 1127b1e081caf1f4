"""Rows made into distinct pairs: against a twin that reads them one by one, in any order."""

from __future__ import annotations

import math

import numpy as np
import pytest

import komd

pytest.importorskip("pyspark", reason="no pyspark: the extra spark")

REPEATED = ("sum", "max", "last", "count")
RULES = [{}, {"liked": 4}, {"disliked": 2}, {"liked": 4, "disliked": 2}]


def merge_rows(rows, *, liked=None, disliked=None, repeated="sum"):
    """(chosen {key: (weight, time)}, dislikes, seen) of rows (key, weight, time, rating): the slow twin of `merged`."""

    def kind(rating):
        if disliked is not None and rating <= disliked:
            return 1
        return 2 if liked is None or rating >= liked else 0

    of_pair = {}
    for key, weight, time, rating in rows:
        of_pair.setdefault(key, []).append((time, kind(rating), weight))
    chosen, others = {}, ({}, {})
    for key, found in of_pair.items():
        if repeated == "last":
            found = [max(found)]
        best = max(kind for _, kind, _ in found)
        if best < 2:
            others[best][key] = True
            continue
        weights = [weight for _, kind, weight in found if kind == 2]
        times = [time for time, kind, _ in found if kind == 2]
        weight = {"sum": math.fsum(weights), "max": max(weights), "last": weights[0], "count": len(weights)}[repeated]
        chosen[key] = weight, min(times)
    return chosen, set(others[1]), set(others[0])


@pytest.mark.parametrize("repeated", REPEATED)
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_pairs_are_those_of_the_twin(rule, repeated):
    from komd.spark.merged_rows import RowRule, merged

    rng = np.random.default_rng(3)
    for size in (0, 1, 40, 300):
        keys = rng.integers(0, 5, size) << 32 | rng.integers(0, 9, size)
        weights, times = rng.integers(1, 6, size).astype(float), rng.integers(0, 4, size)
        ratings = np.where(rng.random(size) < 0.1, np.nan, rng.integers(1, 6, size))
        expected, dislikes, seen = merge_rows(
            zip(keys.tolist(), weights.tolist(), times.tolist(), ratings.tolist(), strict=True),
            repeated=repeated,
            **rule,
        )
        found = merged(keys, weights, times, ratings, RowRule(repeated=repeated, **rule))
        assert found.keys.tolist() == sorted(expected)
        assert found.weights.dtype == np.float32 and found.times.dtype == np.int64
        assert found.weights.tolist() == [expected[key][0] for key in sorted(expected)]
        assert found.times.tolist() == [expected[key][1] for key in sorted(expected)]
        assert found.dislikes.tolist() == sorted(dislikes) and found.seen.tolist() == sorted(seen)


@pytest.mark.parametrize("repeated", REPEATED)
def test_the_order_of_rows_does_not_matter(repeated):
    from komd.spark.merged_rows import RowRule, merged

    rng = np.random.default_rng(4)
    keys, times = rng.integers(0, 20, 4000), rng.integers(0, 5, 4000)
    weights, ratings = np.exp(rng.normal(0, 9, 4000)), rng.integers(1, 6, 4000).astype(float)
    rule = RowRule(4, 2, repeated)
    expected = merged(keys, weights, times, ratings, rule)
    for _ in range(5):
        order = rng.permutation(4000)
        found = merged(keys[order], weights[order], times[order], ratings[order], rule)
        assert all(np.array_equal(*both) for both in zip(found, expected, strict=True))


def test_what_is_not_there_is_not_made():
    from komd.spark.merged_rows import EVERY_ROW, RowRule, merged

    keys = np.array([7, 3, 7])
    found = merged(keys, None, None, None, EVERY_ROW)
    assert found.keys.tolist() == [3, 7] and found.weights is None and found.times is None
    assert merged(keys, None, None, None, RowRule(repeated="count")).weights.tolist() == [1, 2]
    assert not len(found.dislikes) and not len(found.seen)
    assert np.isinf(merged(keys, np.full(3, 3e38), None, None, EVERY_ROW).weights[1])


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"liked": float("nan")}, "liked must be a finite number, got nan"),
        ({"disliked": float("inf")}, "disliked must be a finite number"),
        ({"liked": 2, "disliked": 2}, "disliked must be less than liked, got 2 and 2"),
        ({"repeated": "first"}, "repeated must be 'sum' or 'max' or 'last' or 'count', got 'first'"),
    ],
)
def test_bad_rules_are_refused(rule, words):
    from komd.spark.merged_rows import RowRule

    with pytest.raises(komd.InputError, match=words):
        RowRule(**rule)
