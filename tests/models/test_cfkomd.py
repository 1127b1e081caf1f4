"""CF-KOMD: optimal by its KKT gap and by cvxopt, scores of the paper, and what its parameters do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import komd
from komd._core.simplex import solve_simplex
from komd.errors import SolverError
from tests import reference
from tests.fitted import ITEM_BASED, SOLVING, fitted, histories_of, matrix_of, random_data


def assert_optimal(K, h, model, alpha, gap):
    """KKT conditions, and an objective within 1e-8 (relative) of cvxopt's."""
    alpha = np.where(np.abs(alpha) < 1e-14, 0.0, alpha)
    q = reference.q_exact(K, h) if model.negatives == "exact" else reference.q_mean(K, h)
    K_u, lam = K[np.ix_(h, h)], model.regularization
    true_gap = reference.kkt_gap(K_u, q, lam, alpha)
    assert gap <= model.tolerance
    assert true_gap <= model.tolerance * 1.01 + 1e-12
    ours = reference.objective(K_u, q, lam, alpha)
    theirs = reference.objective(K_u, q, lam, reference.solve_simplex(K_u, q, lam))
    assert ours <= theirs + 1e-8 * abs(theirs) + 1e-10  # of a value next to nothing no share can be asked
    # No lower bound from cvxopt, which stalls above the minimum where K is singular: the gap is the certificate.


@pytest.mark.data
def test_kkt_and_cvxopt_on_200_users_of_ml_1m(ml_1m):
    model = komd.CFKOMD(kernel="linear", regularization=0.01).fit(ml_1m)
    K = model.matrix.values
    S = K.sum(axis=1, dtype=np.float64)
    rng = np.random.default_rng(200)
    rows = model.catalogue.histories
    chosen = rng.choice(len(rows), 200, replace=False)
    m = len(K)
    for u in chosen:
        h = rows.indices[rows.indptr[u] : rows.indptr[u + 1]]
        row = rows.block(u, u + 1)
        weights, offsets, gaps = model._solved(row, model.matrix.own_entries(row.rows))
        K_u = K[np.ix_(h, h)].astype(float)
        q = (S[h] - K_u.sum(axis=1)) / (m - len(h))
        alpha = weights - offsets[0]
        alpha[np.abs(alpha) < 1e-14] = 0.0
        assert gaps[0] <= model.tolerance
        assert reference.kkt_gap(K_u, q, 0.01, alpha) <= model.tolerance * 1.01
        ours = reference.objective(K_u, q, 0.01, alpha)
        theirs = reference.objective(K_u, q, 0.01, reference.solve_simplex(K_u, q, 0.01))
        assert abs(ours - theirs) <= 1e-8 * abs(theirs)


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["linear", "tanimoto", "rbf", "jaccard"]),
    st.sampled_from([0.0, 1e-3, 0.01, 10.0]),
    st.sampled_from(["exact", "mean"]),
)
@example(151, "linear", 0.0, "exact")  # a user with every item but one: nearly flat, thousands of steps
def test_kkt_and_cvxopt_on_random_problems(seed, kernel, lam, negatives):
    """Twin items, users with one item and with every item, items nobody chose, λ = 0."""
    model = komd.CFKOMD(kernel=kernel, regularization=lam, negatives=negatives, tolerance=1e-9)
    model = fitted(model, random_data(seed, users=12, items=14))
    K = matrix_of(model)
    everything = np.arange(14)
    for h in [*histories_of(model), everything]:
        if not len(h):
            continue
        ids = model.catalogue.item_ids(h.astype(np.int32)).to_pylist()
        answer = model.solve(history=ids)
        assert answer.positive.all()
        assert answer.items == ids
        assert_optimal(K, h, model, answer.alpha, answer.gap)


def test_unconverged_answers_are_refused_by_cfkomd(small):
    model = komd.CFKOMD(regularization=0.0, tolerance=1e-300).fit(small)
    with pytest.raises(SolverError, match=r"problems were not solved: the KKT gap is still .*, asked for 1e-300"):
        model.recommend()


@pytest.mark.parametrize("model", SOLVING, ids=repr)
def test_solve_reports_the_gap(model, small):
    model = model.clone().fit(small)
    for user in list(small.users)[:10]:
        answer = model.solve(user)
        assert 0 <= answer.gap <= model.tolerance or abs(answer.gap) < 1e-12
        assert answer.alpha[answer.positive].sum() == pytest.approx(1)
        assert set(np.array(answer.items)[answer.positive]) == set(small.history(user))
    with pytest.raises(komd.InputError, match="takes a user or a history"):
        model.solve()
    with pytest.raises(komd.InputError, match="takes a user or a history"):
        model.solve("a", history=["b"])


