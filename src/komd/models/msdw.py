"""MSDW: the asymmetric cosine with locality, summed over a history (PAPER, "The method")."""

from __future__ import annotations

from komd.engine.kernel_based import KernelNeighbourhood
from komd.kernels.asymmetric import AsymmetricCosine
from komd.kernels.stages import Stages
from komd.matrix.storage import known_storage

__all__ = ["MSDW"]


class MSDW(KernelNeighbourhood):
    """Nearest neighbours by asymmetric cosine: the method that won the Million Song Dataset challenge.

        M(i, j) = ( |U_i ∩ U_j| / (|U_j|^α |U_i|^(1−α)) )^locality

        score(u, j) = Σ_{i ∈ I_u} M(i, j)

    Here i is an item of the history, j the candidate, and U_i the set of users who chose i.
    The diagonal is 1; it counts only with `exclude_seen=False`.

    Parameters
    ----------
    alpha : float
        From 0 to 1. At 0, M(i, j) is the share of the users of i who also chose j, which favours popular candidates. At
        1, it is the share of the users of j who also chose i, which favours rare ones. 0.5 is the cosine.
    locality : float
        Exponent of the similarity. Above 1, the nearest neighbours count more.
    storage : {"dense", "sparse", "streamed"}, optional
        How to hold M; see `CFKOMD`.

    Raises
    ------
    InputError
        If a parameter is not of its kind or outside of its range.

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
        AsymmetricCosine(alpha=alpha, locality=locality)  # raises InputError for invalid values
        self.alpha = alpha
        self.locality = locality
        self.storage = known_storage(storage)

    def stages(self) -> Stages:
        return Stages(AsymmetricCosine(alpha=self.alpha, locality=self.locality))
