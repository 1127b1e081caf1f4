"""An item-item matrix: the one interface for scoring, solving, ranking and saving.

Dense, sparse, streamed and low-rank-corrected matrices have the same methods, and where their entries are equal, the
results have the same bits. Callers never ask which kind a matrix is, only whether the rows that they need fit the
memory (`in_memory`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd._core.groups import OwnEntries, Rows, StoredMatrix, StripArrays, WeightedUsers
from komd.errors import ModelFileError
from komd.matrix.storage import Plan
from komd.rows import pointers

if TYPE_CHECKING:
    from komd.matrix.renewal import Renewal

__all__ = [
    "NOTHING_STORED",
    "Advance",
    "Arrays",
    "BlockSums",
    "Correction",
    "Gathered",
    "ItemMatrix",
    "Strip",
    "Truncation",
    "Vectors",
    "fitted_parts",
    "largest_of",
    "multiplied",
]

Advance: TypeAlias = Callable[[float], None]
Arrays: TypeAlias = dict[str, NDArray[np.generic]]
Vectors: TypeAlias = NDArray[np.float32]
BlockSums: TypeAlias = Callable[[list[tuple[int, int]]], Iterable[NDArray[np.float64]]]
"""The sums of the rows of a streamed matrix, for blocks (first, last) of rows, in their order."""

NOTHING_STORED = StoredMatrix(
    np.zeros((0, 0), np.float32),
    np.zeros(1, np.int64),
    np.zeros(0, np.int32),
    np.zeros(0, np.float32),
)
_NO_BLOCKS = np.zeros(0, np.float32), np.zeros(1, np.int64), np.zeros((0, 0), np.float32)


@dataclass(frozen=True)
class Truncation:
    """The accuracy of a low-rank filter: how many eigenvalues were kept, the smallest of them, the error of an entry.

    The error bounds the difference to the exact filter, both at a mean diagonal of 1 (docs/guide/maths.md, "Error").
    With a head there is none: the filter is defined by these eigenvectors. `added` of its factors are then added.
    """

    rank: int
    last: float
    error: float | None
    added: int = 0

    def __str__(self) -> str:
        error = "" if self.error is None else f", entries within {self.error:.2g}"
        return f"filter of rank {self.rank}, eigenvalues down to {self.last:.3g}{error}"

    def arrays(self) -> Arrays:
        """The array to save; `from_arrays` restores it."""
        facts = (0.0, self.added) if self.error is None else (self.error,)  # four numbers mean a head, and no error
        return {"truncation": np.array([self.rank, self.last, *facts])}

    @staticmethod
    def from_arrays(arrays: Arrays) -> Truncation | None:
        """The truncation that was saved, or None."""
        if "truncation" not in arrays:
            return None
        facts = arrays["truncation"]
        if facts.shape not in ((3,), (4,)) or facts.dtype != np.float64 or not np.isfinite(facts).all():
            raise ModelFileError("what was saved of the filter is not three or four numbers; save the model again")
        rank, last, error, *added = facts.tolist()
        return Truncation(int(rank), last, None if added else error, *map(int, added))


class Correction(NamedTuple):
    """M becomes factor · M − W W', the last `added` columns of W added instead of subtracted.

    `truncation` is the accuracy of the resulting filter.
    """

    W: NDArray[np.float32]
    added: int = 0
    factor: float = 1.0
    truncation: Truncation | None = None


class Gathered(NamedTuple):
    """Entries of M gathered for users: between their own items, and between these and their targets.

    `blocks` and `starts` are as `score_targets` takes them; `skip` says whether own entries come before those of
    targets.
    """

    own: OwnEntries
    blocks: NDArray[np.float32]
    starts: NDArray[np.int64]
    skip: bool


@dataclass(frozen=True, eq=False)
class Strip:
    """Columns first..last of the rows that some users need, and the correction to subtract from their scores."""

    first: int
    last: int
    arrays: StripArrays
    correction: Callable[[int, int], NDArray[np.float32]] | None = None
    """The correction for users a..b: users × columns."""


class ItemMatrix(ABC):
    """M[i, j], float32: how much item i of a history counts for item j."""

    storage: str
    truncation: Truncation | None = None
    """The accuracy of a low-rank filter; None for other matrices."""
    users_together = 1
    """How many users a block of scores should have at least."""

    @property
    @abstractmethod
    def items(self) -> int:
        """The number of rows and of columns."""

    @property
    @abstractmethod
    def bytes(self) -> int:
        """The memory it takes."""

    @property
    @abstractmethod
    def nonzeros(self) -> int:
        """How many entries are not zero."""

    @property
    def plan(self) -> Plan:
        """How the matrix is held, how full it is, and the memory it takes."""
        return Plan(self.storage, self.items, self.nonzeros / self.items**2, self.bytes, exact=True)

    @property
    def row_work(self) -> float:
        """Approximate time to use a row, in units of one entry of a dense row."""
        return float(self.items)

    # ---- entries --------------------------------------------------------------------------------------------------

    @abstractmethod
    def row(self, item: int) -> NDArray[np.float32]:
        """One row, dense."""

    @abstractmethod
    def entries(self, rows: NDArray[np.int32], columns: NDArray[np.int32]) -> NDArray[np.float32]:
        """M between these rows and these columns (rows × columns)."""

    @abstractmethod
    def diagonal(self) -> NDArray[np.float32]:
        """M[i, i]."""

    @abstractmethod
    def sums(self, threads: int | None = None, block_sums: BlockSums | None = None) -> NDArray[np.float64]:
        """S_i = Σ_j M[i, j]. If all of a streamed matrix must be computed for that, `block_sums`, if given, does so.

        Entries are rounded to multiples of one power of two and summed as integers: the same sums in any order.
        """

    def sums_after(
        self,
        before: ItemMatrix,
        S: NDArray[np.float64],
        source: NDArray[np.int32],
        changed: NDArray[np.bool_],
        threads: int | None = None,
    ) -> NDArray[np.float64]:
        """`sums` after an update of the matrix `before`, whose sums were S; `source` and `changed` as in `Renewal`."""
        return self.sums(threads)

    def sums_of(self, block: tuple[int, int]) -> NDArray[np.float64]:
        """S_i of a block of rows, for `block_sums`: without a low-rank correction."""
        return self.sums()[slice(*block)]

    @abstractmethod
    def multiply(self, X: Vectors, *, threads: int | None = None, advance: Advance | None = None) -> Vectors:
        """M X; `advance` is called with the number of rows that are done."""

    # ---- scoring --------------------------------------------------------------------------------------------------

    @abstractmethod
    def score(self, users: WeightedUsers, S: NDArray[np.float64], scores: NDArray[np.float64]) -> None:
        """scores[u, j] = Σ_i w_i M[i, j] − b_u S_j, the sum over u's items."""

    @cached_property
    def stored(self) -> StoredMatrix:
        """The arrays that compiled code reads, without a correction; empty if the matrix is not in memory."""
        return NOTHING_STORED

    def own_entries(self, rows: Rows) -> OwnEntries:
        """M between each user's own items."""
        return OwnEntries(self.stored, *_NO_BLOCKS)

    def contributions(
        self, rows: Rows, weights: NDArray[np.float64], items: NDArray[np.int32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """M between one user's items and these (history × items), and the contributions to their scores."""
        similarities = self.entries(rows.indices, items)
        return similarities, weights[:, None] * similarities

    # ---- many users, and more rows than fit the memory ------------------------------------------------------------

    recomputed = False
    """Whether the matrix is computed again whenever it is read."""

    def in_memory(
        self, items: NDArray[np.int32], room: Callable[[], int] | None = None, threads: int | None = None
    ) -> ItemMatrix | None:
        """A matrix in memory with the rows of these items; None if computing them takes more than `room()` bytes."""
        return self

    def gathered_bytes(self, lengths: NDArray[np.int64], targets: NDArray[np.int64], own: bool) -> NDArray[np.int64]:
        """The memory that `gather` and `strips` take for each user with so many items and targets."""
        return 4 * lengths * targets

    def gather(self, rows: Rows, targets: Rows | None, *, own: bool, threads: int | None = None) -> Gathered:
        """Entries between users' own items, if `own`, and between these and the users' targets, in one pass."""
        lengths = np.diff(rows.indptr)
        widths = np.diff(targets.indptr) if targets is not None else np.zeros(len(lengths), np.int64)
        starts = pointers(lengths * widths)
        blocks = np.empty(starts[-1], np.float32)

        def part(u: int) -> None:
            if targets is not None and starts[u] < starts[u + 1]:
                mine, wanted = (each.indices[each.indptr[u] : each.indptr[u + 1]] for each in (rows, targets))
                blocks[starts[u] : starts[u + 1]] = self.entries(mine, wanted).ravel()

        pool.for_each(part, range(len(lengths)), threads=threads)
        return Gathered(self.own_entries(rows), blocks, starts, skip=False)

    def target_scores(
        self, found: Gathered, users: WeightedUsers, targets: Rows, S: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """The scores of each user's targets, from what was gathered: the same bits as those of `score`."""
        from komd._core.scoring import score_targets

        out = np.empty(len(targets.indices))
        score_targets(found.blocks, found.starts, found.skip, S, users, targets.indptr, targets.indices, out)
        return out

    def strips(self, users: WeightedUsers, *, room: int = 1 << 29, threads: int | None = None) -> Iterator[Strip]:
        """The rows of these users' items in strips of columns, ascending, of at most `room` bytes.

        A strip is overwritten by the next. The sums over its rows less its `correction` are the users' scores.
        """
        from komd._core.strip_counting import DENSE, TILE

        rows = np.unique(users.indices)
        row_of, places = np.full(self.items, -1, np.int32), np.full((1, len(rows), 2), DENSE, np.uint32)
        row_of[rows] = places[0, :, 0] = np.arange(len(rows))
        nothing = np.zeros(0, np.uint16), np.zeros(0, np.float32)
        for first, last in pool.blocks(self.items, min(TILE, room // (4 * max(len(rows), 1)))):
            dense = np.ascontiguousarray(self.entries(rows, np.arange(first, last, dtype=np.int32)))[None]
            yield Strip(first, last, StripArrays(row_of, places, *nothing, dense))

    # ---- stages and files -----------------------------------------------------------------------------------------

    @property
    def uncorrected(self) -> ItemMatrix:
        """The matrix without its low-rank correction, if it has one that is not written out."""
        return self

    @property
    def pairs_by_item(self) -> Rows | None:
        """Each item's users, ascending, if the matrix holds them."""
        return None

    @property
    def held_alone(self) -> bool:
        """Whether nothing but this matrix refers to its arrays, so that they can be changed in place."""
        return False

    def renewed(self, by: Renewal, threads: int | None = None, *, in_place: bool = False) -> ItemMatrix:
        """This matrix of counts after an update, held in the same way.

        This matrix does not change, unless it may be changed `in_place`: then it must not be used any more. Errors are
        raised before anything is changed.
        """
        raise NotImplementedError(f"a {self.storage} matrix is built anew after an update")

    @abstractmethod
    def scaled(self, factors: NDArray[np.float64], threads: int | None = None) -> ItemMatrix:
        """Another matrix, with entry (i, j) multiplied by factors_i · factors_j."""

    @abstractmethod
    def corrected(self, by: Correction, *, in_place: bool = False, threads: int | None = None) -> ItemMatrix:
        """The matrix with this correction.

        A dense matrix applies it to its entries, with `in_place` in its own array; others keep it beside their entries.
        """

    @abstractmethod
    def arrays(self) -> Arrays:
        """The arrays to save, by name; `matrix/saved.py` restores them."""


def fitted_parts(parts: NDArray[np.float64], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Contributions (history × items) that sum to these scores: the rounding error is added to the largest one."""
    if len(parts):
        parts[np.abs(parts).argmax(axis=0), np.arange(len(scores))] += scores - parts.sum(axis=0)
    return parts


def multiplied(
    multiply: Callable[[tuple[int, int], Vectors], None],
    blocks: list[tuple[int, int]],
    X: Vectors,
    threads: int | None,
    advance: Advance | None,
) -> Vectors:
    """M X by blocks of rows: `multiply(block, out)` fills the rows of a block."""
    out = np.empty_like(X)

    def part(block: tuple[int, int]) -> int:
        multiply(block, out[slice(*block)])
        return block[1] - block[0]

    for done in pool.run(part, blocks, threads=threads):
        if advance:
            advance(done)
    return out


def largest_of(values: NDArray[np.float32]) -> float:
    """The largest absolute value; 0 if there is none."""
    from komd._core.exact_sums import largest_bits

    bits = largest_bits(np.ascontiguousarray(values).reshape(-1).view(np.int32))
    return float(np.int32(bits).view(np.float32))
