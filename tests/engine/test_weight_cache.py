"""Kept weights against weights that are solved each time."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import komd
from komd.engine.histories import Histories
from komd.engine.weight_cache import WeightCache

ROW = st.dictionaries(st.integers(0, 5), st.sampled_from([0.5, 1.0, -1.0]), max_size=4)


def rows_of(rows, weighted):
    items = [np.array(sorted(row), np.int32) for row in rows]
    weights = [np.array([row[item] for item in sorted(row)], np.float32) for row in rows] if weighted else None
    return Histories.of_rows(items, weights)


def solve(rows):
    """Weights that tell all that they may depend on."""
    counted = np.ones(len(rows.indices)) if rows.weights is None else 10.0 * rows.weights
    owners = np.repeat(np.arange(len(rows)), rows.lengths)
    w = counted + rows.indices
    return w, np.bincount(owners, w**2, len(rows)) + 0.5 * rows.lengths


@given(st.lists(st.tuples(st.lists(ROW, max_size=4), st.booleans()), max_size=12), st.sampled_from([0, 1000, 10**6]))
def test_the_same_weights_as_without_a_cache(batches, most):
    cache, asked = WeightCache(most), 0
    for rows, weighted in batches:
        histories = rows_of(rows, weighted)
        asked += len(rows)
        for found, expected in zip(cache.weights(histories, solve), solve(histories), strict=True):
            assert found.dtype == np.float64 and found.tolist() == expected.tolist()
        assert cache.bytes <= most and (cache.bytes == 0) == (len(cache) == 0)
    assert cache.counts.hits + cache.counts.misses == asked


def test_what_is_given_out_can_be_changed():
    cache, histories = WeightCache(10**6), rows_of([{1: 1.0, 3: 1.0}], False)
    for _ in range(3):
        w, b = cache.weights(histories, solve)
        assert w.tolist() == solve(histories)[0].tolist()
        w[:], b[:] = 0, 0


def test_the_rows_used_last_stay():
    histories = [rows_of([{item: 1.0}], False) for item in range(5)]
    cache = WeightCache(3 * 408)
    for k in (0, 1, 2, 0, 3, 0):
        cache.weights(histories[k], solve)
    assert (cache.counts.hits, len(cache)) == (2, 3)
    cache.weights(histories[1], solve)  # which left when 3 came
    assert cache.counts.hits == 2


def test_what_was_solved_before_it_was_cleared_does_not_come_back():
    cache, histories = WeightCache(10**6), rows_of([{1: 1.0}], False)

    def solve_and_clear(rows):
        cache.clear()
        return solve(rows)

    cache.weights(histories, solve_and_clear)
    assert len(cache) == cache.bytes == 0
    cache.weights(histories, solve)
    assert len(cache) == 1


def test_many_threads():
    histories = [rows_of([{item: 1.0, other: 0.5}], True) for item in range(6) for other in range(6)]
    cache, wrong = WeightCache(12 * 416), []

    def work(seed):
        for k in np.random.default_rng(seed).integers(0, len(histories), 300).tolist():
            w, b = cache.weights(histories[k], solve)
            if w.tolist() != solve(histories[k])[0].tolist() or b.tolist() != solve(histories[k])[1].tolist():
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and cache.bytes <= 12 * 416
    assert cache.bytes == sum(one[0].nbytes + 400 for one in cache._held.values())


@pytest.mark.parametrize("storage", ["dense", "sparse", "streamed"])
def test_a_model_that_keeps_weights(storage):
    data = komd.generate(users=60, items=40, activity=6, rng=1)
    model, cache = komd.CFKOMD(storage=storage).fit(data), WeightCache(10**6)
    keeping = model.keeping_weights(cache)
    for _ in range(2):
        assert keeping.recommend(n=5).to_arrow() == model.recommend(n=5).to_arrow()
    if storage != "streamed":  # rows that are counted again for each block of users are ranked by another function
        assert cache.counts.hits >= 60
    user, item = data.users[0], data.items[3]
    for _ in range(2):
        found, expected = keeping.explain(user, item), model.explain(user, item)
        assert found.score == expected.score and found.to_arrow() == expected.to_arrow()
    assert cache.counts.hits > 0


def test_weights_belong_to_one_state_of_the_model():
    data, cache = komd.generate(users=60, items=40, activity=6, rng=1), WeightCache(10**6)
    model = komd.CFKOMD().fit(data)
    keeping = model.keeping_weights(cache)
    keeping.recommend(n=5)
    more = [(data.users[1], data.items[k]) for k in range(8)]
    model.update(more)
    assert keeping.recommend(n=5).to_arrow() != model.recommend(n=5).to_arrow()  # a view stays as it is
    keeping.update(more)
    assert keeping.recommend(n=5).to_arrow() == model.recommend(n=5).to_arrow()


def test_models_without_a_problem_keep_nothing():
    data, cache = komd.generate(users=60, items=40, activity=6, rng=1), WeightCache(10**6)
    for kind in (komd.MSDW, komd.Popularity):
        model = kind().fit(data)
        assert model.keeping_weights(cache).recommend(n=5).to_arrow() == model.recommend(n=5).to_arrow()
    assert len(cache) == 0
