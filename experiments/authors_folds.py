"""The five folds that the paper's authors used, and their rules of measuring.

Their training and test files are in `authors-folds/` of the data folder: lines `user item 1`. For MovieLens 1M only the
test pairs are there; all others of the data set train. The rules:

- items are those of the training file; a test pair with another item is left out (the files have none left);
- of equal scores the item wins that appears earlier in the training file (`first` below);
- a pair that is repeated in the data may be in both files. It is tested, and lost to every other item, since the user
  knows the item already. komd leaves such pairs out (`dropped` below).
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import komd
from experiments.places import data_folder

DATA = ("ml-1m", "filmtrust", "ciao")
FOLDS = 5
RULES = ("first", "half", "strict")
Pairs = NDArray[np.int64]
_PREFIX = {"ml-1m": "ml1m"}


class Fold(NamedTuple):
    """One round: `order` are the items by first line of the training file, `lost` each user's tested training pairs."""

    train: komd.Interactions
    test: komd.Interactions
    order: list[int]
    lost: dict[int, int]
    cold: int  # test pairs left out: nobody trains on the item
    repeated: int  # training lines that repeat a pair


def folds(name: str) -> Iterator[Fold]:
    """The rounds of a data set; none, and a message, where the files are absent."""
    for k in range(FOLDS):
        try:
            files = _lines(name, k)
        except FileNotFoundError as error:
            print(f"{name}: the authors' folds are left out: {error.filename} is not there\n")
            return
        yield fold_of(*files)


def fold_of(train: Pairs, test: Pairs) -> Fold:
    """A round from the lines of its two files, (user, item) each."""
    order = list(dict.fromkeys(train[:, 1].tolist()))
    known = np.isin(test[:, 1], train[:, 1])
    trained = set(map(tuple, train.tolist()))
    lost: dict[int, int] = {}
    for user, _ in set(map(tuple, test[known].tolist())) & trained:
        lost[user] = lost.get(user, 0) + 1
    repeated = len(train) - len(trained)
    return Fold(komd.read(train), komd.read(test[known]), order, lost, int((~known).sum()), repeated)


def half_tested(k: int) -> dict[str, float]:
    """Which half of MovieLens 1M was tested: 1/2 each if drawn at random; "later" is 1 if it is the later in the file.

    `later` is the share of tested pairs in the later half of their user's rows, `popular` the share in the more popular
    half of them.
    """
    test, everything = _lines("ml-1m", k)[1], _movielens(data_folder() / "ml-1m" / "ratings.csv.gz")
    wide = int(everything[:, 1].max()) + 1
    rows = everything[np.isin(everything[:, 0], test[:, 0])]
    tested = np.isin(rows @ [wide, 1], test @ [wide, 1])
    popularity = np.bincount(everything[:, 1])[rows[:, 1]]
    found = {}
    for what, order in (("later", np.arange(len(rows))), ("popular", popularity)):
        by_user = np.lexsort((order, rows[:, 0]))
        counts = np.unique(rows[by_user, 0], return_counts=True)[1]
        place = np.concatenate([(np.arange(n) + 0.5) / n for n in counts])
        found[what] = float((place[tested[by_user]] > 0.5).mean())
    return found


def areas(model: Any, fold: Fold, ties: Any) -> tuple[float, float]:
    """The mean AUC of a fitted model by the authors' rule for pairs in both files, and with these pairs left out."""
    found = komd.evaluate(model, fold.test, metrics=["auc"], ties=ties, threads=1)
    of_user = dict(zip(found.users.to_pylist(), found["auc"].values.tolist(), strict=True))
    tested = zip(fold.test.users.values.to_pylist(), fold.test.activity.tolist(), strict=True)
    values = [of_user.get(user, 0.0) * (1 - fold.lost.get(user, 0) / t) for user, t in tested]
    return float(np.mean(values)), float(found["auc"].mean)


def measured(model: Any, fold: Fold) -> dict[str, float]:
    """The AUC by each rule for ties; `dropped` is `first` without the pairs that are in both files."""
    first, dropped = areas(model, fold, fold.order)
    return {"first": first, "dropped": dropped} | {ties: areas(model, fold, ties)[0] for ties in ("half", "strict")}


def cut_area(model: Any, fold: Fold, n: int) -> float:
    """The mean AUC where only the first `n` items of a user's list are ranked, as MyMediaLite and LibRec define it.

    Test items outside the list are no part of it; a user without a test item in the list counts one half.
    """
    users = fold.test.users.values.to_pylist()
    listed: dict[Any, list[Any]] = {user: [] for user in users}
    table = model.recommend(users, n=n, threads=1).to_arrow()
    for user, item in zip(table["user_id"].to_pylist(), table["item_id"].to_pylist(), strict=True):
        listed[user].append(item)
    known = dict(zip(fold.train.users.values.to_pylist(), fold.train.activity.tolist(), strict=True))
    return float(
        np.mean(
            [cut_area_of(listed[u], set(fold.test.history(u)), fold.train.shape[1] - known.get(u, 0)) for u in users]
        )
    )


def cut_area_of(listed: list[Any], tested: set[Any], candidates: int) -> float:
    """The same of one user with so many candidates.

    >>> cut_area_of(["a", "b", "c"], {"b", "z"}, 10)  # b is above c and 6 of the 7 not listed: 7 of 9 pairs
    0.7777777777777778
    >>> cut_area_of(["a"], {"z"}, 10)
    0.5
    """
    hits = won = 0
    for item in listed:
        if item in tested:
            hits += 1
        else:
            won += hits
    if hits == 0:
        return 0.5
    won += hits * (candidates - len(listed) - (len(tested) - hits))
    return won / (hits * (candidates - hits))


def _lines(name: str, k: int) -> tuple[Pairs, Pairs]:
    folder = data_folder() / "authors-folds" / name
    prefix = _PREFIX.get(name, name)
    test = _read(folder / f"{prefix}_ts_{k}.dat.gz")
    if name != "ml-1m":
        return _read(folder / f"{prefix}_tr_{k}.dat.gz"), test
    everything = _movielens(data_folder() / "ml-1m" / "ratings.csv.gz")
    wide = int(everything[:, 1].max()) + 1
    return everything[~np.isin(everything @ [wide, 1], test @ [wide, 1])], test


def _read(path: Path) -> Pairs:
    with gzip.open(path, "rt") as lines:
        return np.array([line.split()[:2] for line in lines], np.int64)


@cache
def _movielens(path: Path) -> Pairs:
    """All of MovieLens 1M in the authors' numbers: users from 0, items from 0 by first appearance."""
    with gzip.open(path, "rt") as lines:
        next(lines)
        pairs = np.array([line.split(",")[:2] for line in lines], np.int64)
    _, first, numbers = np.unique(pairs[:, 1], return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(first))  # distinct: no ties
    return np.column_stack([pairs[:, 0] - 1, place[numbers]])
