"""RP3β: three random steps from a user to an item, with the popularity of the item divided out."""

from __future__ import annotations

from komd.checks import at_least
from komd.engine.kernel_based import KernelNeighbourhood
from komd.kernels.asymmetric import CoOccurrence
from komd.kernels.stages import Stages
from komd.matrix.storage import known_storage

__all__ = ["RP3Beta"]


class RP3Beta(KernelNeighbourhood):
    """Random walk user → item → user → item, re-ranked (Paudel, Christoffel, Newell & Bernstein, 2017).

    From an item i the walk goes to one of its d_i users, from a user v to one of their a_v items, all equally likely:
    the probabilities are p(i → v) = 1 / d_i and p(v → j) = 1 / a_v. They are raised to the power α, and the result is
    divided by the popularity of the candidate to the power β:

        M(i, j) = Σ_{v ∈ U_i ∩ U_j} p(i → v)^α p(v → j)^α / d_j^β  =  d_i^−α d_j^−β Σ_{v ∈ U_i ∩ U_j} a_v^−α

        score(u, j) = Σ_{i ∈ I_u} M(i, j)

    The first step, p(u → i)^α = a_u^−α, is the same for all items of a user and is left out: it does not change the
    order. All neighbours are kept. The diagonal counts only with `exclude_seen=False`.

    Parameters
    ----------
    alpha : float
        Exponent of the probabilities. Above 1, likely paths count more; below 1, less.
    beta : float
        Exponent of the candidate's popularity that is divided out. 0 is P3α; with α = 1, the plain walk.
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
    >>> model = komd.RP3Beta(beta=0.4).fit(data)
    >>> model
    RP3Beta(beta=0.4)  # K: 60 items, ... % full → dense, 14 kB
    >>> len(model.recommend("user-00042", n=3))
    3
    """

    def __init__(self, *, alpha: float = 0.6, beta: float = 0.6, storage: str | None = None) -> None:
        self.alpha = at_least("alpha", alpha, 0)
        self.beta = at_least("beta", beta, 0)
        self.storage = known_storage(storage)

    def stages(self) -> Stages:
        return Stages(CoOccurrence(history=self.alpha, candidate=self.beta), user_damping=float(self.alpha))
