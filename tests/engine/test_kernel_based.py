"""Models made of counts: the values of pairs reach the matrix when it is built and when it is restored."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import komd
from komd.matrix.build import build


class Weighted(komd.CFKOMD):
    """K of the weights as they are."""

    def stages(self):
        return replace(super().stages(), weighting="linear")

    def kernel_values(self, histories):
        return histories.weights


def full(matrix):
    return np.array([matrix.row(i) for i in range(matrix.items)])


def test_no_values_by_default(small):
    model = komd.MSDW().fit(small)
    assert model.kernel_values(model.catalogue.histories) is None


@pytest.mark.parametrize("storage", ["dense", "sparse", "streamed"])
def test_built_and_restored(small, storage):
    rng = np.random.default_rng(0)
    data = small.with_weights((rng.pareto(1, small.pairs) + 0.1).astype(np.float32))
    model = Weighted(storage=storage, user_damping=0.5).fit(data)
    histories, items = model.catalogue.histories, len(model.catalogue.order)
    expected = full(build(model.stages(), histories.rows, items, storage="dense", values=histories.weights))
    assert np.array_equal(full(model.matrix), expected)
    assert not np.array_equal(expected, full(komd.CFKOMD(user_damping=0.5).fit(data).matrix))
    arrays = {
        "order": model.catalogue.order,
        "history_indptr": histories.indptr,
        "history_indices": histories.indices,
        "history_weights": histories.weights,
        **model.learned_arrays(),
    }
    again = Weighted(storage=storage, user_damping=0.5)
    again._restore(arrays)
    assert np.array_equal(full(again.matrix), expected)


def test_lists_do_not_depend_on_the_storage(small):
    rng = np.random.default_rng(1)
    data = small.with_weights((rng.pareto(1, small.pairs) + 0.1).astype(np.float32))
    lists = [
        Weighted(storage=storage).fit(data).recommend(n=10).to_arrow().to_pydict()
        for storage in ("dense", "sparse", "streamed")
    ]
    assert lists[0]["item_id"] == lists[1]["item_id"] == lists[2]["item_id"]
    assert np.allclose(lists[0]["score"], lists[2]["score"], rtol=1e-5)
