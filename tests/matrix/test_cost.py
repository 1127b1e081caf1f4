"""What K will cost: bytes against kernels that are built, seconds in proportion (a clock is not tested)."""

from __future__ import annotations

import numpy as np
import pytest

import komd
from komd.engine.catalogue import Catalogue
from komd.kernels.functions import Linear
from komd.matrix import cost as module
from komd.matrix.cost import costs, seconds
from komd.matrix.density import exact_density, work_of
from tests.matrix.held import held


@pytest.fixture(autouse=True)
def known_speed(monkeypatch):
    monkeypatch.setattr(module, "machine_speed", lambda storage, workers: 1.0)


@pytest.mark.parametrize(
    "shape",
    [
        {"users": 400, "items": 150, "activity": 20},
        {"users": 200, "items": 1200, "activity": 6},
        {"users": 1500, "items": 300, "activity": 4},
        {"users": 60, "items": 900, "activity": 90},
    ],
)
def test_bytes_are_those_of_the_kernel(shape):
    data = komd.generate(**shape, tastes=3, rng=0)
    rows = Catalogue.of(data).histories
    users, items = data.shape
    density = exact_density(data.indptr, data.indices, items).value
    for cost in costs(users, items, data.pairs, work_of(data.activity), density)[:2]:
        built = held(Linear(), *rows.rows, items, cost.storage)
        assert cost.bytes == pytest.approx(built.bytes, rel=0.001)


def test_seconds_grow_with_the_work():
    base = costs(1000, 5000, 50_000, 10**8, 0.05)
    busier = costs(1000, 5000, 50_000, 10**9, 0.05)
    fuller = costs(1000, 5000, 50_000, 10**8, 0.5)
    larger = costs(1000, 200_000, 50_000, 10**8, 0.05 / 1600)
    for k in range(3):
        assert busier[k].seconds > base[k].seconds
        assert larger[k].seconds > base[k].seconds  # counters out of the cache
    assert fuller[0].seconds == base[0].seconds
    assert fuller[1].seconds > base[1].seconds and fuller[2].seconds > base[2].seconds


def test_what_fits():
    dense, sparse, _ = costs(1000, 20_000, 50_000, 10**7, 0.001, memory="100MB")
    assert not dense.fits and sparse.fits
    assert "does not fit" in str(dense) and "sparse: 3." in str(sparse)


def test_the_machine_is_timed_once(monkeypatch):
    monkeypatch.undo()
    first = module.machine_speed("sparse", 1)
    assert np.isfinite(first) and first > 0 and module.machine_speed("sparse", 1) == first


def test_words_for_seconds():
    assert [seconds(value) for value in (0.01, 0.5, 12.3, 120, 9000)] == [
        "under 0.1 s",
        "0.5 s",
        "12 s",
        "2.0 min",
        "2.5 h",
    ]
