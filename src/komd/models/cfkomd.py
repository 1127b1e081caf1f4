"""CF-KOMD: each person's weights maximise the margin between what they chose and everything else (PAPER section 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from komd.errors import InputError, SolverError
from komd.kernels.dot_product import Kernel, kernel_named
from komd.kernels.gram import kernel_matrix
from komd.kernels.matrix import ItemMatrix
from komd.kernels.plan import plan
from komd.models.catalogue import Catalogue
from komd.models.histories import Histories
from komd.models.itembased import ItemBased
from komd.models.parameters import at_least, one_of

__all__ = ["CFKOMD", "Solution"]

_GATHERED = 4096  # longest history whose K_u is gathered whole: 134 MB of scratch a thread


@dataclass(frozen=True)
class Solution:
    """The answer to one person's convex problem.

    Attributes
    ----------
    items
        Ids of the items that carry weight variables.
    alpha
        Their weights: non-negative, summing to one (on each side, for CF-OMD).
    positive
        Which of them are in the history.
    gap
        The KKT gap reached: no item with weight has a (half) gradient more than this above the least.
    """

    items: list[Any]
    alpha: NDArray[np.float64]
    positive: NDArray[np.bool_]
    gap: float


class CFKOMD(ItemBased):
    """Kernel-based collaborative filtering by optimising the margin distribution.

    For a history I_u the weights solve

        minimise  α'K₊α + λ‖α‖² − 2α'q   over the simplex on I_u,   q_i = mean of K(i, j) over j ∉ I_u

    one small convex problem with a unique answer (for λ > 0). Nothing depends on a seed.

    Parameters
    ----------
    kernel
        The name of a kernel or an object of `komd.kernels`.
    regularization
        λ_p: larger spreads the weights over the history more evenly.
    negatives
        "exact": q as above, for each person their own; "mean": the paper's approximation, the mean over all items, the
        same for everybody (off by at most 2 |I_u| / m in each component).
    tolerance
        KKT gap to which every problem is solved; an answer that misses it raises SolverError.

    Examples
    --------
    >>> import komd
    >>> data = komd.generate(users=200, items=60, activity=8, rng=0)
    >>> model = komd.CFKOMD(kernel="tanimoto").fit(data)
    >>> model
    CFKOMD()
    >>> model.recommend("user-00042", n=3).to_arrow().column_names
    ['user_id', 'item_id', 'score', 'rank']
    """

    def __init__(
        self,
        *,
        kernel: Kernel | str = "tanimoto",
        regularization: float = 0.01,
        negatives: str = "exact",
        tolerance: float = 1e-8,
    ) -> None:
        kernel_named(kernel)
        at_least("regularization", regularization, 0)
        one_of("negatives", negatives, ("exact", "mean"))
        at_least("tolerance", tolerance, 0, open_end=True)
        self.kernel = kernel
        self.regularization = regularization
        self.negatives = negatives
        self.tolerance = tolerance

    def _kernel(self) -> Kernel:
        return kernel_named(self.kernel)

    def _build(
        self, catalogue: Catalogue, threads: int | None, memory: str | int | None
    ) -> tuple[ItemMatrix, NDArray[np.float64]]:
        how = plan(catalogue.popularity.astype(np.int64), catalogue.histories.lengths, memory=memory)
        rows = catalogue.histories
        K = kernel_matrix(self._kernel(), rows.indptr, rows.indices, len(catalogue.order), how, threads=threads)
        return K, K.sums()

    def _weigh(self, histories: Histories) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        weights, offsets, _ = self._solve(histories)
        return weights, offsets

    def _solve(self, histories: Histories) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Weights and offsets as the scorer takes them, and KKT gaps."""
        from komd._core.solve import solve_users

        weights = np.empty(len(histories.indices))
        offsets = np.empty(len(histories))
        gaps = np.empty(len(histories))
        longest = int(histories.lengths.max(initial=0))
        unsolved = solve_users(
            *self._matrix.compiled_form(),
            self._S,
            self.negatives == "exact",
            float(self.regularization),
            float(self.tolerance),
            histories.indptr,
            histories.indices,
            weights,
            offsets,
            gaps,
            np.empty((2, min(longest, _GATHERED) ** 2), np.float32),
            np.empty((9, longest)),
            np.empty((2, longest), np.float32),
            np.empty(longest, np.int32),
        )
        if unsolved:
            raise SolverError(
                f"{unsolved} of {len(histories)} problems were not solved: the KKT gap is still {gaps.max():.3g}, "
                f"asked for {self.tolerance:g}; use a larger tolerance or regularization"
            )
        return weights, offsets, gaps

    def solve(self, user: Any = None, *, history: Any = None) -> Solution:
        """The solved problem of a known user, or of a stranger with this history."""
        if (user is None) == (history is None):
            raise InputError("solve takes a user or a history=[...]")
        if history is None:
            _, row, _ = self._people([user], None, "error")
        else:
            _, row, _ = self._people(None, [history], "error")
        if not len(row.indices):
            raise InputError("there is no problem to solve for a person without history")
        return self._solution(row)

    def _solution(self, row: Histories) -> Solution:
        weights, offsets, gaps = self._solve(row)
        shift = offsets[0] if self.negatives == "exact" else 0.0
        items = self.catalogue.item_ids(row.indices).to_pylist()
        return Solution(items, weights - shift, np.ones(len(items), bool), float(gaps[0]))
