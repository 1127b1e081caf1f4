"""The authors' folds: their rules against slow twins, and generated folds through the whole path to the page."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import komd
from experiments import (
    __main__,
    authors_folds,
    authors_page,
    authors_readings,
    claims,
    msdw_variants,
    paper,
    places,
    reproduction,
    table_authors,
)
from experiments.count_polynomial import CountPolynomial
from experiments.uniform_bpr import UniformBPR
from tests import reference


def lines(rng, users=14, items=25, share=0.25):
    """Training and test lines in any order; some pairs are repeated, some in both, some items only tested."""
    chosen = np.argwhere(rng.random((users, items)) < share)
    chosen = np.concatenate([chosen, chosen[rng.integers(0, len(chosen), 6)]])
    rng.shuffle(chosen)
    test = rng.random(len(chosen)) < 0.25
    test[np.unique(chosen[:, 0], return_index=True)[1]] = False  # every user trains
    return chosen[~test], chosen[test]


def slow_area(train, test, scores, order):
    """The authors' AUC from a full table of scores, user by user, pair by pair."""
    values = []
    for user in np.unique(test[:, 0]):
        known = set(train[train[:, 0] == user, 1].tolist())
        tested = {i for u, i in test.tolist() if u == user and i in order}
        if not tested:
            continue
        others = [(scores[user, j], order.index(j)) for j in order if j not in known | tested]
        fresh = [(scores[user, i], order.index(i)) for i in tested - known]
        area = reference.area_in_order(fresh, others) if fresh else 0.0
        values.append(area * len(fresh) / len(tested))
    return np.mean(values)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_the_authors_rules_against_a_slow_twin(seed):
    rng = np.random.default_rng(seed)
    train, test = lines(rng)
    fold = authors_folds.fold_of(train, test)
    assert fold.order == list(dict.fromkeys(train[:, 1].tolist()))
    trained = set(map(tuple, train.tolist()))
    assert fold.cold == sum(i not in fold.order for _, i in test.tolist())
    assert sum(fold.lost.values()) == len(set(map(tuple, test.tolist())) & trained)
    assert fold.repeated == len(train) - len(trained)
    model = komd.MSDW(alpha=0.25).fit(fold.train)
    table = model.recommend(n=25, exclude_seen=False).to_arrow().to_pylist()
    scores = {(row["user_id"], row["item_id"]): row["score"] for row in table}
    found = authors_folds.areas(model, fold, fold.order)[0]
    assert found == pytest.approx(slow_area(train, test, scores, fold.order), abs=1e-12)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_the_area_of_a_cut_list(seed):
    """Hits are compared with every candidate that is no test item; those not listed are below the list."""
    rng = np.random.default_rng(seed)
    candidates, n = int(rng.integers(2, 30)), int(rng.integers(0, 12))
    ranked = rng.permutation(candidates).tolist()
    tested = set(rng.choice(candidates, rng.integers(1, candidates), replace=False).tolist())
    listed = ranked[:n]
    hits = [k for k, item in enumerate(listed) if item in tested]
    won = sum(ranked.index(j) > k for k in hits for j in range(candidates) if j not in tested)
    expected = won / (len(hits) * (candidates - len(hits))) if hits else 0.5
    assert authors_folds.cut_area_of(listed, tested, candidates) == pytest.approx(expected)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 3]), st.sampled_from([0.5, 1, 4]))
def test_the_polynomial_of_counts(seed, degree, c):
    R = (np.random.default_rng(seed).random((12, 8)) < 0.4).astype(float)
    n = R.T @ R
    plain = (n + c) ** degree - c**degree
    length = np.sqrt(np.outer(np.diag(plain), np.diag(plain)))
    expected = np.divide(plain, length, out=np.zeros_like(plain), where=length > 0)
    d = np.diag(n)
    np.testing.assert_allclose(CountPolynomial(degree=degree, c=c).of_counts(n, d[:, None], d[None]), expected)


def test_undivided_polynomials_have_the_same_answer_at_lambda_divided(small):
    """λ for K is λ / f(1) for K / f(1): komd's K times f(1) solves to the same weights."""
    d, c, lam = 3, 2.0, 0.3
    f = authors_readings.value_at_one(d, c)
    R = small.to_csr().toarray()
    cosine = R.T @ R / np.sqrt(np.outer(R.sum(axis=0), R.sum(axis=0)))
    K = (cosine + c) ** d - c**d
    user = small.users[0]
    kernel = komd.kernels.Polynomial(degree=d, c=c)
    solved = komd.CFKOMD(kernel=kernel, regularization=lam / f, negatives="mean").fit(small).solve(user)
    mine = [list(small.items).index(item) for item in solved.items]
    gradient = K[np.ix_(mine, mine)] @ solved.alpha + lam * solved.alpha - K[mine].mean(axis=1)
    held = solved.alpha > 1e-6
    assert (
        np.ptp(gradient[held]) < 1e-4 and gradient.min() > gradient[held].max() - 1e-4
    )  # KKT of the undivided problem


