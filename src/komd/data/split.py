"""Split interactions into training data and test data.

All are pure functions of the data and `rng` (a seed, or a numpy Generator). Both parts keep all ids, so numbers mean
the same in each. "Later" is by position in the data with `"given"`, by time with `"time"` (ties in the order of the
data), and by a random order with `"random"`. Weights and times come along in both parts.

A model that is measured must not know what a user saw or disliked later. Pairs that were only seen
(`Interactions.seen`) are in no part. Dislikes are never tested. Users who only train keep all of theirs; of a user who
is tested those stay that came before the tested items:

- in time: before the moment of the split, or before the time of the user's first tested item;
- `"given"` and `"random"`: as large a share of the dislikes as of the items trains, the first ones or random ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from komd.checks import generator, whole
from komd.data.interactions import TIME_UNITS, Interactions
from komd.data.times import microseconds_at
from komd.errors import InputError, argument, nearest

__all__ = ["HeldOut", "folds", "held_out_users", "leave_out", "temporal", "time"]

_ORDERS = ("random", "given", "time")
_ROLLING = "rolling"
_FIRST_WINDOW = 0.5  # the share of all pairs before the first window of rolling folds


class HeldOut(NamedTuple):
    """The three parts that `held_out_users` returns.

    Attributes
    ----------
    train : Interactions
        All pairs of the users who are not held out.
    history : Interactions
        The known items of the held-out users.
    test : Interactions
        Their other items.

    Examples
    --------
    >>> import komd
    >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
    >>> parts = komd.split.held_out_users(data, users=10, rng=0)
    >>> parts.train.pairs + parts.history.pairs + parts.test.pairs == data.pairs
    True
    """

    train: Interactions
    history: Interactions
    test: Interactions


def folds(
    data: Interactions,
    *,
    folds: int = 5,
    half: str = "random",
    min_activity: int = 5,
    rng: int | np.random.Generator = 0,
) -> Iterator[tuple[Interactions, Interactions]]:
    """Split by the paper's protocol: of each group of users in turn, half of the items are tested.

    Users are divided at random into groups of equal size (or one more). In each round, the later floor(a_u / 2)
    items of the users of one group who have a_u >= `min_activity` items are the test data; everything else is training
    data. Each user's order is drawn once, so that a round does not depend on how many rounds are used.

    Parameters
    ----------
    data : Interactions
        The interactions to split.
    folds : int
        Number of groups of users, which is the number of rounds; with "rolling", the number of windows.
    half : {"random", "given", "time", "rolling"}
        Order that says which half is the later one. "rolling" does not halve histories: the later half of all pairs in
        time is cut into `folds` windows with about the same number of pairs each; a round tests the pairs of one window
        and trains on all pairs before it. The latest window comes first.
    min_activity : int
        Users with fewer items are never tested. Not used with "rolling".
    rng : int or numpy.random.Generator
        Seed or generator.

    Returns
    -------
    iterator of (train, test)
        Two `Interactions` for each round.

    Raises
    ------
    InputError
        If there are more folds than users, an argument is invalid, or times are needed and the data has none.

    Examples
    --------
    >>> from komd.data.generate import generate
    >>> data = generate(users=100, items=50, activity=10)
    >>> [train.pairs + test.pairs == data.pairs for train, test in folds(data, rng=0)]
    [True, True, True, True, True]
    """
    if half == _ROLLING:
        return _rolling(data.without_seen(), whole("folds", folds, 1))
    data, users = data.without_seen(), data.shape[0]
    if whole("folds", folds, 2) > users:
        raise InputError(f"folds must not outnumber the users, got {folds:,} folds of {users:,} users")
    whole("min_activity", min_activity, 1)
    random = generator(rng)
    group = np.empty(users, np.int64)
    group[random.permutation(users)] = np.arange(users) % folds
    activity = data.activity
    given = np.where(activity >= min_activity, activity // 2, 0)
    rows = data.rows
    tested = _later(data, half, "half", given, random)
    known = _known_dislikes(data, tested, half, random)
    return (_parts(data, tested & mine[rows], known, mine) for mine in (group == g for g in range(folds)))


def _rolling(data: Interactions, windows: int) -> Iterator[tuple[Interactions, Interactions]]:
    """Rounds of windows in time, the latest first."""
    times, shares = _times(data), _FIRST_WINDOW + (1 - _FIRST_WINDOW) * np.arange(windows + 1) / windows
    ascending = np.sort(times)
    starts = [int(ascending[int(share * data.pairs)]) for share in shares[:-1]] if data.pairs else [0] * windows
    ends = [*starts[1:], np.iinfo(np.int64).max]

    def window(start: int, end: int) -> tuple[Interactions, Interactions]:
        train, test = time(data, at=start)
        return train, test.keep(_times(test) < end)

    return (window(start, end) for start, end in zip(reversed(starts), reversed(ends), strict=True))


def leave_out(
    data: Interactions, *, k: int = 1, order: str = "random", rng: int | np.random.Generator = 0
) -> tuple[Interactions, Interactions]:
    """Test on the last `k` items of every user who has more than `k`.

    Parameters
    ----------
    data : Interactions
        The interactions to split.
    k : int
        Number of items of each user that are tested.
    order : {"random", "given", "time"}
        Which items are the last ones.
    rng : int or numpy.random.Generator
        Seed or generator, for the random order.

    Returns
    -------
    (train, test) : tuple of Interactions

    Raises
    ------
    InputError
        If `k` or `order` is invalid, or times are needed and the data has none.

    Examples
    --------
    >>> from komd.data.generate import generate
    >>> train, test = leave_out(generate(users=10, items=20, activity=5, user_tail=0), k=2)
    >>> test.activity
    array([2, 2, 2, 2, 2, 2, 2, 2, 2, 2])
    """
    whole("k", k, 1)
    data, random = data.without_seen(), generator(rng)
    out = _later(data, order, "order", np.where(data.activity > k, k, 0), random)
    return _parts(data, out, _known_dislikes(data, out, order, random))


def held_out_users(
    data: Interactions,
    *,
    users: float = 0.1,
    fold_in: float = 0.8,
    order: str = "random",
    rng: int | np.random.Generator = 0,
) -> HeldOut:
    """Test on users that training never sees: predict some of their items from the others.

    Parameters
    ----------
    data : Interactions
        The interactions to split.
    users : float or int
        Number of users to hold out: a share (a float below 1) or a count. They are drawn from the users with at least
        two items.
    fold_in : float
        Share of a held-out user's items that is known (`history`). At least one item is known and at least one is
        tested.
    order : {"random", "given", "time"}
        Order in which the earlier items are the known ones.
    rng : int or numpy.random.Generator
        Seed or generator.

    Returns
    -------
    HeldOut
        (train, history, test): the pairs of the other users, and both parts of the held-out ones.

    Raises
    ------
    InputError
        If so many users cannot be held out, or an argument is invalid.

    Examples
    --------
    >>> from komd.data.generate import generate
    >>> train, history, test = held_out_users(generate(users=100, items=50, activity=10), users=10)
    >>> int((history.activity > 0).sum()), int((train.activity > 0).sum())
    (10, 90)
    """
    if not isinstance(fold_in, int | float) or not 0 < fold_in < 1:
        raise InputError(f"fold_in must lie between 0 and 1, got {fold_in!r}")
    random, data = generator(rng), data.without_seen()
    activity = data.activity
    able = np.flatnonzero(activity >= 2)
    held = np.zeros(data.shape[0], bool)
    held[random.permutation(able)[: _how_many(users, data.shape[0], len(able))]] = True
    tested = _later(data, order, "order", np.where(held, activity - _known_items(data, fold_in), 0), random)
    theirs = held[data.rows]
    learned, test = _parts(data, tested, _known_dislikes(data, tested, order, random))
    return HeldOut(_of_users(data.keep(~theirs), ~held), _of_users(learned.keep(theirs[~tested]), held), test)


def time(data: Interactions, *, at: Any = 0.8, per_user: bool = False) -> tuple[Interactions, Interactions]:
    """Train on the pairs before a moment, test on those from that moment on.

    Parameters
    ----------
    data : Interactions
        The interactions to split, with times.
    at : float, int, str, datetime.date or datetime.datetime
        A share (a float between 0 and 1): the moment before which about this share of all pairs happened; pairs of one
        moment stay together. Or the moment itself: an integer in the unit of the data's times, or a date or timestamp
        (also as ISO text, "1998-03-01"; UTC unless it has a time zone), for which the unit must be known.
    per_user : bool
        Each user has a moment of their own: the first share of the user's items trains, by time (ties in the order of
        the data). At least one item trains; of two or more, at least one is tested.

    Returns
    -------
    (train, test) : tuple of Interactions

    Raises
    ------
    InputError
        If the data has no times, or `at` is invalid.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from komd.data.read import read
    >>> plays = pa.table({"user": [1, 1, 2, 2], "item": [5, 6, 5, 7], "day": ["1998-01-01", "1998-05-01"] * 2})
    >>> train, test = time(read(plays, time="day"), at="1998-03-01")
    >>> train.history(2), test.history(2)
    ([5], [7])
    """
    times, data = _times(data), data.without_seen()
    share = isinstance(at, float) and 0 < at < 1
    if per_user:
        if not share:
            raise InputError(f"with {argument('per_user', True)}, at must be a share between 0 and 1, got {at!r}")
        out = _later(data, "time", "order", data.activity - _known_items(data, at), generator(0))
        return _parts(data, out, _known_dislikes(data, out, "time", generator(0)))
    if share:
        if data.pairs == 0:
            return _parts(data, np.zeros(0, np.bool_), None)
        moment = int(np.partition(times, int(at * data.pairs))[int(at * data.pairs)])
    else:
        moment = _moment(data, at)
    known = None if data.dislikes is None else _times_of_dislikes(data) < moment
    return _parts(data, times >= moment, known)


def temporal(data: Interactions, *, at: Any = 0.8) -> tuple[Interactions, Interactions]:
    """Train on the pairs before a moment, test on those from that moment on: `time` with one moment for all users.

    Parameters
    ----------
    data : Interactions
        The interactions to split, with times.
    at : float, int, str, datetime.date or datetime.datetime
        As in `time`.

    Returns
    -------
    (train, test) : tuple of Interactions

    Raises
    ------
    InputError
        If the data has no times, or `at` is invalid.

    Examples
    --------
    >>> from komd.data.read import read
    >>> data = read([(1, 5, 10), (1, 6, 20), (2, 5, 30)], time=2, time_unit="s", header=False)
    >>> train, test = temporal(data, at=25)
    >>> train.pairs, test.pairs
    (2, 1)
    """
    return time(data, at=at)


def _moment(data: Interactions, at: Any) -> int:
    """A moment in the unit of the data's times."""
    if isinstance(at, int | float | np.integer) and not isinstance(at, bool) and float(at).is_integer():
        return int(at)
    microseconds = microseconds_at(at)
    if microseconds is None:
        raise InputError(f"at must be a share between 0 and 1 or a moment, got {at!r}")
    per = TIME_UNITS[data.known_time_unit]
    return -(-microseconds // per) if per else microseconds * 1000  # times are whole: the first from the moment on


def _parts(
    data: Interactions,
    tested: NDArray[np.bool_],
    known: NDArray[np.bool_] | None,
    users: NDArray[np.bool_] | None = None,
) -> tuple[Interactions, Interactions]:
    """Training and test data. `known`: which dislikes stay with their user; with `users`, all of the others' do."""
    train, test = data.keep(~tested), data.with_dislikes(None).keep(tested)
    if data.dislikes is None or known is None:
        return train, test
    stays = known if users is None else known | ~users[data.dislikes.rows]
    return train.with_dislikes(data.dislikes.keep(stays)), test


def _of_users(part: Interactions, users: NDArray[np.bool_]) -> Interactions:
    """The same pairs, with the dislikes of these users only."""
    return part if part.dislikes is None else part.with_dislikes(part.dislikes.keep(users[part.dislikes.rows]))


def _known_dislikes(
    data: Interactions, tested: NDArray[np.bool_], order: str, random: np.random.Generator
) -> NDArray[np.bool_] | None:
    """Which dislikes came before their user's tested pairs, in the order asked for; None if there are no dislikes."""
    dislikes = data.dislikes
    if dislikes is None:
        return None
    rows = data.rows[tested]
    if order == "time":
        first = np.full(data.shape[0], np.iinfo(np.int64).max)
        np.minimum.at(first, rows, _times(data)[tested])
        known: NDArray[np.bool_] = _times_of_dislikes(data) < first[dislikes.rows]
        return known
    lost = np.bincount(rows, minlength=data.shape[0]) / np.maximum(data.activity, 1)
    return ~_later(dislikes, order, "order", np.rint(lost * dislikes.activity).astype(np.int64), random)


def _known_items(data: Interactions, share: float) -> NDArray[np.int64]:
    """How many items of each user this share is: at least one, and of two or more not all."""
    activity = data.activity
    known: NDArray[np.int64] = np.clip(np.rint(share * activity).astype(np.int64), 1, np.maximum(activity - 1, 1))
    return known


def _later(
    data: Interactions, order: str, name: str, counts: NDArray[np.int64], random: np.random.Generator
) -> NDArray[np.bool_]:
    """Which pairs are among the last `counts[u]` of their user, in the order asked for; shape (pairs,)."""
    if order not in _ORDERS:
        raise InputError(f"unknown {name} {order!r}: {nearest(str(order), _ORDERS)}")
    rows = data.rows
    if order == "given":
        ranks = np.arange(data.pairs, dtype=np.int64) - data.indptr[rows]
    else:
        from komd._core import compressed_rows as csr

        times = _times(data) if order == "time" else None
        sequence = random.permutation(data.pairs) if times is None else np.argsort(times, kind="stable")
        ranks = np.empty(data.pairs, np.int64)
        csr.rank(sequence, rows, np.zeros(data.shape[0], np.int64), ranks)
    later: NDArray[np.bool_] = ranks >= (data.activity - counts)[rows]
    return later


def _times(data: Interactions) -> NDArray[np.int64]:
    if data.times is None:
        raise InputError(f"the data has no times: read it with {argument('time')} (the column that holds them)")
    times: NDArray[np.int64] = data.times
    return times


def _times_of_dislikes(data: Interactions) -> NDArray[np.int64]:
    dislikes = data.dislikes
    assert dislikes is not None
    if dislikes.times is None or dislikes.time_unit != data.time_unit:
        raise InputError(
            "the dislikes have no times like those of the pairs, so which came before is not known: read both together "
            f"with {argument('time')}, or drop them with data.with_dislikes(None)"
        )
    times: NDArray[np.int64] = dislikes.times
    return times


def _how_many(users: float, total: int, able: int) -> int:
    is_count = isinstance(users, int | np.integer) and not isinstance(users, bool)
    if not is_count and not (isinstance(users, float) and 0 < users < 1):
        raise InputError(f"users must be a share between 0 and 1 or a count, got {users!r}")
    count = int(users) if is_count else max(1, round(users * total))
    if not 1 <= count <= able or count >= total:
        raise InputError(f"cannot hold out {count:,} of {total:,} users: {able:,} have two items, and some must train")
    return count
