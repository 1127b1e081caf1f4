"""Ranking many people when the item-item matrix is too large to hold: strip by strip, each strip read by everybody.

Two passes over K. In the first every row that somebody has is counted once, and what people need of it is put aside:
the small matrix of each person's own problem, and K between their items and their targets. Then the problems are
solved. In the second pass K comes in strips of columns; each person's scores of a strip go into their running list, and
the strip is forgotten. Where not all the people fit the memory at once they come in groups, each with its own passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd.engine.histories import Histories
from komd.engine.ranking import RankedBlock, RankingRequest
from komd.matrix.item_matrix import ItemMatrix
from komd.matrix.low_rank import UpdatedMatrix
from komd.matrix.streamed import StreamedMatrix
from komd.matrix.strip_builder import Strip
from komd.memory import budget, resident
from komd.progress import progress

if TYPE_CHECKING:
    from komd.engine.kernel_based import FromCounts

__all__ = ["is_streamed", "rank_streamed", "room_for", "score_streamed"]

Streamed = StreamedMatrix | UpdatedMatrix

_LEAST_ROOM = 96 << 20  # bytes to work with, whatever the budget: less would take for ever
_STRIP_SHARE, _PEOPLE_SHARE = 0.3, 0.5  # of that room
_LARGEST_STRIP = 1 << 31  # bytes; more makes hardly anything faster
_TOGETHER = 256  # people whom a thread works through in one go


def room_for(memory: str | int | None) -> int:
    """Bytes that may still be used: the budget less what the process has already, or the budget of what is free."""
    return max(_LEAST_ROOM, budget(memory) - (resident() if memory is not None else 0))


def is_streamed(matrix: ItemMatrix) -> TypeGuard[Streamed]:
    """Whether a matrix is one to be read in strips."""
    return matrix.storage == "streamed"


def rank_streamed(
    model: FromCounts,
    matrix: Streamed,
    rows: Histories,
    question: RankingRequest,
    *,
    threads: int | None,
    memory: str | int | None,
    label: str,
) -> Iterator[RankedBlock]:
    """The answers for all people, group after group."""
    room, groups = _groups(model, matrix, rows, question, memory)
    strip_room = min(int(_STRIP_SHARE * room), _LARGEST_STRIP)
    with progress(label, len(rows)) as advance:
        for first, last in groups:
            yield _Group(model, matrix, rows.block(first, last), question, first, threads).ranked(strip_room, advance)


def score_streamed(
    model: FromCounts,
    matrix: Streamed,
    rows: Histories,
    targets: Histories,
    *,
    threads: int | None,
    memory: str | int | None,
    label: str,
) -> NDArray[np.float64]:
    """The scores of each user's targets, to the last bit as ranking has them: the first pass alone."""
    question = RankingRequest(0, np.zeros(0, np.int32), targets=targets)
    found = [np.zeros(0)]
    with progress(label, len(rows)) as advance:
        for first, last in _groups(model, matrix, rows, question, memory)[1]:
            found.append(_Group(model, matrix, rows.block(first, last), question, first, threads).target_scores)
            advance(last - first)
    return np.concatenate(found)


def _groups(
    model: FromCounts, matrix: Streamed, rows: Histories, question: RankingRequest, memory: str | int | None
) -> tuple[int, list[tuple[int, int]]]:
    """The room there is, and the users cut into groups that fit it."""
    matrix.prepare()  # before the rest of the room is shared out
    room = room_for(memory)
    tested = question.targets.lengths if question.targets is not None else np.zeros(len(rows), np.int64)
    kept = rows.lengths if model._needs_squares else np.zeros(len(rows), np.int64)
    standing = 4 * matrix.W.shape[1] if isinstance(matrix, UpdatedMatrix) else 0
    sizes = 4 * rows.lengths * (kept + tested) + 12 * min(question.n, len(question.candidates)) + standing + 64
    if rows.seen is not None and question.n:  # both are joined to one mask
        sizes += 24 * (rows.lengths + rows.seen.lengths)
    return room, pool.even_blocks(sizes.astype(np.int64), max(1, int(_PEOPLE_SHARE * room)))


