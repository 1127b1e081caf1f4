"""A matrix in the arrays of a saved model: what was built comes back, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from komd.errors import ModelFileError
from komd.kernels.functions import Linear, Tanimoto
from komd.kernels.stages import Stages
from komd.matrix.build import build
from komd.matrix.saved import staged_matrix
from tests._core.arrays import random_rows, rows_of


def full(matrix):
    return np.array([matrix.row(i) for i in range(matrix.items)])


@pytest.mark.parametrize("stages", [{}, {"popularity": 0.3, "prior": 0.01}, {"ridge": 5.0, "rank": 4}], ids=str)
@pytest.mark.parametrize("kernel", [Linear(), Tanimoto()], ids=repr)
@pytest.mark.parametrize("storage", ["dense", "sparse", "streamed"])
def test_weighted_matrices_come_back(storage, kernel, stages):
    """A streamed one is counted again: from the rows and the values of pairs that the caller has."""
    rng = np.random.default_rng(3)
    rows = rows_of(random_rows(rng, 30, 20))
    values = (rng.pareto(1, len(rows.indices)) + 0.1).astype(np.float32)
    weighted = Stages(kernel, 0.5, **stages, weighting="linear")
    K = build(weighted, rows, 20, storage=storage, values=values)
    again = staged_matrix(K.arrays(), weighted, rows, 20, values=values)
    assert again.storage == K.storage
    assert np.array_equal(full(again), full(K))
    if storage == "streamed":
        assert not np.array_equal(full(staged_matrix(K.arrays(), weighted, rows, 20)), full(K))
        with pytest.raises(ModelFileError, match="saved weights"):
            staged_matrix(K.arrays(), weighted, rows, 20, values=values[1:])