@pytest.mark.parametrize("model", ITEM_BASED[:-1], ids=repr)
def test_scores_are_those_of_the_paper(model):
    R = random_data(3)
    model = model.clone().set_params(tolerance=1e-10)
    model = fitted(model, R)
    K = matrix_of(model)
    for u, h in enumerate(histories_of(model)):
        if len(h):
            expected = reference.komd_scores(K, h, model.regularization, model.negatives == "exact")
            # With λ = 0 twins and rank make α ambiguous, but Kα and so the scores of the margin are not.
            found = model.block_scores(model.catalogue.histories.block(u, u + 1))[0]
            assert np.allclose(found[h], expected[h], atol=1e-5)
            if model.regularization:
                assert np.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("regularization", [1e9, 1e15, 1e300])
def test_a_huge_regularization_gives_even_weights(small, regularization):
    model = komd.CFKOMD(regularization=regularization).fit(small)
    for user in list(small.users)[::17]:
        alpha = model.solve(user).alpha
        assert np.allclose(alpha, 1 / len(alpha), rtol=1e-6)


@pytest.mark.parametrize("constant", [0.25, 1.0, 10.0])
def test_adding_a_constant_to_k_leaves_alpha_unchanged(small, constant):
    """The degree-0 term of a dot-product kernel changes no solution, so it may be dropped."""
    model = komd.CFKOMD(kernel="tanimoto").fit(small)
    K = matrix_of(model)
    lam, tol = 0.01, 1e-12
    for h in histories_of(model)[:40]:
        answers = []
        for shifted in (K, K + constant):
            K_u = np.ascontiguousarray(shifted[np.ix_(h, h)])
            q = reference.q_exact(shifted, h)
            alpha = np.full(len(h), 1.0 / len(h))
            g = K_u @ alpha + lam * alpha - q
            assert solve_simplex(K_u, g, np.full(len(g), lam), alpha, tol, 1_000_000, np.empty(len(g))) >= 0
            answers.append(alpha)
        assert np.allclose(*answers, atol=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "tanimoto", "rbf", "jaccard"])
def test_q_mean_is_within_twice_the_share_of_the_history(kernel, small):
    """|q̃ − q| ≤ 2 m_u+ / m in each component."""
    model = komd.CFKOMD(kernel=kernel).fit(small)
    K = matrix_of(model)
    m = len(K)
    for h in histories_of(model):
        if 0 < len(h) < m:
            assert np.abs(reference.q_mean(K, h) - reference.q_exact(K, h)).max() <= 2 * len(h) / m


@pytest.mark.parametrize("negatives", ["exact", "mean"])
@pytest.mark.parametrize("theta", [0.0, 0.5, 1.0, 3.0])
def test_the_weight_of_the_negatives_in_problem_and_score(small, negatives, theta):
    """The definition: minimise α'Kα + λ‖α‖² − 2θα'q, score Σ α_i K(i, ·) − θ · mean of K(·, j) over the negatives."""
    model = komd.CFKOMD(kernel="linear", negatives=negatives, negatives_weight=theta, regularization=0.1).fit(small)
    K = model.matrix.values.astype(float)
    m = len(K)
    for u in (3, 40):
        history = model.catalogue.histories.block(u, u + 1).indices
        q = theta * (reference.q_exact if negatives == "exact" else reference.q_mean)(K, history)
        alpha = reference.solve_simplex(K[np.ix_(history, history)], q, 0.1)
        others = np.setdiff1d(np.arange(m), history) if negatives == "exact" else np.arange(m)
        expected = alpha @ K[history] - theta * K[others].mean(axis=0)
        got = model.block_scores(model.catalogue.histories.block(u, u + 1))[0]
        assert np.allclose(got, expected, atol=1e-6)
        solution = model.solve(model.catalogue.users[u])
        assert solution.alpha.sum() == pytest.approx(1)
        assert np.allclose(solution.alpha, alpha, atol=1e-5)
    if theta == 0:
        assert not np.signbit(model.recommend(n=50, exclude_seen=False).to_arrow()["score"].to_numpy()).any()


def test_without_stages_nothing_has_changed(small):
    plain = komd.CFKOMD().fit(small)
    stages = komd.CFKOMD(user_damping=0.0, popularity=0.0, ridge=None, negatives_weight=1.0).fit(small)
    assert stages.text == "CFKOMD()"
    assert np.array_equal(stages.matrix.values, plain.matrix.values)
    R = np.zeros((len(plain.catalogue.users), 50), bool)
    h = plain.catalogue.histories
    R[np.repeat(np.arange(len(R)), h.lengths), h.indices] = True
    assert np.allclose(plain.matrix.values, reference.gram(R, reference.tanimoto), atol=1e-7)


