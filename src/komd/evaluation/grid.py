"""The models of a comparison from texts: lists of models, and grids of parameters inside a text."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Iterable
from typing import Any

from komd.engine.recommender import Recommender
from komd.errors import InputError
from komd.models.registry import model_from_text

__all__ = ["expand", "models_of"]

_LISTS = {("DotProduct", "coefficients")}  # parameters whose value is a list: no grid
_MOST = 1000  # rows of one grid: more is probably a typo


def models_of(models: Any) -> list[str]:
    """The texts of all models asked for, each once, in order, grids expanded; each is checked to be a model.

    `models` is a text, which may list several models with commas, a model, or any number of these.

    >>> models_of(["Popularity, MSDW(alpha=[0, .5])", "ECFOMD"])
    ['Popularity()', 'MSDW(alpha=0)', 'MSDW()', 'ECFOMD()']
    """
    if isinstance(models, (str, Recommender)) or not isinstance(models, Iterable):
        models = [models]
    found: dict[str, None] = {}
    for model in models:
        if isinstance(model, Recommender):
            texts = [model.text]
        elif isinstance(model, str):
            texts = [text for part in _listed(model) for text in expand(part)]
        else:
            raise InputError(f"a model to compare is a text such as 'MSDW(alpha=0.5)' or a model, got {model!r}")
        found |= dict.fromkeys(repr(model_from_text(text)) for text in texts)
    if not found:
        raise InputError("no models to compare: give some, such as 'ECFOMD, MSDW(alpha=[0, 0.5, 1])'")
    return list(found)


def expand(text: str) -> list[str]:
    """The texts of a grid: a list in place of the value of a named parameter is one row for each entry.

    Several lists give every combination, the last varying fastest. Parameters of a kernel may be grids too. The
    coefficients of `DotProduct`, whose value is a list, stay as they are.

    >>> expand("MSDW(alpha=[0, .5], locality=[1, 3])")
    ['MSDW(alpha=0, locality=1)', 'MSDW(alpha=0, locality=3)', 'MSDW(alpha=0.5, locality=1)', ...
    >>> expand("CFKOMD(kernel=[Polynomial(c=[.5, 4]), DotProduct([0, 1, 1])])")
    ['CFKOMD(kernel=Polynomial(c=0.5))', 'CFKOMD(kernel=Polynomial(c=4))', 'CFKOMD(kernel=DotProduct([0, 1, 1]))']
    """
    tree = _parsed(text, text)
    if not isinstance(tree, ast.Call):
        return [text.strip()]
    rows = [ast.unparse(row) for row in _choices(tree, text)]
    return rows if rows != [ast.unparse(tree)] else [text.strip()]


def _listed(text: str) -> list[str]:
    """The models of a list with commas; commas inside brackets and quotes belong to a model."""
    tree = _parsed(f"[{text}]", text)
    if not isinstance(tree, ast.List):
        raise InputError(_unreadable(text))
    return [ast.get_source_segment(f"[{text}]", entry) or "" for entry in tree.elts]


def _choices(tree: ast.expr, text: str) -> list[ast.expr]:
    """Every expression of the grid `tree`: the value of a parameter, or a model."""
    if isinstance(tree, ast.List):
        if not tree.elts:
            raise InputError(f"an empty list in the model {text!r}: a grid needs at least one value")
        return [choice for entry in tree.elts for choice in _choices(entry, text)]
    if not isinstance(tree, ast.Call) or not tree.keywords:
        return [tree]
    name = tree.func.id if isinstance(tree.func, ast.Name) else ""
    lists = [
        [keyword.value] if (name, keyword.arg) in _LISTS else _choices(keyword.value, text) for keyword in tree.keywords
    ]
    if (rows := math.prod(map(len, lists))) > _MOST:
        raise InputError(f"the grid in {text[:80]!r} has {rows:,} rows; at most {_MOST:,} are compared")
    return [
        ast.Call(tree.func, tree.args, [ast.keyword(k.arg, v) for k, v in zip(tree.keywords, values, strict=True)])
        for values in itertools.product(*lists)
    ]


def _parsed(source: str, text: str) -> ast.expr:
    try:
        return ast.parse(source.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(_unreadable(text)) from error


def _unreadable(text: str) -> str:
    shown = text if len(text) <= 200 else f"{text[:200]}…"
    return f"cannot read the model {shown!r}: write it like CFKOMD(kernel='tanimoto') or MSDW(alpha=[0, 0.5, 1])"