def test_bpr_with_even_draws_learns():
    data = komd.generate(users=120, items=50, activity=12, tastes=3, rng=2)
    train, test = next(komd.split.folds(data, rng=0))
    one, again = (UniformBPR(factors=6, learning_rate=0.05, rng=1).fit(train) for _ in range(2))
    areas = [komd.evaluate(model, test, metrics="auc")["auc"].mean for model in (one, again)]
    assert areas[0] == areas[1] > 0.65


def test_the_mean_of_variants_is_komds():
    """The variant "as the paper defines it" is komd's MSDW, by the authors' tie rule."""
    train, test = lines(np.random.default_rng(5))
    fold = authors_folds.fold_of(train, test)
    found = msdw_variants.measured(fold)["as the paper defines it"]
    for alpha in ("0", "1"):
        model = komd.MSDW(alpha=float(alpha)).fit(fold.train)
        assert found[alpha] == pytest.approx(authors_folds.areas(model, fold, fold.order)[1], abs=1e-6)


@pytest.fixture
def generated(tmp_path, monkeypatch):
    """Generated folds in the places of all three, and a work folder of their own."""
    rng = np.random.default_rng(0)
    for name, prefix in (("filmtrust", "filmtrust"), ("ml-1m", "ml1m")):
        folder = tmp_path / "data" / "authors-folds" / name
        folder.mkdir(parents=True)
        data = komd.generate(users=60, items=40, activity=8, tastes=2, rng=1)
        pairs = np.column_stack([data.rows, data.indices])
        if name == "ml-1m":  # items numbered by first appearance, users from 1 in the ratings
            pairs[:, 1] = [list(dict.fromkeys(pairs[:, 1].tolist())).index(i) for i in pairs[:, 1].tolist()]
            (tmp_path / "data" / name).mkdir()
            with gzip.open(tmp_path / "data" / name / "ratings.csv.gz", "wt") as file:
                file.write("user,item,rating\n" + "".join(f"{u + 1},{500 - i},5\n" for u, i in pairs.tolist()))
        for k in range(authors_folds.FOLDS):
            test = (pairs[:, 0] % 5 == k) & (rng.random(len(pairs)) < 0.5)
            test[np.unique(pairs[:, 0], return_index=True)[1]] = False
            for part, some in (("tr", ~test), ("ts", test)):
                if (name, part) != ("ml-1m", "tr"):
                    with gzip.open(folder / f"{prefix}_{part}_{k}.dat.gz", "wt") as file:
                        file.write("".join(f"{u} {i} 1\n" for u, i in pairs[some].tolist()))
    monkeypatch.setenv("KOMD_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(places, "WORK", tmp_path / "work")
    monkeypatch.setattr(reproduction, "RESULTS", tmp_path)
    return tmp_path


def test_movielens_is_all_that_is_not_tested(generated):
    tested = set()
    for fold in authors_folds.folds("ml-1m"):
        pairs = [
            set(zip(d.users.take(d.rows).to_pylist(), d.items.take(d.indices).to_pylist(), strict=True))
            for d in fold[:2]
        ]
        assert len(pairs[0]) + len(pairs[1]) == 60 * 8 or pairs[0].isdisjoint(pairs[1])
        assert pairs[1].isdisjoint(tested)
        tested |= pairs[1]
    half = authors_folds.half_tested(0)
    assert set(half) == {"later", "popular"} and all(0 < share < 1 for share in half.values())


def test_from_folds_to_page(generated, monkeypatch, capsys):
    few = {label: table_authors.ROWS[label] for label in ("MSDW α=0", "ECF-OMD", "CF-K Tanimoto", "BPR")}
    monkeypatch.setattr(table_authors, "ROWS", few)
    monkeypatch.setattr(authors_readings, "DEGREES", (2, 3))
    monkeypatch.setattr(
        authors_readings, "rivals", lambda: {"BPR, 10 factors": UniformBPR(factors=4), "Popularity": komd.Popularity()}
    )
    monkeypatch.setattr(claims, "PAPERS_WRMF", table_authors.PAPERS_WRMF | {"factors": 4, "iterations": 2})
    monkeypatch.setattr(claims, "ALONE", 2)
    first = table_authors.run()
    assert "ciao: the authors' folds are left out" in capsys.readouterr().out
    authors_readings.run()
    found = claims.run(tails=())
    assert table_authors.run() == first  # times and all: nothing was run twice
    assert claims.run(tails=()) == found
    fold = next(authors_folds.folds("filmtrust"))
    expected = authors_folds.measured(komd.ECFOMD().fit(fold.train), fold)
    kept = first["filmtrust"]["rows"]["ECF-OMD"]["0"]
    assert {rule: kept[rule] for rule in expected} == expected
    reproduction.write()
    page = (generated / "reproduction.md").read_text(encoding="utf-8")
    ours = table_authors.mean(first["filmtrust"]["rows"]["ECF-OMD"], "first")
    assert f"| ECF-OMD | 0.961 ± 0.005 | {ours:.4f} ± " in page
    assert "### MSDW on FilmTrust" in page and "Assumed here: **" in page
    assert '**"ECF-OMD … almost 5 times faster than MSDW".**' in page


def test_cells_are_sorted_by_what_explains_them():
    def rounds(first, dropped):
        return {str(k): {"first": first, "dropped": dropped} for k in range(authors_folds.FOLDS)}

    rows = {"MSDW α=0": rounds(0.825, 0.83), "ECF-OMD": rounds(0.71, 0.7185), "CF-K Tanimoto": rounds(0.7, 0.71)}
    found = authors_page.explained("ciao", rows, {})
    assert found == {"MSDW α=0": "near", "ECF-OMD": "pairs in both files left out", "CF-K Tanimoto": ""}
    cut = {str(k): {"auc@10": paper.AUC["WRMF"]["ciao"].mean - 0.002} for k in range(authors_folds.FOLDS)}
    readings = {"ciao": {"rivals": {"WRMF, 10 factors": cut}}}
    assert authors_page.nearest_rival("ciao", "WRMF", readings) == ("WRMF, 10 factors", pytest.approx(-0.002))
    assert authors_page.nearest_rival("ciao", "BPR", readings)[1] == float("inf")


def test_tails_above_the_line():
    counts = np.array([100, 50, 33, 25, 20, 17, 14, 12, 11, 100])
    straight = claims.tail_excess(np.array([1000 // r for r in range(1, 31)]), -1.0, 1000.0)
    assert straight == pytest.approx(1, abs=0.05)
    assert claims.tail_excess(counts, -3.0, 100.0) > 1


def test_unknown_parts_are_refused_with_the_known_ones(capsys):
    with pytest.raises(SystemExit):
        __main__.main(["--only", "authors,nothing"])
    words = capsys.readouterr().err
    assert "unknown part nothing; known: datasets, density" in words and "authors" in words


def test_only_the_named_parts_are_run(monkeypatch):
    ran = []
    monkeypatch.setattr(__main__, "PARTS", {name: lambda name=name: ran.append(name) for name in ("a", "b", "c")})
    monkeypatch.setattr(reproduction, "write", lambda: ran.append("page"))
    __main__.main(["--only", "c, a"])
    assert ran == ["a", "page", "c", "page"]


@pytest.mark.data
@pytest.mark.parametrize(("name", "least"), [("filmtrust", 0.94), ("ciao", 0.7)])
def test_cells_of_one_fold_against_the_slow_twin(real_data, monkeypatch, name, least):
    monkeypatch.setenv("KOMD_DATA", str(real_data))
    fold = next(authors_folds.folds(name), None)
    if fold is None:
        pytest.skip("the authors' folds are not there")
    for label in ("MSDW α=0", "ECF-OMD"):
        model = table_authors.ROWS[label]().fit(fold.train)
        assert authors_folds.areas(model, fold, fold.order)[0] > least
        users = fold.test.users.values.to_pylist()[:5]
        some = fold.test.keep(np.isin(fold.test.rows, np.arange(5)))
        train, test = (
            np.column_stack([d.users.take(d.rows).to_numpy(), d.items.take(d.indices).to_numpy()])
            for d in (fold.train, some)
        )
        table = model.recommend(users, n=len(fold.order), exclude_seen=False).to_arrow()
        columns = (table[column].to_pylist() for column in ("user_id", "item_id", "score"))
        scores = {(user, item): score for user, item, score in zip(*columns, strict=True)}
        found = komd.evaluate(model, some, metrics="auc", ties=fold.order)
        areas = dict(zip(found.users.to_pylist(), found["auc"].values, strict=True))
        place = {item: k for k, item in enumerate(fold.order)}
        known = set(map(tuple, train.tolist()))
        for user in users:
            tested = {i for u, i in test.tolist() if u == user and (u, i) not in known}
            others = [(scores[user, j], place[j]) for j in fold.order if j not in tested and (user, j) not in known]
            if tested:
                expected = reference.area_in_order([(scores[user, i], place[i]) for i in tested], others)
                assert areas[user] == pytest.approx(expected, abs=1e-12)
