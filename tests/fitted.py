"""Models of the paper's family, fitted on small data, and what is inside them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse

import komd
from komd.kernels import Polynomial

ITEM_BASED = [
    komd.ECFOMD(),
    komd.ECFOMD(negatives="mean"),
    komd.CFKOMD(),
    komd.CFKOMD(kernel=Polynomial(degree=2, c=4), regularization=0.1, negatives="mean"),
    komd.CFKOMD(kernel="rbf", regularization=0.0),
    komd.CFKOMD(kernel="jaccard"),
    komd.Popularity(),
]
EVERY = [*ITEM_BASED, komd.CFOMD(), komd.CFOMD(kernel="tanimoto", regularization_negatives=0.1, tolerance=1e-9)]
SOLVING = [model for model in EVERY if not isinstance(model, komd.Popularity)]


def matrix_of(model):
    """K of a fitted model in inside numbers, whole, float64."""
    if isinstance(model, komd.CFOMD):
        return model._kernel.K.astype(float)
    K = model.matrix
    return np.array([K.row(i) for i in range(K.items)], float)


def histories_of(model):
    rows = model.catalogue.histories
    return [rows.indices[a:b] for a, b in zip(rows.indptr[:-1], rows.indptr[1:], strict=True)]


def random_data(seed, users=30, items=20, density=0.25):
    """Users of all kinds: random ones, one with one item, one with every item; items nobody has, and twins."""
    rng = np.random.default_rng(seed)
    R = rng.random((users, items)) < density
    R[:, 3] = R[:, 4]
    R[0] = False
    R[0, 5] = True
    R[:, 7] = False
    R[1] = True
    R[1, 7] = False
    return R


def fitted(model, R):
    return model.clone().fit(sparse.csr_array(R.astype(np.float32)))
