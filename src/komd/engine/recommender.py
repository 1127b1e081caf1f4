"""The public face of every model: fit, recommend, explain, save."""

from __future__ import annotations

import importlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from komd import store
from komd import threads as pool
from komd.checks import one_of, whole
from komd.data.columns import Column
from komd.data.encode import encode
from komd.data.interactions import Interactions
from komd.data.pairs import read_pairs
from komd.engine.catalogue import Catalogue, OnUnknown
from komd.engine.histories import Histories
from komd.engine.parameters import Parameters
from komd.engine.ranking import RankedBlock, RankingRequest, rank_blocks, users_per_block
from komd.engine.requests import asked_lists, asked_users, one_history, several, warn_of_fallback
from komd.engine.results import Contributions, Explanation, Recommendations, Scores, lists_table
from komd.engine.saved_catalogue import catalogue_arrays, restored_catalogue
from komd.errors import InputError, ModelFileError, UnusedWeightsWarning
from komd.matrix.item_matrix import Arrays

__all__ = ["Recommender"]

_TARGETS = 4096  # items scored for a user at once


class Recommender(Parameters, ABC):
    """A model of who likes what. Subclasses say how to learn, how to score, and how to explain."""

    serves_strangers: ClassVar[bool] = True
    """Whether users outside the training data can be served from their history alone."""

    uses_weights: ClassVar[bool] = False
    """Whether weights of interactions make a difference."""

    earlier_format: bool = False
    """Whether it was loaded from a folder of an earlier format: its sums may be rounded otherwise than those of now."""

    _catalogue: Catalogue | None = None
    _changes: Any = None  # updates that wait to be taken in, of models that can be updated

    # ---- what a method must say -------------------------------------------------------------------------------

    @abstractmethod
    def learn(self, catalogue: Catalogue, threads: int | None, memory: str | int | None) -> None:
        """Learn from a catalogue."""

    @abstractmethod
    def _score(self, histories: Histories, scores: NDArray[np.float64]) -> None:
        """Fill scores (users × items) for these histories; rows of users without history are overwritten later."""

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
        """The names that `learned_arrays` may give with these parameters: one set for each way to hold them."""

    @abstractmethod
    def _restore(self, arrays: Arrays) -> None:
        """Restore what `learned_arrays` gave."""

    def check_data(self, data: Interactions) -> None:
        """Refuse data that the method cannot learn from; warn of what it does not use."""
        self._warn_of_weights(data)

    def check_histories(self, histories: object) -> None:
        """Refuse given histories, in whatever form, that the method cannot use."""

    def _warn_of_weights(self, data: Interactions | Histories | None) -> None:
        """Say that weights are not used, if there are any and the method does not use them."""
        if data is not None and data.weights is not None and not self.uses_weights:
            remark = UnusedWeightsWarning(f"{type(self).__name__} does not use weights: every pair counts 1")
            warnings.warn(remark, stacklevel=4)

    def _users_per_block(self) -> int:
        """How many users are best scored together."""
        return users_per_block(len(self.catalogue.order))

    # ---- what users of the library call ------------------------------------------------------------------

    def _forget(self) -> None:
        self._catalogue = self._changes = None

    @property
    def fitted(self) -> bool:
        """Whether `fit` has been called since the parameters were set."""
        return self._catalogue is not None

    @property
    def catalogue(self) -> Catalogue:
        """What the model knows of its data. Raises InputError before `fit`."""
        self.refresh()
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
        self.check_data(interactions)
        catalogue = Catalogue.of(interactions)
        self.learn(catalogue, threads, memory)
        self._catalogue, self._changes, self.earlier_format = catalogue, None, False
        return self

    def update(
        self,
        added: Any = None,
        removed: Any = None,
        *,
        removed_users: Any = None,
        repeated: str = "sum",
        on_unknown: OnUnknown = "error",
    ) -> Self:
        """Learn and unlearn pairs exactly: see `Updatable.update`. InputError for models that cannot."""
        raise self.refused_update

    def refresh(self, *, threads: int | None = None, memory: str | int | None = None) -> Self:
        """Take in updates that wait, for models that can be updated."""
        return self

    def view(self) -> Self:
        """This model as it is now, whatever updates come."""
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
        dislikes: Any = None,
        at: Any = None,
    ) -> Recommendations:
        """The n best items for known users, for strangers, or for all users.

        Parameters
        ----------
        users
            An id, or several; all users of the training data when neither `users` nor `histories` is given.
        n
            Length of the lists; they are shorter where there is less to recommend.
        histories
            Instead of users: what users the model need not know have chosen. A mapping from any id to item ids, or
            to a mapping from item ids to weights (`{"guest": {"i7": 3, "i42": 1}}`), a list of such histories,
            `Interactions`, or a scipy sparse matrix. Nothing is retrained.
        exclude_seen
            Leave out what the user has already.
        items, exclude
            Only these items; none of these. An item that nobody chose is recommended only if `items` names it.
        on_unknown
            "error" raises UnknownIdError naming the id; "skip" passes over it and counts it in the result.
        threads
            How many threads to use.
        memory
            The budget where the item-item matrix is streamed, such as "8GB"; 60 % of what is free by default.
        exclude_low_rated
            With `exclude_seen`, leave out what a user rated below `liked` as well, where the data was read so.
        dislikes
            With `histories` as a mapping or a list: items that these users dislike, as a mapping from their ids to item
            ids, or as a list of lists. They are never recommended, and count as `dislikes_weight` says. Dislikes of
            known users are in the model.
        at
            For models with a half-life, the moment from which ages are measured: "now", a date, a datetime (UTC unless
            it says otherwise) or ISO text. By default each user's last event. Later events have age 0.
        """
        self = self.view()
        self.check_histories(histories)
        (ids, rows, skipped), request = asked_lists(
            self.catalogue,
            users,
            n,
            histories,
            exclude_seen,
            items,
            exclude,
            on_unknown,
            exclude_low_rated,
            dislikes,
            at,
        )
        self._warn_of_weights(rows if histories is not None else None)
        empty = np.flatnonzero(rows.lengths == 0)
        parts = list(self.ranked_blocks(rows, request, threads=threads, memory=memory, label="recommend"))
        return Recommendations(lists_table(self.catalogue, ids, parts), ids.take(pa.array(empty)).to_pylist(), skipped)

    def explain(
        self,
        user: Any = None,
        item: Any = None,
        *,
        history: Iterable[Any] | None = None,
        dislikes: Iterable[Any] | None = None,
        at: Any = None,
    ) -> Explanation:
        """Why `item` gets its score for a known user, or for a stranger with this history and these dislikes.

        The history is a list of item ids, or a mapping from item ids to weights; `at` is as in `recommend`.
        """
        if item is None or (user is None) == (history is None):
            raise InputError("explain takes a user and an item, or an item and history=[...]")
        self = self.view()
        catalogue = self.catalogue
        row = one_history(catalogue, user, history, "explain", dislikes, at)
        number = int(catalogue.find_items([item], "error")[0])
        score = float(self.pair_scores(row, np.zeros(1, np.int32), np.array([number], np.int32))[0])
        found = self.explained(row, np.array([number], np.int32))
        order = np.argsort(-np.abs(found.parts[:, 0]), kind="stable")
        table = pa.table(
            {
                "item_id": catalogue.item_ids(found.items[order]),
                "weight": found.weights[order],
                "similarity": found.similarities[order, 0].astype(np.float64),
                "contribution": found.parts[order, 0],
            }
        )
        return Explanation(user, item, score, float(found.global_terms[0]), table, fallback=not len(row.indices))

    def explained(self, history: Histories, items: NDArray[np.int32]) -> Contributions:
        """`explain` in inside numbers, for one user and many items: the user's problem is solved once."""
        if len(history.indices):
            return self._explain(history, items)
        nothing = np.zeros((0, len(items)))
        popularity = self.catalogue.popularity[items]
        return Contributions(np.zeros(0), nothing.astype(np.float32), nothing, popularity, np.zeros(0, np.int32))

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
        dislikes: Any = None,
        at: Any = None,
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
        dislikes, at
            As in `recommend`.

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
        self = self.view()
        self.check_histories(histories)
        catalogue, given = self.catalogue, read_pairs(pairs, user=user, item=item)
        if histories is None:
            names, rows, skipped = (
                catalogue.users,
                asked_users(catalogue, None, None, "error", dislikes, at).histories,
                0,
            )
        else:
            ids, rows, skipped = asked_users(catalogue, None, histories, on_unknown, dislikes, at)
            names, numbers = encode(ids, noun="user")
            rows = rows.take(np.argsort(numbers).astype(np.int32))
        who = given.find_users(names, on_unknown)
        what = given.find_items(catalogue.items, on_unknown)
        known = np.flatnonzero((who >= 0) & (what >= 0))
        who, what = who[known], catalogue.inside[what[known]]
        asked = np.unique(who)
        empty = asked[rows.lengths[asked] == 0]
        warn_of_fallback(len(empty), len(asked))
        scores = self.pair_scores(rows, who, what, threads=threads, memory=memory, label="score")
        table = pa.table({"user_id": names.take(who), "item_id": catalogue.item_ids(what), "score": scores})
        return Scores(table, names.take(empty).to_pylist(), skipped + len(given) - len(known))

    def similar_items(self, items: Any, *, n: int = 10, on_unknown: OnUnknown = "error") -> Recommendations:
        """The n items most like each of these: chosen by somebody, with some likeness, never the item itself."""
        whole("n", n, 1, most=None)
        self = self.view()
        catalogue = self.catalogue
        found = catalogue.find_items(several(items), on_unknown)
        known = found[found >= 0]
        nearest = [self.nearest_items(int(number), n) for number in known]
        nears, likes = [near for near, _ in nearest], [like for _, like in nearest]
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

    def nearest_items(self, item: int, n: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """`similar_items` in numbers, for one item: the items, and how similar they are."""
        like = np.array(self.similarities_to(item), np.float64)
        like[item] = 0.0
        like[self.catalogue.chosen :] = 0.0
        near = np.argsort(-like, kind="stable")[:n].astype(np.int32)
        near = near[like[near] > 0]
        return near, like[near]

    def tune(self, data: Any, **options: Any) -> Any:
        """`komd.tune(self, data, **options)`: the parameters with which this model does best, set ones being kept."""
        # Found by name, when it is asked for: tuning stands above models, and models do without it.
        return importlib.import_module("komd.tuning.tune").tune(self, data, **options)

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a folder; `komd.load` reads it. An old model there stays whole until the end."""
        self.write(Path(path))

    # ---- what other parts of the package call -------------------------------------------------------------------

    @property
    def row_work(self) -> float:
        """How much an item of a history adds to the work of scoring a user, about: in entries of a dense row."""
        return float(len(self.catalogue.order))

    @property
    def refused_update(self) -> InputError:
        """The error of a model that cannot be updated."""
        return InputError(
            f"{type(self).__name__} cannot be updated, only fitted again; CFKOMD, ECFOMD, MSDW, RP3Beta and "
            "Popularity can"
        )

    def write(self, path: Path, expected: store.SavedModel | None = None) -> None:
        """`save`; with `expected`, as `store.save` has it."""
        self = self.view()
        arrays, ids = catalogue_arrays(self.catalogue)
        store.save(path, model=self.text, arrays=arrays | self.learned_arrays(), ids=ids, expected=expected)

    def replay(self, records: list[bytes]) -> Self:
        """Take in the updates of a journal."""
        if records:
            what = f"{len(records):,} updates in its journal, which this komd cannot apply to {self.text}"
            raise ModelFileError(f"the saved model has {what}: upgrade komd")
        return self

    def loaded(self, arrays: Arrays, ids: dict[str, pa.Array]) -> Self:
        """This model with what was saved; ModelFileError if it does not fit."""
        catalogue = restored_catalogue(self.text, self._layouts(), arrays, ids)
        self._restore(arrays)
        self._catalogue = catalogue
        return self

    def block_scores(self, histories: Histories) -> NDArray[np.float64]:
        """Scores (users × items) of a block of histories; popularity for those without one."""
        return self._filled(histories, partial(self._score, histories))

    def _filled(self, histories: Histories, score: Callable[[NDArray[np.float64]], None]) -> NDArray[np.float64]:
        scores = np.empty((len(histories), len(self.catalogue.order)))
        score(scores)
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
        out[order] = self._target_scores(asked, targets, threads=threads, memory=memory, label=label)
        return out

    def _target_scores(
        self, rows: Histories, targets: Histories, *, threads: int | None, memory: str | int | None, label: str
    ) -> NDArray[np.float64]:
        """The scores of each user's targets, which need not be in order."""

        def part(block: tuple[int, int]) -> NDArray[np.float64]:
            scores, some = self.block_scores(rows.block(*block)), targets.block(*block)
            out: NDArray[np.float64] = scores[np.repeat(np.arange(len(some)), some.lengths), some.indices]
            return out

        pieces = pool.blocks(len(rows), self._users_per_block())
        found = pool.run(part, pieces, threads=threads, label=label, size=lambda b: b[1] - b[0])
        return np.concatenate([np.zeros(0), *found])

    def ranked_blocks(
        self,
        rows: Histories,
        request: RankingRequest,
        *,
        threads: int | None = None,
        memory: str | int | None = None,
        label: str = "",
    ) -> Iterator[RankedBlock]:
        """The answers for all these users, block after block: the one way to lists and measures."""
        chosen, block = self.catalogue.chosen, self._users_per_block()
        return rank_blocks(self.block_scores, rows, request, chosen, block, threads=threads, label=label)
