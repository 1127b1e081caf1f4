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

_TOGETHER, _SQUARES = 256, 1 << 24  # users, and entries between their own items, that a thread solves at a time
_ROUNDED = 1e-6  # beside numbers of single precision, what a sum of them may be off by
_LEAST_RIDGE, _MOST_RIDGE = 1e-6, 1e9  # below, μ is lost in the rounding of K; above, what the filter leaves is
_MOST_PRIOR = 1e6  # beyond it nothing of K is left beside the prior
_MOST_HEAD = 1e6  # beyond it nothing of K is left beside the leading eigenvectors
_MOST_TARGET = 10.0  # of either sign: beyond it popularity alone orders the items
_MOST = 1e300  # of λ_p: the weights are even long before


class CFKOMD(WeightedHistories, KernelBased):
    """Kernel-based collaborative filtering by optimising the margin distribution.

    For a history I_u the weights solve

        minimise  α'K₊α + λ‖α‖² − 2α'q   over the simplex on I_u,   q_i = mean of K(i, j) over j ∉ I_u

    one small convex problem with a unique answer (for λ > 0). Nothing depends on a seed.

    K is made in stages, each a kernel (docs/guide/maths.md, "Kernels in stages"): users weighted by a_v^−γ, the cosine
    of the weighted items, the function `kernel` of it, items scaled by d_i^β, a filter of the spectrum, and a prior
    that all items share. What K says for an item is multiplied by a power of its popularity. The defaults are the
    paper's: γ = β = 0, no filter, no prior, no such power.

    Parameters
    ----------
    kernel
        The name of a kernel or an object of `komd.kernels`.
    regularization
        λ_p: larger spreads the weights over the history more evenly.
    negatives
        "exact": q as above, for each user their own; "mean": the paper's approximation, the mean over all items, the
        same for all users (off by at most 2 |I_u| / m in each component).
    tolerance
        KKT gap to which every problem is solved; an answer that misses it raises SolverError.
    user_damping
        γ >= 0: a user of a_v items counts a_v^−γ wherever users are counted, so that users who chose nearly everything
        say less of what goes together. ½ does well on most data.
    popularity
        β >= 0: items are vectors of length d_i^β, d_i being their popularity, instead of 1. Popular items come first
        more often: better at the top of a list, at some cost in AUC where data are sparse.
    ridge
        μ, from 1e-6 to 1e9: K becomes K (K + μI)⁻¹, which keeps what is common to many items from drowning the rest;
        smaller is stronger. None: no filter. The exact filter is dense, and costs some m³ operations to make.
    rank
        How many eigenvectors a filter of low rank is made of, instead of the exact one: K stays as sparse as it was, or
        streamed, and a product of narrow matrices is subtracted. What that leaves out is bounded, and the bound is
        shown with the model (`repr`); a FilterWarning says where it is loose. None: the exact filter where it fits the
        memory, else 256.
    head
        a, from 0 to 1e6: each of the `rank` leading eigenvectors counts a · t more, t being the least of their
        eigenvalues. With a small `ridge` they all count about (1 + a) · t: what many items have in common is evened
        out, and set apart from what only neighbours share. On a large sparse catalogue 2 with a ridge of 30 and a
        rank of 256 to 512 does well. The filter is then of low rank whatever the storage. 0: nothing is added.
    prior
        c, from 0 to 1e6: K becomes K + c p p', p_i = d_i^δ (of mean square 1), δ being `prior_power`: popular items are
        likely for every user, also where nothing that the user chose says so. Where data are sparse it orders the many
        items that share nobody with a history. 0.01 is much already. A sparse K stays as sparse as it was.
    prior_power
        δ >= 0, see `prior`.
    target
        τ, from −10 to 10: what a history says for item j is multiplied by d_j^τ (of mean square 1). It is the one
        asymmetry: a K that does not favour popular items may still recommend them, or long tails with τ < 0. What the
        negatives subtract (`negatives_weight`) is not multiplied, so that scores below zero keep their order.
    negatives_weight
        θ >= 0: how much the items not chosen count, in the problem (θq) and in the score; 1 is the paper, 0 leaves them
        out.
    weighting
        What to make of the weights of the data, if it has any: "log" (log₂(1 + w)), "sqrt", "linear" or "none". The
        weight h_i of an item, 1 without weights, makes it cheaper to use: λ_i = λ / h_i. For λ → ∞ the weights are
        proportional to h.
    weighted_kernel
        Whether weights enter K as well: items are vectors of h instead of ones.
    half_life
        h is halved with every so much time that an item is older: "30d", "12h" (units s, min, h, d, w), for data with
        times. Ages count from the user's last event, or from the moment that `recommend` is given. None: age does not
        count. It does not enter K.
    dislikes_weight
        ω >= 0: how much the mean of what a user dislikes counts, beside that of the items not chosen (θ), in the
        problem and in the score. What a user dislikes is never recommended, whatever ω.
    storage
        How to hold K: "dense", "sparse", "streamed" (never held: computed again in strips whenever it is read), or None
        for what is fastest within the memory budget. The exact filter is "dense"; for others the filter is of low rank.

    Before the filter and after it K is scaled to a mean diagonal of 1 (over items that somebody chose), so that
    `regularization`, `ridge` and `prior` mean the same whatever the other stages are.

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
        """An unfitted model with parameters that suit the data, by a rule from its statistics; nothing is searched.

        With at most 20,000 items, users damped by γ = ½:

        - where items were chosen by 30 users or more on average, and an exact filter fits the `memory` budget: λ = 1,
          β = 0.3, a ridge of μ = 10, a prior of c = 0.003, and half of the negatives;
        - else, by 3 users or more who chose 30 items or more each: λ = 1, β = 0.2, a ridge of μ = 40 and a head of ½ of
          rank 96, and a quarter of the negatives.

        With 20,000 to 100,000 items, chosen by 3 users or more who chose 15 items or more each, where it fits the
        `memory` budget: the linear kernel, γ = ¾, λ = 1, β = 0.15, a ridge of μ = 30 and a head of 2 of rank 512, and
        no negatives.

        Elsewhere no filter, γ = ½, λ = 2, and β = 2 / √(mean activity), at most 0.8 and rounded to a tenth: the shorter
        the histories, the more popularity has to say.

        Weights, ages and dislikes do not count (`weighting="none"` where data have weights): on the data measured they
        did no better (docs/results/histories.md). Evidence for the rest: docs/results/rule.md. The rule aims at the top
        of the list (nDCG@100, of large catalogues nDCG@20); for AUC on sparse data a smaller β, no filter and a small
        prior do better.

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
        # What all items share makes no two of them alike. It was added in single precision: what is left of that is 0.
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

        # Negative zero where negatives do not count: −b S is +0 then, and nobody is shown a score of −0.
        theta, omega = float(self.negatives_weight) or -0.0, float(self.dislikes_weight)
        S, factor = self.S, self.factor or 1.0
        # K, S and λ divided by the same factor make the same weights, and gaps divided by it.
        lam, tolerance = float(self.regularization) / factor, float(self.tolerance) / factor
        problem = core.MarginProblem(S, self.negatives == "exact", theta, lam, tolerance, omega)
        out = core.Solved(np.empty(len(rows.indices)), np.empty(len(rows)), np.empty(len(rows)))

        def solve(some: Histories, own: OwnEntries, out: Solved) -> int:
            h = some.weights
            own = core.own_gathered(own, some.rows, always=h is not None and bool((h < 0).any()))
            scratch = core.solver_scratch(own, int(some.lengths.max(initial=0)))
            return core.solve_users(own.stored, own.blocks, own.starts, problem, some.rows, h, out, scratch)

        def part(block: tuple[int, int]) -> int:
            a, b = block
            items = slice(rows.indptr[a], rows.indptr[b])
            mine = core.Solved(out.weights[items], out.offsets[a:b], out.gaps[a:b])
            return solve(rows.block(a, b), own._replace(starts=own.starts[a : b + 1]), mine)

        if len(rows) <= _TOGETHER and len(rows) * int(rows.lengths.max(initial=0)) ** 2 <= _SQUARES:
            unsolved = solve(rows, own, out)
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
        """The solved problem of a known user, or of a stranger with this history; arguments are as in `explain`."""
        self = self.view()
        row = self.scored_rows(one_problem(self.catalogue, user, history, dislikes, at))
        weights, offsets, gaps = self._solved(row, self.matrix.own_entries(row.rows))
        chosen = np.ones(len(weights), bool) if row.weights is None else row.weights > 0
        shift = offsets[0] if self.negatives == "exact" else 0.0
        items = self.catalogue.item_ids(row.indices[chosen]).to_pylist()
        return Solution(items, weights[chosen] - shift, np.ones(len(items), bool), float(gaps[0]))
