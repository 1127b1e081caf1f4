"""Products through the pairs: the linear kernel itself, written out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import komd
from komd._core.groups import Rows
from komd.kernels import Linear
from komd.kernels.stages import Stages
from komd.matrix import build as building
from komd.matrix import pair_products
from komd.matrix.eigenvectors import leading
from komd.matrix.from_counts import matrix_from_counts
from komd.matrix.pair_products import PairProducts


def some_rows(rng, users, items):
    R = rng.random((users, items)) < rng.uniform(0.05, 0.5)
    R = R[:, np.argsort(-R.sum(axis=0), kind="stable")]
    lengths = R.sum(axis=1)
    return Rows(np.append(0, np.cumsum(lengths)).astype(np.int64), np.nonzero(R)[1].astype(np.int32))


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 30), st.integers(1, 150))
def test_they_are_those_of_the_kernel(seed, users, items, width):
    rng = np.random.default_rng(seed)
    rows = some_rows(rng, users, items)
    stages = Stages(Linear(), user_damping=float(rng.choice([0, 0.5, 1])), popularity=float(rng.choice([0, 0.3])))
    if rng.random() < 0.5:
        stages = replace(stages, weighting="linear")
    entries = stages.entries(rows, items, (rng.pareto(1, len(rows.indices)) + 0.1).astype(np.float32))
    assert (entries.pair_values is None) == (stages.weighting is None or not len(rows.indices))
    K = matrix_from_counts(entries, rows, "dense", 1)
    found, X = PairProducts(entries, rows), rng.standard_normal((items, width)).astype(np.float32)
    exact = K.values.astype(float) @ X
    assert np.allclose(found.multiply(X), exact, rtol=0, atol=1e-4 * max(1.0, float(np.abs(exact).max())))
    assert np.array_equal(found.diagonal(), K.diagonal())


def test_threads_and_blocks_of_pairs_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    rows = some_rows(rng, 300, 80)
    entries, X = Stages(Linear()).entries(rows, 80), rng.standard_normal((80, 70)).astype(np.float32)
    done = []
    first = PairProducts(entries, rows).multiply(X, threads=1, advance=done.append)
    assert sum(done) == pytest.approx(80)
    monkeypatch.setattr(pair_products, "_PAIRS", 100)
    monkeypatch.setattr(pair_products, "_COLUMNS", 7)
    assert np.array_equal(PairProducts(entries, rows).multiply(X, threads=2), first)


@pytest.mark.parametrize(("kernel", "through_pairs"), [("linear", True), ("tanimoto", False)])
@pytest.mark.parametrize("storage", ["sparse", "streamed"])
def test_eigenvectors_are_found_through_the_pairs_where_k_has_more_entries(kernel, through_pairs, storage, monkeypatch):
    asked = []
    monkeypatch.setattr(building, "leading", lambda K, *rest, **more: asked.append(K) or leading(K, *rest, **more))
    data = komd.generate(users=150, items=150, activity=12, rng=3)
    komd.CFKOMD(kernel=kernel, ridge=20.0, rank=24, storage=storage).fit(data)
    assert isinstance(asked[0], PairProducts) == through_pairs
    # A few users with many items each: more pairs than half of the entries there can be.
    komd.CFKOMD(kernel=kernel, ridge=20.0, rank=4, storage="sparse").fit(
        komd.generate(users=200, items=30, activity=20, rng=3)
    )
    assert not isinstance(asked[1], PairProducts)
