"""An item-item matrix held as an inverse between users, for far more items than users: items × items may not fit.

    B[i, j] = left_i · (X' Q X)[i, j] · right_j,   B[i, i] = 0

X holds the choices of the users who have two items or more, Q is a matrix between these users. `regression.py` derives
it for EASE. It is not symmetric, and models that need M between a user's own items do not use it.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd._core.groups import DualArrays, Rows, WeightedUsers
from komd.matrix.dense import DenseMatrix
from komd.matrix.item_matrix import Advance, Arrays, BlockSums, Correction, Gathered, ItemMatrix, Vectors, fitted_parts
from komd.matrix.low_rank import LowRankMatrix
from komd.matrix.storage import Plan
from komd.rows import pointers, transpose

__all__ = ["DualMatrix", "active_users"]

_ROWS = 64  # rows computed by a thread at a time


def active_users(rows: Rows, items: int) -> Rows:
    """The users of each item, only those who chose two items or more, numbered in their order."""
    lengths = np.diff(rows.indptr)
    active = lengths > 1
    return Rows(*transpose(pointers(lengths[active]), rows.indices[np.repeat(active, lengths)], items))


class DualMatrix(ItemMatrix):
    """B from Q and the users' choices; no array of items × items."""

    storage = "dual"

    def __init__(self, dual: DualArrays) -> None:
        self.dual = dual

    @property
    def items(self) -> int:
        return len(self.dual.left)

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for array in self.dual)

    @property
    def nonzeros(self) -> int:
        """The entries of Q, which replaces B in memory."""
        return int(np.count_nonzero(self.dual.Q))

    @property
    def plan(self) -> Plan:
        return Plan(self.storage, self.items, 1.0, self.bytes)

    def row(self, item: int) -> NDArray[np.float32]:
        out: NDArray[np.float32] = self._rows(np.array([item], np.int32))[0].astype(np.float32)
        return out

    def entries(self, rows: NDArray[np.int32], columns: NDArray[np.int32]) -> NDArray[np.float32]:
        out = np.empty((len(rows), len(columns)), np.float32)
        for first, last in pool.blocks(len(rows), _ROWS):
            out[first:last] = self._rows(rows[first:last])[:, columns]
        return out

    def _rows(self, items: NDArray[np.int32]) -> NDArray[np.float64]:
        """These rows of B: the scores of users who have one item each."""
        out, count = np.empty((len(items), self.items)), len(items)
        users = WeightedUsers(np.arange(count + 1), np.asarray(items, np.int32), np.ones(count), np.zeros(count))
        self.score(users, np.zeros(self.items), out)
        out[np.arange(count), items] = 0.0
        return out

    def written_out(self, threads: int | None = None) -> DenseMatrix:
        """The same matrix with every entry in memory."""
        values = np.empty((self.items, self.items), np.float32)

        def part(block: tuple[int, int]) -> None:
            values[slice(*block)] = self._rows(np.arange(*block, dtype=np.int32))

        pool.for_each(part, pool.blocks(self.items, _ROWS), threads=threads)
        return DenseMatrix(values)

    def diagonal(self) -> NDArray[np.float32]:
        return np.zeros(self.items, np.float32)

    def sums(self, threads: int | None = None, block_sums: BlockSums | None = None) -> NDArray[np.float64]:
        return self._times(np.ones((self.items, 1)))[:, 0]

    def multiply(self, X: Vectors, *, threads: int | None = None, advance: Advance | None = None) -> Vectors:
        out = self._times(X.astype(np.float64)).astype(np.float32)
        if advance:
            advance(self.items)
        return out

    def _times(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        left, right, own = (each[:, None] for each in (self.dual.left, self.dual.right, self.dual.own))
        out: NDArray[np.float64] = left * (self._users @ (self.dual.Q @ (self._users.T @ (right * X)))) - own * X
        return out

    @cached_property
    def _users(self) -> Any:
        """X' as a scipy matrix."""
        from scipy.sparse import csr_array

        values = np.ones(len(self.dual.users))
        return csr_array((values, self.dual.users, self.dual.indptr), shape=(self.items, len(self.dual.Q)))

    def score(self, users: WeightedUsers, S: NDArray[np.float64], scores: NDArray[np.float64]) -> None:
        from komd._core.dual_scores import dual_scratch, score_dual

        score_dual(self.dual, S, users, dual_scratch(len(self.dual.Q)), scores)

    def contributions(
        self, rows: Rows, weights: NDArray[np.float64], items: NDArray[np.int32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        similarities, parts = super().contributions(rows, weights, items)
        scores = np.empty((1, self.items))
        self.score(WeightedUsers(*rows, weights, np.zeros(1)), np.zeros(self.items), scores)
        return similarities, fitted_parts(parts, scores[0, items])

    def target_scores(
        self, found: Gathered, users: WeightedUsers, targets: Rows, S: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        out, line = np.empty(len(targets.indices)), np.empty((1, self.items))
        for u, offset in enumerate(users.offsets):
            a, b = users.indptr[u : u + 2]
            one = WeightedUsers(np.array([0, b - a]), users.indices[a:b], users.weights[a:b], np.array([offset]))
            self.score(one, S, line)
            wanted = slice(*targets.indptr[u : u + 2])
            out[wanted] = line[0, targets.indices[wanted]]
        return out

    def scaled(self, factors: NDArray[np.float64], threads: int | None = None) -> DualMatrix:
        left, right = self.dual.left * factors, self.dual.right * factors
        return DualMatrix(self.dual._replace(left=left, right=right, own=self.dual.own * factors**2))

    def corrected(self, by: Correction, *, in_place: bool = False, threads: int | None = None) -> LowRankMatrix:
        return LowRankMatrix(self.scaled(np.full(self.items, np.sqrt(by.factor))), by)

    def arrays(self) -> Arrays:
        """Without X, which are the histories of the model."""
        return {f"dual_{name}": getattr(self.dual, name) for name in ("Q", "left", "right", "own")}
