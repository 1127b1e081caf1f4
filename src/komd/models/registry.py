"""Models by name: the text that makes one, and the folder that holds one."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from komd import store
from komd.engine.recommender import Recommender
from komd.errors import InputError, KomdError, ModelFileError, nearest
from komd.kernels import RBF, DotProduct, Jaccard, Linear, Polynomial, Tanimoto
from komd.models.bpr import BPR
from komd.models.bprknn import BPRKNN
from komd.models.cfkomd import CFKOMD
from komd.models.cfomd import CFOMD
from komd.models.ease import EASE
from komd.models.ecfomd import ECFOMD
from komd.models.msdw import MSDW
from komd.models.popularity import Popularity
from komd.models.rp3beta import RP3Beta
from komd.models.slim import SLIM
from komd.models.wrmf import WRMF

__all__ = ["MODELS", "load", "load_exactly", "load_trusted", "model_from_text"]

_ALL: tuple[type[Recommender], ...] = (
    BPR,
    BPRKNN,
    CFKOMD,
    CFOMD,
    EASE,
    ECFOMD,
    MSDW,
    Popularity,
    RP3Beta,
    SLIM,
    WRMF,
)
MODELS: dict[str, type[Recommender]] = {c.__name__: c for c in _ALL}
_KERNELS = {c.__name__: c for c in (DotProduct, Jaccard, Linear, Polynomial, RBF, Tanimoto)}


def model_from_text(text: str) -> Recommender:
    """Make the unfitted model that a text describes, such as a model's `repr`.

    Only names of models and kernels, keywords and literals are accepted; nothing is evaluated.

    Parameters
    ----------
    text : str
        The text, such as `"CFKOMD(kernel=Polynomial(degree=2, c=4))"`, or the name of a model alone.

    Returns
    -------
    Recommender
        The model.

    Raises
    ------
    InputError
        If the text cannot be parsed, or a name or value in it is invalid.

    Examples
    --------
    >>> model_from_text("CFKOMD(kernel=Polynomial(degree=2, c=4), regularization=0.01)")
    CFKOMD(kernel=Polynomial(degree=2, c=4))
    >>> model_from_text("ECFOMD")
    ECFOMD()
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise InputError(f"cannot read the model {_short(text)}: write it like CFKOMD(kernel='tanimoto')") from error
    name = _called(tree)
    if name not in MODELS:
        raise InputError(f"unknown model {name or text!r}; {nearest(name or text, MODELS)}")
    return _built(MODELS[name], tree, text)  # type: ignore[no-any-return]


def load(path: str | Path, *, verify: bool = True) -> Recommender:
    """Load a saved model from its folder.

    Arrays are memory-mapped. Before that, every byte is read once to compare checksums.

    Parameters
    ----------
    path : str or Path
        The folder that `save` wrote.
    verify : bool
        Whether to check floating-point arrays. `False` is faster for large files, but damage would change answers
        without notice: use it only for files that were checked before. Everything else is always checked.

    Returns
    -------
    Recommender
        The fitted model, with all updates of its journal.

    Raises
    ------
    ModelFileError
        If there is no model, if it is damaged, or if it was written by a newer version of komd.

    Examples
    --------
    >>> load("nowhere.komd")
    Traceback (most recent call last):
    komd.errors.ModelFileError: no model at nowhere.komd
    """
    return restored(path, store.load(Path(path), verify=verify))


def load_exactly(path: Path, manifest: str, marks: Path | None = None) -> Recommender:
    """The model of this manifest, whose files are in this folder, without its journal; `marks` as in `store.load`."""
    return restored(path, store.load(path, manifest=manifest, marks=marks))


def load_trusted(path: Path) -> Recommender:
    """The model in a folder that only another process of the same service writes: no checksum is checked."""
    return restored(path, store.load(path, trusted=True))


def restored(path: str | Path, saved: store.SavedModel) -> Recommender:
    """The model that was loaded from this folder, its updates taken in."""
    try:
        model = model_from_text(saved.model).loaded(saved.arrays, saved.ids)
        model.earlier_format = saved.format < store.FORMAT
        return model.replay(saved.records)
    except (KomdError, KeyError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{path} holds no model this komd knows: {error}") from error


def _short(text: str) -> str:
    return repr(text if len(text) <= 200 else text[:200] + "…")


def _called(tree: ast.expr) -> str:
    if isinstance(tree, ast.Call):
        tree = tree.func
    return tree.id if isinstance(tree, ast.Name) else ""


def _built(known: Any, tree: ast.expr, text: str) -> Any:
    if isinstance(tree, ast.Name):
        return known()
    assert isinstance(tree, ast.Call)
    positional = [_value(argument, text) for argument in tree.args]
    named = {}
    for keyword in tree.keywords:
        if keyword.arg is None:
            raise InputError(f"cannot read the model {text!r}: ** is not understood here")
        named[keyword.arg] = _value(keyword.value, text)
    try:
        return known(*positional, **named)
    except TypeError:
        import inspect

        names = list(inspect.signature(known).parameters)
        unknown = [name for name in named if name not in names]
        if unknown:
            raise InputError(
                f"{known.__name__} has no parameter {unknown[0]!r}; {nearest(unknown[0], names)}"
            ) from None
        raise InputError(f"cannot read the model {text!r}: {known.__name__} takes {', '.join(names)} by name") from None


def _value(tree: ast.expr, text: str) -> Any:
    name = _called(tree)
    if name in _KERNELS:
        return _built(_KERNELS[name], tree, text)
    if name:
        raise InputError(f"unknown name {name!r} in the model {text!r}; {nearest(name, _KERNELS)}")
    try:
        return ast.literal_eval(tree)
    except (ValueError, TypeError, MemoryError, RecursionError) as error:
        raise InputError(f"cannot read the model {text!r}: only names, numbers, texts and lists") from error
