"""A matrix with a low-rank correction that is never written out: base − W W', the base held sparse or streamed.

What a low-rank filter subtracts and a prior adds (docs/guide/maths.md) are sums over a few factors. The base itself is
scored, gathered and read in strips by its own methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd._core.groups import OwnEntries, Rows, StoredMatrix, WeightedUsers
from komd.matrix.item_matrix import (
    Advance,
    Arrays,
    BlockSums,
    Correction,
    Gathered,
    ItemMatrix,
    Strip,
    Vectors,
    fitted_parts,
)
from komd.matrix.storage import Plan

__all__ = ["LowRankMatrix", "subtract_signed"]

_TOGETHER = 64  # users whose entries are corrected by a thread at a time
_FEWEST, _MOST, _SCORES = 16, 64, 24 << 20  # users for whom W is read once, within limits, and bytes of their scores

Number = TypeVar("Number", np.float32, np.float64)


class LowRankMatrix(ItemMatrix):
    """base − W W', never computed as one array; the base is already multiplied by the factor of the correction."""

    def __init__(self, base: ItemMatrix, by: Correction) -> None:
        self.base, self.by = base, by._replace(W=np.ascontiguousarray(by.W))
        self.W, self.added, _, self.truncation = self.by
        self.storage, self.recomputed = base.storage, base.recomputed
        self.users_together = max(base.users_together, _FEWEST, min(_MOST, _SCORES // (8 * max(base.items, 1))))

    @property
    def items(self) -> int:
        return self.base.items

    @property
    def bytes(self) -> int:
        return self.base.bytes + self.W.nbytes

    @property
    def nonzeros(self) -> int:
        """Those of the base: W W' is never computed as an array."""
        return self.base.nonzeros

    @property
    def plan(self) -> Plan:
        plan = self.base.plan
        return replace(plan, bytes=self.bytes) if plan.exact else plan

    @property
    def row_work(self) -> float:
        return self.base.row_work

    def row(self, item: int) -> NDArray[np.float32]:
        out = self.base.row(item).copy()
        subtract_signed(self.W[item : item + 1], self.W, self.added, out[None])
        return out

    def entries(self, rows: NDArray[np.int32], columns: NDArray[np.int32]) -> NDArray[np.float32]:
        out = self.base.entries(rows, columns)
        subtract_signed(self.W[rows], self.W[columns], self.added, out)
        return out

    def diagonal(self) -> NDArray[np.float32]:
        out: NDArray[np.float32] = self.base.diagonal() - (_signed(self.W, self.added) * self.W).sum(axis=1)
        return out

    def sums(self, threads: int | None = None, block_sums: BlockSums | None = None) -> NDArray[np.float64]:
        from komd._core.factor_products import project

        # Not by BLAS, whose sums depend on the processor: Σ_k W_ik t_k is summed factor by factor.
        totals, single = np.empty(self.W.shape[1]), np.empty((1, self.W.shape[1]), np.float32)
        every_item = Rows(np.array([0, self.items]), np.arange(self.items, dtype=np.int32))
        project(self.W, every_item, np.ones(self.items), totals, single)
        correction = np.zeros(self.items)
        for factor, total in zip(self.W.T, _signed(totals, self.added).tolist(), strict=True):
            correction += factor.astype(np.float64) * total
        out: NDArray[np.float64] = self.base.sums(threads, block_sums) - correction
        return out

    def sums_of(self, block: tuple[int, int]) -> NDArray[np.float64]:
        return self.base.sums_of(block)

    def multiply(self, X: Vectors, *, threads: int | None = None, advance: Advance | None = None) -> Vectors:
        out = self.base.multiply(X, threads=threads, advance=advance)
        out -= _signed(self.W, self.added) @ (self.W.T @ X)
        return out

    def score(self, users: WeightedUsers, S: NDArray[np.float64], scores: NDArray[np.float64]) -> None:
        from komd._core.factor_products import subtract_products

        self.base.score(users, S, scores)
        subtract_products(self._projected(Rows(users.indptr, users.indices), users.weights), self.W, scores)

    @property
    def stored(self) -> StoredMatrix:
        return self.base.stored

    def own_entries(self, rows: Rows) -> OwnEntries:
        return self._own_corrected(self.base.own_entries(rows), rows, None)

    def contributions(
        self, rows: Rows, weights: NDArray[np.float64], items: NDArray[np.int32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        similarities, parts = super().contributions(rows, weights, items)
        scores = weights @ self.base.entries(rows.indices, items)
        self._subtract(self._projected(rows, weights), Rows(np.array([0, len(items)]), items), scores)
        return similarities, fitted_parts(parts, scores)

    def in_memory(
        self, items: NDArray[np.int32], room: Callable[[], int] | None = None, threads: int | None = None
    ) -> LowRankMatrix | None:
        base = self.base.in_memory(items, room, threads)
        return None if base is None else LowRankMatrix(base, self.by)

    def gathered_bytes(self, lengths: NDArray[np.int64], targets: NDArray[np.int64], own: bool) -> NDArray[np.int64]:
        out: NDArray[np.int64] = self.base.gathered_bytes(lengths, targets, own) + 4 * self.W.shape[1]
        return out

    def gather(self, rows: Rows, targets: Rows | None, *, own: bool, threads: int | None = None) -> Gathered:
        """The entries of the base; those between own items are corrected here, those of targets in `target_scores`."""
        found = self.base.gather(rows, targets, own=own, threads=threads)
        return found._replace(own=self._own_corrected(found.own, rows, threads)) if own else found

    def target_scores(
        self, found: Gathered, users: WeightedUsers, targets: Rows, S: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        scores = self.base.target_scores(found, users, targets, S)
        self._subtract(self._projected(Rows(users.indptr, users.indices), users.weights), targets, scores)
        return scores

    def strips(self, users: WeightedUsers, *, room: int = 1 << 29, threads: int | None = None) -> Iterator[Strip]:
        projected = self._projected(Rows(users.indptr, users.indices), users.weights)
        for strip in self.base.strips(users, room=room, threads=threads):
            W = self.W[strip.first : strip.last]
            yield replace(strip, correction=partial(_products_of, projected, W))

    @property
    def uncorrected(self) -> ItemMatrix:
        return self.base

    def scaled(self, factors: NDArray[np.float64], threads: int | None = None) -> LowRankMatrix:
        W = self.W * factors.astype(np.float32)[:, None]
        return LowRankMatrix(self.base.scaled(factors, threads), self.by._replace(W=W))

    def corrected(self, by: Correction, *, in_place: bool = False, threads: int | None = None) -> LowRankMatrix:
        first = self if by.factor == 1.0 else self.scaled(np.full(self.items, np.sqrt(by.factor)), threads)
        (A, B), (a, b) = (first.W, by.W), (first.W.shape[1] - self.added, by.W.shape[1] - by.added)
        W = np.hstack([A[:, :a], B[:, :b], A[:, a:], B[:, b:]])
        factor, truncation = self.by.factor * by.factor, by.truncation or self.truncation
        return LowRankMatrix(first.base, Correction(W, self.added + by.added, factor, truncation))

    def arrays(self) -> Arrays:
        """The factors of the filter come first, those that it adds included; a prior is the last one."""
        out, filtered = self.base.arrays(), 0
        if self.truncation:
            filtered = self.W.shape[1] - self.added + self.truncation.added
            factors = {"filter": self.W[:, :filtered], "filter_scale": np.array([self.by.factor])}
            out |= self.truncation.arrays() | factors
        return out | ({"prior": self.W[:, filtered]} if filtered < self.W.shape[1] else {})

    def _own_corrected(self, own: OwnEntries, rows: Rows, threads: int | None) -> OwnEntries:
        """Own entries of the base with the correction: applied now to gathered ones, later to others."""
        from komd._core.factor_products import subtract_squares

        def part(block: tuple[int, int]) -> None:
            a, b = block
            some = Rows(rows.indptr[a : b + 1], rows.indices)
            subtract_squares(self.W, self.added, some, own.starts[a : b + 1], own.blocks)

        if own.blocks.size:
            pool.for_each(part, pool.blocks(len(rows.indptr) - 1, _TOGETHER), threads=threads)
        return own._replace(W=self.W, added=self.added)

    def _projected(self, rows: Rows, weights: NDArray[np.float64]) -> NDArray[np.float32]:
        """W'w of each user with these weights, a row each, negated for the factors that are added."""
        from komd._core.factor_products import project

        out = np.empty((len(rows.indptr) - 1, self.W.shape[1]), np.float32)
        project(self.W, rows, weights, np.empty(self.W.shape[1]), out)
        return _signed(out, self.added)

    def _subtract(self, projected: NDArray[np.float32], targets: Rows, scores: NDArray[np.float64]) -> None:
        from komd._core.factor_products import subtract_targets

        subtract_targets(self.W, projected, targets, scores)


def subtract_signed(A: NDArray[np.float32], B: NDArray[np.float32], added: int, out: NDArray[np.float32]) -> None:
    """Subtract A B' from `out`, the last `added` factors added instead.

    Each product has the same bits whatever other rows there are; with BLAS, it would depend on the shapes.
    """
    from komd._core.factor_products import subtract_products

    subtract_products(_signed(A, added), B, out)


def _products_of(A: NDArray[np.float32], B: NDArray[np.float32], first: int, last: int) -> NDArray[np.float32]:
    """A B' of the users first..last: all factors are added, to zeros."""
    out = np.zeros((last - first, len(B)), np.float32)
    subtract_signed(A[first:last], B, A.shape[1], out)
    return out


def _signed(factors: NDArray[Number], added: int) -> NDArray[Number]:
    """Factors (in the last axis), the last `added` of them negated."""
    if not added:
        return factors
    out = factors.copy()
    out[..., -added:] *= -1
    return out
