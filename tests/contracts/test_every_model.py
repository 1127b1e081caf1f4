"""What every model promises, whatever its method. A new model joins by being in the registry."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse as sparse
import sklearn.base

import komd
from komd.data.interactions import Interactions
from komd.errors import FallbackWarning, InputError, UnknownIdError
from tests import reference
from tests.contracts.variants import EVERY, PERSONAL, ROUNDS_BY_BLOCK, UNEXPLAINED


def only_with_strangers(model):
    """Skip the rest for a model that cannot serve a history, once it has said so."""
    if not model.serves_strangers:
        with pytest.raises(InputError, match=f"{type(model).__name__} serves only the .* it was fitted to"):
            model.recommend(histories={"guest": [model.catalogue.items[0]]})
        pytest.skip(f"{type(model).__name__} serves only known users")


def rows(found):
    return found.to_arrow().to_pylist()


def by_user(found):
    lists = {}
    for row in rows(found):
        lists.setdefault(row["user_id"], []).append(row)
    return lists


def same(first, second, exact=True):
    """The same table, to the bit; or the same users, lengths and (nearly) scores."""
    if exact:
        assert first.to_arrow().equals(second.to_arrow())
        return
    a, b = first.to_arrow(), second.to_arrow()
    assert a["user_id"].to_pylist() == b["user_id"].to_pylist()
    assert np.allclose(a["score"].to_numpy(), b["score"].to_numpy(), atol=1e-6)
    differing = sum(x != y for x, y in zip(a["item_id"].to_pylist(), b["item_id"].to_pylist(), strict=True))
    assert differing <= 0.02 * len(a)  # items whose scores are equal but for rounding


# ---- fitting ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", EVERY, ids=repr)
def test_fit_returns_self(model, small):
    fresh = model.clone()
    assert fresh.fit(small) is fresh


@pytest.mark.parametrize("model", EVERY, ids=repr)
@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.recommend(),
        lambda m: m.recommend(histories=[["a"]]),
        lambda m: m.explain("a", "b"),
        lambda m: m.score([("a", "b")]),
        lambda m: m.similar_items(["a"]),
        lambda m: m.save("nowhere"),
    ],
    ids=["recommend", "strangers", "explain", "score", "similar", "save"],
)
def test_unfitted(model, call):
    with pytest.raises(InputError, match=rf"{type(model).__name__} is not fitted yet; call fit\(data\) first"):
        call(model.clone())


@pytest.mark.parametrize("model", EVERY, ids=repr)
@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array, sparse.coo_array, sparse.csc_array])
def test_fit_takes_a_scipy_matrix_and_leaves_it_alone(model, kind, small):
    matrix = kind(small.to_csr() * 3.0)
    if kind is sparse.csr_array:  # unsorted rows must stay unsorted
        matrix.indices[:] = np.concatenate(
            [matrix.indices[a:b][::-1] for a, b in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)]
        )
        matrix.has_sorted_indices = False
    before = matrix.copy()
    model = model.clone().fit(matrix)
    if model.serves_strangers:
        model.recommend(histories=matrix, n=3)
    for name in ("data", "indices", "indptr", "row", "col"):
        if hasattr(before, name):
            assert np.array_equal(getattr(before, name), getattr(matrix, name))
    named = model.clone().fit(small).recommend(small.users[5], n=5)
    numbers = {item: number for number, item in enumerate(small.items)}
    numbered = model.recommend(5, n=5)
    assert numbered.items(5) == [numbers[item] for item in named.items(small.users[5])]


@pytest.mark.parametrize("model", EVERY, ids=repr)
def test_bad_data(model, small):
    with pytest.raises(InputError, match="negative entries"):
        model.clone().fit(sparse.csr_array(np.array([[1.0, -1.0]])))
    with pytest.raises(InputError, match="nothing to learn from"):
        model.clone().fit(sparse.csr_array((3, 4)))
    with pytest.raises(InputError, match="a list to read must hold paths or pairs"):
        model.clone().fit([1, 2, 3])
    with pytest.raises(InputError, match="threads must be a whole number >= 1"):
        model.clone().fit(small).recommend(threads=0)


@pytest.mark.parametrize("model", EVERY, ids=repr)
def test_a_fit_that_fails_leaves_the_old_one(model, small):
    model = model.clone().fit(small)
    before = model.recommend(n=5)
    with pytest.raises(InputError):
        model.fit(sparse.csr_array((3, 4)))
    same(before, model.recommend(n=5))


SIGNED = {"target"}  # from −10 to 10


@pytest.mark.parametrize("model", EVERY, ids=repr)
def test_numeric_parameters_refuse_negative_and_nan(model):
    for name, value in model.get_params().items():
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            for wrong in (-11 if name in SIGNED else -1, math.nan, math.inf, "1", None):
                if wrong is None and type(model)().get_params()[name] is None:
                    continue  # None is its way of saying "not at all"
                with pytest.raises(InputError, match=name):
                    type(model)(**{name: wrong})


@pytest.mark.parametrize("model", EVERY, ids=repr)
def test_clone_and_text(model, small):
    fitted = model.clone().fit(small)
    for copy in (fitted.clone(), sklearn.base.clone(fitted), komd.model_from_text(repr(fitted))):
        assert copy.get_params() == fitted.get_params()
        same(copy.fit(small).recommend(n=4), fitted.recommend(n=4))


# ---- lists ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", EVERY, ids=repr)
def test_lists_from_many_items_are_the_best_scores(model):
    """More items than are compared at once: of all that a user does not know, the best, in order."""
    data = komd.generate(users=90, items=200, activity=15, tastes=4, rng=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", komd.FilterWarning)
        fitted = model.clone().fit(data)
    lists = by_user(fitted.recommend(n=25))
    for row in (0, 40, 89):
        known = data.indices[data.indptr[row] : data.indptr[row + 1]]
        user, others = data.users[row], np.setdiff1d(np.arange(len(data.items)), known)
        scores = fitted.score([(user, data.items[int(item)]) for item in others]).to_arrow()["score"].to_numpy()
        found = [entry["score"] for entry in lists[user]]
        assert np.allclose(found, np.sort(scores)[::-1][:25], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("model", PERSONAL, ids=repr)
def test_checkerboard(model, checkerboard):
    """The first item of each list is the one of their colour that the user lacks."""
    data, answers = checkerboard
    model = model.clone().fit(data)
    found = model.recommend(n=3)
    for user, answer in answers.items():
        assert found.items(user)[0] == answer
    only_with_strangers(model)
    stranger = model.recommend(histories={"new": ["odd-1", "odd-2", "odd-3"]}, n=3).items("new")
    assert set(stranger) == {"odd-0", "odd-4", "odd-5"}


def test_the_shape_of_lists(model, small):
    """Length, order, ranks, no repeats, nothing seen, everybody in the order of the data."""
    found = model.recommend(n=7)
    assert found.to_arrow().column_names == ["user_id", "item_id", "score", "rank"]
    lists = by_user(found)
    assert list(lists) == list(small.users)
    for user, listed in lists.items():
        seen = set(small.history(user))
        assert len(listed) == min(7, len(small.items) - len(seen))
        assert [row["rank"] for row in listed] == list(range(1, len(listed) + 1))
        scores = [row["score"] for row in listed]
        assert scores == sorted(scores, reverse=True)
        assert np.isfinite(scores).all()
        items = [row["item_id"] for row in listed]
        assert len(set(items)) == len(items)
        assert not seen & set(items)
        assert found.items(user) == items
    assert found.fallback == []
    assert found.skipped == 0


def test_seen_items_on_request(model, small):
    user = small.users[4]
    everything = model.recommend(user, n=len(small.items), exclude_seen=False)
    assert sorted(everything.items(user)) == sorted(small.items)
    unseen = [item for item in everything.items(user) if item not in set(small.history(user))]
    assert model.recommend(user, n=len(small.items)).items(user) == unseen


def test_allowed_and_denied_items(model, small):
    user = small.users[2]
    full = model.recommend(user, n=50).items(user)
    allowed = full[::3]
    assert model.recommend(user, n=50, items=allowed[::-1]).items(user) == allowed
    assert model.recommend(user, n=50, items=set(allowed)).items(user) == allowed
    assert model.recommend(user, n=50, exclude=full[:2]).items(user) == full[2:]
    assert model.recommend(user, n=50, items=allowed, exclude=allowed[:1]).items(user) == allowed[1:]
    assert model.recommend(user, n=2, exclude=iter(full[:2])).items(user) == full[2:4]
    assert model.recommend(user, items=full[5]).items(user) == [full[5]]  # one id alone
    assert model.recommend(user, items=[]).items(user) == []
    assert model.recommend(user, exclude=[]).items(user) == full[:10]
    seen = small.history(user)
    assert model.recommend(user, items=seen).items(user) == []
    assert set(model.recommend(user, items=seen, n=99, exclude_seen=False).items(user)) == set(seen)


def test_more_than_there_is(model, small):
    found = by_user(model.recommend(n=10_000))
    assert {user: len(listed) for user, listed in found.items()} == {
        user: len(small.items) - len(small.history(user)) for user in small.users
    }


def test_a_user_who_has_everything(model, small):
    only_with_strangers(model)
    everything = list(small.items)
    found = model.recommend(histories={"all": everything, "some": everything[:3]}, n=5)
    assert found.items("all") == []
    assert len(found.items("some")) == 5
    again = model.recommend(histories={"all": everything}, n=len(everything), exclude_seen=False)
    assert sorted(again.items("all")) == sorted(everything)
    assert np.isfinite(again.to_arrow()["score"].to_numpy()).all()


def test_no_history_is_served_by_popularity_and_told_so(model, small):
    only_with_strangers(model)
    with pytest.warns(FallbackWarning, match="2 of 3 users have no history"):
        found = model.recommend(histories={"a": [], "b": [small.items[0]], "c": []}, n=6)
    assert found.fallback == ["a", "c"]
    assert "2 without history, served by popularity" in repr(found)
    counts = small.popularity
    order = sorted(range(len(small.items)), key=lambda i: (-counts[i], i))
    expected = [small.items[i] for i in order[:6]]
    assert found.items("a") == found.items("c") == expected
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.recommend(histories={"b": [small.items[0]]}).fallback == []
    why = model.explain(item=expected[0], history=[])
    assert why.fallback
    assert why.score == why.global_term == counts[order[0]]
    assert len(why) == 0
    assert "no history" in repr(why)


@pytest.mark.parametrize("model", EVERY, ids=repr)
def test_a_known_user_without_history(model):
    R = sparse.csr_array(np.array([[1, 1, 0, 0], [0, 0, 0, 0], [1, 0, 1, 0]]))
    model = model.clone().fit(R)
    with pytest.warns(FallbackWarning):
        found = model.recommend(n=4)
    assert found.fallback == [1]
    assert found.items(1) == [0, 1, 2]  # nobody chose 3


@pytest.mark.parametrize("model", EVERY, ids=repr)
def test_items_nobody_chose_come_last(model, small):
    """They are not recommended unless named, and in AUC they are below every other item and equal."""
    rng = np.random.default_rng(0)
    R = small.to_csr().toarray()
    nobodys = [0, 7, 20, 33, 49]
    test = R.astype(bool) & (rng.random(R.shape) < 0.3)
    test[:, nobodys] |= rng.random((len(R), len(nobodys))) < 0.2
    train = R * ~test
    train[:, nobodys] = 0
    train[np.arange(len(R)), 1 + np.arange(len(R)) % 6] = 1  # nobody is without history
    test &= train == 0
    model = model.clone().fit(sparse.csr_array(train))
    chosen = np.flatnonzero(train.sum(axis=0))
    for exclude_seen in (True, False):
        lists = by_user(model.recommend(n=50, exclude_seen=exclude_seen))
        for user, listed in lists.items():
            expected = set(chosen) - (set(np.flatnonzero(train[user])) if exclude_seen else set())
            assert {row["item_id"] for row in listed} == expected
    assert not set(nobodys) & set(model.similar_items(chosen[:5], n=50).to_arrow()["item_id"].to_pylist())
    named = rows(model.recommend(n=50, items=list(range(50)), exclude_seen=False))
    assert len(named) == R.size
    scores = np.empty(R.shape)
    for row in named:  # their own, wherever they stand
        scores[row["user_id"], row["item_id"]] = row["score"]
    if type(model).__name__ not in UNEXPLAINED:
        why = model.explain(3, 7)
        assert why.score == pytest.approx(scores[3, 7], abs=1e-9)
        assert sum(why.to_arrow()["contribution"].to_pylist()) + why.global_term == pytest.approx(why.score, abs=1e-9)
    scores[:, np.setdiff1d(np.arange(50), chosen)] = -1e300
    for ties, tie in (("half", 0.5), ("strict", 0.0)):
        found = komd.evaluate(model, sparse.csr_array(test), metrics=["auc", "recall@50"], ties=ties)
        tested = found.users.to_pylist()
        expected = [
            reference.area_under_curve(scores[u][test[u]], scores[u][~test[u] & (train[u] == 0)], tie) for u in tested
        ]
        assert np.allclose(found["auc"].values, expected, atol=1e-9)
        share = [np.isin(np.flatnonzero(test[u]), chosen).mean() for u in tested]
        assert np.allclose(found["recall@50"].values, share)


@pytest.mark.parametrize("model", EVERY, ids=repr)
def test_what_a_user_rated_low_is_not_recommended(model, small, tmp_path):
    """Nothing is learned from it; it is left out of lists and measures, after loading and in parts on disk as well."""
    rng = np.random.default_rng(5)
    low = rng.random(small.shape) < 0.15
    data = small.with_seen(*(np.asarray(numbers, np.int32) for numbers in np.nonzero(low)))
    plain, model = model.clone().fit(small), model.clone().fit(data)
    learned = plain.learned_arrays()
    for name, array in model.learned_arrays().items():
        assert np.array_equal(array, learned[name])
    known = {u: {small.items[i] for i in np.flatnonzero(low[k])} for k, u in enumerate(small.users)}
    n = len(small.items)
    full = by_user(plain.recommend(n=n))
    expected = {
        user: [row["item_id"] for row in rows if row["item_id"] not in known[user]] for user, rows in full.items()
    }
    found = model.recommend(n=n)
    assert {user: [row["item_id"] for row in rows] for user, rows in by_user(found).items()} == expected
    same(model.recommend(n=n, exclude_low_rated=False), plain.recommend(n=n))
    same(model.recommend(n=n, exclude_seen=False), plain.recommend(n=n, exclude_seen=False))
    some = list(small.users)[30:3:-5]
    assert by_user(model.recommend(some, n=9)).keys() == set(some)
    assert all(model.recommend(user, n=9).items(user) == expected[user][:9] for user in some)
    model.save(tmp_path / "m.komd")
    same(komd.load(tmp_path / "m.komd").recommend(n=n), found)
    komd.recommend_to(model, tmp_path / "recs", n=n)
    assert pa.parquet.read_table(tmp_path / "recs" / "part-00000.parquet").equals(found.to_arrow())
    with pytest.raises(InputError, match="answer to another request"):
        komd.recommend_to(model, tmp_path / "recs", n=n, exclude_low_rated=False)
    # Measured as it is delivered: what a user knows is neither a target nor among the others.
    test = rng.random(small.shape) < 0.2
    test &= small.to_csr().toarray() == 0
    numbers = {item: k for k, item in enumerate(small.items)}
    users = {user: k for k, user in enumerate(small.users)}
    held_out = Interactions.from_numbers(
        small.users, small.items, *(part.astype(np.int32) for part in np.nonzero(test)), None
    )
    measured = komd.evaluate(model, held_out, metrics=["auc", "recall@5"])
    assert measured.skipped == int((test & low).sum())
    for k, user in enumerate(measured.users.to_pylist()):
        listed = [row for row in full[user] if row["item_id"] not in known[user]]
        hit = np.array([test[users[user], numbers[row["item_id"]]] for row in listed])
        scores = np.array([row["score"] for row in listed])
        area = reference.area_under_curve(scores[hit], scores[~hit], 0.5)
        assert measured["auc"].values[k] == pytest.approx(area, abs=1e-9, nan_ok=True)
        assert measured["recall@5"].values[k] == pytest.approx(hit[:5].sum() / hit.sum())
    if model.serves_strangers:
        history = {"guest": small.history(small.users[0])}
        same(model.recommend(histories=history, n=n), plain.recommend(histories=history, n=n))


def test_unknown_ids(model, small):
    known, item = small.users[0], small.items[0]
    for call in (
        lambda: model.recommend("nobody"),
        lambda: model.recommend([known, "nobody"]),
        lambda: model.explain("nobody", item),
    ):
        with pytest.raises(UnknownIdError, match="unknown user 'nobody'"):
            call()
    for call in (
        lambda: model.recommend(known, items=["nothing"]),
        lambda: model.recommend(known, exclude=["nothing", item]),
        lambda: model.recommend(histories={"x": [item, "nothing"]}),
        lambda: model.explain(known, "nothing"),
        lambda: model.explain(item=item, history=["nothing"]),
        lambda: model.similar_items(["nothing"]),
    ):
        with pytest.raises(UnknownIdError, match="unknown item 'nothing'"):
            call()


def test_unknown_ids_are_skipped_and_counted(model, small):
    known, item = small.users[0], small.items[0]
    skip = {"on_unknown": "skip"}
    found = model.recommend(["nobody", known, "noone"], **skip)
    assert found.skipped == 2
    assert set(found.to_arrow()["user_id"].to_pylist()) == {known}
    assert "2 unknown ids skipped" in repr(found)
    assert model.recommend(known, exclude=["nothing"], items=[*small.items, "none"], **skip).skipped == 2
    similar = model.similar_items([item, "nothing"], **skip)
    assert similar.skipped == 1
    assert len(model.recommend(["nobody"], **skip)) == 0
    with pytest.raises(InputError, match=r"on_unknown must be .*got 'ignore'"):
        model.recommend(known, on_unknown="ignore")
    only_with_strangers(model)
    strangers = model.recommend(histories=[[item, "nothing"], [item]], **skip)
    assert strangers.skipped == 1
    assert strangers.items(0) == strangers.items(1)


@pytest.mark.parametrize("n", [0, -1, 2.5, True, "3", None])
def test_wrong_n(model, n, small):
    with pytest.raises(InputError, match=r"n must be a whole number >= 1, got"):
        model.recommend(n=n)
    with pytest.raises(InputError, match=r"n must be a whole number >= 1, got"):
        model.similar_items(small.items[0], n=n)


def test_nobody(model):
    for found in (model.recommend([]), model.recommend(histories=[]), model.recommend(histories={})):
        assert len(found) == 0
        assert found.to_arrow().column_names == ["user_id", "item_id", "score", "rank"]
        assert "0 rows" in repr(found)


def test_users_or_histories_not_both(model, small):
    with pytest.raises(InputError, match="not both"):
        model.recommend(small.users[0], histories=[[small.items[0]]])
    with pytest.raises(InputError, match="histories must be a mapping"):
        model.recommend(histories=3)


def test_batch_is_single(model, small):
    exact = type(model).__name__ not in ROUNDS_BY_BLOCK
    together = by_user(model.recommend(n=6))
    for user in list(small.users)[::9]:
        alone = rows(model.recommend(user, n=6))
        assert [r["item_id"] for r in alone] == [r["item_id"] for r in together[user]]
        scores = [[r["score"] for r in listed] for listed in (alone, together[user])]
        assert scores[0] == scores[1] if exact else np.allclose(*scores, atol=1e-9)
    some = list(small.users)[20:3:-4]
    asked = by_user(model.recommend(some, n=6))
    assert list(asked) == some
    for user in some:
        assert [r["item_id"] for r in asked[user]] == [r["item_id"] for r in together[user]]


def test_histories_of_every_kind_agree(model, small):
    only_with_strangers(model)
    users = list(small.users)[:6]
    lists = [small.history(user) for user in users]
    first = model.recommend(histories=dict(zip(users, lists, strict=True)), n=5)
    known = model.recommend(users, n=5)
    exact = type(model).__name__ not in ROUNDS_BY_BLOCK
    same(first, known, exact)
    expected = first.to_arrow().drop_columns("user_id")
    kinds = [
        lists,
        [tuple(reversed(h)) for h in lists],
        [set(h) for h in lists],
        [np.array(h) for h in lists],
        [h + h for h in lists],  # repeats count once
    ]
    for kind in kinds:
        found = model.recommend(histories=kind, n=5)
        assert found.to_arrow().drop_columns("user_id").equals(expected)
        assert sorted(set(found.to_arrow()["user_id"].to_pylist())) == list(range(6))
    keep = np.isin(small.rows, np.arange(6))
    part = small.keep(keep)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        inter = model.recommend(histories=part, n=5).to_arrow()
    same_rows = inter.filter(pa.compute.is_in(inter["user_id"], pa.array(users)))
    assert same_rows["item_id"].to_pylist() == expected["item_id"].to_pylist()
    scores = same_rows["score"].to_numpy(), expected["score"].to_numpy()
    assert np.array_equal(*scores) if exact else np.allclose(*scores, atol=1e-9)


@pytest.mark.parametrize("model", EVERY, ids=repr)
def test_scipy_histories_agree(model, small):
    R = small.to_csr()
    model = model.clone().fit(R)
    only_with_strangers(model)
    found = model.recommend(histories=R[:6], n=5)
    same(found, model.recommend(list(range(6)), n=5))
    same(found, model.recommend(histories=Interactions.of(sparse.csr_array(R[:6])), n=5))


@pytest.mark.parametrize("model", EVERY, ids=repr)
def test_scipy_histories_of_another_width_are_refused(model, small):
    R = small.to_csr()
    model = model.clone().fit(R)
    only_with_strangers(model)
    wider = sparse.csr_array((np.ones(1), ([0], [60])), shape=(1, 70))
    with pytest.raises(UnknownIdError, match="unknown item 60"):
        model.recommend(histories=wider)


# ---- why, and what is alike ---------------------------------------------------------------------------------------


def test_explain(model, small):
    user = small.users[7]
    best = rows(model.recommend(user, n=1))[0]
    if type(model).__name__ in UNEXPLAINED:
        with pytest.raises(InputError, match=f"{type(model).__name__} cannot explain a score"):
            model.explain(user, best["item_id"])
        return
    why = model.explain(user, best["item_id"])
    assert (why.user, why.item, why.fallback) == (user, best["item_id"], False)
    assert why.score == pytest.approx(best["score"], abs=1e-12)
    parts = why.to_arrow()
    assert parts.column_names == ["item_id", "weight", "similarity", "contribution"]
    contributions = parts["contribution"].to_numpy()
    assert contributions.sum() + why.global_term == pytest.approx(why.score, abs=1e-12)
    assert (np.diff(np.abs(contributions)) <= 0).all()
    told = why.to_dict()
    assert told["score"] == why.score
    assert len(told["contributions"]) == len(small.history(user))
    assert f"score={why.score:.6g}" in repr(why)
    stranger = model.explain(item=best["item_id"], history=small.history(user))
    assert stranger.user is None
    assert stranger.score == why.score


def test_explain_says_what_it_takes(model, small):
    for call in (
        lambda: model.explain(small.users[0]),
        lambda: model.explain(item=small.items[0]),
        lambda: model.explain(small.users[0], small.items[0], history=[small.items[1]]),
    ):
        with pytest.raises(InputError, match="explain takes a user and an item"):
            call()


def test_scores_of_pairs_are_those_of_the_lists(model, small):
    exact = type(model).__name__ not in ROUNDS_BY_BLOCK
    listed = model.recommend(n=50, exclude_seen=False).to_arrow()
    shuffled = listed.take(np.random.default_rng(0).permutation(len(listed)))
    found = model.score(shuffled).to_arrow()
    assert found.column_names == ["user_id", "item_id", "score"]
    assert found.select([0, 1]).equals(shuffled.select([0, 1]))
    tolerance = 0 if exact else 1e-12
    assert np.allclose(found["score"], shuffled["score"], rtol=tolerance, atol=tolerance)
    with pytest.raises(UnknownIdError, match="unknown item 'nothing'"):
        model.score([(small.users[0], "nothing")])
    only_with_strangers(model)
    user = small.users[5]
    known = model.score([(user, item) for item in small.items]).to_arrow()
    stranger = model.score([("x", item) for item in small.items], histories={"x": small.history(user)}).to_arrow()
    assert stranger["score"].equals(known["score"])


def test_similar_items(model, small):
    some = list(small.items)[:4]
    found = model.similar_items(some, n=5)
    assert found.to_arrow().column_names == ["similar_to", "item_id", "score", "rank"]
    for item in some:
        listed = [row for row in rows(found) if row["similar_to"] == item]
        assert len(listed) <= 5
        assert item not in [row["item_id"] for row in listed]
        scores = [row["score"] for row in listed]
        assert scores == sorted(scores, reverse=True)
        assert all(score > 0 for score in scores)
        assert [row["rank"] for row in listed] == list(range(1, len(listed) + 1))
        same(model.similar_items(item, n=5), model.similar_items([item], n=5))


@pytest.mark.parametrize("model", PERSONAL, ids=repr)
def test_similar_items_of_the_checkerboard(model, checkerboard):
    data, _ = checkerboard
    model = model.clone().fit(data)
    assert {item[:3] for item in model.similar_items(["odd-0"], n=5).items("odd-0")} == {"odd"}


# ---- saving and handing on ----------------------------------------------------------------------------------------


def test_save_and_load(model, small, tmp_path):
    model.save(tmp_path / "deep" / "m.komd")
    again = komd.load(tmp_path / "deep" / "m.komd")
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    same(again.recommend(n=5), model.recommend(n=5))
    same(komd.load(str(tmp_path / "deep" / "m.komd"), verify=False).recommend(n=5), model.recommend(n=5))
    only_with_strangers(model)
    stranger = {"x": list(small.items)[:3]}
    same(again.recommend(histories=stranger), model.recommend(histories=stranger))


def test_results_become_frames(model, small):
    found = model.recommend(list(small.users)[:3], n=4)
    assert found.to_pandas()["item_id"].tolist() == found.to_arrow()["item_id"].to_pylist()
    assert found.to_polars()["score"].to_list() == found.to_arrow()["score"].to_pylist()
    assert pa.table(found).equals(found.to_arrow())
    assert len(found) == 12
    assert "Recommendations(12 rows)" in repr(found)
