"""ECF-OMD is CF-KOMD with the linear kernel, to the last bit."""

from __future__ import annotations

import pytest

import komd
from komd.kernels import DotProduct, Linear, Polynomial


@pytest.mark.parametrize("negatives", ["exact", "mean"])
@pytest.mark.parametrize("regularization", [0.0, 0.01, 1.0])
def test_ecfomd_is_cfkomd_with_the_linear_kernel(small, negatives, regularization):
    settings = {"negatives": negatives, "regularization": regularization}
    ecf = komd.ECFOMD(**settings).fit(small).recommend(n=10)
    for kernel in ("linear", Linear(), Polynomial(degree=1, c=2), DotProduct([7, 3])):
        kernelled = komd.CFKOMD(kernel=kernel, **settings).fit(small).recommend(n=10)
        assert kernelled.to_arrow().equals(ecf.to_arrow())
