"""What a model makes of the weights and times of histories."""

from __future__ import annotations

import numpy as np
import pytest

import komd
from komd.engine.histories import Histories

DAY = 86_400_000_000
INDPTR, INDICES = np.array([0, 2, 3], np.int64), np.array([0, 2, 1], np.int32)
WEIGHTS, TIMES = np.array([3, 1, 15], np.float32), np.array([0, 10, 7], np.int64) * DAY


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, [2, 1, 4]),
        ({"weighting": "linear"}, [3, 1, 15]),
        ({"weighting": "none"}, None),
        ({"weighting": "none", "half_life": "10d"}, [0.5, 1, 1]),
        ({"half_life": "10d"}, [1, 1, 4]),
    ],
)
def test_weights_times_age(params, expected):
    found = komd.CFKOMD(**params).interaction_weights(Histories(INDPTR, INDICES, weights=WEIGHTS, times=TIMES))
    assert found is None if expected is None else found.tolist() == expected


def test_what_is_missing_counts_one():
    model = komd.CFKOMD(half_life="10d")
    assert model.interaction_weights(Histories(INDPTR, INDICES)) is None
    assert model.interaction_weights(Histories(INDPTR, INDICES, weights=np.ones(3, np.float32))) is None
    assert model.interaction_weights(Histories(INDPTR, INDICES, times=TIMES)).tolist() == [0.5, 1, 1]
    moved = Histories(INDPTR, INDICES, times=TIMES, at=20 * DAY)
    assert model.interaction_weights(moved) == pytest.approx([0.25, 0.5, 2**-1.3])


def test_dislikes_join_the_rows_of_those_who_have_a_history():
    dislikes = Histories(np.array([0, 1, 2, 3]), np.array([1, 0, 2], np.int32))
    rows = Histories(np.array([0, 2, 2, 3]), np.array([0, 2, 1], np.int32), weights=WEIGHTS, dislikes=dislikes)
    joined = rows.with_dislikes()
    assert joined.indptr.tolist() == [0, 3, 3, 5]
    assert joined.indices.tolist() == [0, 1, 2, 1, 2]
    assert joined.weights.tolist() == [3, -1, 1, 15, -1]
    part = rows.block(0, 2)
    assert part.dislikes.indices.tolist() == [1, 0]
    assert rows.take(np.array([2, 0], np.int32)).weights.tolist() == [15, 3, 1]
    assert rows.known_items.indices.tolist() == [0, 1, 2, 0, 1, 2]
    assert rows.with_dislikes().dislikes is None
