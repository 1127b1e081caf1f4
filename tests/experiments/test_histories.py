"""`experiments.histories` from end to end on generated data: chosen on some rounds, compared on others."""

from __future__ import annotations

import importlib.util
import json
import sys

import numpy as np
import pytest

import komd
from experiments import histories, histories_page, histories_search, places

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("implicit") is None, reason="implicit is not installed: the extra rivals"
)
DAY = 86_400


def generated(seed: int = 0) -> komd.Interactions:
    """Pairs with weights, with times over some 200 days, and with dislikes."""
    plain = komd.generate(users=150, items=60, activity=14, rng=seed)
    rng = np.random.default_rng(seed)
    other = komd.generate(users=150, items=60, activity=14, rng=seed + 1)
    keys, others = (data.rows.astype(np.int64) * 60 + data.indices for data in (plain, other))
    return komd.Interactions(
        plain.users,
        plain.items,
        plain.indptr,
        plain.indices,
        rng.integers(900_000_000, 900_000_000 + 200 * DAY, plain.pairs),
        weights=rng.integers(1, 50, plain.pairs).astype(np.float32),
        time_unit="s",
        dislikes=komd.Interactions(plain.users, plain.items, other.indptr, other.indices).keep(~np.isin(others, keys)),
    )


def read(name: str) -> komd.Interactions | None:
    data = generated().with_dislikes(None) if "liked" not in name else generated()
    if name in ("ciao", "msd", "ml-1m-liked"):
        return None
    if name in ("msd-visible", "msd-hidden"):
        return komd.split.leave_out(data, k=3, rng=0)[name == "msd-hidden"]
    return data


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.setattr(places, "WORK", tmp_path)
    monkeypatch.setattr(places, "RESULTS", tmp_path)
    monkeypatch.setattr(histories, "read", read)
    monkeypatch.setattr(histories, "GRID", {"popularity": (0.1, 0.3), "regularization": (1.0, 10.0)})
    monkeypatch.setattr(
        histories, "FACTORS", {"factors": (4,), "iterations": (1,), "regularization": (1.0,), "alpha": (2.0, 10.0)}
    )
    monkeypatch.setattr(histories, "HALF_LIVES", ("7d", "60d"))
    monkeypatch.setattr(histories, "SESSIONS", ("1d",))
    monkeypatch.setattr(histories, "WEIGHTED_LAMBDAS", (1.0, 10.0))
    monkeypatch.setattr(histories, "THETAS", (0.0, 0.5))
    monkeypatch.setattr(histories, "DELTAS", (0.1, 1.0))
    return tmp_path / "histories.md"


def test_every_part_is_chosen_on_some_rounds_and_compared_on_others(page, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["histories"])
    histories.main()
    found = dict(histories_page.cases())
    assert found.keys() == {"ml-100k-later", "ml-100k-halves", "lastfm-plays", "msd-hidden", "ml-100k-dislikes"}
    for results in found.values():
        for row in results["rows"].values():
            assert row["inner"] == max(row["tried"].values()) and row["trials"] == len(row["tried"])
            for metric, cell in row["all"].items():
                if row["against"]:
                    mean, low, high = cell["difference"]
                    base = results["rows"][row["against"]]["all"][metric]["mean"]
                    assert mean == pytest.approx(cell["mean"] - base, abs=1e-9) and low <= mean <= high
    shown = page.read_text(encoding="utf-8")
    for title in ("## Times", "## Weights", "## Dislikes", "### lastfm", "The check of the design"):
        assert title in shown
    row = found["ml-100k-later"]["rows"]["CF-KOMD, half-life"]
    assert f"`{row['text']}`" in shown
    # Figures once more, by the library alone.
    train, test = komd.split.time(read("ml-100k"), at=0.8)
    again = komd.evaluate(komd.model_from_text(row["text"]).fit(train), test, metrics=["ndcg@100"])
    assert row["all"]["ndcg@100"]["mean"] == pytest.approx(again["ndcg@100"].mean, abs=1e-3)
    # Rerun, nothing is measured again.
    monkeypatch.setattr(komd, "evaluate", lambda *words, **options: pytest.fail("measured again"))
    histories.main()
    assert page.read_text(encoding="utf-8") == shown


