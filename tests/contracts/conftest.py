"""Every model fitted on the small data, once in each process."""

from __future__ import annotations

import pytest

from tests.contracts.variants import EVERY, HAS_IMPLICIT, RIVALS

_FITTED = {}


@pytest.fixture(autouse=True)
def _installed(request):
    params = getattr(getattr(request.node, "callspec", None), "params", {})
    if type(params.get("model")).__name__ in RIVALS and not HAS_IMPLICIT:
        pytest.skip("implicit is not installed: the extra rivals")


@pytest.fixture(params=EVERY, ids=repr)
def model(request, small):
    """Every model, fitted on the small data."""
    key = repr(request.param)
    if key not in _FITTED:
        _FITTED[key] = request.param.clone().fit(small)
    return _FITTED[key]
