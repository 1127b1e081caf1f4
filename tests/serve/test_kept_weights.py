"""Lists of a service that keeps solved weights, against a service that solves every problem anew."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("fastapi")

import komd
from komd.serve.candidate_masks import ItemRules
from komd.serve.event_store import EventStore
from komd.serve.json_output import json_response
from komd.serve.model_arms import ModelArms, watchers
from komd.serve.schemas import Ask, Event, RecommendationList
from komd.serve.serve_settings import Settings
from komd.serve.service import Service

from .conftest import Running, same_lists, until

USERS = ["user-00003", "user-00007", "guest"]
ACTIONS = ["choose", "choose", "choose", "dislike", "withdraw", "forget", "load", "notice"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two models of the same users and items: of other interactions, that count weights, times and dislikes."""
    folder = tmp_path_factory.mktemp("models")
    data = komd.generate(users=60, items=40, activity=7, tastes=4, rng=5)
    rows, found = data.rows, []
    for k, half_life in enumerate([None, "30d"]):
        kept = np.arange(len(rows)) % 9 != k
        times = 1_600_000_000 + 86_400 * np.arange(len(rows))
        table = {
            "user": data.users.take(rows[kept]),
            "item": data.items.take(data.indices[kept]),
            "weight": 1.0 + np.arange(len(rows))[kept] % 3,
            "time": times[kept].astype("datetime64[s]"),
        }
        model = komd.CFKOMD(dislikes_weight=0.3, half_life=half_life)
        model.fit(komd.read(pa.table(table), weight="weight", time="time")).save(folder / f"{k}.komd")
        found.append(folder / f"{k}.komd")
    return found


class Pair:
    """A service, and one with the same store that keeps nothing."""

    def __init__(self, models: list[Path], folder: Path) -> None:
        self.models = models
        (folder / "model.komd").symlink_to(models[0])
        self.settings = Settings(model=folder / "model.komd", store=f"sqlite:///{folder / 'events.db'}")
        self.events = EventStore(self.settings.store)
        self.keeping, self.plain = self._service(), self._service()
        self.load(0)
        self.items = [str(item) for item in self.keeping.watcher.current.catalogue.items]
        self.ids: list[str] = []

    def _service(self) -> Service:
        rules = ItemRules({})
        return Service(ModelArms(self.settings, watchers(self.settings, rules), self.events), self.events,
                       self.settings, rules)  # fmt: skip

    def load(self, k: int) -> None:
        self.settings.model.unlink()
        self.settings.model.symlink_to(self.models[k])
        for service in (self.keeping, self.plain):
            service.watcher.reload()
        self.plain.watcher.current.model = komd.load(self.settings.model)
        self.plain.watcher.current.weights.clear()  # of the history that is tried when a model is loaded

    def post(self, user: str, item: int, **more: object) -> None:
        done, kept = self.keeping.add_events([Event(user_id=user, item_id=self.items[item], **more)])
        done.result(10)
        self.ids += kept.event_ids

    def act(self, action: str, user: str, number: int) -> None:
        if action == "choose":
            self.post(user, number, **({"weight": float(number)} if number % 2 else {}))
        elif action == "dislike":
            self.post(user, number, kind="disliked" if number % 3 else "withdrawn")
        elif action == "withdraw" and self.ids:
            self.events.withdraw(self.ids[number % len(self.ids)]).result(10)
        elif action == "forget":
            self.events.forget(user).result(10)
        elif action == "load":
            self.load(number % 2)
        elif action == "notice":
            self.keeping.drop_forgotten()

    def check(self) -> None:
        at = 1_900_000_000_000
        for explain in (False, True):
            asks = [Ask(user_id=user, n=6, explain=explain, reasons=3, at=at) for user in USERS]
            for found, expected in zip(self.keeping.recommend_all(asks), self.plain.recommend_all(asks), strict=True):
                assert same_lists(found, expected)


@pytest.mark.parametrize("seed", range(3))
def test_every_answer_is_the_one_without_a_cache(folders, tmp_path, seed):
    rng, pair = np.random.default_rng(seed), Pair(folders, tmp_path)
    counts = pair.keeping.watcher.current.weights.counts
    try:
        for _ in range(25):
            pair.act(str(rng.choice(ACTIONS)), str(rng.choice(USERS)), int(rng.integers(20)))
            pair.check()
            solved = counts.misses
            pair.check()  # nothing changed: nothing is solved again
            assert counts.misses == solved
        assert counts.hits > counts.misses
        assert len(pair.plain.watcher.current.weights) == 0
    finally:
        pair.events.close()


@pytest.mark.parametrize("forgetting", [0, 1])
def test_forgotten_users_leave_the_cache_of_every_process(settings, serving, forgetting):
    """Two services of one store: what one forgets, the other does not keep either."""
    services: list[Running] = [serving(settings), serving(settings)]
    asked = services[1]

    def counted(name: str) -> float:
        found = asked.client.get("/v1/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in found if line.startswith(f"komd_weights_{name}_total"))

    asked.get("/v1/users/user-00007/recommendations")
    assert until(lambda: counted("solved") == 3)  # with the two that are tried when the model is loaded
    found = counted("found")
    asked.get("/v1/users/user-00007/recommendations")
    assert until(lambda: counted("found") == found + 1) and counted("solved") == 3
    services[forgetting].client.delete("/v1/users/user-00003")

    def solved_again() -> bool:
        asked.get("/v1/users/user-00007/recommendations")  # it is not known whose weights are kept: none stay
        return counted("solved") > 3

    assert until(solved_again)


def test_lists_are_what_the_description_says(running):
    """They are plain dictionaries: with the fields of the schema, in its order and of its types."""
    history = [row["item_id"] for row in running.get("/v1/items", n=8)["items"]]
    for more in ({}, {"explain": True}, {"explain": True, "dislikes": [history.pop()]}, {"history": []}):
        text = running.client.post("/v1/recommend", json={"history": history, "n": 7} | more).text
        assert json_response(RecommendationList.model_validate_json(text, strict=True)).body.decode() == text
    batch = running.client.post("/v1/recommend/batch", json={"requests": [{"history": history}] * 2}).json()
    assert [RecommendationList.model_validate(one).model_dump() == one for one in batch["answers"]] == [True, True]
