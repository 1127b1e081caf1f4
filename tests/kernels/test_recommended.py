"""The rule that chooses parameters from the shape of the data."""

from __future__ import annotations

import numpy as np
import pytest

import komd
from komd.errors import InputError
from komd.kernels import recommended as rule


def test_what_is_recommended_follows_the_rule():
    many = komd.generate(users=3000, items=100, activity=10, rng=0)  # 300 users an item
    assert (
        komd.CFKOMD.recommended(many).get_params()
        == komd.CFKOMD(
            regularization=1.0, user_damping=0.5, popularity=0.3, ridge=10.0, prior=0.003, negatives_weight=0.5
        ).get_params()
    )
    middling = komd.CFKOMD.recommended(komd.generate(users=150, items=1000, activity=60, rng=0))
    assert (middling.ridge, middling.rank, middling.popularity, middling.prior) == (40.0, 96, 0.2, 0.0)
    assert middling.head == 0.5
    for activity in (3, 16):
        few = komd.generate(users=150, items=1000, activity=activity, rng=0)  # at most 9 users an item
        found = komd.CFKOMD.recommended(few)
        expected = min(0.8, round(2 / np.sqrt(few.pairs / np.count_nonzero(few.activity)), 1))
        assert found.ridge is None and found.popularity == pytest.approx(expected)
        assert komd.model_from_text(found.text).get_params() == found.get_params()
    assert komd.CFKOMD.recommended(many, memory="100kB").ridge is None  # a filter would not fit
    with pytest.raises(InputError, match="ECFOMD is the paper's method as it stands"):
        komd.ECFOMD.recommended(many)
    with pytest.raises(InputError, match="nothing to learn from"):
        komd.CFKOMD.recommended(many.keep(np.zeros(many.pairs, bool)))


def test_a_large_catalogue_gets_a_head_where_it_fits(monkeypatch):
    data = komd.generate(users=900, items=400, activity=20, rng=0)
    monkeypatch.setattr(rule, "_FILTERED", 300)
    large = komd.CFKOMD(
        kernel="linear",
        regularization=1.0,
        user_damping=0.75,
        popularity=0.15,
        ridge=30.0,
        rank=512,
        head=2.0,
        negatives_weight=0.0,
    )
    assert komd.CFKOMD.recommended(data).get_params() == large.get_params()
    assert komd.CFKOMD.recommended(data, memory="1MB").head == 0.0
    monkeypatch.setattr(rule, "_LARGE", 350)  # beyond what was measured
    assert komd.CFKOMD.recommended(data).head == 0.0
    monkeypatch.undo()
    monkeypatch.setattr(rule, "_FILTERED", 300)
    short = komd.generate(users=900, items=400, activity=8, rng=0)
    assert komd.CFKOMD.recommended(short).head == 0.0


def test_weights_do_not_count():
    data = komd.generate(users=200, items=60, activity=8, rng=0)
    weighted = data.with_weights(np.full(data.pairs, 2.0, np.float32))
    expected = komd.CFKOMD.recommended(data).get_params() | {"weighting": "none"}
    assert komd.CFKOMD.recommended(weighted).get_params() == expected
