"""EASE: the item-item matrix that best rebuilds every user's history, in closed form."""

from __future__ import annotations

from komd._core.groups import Rows
from komd.checks import at_least, one_of
from komd.engine.catalogue import Catalogue
from komd.engine.item_based import Neighbourhood
from komd.matrix.item_matrix import Arrays, ItemMatrix
from komd.matrix.regression import REGRESSION_STORAGES, regression_matrix
from komd.matrix.saved import layouts, regression_restored

__all__ = ["EASE"]


class EASE(Neighbourhood):
    """Embarrassingly shallow autoencoder (Steck, 2019): a linear model from items to items, in closed form.

        minimise  ‖R − RB‖² + λ‖B‖²   over B with a zero diagonal

        P = (G + λI)⁻¹,   B(i, j) = −P(i, j) / P(j, j) for i ≠ j

        score(u, j) = Σ_{i ∈ I_u} B(i, j)

    G = R'R holds the co-occurrence counts. Weights may be negative: an item can count against another. If there are
    fewer users (with two items or more) than items, a matrix between users is inverted instead, which gives the same B.
    Inversion is in double precision, block by block, and takes 8 bytes per entry; B is stored in single precision, 4
    bytes per entry. An item that nobody chose has an empty row and column, and a score of zero.

    Parameters
    ----------
    regularization : float
        λ > 0. Larger values shrink B.
    storage : {"dense", "dual"}, optional
        How to hold B. "dense": all of it. "dual": only the inverse between users, from which rows of B are computed
        when needed. None: dense, unless only the dual form fits the memory. The scores of both agree to single
        precision.

    Raises
    ------
    InputError
        If a parameter is not of its kind or outside of its range.

    Examples
    --------
    >>> import komd
    >>> data = komd.generate(users=200, items=60, activity=8, rng=0)
    >>> model = komd.EASE(regularization=50).fit(data)
    >>> model
    EASE(regularization=50)
    >>> len(model.recommend("user-00042", n=3))
    3
    """

    def __init__(self, *, regularization: float = 1000.0, storage: str | None = None) -> None:
        self.regularization = at_least("regularization", regularization, 0, open_end=True)
        self.storage = None if storage is None else one_of("storage", storage, REGRESSION_STORAGES)

    def _build_matrix(self, catalogue: Catalogue, threads: int | None, memory: str | int | None) -> ItemMatrix:
        rows, items = catalogue.histories.rows, len(catalogue.order)
        return regression_matrix(
            rows, items, float(self.regularization), storage=self.storage, threads=threads, memory=memory
        )

    def _layouts(self) -> list[set[str]]:
        held = REGRESSION_STORAGES if self.storage is None else (self.storage,)
        return [{"S"} | names for names in layouts(*held)]

    def _restored_matrix(self, arrays: Arrays) -> ItemMatrix:
        rows = Rows(arrays["history_indptr"], arrays["history_indices"])  # type: ignore[arg-type]
        return regression_restored(arrays, rows, len(arrays["order"]))
