"""Synthetic choices against the rule in plain Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from komd._core.synthetic_choices import ChoiceRows, Tastes, choose
from tests import reference


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.8, 1.0]))
def test_choices_follow_the_rule_in_any_blocks(seed, strength):
    rng = np.random.default_rng(seed)
    users, items = 20, 60
    indptr = np.concatenate([[0], np.cumsum(rng.integers(2, 31, users))])
    line = np.cumsum(rng.dirichlet(np.full(items, 0.3)))
    line /= line[-1]
    bounds = np.array([0, 5, 20, 21, 45, 60])
    given_rows = [rng.choice(items, rng.integers(0, 3), replace=False).astype(np.int32) for _ in range(users)]
    given_indptr = np.concatenate([[0], np.cumsum([len(each) for each in given_rows])])
    numbers = rng.permutation(items).astype(np.int32)
    indices = np.full(indptr[-1], -1, np.int32)
    tastes = Tastes(line, bounds, strength, numbers)
    rows = ChoiceRows(indptr, indices, given_indptr, np.concatenate(given_rows))
    cut, seen = int(rng.integers(0, users + 1)), np.zeros(items, np.int32)
    for start, stop in ((0, cut), (cut, users)):
        choose(seed, start, stop, tastes, rows, seen)
    for u in range(users):
        wanted = int(indptr[u + 1] - indptr[u])
        expected = numbers[reference.choices(seed, u, wanted, given_rows[u].tolist(), line, bounds, strength)]
        assert indices[indptr[u] : indptr[u + 1]].tolist() == expected.tolist()
