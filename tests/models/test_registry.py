"""Models as text: what `repr` writes is read back, nothing is evaluated, and mistakes are named."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import komd
from komd import journal, store
from komd.errors import InputError, KomdError
from komd.kernels import RBF, DotProduct, Jaccard, Linear, Polynomial, Tanimoto
from komd.models.registry import MODELS, load_exactly, model_from_text

KERNELS = [
    "linear",
    "jaccard",
    Linear(),
    Polynomial(),
    Polynomial(degree=4, c=0.25),
    RBF(),
    RBF(gamma=0.125),
    Tanimoto(),
    Jaccard(),
    DotProduct([0, 1, 1, 1, 1, 1, 1]),
    DotProduct(lambda s: 0.7**s),
]


@pytest.mark.parametrize("name", MODELS)
def test_every_model_by_name(name):
    assert type(model_from_text(name)) is MODELS[name]
    assert type(model_from_text(f"  {name}( ) ")) is MODELS[name]
    assert repr(model_from_text(name)) == f"{name}()"
    assert getattr(komd, name) is MODELS[name]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("model", [komd.CFKOMD, komd.CFOMD])
def test_every_kernel_survives_the_round_trip(model, kernel):
    first = model(kernel=kernel, regularization=0.125)
    again = model_from_text(repr(first))
    assert again.get_params() == first.get_params()
    assert repr(again) == repr(first)


@settings(deadline=None, max_examples=50)
@given(
    st.floats(0, 1e300),
    st.floats(min_value=1e-300, max_value=1e300),
    st.sampled_from(["exact", "mean"]),
    st.integers(1, 9),
    st.floats(0, 100),
)
def test_the_round_trip(regularization, tolerance, negatives, degree, c):
    kernel = Polynomial(degree=degree, c=c)
    model = komd.CFKOMD(kernel=kernel, regularization=regularization, negatives=negatives, tolerance=tolerance)
    assert model_from_text(repr(model)).get_params() == model.get_params()
    assert eval(repr(model), {**vars(komd.kernels), "CFKOMD": komd.CFKOMD}).get_params() == model.get_params()


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=9).filter(lambda a: sum(a[1:]) > 0.01))
def test_coefficients_survive_the_round_trip(coefficients):
    model = komd.CFKOMD(kernel=DotProduct(coefficients))
    again = model_from_text(repr(model))
    assert np.array_equal(again.kernel.coefficients, model.kernel.coefficients)


def test_what_the_command_line_takes():
    model = model_from_text("CFKOMD(kernel=Polynomial(degree=2, c=4), regularization=0.5)")
    assert model.get_params()["kernel"] == Polynomial(degree=2, c=4)
    assert model_from_text("CFKOMD(kernel=Tanimoto)").kernel == Tanimoto()
    assert model_from_text("CFKOMD(kernel='rbf')").kernel == "rbf"
    assert model_from_text("CFKOMD(kernel=DotProduct([0, 1, 2]))").kernel == DotProduct([0, 1, 2])
    assert model_from_text("CFKOMD(regularization=1e-3)").regularization == 1e-3


UNSAFE = [
    "__import__('os').system('touch {mark}')",
    "CFKOMD(regularization=__import__('os').system('touch {mark}'))",
    "CFKOMD(kernel=open('{mark}', 'w'))",
    "CFKOMD(kernel=DotProduct([open('{mark}', 'w')]))",
    "CFKOMD(regularization=[open(x, 'w') for x in ['{mark}']])",
    "CFKOMD(kernel=DotProduct(lambda s: open('{mark}', 'w')))",
    "CFKOMD(regularization=(x := open('{mark}', 'w')))",
    'CFKOMD(regularization=f\'{{open("{mark}", "w")}}\')',
    "CFKOMD(**eval(\"{{'regularization': open('{mark}', 'w')}}\"))",
    "CFKOMD(*[open('{mark}', 'w')])",
    "CFKOMD().fit(open('{mark}', 'w'))",
    "CFKOMD.__init__.__globals__['__builtins__']",
    "(lambda: open('{mark}', 'w'))()",
    "CFKOMD() or open('{mark}', 'w')",
    "CFKOMD(); open('{mark}', 'w')",
    "CFKOMD(regularization=10**10**10)",
    "CFKOMD(regularization='a' * 10**12)",
]


@pytest.mark.parametrize("text", UNSAFE)
def test_nothing_is_evaluated(text, tmp_path):
    mark = tmp_path / "mark"
    with pytest.raises(InputError):
        model_from_text(text.format(mark=mark))
    assert not mark.exists()


NONSENSE = ["", "   ", "CFKOMD(", "CFKOMD)", "3", "'CFKOMD'", "CFKOMD,", "CFKOMD()()", "CFKOMD\0", "[CFKOMD]", "a b c"]


@pytest.mark.parametrize("text", NONSENSE)
def test_nonsense_is_bad_input(text):
    with pytest.raises(InputError):
        model_from_text(text)


@pytest.mark.parametrize(
    "text", ["CFKOMD(regularization=" + "-" * 200_000 + "1)", "(" * 5000 + "CFKOMD" + ")" * 5000, "CFKOMD(" * 3000]
)
def test_deep_nonsense_is_bad_input(text):
    with pytest.raises(InputError):
        model_from_text(text)


@settings(deadline=None, max_examples=200)
@given(st.text(alphabet="CFKOMDE()=,'\"[]{}*.:0123456789ekrnl_ \\", max_size=40))
def test_any_text_is_a_model_or_bad_input(text):
    try:
        model = model_from_text(text)
    except InputError:
        return
    assert type(model).__name__ in MODELS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CFKOM", r"unknown model 'CFKOM'; did you mean 'CFKOMD'\?"),
        ("ecfomd()", r"unknown model 'ecfomd'; did you mean 'ECFOMD'\?"),
        ("popularity", "did you mean 'Popularity'"),
        ("Qqq", f"unknown model 'Qqq'; known: {', '.join(sorted(MODELS))}"),
        ("CFKOMD(kernel=Tanimotto())", "unknown name 'Tanimotto'.*did you mean 'Tanimoto'"),
        ("CFKOMD(kernel='tanimotto')", "unknown kernel 'tanimotto'; did you mean 'tanimoto'"),
        ("CFKOMD(regularisation=1)", "CFKOMD has no parameter 'regularisation'; did you mean 'regularization'"),
        ("CFKOMD(kernel=Polynomial(grade=2))", "Polynomial has no parameter 'grade'"),
        ("CFKOMD('linear')", "CFKOMD takes .* by name"),
        ("CFKOMD(**{'a': 1})", r"\*\* is not understood"),
        ("CFKOMD(regularization=-1)", "regularization must be >= 0, got -1"),
        ("CFKOMD(kernel=CFKOMD())", "unknown name 'CFKOMD'"),
        ("CFKOMD(kernel=Polynomial(degree=0))", "degree must be a whole number"),
    ],
)
def test_mistakes_are_named(text, message):
    with pytest.raises(InputError, match=message):
        model_from_text(text)


def test_no_number_is_no_parameter():
    for text in ("CFKOMD(regularization=1e999)", "CFKOMD(regularization=None)", "CFKOMD(regularization='0.1')"):
        with pytest.raises(InputError, match="regularization must be a number"):
            model_from_text(text)
    with pytest.raises(InputError):
        model_from_text("CFKOMD(regularization=nan)")
    assert math.isfinite(model_from_text("CFKOMD()").regularization)


@pytest.mark.parametrize("number", [np.float64(0.25), np.float32(0.25), np.int64(3)], ids=repr)
def test_numpy_numbers_survive_saving(number, small, tmp_path):
    """A grid made by numpy is a common thing."""
    model = komd.ECFOMD(regularization=number).fit(small)
    model.save(tmp_path / "m.komd")
    assert komd.load(tmp_path / "m.komd").regularization == number


def test_a_kernel_with_numpy_numbers_survives_saving(small, tmp_path):
    model = komd.CFKOMD(kernel=RBF(gamma=np.float64(0.5))).fit(small)
    model.save(tmp_path / "m.komd")
    assert komd.load(tmp_path / "m.komd").kernel == RBF(gamma=0.5)


def test_errors_are_one_tree():
    assert issubclass(InputError, KomdError)
    assert issubclass(InputError, ValueError)
    assert issubclass(komd.UnknownIdError, KeyError)
    assert issubclass(komd.SolverError, RuntimeError)
    assert all(issubclass(e, KomdError) for e in (komd.UnknownIdError, komd.SolverError, komd.ModelFileError))


def test_records_of_a_journal_are_replayed(small, tmp_path, monkeypatch):
    path = tmp_path / "m.komd"
    komd.ECFOMD().fit(small).save(path)
    saved = store.load(path)
    journal.append(path, [b"one", b"two"], manifest=saved.manifest, known=saved.tip)
    seen = []
    monkeypatch.setattr(komd.ECFOMD, "replay", lambda self, records: seen.append((self.text, records)) or self)
    model = komd.load(path)
    assert seen == [(model.text, [b"one", b"two"])]
    assert load_exactly(path, saved.manifest).text == model.text  # without its journal
    assert [each for each in seen if each[1]] == seen[:1]


def test_a_journal_that_a_model_cannot_replay(small, tmp_path):
    path = tmp_path / "m.komd"
    komd.EASE().fit(small).save(path)
    journal.append(path, [b"one", b"two"], manifest=store.manifest_text(path), known="")
    with pytest.raises(
        komd.ModelFileError, match=r"has 2 updates in its journal, which this komd cannot apply to EASE\(\): upgrade"
    ):
        komd.load(path)
