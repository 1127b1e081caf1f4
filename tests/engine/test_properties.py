"""The properties the method promises, each by name."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sparse
from hypothesis import example, given, settings
from hypothesis import strategies as st

import komd
from komd._core.simplex import solve_simplex
from komd.data.ids import Ids
from komd.data.interactions import Interactions
from komd.engine import ranking
from komd.engine.histories import Histories
from komd.errors import SolverError
from komd.kernels import RBF, DotProduct, Jaccard, Linear, Polynomial, Tanimoto
from tests import reference

ITEM_BASED = [
    komd.ECFOMD(),
    komd.ECFOMD(negatives="mean"),
    komd.CFKOMD(),
    komd.CFKOMD(kernel=Polynomial(degree=2, c=4), regularization=0.1, negatives="mean"),
    komd.CFKOMD(kernel="rbf", regularization=0.0),
    komd.CFKOMD(kernel="jaccard"),
    komd.Popularity(),
]
EVERY = [*ITEM_BASED, komd.CFOMD(), komd.CFOMD(kernel="tanimoto", regularization_negatives=0.1, tolerance=1e-9)]
SOLVING = [model for model in EVERY if not isinstance(model, komd.Popularity)]


def table(found):
    return found.to_arrow().to_pydict()


def matrix_of(model):
    """K of a fitted model in inside numbers, whole, float64."""
    if isinstance(model, komd.CFOMD):
        return model._K.astype(float)
    K = model.matrix
    return np.array([K.row(i) for i in range(K.items)], float)


def histories_of(model):
    rows = model.catalogue.histories
    return [rows.indices[a:b] for a, b in zip(rows.indptr[:-1], rows.indptr[1:], strict=True)]


def random_data(seed, users=30, items=20, density=0.25):
    """People of all kinds: random ones, one with one item, one with every item; items nobody has, and twins."""
    rng = np.random.default_rng(seed)
    R = rng.random((users, items)) < density
    R[:, 3] = R[:, 4]
    R[0] = False
    R[0, 5] = True
    R[:, 7] = False
    R[1] = True
    R[1, 7] = False
    return R


def fitted(model, R):
    return model.clone().fit(sparse.csr_array(R.astype(np.float32)))


# ---- the methods among themselves -------------------------------------------------------------------------------


@pytest.mark.parametrize("negatives", ["exact", "mean"])
@pytest.mark.parametrize("regularization", [0.0, 0.01, 1.0])
def test_ecfomd_is_cfkomd_with_the_linear_kernel(small, negatives, regularization):
    settings = {"negatives": negatives, "regularization": regularization}
    ecf = komd.ECFOMD(**settings).fit(small).recommend(n=10)
    for kernel in ("linear", Linear(), Polynomial(degree=1, c=2), DotProduct([7, 3])):
        kernelled = komd.CFKOMD(kernel=kernel, **settings).fit(small).recommend(n=10)
        assert kernelled.to_arrow().equals(ecf.to_arrow())


def test_cfomd_with_a_huge_negative_regularization_approaches_ecfomd(small):
    """λ_n = 1e9: the negatives become their centroid."""
    ecf = komd.ECFOMD(tolerance=1e-10).fit(small)
    full = komd.CFOMD(regularization_negatives=1e9).fit(small)
    rows = ecf.catalogue.histories.block(0, 40)
    assert np.allclose(full.block_scores(rows), ecf.block_scores(rows), atol=1e-4)
    distances = []
    for strength in (1.0, 1e3, 1e6):
        nearer = komd.CFOMD(regularization_negatives=strength, tolerance=1e-9).fit(small)
        distances.append(np.abs(nearer.block_scores(rows) - ecf.block_scores(rows)).max())
    assert distances[0] > 10 * distances[1] > 10 * distances[2]


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
            assert solve_simplex(K_u, g, lam, alpha, tol, 1_000_000, np.empty(len(g))) >= 0
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


@pytest.mark.parametrize("model", ITEM_BASED, ids=repr)
def test_block_sizes_change_nothing(model, small, monkeypatch):
    model = model.clone().fit(small)
    whole = model.recommend(n=10).to_arrow()
    for most in (1, 7, 1000):
        monkeypatch.setattr(ranking, "_MOST_USERS", most)
        assert model.recommend(n=10, threads=2).to_arrow().equals(whole)


@pytest.mark.parametrize("model", EVERY, ids=repr)
def test_a_user_alone_is_scored_as_in_any_block(model, small):
    model = model.clone().fit(small)
    rows = model.catalogue.histories
    together = model.block_scores(rows)
    for u in range(0, len(rows), 11):
        assert np.array_equal(model.block_scores(rows.block(u, u + 1))[0], together[u])
        first = max(0, u - 5)
        assert np.array_equal(model.block_scores(rows.block(first, u + 1))[-1], together[u])


@pytest.mark.parametrize("held", ["dense", "sparse"])
def test_dense_is_sparse(small, held, request):
    models = [model for model in ITEM_BASED if getattr(model, "regularization", 0) > 0]
    dense = [model.clone().fit(small) for model in models]
    request.getfixturevalue("held_sparse")
    thin = [model.clone().fit(small) for model in models]
    for a, b in zip(dense, thin, strict=True):
        assert (a.matrix.storage, b.matrix.storage) == ("dense", "sparse")
        rows = a.catalogue.histories
        assert np.allclose(a.block_scores(rows), b.block_scores(rows), atol=1e-10)


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
    """Rows and columns of the data in another order: the same scores for the same people and items."""
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


# ---- the answers are optimal ------------------------------------------------------------------------------------


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
@example(151, "linear", 0.0, "exact")  # a person with every item but one: nearly flat, thousands of steps
def test_kkt_and_cvxopt_on_random_problems(seed, kernel, lam, negatives):
    """Twin items, people with one item and with every item, items nobody chose, λ = 0."""
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


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.01, 1.0]),
    st.sampled_from([1e-3, 0.01, 1.0, 100.0, 1e4]),
    st.sampled_from(["linear", "tanimoto"]),
)
def test_cfomd_is_cvxopts(seed, lam_p, lam_n, kernel):
    model = komd.CFOMD(
        kernel=kernel, regularization=lam_p, regularization_negatives=lam_n, tolerance=1e-10, max_iterations=200_000
    )
    model = fitted(model, random_data(seed, users=12, items=14))
    K = matrix_of(model)
    for u, h in enumerate(histories_of(model)):
        if not len(h):
            continue
        answer = model.solve(u)
        positive = np.isin(np.arange(14), h)
        assert np.array_equal(answer.positive, positive)
        assert answer.gap <= 1e-10
        assert (answer.alpha >= 0).all()
        assert answer.alpha[positive].sum() == pytest.approx(1, abs=1e-10)
        assert answer.alpha[~positive].sum() == pytest.approx(1, abs=1e-10)
        theirs = reference.solve_two_simplexes(K, positive, lam_p, lam_n)
        best = reference.two_simplex_objective(K, positive, lam_p, lam_n, theirs)
        mine = reference.two_simplex_objective(K, positive, lam_p, lam_n, answer.alpha)
        assert mine <= best + 1e-8 * abs(best) + 1e-9
        # From below the gap, computed anew, is the better witness: interior points stall where K is singular.
        gap = reference.two_simplex_gap(K, positive, lam_p, lam_n, answer.alpha)
        assert gap <= 1e-10 + 1e-14 * lam_n
        found = model.block_scores(model.catalogue.histories.block(u, u + 1))[0]
        signed = np.where(positive, answer.alpha, -answer.alpha)
        assert np.allclose(found, signed @ K, atol=1e-10)


def test_cfomd_for_a_person_with_every_item():
    model = fitted(komd.CFOMD(), random_data(0))
    everything = list(range(20))
    answer = model.solve(history=everything)
    assert answer.alpha.sum() == pytest.approx(1)
    scores = model.block_scores(Histories.of_rows([np.arange(20, dtype=np.int32)]))[0]
    assert np.allclose(scores, matrix_of(model).mean(axis=0), atol=1e-12)


def test_unconverged_answers_are_refused(small):
    model = komd.CFOMD(max_iterations=1, tolerance=1e-9).fit(small)
    with pytest.raises(
        SolverError, match=r"problems were not solved in 1 iterations: the gap is still .* asked for 1e-09"
    ):
        model.recommend()
    with pytest.raises(SolverError):
        model.solve(small.users[0])
    with pytest.raises(SolverError):
        model.explain(small.users[0], small.items[0])


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


# ---- items nobody chose -----------------------------------------------------------------------------------------

KERNELS = [Linear(), Polynomial(), RBF(), Tanimoto(), Jaccard(), DotProduct([0, 1, 1])]


@pytest.mark.filterwarnings("ignore::komd.errors.FallbackWarning")
@pytest.mark.parametrize(
    "model", [*(komd.CFKOMD(kernel=k) for k in KERNELS), komd.CFOMD(), komd.Popularity()], ids=repr
)
def test_items_nobody_chose_make_no_nan(model):
    """Two items nobody has, one person who has nothing: all numbers stay numbers."""
    R = np.zeros((4, 6), np.float32)
    R[0, [0, 1]] = R[1, [1, 2]] = R[2, [0, 1, 2, 3]] = 1
    with np.errstate(divide="raise", invalid="raise"):
        model = fitted(model, R)
        found = model.recommend(n=6)
        strangers = model.recommend(histories=[[4], [4, 5], [0, 4], list(range(6))], n=6, exclude_seen=False)
    for scores in (found.to_arrow()["score"].to_numpy(), strangers.to_arrow()["score"].to_numpy()):
        assert np.isfinite(scores).all()
    assert len(strangers) == 4 * 4  # of the items that somebody has
    assert np.isfinite(matrix_of(model)).all()
    why = model.explain(item=5, history=[4, 0])
    assert np.isfinite(why.score)
    assert 4 not in model.similar_items([0], n=6).to_arrow()["item_id"].to_pylist()
    assert len(model.similar_items([4], n=6)) == 0


def test_ids_of_any_kind_survive(small):
    """The same answers under other names."""
    import pyarrow as pa

    renamed = Interactions(
        Ids(pa.array(range(len(small.users))), noun="user"), small.items, small.indptr, small.indices
    )
    plain, other = (komd.ECFOMD().fit(data).recommend(n=5).to_arrow() for data in (small, renamed))
    assert plain["item_id"].to_pylist() == other["item_id"].to_pylist()
    assert plain["score"].to_pylist() == other["score"].to_pylist()
