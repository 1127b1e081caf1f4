"""`experiments.learning` from end to end on generated data: a day replayed, asked before it is learned."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import komd
from experiments import learning, learning_page, learning_replay, places
from experiments.learning_replay import LEARNING, NIGHT, OTHERS, REFITS, Record, Stream


def generated(seed: int = 0) -> komd.Interactions:
    """Pairs with times of few different values, so that many are equal."""
    plain = komd.generate(users=60, items=40, activity=9, rng=seed)
    times = np.random.default_rng(seed).integers(900_000_000, 900_000_100, plain.pairs)
    return komd.Interactions(plain.users, plain.items, plain.indptr, plain.indices, times, time_unit="s")


@pytest.fixture(scope="module")
def day() -> tuple[Stream, dict[str, Record]]:
    stream = Stream.of(generated())
    return stream, learning_replay.replay(stream, "ECFOMD()")


def test_events_come_by_time_with_the_history_before_them():
    data = generated()
    stream = Stream.of(data)
    moment = {
        (user, item): time
        for user, item, time in zip(
            data.users.take(data.rows).to_pylist(), data.items.take(data.indices).to_pylist(), data.times, strict=True
        )
    }
    pairs = stream.pairs(0, len(stream))
    assert sorted(pairs) == sorted(moment)
    assert [moment[pair] for pair in pairs] == sorted(moment.values())
    histories = stream.histories(100, 200)
    for event in range(100, 200):
        earlier = [item for user, item in pairs[:event] if user == pairs[event][0]]
        assert histories.get(event, []) == earlier
    hours = [stream.hour(hour) for hour in range(25)]
    assert hours[0] == len(stream) // 5 and hours[-1] == len(stream) and hours == sorted(hours)


@pytest.mark.filterwarnings("ignore::komd.FallbackWarning")
def test_every_contender_is_asked_before_the_event_is_learned(day):
    """Hits again, one event at a time, from models that are fitted from scratch to what each contender knew."""
    stream, records = day
    asked = np.flatnonzero(stream.rank[stream.start :]) + stream.start
    for label in (*REFITS, LEARNING):
        assert np.array_equal(np.flatnonzero(~np.isnan(records[label].hits)), asked)
    for event in asked[::7].tolist():
        hour = max(hour for hour in range(24) if stream.hour(hour) <= event)
        begin = stream.hour(hour)
        learned = {label: stream.hour(hour - hour % hours) for label, hours in REFITS.items()}
        learned[LEARNING] = begin + (event - begin) // learning_replay.BATCH * learning_replay.BATCH
        for label, end in learned.items():
            model = komd.ECFOMD().fit(stream.pairs(0, end))
            history = [item for user, item in stream.pairs(0, event) if user == stream.users[event]]
            found = model.recommend(histories=[history], n=20, on_unknown="skip")
            assert records[label].hits[event] == (stream.items[event] in found.table.column("item_id").to_pylist())
            known = stream.items[event] in {item for _, item in stream.pairs(0, end)}
            assert records[label].unknown[event] == (not known)


def test_others_are_a_model_that_never_saw_the_user(day):
    stream, records = day
    sample = np.flatnonzero(~np.isnan(records[OTHERS].hits))
    assert 0 < len(sample) < len(stream) / 5
    for event in sample.tolist():
        hour = max(hour for hour in range(24) if stream.hour(hour) <= event)
        begin = stream.hour(hour)
        end = begin + (event - begin) // learning_replay.BATCH * learning_replay.BATCH
        pairs = [pair for pair in stream.pairs(0, end) if pair[0] != stream.users[event]]
        alone = Record.of(len(stream))
        learning_replay.ask(komd.ECFOMD().fit(pairs), stream, event, event + 1, alone)
        assert records[OTHERS].hits[event] == alone.hits[event]


def test_a_model_that_is_not_the_fit_is_reported(monkeypatch):
    stream = Stream.of(generated())
    first, second = (komd.ECFOMD().fit(stream.pairs(0, end)) for end in (300, 301))
    assert learning_replay.different(first, komd.ECFOMD().fit(stream.pairs(0, 300))) == []
    assert "history_indices" in learning_replay.different(first, second)
    monkeypatch.setattr(learning_replay, "different", lambda *models: ["S"])
    with pytest.raises(komd.InputError, match="is not the model fitted to them: S differ"):
        learning_replay.replay(stream, "Popularity()")


def test_differences_are_over_events_and_resample_users():
    hits, others, users = np.array([1.0, 1, 1, 0]), np.array([0.0, 0, 0, 1]), np.array([1, 1, 1, 2])
    assert learning.by_user(hits, users).mean() == pytest.approx(hits.mean())
    mean, low, high = learning.difference(hits, others, users)
    assert mean == 0.5 and low < 0 < high  # two users, one each way: nothing is certain, whatever the number of events


def test_from_data_to_page(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    for name in ("WORK", "RESULTS"):
        monkeypatch.setattr(places, name, tmp_path)
    monkeypatch.setattr(learning, "read", lambda name: generated() if name == "ciao" else None)
    monkeypatch.setattr(sys, "argv", ["learning", "--page"])
    learning.main()
    assert "Not measured yet" in (tmp_path / "learning.md").read_text(encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["learning"])
    learning.main()
    page = (tmp_path / "learning.md").read_text(encoding="utf-8")
    results = json.loads((tmp_path / "learning.json").read_text(encoding="utf-8"))
    assert [each["label"] for each in results["ciao"]["methods"].values()] == list(learning.METHODS)
    rows = results["ciao"]["methods"]["Popularity()"]["contenders"]
    mean = rows[LEARNING]["recall"] - rows[NIGHT]["recall"]
    assert rows[NIGHT]["difference"][0] == pytest.approx(mean, abs=1e-5)
    assert f"| Popularity, {LEARNING} | {places.short(rows[LEARNING]['recall'])} |  |" in page
    assert "3 methods on CiaoDVD" in page and "ML-100K, " not in page
    assert "figures/learning.svg" in page and (tmp_path / "figures" / "learning.svg").exists()
    monkeypatch.setattr(learning, "replay", lambda *words: pytest.fail("measured again"))
    learning.main()


def test_sentences_follow_the_figures():
    rows = {
        label: {"recall": 0.2, "difference": cell, "difference known": [0.001, -0.002, 0.004]}
        for label, cell in ((NIGHT, [-0.01, -0.02, -0.005]), ("every hour", [0.0, -0.01, 0.01]), (LEARNING, [0, 0, 0]))
    }
    own = {"others": [0.02, 0.01, 0.03], "own": [0.0, -0.01, 0.01]}
    words = learning_page.in_short("ciao", {"methods": {"M()": {"label": "M", "contenders": rows, "own": own}}})
    words = " ".join(words.split())
    assert "worse than the model of the night before (-.0100 [-.0200, -.0050])" in words
    assert "no difference beyond chance from hourly refits" in words
    assert "What others did since then: +.0200 [+.0100, +.0300]; what the user did: nothing beyond chance" in words