@pytest.mark.parametrize(
    "model", [komd.CFKOMD(user_damping=0.5, popularity=0.2, ridge=4.0, negatives_weight=0.5)], ids=repr
)
def test_a_filtered_model_serves_explains_and_travels(model, small, tmp_path):
    model = model.clone().fit(small)
    again = komd.model_from_text(model.text)
    assert again.get_params() == model.get_params()
    model.save(tmp_path / "m.komd")
    loaded = komd.load(tmp_path / "m.komd")
    assert loaded.recommend(n=7).to_arrow().equals(model.recommend(n=7).to_arrow())
    user, item = small.users[5], small.items[11]
    reasons = loaded.explain(user, item)
    assert reasons.score == pytest.approx(
        sum(reasons.table["contribution"].to_pylist()) + reasons.global_term, abs=1e-12
    )
    history = [small.items[i] for i in small.indices[small.indptr[5] : small.indptr[6]]]
    guest = loaded.recommend(histories={"guest": history}, n=5).to_arrow()
    assert guest["item_id"].equals(loaded.recommend(user, n=5).to_arrow()["item_id"])
    assert len(loaded.similar_items([item], n=5)) == 5


# ---- the target ---------------------------------------------------------------------------------------------------


def factors_of(model):
    """t by its definition."""
    d = model.catalogue.popularity
    powers = np.maximum(d, 1) ** float(model.target)
    return powers / np.sqrt((powers[d > 0] ** 2).mean())


