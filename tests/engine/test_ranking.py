"""Blocks of users: their size changes nothing."""

from __future__ import annotations

import pytest

from komd.engine import ranking
from tests.fitted import ITEM_BASED


@pytest.mark.parametrize("model", ITEM_BASED, ids=repr)
def test_block_sizes_change_nothing(model, small, monkeypatch):
    model = model.clone().fit(small)
    whole = model.recommend(n=10).to_arrow()
    for most in (1, 7, 1000):
        monkeypatch.setattr(ranking, "_MOST_USERS", most)
        assert model.recommend(n=10, threads=2).to_arrow().equals(whole)
