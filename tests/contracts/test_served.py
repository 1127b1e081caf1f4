"""Every model behind the HTTP API: the lists and the reasons are the library's."""

from __future__ import annotations

import pytest

from tests.contracts.variants import ROUNDS_BY_BLOCK

pytest.importorskip("fastapi", reason="no fastapi: the extra serve")

from komd.errors import ModelFileError
from komd.serve.app import create
from komd.serve.serve_settings import Settings
from tests.serve.conftest import Running


@pytest.fixture
def settings(model, tmp_path):
    model.save(tmp_path / "m.komd")
    return Settings(model=tmp_path / "m.komd", store=f"sqlite:///{tmp_path / 'events.db'}")


def test_lists_reasons_and_similar_items_are_the_librarys(model, settings, small):
    if not model.serves_strangers:
        with pytest.raises(ModelFileError, match=f"{type(model).__name__} serves only .* a service must answer to"):
            create(settings)
        return
    close = {"abs": 1e-12} if type(model).__name__ in ROUNDS_BY_BLOCK else {"abs": 0, "rel": 0}
    users = list(small.users)[::5]
    expected = {user: [] for user in users}
    for row in model.recommend(users, n=5).to_arrow().to_pylist():
        expected[row["user_id"]].append(row)
    asks = [{"user_id": user, "n": 5} for user in users]
    asks += [{"history": small.history(user), "n": 5, "explain": True, "reasons": 100} for user in users]
    service = Running(settings)
    try:
        answers = service.post("/v1/recommend/batch", {"requests": asks})["answers"]
        similar = service.get(f"/v1/items/{small.items[3]}/similar", n=4)["items"]
        assert service.get("/v1/model")["model"] == model.text
    finally:
        service.stop()
    for user, found in zip(users * 2, answers, strict=True):
        assert [row["item_id"] for row in found["items"]] == [row["item_id"] for row in expected[user]]
        scores = [row["score"] for row in expected[user]]
        assert [row["score"] for row in found["items"]] == pytest.approx(scores, **close)
        assert not found["fallback"] and found["unknown_items"] == []
    for user, found in zip(users, answers[len(users) :], strict=True):
        for row in found["items"]:
            why = model.explain(user, row["item_id"])
            parts = dict(zip(*(why.to_arrow()[name].to_pylist() for name in ("item_id", "contribution")), strict=True))
            told = {part["item_id"]: part["contribution"] for part in row["why"]["contributions"]}
            assert told == pytest.approx(parts, abs=1e-12)  # of several items at once: sums may round otherwise
            assert row["why"]["global_term"] == pytest.approx(why.global_term, abs=1e-12)
            assert row["why"]["others"]["items"] == 0
    near = model.similar_items([small.items[3]], n=4).to_arrow()
    assert [row["item_id"] for row in similar] == near["item_id"].to_pylist()
    assert [row["similarity"] for row in similar] == pytest.approx(near["score"].to_pylist(), **close)
