"""Which inverse a regression between items takes, and how its matrix is held. That both are EASE's: test_ease.py."""

from __future__ import annotations

import numpy as np
import pytest

from komd.matrix.regression import regression_matrix
from tests._core.arrays import rows_of


def rows(rng, users, items):
    """Histories of three items each, the first items the most popular."""
    lists = [
        np.sort(rng.choice(items, 3, replace=False, p=np.arange(items, 0, -1) / (items * (items + 1) / 2)))
        for _ in range(users)
    ]
    counts = np.bincount(np.concatenate(lists), minlength=items)
    rank = np.argsort(np.argsort(-counts, kind="stable"))
    return rows_of([np.sort(rank[each]) for each in lists])


@pytest.mark.parametrize(
    ("users", "items", "memory", "storage"),
    [
        (60, 20, None, "dense"),
        (10, 80, None, "dense"),
        (10, 80, "20kB", "dual"),
    ],
)
def test_storage(users, items, memory, storage):
    histories = rows(np.random.default_rng(0), users, items)
    assert regression_matrix(histories, items, 5.0, memory=memory).storage == storage


def test_nobody_chose_anything():
    assert not regression_matrix(rows_of([[], []]), 3, 1.0).sums().any()
