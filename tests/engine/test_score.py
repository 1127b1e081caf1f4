"""Scores of given pairs are those of recommendations and explanations, for every model, storage and kind of input."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pytest

import komd
from komd.engine import recommender
from komd.engine import streamed_ranking as streaming
from komd.errors import FallbackWarning, InputError, UnknownIdError

STREAMED = [
    komd.ECFOMD(storage="streamed"),
    komd.CFKOMD(kernel="jaccard", negatives="mean", storage="streamed"),
    komd.CFKOMD(user_damping=0.5, popularity=0.2, ridge=30.0, rank=13, prior=0.01, storage="streamed"),
    komd.MSDW(alpha=0.15, locality=3, storage="streamed"),
    komd.RP3Beta(storage="streamed"),
]


@pytest.fixture(scope="module")
def data():
    return komd.generate(users=90, items=60, activity=10, rng=2)


def pairs_of(data, seed, size):
    rng = np.random.default_rng(seed)
    users, items = (rng.integers(0, len(ids), size).tolist() for ids in (data.users, data.items))
    return [(data.users[u], data.items[i]) for u, i in zip(users, items, strict=True)]


def everything(model, **how):
    """All scores, by recommending everything."""
    rows = model.recommend(n=len(model.catalogue.items), exclude_seen=False, **how).to_arrow().to_pylist()
    return {(row["user_id"], row["item_id"]): row["score"] for row in rows}


@pytest.mark.parametrize("model", STREAMED, ids=repr)
@pytest.mark.parametrize("room", [None, 40_000])
def test_streamed_scores_are_those_of_lists_to_the_last_bit(model, room, data, monkeypatch):
    model = model.clone().fit(data)
    expected, wanted = everything(model), pairs_of(data, 1, 500)
    if room is not None:  # several groups, and rows of several pieces
        monkeypatch.setattr(streaming, "room_for", lambda memory: room)
        monkeypatch.setattr(recommender, "_TARGETS", 3)
    made = []
    block = type(model.matrix).row
    monkeypatch.setattr(type(model.matrix), "row", lambda self, item: made.append(item) or block(self, item))
    monkeypatch.setattr(type(model.matrix), "strips", lambda *_, **__: pytest.fail("all of K was computed"))
    found = model.score(wanted).to_arrow()
    assert found["score"].to_pylist() == [expected[pair] for pair in wanted]
    assert not made


@pytest.mark.parametrize(
    "model", [*STREAMED, komd.CFKOMD(), komd.CFKOMD(ridge=30.0, rank=12, storage="sparse")], ids=repr
)
def test_explanations_have_the_same_score(model, data):
    model = model.clone().fit(data)
    for user, item in pairs_of(data, 3, 8):
        assert model.explain(user, item).score == model.score([(user, item)]).to_arrow()["score"][0].as_py()


def test_what_pairs_may_be(data, tmp_path):
    model = komd.CFKOMD().fit(data)
    wanted = pairs_of(data, 4, 30)
    wanted += wanted[:5]  # repeated
    users, items = ([pair[k] for pair in wanted] for k in (0, 1))
    table = pa.table({"score": [0.0] * 35, "item_id": items, "user_id": users})  # a rating of 0 drops nothing
    expected = model.score(wanted)
    assert expected.to_arrow().select(["user_id", "item_id"]).to_pylist() == [
        {"user_id": user, "item_id": item} for user, item in wanted
    ]
    (tmp_path / "pairs.tsv").write_text("".join(f"{user}\t{item}\n" for user, item in wanted))
    named = pa.table({"left": items, "right": users, "other": items})
    for given in (table, table.to_pandas(), tmp_path / "pairs.tsv", np.array(wanted)):
        assert model.score(given).to_arrow().equals(expected.to_arrow())
    assert model.score(named, user="right", item="left").to_arrow().equals(expected.to_arrow())
    whole = model.score(data).to_arrow()
    assert whole.select(["user_id", "item_id"]).equals(data.to_arrow().select(["user_id", "item_id"]))
    assert repr(expected).startswith("Scores(35 rows)\nuser_id")
    with pytest.raises(InputError, match="choose with user= and item="):
        model.score(named)


def test_ids_in_text_are_of_the_models_kind(tmp_path):
    numbers = komd.CFKOMD().fit([(1, 10), (1, 20), (2, 10), (2, 30), (3, 20)])
    texts = komd.CFKOMD().fit([("1", "10"), ("1", "x"), ("2", "10"), ("2", "30"), ("3", "x")])
    (tmp_path / "digits.csv").write_text("user,item\n1,10\n2,30\n")
    (tmp_path / "mixed.csv").write_text("user,item\n1,10\nana,30\n2,y\n2,30\n")
    assert numbers.score(tmp_path / "digits.csv").to_arrow()["user_id"].to_pylist() == [1, 2]
    assert texts.score(tmp_path / "digits.csv").to_arrow()["user_id"].to_pylist() == ["1", "2"]
    found = numbers.score(tmp_path / "mixed.csv", on_unknown="skip")
    assert found.to_arrow()["item_id"].to_pylist() == [10, 30] and found.skipped == 2
    with pytest.raises(InputError, match="'ana' is not a user id: these are integers"):
        numbers.score(tmp_path / "mixed.csv")


def test_strangers(data):
    model = komd.CFKOMD(storage="streamed", prior=0.01).fit(data)
    names = {"guest": data.history(data.users[3]), "bo": [data.items[5]], "ana": [data.items[7], data.items[9]]}
    wanted = [(name, data.items[k]) for k in range(20) for name in ("guest", "ana", "bo")]
    expected = everything(model, histories=names)
    assert model.score(wanted, histories=names).to_arrow()["score"].to_pylist() == [expected[pair] for pair in wanted]
    known = model.score([(data.users[3], item) for _, item in wanted]).to_arrow()["score"]
    guest = model.score([("guest", item) for _, item in wanted], histories=names).to_arrow()["score"]
    assert guest.equals(known)
    by_place = model.score([(1, data.items[2])], histories=[names["bo"], names["ana"]])
    assert by_place.to_arrow()["score"][0].as_py() == expected["ana", data.items[2]]
    as_data = komd.read([(name, item) for name, row in names.items() for item in row])
    assert model.score(wanted, histories=as_data).to_arrow()["score"].to_pylist() == [expected[p] for p in wanted]
    with pytest.raises(UnknownIdError, match="unknown user 'eve'"):
        model.score([("eve", data.items[0])], histories=names)


def test_unknown_ids_and_users_without_history(data):
    model = komd.CFKOMD().fit(data)
    user, item = data.users[1], data.items[1]
    wanted = [(user, item), ("nobody", item), (user, "nothing"), ("nobody", "nothing"), (user, data.items[2])]
    with pytest.raises(UnknownIdError, match="unknown user 'nobody'"):
        model.score(wanted)
    found = model.score(wanted, on_unknown="skip")
    assert found.to_arrow()["item_id"].to_pylist() == [item, data.items[2]]
    assert found.skipped == 3 and "3 unknown ids skipped" in repr(found)
    with pytest.raises(InputError, match="on_unknown must be"):
        model.score(wanted, on_unknown="cry")
    names = {"new": [], "other": [item], "unasked": []}
    with pytest.warns(FallbackWarning, match="1 of 2 users have no history"):
        found = model.score([("other", item), ("new", item)], histories=names)
    assert found.fallback == ["new"]
    popularity = int(data.popularity[data.items.number(item)])
    assert found.to_arrow()["score"][1].as_py() == popularity
    with pytest.warns(FallbackWarning):
        why = model.recommend(histories={"new": []}, n=60).to_arrow().to_pylist()
    assert {row["item_id"]: row["score"] for row in why}[item] == popularity


def test_no_more_than_a_block_of_scores_is_held(data, monkeypatch):
    model = komd.CFKOMD().fit(data)
    held = []
    score = komd.CFKOMD._score
    monkeypatch.setattr(komd.CFKOMD, "_score", lambda self, rows, out: held.append(out.shape) or score(self, rows, out))
    monkeypatch.setattr(recommender, "users_per_block", lambda items: 7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.score(data)
    assert max(held) == (7, 60) and sum(rows for rows, _ in held) == 90
