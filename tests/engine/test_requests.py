"""Who asks, and what for: ids of every form become numbers, and what makes no sense is refused."""

from __future__ import annotations

import datetime
import time
import warnings

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sparse

from komd.data.interactions import Interactions
from komd.engine.catalogue import Catalogue
from komd.engine.requests import (
    asked_lists,
    asked_users,
    candidate_items,
    given_histories,
    moment,
    one_history,
    one_problem,
    several,
    warn_of_fallback,
)
from komd.errors import FallbackWarning, InputError, UnknownIdError


@pytest.fixture(scope="module")
def catalogue():
    """x is number 0, y number 1, z number 2."""
    pairs = [("a", "x"), ("b", "x"), ("c", "x"), ("a", "y"), ("b", "y"), ("c", "z")]
    return Catalogue.of(Interactions.of(pairs))


def lists(asked):
    return {user: asked.histories.row(k).tolist() for k, user in enumerate(asked.ids.to_pylist())}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a", ["a"]),
        (b"a", [b"a"]),
        (7, [7]),
        (None, [None]),
        (["a", "b"], ["a", "b"]),
        (("a",), ("a",)),
        (iter("ab"), ["a", "b"]),
        ({"a": 1}, ["a"]),
        (frozenset({"a"}), ["a"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_several_ids_from_one_or_many(given, expected):
    assert several(given) == expected


def test_arrays_of_ids_stay_as_they_are():
    for given in (np.array([1, 2]), pa.array([1, 2])):
        assert several(given) is given


def test_known_users(catalogue):
    assert lists(asked_users(catalogue, None, None, "error")) == {"a": [0, 1], "b": [0, 1], "c": [0, 2]}
    assert lists(asked_users(catalogue, ["c", "a"], None, "error")) == {"c": [0, 2], "a": [0, 1]}
    assert lists(asked_users(catalogue, "b", None, "error")) == {"b": [0, 1]}
    found = asked_users(catalogue, ["c", "nobody", "noone"], None, "skip")
    assert (lists(found), found.skipped) == ({"c": [0, 2]}, 2)
    with pytest.raises(UnknownIdError, match="unknown user 'nobody'"):
        asked_users(catalogue, ["c", "nobody"], None, "error")
    with pytest.raises(InputError, match="give users or histories, not both"):
        asked_users(catalogue, ["c"], {"d": ["x"]}, "error")


def test_histories_in_every_form(catalogue):
    rows = {"d": ["z", "x", "z"], "e": [], "f": ["y"]}
    expected = {"d": [0, 2], "e": [], "f": [1]}
    assert lists(given_histories(catalogue, rows, "error")) == expected
    for form in ([*rows.values()], tuple(set(row) for row in rows.values()), [np.array(row) for row in rows.values()]):
        assert [*lists(given_histories(catalogue, form, "error")).values()] == [*expected.values()]
    data = Interactions.of([("d", "x"), ("d", "z"), ("f", "y")])
    assert lists(given_histories(catalogue, data, "error")) == {"d": [0, 2], "f": [1]}
    assert lists(given_histories(catalogue, {"g": "x"}, "error")) == {"g": [0]}  # one id alone
    assert lists(given_histories(catalogue, [], "error")) == lists(given_histories(catalogue, {}, "error")) == {}


def test_histories_of_a_matrix_are_numbers():
    catalogue = Catalogue.of(Interactions.of(sparse.csr_array(np.array([[1, 1, 0], [0, 1, 0]]))))
    found = given_histories(catalogue, sparse.csr_array(np.array([[0, 1, 1]])), "error")
    assert lists(found) == {0: [0, 2]}  # by falling popularity


def test_unknown_items_of_histories(catalogue):
    found = given_histories(catalogue, {"d": ["x", "nothing"], "e": ["none"]}, "skip")
    assert (lists(found), found.skipped) == ({"d": [0], "e": []}, 2)
    with pytest.raises(UnknownIdError, match="unknown item 'nothing'"):
        given_histories(catalogue, {"d": ["x", "nothing"]}, "error")


@pytest.mark.parametrize("wrong", [3, "x", {"a", "b"}, None])
def test_what_is_no_set_of_histories(catalogue, wrong):
    with pytest.raises(InputError, match=f"histories must be a mapping .*, got {type(wrong).__name__}"):
        given_histories(catalogue, wrong, "error")


def test_histories_with_weights(catalogue):
    found = given_histories(catalogue, {"d": {"z": 5, "x": 0.5}, "e": ["y"], "f": {}}, "error")
    assert found.histories.indptr.tolist() == [0, 2, 3, 3]
    assert found.histories.indices.tolist() == [0, 2, 1]
    assert found.histories.weights.tolist() == [0.5, 5, 1]
    skipped = given_histories(catalogue, [{"z": 5, "nothing": 2, "x": 3}], "skip")
    assert (skipped.skipped, skipped.histories.weights.tolist()) == (1, [3, 5])
    assert given_histories(catalogue, [["x"]], "error").histories.weights is None


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf"), 1e300, 1e-60, "3", None, True])
def test_weights_of_histories_that_are_none(catalogue, weight):
    with pytest.raises(InputError, match=r"the weight of 'x' in a history must be a finite number > 0, got "):
        given_histories(catalogue, {"d": {"y": 2, "x": weight}}, "error")


def test_dislikes_of_given_histories(catalogue):
    found = given_histories(catalogue, {"d": ["x"], "e": ["y", "z"]}, "error", {"d": ["z"]}).histories
    assert found.dislikes.indptr.tolist() == [0, 1, 1]
    assert found.dislikes.indices.tolist() == [2]
    assert given_histories(catalogue, [["x"]], "error", [["y"]]).histories.dislikes.indices.tolist() == [1]
    for dislikes, message in (
        ({"d": ["x"]}, "'x' is both in the history and in the dislikes of 'd'"),
        ({"b": ["z"]}, "dislikes are given for 'b', who has no history"),
        ([["z"]], "as many lists of item ids as histories"),
        ({"d": {"z": 1}}, "dislikes have no weights"),
    ):
        with pytest.raises(InputError, match=message):
            given_histories(catalogue, {"d": ["x"], "e": ["y"]}, "error", dislikes)
    with pytest.raises(InputError, match="dislikes belong to given histories"):
        asked_users(catalogue, ["a"], None, "error", {"a": ["z"]})


def test_moments():
    noon = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
    expected = int(noon.timestamp() * 1e6)
    paris = noon.astimezone(datetime.timezone(datetime.timedelta(hours=1)))
    for at in (noon, paris, noon.replace(tzinfo=None), np.datetime64("2026-03-01T12:00"), "2026-03-01T13:00+01:00"):
        assert moment(at) == expected
    assert moment(datetime.date(2026, 3, 1)) == moment("2026-03-01") == expected - 12 * 3600 * 10**6
    assert abs(moment("now") - time.time() * 1e6) < 60e6
    for wrong in ("yesterday", 17, None, 1.5, True, np.datetime64("NaT")):
        with pytest.raises(InputError, match='at must be "now", a date'):
            moment(wrong)


def test_one_history_to_solve_for(catalogue):
    assert one_history(catalogue, "a", None, "solve").indices.tolist() == [0, 1]
    assert one_history(catalogue, None, ["z"], "solve").indices.tolist() == [2]
    for user, history in ((None, None), ("a", ["x"])):
        with pytest.raises(InputError, match=r"solve takes a user or a history=\[\.\.\.\]"):
            one_history(catalogue, user, history, "solve")
    with pytest.raises(InputError, match="no problem to solve for a user without history"):
        one_problem(catalogue, None, [], None, None)


def test_candidates(catalogue):
    def numbers(*asked, **how):
        found, skipped = candidate_items(catalogue, *asked, how.get("on_unknown", "error"))
        return found.tolist(), skipped

    assert numbers(None, None) == ([0, 1, 2], 0)
    assert numbers(["z", "x", "z"], None) == ([0, 2], 0)
    assert numbers(None, "x") == ([1, 2], 0)
    assert numbers({"x", "y"}, ["y"]) == ([0], 0)
    assert numbers([], None) == ([], 0)
    assert numbers(["x", "no"], ["none"], on_unknown="skip") == ([0], 2)
    with pytest.raises(UnknownIdError, match="unknown item 'none'"):
        numbers(None, ["none"])


def test_all_arguments_of_a_request_together(catalogue):
    how = {"users": ["a", "nobody"], "n": 3, "histories": None, "exclude_seen": False, "items": ["x", "no"]}
    asked, request = asked_lists(catalogue, **how, exclude=None, on_unknown="skip")
    assert (lists(asked), asked.skipped) == ({"a": [0, 1]}, 2)
    assert (request.n, request.candidates.tolist(), request.exclude_seen) == (3, [0], False)
    for wrong, message in (
        ({"n": 0}, "n must be a whole number .*1, got 0"),
        ({"on_unknown": "ignore"}, "on_unknown must be .*got 'ignore'"),
    ):
        with pytest.raises(InputError, match=message):
            asked_lists(catalogue, **how | {"exclude": None, "on_unknown": "skip"} | wrong)


def test_what_was_rated_low_is_masked_unless_asked_otherwise():
    data = Interactions.of([("a", "x"), ("b", "y")]).with_seen(np.array([0], np.int32), np.array([1], np.int32))
    catalogue = Catalogue.of(data)
    for low, expected in ((True, [[0, 1], [1]]), (False, [[0], [1]])):
        asked, _ = asked_lists(catalogue, None, 1, None, True, None, None, "error", exclude_low_rated=low)
        known = asked.histories.known_items
        assert [known.row(k).tolist() for k in range(2)] == expected


def test_users_without_history_are_counted_in_a_warning():
    with pytest.warns(FallbackWarning, match="1,200 of 3,000 .* have no history: they are served by popularity"):
        warn_of_fallback(1200, 3000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_fallback(0, 3000)
