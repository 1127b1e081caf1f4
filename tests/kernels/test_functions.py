"""Kernels as functions: the paper's formulas, the corrections to its printed text, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from komd.errors import InputError
from komd.kernels import RBF, DotProduct, Jaccard, Linear, Polynomial, Tanimoto, kernel_named
from tests import reference

T = np.linspace(0.0, 1.0, 101)
OF_COSINE = [
    Linear(),
    Polynomial(),
    Polynomial(degree=1, c=3.0),
    Polynomial(degree=5, c=0.0),
    Polynomial(degree=3, c=0.5),
    RBF(),
    RBF(gamma=1e-6),
    RBF(gamma=20.0),
    Tanimoto(),
    DotProduct([1.0, 0.0, 2.0, 3.0]),
]


def pair(t):
    """Two unit vectors whose dot product is t."""
    return np.array([1.0, 0.0]), np.array([t, math.sqrt(1 - t * t)])


def twin(kernel):
    """The reduced kernel of the reference at every t of T, from the vectors themselves."""
    k = reference.reduced(kernel)
    return np.array([k(*pair(t)) for t in T])


def test_correction_1_polynomial_coefficients():
    """a_s = C(d, s) c^(d−s): what (x·y + c)^d expands to."""
    for degree, c in ((1, 2.0), (2, 0.5), (3, 4.0), (6, 1.0)):
        kernel = Polynomial(degree=degree, c=c)
        a = np.array(reference.polynomial_series(degree, c))
        assert np.allclose(np.polyval(a[::-1], T), (T + c) ** degree)
        a[0] = 0.0
        assert np.allclose(kernel.coefficients, a / a.sum(), rtol=1e-14)
        assert np.allclose(kernel.of_cosine(T.copy()), twin(reference.polynomial(degree, c)), atol=1e-12)
        assert np.allclose(DotProduct(reference.polynomial_series(degree, c)).of_cosine(T), kernel.of_cosine(T))


@pytest.mark.parametrize("gamma", [0.01, 0.5, 1.0, 3.0, 25.0])
def test_correction_2_rbf_coefficients(gamma):
    """a_s = e^(−2γ) (2γ)^s / s!: the series is the closed form, and both are exp(−γ‖x − y‖²)."""
    closed = RBF(gamma=gamma).of_cosine(T.copy())
    assert np.allclose(closed, twin(reference.rbf(gamma)), atol=1e-12)
    terms = reference.rbf_series(gamma, 300)
    assert np.allclose([reference.series(terms)(*pair(t)) for t in T], np.exp(-2 * gamma * (1 - T)), atol=1e-12)
    assert np.allclose(DotProduct(terms).of_cosine(T), closed, atol=1e-12)
    asked = DotProduct(lambda s: reference.rbf_series(gamma, s + 1)[s], tolerance=1e-12)
    assert np.allclose(asked.of_cosine(T), closed, atol=1e-10)


def test_correction_3_tanimoto_has_squared_norms():
    """x·y / (‖x‖² + ‖y‖² − x·y) is x·y / (2 − x·y) on unit vectors, a_s = 2^(−s); on binary vectors it is Jaccard."""
    closed = Tanimoto().of_cosine(T.copy())
    assert np.allclose(closed, T / (2 - T))
    assert np.allclose(closed, twin(reference.tanimoto), atol=1e-12)
    assert np.allclose(DotProduct(reference.tanimoto_series(60)).of_cosine(T), closed, atol=1e-12)
    assert np.allclose(DotProduct(lambda s: 2.0**-s, tolerance=1e-12).of_cosine(T), closed, atol=1e-11)
    both, first, second = (np.array([float(x)]) for x in (2, 3, 4))
    assert Jaccard().of_counts(both, first, second)[0] == pytest.approx(2 / 5)
    cosine = 2 / math.sqrt(12)
    assert Tanimoto().of_counts(both, first, second)[0] == pytest.approx(cosine / (2 - cosine))


@pytest.mark.parametrize("kernel", OF_COSINE, ids=repr)
def test_reduced_and_normalised(kernel):
    f = kernel.of_cosine(T.copy())
    assert f[0] == 0.0
    assert f[-1] == pytest.approx(1.0, abs=1e-15)
    assert (np.diff(f) >= 0).all()
    assert (f[1:] > 0).all()  # the non-zeros of the cosine


@pytest.mark.parametrize("kernel", [*OF_COSINE, Jaccard()], ids=repr)
def test_items_nobody_chose(kernel):
    """No user at all, on either side: zero, never a division by zero."""
    with np.errstate(all="raise", under="ignore"):
        degree = np.array([0.0, 0.0, 3.0])
        both = np.zeros((3, 3))
        both[2, 2] = 3.0
        K = kernel.of_counts(both, degree[:, None], degree[None, :])
    assert K[2, 2] == pytest.approx(1.0)
    K[2, 2] = 0.0
    assert not K.any()


@pytest.mark.parametrize("gamma", [1e-9, 400.0, 1e6])
def test_rbf_overflows_for_no_gamma(gamma):
    f = RBF(gamma=gamma).of_cosine(T.copy())
    assert np.isfinite(f).all()
    assert f[-1] == 1.0
    if gamma < 1:
        assert np.allclose(f, T)  # nothing but the first degree is left


@pytest.mark.parametrize("kernel", [Polynomial(degree=2, c=1e200), Polynomial(degree=1500, c=1.0)], ids=repr)
def test_a_large_polynomial_is_finite(kernel):
    """a_s outgrows a float; what is left after dividing by their sum does not."""
    f = kernel.of_cosine(T.copy())
    assert np.isfinite(f).all()
    assert f[-1] == pytest.approx(1.0)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=12).filter(lambda a: sum(a[1:]) > 1e-3))
def test_any_coefficients(a):
    f = DotProduct(a).of_cosine(T.copy())
    k = [sum(x * t**s for s, x in enumerate(a) if s) / sum(a[1:]) for t in T]
    assert np.allclose(f, k, atol=1e-12)


def test_a_constant_changes_nothing():
    assert DotProduct([9.0, 1.0, 2.0]) == DotProduct([0.0, 1.0, 2.0])
    assert hash(DotProduct([9.0, 1.0, 2.0])) == hash(DotProduct([0.0, 1.0, 2.0]))
    assert DotProduct([0.0, 1.0]) != DotProduct([0.0, 1.0, 2.0])


def test_negative_coefficients_are_refused_with_the_reason():
    with pytest.raises(InputError, match=r"a_2 = -0\.5 is negative.*positive definite"):
        DotProduct([1.0, 1.0, -0.5])
    with pytest.raises(InputError, match=r"a_0 = -1 is negative"):
        DotProduct([-1.0, 1.0])
    with pytest.raises(InputError, match=r"a_3 = -1 is negative"):
        DotProduct(lambda s: -1.0 if s == 3 else 0.5**s)


@pytest.mark.parametrize("wrong", [[], [1.0], [[1.0, 2.0]], [0.0, math.nan], [0.0, math.inf], ["a", "b"], 3.0, None])
def test_what_is_no_list_of_coefficients(wrong):
    with pytest.raises(InputError, match="coefficients must be"):
        DotProduct(wrong)


@pytest.mark.parametrize("constant", [[5.0, 0.0], [0.0, 0.0, 0.0]])
def test_a_constant_kernel_is_refused(constant):
    with pytest.raises(InputError, match="constant kernel"):
        DotProduct(constant)


# Series by their coefficients, with enough terms to stand for all of them.
SERIES = {
    "geometric": lambda s: 0.9**s,
    "slow geometric": lambda s: 0.99**s,
    "exponential": lambda s: math.exp(s * math.log(5) - math.lgamma(s + 1)),
    "hump": lambda s: math.exp(s * math.log(40) - math.lgamma(s + 1)),
    "even degrees only": lambda s: 0.9**s if s % 2 == 0 else 0.0,
    "every fifth degree": lambda s: 0.95**s if s % 5 == 1 else 0.0,
    "late start": lambda s: 0.0 if s < 30 else 0.8**s,
    "large constant": lambda s: 1e9 if s == 0 else 0.9**s,
}


@pytest.mark.parametrize("name", SERIES)
@pytest.mark.parametrize("tolerance", [1e-2, 1e-5, 1e-8])
def test_a_callable_is_truncated_to_the_tolerance(name, tolerance):
    term = SERIES[name]
    whole = [term(s) for s in range(6000)]
    whole[0] = 0.0
    kept = len(DotProduct(term, tolerance=tolerance).coefficients)
    assert sum(whole[kept:]) <= tolerance * sum(whole)
    f = DotProduct(term, tolerance=tolerance).of_cosine(T.copy())
    assert np.abs(f - DotProduct(whole).of_cosine(T.copy())).max() <= tolerance


def test_a_finite_callable_ends():
    assert len(DotProduct(lambda s: 1.0 if s in (1, 2) else 0.0).coefficients) < 30


@pytest.mark.parametrize("term", [lambda s: 1.0, lambda s: 1.0 / (s + 1), lambda s: float(s)])
def test_coefficients_that_do_not_fall_off_are_refused(term):
    with pytest.raises(InputError, match="do not fall off"):
        DotProduct(term)


def test_a_callable_that_gives_no_finite_number_is_refused():
    with pytest.raises(InputError, match="finite"):
        DotProduct(lambda s: math.nan)


@pytest.mark.parametrize("tolerance", [0.0, -1.0, math.nan, "tiny"])
def test_wrong_tolerance(tolerance):
    with pytest.raises(InputError, match="tolerance must be"):
        DotProduct(lambda s: 0.5**s, tolerance=tolerance)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Polynomial(degree=0), "degree must be a whole number >= 1, got 0"),
        (lambda: Polynomial(degree=2.5), "degree must be a whole number"),
        (lambda: Polynomial(degree=True), "degree must be a whole number"),
        (lambda: Polynomial(c=-1.0), r"c must be >= 0, got -1\.0"),
        (lambda: Polynomial(c=math.nan), "c must be a number >= 0, got nan"),
        (lambda: Polynomial(c="1"), "c must be a number >= 0, got '1'"),
        (lambda: RBF(gamma=0.0), r"gamma must be > 0, got 0\.0"),
        (lambda: RBF(gamma=-2), "gamma must be > 0, got -2"),
        (lambda: RBF(gamma=math.inf), "gamma must be a number > 0, got inf"),
    ],
)
def test_wrong_parameters(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_kernels_by_name():
    assert kernel_named("linear") == Linear()
    assert kernel_named("polynomial") == Polynomial()
    assert kernel_named("rbf") == kernel_named("RBF") == RBF()
    assert kernel_named("tanimoto") == Tanimoto()
    assert kernel_named("jaccard") == Jaccard()
    assert kernel_named(RBF(gamma=3)) == RBF(gamma=3)


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(InputError, match=r"unknown kernel 'tanimotto'; did you mean 'tanimoto'\?"):
        kernel_named("tanimotto")
    with pytest.raises(InputError, match=r"unknown kernel 'xyz'; known: jaccard, linear, polynomial, rbf, tanimoto"):
        kernel_named("xyz")
    with pytest.raises(InputError, match=r"must be a name or an object of komd\.kernels, got 3"):
        kernel_named(3)
    with pytest.raises(InputError, match="must be a name or an object"):
        kernel_named(Linear)
