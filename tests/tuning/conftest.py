"""Data of the tests of tuning."""

from __future__ import annotations

import pytest

import komd


@pytest.fixture(scope="module")
def data():
    return komd.generate(users=250, items=80, activity=12, tastes=4, rng=2)


@pytest.fixture(scope="module")
def inner(data):
    return next(iter(komd.split.folds(data, folds=5, rng=0)))
