"""Parameters: listed, changed, copied, shown, and refused when wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sklearn.base

import komd
from komd.errors import InputError
from komd.kernels import RBF, Linear, Polynomial
from komd.models.registry import MODELS

CHANGED = [
    komd.CFKOMD(kernel=Polynomial(degree=3, c=2.0), regularization=0.5, negatives="mean", tolerance=1e-5),
    komd.ECFOMD(regularization=2, negatives="mean"),
    komd.CFOMD(kernel="rbf", regularization_negatives=7.0, max_iterations=9),
    komd.Popularity(),
]


@pytest.mark.parametrize("model", [*(m() for m in MODELS.values()), *CHANGED], ids=repr)
def test_clones(model):
    for copy in (model.clone(), sklearn.base.clone(model)):
        assert type(copy) is type(model)
        assert copy is not model
        assert copy.get_params() == model.get_params()
        assert repr(copy) == repr(model)


def test_a_clone_is_not_fitted(small):
    model = komd.CFKOMD().fit(small)
    for copy in (model.clone(), sklearn.base.clone(model)):
        with pytest.raises(InputError, match="not fitted yet"):
            copy.recommend()


def test_get_and_set():
    model = komd.CFKOMD(regularization=0.3)
    assert model.get_params() == {
        "kernel": "tanimoto",
        "regularization": 0.3,
        "negatives": "exact",
        "tolerance": 1e-8,
        "user_damping": 0.0,
        "popularity": 0.0,
        "ridge": None,
        "rank": None,
        "head": 0.0,
        "prior": 0.0,
        "prior_power": 0.5,
        "target": 0.0,
        "weighting": "log",
        "weighted_kernel": False,
        "half_life": None,
        "dislikes_weight": 0.0,
        "negatives_weight": 1.0,
        "storage": None,
    }
    assert model.get_params(deep=False) == model.get_params()
    assert model.set_params(kernel=Linear(), negatives="mean") is model
    assert repr(model) == "CFKOMD(kernel=Linear(), regularization=0.3, negatives='mean')"
    assert "kernel" not in komd.ECFOMD().get_params()


@pytest.mark.parametrize(
    "wrong",
    [
        {"regularization": -1.0},
        {"regularization": 2.0, "kernel": "nothing"},
        {"kernel": "rbf", "negatives": "some"},
        {"kernel": "rbf", "regularisation": 1.0},
        {"tolerance": 0.0, "regularization": 3.0},
        {"head": -1.0, "regularization": 3.0},
        {"target": 11.0, "regularization": 3.0},
    ],
)
def test_set_params_with_a_wrong_value_changes_nothing(wrong):
    model = komd.CFKOMD(kernel=RBF(gamma=2.0), regularization=0.3)
    before = repr(model)
    with pytest.raises(InputError):
        model.set_params(**wrong)
    assert repr(model) == before


def test_an_unknown_parameter_suggests_the_nearest():
    with pytest.raises(InputError, match=r"CFKOMD has no parameter 'regularisation'; did you mean 'regularization'\?"):
        komd.CFKOMD().set_params(regularisation=1.0)
    with pytest.raises(InputError, match="ECFOMD has no parameter 'kernel'"):
        komd.ECFOMD().set_params(kernel="linear")


def test_only_by_name():
    with pytest.raises(TypeError):
        komd.CFKOMD("linear")


@pytest.mark.parametrize("model", [komd.CFKOMD, komd.ECFOMD, komd.CFOMD])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("regularization", -1.0),
        ("regularization", math.nan),
        ("regularization", math.inf),
        ("regularization", "much"),
        ("regularization", None),
        ("regularization", True),
        ("tolerance", 0.0),
        ("tolerance", -1e-9),
        ("tolerance", math.nan),
    ],
)
def test_wrong_numbers(model, name, value):
    with pytest.raises(InputError, match=f"{name} must be .*got {value!r}"):
        model(**{name: value})


def test_other_wrong_values():
    with pytest.raises(InputError, match=r"regularization must be >= 0, got -1\.0"):
        komd.CFKOMD(regularization=-1.0)
    with pytest.raises(InputError, match=r"regularization_negatives must be >= 0, got -2"):
        komd.CFOMD(regularization_negatives=-2)
    with pytest.raises(InputError, match="max_iterations must be >= 1, got 0"):
        komd.CFOMD(max_iterations=0)
    with pytest.raises(InputError, match="negatives must be 'exact' or 'mean', got 'none'"):
        komd.CFKOMD(negatives="none")
    with pytest.raises(InputError, match="unknown kernel 'liner'; did you mean 'linear'"):
        komd.CFKOMD(kernel="liner")
    with pytest.raises(InputError, match=r"head must be >= 0, got -0\.5"):
        komd.CFKOMD(head=-0.5)
    with pytest.raises(InputError, match=r"target must be >= -10, got -10\.5"):
        komd.CFKOMD(target=-10.5)
    for name in ("head", "target"):
        for value in (math.nan, math.inf, "much", None, True):
            with pytest.raises(InputError, match=f"{name} must be .*got {value!r}"):
                komd.CFKOMD(**{name: value})
    assert {"head", "target"}.isdisjoint(komd.ECFOMD().get_params())


def test_numpy_numbers_are_numbers():
    model = komd.CFKOMD(regularization=np.float64(0.5))
    assert komd.model_from_text(repr(model)).regularization == 0.5
    assert komd.CFOMD(max_iterations=np.int64(7)).max_iterations == 7


ODD = [0, 5e-324, 1e-12, 1, 1e15, 1e30, 1e300, 10**400, math.inf, math.nan, -1, -1e300, True, "1", b"1", None, [1], 1j]
ODD += [np.float32(0.5), np.float16(2), np.int8(2), np.uint64(2**63), np.bool_(True), np.array(0.5), np.array([0.5])]
STAGES = {"ridge": 10.0, "prior": 0.01, "user_damping": 0.5, "popularity": 0.3}
# Few iterations: problems that are not solved in time are SolverErrors.
FEW = {komd.CFOMD: {"max_iterations": 40}, komd.WRMF: {"iterations": 2}}
BASES = [(model, FEW.get(model, {})) for model in MODELS.values()] + [
    (komd.CFKOMD, STAGES),
    (komd.CFKOMD, STAGES | {"rank": 4, "storage": "sparse"}),
    (komd.CFKOMD, STAGES | {"rank": 4, "storage": "streamed", "kernel": "rbf"}),
    (komd.CFKOMD, STAGES | {"rank": 4, "head": 1.0, "target": -0.5, "storage": "sparse"}),
    (komd.CFKOMD, {"head": 1.0, "target": 0.5}),
]


@pytest.mark.filterwarnings("error", "ignore::komd.errors.FilterWarning")
@pytest.mark.parametrize(("model", "base"), BASES, ids=str)
def test_an_odd_value_is_refused_or_gives_finite_scores(model, base):
    """Whatever is given: an error of komd that names the parameter, or a model whose scores are numbers."""
    if model in (komd.BPR, komd.WRMF):
        pytest.importorskip("implicit", reason="the extra rivals")
    data = komd.generate(users=40, items=20, activity=5, tastes=3, rng=0)
    for name in model._defaults():
        for value in ODD:
            if name in ("iterations", "epochs", "max_iterations") and isinstance(value, float) and value > 1:
                continue  # many iterations are no error, and take their time
            try:
                made = model(**(base | {name: value}))
            except InputError as error:
                assert name in str(error) or name == "storage", (name, value)
                continue
            try:
                lists = made.fit(data).recommend(n=20).to_arrow()
            except komd.KomdError:
                continue
            assert np.isfinite(lists["score"].to_numpy()).all(), (name, value)
            assert komd.model_from_text(made.text).text == made.text


def test_a_huge_value_is_refused_with_its_bound():
    for text, words in {
        "CFKOMD(ridge=1e30)": r"ridge must be <= 1e\+09, got 1e\+30",
        "CFKOMD(prior=1e300)": r"prior must be <= 1e\+06, got 1e\+300",
        "CFKOMD(head=1e300)": r"head must be <= 1e\+06, got 1e\+300",
        "CFKOMD(target=10.5)": r"target must be <= 10, got 10\.5",
        "WRMF(regularization=1e300)": r"regularization must be <= 1e\+15, got 1e\+300",
        f"SLIM(max_iterations={10**40})": r"max_iterations must be <= 2,147,483,647, got 10\^40",
    }.items():
        with pytest.raises(InputError, match=words):
            komd.model_from_text(text)


def test_factors_that_do_not_fit_are_refused_with_the_numbers(small):
    pytest.importorskip("implicit", reason="the extra rivals")
    for model in (komd.WRMF(factors=10**6), komd.BPR(factors=10**9)):
        with pytest.raises(InputError, match=r"factors of 120 users and 50 items need .*budget is .*memory="):
            model.fit(small, memory="100MB")
    with pytest.raises(komd.SolverError, match=r"BPR diverged.*learning_rate"):
        komd.BPR(learning_rate=1e5).fit(small)


def test_a_filter_whose_vectors_do_not_fit_says_so(small):
    with pytest.raises(InputError, match=r"a filter of rank 40 needs .* for 50 items, and the budget is 9 kB; raise"):
        komd.CFKOMD(ridge=1.0, rank=40).fit(small, memory=9000)
