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
from komd.engine.weight_cache import WeightCache
from komd.errors import InputError, ModelFileError, UnusedWeightsWarning
from komd.matrix.item_matrix import Arrays

__all__ = ["Recommender"]

_TARGETS = 4096  # items scored for a user at once


class Recommender(Parameters, ABC):
    """Base class of all models. Subclasses define how to learn, to score and to explain."""

    serves_strangers: ClassVar[bool] = True
    """Whether users outside the training data can be served from their history alone."""

    uses_weights: ClassVar[bool] = False
    """Whether the model uses weights of interactions."""

    earlier_format: bool = False
    """Whether the model was loaded from a folder of an earlier format, whose sums may be rounded differently."""

    _catalogue: Catalogue | None = None
    _changes: Any = None  # pending updates, of models that can be updated

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
        """The possible sets of names in `learned_arrays` with these parameters: one set for each storage."""

    @abstractmethod
    def _restore(self, arrays: Arrays) -> None:
        """Restore what `learned_arrays` gave."""

    def check_data(self, data: Interactions) -> None:
        """Refuse data that the method cannot learn from; warn of parts that it does not use."""
        self._warn_of_weights(data)

    def check_histories(self, histories: object) -> None:
        """Refuse given histories, in whatever form, that the method cannot use."""

    def _warn_of_weights(self, data: Interactions | Histories | None) -> None:
        """Warn if there are weights and the method does not use them."""
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
        data : Interactions, scipy sparse matrix, path, frame or list of pairs
            Interactions, or anything else that `komd.read` accepts. A scipy matrix has users as rows and items as
            columns.
        threads : int, optional
            Number of threads; all cores by default. The result does not depend on it.
        memory : str or int, optional
            Memory budget for the item-item matrix and for the buffers needed to build it, such as "8GB". The default is
            60 % of the free memory. Not counted: the libraries (about 250 MB), the data, the model's own copy of the
            pairs (4 bytes each, about 20 while it is made), and about 15 MB of buffers per thread.

        Returns
        -------
        Self
            The model itself, fitted.

        Raises
        ------
        InputError
            If the data cannot be read or holds no pair, or if the model does not fit the memory budget.

        Examples
        --------
        >>> import komd
        >>> model = komd.ECFOMD().fit([("ana", "i7"), ("ana", "i42"), ("bo", "i7"), ("bo", "i9")])
        >>> model.fitted
        True
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
        """Add and remove pairs; raises InputError for models that can only be fitted again.

        `CFKOMD`, `ECFOMD`, `MSDW`, `RP3Beta` and `Popularity` can be updated; see their `update`.

        Parameters
        ----------
        added, removed : Interactions, frame, file or list of pairs, optional
            Pairs to add and pairs to remove.
        removed_users : list of ids, optional
            Users to remove with all their pairs.
        repeated : {"sum", "max", "last", "count"}
            The weight of a pair that is added again.
        on_unknown : {"error", "skip"}
            What to do if a pair or user to remove is not in the model.

        Returns
        -------
        Self
            The model itself.

        Raises
        ------
        InputError
            Always, unless the class overrides this method.

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> komd.EASE().fit(data).update(added=[("ana", "i7")])
        Traceback (most recent call last):
            ...
        komd.errors.InputError: EASE cannot be updated, only fitted again; ...
        """
        raise self.refused_update

    def refresh(self, *, threads: int | None = None, memory: str | int | None = None) -> Self:
        """Apply pending updates now. Models that cannot be updated have none.

        Parameters
        ----------
        threads : int, optional
            Number of threads; all cores by default.
        memory : str or int, optional
            Memory budget, as in `fit`.

        Returns
        -------
        Self
            The model itself.

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> model = komd.ECFOMD().fit(data)
        >>> model.refresh() is model  # nothing waits
        True
        """
        return self

    def view(self) -> Self:
        """A snapshot of this model, which later updates do not change."""
        return self

    def keeping_weights(self, cache: WeightCache) -> Self:
        """A snapshot that caches the weights of histories, for models that solve a problem for them."""
        return self.view()

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
        """Return the n best items for known users, for new users, or for all users.

        Parameters
        ----------
        users : id or list of ids, optional
            Known users. If neither `users` nor `histories` is given, all users of the training data.
        n : int
            Length of each list. A list is shorter if there is less to recommend.
        histories : mapping, list, Interactions or scipy sparse matrix, optional
            Histories of users that the model need not know, instead of `users`. A mapping from any id to item ids, or
            to a mapping from item ids to weights (`{"guest": {"i7": 3, "i42": 1}}`); a list of such histories;
            `Interactions`; or a scipy sparse matrix. Nothing is retrained.
        exclude_seen : bool
            Leave out the items of the user's history.
        items : iterable of ids, optional
            Recommend only these items. An item that nobody chose is recommended only if it is listed here.
        exclude : iterable of ids, optional
            Recommend none of these items.
        on_unknown : {"error", "skip"}
            For an unknown id: raise UnknownIdError, or skip it and count it in the result.
        threads : int, optional
            Number of threads; all cores by default. The result does not depend on it.
        memory : str or int, optional
            Memory budget if the item-item matrix is streamed, such as "8GB"; 60 % of the free memory by default.
        exclude_low_rated : bool
            With `exclude_seen`: also leave out items that the user rated below `liked`, if the data was read that way.
        dislikes : mapping or list, optional
            With `histories` as a mapping or a list: items that these users dislike, as a mapping from their ids to item
            ids, or as a list of lists. They are never recommended; how much they count is set by the model's
            `dislikes_weight`. Dislikes of known users are part of the model.
        at : str, date or datetime, optional
            For models with a half-life, the moment from which ages are measured: "now", a date, a datetime (UTC unless
            it has a time zone) or ISO text. The default is each user's last event. Later events have age 0.

        Returns
        -------
        Recommendations
            Columns `user_id`, `item_id`, `score` and `rank`, best first.

        Raises
        ------
        UnknownIdError
            If a user or an item is unknown and `on_unknown` is "error".
        InputError
            If the model is not fitted, or an argument is invalid.

        Examples
        --------
        >>> import komd
        >>> model = komd.CFKOMD().fit(komd.generate(users=200, items=60, activity=8, rng=0))
        >>> model.recommend("user-00042", n=2)
        Recommendations(2 rows)
        user_id     item_id  ...
        >>> model.recommend(histories={"guest": ["Amber Rocket (reggae)"]}, n=3).to_arrow().num_rows
        3
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
        """Explain the score of one item as a sum of contributions of the items in a history.

        Parameters
        ----------
        user : id, optional
            A known user. Give either `user` or `history`.
        item : id
            The item whose score is explained.
        history : list of ids or mapping, optional
            The history of a user that the model need not know: item ids, or a mapping from item ids to weights.
        dislikes : iterable of ids, optional
            With `history`: items that the user dislikes.
        at : str, date or datetime, optional
            As in `recommend`.

        Returns
        -------
        Explanation
            Columns `item_id`, `weight`, `similarity` and `contribution`, largest contribution first. The contributions
            and the global term sum to the score.

        Raises
        ------
        UnknownIdError
            If the user or an item is unknown.
        InputError
            If not exactly one of `user` and `history` is given, or `item` is missing.

        Examples
        --------
        >>> import komd
        >>> model = komd.CFKOMD().fit(komd.generate(users=200, items=60, activity=8, rng=0))
        >>> why = model.explain("user-00042", "Amber Rocket (reggae)")
        >>> total = sum(why.to_arrow().column("contribution").to_pylist()) + why.global_term
        >>> abs(total - why.score) < 1e-9
        True
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
        """Return the scores of given pairs of users and items.

        Parameters
        ----------
        pairs : list of pairs, frame, Arrow table or path
            Anything that `komd.read` accepts. Other columns are not used. A pair may be repeated, and may be one that
            the model learned from.
        user, item : str or int, optional
            Columns of `pairs`, by name or by position, if they are not recognised.
        histories : mapping, list, Interactions or scipy sparse matrix, optional
            The histories of the users in `pairs`, as in `recommend`. By default, users are those of the training data.
        on_unknown : {"error", "skip"}
            For an unknown user or item: raise UnknownIdError, or leave out the pair and count it in the result.
        threads : int, optional
            Number of threads; all cores by default.
        memory : str or int, optional
            Memory budget if the item-item matrix is streamed, such as "8GB"; 60 % of the free memory by default.
        dislikes : mapping or list, optional
            As in `recommend`.
        at : str, date or datetime, optional
            As in `recommend`.

        Returns
        -------
        Scores
            Columns `user_id`, `item_id` and `score`, one row per pair, in the given order.

        Raises
        ------
        UnknownIdError
            If a user or an item is unknown and `on_unknown` is "error".
        InputError
            If the pairs cannot be read.

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
        """Return the n items most similar to each given item.

        Items that nobody chose, items with similarity 0 and the item itself are left out.

        Parameters
        ----------
        items : id or list of ids
            The items to compare with.
        n : int
            Length of each list, at most.
        on_unknown : {"error", "skip"}
            For an unknown item: raise UnknownIdError, or skip it and count it in the result.

        Returns
        -------
        Recommendations
            Columns `similar_to`, `item_id`, `score` (the similarity) and `rank`.

        Raises
        ------
        UnknownIdError
            If an item is unknown and `on_unknown` is "error".

        Examples
        --------
        >>> import komd
        >>> model = komd.CFKOMD().fit(komd.generate(users=200, items=60, activity=8, rng=0))
        >>> len(model.similar_items("Amber Rocket (reggae)", n=3).items("Amber Rocket (reggae)"))
        3
        """
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
        """Search for the parameters with which this model does best; parameters that were set are kept.

        Parameters
        ----------
        data : Interactions or anything that `komd.read` accepts
            The training data; folds are made inside it.
        **options
            Options of `komd.tune`.

        Returns
        -------
        Tuning
            All trials, and the best model as text.

        Raises
        ------
        InputError
            As `komd.tune`.

        Examples
        --------
        >>> import komd
        >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
        >>> found = komd.MSDW().tune(data, metric="ndcg@10", trials=2, rounds=1)
        >>> len(found.trials)
        2
        """
        # Imported by name, on demand: tuning depends on models, and models do not depend on it.
        return importlib.import_module("komd.tuning.tune").tune(self, data, **options)

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a folder; `komd.load` reads it.

        The folder is replaced atomically: if saving fails or is interrupted, an earlier model in it stays intact.

        Parameters
        ----------
        path : str or Path
            The folder. Its name usually ends in `.komd`.

        Raises
        ------
        InputError
            If the model is not fitted.
        ModelFileError
            If the path holds something that is not a model, or cannot be written.

        Examples
        --------
        >>> import komd, tempfile
        >>> model = komd.ECFOMD().fit([("ana", "i7"), ("ana", "i42"), ("bo", "i7"), ("bo", "i9")])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(folder + "/plays.komd")
        ...     komd.load(folder + "/plays.komd").recommend("ana").items("ana")
        ['i9']
        """
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
        """Apply the updates of a journal."""
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
        # One row per user and per `_TARGETS` of their items: a row is scored at once.
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
        """The answers for all these users, block after block: the one way to lists and metrics."""
        chosen, block = self.catalogue.chosen, self._users_per_block()
        return rank_blocks(self.block_scores, rows, request, chosen, block, threads=threads, label=label)
