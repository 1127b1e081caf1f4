"""Ranking many users where the item-item matrix is too large to hold: strip by strip, each strip read by all users.

There are two passes over the matrix. The first gathers the entries that users need: those between their own items, for
the problem that gives their weights, and those between these and their targets. The second reads the matrix in strips
of columns: each user's scores of a strip are merged into the user's list, and the next strip overwrites the scores. If
not all users fit the memory at once, they are ranked in groups, each with its own two passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd._core.groups import Rows, TieRule, WeightedUsers
from komd.engine.histories import Histories
from komd.engine.ranking import RankedBlock, RankingRequest
from komd.matrix.item_matrix import Strip
from komd.memory import budget, resident
from komd.progress import progress

if TYPE_CHECKING:
    from komd.engine.item_based import ItemBased

__all__ = ["rank_streamed", "room_for", "score_streamed"]

_LEAST_ROOM = 96 << 20  # bytes that are used whatever the budget: with less, it would take too long
_STRIP_SHARE, _USERS_SHARE = 0.3, 0.5  # of the memory that may be used
_LARGEST_STRIP = 5 << 27  # bytes; a larger strip is hardly faster
_FEWEST, _MOST, _SHARES = 256, 16384, 4  # users that a thread ranks at a time: a quarter of its users, within limits
_CORRECTIONS = 32 << 20  # bytes of the low-rank correction of their scores


def room_for(memory: str | int | None) -> int:
    """Bytes that may still be used: the given budget less the memory of the process, or the default budget."""
    return max(_LEAST_ROOM, budget(memory) - (resident() if memory is not None else 0))


def rank_streamed(
    model: ItemBased,
    rows: Histories,
    request: RankingRequest,
    *,
    threads: int | None,
    memory: str | int | None,
    label: str,
) -> Iterator[RankedBlock]:
    """The answers for all users, group after group."""
    room = room_for(memory)
    strip_room = min(int(_STRIP_SHARE * room), _LARGEST_STRIP)
    with progress(label, len(rows)) as advance:
        for group in _groups(model, rows, request, room, threads):
            yield group.ranked(strip_room, advance)


def score_streamed(
    model: ItemBased,
    rows: Histories,
    targets: Histories,
    *,
    threads: int | None,
    memory: str | int | None,
    label: str,
) -> NDArray[np.float64]:
    """The scores of each user's targets, with the same bits as in ranking: the first pass alone."""
    request = RankingRequest(0, np.zeros(0, np.int32), targets=targets)
    found = [np.zeros(0)]
    with progress(label, len(rows)) as advance:
        for group in _groups(model, rows, request, room_for(memory), threads):
            found.append(group.target_scores)
            advance(len(group.histories))
    return np.concatenate(found)


def _groups(
    model: ItemBased, rows: Histories, request: RankingRequest, room: int, threads: int | None
) -> Iterator[_Group]:
    """The users divided into groups that fit the memory."""
    tested = request.targets.lengths if request.targets is not None else np.zeros(len(rows), np.int64)
    lengths = rows.lengths if rows.dislikes is None else rows.lengths + rows.dislikes.lengths
    sizes = model.matrix.gathered_bytes(lengths, tested, model.needs_own_entries) + 12 * request.length + 64
    if request.n:  # the items that users know become one mask
        for others in (rows.seen, rows.dislikes):
            if others is not None:
                sizes += 24 * (rows.lengths + others.lengths)
    for first, last in pool.even_blocks(sizes.astype(np.int64), max(1, int(_USERS_SHARE * room))):
        targets = None if request.targets is None else request.targets.block(first, last)
        yield _Group(model, rows.block(first, last), targets, request, threads)


