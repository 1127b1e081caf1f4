"""Grids in model texts: which lists are rows, which are values, and what is refused."""

from __future__ import annotations

import pytest

import komd
from komd.errors import InputError
from komd.evaluation.grid import expand, models_of
from komd.kernels import DotProduct


def test_a_grid_is_a_row_for_each_value():
    assert models_of("MSDW(alpha=[0, .25, .5, .75, 1])") == [
        "MSDW(alpha=0)",
        "MSDW(alpha=0.25)",
        "MSDW()",
        "MSDW(alpha=0.75)",
        "MSDW(alpha=1)",
    ]


def test_several_lists_are_every_combination_the_last_fastest():
    assert expand("RP3Beta(alpha=[.5, 1], beta=[0, .6])") == [
        "RP3Beta(alpha=0.5, beta=0)",
        "RP3Beta(alpha=0.5, beta=0.6)",
        "RP3Beta(alpha=1, beta=0)",
        "RP3Beta(alpha=1, beta=0.6)",
    ]
    assert expand("MSDW(alpha=[0.5])") == ["MSDW(alpha=0.5)"]


def test_parameters_of_a_kernel_may_be_grids():
    assert expand("CFKOMD(kernel=Polynomial(degree=2, c=[1, 4]), regularization=[0.1, 1])") == [
        "CFKOMD(kernel=Polynomial(degree=2, c=1), regularization=0.1)",
        "CFKOMD(kernel=Polynomial(degree=2, c=1), regularization=1)",
        "CFKOMD(kernel=Polynomial(degree=2, c=4), regularization=0.1)",
        "CFKOMD(kernel=Polynomial(degree=2, c=4), regularization=1)",
    ]
    assert expand("CFKOMD(kernel=['linear', Tanimoto, RBF(gamma=[1, 2])])") == [
        "CFKOMD(kernel='linear')",
        "CFKOMD(kernel=Tanimoto)",
        "CFKOMD(kernel=RBF(gamma=1))",
        "CFKOMD(kernel=RBF(gamma=2))",
    ]


@pytest.mark.parametrize(
    "text", ["CFKOMD(kernel=DotProduct([0, 1, 1]))", "CFKOMD(kernel=DotProduct(coefficients=[0, 1, 1]))"]
)
def test_what_takes_a_list_by_nature_is_one_row(text):
    assert expand(text) == [text]
    assert models_of(text) == [repr(komd.CFKOMD(kernel=DotProduct([0, 1, 1])))]


def test_a_grid_of_kernels_that_take_lists():
    found = models_of("CFKOMD(kernel=[DotProduct([0, 1]), DotProduct([0, 1, 1])])")
    assert found == [repr(komd.CFKOMD(kernel=DotProduct(a))) for a in ([0, 1], [0, 1, 1])]


def test_lists_of_models_models_themselves_and_repeats():
    asked = [
        "Popularity, CFKOMD(kernel=Polynomial(degree=2, c=4), regularization=0.5)",
        komd.MSDW(alpha=0.25),
        "MSDW()",
    ]
    assert models_of([*asked, "Popularity()", komd.MSDW()]) == [
        "Popularity()",
        "CFKOMD(kernel=Polynomial(degree=2, c=4), regularization=0.5)",
        "MSDW(alpha=0.25)",
        "MSDW()",
    ]
    assert models_of(komd.ECFOMD()) == ["ECFOMD()"]


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ([], "no models to compare"),
        ("", "no models to compare"),
        ("CFKOM", "unknown model 'CFKOM'; did you mean 'CFKOMD'"),
        ("MSDW(alfa=[0, 1])", "MSDW has no parameter 'alfa'; did you mean 'alpha'"),
        ("MSDW(alpha=[0, 2])", "alpha must"),
        ("MSDW(alpha=[])", "an empty list"),
        ("MSDW(alpha=[0, 1)", "cannot read the model"),
        ("MSDW], [EASE", "cannot read the model"),
        ("MSDW(alpha=" + "-" * 200_000 + "1)", "cannot read the model"),
        ([3], "a model to compare is a text"),
        (None, "a model to compare is a text"),
        (f"MSDW(alpha={list(range(40))}, locality={list(range(40))})", "1,600 rows; at most 1,000"),
        ("EASE(regularization=[__import__('os').getpid()])", "unknown|cannot read"),
    ],
)
def test_mistakes_are_named(models, message):
    with pytest.raises(InputError, match=message):
        models_of(models)
