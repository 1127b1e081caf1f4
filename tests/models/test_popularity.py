"""Popularity: counts as scores, the same order for everybody."""

from __future__ import annotations

import pytest

import komd


@pytest.fixture(scope="module")
def model(small):
    return komd.Popularity().fit(small)


def by_popularity(data):
    counts = dict(zip(data.items, data.popularity.tolist(), strict=True))
    return counts, sorted(data.items, key=lambda item: (-counts[item], item))


def test_scores_are_counts_and_equal_ones_go_by_id(model, small):
    counts, order = by_popularity(small)
    for user in list(small.users)[::17]:
        found = model.recommend(user, n=len(order), exclude_seen=False).to_arrow()
        assert found["item_id"].to_pylist() == order
        assert found["score"].to_pylist() == [counts[item] for item in order]
        unseen = [item for item in order if item not in set(small.history(user))]
        assert model.recommend(user, n=8).items(user) == unseen[:8]


def test_a_history_changes_only_what_is_left_out(model, small):
    _, order = by_popularity(small)
    found = model.recommend(histories={"a": order[:3], "b": order[-1:]}, n=4)
    assert found.items("a") == order[3:7]
    assert found.items("b") == order[:4]


def test_the_whole_score_is_the_global_term(model, small):
    counts, order = by_popularity(small)
    why = model.explain(small.users[0], order[0])
    assert why.score == why.global_term == counts[order[0]]
    assert set(why.to_arrow()["contribution"].to_pylist()) == {0.0}


def test_no_item_is_like_another(model, small):
    assert len(model.similar_items(list(small.items)[:5])) == 0


def test_saved_and_loaded(model, small, tmp_path):
    model.save(tmp_path / "m.komd")
    assert komd.load(tmp_path / "m.komd").recommend(n=5).to_arrow().equals(model.recommend(n=5).to_arrow())


def test_there_are_no_parameters():
    assert komd.Popularity().get_params() == {}
    with pytest.raises(komd.InputError, match="Popularity"):
        komd.model_from_text("Popularity(alpha=1)")