class _Group:
    """People who are ranked together."""

    def __init__(
        self,
        model: FromCounts,
        matrix: Streamed,
        people: Histories,
        question: RankingRequest,
        first: int,
        threads: int | None,
    ) -> None:
        self._model, self._matrix, self._people = model, matrix, people
        self._question, self._threads = question, threads
        targets = question.targets
        self._targets = targets.block(first, first + len(people)) if targets is not None else None
        self._popular = model.catalogue.popularity
        self._standing = np.zeros((len(people), 0), np.float32)  # among the factors of a filter
        self._weights, self._offsets, self.target_scores = self._first_pass()
        self._tested = np.zeros(0)

    def _first_pass(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Weights, offsets, and the scores of the targets."""
        from komd._core.gather import score_targets

        model, people, targets = self._model, self._people, self._targets
        squares = model._needs_squares
        if not squares and targets is None:
            return (*model._weigh(people), np.zeros(0))
        wanted = _joined(people, targets) if squares and targets is not None else (people if squares else targets)
        assert wanted is not None
        blocks, starts = self._matrix.gather(
            people.indptr, people.indices, wanted.indptr, wanted.indices, threads=self._threads
        )
        if squares:
            weights, offsets = model._weigh_gathered(people, blocks, starts, self._threads)
        else:
            weights, offsets = model._weigh(people)
        updated = self._matrix if isinstance(self._matrix, UpdatedMatrix) else None
        if updated:
            self._standing = updated.projected(people.indptr, people.indices, weights)
        if targets is None:
            return weights, offsets, np.zeros(0)
        tested = np.empty(len(targets.indices))
        score_targets(
            blocks,
            starts,
            squares,
            model._S,
            people.indptr,
            weights,
            offsets,
            targets.indptr,
            targets.indices,
            tested,
        )
        if updated:
            updated.take_targets(self._standing, targets.indptr, targets.indices, tested)
        without = np.repeat(people.lengths == 0, targets.lengths)
        tested[without] = self._popular[targets.indices[without]]
        return weights, offsets, tested

    @cached_property
    def _known(self) -> Histories:
        """The items that are masked."""
        return self._people.known_items

    def ranked(self, room: int, advance: Callable[[float], None]) -> RankedBlock:
        """The second pass."""
        from komd._core.auc import LOWEST
        from komd._core.top_n import sort_top

        people, targets, question = self._people, self._targets, self._question
        size, n = len(people), min(question.n, len(question.candidates))
        found = RankedBlock(
            np.empty((size, n), np.int32), np.empty((size, n)), np.zeros(size, np.int64), np.zeros(size)
        )
        if targets is not None:  # ascending for each person, items that nobody chose below all others
            owner, chosen = np.repeat(np.arange(size), targets.lengths), self._model.catalogue.chosen
            tested = np.where(targets.indices < chosen, self.target_scores, LOWEST)
            self._tested = tested[np.lexsort((tested, owner))]
        seen, met = self._known.indptr[:-1].copy(), (targets or people).indptr[:-1].copy()
        pieces = pool.blocks(size, _TOGETHER)
        for strip in self._matrix.strips(np.unique(people.indices), room=room, threads=self._threads):
            work = partial(self._use, strip, found, seen, met)
            pool.for_each(work, pieces, threads=self._threads)
            advance(size * (strip.last - strip.first) / self._matrix.items)
        if n:
            sort_top(found.items, found.scores, found.counts)
        if targets is None or found.areas is None:
            return replace(found, areas=None)
        others = self._matrix.items - self._known.lengths - targets.lengths
        with np.errstate(invalid="ignore", divide="ignore"):
            return replace(found, areas=found.areas / (targets.lengths * others))

    def _use(
        self, strip: Strip, found: RankedBlock, seen: NDArray[np.int64], met: NDArray[np.int64], block: tuple[int, int]
    ) -> None:
        """Add a strip to what was found for a block of people; `areas` collects the pairs in the right order.

        `seen` and `met` say how far the items each user knows, and their targets, have been used.
        """
        from komd._core.rank_strip import use_strip

        question, targets = self._question, self._targets
        a, b = block
        first, last = strip.first, strip.last
        low, high = np.searchsorted(question.candidates, [first, last])
        taken = np.zeros((0, 0), np.float32)
        if isinstance(self._matrix, UpdatedMatrix):
            taken = self._matrix.taken(self._standing[a:b], first, last)
        use_strip(
            strip.row_of,
            strip.places,
            strip.columns,
            strip.values,
            first,
            self._model._S[first:last],
            self._popular[first:last],
            self._people.indptr[a : b + 1],
            self._people.indices,
            self._weights,
            self._offsets[a:b],
            taken,
            self._known.indptr[a : b + 1],
            self._known.indices,
            question.exclude_seen,
            seen[a:b],
            question.candidates[low:high],
            found.items[a:b],
            found.scores[a:b],
            found.counts[a:b],
            targets.indptr[a : b + 1] if targets is not None else np.zeros(0, np.int64),
            targets.indices if targets is not None else np.zeros(0, np.int32),
            met[a:b],
            self._tested,
            question.tie,
            self._model.catalogue.chosen,
            found.areas[a:b] if found.areas is not None else np.zeros(0),
            np.empty((1, last - first)),
        )


def _joined(people: Histories, targets: Histories) -> Histories:
    """Each person's items, then their targets (not in order: only to be gathered)."""
    lengths = people.lengths + targets.lengths
    indptr = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=indptr[1:])
    indices = np.empty(indptr[-1], np.int32)
    for rows, start in ((people, indptr[:-1]), (targets, indptr[:-1] + people.lengths)):
        place = np.arange(len(rows.indices)) + np.repeat(start - rows.indptr[:-1], rows.lengths)
        indices[place] = rows.indices
    return Histories(indptr, indices)
