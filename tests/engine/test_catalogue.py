"""The catalogue: items by falling popularity, ids found and given back, other data in its numbers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import komd
from komd.data.interactions import Interactions
from komd.engine.catalogue import Catalogue
from komd.errors import UnknownIdError

pairs = st.lists(st.tuples(st.sampled_from("abcdefg"), st.sampled_from("stuvwxyz")), min_size=1, max_size=40)


def users_of(data, item):
    return {user for user in data.users if item in data.history(user)}


@settings(deadline=None)
@given(pairs)
def test_items_are_numbered_by_falling_popularity_then_by_id(rows):
    data = Interactions.of(rows)
    catalogue = Catalogue.of(data)
    expected = sorted(data.items, key=lambda item: (-len(users_of(data, item)), item))
    everything = np.arange(len(data.items), dtype=np.int32)
    assert catalogue.item_ids(everything).to_pylist() == expected
    assert catalogue.popularity.tolist() == [len(users_of(data, item)) for item in expected]
    assert np.array_equal(catalogue.inside[catalogue.order], everything)
    assert catalogue.find_items(expected, "error").tolist() == everything.tolist()
    assert catalogue.chosen == len(expected)
    for number, user in enumerate(data.users):
        row = catalogue.histories.row(catalogue.find_users([user], "error")[0])
        assert set(catalogue.item_ids(row).to_pylist()) == set(data.history(user))
        assert (np.diff(row) > 0).all()
        assert catalogue.histories.users[number] == number


def test_unknown_ids_are_refused_or_skipped():
    catalogue = Catalogue.of(Interactions.of([("a", "x"), ("b", "x"), ("b", "y")]))
    assert catalogue.find_items(["y", "nothing", "x"], "skip").tolist() == [1, -1, 0]
    assert catalogue.find_users(["b", "nobody"], "skip").tolist() == [1, -1]
    with pytest.raises(UnknownIdError, match="unknown item 'nothing'"):
        catalogue.find_items(["nothing"], "error")
    with pytest.raises(UnknownIdError, match="unknown user 'nobody'"):
        catalogue.find_users(["nobody"], "error")


def test_items_nobody_chose_come_last_and_must_be_asked_for():
    R = np.zeros((3, 5), int)
    R[:, 3] = R[0, 1] = R[1, 1] = 1
    catalogue = Catalogue.of(Interactions.of(sparse.csr_array(R)))
    assert catalogue.order.tolist() == [3, 1, 0, 2, 4]
    assert catalogue.chosen == 2
    numbers = lambda *given: np.array(given, np.int32)  # noqa: E731
    assert catalogue.candidates().tolist() == [0, 1]
    assert catalogue.candidates(first=1).tolist() == [1]
    assert catalogue.candidates(exclude=numbers(0, 4)).tolist() == [1]
    assert catalogue.candidates(numbers(4, 0, 4)).tolist() == [0, 4]
    assert catalogue.candidates(numbers(4, 0, 2), numbers(4), first=1).tolist() == [2]


@settings(deadline=None)
@given(pairs, pairs, pairs)
def test_other_data_in_its_numbers(rows, others, known):
    data, other = Interactions.of(rows), Interactions.of(others)
    seen = [(u, i) for u, i in known if u in set(other.users) and i in set(other.items)]
    other = other.with_seen(
        other.users.find([u for u, _ in seen]).astype(np.int32), other.items.find([i for _, i in seen]).astype(np.int32)
    )
    catalogue = Catalogue.of(data)
    translated, skipped = catalogue.translated(other, "skip")
    strange = [pair for pair in set(others) if pair[1] not in set(data.items)]
    assert skipped == len(strange)
    for number, user in enumerate(other.users):
        mine = set(other.history(user)) & set(data.items)
        assert set(catalogue.item_ids(translated.row(number)).to_pylist()) == mine
        also = {i for u, i in seen if u == user and i in set(data.items)} - set(other.history(user))
        if translated.seen is not None:
            found = set(catalogue.item_ids(translated.seen.row(number)).to_pylist())
            assert found - mine == also
    if strange:
        with pytest.raises(UnknownIdError, match="unknown item"):
            catalogue.translated(other, "error")


def test_its_own_data_is_its_own_histories(small):
    catalogue = komd.Popularity().fit(small).catalogue
    translated, skipped = catalogue.translated(small, "error")
    assert skipped == 0
    assert np.array_equal(translated.indptr, catalogue.histories.indptr)
    assert np.array_equal(translated.indices, catalogue.histories.indices)
