"""BPR-kNN's gradient steps against the rules one entry at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from komd._core.bpr_steps import draw, rank_pairs
from tests import reference


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(1, 2**62))
def test_draws_are_remainders_of_splitmix64(seed, below):
    state = np.array([seed], np.uint64)
    for _ in range(3):
        seed, word = reference.splitmix64(seed)
        assert int(draw(state, below)) == word % below


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.02]), st.sampled_from([0.0, 0.3]), st.integers(0, 400))
def test_every_step_is_the_rule(seed, lam_i, lam_j, steps):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 10))
    sizes = [m, 0, *rng.integers(0, m + 1, 5)]  # one user has all items, one has none
    rows = [np.sort(rng.choice(m, size, replace=False)) for size in sizes]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    users = np.repeat(np.arange(len(rows), dtype=np.int32), np.diff(indptr))
    C = np.zeros((m, m), np.float32)
    state = np.array([seed], np.uint64)
    loss = rank_pairs(C, users, indptr, np.concatenate(rows).astype(np.int32), 0.1, lam_i, lam_j, steps, state)
    expected, mean = reference.bpr_steps([r.tolist() for r in rows], m, 0.1, lam_i, lam_j, steps, seed)
    assert pytest.approx(expected, abs=1e-4) == C
    assert loss == pytest.approx(mean, abs=1e-4)
    assert (C.diagonal() == 0).all()


def test_the_loss_falls():
    rng = np.random.default_rng(4)
    rows = [np.sort(rng.choice(9, size, replace=False)) for size in (1, 3, 9, 5, 2, 0, 8)]
    indptr = np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(np.int64)
    users = np.repeat(np.arange(len(rows), dtype=np.int32), np.diff(indptr))
    C, state = np.zeros((9, 9), np.float32), np.array([99], np.uint64)
    loss = rank_pairs(C, users, indptr, np.concatenate(rows).astype(np.int32), 0.1, 0.02, 0.3, 2000, state)
    assert 0 < loss < math.log(2)
