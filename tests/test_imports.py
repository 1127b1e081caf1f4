"""Imports point down, and `import komd` brings in nothing heavy."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "komd"
# The pipeline from top to bottom: a layer imports those below it, and itself.
LAYERS = [
    {"cli", "__main__"},
    {"serve"},
    {"spark"},
    {"tuning"},
    {"evaluation"},
    {"sparsity"},
    {"models"},
    {"engine"},
    {"store"},
    {"matrix"},
    {"kernels"},
    {"data"},
    {"threads", "memory", "errors", "files", "html", "svg"},
    {"_core", "progress"},
]
DEPTH = {name: depth for depth, names in enumerate(LAYERS) for name in names}
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def layer(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path):
    """(line, dotted name) of every import of komd in a file, wherever it stands; relative ones made absolute."""
    package = ["komd", *path.relative_to(SOURCE).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            names = [f"{module}.{alias.name}" for alias in node.names] if module == "komd" else [module]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.split(".")[0] == "komd")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path):
    here = layer(path)
    assert here in DEPTH, f"{here} is in no layer: add it to LAYERS"
    for line, name in imported(path):
        parts = name.split(".")
        if len(parts) == 1 or parts[1] not in DEPTH:  # komd itself: its lazy names reach everywhere
            assert here == "cli", f"{path}:{line} imports {name}: from the package, the command line alone may"
            continue
        assert DEPTH[parts[1]] >= DEPTH[here], f"{path}:{line}: {here} imports {name}, which stands above it"


def test_only_the_core_is_compiled():
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] in ("numba", "llvmlite") for name in names):
                assert layer(path) == "_core", f"{path}:{node.lineno} imports Numba"


def test_nothing_is_pickled():
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {"pickle", "joblib", "dill", "marshal", "shelve"} & {name.split(".")[0] for name in names}, path


def loaded_after(code):
    """The top-level modules loaded once `code` has run in a fresh process."""
    show = "\nimport json, sys\nprint(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", code + show], capture_output=True, text=True, check=True, timeout=120)
    return set(json.loads(done.stdout.splitlines()[-1]))


HEAVY = {"pandas", "polars", "matplotlib", "duckdb", "implicit", "numba", "pyarrow", "sklearn", "rich", "typer"}


@pytest.mark.parametrize("code", ["import komd", "import komd; komd.__version__; komd.InputError; dir(komd)"])
def test_import_is_light(code):
    assert not loaded_after(code) & HEAVY


def test_models_load_only_when_used_and_never_the_frames():
    assert not loaded_after("import komd; komd.CFKOMD") & {"pandas", "polars", "matplotlib", "duckdb", "implicit"}
    work = (
        "import komd; d = komd.generate(users=30, items=20, activity=4, tastes=2, rng=0); "
        "m = komd.ECFOMD().fit(d); m.recommend(n=3); m.explain(d.users[0], d.items[0])"
    )
    # pandas, where it is installed, is brought in by pyarrow on its own account.
    assert not loaded_after(work) & {"polars", "matplotlib", "duckdb", "implicit", "sklearn"}


def test_public_names_resolve():
    import komd

    assert sorted(komd.__all__) == list(dir(komd))
    for name in komd.__all__:
        assert getattr(komd, name) is not None
        assert getattr(komd, name) is getattr(komd, name)
    with pytest.raises(AttributeError, match="module 'komd' has no attribute 'CFKOMT'"):
        komd.CFKOMT  # noqa: B018


def test_every_module_imports_and_says_what_is_public():
    for path in MODULES:
        name = ".".join(["komd", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__")
        if name.endswith("__main__"):
            continue
        module = importlib.import_module(name)
        assert (module.__doc__ or "").strip(), f"{name} says nothing of itself"
        for public in getattr(module, "__all__", []):
            assert hasattr(module, public), f"{name}.__all__ names {public}"
