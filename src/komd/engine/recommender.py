"""The public face of every model: fit, recommend, explain, save."""

from __future__ import annotations

import importlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from komd import store
from komd import threads as pool
from komd.data.columns import Column
from komd.data.encode import encode
from komd.data.ids import Ids
from komd.data.interactions import Interactions
from komd.data.pairs import read_pairs
from komd.engine.catalogue import Catalogue, OnUnknown
from komd.engine.histories import Histories, well_formed
from komd.engine.parameters import Parameters, one_of, whole
from komd.engine.ranking import RankedBlock, RankingRequest, rank_block, users_per_block
from komd.engine.results import Contributions, Explanation, Recommendations, Scores
from komd.errors import FallbackWarning, InputError, ModelFileError

__all__ = ["Recommender"]

Arrays = dict[str, NDArray[np.generic]]

_TARGETS = 4096  # items scored for a user at once


class Recommender(Parameters, ABC):
    """A model of who likes what. Subclasses say how to learn, how to score, and how to explain."""

    serves_strangers: ClassVar[bool] = True
    """Whether people outside the training data can be served from their history alone."""

    _catalogue: Catalogue | None = None

    # ---- what a method must say -------------------------------------------------------------------------------

    @abstractmethod
    def _learn(self, catalogue: Catalogue, threads: int | None, memory: str | int | None) -> None:
        """Learn from a catalogue."""

    @abstractmethod
    def _score(self, histories: Histories, scores: NDArray[np.float64]) -> None:
        """Fill scores (people × items) for these histories; rows of people without history are overwritten after."""

    @abstractmethod
    def _explain(self, history: Histories, items: NDArray[np.int32]) -> Contributions:
        """What the items of one history, which is not empty, add to the scores of these items."""

    @abstractmethod
    def similarities_to(self, item: int) -> NDArray[np.float32]:
        """How similar every item is to this one."""

    @abstractmethod
    def learned_arrays(self) -> Arrays:
        """What was learned, by name."""

    @abstractmethod
    def _layouts(self) -> list[set[str]]:
        """The names that `_arrays` may give with these parameters: one set for each way to hold what was learned."""

    @abstractmethod
    def _restore(self, arrays: Arrays) -> None:
        """Take back what `_arrays` gave."""

    def _users_per_block(self) -> int:
        """How many people are best scored together."""
        return users_per_block(len(self.catalogue.order))

    # ---- what everybody calls ---------------------------------------------------------------------------------

    def _forget(self) -> None:
        self._catalogue = None

    @property
    def catalogue(self) -> Catalogue:
        """What the model knows of its data. Raises InputError before `fit`."""
        if self._catalogue is None:
            raise InputError(f"{type(self).__name__} is not fitted yet; call fit(data) first")
        return self._catalogue

    def fit(self, data: Any, *, threads: int | None = None, memory: str | int | None = None) -> Self:
        """Learn from interactions.

        Parameters
        ----------
        data
            `Interactions`, a scipy sparse matrix (users × items), or anything else that `komd.read` takes: a path,
            a frame, a list of pairs.
        threads
            How many threads to use; every core by default. The result does not depend on it.
        memory
            The budget for what is learned (an item-item matrix, dense or sparse) and for the scratch of learning it,
            such as "8GB"; 60 % of what is free by default. It does not count the libraries (some 250 MB), the data,
            the model's own copy of the pairs (4 bytes each, some 20 while it is made), and buffers of some 15 MB for
            each thread.
        """
        interactions = Interactions.of(data, memory=memory)
        if interactions.pairs == 0:
            raise InputError(f"nothing to learn from: {interactions!r} holds no pair")
        catalogue = Catalogue.of(interactions)
        self._learn(catalogue, threads, memory)
        self._catalogue = catalogue
        return self

    def recommend(
        self,
        users: Any = None,
        *,
        n: int = 10,
        histories: Any = None,
        exclude_seen: bool = True,
        items: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        on_unknown: OnUnknown = "error",
        threads: int | None = None,
        memory: str | int | None = None,
        exclude_low_rated: bool = True,
    ) -> Recommendations:
        """The n best items for known people, for strangers, or for everybody.

        Parameters
        ----------
        users
            An id, or several; everybody of the training data when neither `users` nor `histories` is given.
        n
            Length of the lists; they are shorter where there is less to recommend.
        histories
            Instead of users: what people the model need not know have chosen. A mapping from any id to item ids, a
            list of lists of item ids, `Interactions`, or a scipy sparse matrix. Nothing is retrained.
        exclude_seen
            Leave out what the person has already.
        items, exclude
            Only these items; none of these. An item that nobody chose is recommended only if `items` names it.
        on_unknown
            "error" raises UnknownIdError naming the id; "skip" passes over it and counts it in the result.
        threads
            How many threads to use.
        memory
            The budget where the item-item matrix is streamed, such as "8GB"; 60 % of what is free by default.
        exclude_low_rated
            With `exclude_seen`, leave out what a user rated below `min_rating` as well, where the data was read so.
        """
        people, rows, question, skipped = self.request(
            users, n, histories, exclude_seen, items, exclude, on_unknown, exclude_low_rated
        )
        empty = np.flatnonzero(rows.lengths == 0)
        parts = list(self.ranked_blocks(rows, question, threads=threads, memory=memory, label="recommend"))
        return Recommendations(self.lists_table(people, parts), people.take(pa.array(empty)).to_pylist(), skipped)

    def explain(self, user: Any = None, item: Any = None, *, history: Iterable[Any] | None = None) -> Explanation:
        """Why `item` gets its score for a known user, or for a stranger with this history (item ids)."""
        if item is None or (user is None) == (history is None):
            raise InputError("explain takes a user and an item, or an item and history=[...]")
        catalogue = self.catalogue
        if history is None:
            row = catalogue.histories.take(catalogue.find_users([user], "error"))
        else:
            row = Histories.of_rows([catalogue.find_items(_several(history), "error")])
        number = int(catalogue.find_items([item], "error")[0])
        score = float(self.pair_scores(row, np.zeros(1, np.int32), np.array([number], np.int32))[0])
        weights, similarities, parts, global_terms = self.explained(row, np.array([number], np.int32))
        order = np.argsort(-np.abs(parts[:, 0]), kind="stable")
        table = pa.table(
            {
                "item_id": catalogue.item_ids(row.indices[order]),
                "weight": weights[order],
                "similarity": similarities[order, 0].astype(np.float64),
                "contribution": parts[order, 0],
            }
        )
        return Explanation(user, item, score, float(global_terms[0]), table, fallback=not len(row.indices))

    def explained(self, history: Histories, items: NDArray[np.int32]) -> Contributions:
        """`explain` in inside numbers, for one user and many items: the user's problem is solved once."""
        if len(history.indices):
            return self._explain(history, items)
        nothing = np.zeros((0, len(items)))
        return Contributions(np.zeros(0), nothing.astype(np.float32), nothing, self.catalogue.popularity[items])

    def score(
        self,
        pairs: Any,
        *,
        user: Column = None,
        item: Column = None,
        histories: Any = None,
        on_unknown: OnUnknown = "error",
        threads: int | None = None,
        memory: str | int | None = None,
    ) -> Scores:
        """The scores of given pairs of users and items, as `recommend` would have them.

        Parameters
        ----------
        pairs
            What `komd.read` takes: a list of pairs (user, item), a frame, an Arrow table, a file, … Other columns are
            not used. A pair may be repeated, and may be one that the model learned from.
        user, item
            Columns of `pairs` by name or by position, where they are not recognised.
        histories
            What the users of the pairs have chosen, as in `recommend`; by default users are those of the training data.
        on_unknown
            "error" raises UnknownIdError naming the id; "skip" leaves out pairs whose user or item is unknown and
            counts them in the result.
        threads
            How many threads to use.
        memory
            The budget where the item-item matrix is streamed, such as "8GB"; 60 % of what is free by default.

        Returns
        -------
        Scores
            Columns `user_id, item_id, score`, a row for each pair, in the given order.

        Examples
        --------
        >>> import komd
        >>> model = komd.CFKOMD().fit(komd.generate(users=200, items=60, activity=8, rng=0))
        >>> model.score([("user-00042", "Amber Compass (swing)"), ("user-00007", "Amber Rocket (reggae)")])
        Scores(2 rows)
        user_id     item_id                score
        user-00042  Amber Compass (swing)  ...
        user-00007  Amber Rocket (reggae)  ...
        """
        one_of("on_unknown", on_unknown, ("error", "skip"))
        catalogue, given = self.catalogue, read_pairs(pairs, user=user, item=item)
        if histories is None:
            names, rows, skipped = catalogue.users, catalogue.histories, 0
        else:
            people, rows, skipped = self._strangers(histories, on_unknown)
            names, numbers = encode(people, noun="user")
            rows = rows.take(np.argsort(numbers).astype(np.int32))
        who = given.find_users(names, on_unknown)
        what = given.find_items(catalogue.items, on_unknown)
        known = np.flatnonzero((who >= 0) & (what >= 0))
        who, what = who[known], catalogue.inside[what[known]]
        asked = np.unique(who)
        empty = asked[rows.lengths[asked] == 0]
        _warn_of_fallback(len(empty), len(asked))
        scores = self.pair_scores(rows, who, what, threads=threads, memory=memory, label="score")
        table = pa.table({"user_id": names.take(who), "item_id": catalogue.item_ids(what), "score": scores})
        return Scores(table, names.take(empty).to_pylist(), skipped + len(given) - len(known))

    def similar_items(self, items: Any, *, n: int = 10, on_unknown: OnUnknown = "error") -> Recommendations:
        """The n items most like each of these: chosen by somebody, with some likeness, never the item itself."""
        whole("n", n, 1, most=None)
        catalogue = self.catalogue
        found = catalogue.find_items(_several(items), on_unknown)
        known = found[found >= 0]
        likes, nears = [], []
        for number in known:
            like = np.array(self.similarities_to(int(number)), np.float64)
            like[number] = 0.0
            like[catalogue.chosen :] = 0.0
            near = np.argsort(-like, kind="stable")[:n].astype(np.int32)
            near = near[like[near] > 0]
            nears.append(near)
            likes.append(like[near])
        counts = [len(near) for near in nears]
        empty = np.zeros(0, np.int32)
        table = pa.table(
            {
                "similar_to": catalogue.item_ids(np.repeat(known, counts)),
                "item_id": catalogue.item_ids(np.concatenate([empty, *nears])),
                "score": np.concatenate([np.zeros(0), *likes]),
                "rank": np.concatenate([empty, *(np.arange(1, c + 1) for c in counts)]).astype(np.int32),
            }
        )
        return Recommendations(table, skipped=len(found) - len(known))

    def tune(self, data: Any, **options: Any) -> Any:
        """`komd.tune(self, data, **options)`: the parameters with which this model does best, set ones being kept."""
        # Found by name, when it is asked for: tuning stands above models, and models do without it.
        return importlib.import_module("komd.tuning.tune").tune(self, data, **options)

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a folder; `komd.load` reads it. An old model there stays whole until the end."""
        catalogue = self.catalogue
        arrays: Arrays = {
            "order": catalogue.order,
            "history_indptr": catalogue.histories.indptr,
            "history_indices": catalogue.histories.indices,
        }
        seen = catalogue.histories.seen
        if seen is not None:
            arrays |= {"seen_indptr": seen.indptr, "seen_indices": seen.indices}
        ids = {"users": catalogue.users.values, "items": catalogue.items.values}
        store.save(Path(path), model=self.text, arrays=arrays | self.learned_arrays(), ids=ids)

    # ---- inside -----------------------------------------------------------------------------------------------

    def _loaded(self, arrays: Arrays, ids: dict[str, pa.Array]) -> Self:
        _same_names(self.text, self._layouts(), arrays, ids)
        _matching(arrays, ids)
        seen = None
        if "seen_indptr" in arrays:
            seen = Histories(arrays["seen_indptr"], arrays["seen_indices"])  # type: ignore[arg-type]
        histories = Histories(arrays["history_indptr"], arrays["history_indices"], seen=seen)  # type: ignore[arg-type]
        users, items = Ids(ids["users"], noun="user"), Ids(ids["items"], noun="item")
        self._restore(arrays)
        self._catalogue = Catalogue(users, items, arrays["order"], histories.known())  # type: ignore[arg-type]
        return self

    def _scores_of(self, histories: Histories, scores: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Scores (people × items) of a block of histories; popularity for those without one."""
        if scores is None:
            scores = np.empty((len(histories), len(self.catalogue.order)))
        scores = scores[: len(histories)]
        self._score(histories, scores)
        scores[histories.lengths == 0] = self.catalogue.popularity
        return scores

    def pair_scores(
        self,
        rows: Histories,
        who: NDArray[np.int32],
        what: NDArray[np.int32],
        *,
        threads: int | None = None,
        memory: str | int | None = None,
        label: str = "",
    ) -> NDArray[np.float64]:
        """The score of item what[k] for the user with history who[k] of `rows`, for each k; items in inside numbers."""
        order = np.argsort(who, kind="stable")
        # One row for each user, and again for each so many of their items: a row is scored at once.
        first = np.flatnonzero(np.diff(who[order], prepend=-1))
        place = np.arange(len(order)) - np.repeat(first, np.diff(first, append=len(order)))
        starts = np.flatnonzero(place % _TARGETS == 0)
        targets = Histories(np.append(starts, len(order)).astype(np.int64), what[order])
        out = np.empty(len(order))
        asked = rows.take(who[order][starts])
        out[order] = self._scored(asked, targets, threads=threads, memory=memory, label=label)
        return out

    def _scored(
        self, rows: Histories, targets: Histories, *, threads: int | None, memory: str | int | None, label: str
    ) -> NDArray[np.float64]:
        """The scores of each user's targets, which need not be in order."""

        def part(block: tuple[int, int]) -> NDArray[np.float64]:
            scores, some = self._scores_of(rows.block(*block)), targets.block(*block)
            out: NDArray[np.float64] = scores[np.repeat(np.arange(len(some)), some.lengths), some.indices]
            return out

        pieces = pool.blocks(len(rows), self._users_per_block())
        found = pool.run(part, pieces, threads=threads, label=label, size=lambda b: b[1] - b[0])
        return np.concatenate([np.zeros(0), *found])

    def request(
        self,
        users: Any,
        n: int,
        histories: Any,
        exclude_seen: bool,
        items: Iterable[Any] | None,
        exclude: Iterable[Any] | None,
        on_unknown: OnUnknown,
        exclude_low_rated: bool = True,
    ) -> tuple[pa.Array, Histories, RankingRequest, int]:
        """Who asks, with what history, what for; and how many unknown ids were skipped."""
        one_of("on_unknown", on_unknown, ("error", "skip"))
        whole("n", n, 1, most=None)
        people, rows, skipped = self._people(users, histories, on_unknown)
        if not exclude_low_rated:
            rows = replace(rows, seen=None)
        candidates, passed = self.candidate_items(items, exclude, on_unknown)
        _warn_of_fallback(int(np.count_nonzero(rows.lengths == 0)), len(rows))
        return people, rows, RankingRequest(int(n), candidates, exclude_seen), skipped + passed

    def lists_table(self, people: pa.Array, parts: list[RankedBlock]) -> pa.Table:
        """The lists of these people, one row an item."""
        numbers = np.concatenate([np.zeros(0, np.int32), *(part.items[part.filled] for part in parts)])
        scores = np.concatenate([np.zeros(0), *(part.scores[part.filled] for part in parts)])
        counts = np.concatenate([np.zeros(0, np.int64), *(part.counts for part in parts)])
        rank = np.arange(1, len(numbers) + 1) - np.repeat(np.cumsum(counts) - counts, counts)
        return pa.table(
            {
                "user_id": people.take(pa.array(np.repeat(np.arange(len(counts)), counts))),
                "item_id": self.catalogue.item_ids(numbers),
                "score": scores,
                "rank": rank.astype(np.int32),
            }
        )

    def ranked_blocks(
        self,
        rows: Histories,
        question: RankingRequest,
        *,
        threads: int | None = None,
        memory: str | int | None = None,
        label: str = "",
    ) -> Iterator[RankedBlock]:
        """The answers for all these people, block after block: the one way to lists and measures."""

        def answer(block: tuple[int, int]) -> RankedBlock:
            return rank_block(self._scores_of, rows.block(*block), question, block[0], chosen)

        chosen = self.catalogue.chosen
        pieces = pool.blocks(len(rows), self._users_per_block())
        return pool.run(answer, pieces, threads=threads, label=label, size=lambda b: b[1] - b[0])

    def _people(self, users: Any, histories: Any, on_unknown: OnUnknown) -> tuple[pa.Array, Histories, int]:
        """Whom to serve: their ids, their histories, and how many unknown ids were skipped."""
        catalogue = self.catalogue
        if users is not None and histories is not None:
            raise InputError("give users or histories, not both: a history stands for its person")
        if histories is not None:
            return self._strangers(histories, on_unknown)
        if users is None:
            return catalogue.users.values, catalogue.histories, 0
        found = catalogue.find_users(_several(users), on_unknown)
        known = found[found >= 0]
        return catalogue.users.take(known), catalogue.histories.take(known), len(found) - len(known)

    def _strangers(self, histories: Any, on_unknown: OnUnknown) -> tuple[pa.Array, Histories, int]:
        catalogue = self.catalogue
        if isinstance(histories, Interactions) or hasattr(histories, "tocsr"):
            data = Interactions.of(histories)
            rows, skipped = catalogue.translated(data, on_unknown)
            return data.users.values, rows, skipped
        if isinstance(histories, Mapping):
            names, lists = list(histories), [_history(h) for h in histories.values()]
        elif isinstance(histories, (list, tuple)):
            lists = [_history(h) for h in histories]
            names = list(range(len(lists)))
        else:
            raise InputError(
                "histories must be a mapping {id: [item ids]}, a list of lists of item ids, Interactions or a scipy "
                f"matrix, got {type(histories).__name__}"
            )
        found = catalogue.find_items([item for row in lists for item in row], on_unknown)
        ends = np.cumsum([len(row) for row in lists], dtype=np.int64)
        rows_found = np.split(found, ends[:-1]) if lists else []
        rows = Histories.of_rows([row[row >= 0] for row in rows_found])
        return pa.array(names), rows, int((found < 0).sum())

    def candidate_items(
        self, items: Iterable[Any] | None, exclude: Iterable[Any] | None, on_unknown: OnUnknown
    ) -> tuple[NDArray[np.int32], int]:
        """Inside numbers of the items that may be recommended, ascending, and how many unknown ids were skipped."""
        catalogue = self.catalogue
        found = [None if ids is None else catalogue.find_items(_several(ids), on_unknown) for ids in (items, exclude)]
        skipped = sum(int((numbers < 0).sum()) for numbers in found if numbers is not None)
        return catalogue.candidates(*found), skipped


