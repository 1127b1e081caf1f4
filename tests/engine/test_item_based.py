"""Weighted sums of rows of a matrix, however it is held."""

from __future__ import annotations

import numpy as np
import pytest

import komd
from tests.fitted import ITEM_BASED


@pytest.mark.parametrize("held", ["dense", "sparse"])
def test_dense_is_sparse(small, held, request):
    models = [model for model in ITEM_BASED if getattr(model, "regularization", 0) > 0]
    dense = [model.clone().fit(small) for model in models]
    request.getfixturevalue("held_sparse")
    thin = [model.clone().fit(small) for model in models]
    for a, b in zip(dense, thin, strict=True):
        assert (a.matrix.storage, b.matrix.storage) == ("dense", "sparse")
        rows = a.catalogue.histories
        assert np.allclose(a.block_scores(rows), b.block_scores(rows), atol=1e-10)


def test_an_interrupted_fit_leaves_what_was_learned_before(monkeypatch):
    first, second = (komd.generate(users=90, items=items, activity=6, rng=items) for items in (40, 55))
    model = komd.CFKOMD().fit(first)
    lists = model.recommend(n=5).to_arrow()
    with monkeypatch.context() as patch:
        patch.setattr("komd.matrix.dense.DenseMatrix.sums", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            model.fit(second)
    assert model.recommend(n=5).to_arrow().equals(lists)
