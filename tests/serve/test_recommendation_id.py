"""Ids of recommendations: they say who made the list and when, and cannot be made without the key."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from komd.serve.recommendation_id import LENGTH, RecommendationIds, recommendation_of

IDS = RecommendationIds(b"k" * 32)


@given(st.binary(min_size=6, max_size=6), st.integers(0, 255))
def test_an_id_says_what_it_was_made_of(release, arm):
    before = int(time.time()) // 86_400
    made = IDS.new(release.hex(), arm)
    assert re.fullmatch(r"[A-Za-z0-9_-]{32}", made) and len(made) == LENGTH
    assert IDS.verified(made) and made != IDS.new(release.hex(), arm)
    said = recommendation_of(made)
    assert said[:2] == (release.hex(), arm) and before <= said.day <= int(time.time()) // 86_400


def test_any_other_text_is_refused():
    made = IDS.new("ab" * 6, 0)
    assert not RecommendationIds(b"other").verified(made)
    for k in range(LENGTH):
        changed = made[:k] + ("A" if made[k] != "A" else "B") + made[k + 1 :]
        assert not IDS.verified(changed), k


@pytest.mark.parametrize("text", ["", "x", "ä" * 32, "A" * 31, "A" * 32, "A" * 33, "A" * 64, "=" * 32, "+/" * 16, "\n"])
def test_texts_that_are_no_ids(text):
    assert not IDS.verified(text)


def test_nothing_may_follow_an_id():
    made = IDS.new("ab" * 6, 0)
    for changed in (made + "\n", made + "A", made + "====", made + " ", made[:-1]):
        assert not IDS.verified(changed)
