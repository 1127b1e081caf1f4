"""EASE: the item-item matrix that best rebuilds every user's history, in closed form."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd.checks import at_least
from komd.engine.catalogue import Catalogue
from komd.engine.item_based import Neighbourhood
from komd.errors import InputError, SolverError, argument
from komd.kernels.asymmetric import CoOccurrence
from komd.kernels.entries import KernelEntries
from komd.matrix.from_counts import dense_from_counts
from komd.matrix.item_matrix import ItemMatrix
from komd.matrix.ridge_filter import inverse_scratch, invert
from komd.memory import budget, readable

__all__ = ["EASE"]

_ROWS = 256  # of the inverse, mirrored at a time


class EASE(Neighbourhood):
    """Embarrassingly shallow autoencoder (Steck, 2019): a linear model from items to items, solved exactly.

        minimise  ‖R − RB‖² + λ‖B‖²   over B with a zero diagonal
        P = (G + λI)⁻¹,   B(i, j) = −P(i, j) / P(j, j) for i ≠ j,   score(u, j) = Σ_{i ∈ I_u} B(i, j)

    where G = R'R holds the co-occurrence counts. G is inverted block by block, in place, in double precision whatever
    λ (a condition of G + λI of 10⁵, usual for small λ, would leave single precision two digits), and B is kept in
    single precision. All of it is dense: 12 bytes for each pair of items while fitting, 4 afterwards. An item nobody
    chose has an empty row and column, and a score of zero. Weights may be negative: an item can speak against another.

    Parameters
    ----------
    regularization
        λ > 0: larger shrinks B.

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

    def __init__(self, *, regularization: float = 1000.0) -> None:
        self.regularization = at_least("regularization", regularization, 0, open_end=True)

    def _build_matrix(self, catalogue: Catalogue, threads: int | None, memory: str | int | None) -> ItemMatrix:
        m = len(catalogue.order)
        # Inside, items come by falling popularity: those nobody chose are the last, alone in G, and need no inverse.
        chosen = int(np.count_nonzero(catalogue.popularity))
        needed, room = 4 * m * m + 8 * chosen * chosen + inverse_scratch(chosen, np.float64), budget(memory)
        if needed > room:
            raise InputError(
                f"EASE needs {readable(needed)} for {m:,} items ({readable(4 * m * m)} of it for the result), and the "
                f"budget is {readable(room)}; raise {argument('memory')}, or leave out the rarest items"
            )
        rows = catalogue.histories.rows
        # Counts are exact in single precision up to 2^24 users.
        G = dense_from_counts(KernelEntries.of(CoOccurrence(), rows, m), rows, threads)
        self._rebuild(G.values, chosen, threads)
        return G

    def _rebuild(self, G: NDArray[np.float32], chosen: int, threads: int | None) -> None:
        """Put B where G was; its rows and columns from `chosen` on are zero and stay so."""
        P = G[:chosen, :chosen].astype(np.float64)
        P.flat[:: chosen + 1] += float(self.regularization)
        if not invert(P, label="EASE", threads=threads):
            raise SolverError(
                "G + λI could not be inverted: to double precision it is singular; use more regularization"
            )
        diagonal = P.diagonal().copy()
        for first, last in pool.blocks(chosen, _ROWS):
            strip = P[first:last, first:]
            square = strip[:, : last - first]
            square[:] = np.triu(square) + np.triu(square, 1).T
            np.divide(strip, -diagonal[first:], out=G[first:last, first:chosen], casting="same_kind")
            rest = strip[:, last - first :].T
            np.divide(rest, -diagonal[first:last], out=G[last:chosen, first:last], casting="same_kind")
        np.fill_diagonal(G, 0.0)
