"""Matrices of counts for tests, from dense or compressed choices."""

from __future__ import annotations

from komd._core.groups import Rows
from komd.kernels.entries import KernelEntries
from komd.matrix.from_counts import matrix_from_counts


def held(kernel, indptr, indices, items, storage="dense", *, threads=None, **options):
    """K of users' compressed rows in this storage."""
    rows = Rows(indptr, indices)
    return matrix_from_counts(KernelEntries.of(kernel, rows, items, **options), rows, storage, threads)