def test_dislikes_that_are_unknown_are_not_masked(page):
    (case,) = histories.dislikes_cases(read)
    unknown = next(contender for contender in case.contenders if contender.blind)
    first = case.reported[0]
    assert first.train.dislikes is not None and first.dislikes is not None
    folds = histories_search._Folds([first])
    assert [fold.train.dislikes for fold in folds._of(unknown.blind)] == [None]
    users = set(first.dislikes.rows)
    assert users and users <= set(first.test.rows)  # held-out dislikes are of test users


def test_a_liked_item_before_a_dislike_is_counted_by_pairs():
    data = generated()
    train, test = next(komd.split.folds(data, rng=0))
    left = histories._held_out(data, train, test)
    model = komd.CFKOMD().fit(train)
    values = histories_search._liked_first(model, test, left)
    user = int(np.flatnonzero((test.activity > 0) & (left.activity > 0))[0])
    name = data.users.take([user])[0].as_py()
    scores = [
        {item: model.score([(name, item)]).to_arrow()["score"][0].as_py() for item in part.history(name)}
        for part in (test, left)
    ]
    pairs = [(a > b) + 0.5 * (a == b) for a in scores[0].values() for b in scores[1].values()]
    assert values[0] == pytest.approx(np.mean(pairs))


def test_the_more_played_half_is_that_of_each_user():
    test = next(komd.split.folds(generated(), rng=0))[1]
    half = histories._more_played(test)
    for user in np.flatnonzero(test.activity):
        mine, kept = (part.weights[part.indptr[user] : part.indptr[user + 1]] for part in (test, half))
        assert sorted(kept) == sorted(mine)[len(mine) // 2 :]


def test_choosing_by_what_is_reported_is_refused(page):
    case = next(histories.time_cases(read))
    with pytest.raises(komd.InputError, match="would be measured in choosing"):
        histories_search.run(case._replace(choosing=case.reported))


def test_words_say_what_the_intervals_say(tmp_path, monkeypatch):
    cells = {
        "recall@20": {"difference": [0.01, 0.002, 0.02]},
        "ndcg@100": {"difference": [-0.01, -0.02, -0.002]},
        "auc": {"difference": [0.001, -0.001, 0.003]},
    }
    words = histories_page.verdict(cells)
    assert words == (
        "higher in recall@20 (+.0100 [+.0020, +.0200]); lower in nDCG@100 (-.0100 [-.0200, -.0020]); "
        "no difference beyond chance in AUC (+.0010)"
    )
    rows = {
        "A": {"text": "CFKOMD()", "inner": 0.3, "against": None, "blind": False},
        "A, half-life": {"text": "CFKOMD(half_life='7d')", "inner": 0.2, "against": "A", "blind": False, "all": cells},
    }
    results = {"part": "time", "rows": rows}
    (sentence,) = histories_page.preferred(results, "all")
    assert "prefer to do without a half-life (.2000 with, .3000 without)" in sentence and "half_life='7d'" in sentence
    rows["A, half-life"]["inner"] = 0.4
    (sentence,) = histories_page.preferred(results, "all")
    assert "prefer a half-life (.4000 with, .3000 without)" in sentence
    assert "higher with in 0 and lower in 1" in histories_page.counted("time", [("x", results)], "all")


def test_data_that_are_absent_are_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("KOMD_DATA", str(tmp_path))
    assert histories.read("lastfm") is None and "lastfm left out" in capsys.readouterr().out
    assert json.dumps(list(histories.plays_cases(histories.read))) == "[]"
