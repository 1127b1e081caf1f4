"""An item-item matrix, held dense or sparse: the only two shapes that scoring and solving know."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from komd.errors import ModelFileError

__all__ = ["BlockSums", "DenseMatrix", "ItemMatrix", "SparseMatrix", "Truncation"]

BlockSums: TypeAlias = Callable[[list[tuple[int, int]]], Iterable[NDArray[np.float64]]]
"""The sums of the rows of a streamed matrix, for blocks (first, last) of rows, in their order."""

_NO_ROWS = np.zeros((0, 0), np.float32)
_NO_POINTERS = np.zeros(1, np.int64)
_NO_INDICES = np.zeros(0, np.int32)
_NO_VALUES = np.zeros(0, np.float32)


@dataclass(frozen=True)
class Truncation:
    """How good a filter of low rank is: how many eigenvalues were kept, the least of them, and the error of an entry.

    The error bounds the difference to the exact filter, both at a mean diagonal of 1 (docs/guide/maths.md, "Error").
    """

    rank: int
    last: float
    error: float

    def __str__(self) -> str:
        return f"filter of rank {self.rank}, eigenvalues down to {self.last:.3g}, entries within {self.error:.2g}"

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The array to save; `from_arrays` takes it back."""
        return {"truncation": np.array([self.rank, self.last, self.error])}

    @staticmethod
    def from_arrays(arrays: dict[str, NDArray[np.generic]]) -> Truncation | None:
        """What was saved, if anything was."""
        if "truncation" not in arrays:
            return None
        facts = arrays["truncation"]
        if facts.shape != (3,) or facts.dtype != np.float64:
            raise ModelFileError("what was saved of the filter is not three numbers; save the model again")
        rank, last, error = facts.tolist()
        return Truncation(int(rank), last, error)


class ItemMatrix(ABC):
    """M[i, j], float32: what item i, being in a history, says for item j."""

    storage: str
    truncation: Truncation | None = None
    """Of a filter of low rank."""
    names: frozenset[str] = frozenset()
    """Of the arrays to save, a filter's and a prior's apart."""

    @property
    @abstractmethod
    def items(self) -> int:
        """The number of rows and of columns."""

    @property
    @abstractmethod
    def bytes(self) -> int:
        """What it weighs."""

    @property
    @abstractmethod
    def nonzeros(self) -> int:
        """How many entries are not zero."""

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
        """S_i = Σ_j M[i, j]. Where that takes computing all of a streamed matrix, `block_sums` may do so elsewhere."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The arrays to save, by name; `from_arrays` takes them back."""

    @abstractmethod
    def compiled_form(
        self,
    ) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
        """(dense, indptr, indices, values), the form not in use being empty: one signature for compiled code."""

    @staticmethod
    def from_arrays(arrays: dict[str, NDArray[np.generic]]) -> ItemMatrix:
        """The matrix whose `arrays()` these are."""
        if "matrix" in arrays:
            matrix = arrays["matrix"]
            if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.dtype != np.float32:
                raise ModelFileError("the saved matrix is not a square of float32; save the model again")
            return DenseMatrix(matrix, Truncation.from_arrays(arrays))  # type: ignore[arg-type]
        indptr, indices, values = (arrays[f"matrix_{name}"] for name in ("indptr", "indices", "values"))
        if indptr.dtype != np.int64 or indices.dtype != np.int32 or values.dtype != np.float32:
            raise ModelFileError("the saved sparse matrix has arrays of other types; save the model again")
        if len(indptr) < 1 or not indptr[-1] == len(indices) == len(values):
            raise ModelFileError("the saved sparse matrix does not fit together; save the model again")
        return SparseMatrix(
            indptr,  # type: ignore[arg-type]
            indices,  # type: ignore[arg-type]
            values,  # type: ignore[arg-type]
        )


@dataclass(frozen=True, eq=False)
class DenseMatrix(ItemMatrix):
    """Every entry."""

    values: NDArray[np.float32]
    truncation: Truncation | None = None
    storage = "dense"
    names = frozenset({"matrix"})

    @property
    def items(self) -> int:
        return int(self.values.shape[0])

    @property
    def bytes(self) -> int:
        return self.values.nbytes

    @property
    def nonzeros(self) -> int:
        return int(np.count_nonzero(self.values))

    def row(self, item: int) -> NDArray[np.float32]:
        out: NDArray[np.float32] = self.values[item]
        return out

    def entries(self, rows: NDArray[np.int32], columns: NDArray[np.int32]) -> NDArray[np.float32]:
        out: NDArray[np.float32] = self.values[np.ix_(rows, columns)]
        return out

    def diagonal(self) -> NDArray[np.float32]:
        out: NDArray[np.float32] = self.values.diagonal()
        return out

    def sums(self, threads: int | None = None, block_sums: BlockSums | None = None) -> NDArray[np.float64]:
        out: NDArray[np.float64] = self.values.sum(axis=1, dtype=np.float64)
        return out

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        return {"matrix": self.values} | (self.truncation.arrays() if self.truncation else {})

    def compiled_form(
        self,
    ) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
        return self.values, _NO_POINTERS, _NO_INDICES, _NO_VALUES


@dataclass(frozen=True, eq=False)
class SparseMatrix(ItemMatrix):
    """Compressed rows, columns ascending within each."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float32]
    storage = "sparse"
    names = frozenset({"matrix_indptr", "matrix_indices", "matrix_values"})

    @property
    def items(self) -> int:
        return len(self.indptr) - 1

    @property
    def bytes(self) -> int:
        return self.indptr.nbytes + self.indices.nbytes + self.values.nbytes

    @property
    def nonzeros(self) -> int:
        return int(np.count_nonzero(self.values))

    def row(self, item: int) -> NDArray[np.float32]:
        out = np.zeros(self.items, np.float32)
        inside = slice(self.indptr[item], self.indptr[item + 1])
        out[self.indices[inside]] = self.values[inside]
        return out

    def entries(self, rows: NDArray[np.int32], columns: NDArray[np.int32]) -> NDArray[np.float32]:
        out = np.zeros((len(rows), len(columns)), np.float32)
        for place, row in enumerate(rows):
            inside = slice(self.indptr[row], self.indptr[row + 1])
            names = self.indices[inside]
            at = np.searchsorted(names, columns)
            found = np.flatnonzero(at < len(names))
            found = found[names[at[found]] == columns[found]]
            out[place, found] = self.values[inside][at[found]]
        return out

    def diagonal(self) -> NDArray[np.float32]:
        out = np.zeros(self.items, np.float32)
        for item in range(self.items):
            start, end = self.indptr[item], self.indptr[item + 1]
            at = start + np.searchsorted(self.indices[start:end], item)
            if at < end and self.indices[at] == item:
                out[item] = self.values[at]
        return out

    def sums(self, threads: int | None = None, block_sums: BlockSums | None = None) -> NDArray[np.float64]:
        out = np.zeros(self.items)
        filled = np.flatnonzero(np.diff(self.indptr))
        if filled.size:
            out[filled] = np.add.reduceat(self.values, self.indptr[filled], dtype=np.float64)
        return out

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        return {"matrix_indptr": self.indptr, "matrix_indices": self.indices, "matrix_values": self.values}

    def compiled_form(
        self,
    ) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
        return _NO_ROWS, self.indptr, self.indices, self.values
