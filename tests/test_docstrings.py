"""Every public name is documented: each parameter with its type, what is returned and raised, and an example."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_MODULES = (
    "komd",
    "komd.kernels",
    "komd.sparsity",
    "komd.data.split",
    "komd.data.datasets",
    "komd.client",
    "komd.spark",
)
_OF_MODELS = {  # what users call; other methods are for other parts of the package
    *("fit", "recommend", "explain", "score", "similar_items", "save", "update", "refresh", "tune"),
    *("get_params", "set_params", "clone", "recommended", "solve"),
}
_ELSEWHERE = ("komd.client.", "komd.spark.")  # need a service or a cluster: the tutorials run them
_CANNOT_FAIL = {  # whatever they are given
    *("komd.data.datasets.names", "komd.align", "komd.UpdateReport", "komd.kernels.Jaccard", "komd.kernels.Linear"),
    *("komd.kernels.Tanimoto", "komd.kernels.Kernel", "komd.Popularity", "komd.sparsity.Analyses"),
}
_AS_IN = re.compile(r"As in `")


def _public():
    for module in _MODULES:
        try:
            loaded = importlib.import_module(module)
        except ImportError:  # an extra that is not installed
            continue
        for name in loaded.__all__:
            thing = getattr(loaded, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                yield f"{module}.{name}", thing


def _methods():
    from komd.engine.recommender import Recommender

    seen = set()
    for name, thing in _public():
        if not inspect.isclass(thing) or issubclass(thing, BaseException):
            continue
        of_models = issubclass(thing, Recommender)
        for key, value in inspect.getmembers(thing, inspect.isroutine):
            listed = key in _OF_MODELS if of_models else not key.startswith("_")
            home = getattr(value, "__qualname__", "")
            module = str(getattr(value, "__module__", ""))
            if listed and module.startswith("komd.") and (module, home) not in seen:
                seen.add((module, home))
                yield f"{name}.{key}", value


def sections(doc):
    """The sections of a numpydoc text by their headings."""
    found, heading, lines = {}, "", doc.splitlines()
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if below and set(below) == {"-"} and len(below) == len(line):
            heading = line
            found[heading] = []
        elif heading and not (line and set(line) == {"-"}):
            found[heading].append(line)
    return found


def documented(section):
    """Parameter names to whether a type, or a reference to another function, is given."""
    names = {}
    for at, line in enumerate(section):
        if line and not line.startswith(" "):
            head, _, kind = line.partition(" : ")
            below = section[at + 1] if at + 1 < len(section) else ""
            for name in head.split(", "):
                names[name.lstrip("*")] = bool(kind) or _AS_IN.search(below) is not None
    return names


def parameters(thing):
    given = inspect.signature(thing).parameters
    return [name for name in given if name not in ("self", "cls")]


@pytest.mark.parametrize(("name", "thing"), [pytest.param(*each, id=each[0]) for each in _public()])
def test_public_names_have_parameters_types_and_an_example(name, thing):
    doc = inspect.getdoc(thing) or ""
    found = sections(doc)
    assert doc, f"{name} has no docstring"
    if not name.startswith(_ELSEWHERE):
        assert ">>>" in doc, f"{name} has no example"
    if inspect.isclass(thing) and issubclass(thing, BaseException | tuple):  # not made by their constructors
        return
    listed = documented(found.get("Parameters", [])) | documented(found.get("Attributes", []))
    missing = [each for each in parameters(thing) if each not in listed]
    assert not missing, f"{name}: parameters without documentation: {missing}"
    assert all(listed.values()), f"{name}: without a type: {[each for each, kind in listed.items() if not kind]}"
    if "Attributes" not in found and name not in _CANNOT_FAIL and not name.startswith(_ELSEWHERE):
        assert "Raises" in found, f"{name} does not say which errors it raises"
    if inspect.isfunction(thing):
        assert "Returns" in found, f"{name} does not say what it returns"


@pytest.mark.parametrize(("name", "method"), [pytest.param(*each, id=each[0]) for each in _methods()])
def test_public_methods_have_parameters_and_types(name, method):
    doc = inspect.getdoc(method) or ""
    found = sections(doc)
    listed = documented(found.get("Parameters", []))
    missing = [each for each in parameters(method) if each not in listed]
    assert not missing, f"{name}: parameters without documentation: {missing}"
    stale = [each for each in listed if each not in parameters(method)]
    assert not stale, f"{name}: documents parameters that it does not have: {stale}"
    returns = inspect.signature(method).return_annotation
    assert returns in (None, "None") or "Returns" in found, f"{name} does not say what it returns"
    if not name.startswith(_ELSEWHERE):
        assert ">>>" in doc, f"{name} has no example"


def test_one_style_in_the_tree():
    """Sections are numpydoc's: no fields of Sphinx (`:param x:`), no headings with a colon (`Args:`)."""
    other = re.compile(
        r"^\s*(?::(?:param|returns?|raises|type)\b|(?:Args|Arguments|Returns|Raises|Yields|Examples?):\s*$)"
    )
    for folder in ("src", "benchmarks", "experiments", "docs", "tools", "deploy"):
        for path in (ROOT / folder).rglob("*.py"):
            for line in path.read_text(encoding="utf-8").splitlines():
                assert not other.match(line), f"{path.name}: {line.strip()}"
