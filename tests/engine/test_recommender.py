"""What a recommender promises to whoever asks: the same answer by every way of asking."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sparse

import komd
from komd.data.ids import Ids
from komd.data.interactions import Interactions
from komd.engine import recommender
from komd.engine import streamed_ranking as streaming
from komd.errors import FallbackWarning, InputError, UnknownIdError
from komd.kernels import RBF, DotProduct, Jaccard, Linear, Polynomial, Tanimoto
from tests.fitted import EVERY, fitted, matrix_of


@pytest.mark.parametrize("model", EVERY, ids=repr)
def test_explain_sums_to_the_score(model, small):
    model = model.clone().fit(small)
    rng = np.random.default_rng(5)
    for user in rng.choice(len(small.users), 12, replace=False):
        user = small.users[int(user)]
        for item in rng.choice(len(small.items), 4, replace=False):
            why = model.explain(user, small.items[int(item)])
            parts = why.to_arrow()["contribution"].to_numpy()
            assert why.score == pytest.approx(parts.sum() + why.global_term, abs=1e-12, rel=1e-12)
            weights, similarities = (why.to_arrow()[c].to_numpy() for c in ("weight", "similarity"))
            assert np.allclose(parts, weights * similarities, atol=1e-15)
            assert sorted(why.to_arrow()["item_id"].to_pylist()) == sorted(small.history(user))
    listed = model.recommend(user, n=3).to_arrow().to_pylist()
    for row in listed:
        assert model.explain(user, row["item_id"]).score == pytest.approx(row["score"], abs=1e-12)


@pytest.mark.parametrize("model", EVERY, ids=repr)
def test_a_known_user_is_a_stranger_with_the_same_history(model, small):
    model = model.clone().fit(small)
    for user in list(small.users)[:25]:
        known = model.recommend(user, n=8)
        shuffled = small.history(user)[::-1]
        stranger = model.recommend(histories={user: shuffled}, n=8)
        assert known.to_arrow().equals(stranger.to_arrow())
        item = known.to_arrow()["item_id"][0].as_py()
        assert model.explain(user, item).to_arrow() == model.explain(item=item, history=shuffled).to_arrow()
        if hasattr(model, "solve"):
            assert np.array_equal(model.solve(user).alpha, model.solve(history=shuffled).alpha)


@pytest.mark.parametrize("model", EVERY, ids=repr)
def test_threads_change_nothing(model, small):
    found = [
        model.clone().fit(small, threads=threads).recommend(n=10, threads=threads).to_arrow() for threads in (1, 2, 3)
    ]
    assert found[0].equals(found[1])
    assert found[0].equals(found[2])


@pytest.mark.parametrize("model", EVERY, ids=repr)
def test_a_user_alone_is_scored_as_in_any_block(model, small):
    model = model.clone().fit(small)
    rows = model.catalogue.histories
    together = model.block_scores(rows)
    for u in range(0, len(rows), 11):
        assert np.array_equal(model.block_scores(rows.block(u, u + 1))[0], together[u])
        first = max(0, u - 5)
        assert np.array_equal(model.block_scores(rows.block(first, u + 1))[-1], together[u])


@pytest.mark.parametrize("model", EVERY, ids=repr)
def test_saved_and_loaded_gives_the_same_results(model, small, tmp_path):
    model = model.clone().fit(small)
    model.save(tmp_path / "m.komd")
    again = komd.load(tmp_path / "m.komd")
    assert repr(again) == repr(model)
    assert type(again) is type(model)
    assert again.recommend(n=10).to_arrow().equals(model.recommend(n=10).to_arrow())
    user, items = small.users[3], list(small.items)[:5]
    assert again.explain(user, items[0]).to_arrow().equals(model.explain(user, items[0]).to_arrow())
    assert again.similar_items(items, n=4).to_arrow().equals(model.similar_items(items, n=4).to_arrow())
    again.save(tmp_path / "m.komd")  # onto the files it is mapped from
    third = komd.load(tmp_path / "m.komd")
    assert third.recommend(n=10).to_arrow().equals(model.recommend(n=10).to_arrow())


def test_a_sparse_model_is_saved_as_well(small, tmp_path, held_sparse):
    model = komd.CFKOMD().fit(small)
    assert model.matrix.storage == "sparse"
    model.save(tmp_path / "m.komd")
    assert komd.load(tmp_path / "m.komd").recommend(n=5).to_arrow().equals(model.recommend(n=5).to_arrow())


@pytest.mark.parametrize("model", EVERY, ids=repr)
def test_permuting_users_or_items_permutes_the_answer(model, small):
    """Rows and columns of the data in another order: the same scores for the same users and items."""
    rng = np.random.default_rng(9)
    R = small.to_csr()
    users, items = rng.permutation(R.shape[0]), rng.permutation(R.shape[1])
    # Weights are unique for λ > 0 only, but with these tolerances still wander a little.
    sharp = model.clone()
    if "tolerance" in sharp.get_params():
        sharp.set_params(tolerance=1e-10)
    if getattr(sharp, "regularization", 1.0) == 0.0:
        sharp.set_params(regularization=1e-3)
    plain = sharp.clone().fit(R)
    mixed = sharp.clone().fit(sparse.csr_array(R[users][:, items]))

    def scores(model):
        catalogue = model.catalogue
        return model.block_scores(catalogue.histories)[:, catalogue.inside]

    assert np.allclose(scores(mixed), scores(plain)[users][:, items], atol=1e-5)
    # Lists: the same wherever neighbours are not tied.
    places = np.argsort(users)
    for u in range(0, len(users), 7):
        first, second = plain.recommend(u, n=10).to_arrow(), mixed.recommend(int(places[u]), n=10).to_arrow()
        assert np.allclose(first["score"].to_numpy(), second["score"].to_numpy(), atol=1e-5)
        gaps = np.abs(np.diff(first["score"].to_numpy(), append=-np.inf)) > 1e-4
        clear = gaps & np.insert(gaps[:-1], 0, True)
        clear[-1] = False  # tied, perhaps, with what did not make the list
        expected = np.array(first["item_id"].to_pylist())
        assert np.array_equal(items[np.array(second["item_id"].to_pylist())][clear], expected[clear])


KERNELS = [Linear(), Polynomial(), RBF(), Tanimoto(), Jaccard(), DotProduct([0, 1, 1])]


@pytest.mark.filterwarnings("ignore::komd.errors.FallbackWarning")
@pytest.mark.parametrize(
    "model", [*(komd.CFKOMD(kernel=k) for k in KERNELS), komd.CFOMD(), komd.Popularity()], ids=repr
)
def test_items_nobody_chose_make_no_nan(model):
    """Two items nobody has, one user who has nothing: all numbers stay numbers."""
    R = np.zeros((4, 6), np.float32)
    R[0, [0, 1]] = R[1, [1, 2]] = R[2, [0, 1, 2, 3]] = 1
    with np.errstate(divide="raise", invalid="raise"):
        model = fitted(model, R)
        found = model.recommend(n=6)
        strangers = model.recommend(histories=[[4], [4, 5], [0, 4], list(range(6))], n=6, exclude_seen=False)
    for scores in (found.to_arrow()["score"].to_numpy(), strangers.to_arrow()["score"].to_numpy()):
        assert np.isfinite(scores).all()
    assert len(strangers) == 4 * 4  # of the items that have users
    assert np.isfinite(matrix_of(model)).all()
    why = model.explain(item=5, history=[4, 0])
    assert np.isfinite(why.score)
    assert 4 not in model.similar_items([0], n=6).to_arrow()["item_id"].to_pylist()
    assert len(model.similar_items([4], n=6)) == 0


def test_ids_of_any_kind_survive(small):
    """The same answers under other names."""
    renamed = Interactions(
        Ids(pa.array(range(len(small.users))), noun="user"), small.items, small.indptr, small.indices
    )
    plain, other = (komd.ECFOMD().fit(data).recommend(n=5).to_arrow() for data in (small, renamed))
    assert plain["item_id"].to_pylist() == other["item_id"].to_pylist()
    assert plain["score"].to_pylist() == other["score"].to_pylist()


# ---- scores of given pairs ------------------------------------------------------------------------------------------


STREAMED = [
    komd.ECFOMD(storage="streamed"),
    komd.CFKOMD(kernel="jaccard", negatives="mean", storage="streamed"),
    komd.CFKOMD(user_damping=0.5, popularity=0.2, ridge=30.0, rank=13, prior=0.01, storage="streamed"),
    komd.CFKOMD(user_damping=0.5, target=0.4, storage="streamed"),
    komd.CFKOMD(ridge=3.0, rank=13, head=1.0, prior=0.01, target=-0.4, storage="streamed"),
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
    "model",
    [
        *STREAMED,
        komd.CFKOMD(),
        komd.CFKOMD(ridge=30.0, rank=12, storage="sparse"),
        komd.CFKOMD(target=0.4),
        komd.CFKOMD(rank=12, head=1.0, target=0.4, storage="sparse"),
    ],
    ids=repr,
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
    monkeypatch.setattr(komd.CFKOMD, "_users_per_block", lambda self: 7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.score(data)
    assert max(held) == (7, 60) and sum(rows for rows, _ in held) == 90
