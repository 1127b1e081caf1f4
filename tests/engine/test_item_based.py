"""Weighted sums of rows of a matrix, however it is held."""

from __future__ import annotations

import numpy as np
import pytest

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
