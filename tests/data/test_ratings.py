"""Likes and dislikes: what each row of rated data becomes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from komd.data.align import align
from komd.data.read import read
from komd.errors import InputError


def cells(data):
    return set() if data is None else {(row["user_id"], row["item_id"]) for row in data.to_arrow().to_pylist()}


def sorted_out(rows, liked, disliked, last):
    """The slow twin: (history, dislikes, seen) as sets of pairs, from rows (user, item, rating or None, time)."""

    def kind(rating):
        if disliked is not None and rating is not None and rating <= disliked:
            return "disliked"
        if liked is None or (rating is not None and rating >= liked):
            return "liked"
        return "seen"

    kinds = {}
    for user, item, rating, time in rows:
        kinds.setdefault((user, item), []).append((time, kind(rating)))
    found = {"liked": set(), "disliked": set(), "seen": set()}
    for pair, several in kinds.items():
        names = [name for _, name in several]
        best = next(name for name in found if name in names)
        if last:
            best = max(enumerate(several), key=lambda each: (each[1][0], each[0]))[1][1]
        found[best].add(pair)
    users, items = {user for user, _ in found["liked"]}, {item for _, item in found["liked"]}
    for name in ("disliked", "seen"):
        found[name] = {(user, item) for user, item in found[name] if user in users and item in items}
    return tuple(found.values())


ROWS = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from("abcd"), st.none() | st.integers(-2, 5).map(float), st.integers(0, 5)),
    min_size=1,
    max_size=40,
)


@settings(deadline=None, max_examples=300)
@given(ROWS, st.none() | st.integers(0, 4), st.none() | st.integers(-2, 4), st.booleans(), st.booleans())
def test_every_row_is_one_of_liked_disliked_seen_or_left_out(rows, liked, disliked, last, timed):
    if (liked is None and disliked is None) or (liked is not None and disliked is not None and disliked >= liked):
        return
    frame = pd.DataFrame(rows, columns=["user", "item", "stars", "when"]).astype({"stars": float})
    twin = sorted_out(rows if timed else [(*row[:3], 0) for row in rows], liked, disliked, last)
    asked = {"rating": "stars", "liked": liked, "disliked": disliked, "repeated": "last" if last else "sum"}
    asked |= {"time": "when"} if timed else {}
    if not twin[0]:
        with pytest.raises(InputError, match="nothing is left"):
            read(frame, **asked)
        return
    data = read(frame, **asked)
    found = tuple(map(cells, (data, data.dislikes, data.seen)))
    assert found == twin
    assert set(data.users) == {user for user, _ in twin[0]} and set(data.items) == {item for _, item in twin[0]}
    assert not (found[0] & found[1] or found[0] & found[2] or found[1] & found[2])
    assert data.dislikes is None or (data.dislikes.times is not None) == timed
    assert data.dislikes is None or data.dislikes.weights is None


STARS = pd.DataFrame({
    "user": [1, 1, 1, 2, 2, 3], "item": ["a", "b", "c", "a", "b", "c"], "stars": [5, 1, 3, 4, 5, 5], "at": range(6),
})  # fmt: skip


def test_liked_disliked_and_in_between(tmp_path):
    STARS.to_csv(tmp_path / "stars.csv", index=False)
    tuples = list(STARS.itertuples(index=False, name=None))
    by_name, by_position = {"rating": "stars", "time": "at"}, {"rating": 2, "time": 3}
    for source, asked in ((STARS, by_name), (tmp_path / "stars.csv", by_name), (tuples, by_position)):
        data = read(source, liked=4, disliked=2, **asked)
        assert cells(data) == {(1, "a"), (2, "a"), (2, "b"), (3, "c")}
        assert cells(data.dislikes) == {(1, "b")} and data.dislikes.times.tolist() == [1]
        assert cells(data.seen) == {(1, "c")}
    assert read(STARS, liked=4) == read(STARS, min_rating=4)
    assert "1 dislikes" in repr(read(STARS, liked=4, disliked=2))


def test_disliked_alone():
    rated = STARS.assign(stars=[5, 0, np.nan, -1, 2, 5])
    data = read(rated, disliked=0)  # zeros are dislikes, negative ratings are fine, missing ones are chosen
    assert cells(data) == {(1, "a"), (1, "c"), (2, "b"), (3, "c")}
    assert cells(data.dislikes) == {(1, "b"), (2, "a")} and data.seen is None
    assert data.reading.zeros == 0 and data.reading.taken["rating"] == "stars"
    assert cells(read(rated, disliked=-1)) == {(1, "a"), (1, "b"), (1, "c"), (2, "b"), (3, "c")}


def test_the_last_rating_counts():
    rows = [(1, "a", 5, 10), (1, "b", 5, 11), (1, "a", 1, 12), (1, "b", 3, 5), (2, "a", 1, 1), (2, "a", 4, 2)]
    rows += [(3, "z", 5, 1), (3, "z", 1, 2)]
    frame = pd.DataFrame(rows, columns=["user", "item", "stars", "when"])
    data = read(frame, rating="stars", liked=4, disliked=2, time="when", repeated="last", weight="stars")
    assert cells(data) == {(1, "b"), (2, "a")} and cells(data.dislikes) == {(1, "a")}
    assert list(data.users) == [1, 2] and list(data.items) == ["a", "b"]  # z is liked by nobody in the end
    assert data.times.tolist() == [11, 2] and data.dislikes.times.tolist() == [12]
    assert data.weights.tolist() == [5, 4]
    assert cells(read(frame, liked=4, disliked=2)) == {(1, "a"), (1, "b"), (2, "a"), (3, "z")}
    with pytest.raises(InputError, match=r"no row has a rating of at least 4 \(liked=\): nothing is left"):
        read(frame[frame["item"] == "z"], liked=4, disliked=2, repeated="last")


def test_matrices():
    R = sparse.coo_array(([5, 1, 3, 4, 0, -1], ([0, 0, 0, 1, 1, 2], [0, 1, 2, 0, 1, 2])), shape=(3, 3))
    data = read(R, liked=4, disliked=2)
    assert cells(data) == {(0, 0), (1, 0)} and cells(data.dislikes) == {(0, 1), (1, 1), (2, 2)}
    assert cells(data.seen) == {(0, 2)}
    alone = read(R, disliked=-1)  # what is stored counts, as 0 here
    assert cells(alone.dislikes) == {(2, 2)} and (1, 1) in cells(alone)
    assert read(R, liked=4, disliked=2, weight=True).weights.tolist() == [5, 4]
    with pytest.raises(InputError, match=r"every row has a rating of at most 9 \(disliked=\)"):
        read(R, disliked=9)


def test_ids_of_others_do_not_enter(tmp_path):
    (tmp_path / "r.csv").write_text("1,10,5\n1,11,2\nx,10,1\n2,11,4\n2,y,1\n2,10,\n")  # x and y are no integers
    data = read(tmp_path / "r.csv", liked=4, disliked=1)
    assert (list(data.users), list(data.items), data.dislikes) == ([1, 2], [10, 11], None)
    assert cells(data.seen) == {(1, 11), (2, 10)}


def test_align_carries_dislikes():
    data = read(STARS, rating="stars", liked=4, disliked=2, time="at", weight="stars")
    first, second = align(data, read([(9, "q")], memory="1GB"))
    assert cells(first.dislikes) == {(1, "b")} and first.dislikes.times.tolist() == [1]
    assert cells(first.seen) == cells(data.seen) and first.weights.tolist() == data.weights.tolist()
    assert first.dislikes.shape == second.shape == first.shape


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"liked": 4, "min_rating": 4}, "liked= and min_rating= are the same thing: give one"),
        ({"liked": 2, "disliked": 2}, "disliked= must be less than liked=, got 2 and 2"),
        ({"min_rating": 2, "disliked": 3}, "disliked= must be less than liked=, got 3 and 2"),
        ({"liked": float("nan")}, "liked must be a finite number, got nan"),
        ({"disliked": "2"}, "disliked must be a finite number, got '2'"),
        ({"liked": 9}, r"no row has a rating of at least 9 \(liked=\): nothing is left"),
        ({"disliked": 9}, r"every row has a rating of at most 9 \(disliked=\): nothing is left"),
        ({"rating": "item", "disliked": 2}, "disliked= needs numbers, but the pandas DataFrame has 'a' in row 1"),
        ({"rating": "item", "liked": 2}, "liked= needs numbers, but the pandas DataFrame has 'a' in row 1"),
    ],
)
def test_bad_arguments(asked, message):
    with pytest.raises(InputError, match=message):
        read(STARS, **asked)


def test_no_ratings():
    with pytest.raises(InputError, match=r"disliked= needs ratings, but .* has no rating column"):
        read(STARS[["user", "item"]], disliked=2)
