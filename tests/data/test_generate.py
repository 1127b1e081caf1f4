"""Synthetic interactions: deterministic, as long-tailed as asked, with tastes that can be found again."""

from __future__ import annotations

import numpy as np
import pytest

from komd.data import generate as module
from komd.data.generate import generate, taste
from komd.errors import InputError


def inequality(counts):
    """Gini's coefficient: 0 when all are equal, near 1 when one has all."""
    ordered = np.sort(counts).astype(float)
    n = len(ordered)
    return float((2 * np.arange(1, n + 1) - n - 1) @ ordered / (n * ordered.sum()))


def test_the_same_rng_gives_the_same_data():
    assert generate(users=300, rng=5) == generate(users=300, rng=5)
    assert generate(users=300, rng=5) == generate(users=300, rng=np.random.default_rng(5))
    assert generate(users=300, rng=5) != generate(users=300, rng=6)


def test_sizes():
    data = generate(users=500, items=777, activity=20)
    assert data.shape == (500, 777)
    assert data.activity.min() >= 1
    assert data.activity.mean() == pytest.approx(20, rel=0.1)
    assert (generate(users=50, user_tail=0, activity=7).activity == 7).all()


def test_blocks_of_users(monkeypatch):
    monkeypatch.setattr(module, "_USERS", 64)
    data = generate(users=300, items=200, activity=10)
    assert data.shape == (300, 200)
    assert data.activity.min() >= 1


def test_names():
    data = generate(users=40, items=3000, tastes=30, activity=5)
    names = data.items.values.to_pylist()
    assert len(set(names)) == 3000
    assert len({taste(name) for name in names}) == 30
    assert data.users[39] == "user-00039"
    assert names == sorted(names)
    assert {len(generate(users=2, items=26, tastes=4).items), 26} == {26}


def test_tails_grow_with_their_parameters():
    by_items = [inequality(generate(users=800, item_tail=tail, taste_strength=1).popularity) for tail in (0, 0.7, 1.4)]
    assert by_items == sorted(by_items)
    assert by_items[2] > by_items[0] + 0.2
    by_users = [inequality(generate(users=800, user_tail=tail).activity) for tail in (0, 0.5, 1)]
    assert by_users[0] == 0
    assert by_users == sorted(by_users)
    assert by_users[2] > 0.4


def within_taste(data):
    """How much likelier a co-occurring pair of items shares its taste than chance would have it."""
    labels = np.array([taste(name) for name in data.items])
    together = (data.to_csr().T @ data.to_csr()).toarray()
    np.fill_diagonal(together, 0)
    same = labels[:, None] == labels[None, :]
    return together[same].sum() / together.sum() / same.mean()


def test_tastes_can_be_found_again():
    strengths = [within_taste(generate(users=600, items=300, taste_strength=s)) for s in (0, 0.5, 1)]
    assert strengths[0] == pytest.approx(1, abs=0.15)
    assert strengths == sorted(strengths)
    assert strengths[2] > 4


def test_tastes_too_small_for_their_users_are_topped_up():
    data = generate(users=30, items=20, tastes=20, taste_strength=1, activity=9, user_tail=0)
    assert (data.activity == 9).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"users": 0}, "users must be a whole number >= 1, got 0"),
        ({"items": 1}, "items must be"),
        ({"items": 2.5}, "items must be"),
        ({"tastes": 0}, "tastes must be"),
        ({"tastes": 2000}, "tastes must not outnumber items"),
        ({"activity": 0}, "activity must be > 0"),
        ({"activity": float("nan")}, "activity must be"),
        ({"item_tail": -1}, "item_tail must be >= 0"),
        ({"user_tail": float("inf")}, "user_tail must be"),
        ({"taste_strength": 1.1}, "taste_strength must be"),
        ({"taste_strength": float("nan")}, "taste_strength must be"),
        ({"rng": None}, "rng must be"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        generate(**arguments)
