"""Rows of item numbers: cut, chosen and joined as plain lists are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from komd.engine.histories import Histories

lists = st.lists(st.lists(st.integers(0, 12), max_size=8), max_size=6)


def of(rows):
    return Histories.of_rows([np.array(row, np.int32) for row in rows])


def as_lists(histories):
    return [histories.row(number).tolist() for number in range(len(histories))]


@settings(deadline=None)
@given(lists)
def test_rows_are_sorted_and_distinct(rows):
    histories = of(rows)
    assert as_lists(histories) == [sorted(set(row)) for row in rows]
    assert histories.lengths.tolist() == [len(set(row)) for row in rows]
    assert (histories.indptr.dtype, histories.indices.dtype) == (np.int64, np.int32)
    assert histories.users is None and histories.seen is None


@settings(deadline=None)
@given(lists, lists, st.data())
def test_blocks_and_choices_take_everything_with_them(rows, others, data):
    """Who the users are, and what else they have seen."""
    seen = (others + [[]] * len(rows))[: len(rows)]
    histories = replace(of(rows), seen=of(seen)).known()
    first = data.draw(st.integers(0, len(rows)))
    last = data.draw(st.integers(first, len(rows)))
    picked = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8)) if rows else []
    numbers = np.array(picked, np.int32)
    for part, expected in ((histories.block(first, last), range(first, last)), (histories.take(numbers), picked)):
        assert part.indptr[0] == 0
        assert part.users.tolist() == list(expected)
        assert as_lists(part) == [sorted(set(rows[k])) for k in expected]
        assert as_lists(part.seen) == [sorted(set(seen[k])) for k in expected]


@settings(deadline=None)
@given(lists, lists)
def test_known_items_are_the_history_and_what_was_seen(rows, others):
    seen = (others + [[]] * len(rows))[: len(rows)]
    assert as_lists(of(rows).known_items) == as_lists(of(rows))
    joined = replace(of(rows), seen=of(seen)).known_items
    assert as_lists(joined) == [sorted({*row, *also}) for row, also in zip(rows, seen, strict=True)]
