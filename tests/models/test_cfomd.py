"""CF-OMD: cvxopt's answer, the same in any block and on any processor, its limits, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import komd
from komd.engine.histories import Histories
from komd.errors import SolverError
from tests import reference
from tests.fitted import fitted, histories_of, matrix_of, random_data


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.01, 1.0]),
    st.sampled_from([1e-3, 0.01, 1.0, 100.0, 1e4]),
    st.sampled_from(["linear", "tanimoto"]),
)
def test_cfomd_is_cvxopts(seed, lam_p, lam_n, kernel):
    model = komd.CFOMD(
        kernel=kernel, regularization=lam_p, regularization_negatives=lam_n, tolerance=1e-10, max_iterations=200_000
    )
    model = fitted(model, random_data(seed, users=12, items=14))
    K = matrix_of(model)
    for u, h in enumerate(histories_of(model)):
        if not len(h):
            continue
        answer = model.solve(u)
        positive = np.isin(np.arange(14), h)
        assert np.array_equal(answer.positive, positive)
        assert answer.gap <= 1e-10
        assert (answer.alpha >= 0).all()
        assert answer.alpha[positive].sum() == pytest.approx(1, abs=1e-10)
        assert answer.alpha[~positive].sum() == pytest.approx(1, abs=1e-10)
        theirs = reference.solve_two_simplexes(K, positive, lam_p, lam_n)
        best = reference.two_simplex_objective(K, positive, lam_p, lam_n, theirs)
        mine = reference.two_simplex_objective(K, positive, lam_p, lam_n, answer.alpha)
        assert mine <= best + 1e-8 * abs(best) + 1e-9
        # From below the gap, computed anew, is the better witness: interior points stall where K is singular.
        gap = reference.two_simplex_gap(K, positive, lam_p, lam_n, answer.alpha)
        assert gap <= 1e-10 + 1e-14 * lam_n
        found = model.block_scores(model.catalogue.histories.block(u, u + 1))[0]
        signed = np.where(positive, answer.alpha, -answer.alpha)
        assert np.allclose(found, signed @ K, atol=1e-10)


@settings(deadline=None, max_examples=10, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.01, 1.0, 1e6]),
    st.sampled_from([1.0, 100.0, 1e9]),
    st.sampled_from(["linear", "tanimoto", "rbf"]),
)
def test_scores_are_exact_and_the_same_in_any_block(seed, lam_p, lam_n, kernel):
    """Also where eigenvectors of K are left out: there are more items than are taken."""
    data = random_data(seed, users=70, items=90)
    model = fitted(komd.CFOMD(kernel=kernel, regularization=lam_p, regularization_negatives=lam_n), data)
    rows = model.catalogue.histories
    together = model.block_scores(rows)
    for size in (1, 7):
        parts = [model.block_scores(rows.block(a, min(a + size, 70))) for a in range(0, 70, size)]
        assert np.array_equal(np.concatenate(parts), together)
    finer = komd.CFOMD(kernel=kernel, regularization=lam_p, regularization_negatives=lam_n, tolerance=1e-13)
    finer = fitted(finer, data)
    assert np.allclose(finer.block_scores(rows), together, rtol=0, atol=1e-9)


ANOTHER_PROCESSOR = {"OPENBLAS_CORETYPE": "Prescott", "NUMBA_CPU_NAME": "generic"}
SCORES = """
import sys
import numpy as np
from tests.models.test_cfomd import scores_of_several_models
np.save(sys.argv[1], scores_of_several_models())
"""


def scores_of_several_models():
    data = random_data(0, users=150, items=200, density=0.1)
    answers = []
    for parameters in ({}, {"regularization_negatives": 1.0}, {"kernel": "tanimoto", "regularization": 0.0}):
        model = fitted(komd.CFOMD(**parameters), data)
        answers.append(model.block_scores(model.catalogue.histories.block(0, 40)))
    return np.array(answers)


def test_scores_are_the_same_on_another_processor(tmp_path):
    environment = {**os.environ, **ANOTHER_PROCESSOR, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", SCORES, str(tmp_path / "there.npy")], env=environment, check=True)
    assert np.allclose(np.load(tmp_path / "there.npy"), scores_of_several_models(), rtol=0, atol=1e-9)


def test_cfomd_with_a_huge_negative_regularization_approaches_ecfomd(small):
    """λ_n = 1e9: the negatives become their centroid."""
    ecf = komd.ECFOMD(tolerance=1e-10).fit(small)
    full = komd.CFOMD(regularization_negatives=1e9).fit(small)
    rows = ecf.catalogue.histories.block(0, 40)
    assert np.allclose(full.block_scores(rows), ecf.block_scores(rows), atol=1e-4)
    distances = []
    for strength in (1.0, 1e3, 1e6):
        nearer = komd.CFOMD(regularization_negatives=strength, tolerance=1e-9).fit(small)
        distances.append(np.abs(nearer.block_scores(rows) - ecf.block_scores(rows)).max())
    assert distances[0] > 10 * distances[1] > 10 * distances[2]


def test_cfomd_for_a_user_with_every_item():
    model = fitted(komd.CFOMD(), random_data(0))
    everything = list(range(20))
    answer = model.solve(history=everything)
    assert answer.alpha.sum() == pytest.approx(1)
    scores = model.block_scores(Histories.of_rows([np.arange(20, dtype=np.int32)]))[0]
    assert np.allclose(scores, matrix_of(model).mean(axis=0), atol=1e-12)


def test_unconverged_answers_are_refused(small):
    model = komd.CFOMD(max_iterations=1, tolerance=1e-9).fit(small)
    with pytest.raises(
        SolverError, match=r"problems were not solved in 1 iterations: the gap is still .* asked for 1e-09"
    ):
        model.recommend()
    with pytest.raises(SolverError):
        model.solve(small.users[0])
    with pytest.raises(SolverError):
        model.explain(small.users[0], small.items[0])