@dataclass(eq=False)
class _Group:
    """Users who are ranked together."""

    model: ItemBased
    histories: Histories
    targets: Histories | None
    request: RankingRequest
    threads: int | None

    def __post_init__(self) -> None:
        """The first pass: weights, and the scores of the targets."""
        model, rows, targets = self.model, self.histories, self.targets
        tested = None if targets is None else targets.rows
        scored = model.scored_rows(rows)
        found = model.matrix.gather(scored.rows, tested, own=model.needs_own_entries, threads=self.threads)
        self.users = WeightedUsers(*scored.rows, *model.weigh(scored, found.own, self.threads))
        self.target_scores = np.zeros(0)
        if targets is not None:
            self.target_scores = model.matrix.target_scores(found, self.users, targets.rows, model.scored_S)
            if model.target_factors is not None:
                self.target_scores *= model.target_factors[targets.indices]
            without = np.repeat(rows.lengths == 0, targets.lengths)
            self.target_scores[without] = model.catalogue.popularity[targets.indices[without]]

    @cached_property
    def _known(self) -> Histories:
        """The items that are masked."""
        return self.histories.known_items

    @cached_property
    def _never(self) -> Rows:
        """The dislikes that are masked where the items that a user knows are not."""
        dislikes = self.histories.dislikes
        if self.request.exclude_seen or dislikes is None:
            return Rows(np.zeros(0, np.int64), np.zeros(0, np.int32))
        return dislikes.rows

    @cached_property
    def _scored_S(self) -> NDArray[np.float64]:
        return self.model.scored_S

    def ranked(self, room: int, advance: Callable[[float], None]) -> RankedBlock:
        """The second pass."""
        from komd._core.auc import ascending
        from komd._core.top_n import sort_top

        size, targets, items = len(self.histories), self.targets, self.model.matrix.items
        out, tested, places = RankedBlock.empty(size, self.request.length), np.zeros(0), np.zeros(0, np.int32)
        if targets is not None:
            owner, chosen = np.repeat(np.arange(size), targets.lengths), self.model.catalogue.chosen
            tested, places = ascending(self.target_scores, targets.indices, owner, chosen, self.request.ties)
        # How far the items each user knows, and their targets, have been used.
        cursors = (
            self._known.indptr[:-1].copy(),
            self._never.indptr[:-1].copy(),
            (targets or self.histories).indptr[:-1].copy(),
        )
        for strip in self.model.matrix.strips(self.users, room=room, threads=self.threads):
            work, share = partial(self._use, strip, out, (tested, places), *cursors), strip.last - strip.first
            for users in pool.run(work, self._blocks(strip), threads=self.threads):
                advance(users * share / items)
        if self.request.length:

            def sort(block: tuple[int, int]) -> None:
                sort_top(*(each[slice(*block)] for each in (out.items, out.scores, out.counts)))

            pool.for_each(sort, pool.blocks(size, _FEWEST), threads=self.threads)
        if targets is None or out.areas is None:
            return replace(out, areas=None)
        pairs = targets.lengths * (items - self._known.lengths - targets.lengths)
        with np.errstate(invalid="ignore", divide="ignore"):
            return replace(out, areas=(pairs - out.areas) / pairs)

    def _blocks(self, strip: Strip) -> list[tuple[int, int]]:
        """Blocks of users to be ranked together: large, because they share rows of the strip in the cache."""
        size = min(max(_FEWEST, -(-len(self.histories) // (_SHARES * pool.count(self.threads)))), _MOST)
        if strip.correction is not None:
            size = min(size, _CORRECTIONS // (4 * (strip.last - strip.first)))
        return pool.blocks(len(self.histories), size)

    def _use(
        self,
        strip: Strip,
        out: RankedBlock,
        tested: tuple[NDArray[np.float64], NDArray[np.int32]],
        seen: NDArray[np.int64],
        disliked: NDArray[np.int64],
        met: NDArray[np.int64],
        block: tuple[int, int],
    ) -> int:
        """Merge a strip into the results of a block of users; `areas` collects the pairs in the wrong order.

        Returns the number of users.
        `tested`: the scores of the targets, ascending for each user, and their places in the tie rule.
        """
        from komd._core.rank_strip import ItemTerms, Lists, Masked, NeverListed, TargetPairs, rank_strip
        from komd._core.top_n import waiting_for

        (a, b), first, last = block, strip.first, strip.last
        request, catalogue, known = self.request, self.model.catalogue, self._known
        targets = self.targets or Histories(np.zeros(0, np.int64), np.zeros(0, np.int32))
        low, high = np.searchsorted(request.candidates, [first, last])
        users, factors = self.users, self.model.target_factors
        best = out.items[a:b], out.scores[a:b], out.counts[a:b]
        rank_strip(
            strip.arrays,
            first,
            ItemTerms(
                self._scored_S[first:last],
                np.zeros(0) if factors is None else factors[first:last],
                catalogue.popularity[first:last],
            ),
            WeightedUsers(users.indptr[a : b + 1], users.indices, users.weights, users.offsets[a:b]),
            strip.correction(a, b) if strip.correction else np.zeros((0, 0), np.float32),
            Masked(known.indptr[a : b + 1], known.indices, seen[a:b], request.exclude_seen),
            NeverListed(self._never.indptr[a : b + 1], self._never.indices, disliked[a:b]),
            Lists(request.candidates[low:high], *best, waiting_for(best[1], best[2])),
            TargetPairs(
                targets.indptr[a : b + 1],
                targets.indices,
                met[a:b],
                *tested,
                TieRule(request.ties.share, request.ties.places[first:last]),
                catalogue.chosen,
                np.zeros(0) if out.areas is None else out.areas[a:b],
            ),
        )
        return b - a
