"""Data in the shape of a known set: the counts that were promised, tastes, and nothing that hangs on threads."""

from __future__ import annotations

import re

import numpy as np
import pytest

import komd
from komd.data import generate_like as module
from komd.data.generate_like import generate_like
from komd.errors import InputError


def test_the_shape_of_msd():
    data = generate_like("msd", users=30_000, items=9_614)
    activity, popularity = data.activity, data.popularity
    assert data.shape == (30_000, 9_614)
    assert (activity.min(), np.median(activity)) == (10, 27)
    assert activity.mean() == pytest.approx(40, rel=0.03)
    assert 600 < activity.max() <= 4_400
    assert popularity.min() >= 1
    assert 0.05 < popularity.max() / 30_000 < 0.25
    assert np.median(popularity) < 0.5 * popularity.mean()
    for u in range(0, 30_000, 997):
        row = data.indices[data.indptr[u] : data.indptr[u + 1]]
        assert len(np.unique(row)) == len(row)
    # numbers tell nothing of popularity
    assert abs(np.corrcoef(np.arange(9_614), popularity)[0, 1]) < 0.05


def test_the_full_size_is_the_default():
    shape = module._SHAPES["msd"]
    assert (shape.users, shape.items) == (1_200_000, 384_546)
    pairs = module._activities(shape, shape.users, shape.items, shape.activity, np.random.default_rng(1))
    assert 47e6 < pairs[-1] < 50e6
    assert np.diff(pairs).max() <= 4_400


def test_other_sizes():
    assert generate_like("msd", users=10_000).shape == (10_000, 3_205)
    more = generate_like("msd", users=2_000, items=5_000, activity=80)
    assert more.shape == (2_000, 5_000)
    assert more.activity.mean() == pytest.approx(80, rel=0.1)
    assert 19 <= more.activity.min() <= 21
    assert more.popularity.min() >= 1
    tiny = generate_like("msd", users=5)
    assert (tiny.shape, tiny.activity.tolist(), tiny.popularity.min() >= 1) == ((5, 2), [1] * 5, True)


def test_tastes_can_be_learned():
    train, test = next(komd.split.folds(generate_like("msd", users=4_000, rng=2), rng=0))
    measures = ("auc", "map@100")
    popular = komd.evaluate(komd.Popularity().fit(train), test, metrics=measures)
    by_taste = komd.evaluate(komd.ECFOMD().fit(train), test, metrics=measures)
    assert by_taste["auc"].mean > popular["auc"].mean + 0.05
    assert by_taste["map@100"].mean > 2 * popular["map@100"].mean


def test_neither_threads_nor_blocks_change_anything(monkeypatch):
    one = generate_like("msd", users=3_000, threads=1, rng=5)
    monkeypatch.setattr(module, "_USERS", 171)
    assert generate_like("msd", users=3_000, threads=3, rng=5) == one
    assert generate_like("msd", users=3_000, rng=np.random.default_rng(5)) == one
    assert generate_like("msd", users=3_000, rng=6) != one


def test_text_ids_are_like_the_original_ones():
    data, plain = (generate_like("msd", users=2_000, text_ids=text) for text in (True, False))
    users, songs = data.users.values.to_pylist(), data.items.values.to_pylist()
    assert all(re.fullmatch("[0-9a-f]{40}", user) for user in users)
    assert all(re.fullmatch("SO[A-Z]{5}[0-9A-F]{11}", song) for song in songs)
    assert users == sorted(set(users)) and songs == sorted(set(songs))
    assert np.array_equal(data.indices, plain.indices) and plain.users[7] == 7
    assert generate_like("msd", users=2_000, text_ids=True) == data


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "mds"}, r"unknown shape 'mds'; did you mean 'msd'\?"),
        ({"users": 0}, "users must be a whole number >= 1, got 0"),
        ({"users": 10, "items": 1}, "items must be a whole number >= 2, got 1"),
        ({"users": 10, "activity": 0}, "activity must be > 0, got 0"),
        ({"users": 10, "activity": float("nan")}, "activity must be a number > 0, got nan"),
        ({"users": 1}, "1 users choose 1 items in all, too few for each of 2 items"),
        ({"users": 10, "items": 10**6}, "too few for each of 1,000,000 items .* ask for more users"),
        ({"users": 10, "threads": 0}, "threads must be"),
        ({"users": 10, "rng": None}, "rng must be"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        generate_like(**{"name": "msd", **arguments})
