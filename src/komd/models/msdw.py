"""MSDW: the asymmetric cosine with locality, summed over a history (PAPER, "The method")."""

from __future__ import annotations

from komd.engine.kernel_based import KernelNeighbourhood
from komd.kernels.asymmetric import AsymmetricCosine
from komd.kernels.stages import Stages
from komd.matrix.storage import known_storage

__all__ = ["MSDW"]


class MSDW(KernelNeighbourhood):
    """The method that won the Million Song Dataset challenge: neighbours by asymmetric cosine, nothing to solve.

        M(i, j) = ( |U_i ∩ U_j| / (|U_j|^α |U_i|^(1−α)) )^locality        i in the history, j the candidate
        score(u, j) = Σ_{i ∈ I_u} M(i, j)

    The diagonal is 1; it counts only where what a user has already is not left out.

    Parameters
    ----------
    alpha
        From 0 to 1. At 0 an item gives by the share of its users who chose the candidate too, which favours popular
        candidates; at 1 by the share of the candidate's users who chose it, which favours rare ones; ½ is the cosine.
    locality
        The power of the similarity: above 1 the nearest neighbours count for more.
    storage
        How to hold M: see `CFKOMD`.

    Examples
    --------
    >>> import komd
    >>> data = komd.generate(users=200, items=60, activity=8, rng=0)
    >>> model = komd.MSDW(alpha=0.15, locality=3).fit(data)
    >>> model
    MSDW(alpha=0.15, locality=3)  # K: 60 items, ... % full → dense, 14 kB
    >>> len(model.recommend("user-00042", n=3))
    3
    """

    def __init__(self, *, alpha: float = 0.5, locality: float = 1.0, storage: str | None = None) -> None:
        AsymmetricCosine(alpha=alpha, locality=locality)  # refuses what it cannot take
        self.alpha = alpha
        self.locality = locality
        self.storage = known_storage(storage)

    def stages(self) -> Stages:
        return Stages(AsymmetricCosine(alpha=self.alpha, locality=self.locality))
