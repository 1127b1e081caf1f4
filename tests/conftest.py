"""What many tests share: small synthetic data, data with an obvious right answer, and the real data where it is."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.work_units import pytest_collection_modifyitems, pytest_xdist_make_scheduler  # noqa: F401

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def small():
    """120 users, 50 items, planted tastes: large enough to have a shape, small enough for the twins."""
    import komd

    return komd.generate(users=120, items=50, activity=9, tastes=4, rng=7)


@pytest.fixture(scope="session")
def checkerboard():
    """Two kinds of users, two kinds of items: even users have even items, odd users odd ones.

    Every user lacks exactly one item of their own colour, so the first place of each list is beyond dispute:
    `answers[user]` is that item.
    """
    from komd.data.read import read

    pairs, answers = [], {}
    for number in range(24):
        colour = number % 2
        own = [f"{'odd' if colour else 'even'}-{k}" for k in range(6)]
        missing = own[(number // 2) % 6]
        answers[f"person-{number:02d}"] = missing
        pairs += [(f"person-{number:02d}", item) for item in own if item != missing]
    table = pa.table({"user_id": [u for u, _ in pairs], "item_id": [i for _, i in pairs]})
    return read(table), answers


@pytest.fixture(scope="session")
def real_data():
    """The folder of real data sets; the test is skipped where there is none."""
    folder = Path(os.environ.get("KOMD_DATA") or ROOT.parent / "shared" / "data")
    folder = folder if folder.is_absolute() else ROOT / folder
    if not folder.is_dir():
        pytest.skip(f"no real data in {folder}: set KOMD_DATA to the folder that holds it")
    return folder


@pytest.fixture(scope="session")
def ml_1m(real_data):
    import komd

    return komd.read(real_data / "ml-1m" / "ratings.csv.gz", weight=False)


@pytest.fixture
def held_sparse(monkeypatch):
    """Kernels are held sparse from the first item on (small data would be dense)."""
    from komd.matrix import storage as plan

    monkeypatch.setattr(plan, "_SMALL", 0)
    monkeypatch.setattr(plan, "_FULL", np.inf)
