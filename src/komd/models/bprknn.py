"""BPR-kNN: an item-item matrix learned so that chosen items rank above others (Rendle et al. 2009, section 4.3.2)."""

from __future__ import annotations

import numpy as np

from komd.checks import at_least, whole
from komd.engine.catalogue import Catalogue
from komd.engine.item_based import Neighbourhood
from komd.errors import InputError, SolverError, argument
from komd.matrix.dense import DenseMatrix
from komd.matrix.item_matrix import ItemMatrix
from komd.memory import budget, readable
from komd.progress import progress

__all__ = ["BPRKNN"]

_STEPS = 1 << 16  # gradient steps in one compiled call: Ctrl-C and the bar come between calls


class BPRKNN(Neighbourhood):
    """Adaptive nearest neighbours: item similarities learned by Bayesian personalised ranking (Rendle et al., 2009).

    With x_ui = Σ_{l ∈ I_u, l ≠ i} C_il, the matrix C maximises

        Σ ln σ(x_uij) − penalty,   x_uij = x_ui − x_uj,   over users u, items i ∈ I_u and items j ∉ I_u

    by stochastic gradient ascent; σ is the logistic function. One step on a triple (u, i, j), for all l ∈ I_u, is

        C_il ← C_il + η (σ(−x_uij) − λ C_il)   for l ≠ i
        C_jl ← C_jl + η (−σ(−x_uij) − λ' C_jl)

    Triples are drawn with replacement: (u, i) uniformly from all pairs, then j uniformly from the items that u lacks.
    An epoch has as many steps as there are pairs. C starts at zero. The steps run one after another in one thread, with
    random numbers from a generator of their own (splitmix64, seeded by `rng`): the same `rng` gives the same model.

    Unlike in the paper, C is not kept symmetric. Each step then changes two rows of C instead of two rows and two
    columns, which is several times faster.

    Parameters
    ----------
    learning_rate : float
        η. A step moves x_uij by up to 2 |I_u| η, so η should be well below one over the length of a history.
    regularization : float
        λ, on the similarities of chosen items.
    regularization_negatives : float
        λ', on the similarities of the sampled negatives.
    epochs : int
        Number of epochs.
    rng : int
        Seed of the sampling.

    Raises
    ------
    InputError
        If a parameter is not of its kind or outside of its range.

    Examples
    --------
    >>> import komd
    >>> data = komd.generate(users=200, items=60, activity=8, rng=0)
    >>> model = komd.BPRKNN(epochs=5).fit(data)
    >>> model
    BPRKNN(epochs=5)
    >>> len(model.recommend("user-00042", n=3))
    3
    """

    def __init__(
        self,
        *,
        learning_rate: float = 0.002,
        regularization: float = 0.05,
        regularization_negatives: float = 0.05,
        epochs: int = 10,
        rng: int = 0,
    ) -> None:
        self.learning_rate = at_least("learning_rate", learning_rate, 0, open_end=True)
        self.regularization = at_least("regularization", regularization, 0)
        self.regularization_negatives = at_least("regularization_negatives", regularization_negatives, 0)
        self.epochs = whole("epochs", epochs, 1)
        self.rng = whole("rng", rng, 0, most=None)

    def _build_matrix(self, catalogue: Catalogue, threads: int | None, memory: str | int | None) -> ItemMatrix:
        from komd._core.bpr_steps import rank_pairs

        rows = catalogue.histories
        m = len(catalogue.order)
        needed = 2 * 4 * m * m  # C, and its transpose for scoring
        if needed > budget(memory):
            raise InputError(
                f"BPRKNN learns every pair of items: {readable(needed)} for {m:,} items, and the budget is "
                f"{readable(budget(memory))}; raise {argument('memory')}, or leave out the rarest items"
            )
        C = np.zeros((m, m), np.float32)
        state = np.random.SeedSequence(int(self.rng)).generate_state(1, np.uint64)
        users = np.repeat(np.arange(len(rows), dtype=np.int32), rows.lengths)
        lam = float(self.regularization), float(self.regularization_negatives)
        total = int(self.epochs) * len(users)
        with progress("bprknn", total) as advance:
            for start in range(0, total, _STEPS):
                steps = min(_STEPS, total - start)
                loss = rank_pairs(C, users, rows.indptr, rows.indices, float(self.learning_rate), *lam, steps, state)
                if not np.isfinite(loss):
                    raise SolverError(
                        f"BPRKNN diverged after {start + steps:,} steps with learning_rate={self.learning_rate:g}; "
                        "use a smaller one"
                    )
                advance(steps)
        return DenseMatrix(np.ascontiguousarray(C.T))
