"""`import komd` loads nothing heavy, and every module imports and resolves its public names."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "komd"
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


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
