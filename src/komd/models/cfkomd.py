"""CF-KOMD: each user's weights maximise the margin between what they chose and everything else (PAPER section 4)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from komd import threads as pool
from komd._core.groups import OwnEntries
from komd.checks import at_least, one_of, true_or_false, whole
from komd.data.interactions import Interactions
from komd.engine.catalogue import Catalogue
from komd.engine.histories import Histories
from komd.engine.kernel_based import KernelBased
from komd.engine.requests import one_problem
from komd.engine.results import Solution
from komd.engine.weighted_histories import WeightedHistories
from komd.errors import InputError, SolverError
from komd.kernels.functions import Kernel, kernel_named
from komd.kernels.interaction_weights import WEIGHTINGS, half_life_text, transformed
from komd.kernels.recommended import RECOMMENDED_RANK, recommended_parameters
from komd.kernels.stages import Stages
from komd.matrix.build import BeforeUpdate
from komd.matrix.eigenvectors import low_rank_fits
from komd.matrix.item_matrix import BlockSums, ItemMatrix
from komd.matrix.ridge_filter import ridge_fits
from komd.matrix.storage import known_storage

if TYPE_CHECKING:
    from komd._core.solve import Solved

__all__ = ["CFKOMD"]

_TOGETHER, _SQUARES = 256, 1 << 24  # users that a thread solves at a time, and entries between their own items
_ROUNDED = 1e-6  # relative error of a sum of numbers in single precision
_LEAST_RIDGE, _MOST_RIDGE = 1e-6, 1e9  # below, μ is lost in the rounding of K; above, the filtered K is
_MOST_PRIOR = 1e6  # beyond it nothing of K is left beside the prior
_MOST_HEAD = 1e6  # beyond it nothing of K is left beside the leading eigenvectors
_MOST_TARGET = 10.0  # of either sign: beyond it popularity alone orders the items
_MOST = 1e300  # of λ_p: the weights are even long before


class CFKOMD(WeightedHistories, KernelBased):
    """Kernel-based collaborative filtering by optimising the margin distribution (CF-KOMD).

    For each user, the weights α of the items in the history I_u solve

        minimise  α'K₊α + λ‖α‖² − 2α'q   over the simplex on I_u,   q_i = mean of K(i, j) over j ∉ I_u

    a small convex problem with a unique solution (for λ > 0). Nothing depends on a random seed.

    K is built in stages, each of which gives a valid kernel (docs/guide/maths.md, "Kernels in stages"): users are
    weighted by a_v^−γ, the cosine between items is taken, the function `kernel` is applied to it, items are scaled by
    d_i^β, the spectrum is filtered, and a prior is added. Scores are multiplied by a power of the popularity of the
    candidate. The defaults are the paper's: γ = β = 0, no filter, no prior, no such power.

    Before and after the filter, K is scaled to a mean diagonal of 1 over items with at least one user, so that
    `regularization`, `ridge` and `prior` mean the same whatever the other stages are.

    Parameters
    ----------
    kernel : str or Kernel
        Name of a kernel ("linear", "polynomial", "rbf", "tanimoto", "jaccard") or an object of `komd.kernels`.
    regularization : float
        λ_p >= 0. Larger values spread the weights more evenly over the history.
    negatives : {"exact", "mean"}
        How q is computed. "exact": for each user, the mean over the items not in the history. "mean": the paper's
        approximation, the mean over all items, the same for all users (each component is off by at most 2 |I_u| / m).
    tolerance : float
        KKT gap to which every problem is solved. If it is not reached, SolverError is raised.
    user_damping : float
        γ >= 0. A user with a_v items counts a_v^−γ in all co-occurrence counts, so that very active users say less
        about what goes together. 0.5 does well on most data.
    popularity : float
        β >= 0. Items are vectors of length d_i^β instead of 1, d_i being their popularity. Popular items then rank
        higher: better at the top of the list, worse AUC on sparse data.
    ridge : float, optional
        μ, from 1e-6 to 1e9. K becomes K (K + μI)⁻¹, which damps the leading eigenvectors; smaller is stronger. None: no
        filter. The exact filter is dense and costs about m³ operations.
    rank : int, optional
        Number of eigenvectors of a low-rank filter, in place of the exact one. K stays sparse or streamed, and a
        product of narrow matrices is subtracted. The error is bounded; the bound is part of the model's `repr`, and a
        FilterWarning is issued if it is loose. None: the exact filter if it fits the memory, else 256.
    head : float
        a, from 0 to 1e6. Each of the `rank` leading eigenvectors gets a · t added to its eigenvalue, where t is the
        smallest of these eigenvalues. With a small `ridge` they all count about (1 + a) · t. On a large sparse
        catalogue, 2 with a ridge of 30 and a rank of 256 to 512 does well. The filter is then of low rank for every
        storage. 0: off.
    prior : float
        c, from 0 to 1e6. K becomes K + c p p' with p_i = d_i^δ (scaled to mean square 1), δ being `prior_power`.
        Popular items become likely for every user, which orders the many items that share no user with a history on
        sparse data. 0.01 is a large value. A sparse K stays sparse.
    prior_power : float
        δ >= 0; see `prior`.
    target : float
        τ, from −10 to 10. The contribution of the history to the score of item j is multiplied by d_j^τ (scaled to mean
        square 1): τ > 0 favours popular items, τ < 0 the long tail. The term that belongs to the negatives
        (`negatives_weight`) is not multiplied, so that scores below zero keep their order.
    negatives_weight : float
        θ >= 0. Weight of the items that were not chosen, in the problem (θq) and in the score. 1 is the paper's method;
        0 ignores them.
    weighting : {"log", "sqrt", "linear", "none"}
        How weights of the data are transformed: "log" is log₂(1 + w). An item with weight h_i is cheaper to use: λ_i =
        λ / h_i. Without weights, h_i = 1. For λ → ∞ the weights α are proportional to h.
    weighted_kernel : bool
        Whether weights enter K too: items are then vectors of h instead of ones.
    half_life : str, optional
        Age at which h is halved, such as "30d" or "12h" (units s, min, h, d, w); needs data with times. Ages are
        measured from the user's last event, or from the `at` of `recommend`. None: age does not matter. It does not
        enter K.
    dislikes_weight : float
        ω >= 0. Weight of the mean over the user's dislikes, beside that of the negatives (θ), in the problem and in the
        score. Disliked items are never recommended, whatever ω.
    storage : {"dense", "sparse", "streamed"}, optional
        How to hold K. "streamed": not held, but recomputed in strips whenever it is read. None: the fastest that fits
        the memory budget. The exact filter is always dense; with other storages the filter is of low rank.

    Raises
    ------
    InputError
        If a parameter is not of its kind or outside of its range.

    Examples
    --------
    >>> import komd
    >>> data = komd.generate(users=200, items=60, activity=8, rng=0)
    >>> model = komd.CFKOMD(kernel="tanimoto").fit(data)
    >>> model
    CFKOMD()  # K: 60 items, ... % full → dense, 14 kB
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
        user_damping: float = 0.0,
        popularity: float = 0.0,
        ridge: float | None = None,
        rank: int | None = None,
        head: float = 0.0,
        prior: float = 0.0,
        prior_power: float = 0.5,
        target: float = 0.0,
        negatives_weight: float = 1.0,
        weighting: str = "log",
        weighted_kernel: bool = False,
        half_life: str | None = None,
        dislikes_weight: float = 0.0,
        storage: str | None = None,
    ) -> None:
        kernel_named(kernel)
        self.kernel = kernel
        self.regularization = at_least("regularization", regularization, 0, most=_MOST)
        self.negatives = one_of("negatives", negatives, ("exact", "mean"))
        self.tolerance = at_least("tolerance", tolerance, 0, open_end=True, most=_MOST)
        self.user_damping = at_least("user_damping", user_damping, 0)
        self.popularity = at_least("popularity", popularity, 0)
        self.ridge = None if ridge is None else at_least("ridge", ridge, _LEAST_RIDGE, most=_MOST_RIDGE)
        self.rank = None if rank is None else whole("rank", rank, 1)
        self.head = at_least("head", head, 0, most=_MOST_HEAD)
        self.prior = at_least("prior", prior, 0, most=_MOST_PRIOR)
        self.prior_power = at_least("prior_power", prior_power, 0)
        self.target = at_least("target", target, -_MOST_TARGET, most=_MOST_TARGET)
        self.negatives_weight = at_least("negatives_weight", negatives_weight, 0)
        self.weighting = one_of("weighting", weighting, WEIGHTINGS)
        self.weighted_kernel = true_or_false("weighted_kernel", weighted_kernel)
        self.half_life = half_life_text(half_life)
        self.dislikes_weight = at_least("dislikes_weight", dislikes_weight, 0)
        self.storage = known_storage(storage)

    needs_own_entries = True

    @classmethod
    def recommended(cls, data: Any, *, memory: str | int | None = None) -> Self:
        """Return an unfitted model whose parameters suit the data, chosen by a rule from its statistics.

        Nothing is searched or fitted. The rule uses user damping γ = ½ and:

        - up to 20,000 items, with 30 or more users per item on average, if the exact filter fits the memory budget:
          λ = 1, β = 0.3, ridge μ = 10, prior c = 0.003, negatives_weight ½;
        - up to 20,000 items, with 3 or more users per item and 30 or more items per user: λ = 1, β = 0.2, ridge μ = 40,
          head ½ of rank 96, negatives_weight ¼;
        - 20,000 to 100,000 items, with 3 or more users per item and 15 or more items per user, if it fits the memory
          budget: linear kernel, γ = ¾, λ = 1, β = 0.15, ridge μ = 30, head 2 of rank 512, no negatives;
        - otherwise: no filter, λ = 2, β = 2 / √(mean activity), at most 0.8 and rounded to a tenth. The shorter the
          histories, the more popularity counts.

        Weights, ages and dislikes do not count (`weighting="none"` for data with weights), because they did not help on
        the data measured (docs/results/histories.md). The evidence for the rule is in docs/results/rule.md. It aims at
        the top of the list (nDCG@100; nDCG@20 for large catalogues). For AUC on sparse data, a smaller β, no filter and
        a small prior do better.

        Parameters
        ----------
        data : Interactions or anything that `komd.read` accepts
            The training data.
        memory : str or int, optional
            Memory budget, as in `fit`.

        Returns
        -------
        CFKOMD
            The model, not fitted.

        Raises
        ------
        InputError
            If the data holds no pair, or the method is called on a subclass such as `ECFOMD`.

        Examples
        --------
        >>> import komd
        >>> CFKOMD.recommended(komd.generate(users=200, items=60, activity=8, rng=0))
        CFKOMD(regularization=2.0, user_damping=0.5, popularity=0.7)
        """
        if cls is not CFKOMD:
            raise InputError(f"{cls.__name__} is the paper's method as it stands; ask CFKOMD.recommended(data)")
        interactions = Interactions.of(data)
        if interactions.pairs == 0:
            raise InputError(f"nothing to learn from: {interactions!r} holds no pair")
        chosen = int(np.count_nonzero(interactions.popularity))
        items = interactions.shape[1]
        exact, large = ridge_fits(items, chosen, memory), low_rank_fits(items, RECOMMENDED_RANK, memory)
        return cls(**recommended_parameters(interactions, exact_filter_fits=exact, large_filter_fits=large))

    def stages(self) -> Stages:
        return Stages(
            kernel_named(self.kernel),
            float(self.user_damping),
            float(self.popularity),
            None if self.ridge is None else float(self.ridge),
            None if self.rank is None else int(self.rank),
            float(self.head),
            float(self.prior),
            float(self.prior_power),
            float(self.target),
            self.weighting if self.weighted_kernel and self.weighting != "none" else None,
        )

    def kernel_values(self, histories: Histories) -> NDArray[np.float32] | None:
        """h of each pair as K takes it: without age."""
        if not self.weighted_kernel or histories.weights is None or self.weighting == "none":
            return None
        return transformed(histories.weights, self.weighting)

    def _build_sums(
        self, matrix: ItemMatrix, catalogue: Catalogue, threads: int | None, block_sums: BlockSums | None
    ) -> NDArray[np.float64]:
        return matrix.sums(threads, block_sums)

    def _renewed_sums(
        self, made: ItemMatrix, before: BeforeUpdate | None, catalogue: Catalogue, threads: int | None
    ) -> NDArray[np.float64]:
        if before is None:
            return made.sums(threads)
        return made.sums_after(before.matrix, self.__dict__["S"], before.source, before.changed, threads)

    def _build_target_factors(self, catalogue: Catalogue) -> NDArray[np.float64] | None:
        return self.stages().target_factors(catalogue.popularity.astype(np.int64))

    def similarities_to(self, item: int) -> NDArray[np.float32]:
        if not self.prior:
            return super().similarities_to(item)
        # The prior is common to all items and says nothing about similarity: it is subtracted, and rounding errors
        # become 0.
        row = self.matrix.row(item)
        prior = self.held_stages.prior_factor(self.catalogue.popularity.astype(np.int64))
        shared = prior[item] * prior
        alike = row - shared
        return self._multiplied(np.where(np.abs(alike) > _ROUNDED * (np.abs(row) + shared), alike, np.float32(0)))

    def scored_rows(self, histories: Histories) -> Histories:
        """The histories, joined by the dislikes if these count; weights are h, and below 0 for dislikes."""
        h = self.interaction_weights(histories)
        weighted = histories if h is histories.weights is None else replace(histories, weights=h)
        return weighted.with_dislikes() if self.dislikes_weight else weighted

    def weigh(
        self, rows: Histories, own: OwnEntries, threads: int | None = 1
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        solved = self._solved(rows, own, threads)
        return solved.weights, solved.offsets

    def _solved(self, rows: Histories, own: OwnEntries, threads: int | None = 1) -> Solved:
        """Weights and offsets of `scored_rows` as scoring takes them, and KKT gaps."""
        from komd._core import solve as core

        # Negative zero if negatives do not count: then −b S is +0, and no score is shown as −0.
        theta, omega = float(self.negatives_weight) or -0.0, float(self.dislikes_weight)
        S, factor = self.S, self.factor or 1.0
        # With K, S and λ divided by the same factor, the weights are the same, and gaps are divided by it.
        lam, tolerance = float(self.regularization) / factor, float(self.tolerance) / factor
        problem = core.MarginProblem(S, self.negatives == "exact", theta, lam, tolerance, omega)
        out = core.Solved(np.empty(len(rows.indices)), np.empty(len(rows)), np.empty(len(rows)))

        def part(block: tuple[int, int]) -> int:
            a, b = block
            items = slice(rows.indptr[a], rows.indptr[b])
            mine = core.Solved(out.weights[items], out.offsets[a:b], out.gaps[a:b])
            some = rows.block(a, b)
            return core.solve_block(own._replace(starts=own.starts[a : b + 1]), problem, some.rows, some.weights, mine)

        if len(rows) <= _TOGETHER and len(rows) * int(rows.lengths.max(initial=0)) ** 2 <= _SQUARES:
            unsolved = core.solve_block(own, problem, rows.rows, rows.weights, out)
        else:
            pieces = pool.even_blocks(rows.lengths**2 + _SQUARES // _TOGETHER, _SQUARES)
            unsolved = sum(pool.run(part, pieces, threads=threads))
        out.gaps[:] *= factor
        if unsolved:
            raise SolverError(
                f"{unsolved} of {len(rows)} problems were not solved: the KKT gap is still {out.gaps.max():.3g}, "
                f"asked for {float(self.tolerance):g}; use a larger tolerance or regularization"
            )
        return out

    def solve(self, user: Any = None, *, history: Any = None, dislikes: Any = None, at: Any = None) -> Solution:
        """Return the solution of one user's convex problem.

        Parameters
        ----------
        user : id, optional
            A known user. Give either `user` or `history`.
        history : list of ids or mapping, optional
            The history of a user that the model need not know, as in `explain`.
        dislikes : iterable of ids, optional
            With `history`: items that the user dislikes.
        at : str, date or datetime, optional
            As in `recommend`.

        Returns
        -------
        Solution
            Items, their weights and the KKT gap.

        Raises
        ------
        UnknownIdError
            If the user or an item is unknown.
        InputError
            If not exactly one of `user` and `history` is given, or the history is empty.

        Examples
        --------
        >>> import komd
        >>> model = komd.ECFOMD().fit([("ana", "i7"), ("ana", "i42"), ("bo", "i7"), ("bo", "i9")])
        >>> solution = model.solve("ana")
        >>> round(float(solution.alpha.sum()), 9), solution.gap < 1e-8
        (1.0, True)
        """
        self = self.view()
        row = self.scored_rows(one_problem(self.catalogue, user, history, dislikes, at))
        weights, offsets, gaps = self._solved(row, self.matrix.own_entries(row.rows))
        chosen = np.ones(len(weights), bool) if row.weights is None else row.weights > 0
        shift = offsets[0] if self.negatives == "exact" else 0.0
        items = self.catalogue.item_ids(row.indices[chosen]).to_pylist()
        return Solution(items, weights[chosen] - shift, np.ones(len(items), bool), float(gaps[0]))
