"""The work folder: rows are named by everything their results depend on."""

from __future__ import annotations

import numpy as np
import pytest

import komd
from komd.evaluation import work_folder as work


@pytest.fixture(scope="module")
def data():
    return komd.generate(users=150, items=60, activity=10, tastes=4, rng=3)


def test_every_part_of_the_protocol_counts(tmp_path):
    def folder(data="x", model="MSDW()", **change):
        asked = {"folds": 5, "half": "random", "min_activity": 5, "rng": 0, "metrics": ("auc",), "ties": "half"}
        return work.row_folder(tmp_path, data, work.ComparisonProtocol(**(asked | change)), model).path

    changes = ({"folds": 4}, {"half": "given"}, {"min_activity": 6}, {"rng": 1}, {"ties": "strict"})
    more = ({"metrics": ("auc", "hit@5")}, {"data": "y"}, {"model": "MSDW(alpha=1)"})
    assert len({folder(**change) for change in ({}, *changes, *more)}) == 9
    assert folder() == folder()


def test_times_are_part_of_the_data(data):
    from komd.data.interactions import Interactions

    def timed(times):
        return Interactions(data.users, data.items, data.indptr, data.indices, times)

    marks = {work.fingerprint(timed(t)) for t in (None, np.arange(data.pairs), np.arange(data.pairs)[::-1].copy())}
    assert len(marks) == 3
