"""One model with the names of its items: what can be asked of it, in inside numbers. Immutable, so it can be replaced.

Every user is served by their history alone, as the library serves users it does not know: `Recommender.ranked_blocks`.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from komd.engine.histories import Histories
from komd.engine.ranking import RankingRequest
from komd.engine.recommender import Recommender
from komd.engine.weight_cache import WeightCache, WeightCounts
from komd.errors import ModelFileError
from komd.models.registry import load, load_trusted
from komd.serve import request_context
from komd.serve.candidate_masks import NO_RULES, CandidateMasks, ItemMask, ItemRules, ListRules
from komd.serve.id_text import numbers_of, text_of
from komd.serve.item_names import ItemNames
from komd.serve.list_quotas import ListQuotas, RankedItems
from komd.serve.request_cost import RequestCost, cut
from komd.serve.user_row import UserRow, histories_of

__all__ = ["ModelSnapshot", "RankedList", "Reason"]

_POINTS = 240  # of the curve of popularity
_KEPT_WEIGHTS = 32 << 20  # bytes of weights that are kept: of about 20,000 users with 165 items each


class Reason(NamedTuple):
    """Why an item got its score: contributions of the history's items, the largest first, and the rest of the sum.

    Dislikes that count in scores are among the items, and marked. Of the others, what adds and what takes away is
    also summed apart.
    """

    items: NDArray[np.int32]
    disliked: NDArray[np.bool_]
    contributions: NDArray[np.float64]
    others: int
    others_contribution: float
    others_positive: tuple[int, float]
    """How many of the others add to the score, and how much."""
    others_negative: tuple[int, float]
    """How many take away from it, and how much."""
    global_term: float


@dataclass(frozen=True)
class RankedList:
    """The list of one user."""

    items: NDArray[np.int32]
    scores: NDArray[np.float64]
    fallback: bool
    reasons: list[Reason] | None


class ModelSnapshot:
    """A model as requests use it."""

    def __init__(
        self,
        model: Recommender,
        version: str,
        names: ItemNames,
        masks: CandidateMasks | None = None,
        counts: WeightCounts | None = None,
    ) -> None:
        self.weights = WeightCache(_KEPT_WEIGHTS, counts)
        """The solved weights of histories, of this model alone."""
        self.model = model.keeping_weights(self.weights)
        self.version = version
        self.release = version
        """The version of the saved model, without the updates that were appended to it."""
        self.names = names
        self.loaded = time.time()
        self.catalogue = model.catalogue
        self.masks = CandidateMasks.of(self.catalogue, names) if masks is None else masks
        self.cost = RequestCost(len(self.catalogue.order), model.row_work)
        """What requests cost."""
        self._all_candidates = self.catalogue.candidates()

    @staticmethod
    def load(
        path: Path,
        version: str,
        table: pa.Table | None,
        before: ModelSnapshot | None = None,
        *,
        trusted: bool = False,
        rules: ItemRules | None = None,
    ) -> ModelSnapshot:
        """Load, check and try a model, so that its first request is as fast as any other.

        The names of `before` and their index are used again if the items are the same, and its counts go on. A
        `trusted` folder is written by this service: checksums are not checked.
        """
        model = (load_trusted(path) if trusted else load(path)).view()  # with the updates of its journal
        if not model.serves_strangers:
            raise ModelFileError(
                f"{type(model).__name__} serves only the users it was fitted on; a service must answer to histories. "
                "Fit another model"
            )
        items = model.catalogue.items
        same = before is not None and before.names.fits(items, table)
        names = before.names if before is not None and same else ItemNames.of(items, table)
        masks = CandidateMasks.of(model.catalogue, names, rules, None if before is None else before.masks)
        snapshot = ModelSnapshot(model, version, names, masks, None if before is None else before.weights.counts)
        snapshot._warm_up()
        return snapshot

    def _warm_up(self) -> None:
        """Compile, touch every page that is mapped, and fail now rather than in a request."""
        for array in self.model.learned_arrays().values():
            array.ravel().view(np.uint8)[::4096].max(initial=0)
        items = np.arange(len(self.catalogue.order), dtype=np.int32)
        row, weights = items[:2], np.array([2.0, 1.0], np.float32)[: len(items)]
        self.recommend([UserRow(row)], n=3, at=0, reasons=2)
        self.recommend([UserRow(row, weights, dislikes=items[2:3])], n=3, at=0, reasons=2)  # solved by other code
        self.model.nearest_items(0, 3)
        self.learned_row(text_of(self.catalogue.users[0]))
        self.masks.warm_up()
        _ = self.catalogue.inside, self.catalogue.popularity, self.curve, self.names.index, self.names.labels

    # ---- ids --------------------------------------------------------------------------------------------------

    def item_numbers(self, texts: list[str]) -> NDArray[np.int32]:
        """Inside numbers of items; -1 for unknown ones."""
        labels = self.names.labels
        if labels is not None:
            known_numbers = labels.numbers
            found = np.array([known_numbers.get(text, -1) for text in texts], np.int32)
        else:
            found = numbers_of(self.catalogue.items, texts)
        known = found >= 0
        found[known] = self.catalogue.inside[found[known]]
        return found

    def find_items(self, texts: list[str]) -> tuple[NDArray[np.int32], list[str]]:
        """Inside numbers of the items that the model knows, and the texts of the others."""
        numbers = self.item_numbers(texts)
        return numbers[numbers >= 0], [text for text, number in zip(texts, numbers.tolist(), strict=True) if number < 0]

    def item_texts(self, numbers: NDArray[np.int32]) -> list[str]:
        """Ids of inside numbers, as text."""
        labels, places = self.names.labels, self.catalogue.order[numbers]
        if labels is not None:
            return [labels.texts[place] for place in places.tolist()]
        return list(self.names.texts.take(pa.array(places)).to_pylist())

    def item_names(self, numbers: NDArray[np.int32]) -> list[str]:
        """Names of inside numbers."""
        labels, places = self.names.labels, self.catalogue.order[numbers]
        if labels is not None:
            return [labels.names[place] for place in places.tolist()]
        return list(self.names.names.take(pa.array(places)).to_pylist())

    def item_details(self, number: int) -> dict[str, str]:
        """The further columns of an item, by inside number, that are not empty."""
        return self.names.details(int(self.catalogue.order[number])) if self.names.columns else {}

    def item_image(self, number: int) -> str | None:
        """The address of an item's image, by inside number."""
        return None if self.names.images is None else self.names.image(int(self.catalogue.order[number]))

    def search(self, query: str, n: int) -> NDArray[np.int32]:
        """Inside numbers of up to n items by name, the best first."""
        return self.catalogue.inside[self.names.index.find(query, n, self.catalogue.inside)]

    def learned_row(self, user: str) -> UserRow | None:
        """What the model knows of a user it was fitted on; None for others."""
        row = int(numbers_of(self.catalogue.users, [user])[0])
        return None if row < 0 else UserRow.of_histories(self.catalogue.histories, row)

    # ---- lists ------------------------------------------------------------------------------------------------

    def recommend(
        self,
        rows: Sequence[UserRow],
        *,
        n: int,
        at: int,
        exclude_seen: bool = True,
        allow: NDArray[np.int32] | None = None,
        deny: NDArray[np.int32] | None = None,
        max_popularity: int | None = None,
        reasons: int | None = None,
        rules: ListRules = NO_RULES,
        costs: Sequence[float] = (),
    ) -> list[RankedList]:
        """The lists of these users; with the largest `reasons` contributions when given.

        Ages are measured from `at` (microseconds since 1970), by models that have a half-life. Rules of attributes
        decide which items may be in a list, and never change scores. With the `costs` of the users the work is done in
        parts, and can be abandoned between them; the lists are the same.
        """
        histories, context = histories_of(rows, at), request_context.current()
        candidates = self._candidates(self.masks.of_rules(rules), allow, deny, max_popularity)
        quotas = ListQuotas(self.masks.attributes, self.catalogue.order, rules.max_per) if rules.max_per else None
        request = RankingRequest(n if quotas is None else quotas.depth(n), candidates, exclude_seen)
        lists: list[RankedList] = []
        for part in cut(costs) if len(rows) > 1 and costs else [(0, len(rows))]:
            context.check()
            for block in self.model.ranked_blocks(histories.block(*part), request, threads=1):
                for items, scores, count in zip(block.items, block.scores, block.counts, strict=True):
                    user = histories.block(len(lists), len(lists) + 1)
                    items, scores = items[:count], scores[:count]
                    if quotas is not None:
                        rank = functools.partial(self._ranked, user, exclude_seen)
                        items, scores = quotas.fill((items, scores), n, candidates, rank)
                    why = None
                    if reasons is not None:
                        context.check()
                        why = self._reasons(user, items, reasons)
                    lists.append(RankedList(items, scores, not len(user.indices), why))
        return lists

    def _ranked(self, user: Histories, exclude_seen: bool, candidates: NDArray[np.int32], depth: int) -> RankedItems:
        """The best of these candidates for one user."""
        request = RankingRequest(depth, candidates, exclude_seen)
        block = next(iter(self.model.ranked_blocks(user, request, threads=1)))
        return block.items[0, : block.counts[0]], block.scores[0, : block.counts[0]]

    def _candidates(
        self,
        mask: ItemMask | None,
        allow: NDArray[np.int32] | None,
        deny: NDArray[np.int32] | None,
        max_popularity: int | None,
    ) -> NDArray[np.int32]:
        if allow is None and deny is None and max_popularity is None:
            return self._all_candidates if mask is None else mask.candidates
        first = 0
        if max_popularity is not None:  # numbers are by falling popularity: the rare items are one range
            first = int(np.searchsorted(-self.catalogue.popularity, -max_popularity, side="left"))
        found = self.catalogue.candidates(allow, deny, first=first)
        return found if mask is None else found[mask.allowed[found]]

    def _reasons(self, user: Histories, items: NDArray[np.int32], largest: int) -> list[Reason]:
        found = self.model.explained(user, items)
        disliked = np.zeros(len(found.items), np.bool_)
        if user.dislikes is not None:
            disliked = ~np.isin(found.items, user.indices)
        # All items of the list at once, one in each column.
        order = np.argsort(-np.abs(found.parts), axis=0, kind="stable")
        shown, hidden = order[:largest], np.take_along_axis(found.parts, order[largest:], axis=0)
        parts = np.take_along_axis(found.parts, shown, axis=0)
        above, below = hidden > 0, hidden < 0
        sums = zip(
            *(each.sum(axis=0).tolist() for each in (hidden, above, hidden * above, below, hidden * below)),
            found.global_terms.tolist(),
            strict=True,
        )
        return [
            Reason(found.items[rows], disliked[rows], parts[:, k], len(hidden), total, (more, gain), (less, loss), rest)
            for k, (rows, (total, more, gain, less, loss, rest)) in enumerate(zip(shown.T, sums, strict=True))
        ]

    @functools.cached_property
    def curve(self) -> tuple[list[int], list[int]]:
        """The long tail: ranks from 1 and how many users chose the item there, evenly spread on a log scale."""
        popularity = self.catalogue.popularity
        ranks = np.unique(np.geomspace(1, len(popularity), _POINTS).round().astype(np.int64))
        return ranks.tolist(), popularity[ranks - 1].astype(np.int64).tolist()

    def about(self) -> dict[str, Any]:
        """What the service says of the model."""
        catalogue, settings = self.catalogue, self.model.get_params()
        return {
            "model": self.model.text,
            "version": self.version,
            "loaded_at": self.loaded,
            "users": len(catalogue.users),
            "items": len(catalogue.items),
            "interactions": len(catalogue.histories.indices),
            "named_items": self.names.known,
            "example_item": text_of(catalogue.items[int(catalogue.order[0])]),
            "uses_weights": self.model.uses_weights and settings.get("weighting") != "none",
            "half_life": settings.get("half_life"),
            "dislikes_weight": settings.get("dislikes_weight", 0.0),
        }