@pytest.mark.parametrize("storage", ["dense", "sparse", "streamed"])
@pytest.mark.parametrize("theta", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("tau", [-1.5, 0.4, 3.0])
@pytest.mark.parametrize("stages", [{}, {"prior": 0.01, "ridge": 3.0, "rank": 12, "head": 1.0}], ids=["plain", "head"])
def test_the_target_multiplies_what_a_history_says_and_nothing_else(stages, tau, theta, storage, small):
    """t_j Σ_i w_i K(i, j) − b S_j, by brute force; the weights are those without a target."""
    held = {**stages, "negatives_weight": theta, "storage": storage}
    plain, model = (komd.CFKOMD(**held, target=target).fit(small) for target in (0.0, tau))
    K, t, rows = matrix_of(model), factors_of(model), model.catalogue.histories
    assert np.array_equal(matrix_of(plain), K) and np.array_equal(plain.S, model.S)
    weights, offsets = plain.weigh(rows, plain.matrix.own_entries(rows.rows))
    scores, lists = model.block_scores(rows), model.recommend(n=10).to_arrow()
    found = lists.group_by("user_id", use_threads=False).aggregate([("item_id", "list")])
    listed = dict(zip(found["user_id"].to_pylist(), found["item_id_list"].to_pylist(), strict=True))
    for u, h in enumerate(histories_of(model)):
        part = slice(rows.indptr[u], rows.indptr[u + 1])
        said = weights[part] @ K[h]
        expected = t * said - offsets[u] * model.S
        size = np.abs(t * said) + np.abs(offsets[u] * model.S) + t
        assert np.allclose(scores[u] / size, expected / size, atol=1e-5)
        mine = model.catalogue.item_ids(np.array(_best(scores[u], h, 10), np.int32)).to_pylist()
        assert listed[model.catalogue.users[u]] == mine


def _best(scores, history, n):
    """The n best items by brute force: equal scores by falling popularity, as items are numbered."""
    others = [j for j in range(len(scores)) if j not in set(history.tolist())]
    return sorted(others, key=lambda j: (-scores[j], j))[:n]


@pytest.mark.parametrize("tau", [-2.0, 0.5, 2.0])
def test_the_target_leaves_the_order_of_items_of_which_a_history_says_nothing(tau):
    """Their scores are −b S_j, below zero: multiplied by t_j too, popular items would come last."""
    R = np.kron(np.eye(2), np.ones((1, 6))).repeat([6, 9], axis=0) * (np.random.default_rng(0).random((15, 12)) < 0.6)
    plain, model = (fitted(komd.CFKOMD(target=target), R > 0) for target in (0.0, tau))
    K, checked = matrix_of(plain), 0
    for u, h in enumerate(histories_of(plain)):
        if not len(h):
            continue
        unconnected = np.flatnonzero(~K[h].any(axis=0))
        row = plain.catalogue.histories.block(u, u + 1)
        before, after = (each.block_scores(row)[0][unconnected] for each in (plain, model))
        assert (before < 0).any() and np.allclose(after, before, rtol=1e-12, atol=0)
        checked += len(np.unique(before)) > 1
    assert checked


@pytest.mark.parametrize("theta", [0.0, 0.5])
@pytest.mark.parametrize("storage", ["dense", "sparse", "streamed"])
def test_known_users_strangers_batches_and_aucs_of_a_target(storage, theta, small, monkeypatch):
    from komd.engine import item_based

    train, test = next(iter(komd.split.folds(small, rng=0)))
    model = komd.CFKOMD(user_damping=0.5, target=0.7, negatives_weight=theta, storage=storage).fit(train)
    user = train.users[5]
    history = list(train.history(user))
    known, everybody = model.recommend(user, n=9).to_arrow(), model.recommend(n=9).to_arrow()
    guest = model.recommend(histories={"guest": history}, n=9).to_arrow()
    assert known.drop_columns("user_id").equals(guest.drop_columns("user_id"))
    assert known.to_pylist() == [row for row in everybody.to_pylist() if row["user_id"] == user]
    with pytest.warns(komd.FallbackWarning):
        nobody = model.recommend(histories={"nobody": []}, n=5).to_arrow()
    assert nobody["score"].to_pylist() == sorted(train.popularity.tolist(), reverse=True)[:5]  # not multiplied
    found = komd.evaluate(model, test, metrics=["auc"], ties="half")["auc"].values
    monkeypatch.setattr(item_based, "_ROWS_SHARE", 0.0)
    assert np.array_equal(komd.evaluate(model, test, metrics=["auc"], ties="half")["auc"].values, found)


def test_aucs_of_a_target_by_brute_force(small):
    train, test = next(iter(komd.split.folds(small, rng=0)))
    model = komd.CFKOMD(target=0.7, storage="streamed").fit(train)
    measured = komd.evaluate(model, test, metrics=["auc"], ties="half")
    scores, chosen = model.block_scores(model.catalogue.histories), model.catalogue.chosen
    scores[:, chosen:] = -np.inf
    number = {item: k for k, item in enumerate(model.catalogue.item_ids(np.arange(scores.shape[1])).to_pylist())}
    areas = []
    for u, h in enumerate(histories_of(model)):
        user = model.catalogue.users[u]
        wanted = [number[item] for item in test.history(user)] if user in test.users else []
        others = np.setdiff1d(np.arange(scores.shape[1]), [*h, *wanted])
        if wanted and len(h):
            areas.append(reference.area_under_curve(scores[u][wanted], scores[u][others], 0.5))
    assert len(areas) > 20 and measured["auc"].mean == pytest.approx(np.mean(areas), abs=1e-12)


def test_similar_items_are_those_of_k_alone(small):
    plain, model = (komd.CFKOMD(target=target).fit(small) for target in (0.0, 2.0))
    assert (
        model.similar_items(list(small.items)[:5], n=7)
        .to_arrow()
        .equals(plain.similar_items(list(small.items)[:5], n=7).to_arrow())
    )


def test_parts_of_an_explanation_are_weight_similarity_and_target(small):
    model = komd.CFKOMD(target=0.7, negatives_weight=0.5).fit(small)
    user, item = small.users[5], small.items[11]
    why, table = model.explain(user, item), model.explain(user, item).to_arrow()
    number = model.catalogue.item_ids(np.arange(50)).to_pylist().index(item)
    t = factors_of(model)[number]
    expected = table["weight"].to_numpy() * table["similarity"].to_numpy() * t
    assert np.allclose(table["contribution"].to_numpy(), expected, rtol=1e-12)
    assert why.score == pytest.approx(table["contribution"].to_numpy().sum() + why.global_term, abs=1e-13)
    plain = komd.CFKOMD(negatives_weight=0.5).fit(small).explain(user, item)
    assert why.global_term == plain.global_term and why.global_term < 0


def test_another_fit_and_a_loaded_model_have_their_own_factors(small, tmp_path):
    model = komd.CFKOMD(target=0.7).fit(small)
    before = model.target_factors
    model.save(tmp_path / "m.komd")
    loaded = komd.load(tmp_path / "m.komd")
    assert np.array_equal(loaded.target_factors, before) and np.array_equal(loaded.scored_S, model.scored_S)
    model.fit(komd.generate(users=90, items=40, activity=6, rng=1))
    assert model.target_factors.shape == (40,) and not np.array_equal(model.target_factors, before[:40])
    model.set_params(target=0.0).fit(small)
    assert model.target_factors is None and model.scored_S is model.S


@pytest.mark.data
def test_filtered_kernels_win_on_movielens(ml_1m):
    """One round of the paper's protocol: above EASE's best on both measures, which no kernel of the paper is."""
    train, test = next(iter(komd.split.folds(ml_1m, half="random", rng=0)))
    model = komd.CFKOMD(user_damping=0.5, popularity=0.2, ridge=10, regularization=1, negatives_weight=0).fit(train)
    found = komd.evaluate(model, test, metrics=["auc", "ndcg@100"])
    assert found["auc"].mean > 0.930
    assert found["ndcg@100"].mean > 0.565