def _warn_of_fallback(empty: int, users: int) -> None:
    if empty:
        warnings.warn(
            f"{empty:,} of {users:,} people have no history: they are served by popularity",
            FallbackWarning,
            stacklevel=4,
        )


def _same_names(model: str, layouts: list[set[str]], arrays: Arrays, ids: dict[str, pa.Array]) -> None:
    """Refuse a folder with an array too few or too many: the model would load, and answer as another one."""
    known, seen = {"order", "history_indptr", "history_indices"}, {"seen_indptr", "seen_indices"}
    if seen <= arrays.keys():  # only where the data were read so
        known |= seen
    learned = arrays.keys() - known
    if not known <= arrays.keys() or set(ids) != {"users", "items"} or learned not in layouts:
        found = ", ".join(sorted([*arrays, *ids]))
        raise ModelFileError(f"the saved arrays are not those of {model}: {found}; save the model again")


def _matching(arrays: Arrays, ids: dict[str, pa.Array]) -> None:
    """Refuse arrays that do not belong together: compiled code trusts its indices."""
    n, m = len(ids["users"]), len(ids["items"])
    order = arrays["order"]
    rows = [name for name in ("history", "seen") if f"{name}_indptr" in arrays]
    fits = (
        order.shape == (m,)
        and order.dtype == np.int32
        and (order.size == 0 or bool(order.min() >= 0 and (np.bincount(order, minlength=m) == 1).all()))
        and all(well_formed(arrays[f"{name}_indptr"], arrays[f"{name}_indices"], n, m) for name in rows)
    )
    if not fits:
        raise ModelFileError("the saved arrays do not belong together; save the model again")


def _history(items: Any) -> Any:
    """The item ids of one history."""
    if isinstance(items, Mapping):
        raise InputError(
            f"a history is a list of item ids, got {type(items).__name__} {dict(islice(items.items(), 2))!r}: values "
            "(ratings, counts) are not used; give its keys as a list, list(history)"
        )
    return _several(items)


def _several(ids: Any) -> Any:
    """A list of ids from a list, an array, or a single id."""
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
        return [ids]
    return ids if hasattr(ids, "__len__") and not isinstance(ids, (set, frozenset, dict)) else list(ids)
