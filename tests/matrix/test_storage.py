"""What K will weigh, before it is built."""

from __future__ import annotations

import numpy as np
import pytest

import komd
from komd.errors import InputError
from komd.kernels.functions import Linear
from komd.kernels.stages import Stages
from komd.matrix.build import build
from komd.matrix.storage import plan


def test_small_is_dense_large_and_thin_is_sparse():
    few = plan(np.full(100, 3), np.full(100, 3), memory="1GB")
    assert (few.storage, few.bytes) == ("dense", 4 * 100 * 100)
    many = plan(np.full(20_000, 3), np.full(20_000, 3), memory="1GB")
    assert many.storage == "sparse"
    assert many.bytes < 4 * 20_000**2 / 100
    full = plan(np.full(10_000, 5000), np.full(10_000, 5000), memory="1GB")
    assert full.storage == "dense"
    assert "10,000 items" in str(full)
    assert "dense, 400 MB" in str(full)


def test_dense_on_request():
    assert plan(np.full(20_000, 3), np.full(20_000, 3), memory="2GB", storage="dense").storage == "dense"
    with pytest.raises(InputError, match=r"1\.6 GB dense"):
        plan(np.full(20_000, 3), np.full(20_000, 3), memory="1GB", storage="dense")


def test_small_memory_turns_to_sparse():
    assert plan(np.full(1000, 2), np.full(1000, 2), memory="1MB").storage == "sparse"


def test_too_little_memory_is_refused_with_the_numbers():
    with pytest.raises(InputError) as refused:
        plan(np.full(10_000, 5000), np.full(10_000, 5000), memory="50MB")
    words = str(refused.value)
    for part in ("10,000 items", "400 MB dense", "sparse (estimated", "% full", "the budget is 50 MB", "raise memory="):
        assert part in words
    data = komd.generate(users=300, items=300, activity=30, tastes=3, rng=0)
    with pytest.raises(InputError, match="the budget is 10 kB"):
        komd.CFKOMD().fit(data, memory="10KB")
    with pytest.raises(InputError, match=r"CFOMD works on all of K.*the budget is 100 kB"):
        komd.CFOMD().fit(data, memory="100KB")


def test_a_streamed_k_keeps_the_values_of_pairs():
    """Eight bytes for each pair; what is held dense or sparse does not."""
    degrees = np.full(1000, 20), np.full(1000, 20)
    for storage, more in (("dense", 0), ("sparse", 0), ("streamed", 8 * 20_000)):
        plain, weighted = (plan(*degrees, storage=storage, weighted=weighted) for weighted in (False, True))
        assert weighted.bytes - plain.bytes == more
    data = komd.generate(users=300, items=300, activity=30, tastes=3, rng=0)
    rows = komd.Popularity().fit(data).catalogue.histories.rows
    values = np.full(len(rows.indices), 2, np.float32)
    plain, weighted = (
        build(Stages(Linear(), weighting=weighting), rows, 300, storage="streamed", values=values)
        for weighting in (None, "linear")
    )
    assert weighted.bytes - plain.bytes == weighted.plan.bytes - plain.plan.bytes == 8 * len(values)
