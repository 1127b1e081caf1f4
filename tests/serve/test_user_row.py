"""The model's row of a user joined by events, against a dictionary; and rows as histories."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("fastapi")

from komd.engine.histories import Histories
from komd.serve.user_row import NO_TIME, UserRow, histories_of

ITEMS = st.integers(0, 9)
WEIGHTS = st.none() | st.sampled_from([0.5, 1.0, 3.0])
EVENTS = st.dictionaries(
    ITEMS, st.tuples(st.sampled_from(["chosen", "disliked", "withdrawn"]), WEIGHTS, WEIGHTS, st.integers(0, 9))
)


def row_of(chosen, weighted, timed, dislikes, seen):
    items = sorted(chosen)
    return UserRow(
        np.array(items, np.int32),
        np.array([1.0 if chosen[item][0] is None else chosen[item][0] for item in items], np.float32)
        if weighted
        else None,
        np.array([1000 * chosen[item][1] for item in items], np.int64) if timed else None,
        np.array(sorted(dislikes), np.int32),
        np.array(sorted(seen), np.int32),
    )


@given(
    st.dictionaries(ITEMS, st.tuples(WEIGHTS, st.integers(0, 9))),
    st.booleans(),
    st.booleans(),
    st.sets(ITEMS),
    st.sets(ITEMS),
    EVENTS,
)
def test_joined(chosen, weighted, timed, dislikes, seen, events):
    dislikes -= set(chosen)
    numbers = {
        kind: np.array([item for item, event in events.items() if event[0] == kind], np.int32)
        for kind in ("chosen", "disliked", "withdrawn")
    }
    said = [event for event in events.values() if event[0] == "chosen"]
    found = row_of(chosen, weighted, timed, dislikes, seen).joined(
        numbers["chosen"],
        [weight for _, weight, _, _ in said],
        [when for *_, when in said],
        numbers["disliked"],
        numbers["withdrawn"],
        [least for _, _, least, _ in said],
    )
    expected = {
        item: [weight if weighted and weight is not None else 1.0, 1000 * when if timed else NO_TIME]
        for item, (weight, when) in chosen.items()
    }
    for item, (kind, weight, least, when) in events.items():
        held = expected.pop(item, [None, NO_TIME])
        dislikes.discard(item)
        if kind == "chosen":
            known = [value for value in (held[0], least) if value is not None]
            expected[item] = [max(known, default=1.0) if weight is None else weight, max(held[1], 1000 * when)]
        elif kind == "disliked":
            dislikes.add(item)
        else:
            seen.discard(item)
    assert found.items.tolist() == sorted(expected)
    weights = np.ones(len(expected)) if found.weights is None else found.weights
    times = np.full(len(expected), NO_TIME) if found.times is None else found.times
    assert weights.tolist() == [expected[item][0] for item in sorted(expected)]
    assert times.tolist() == [expected[item][1] for item in sorted(expected)]
    assert found.dislikes.tolist() == sorted(dislikes)
    assert found.seen.tolist() == sorted(seen)


def test_rows_as_histories():
    numbers = np.array([4, -1, 2, 4], np.int32)
    first = UserRow.posted(numbers, np.array([7], np.int32), [3.0, 9.0, None, 8.0], [None, 9, 5, 6])
    found = histories_of([first, UserRow(np.array([1], np.int32))], at=10_000)
    assert found.row(0).tolist() == [2, 4] and found.row(1).tolist() == [1]
    assert found.weights.tolist() == [1.0, 3.0, 1.0]  # given twice: the first counts
    assert found.times.tolist() == [5000, 10_000, 10_000]  # no time: age 0
    assert found.at == 10_000 and found.seen is None
    assert found.dislikes.row(0).tolist() == [7] and found.dislikes.row(1).tolist() == []
    plain = histories_of([UserRow(np.array([1], np.int32))], at=0)
    assert (plain.weights, plain.times, plain.dislikes) == (None, None, None)
    assert isinstance(plain, Histories)


def test_weights_stay_above_0_in_single_precision():
    row = UserRow.posted(np.array([0], np.int32), np.zeros(0, np.int32), [5e-324])
    assert row.weights[0] > 0
