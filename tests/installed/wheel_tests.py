"""The wheel, installed without extras into an empty environment: run by tools/check_package.py, outside of the tree.

Its name keeps pytest from collecting it with the other tests: there, komd comes from the tree and extras are installed.
"""

from __future__ import annotations

import importlib.resources
import importlib.util
import os
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

import pytest

import komd

EXTRAS = {"matplotlib", "implicit", "optuna", "fastapi", "uvicorn", "sqlalchemy", "psycopg", "pyspark", "opentelemetry"}
COMMAND = Path(sysconfig.get_path("scripts")) / ("komd.exe" if os.name == "nt" else "komd")


def command(*words: object, code: int = 0, **environment: str) -> str:
    """What `komd …` prints, of the command that was installed."""
    given = os.environ | {"PYTHONUTF8": "1"} | environment
    done = subprocess.run(
        [str(COMMAND), *map(str, words)], capture_output=True, encoding="utf-8", env=given, timeout=300, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture(scope="module")
def plays(tmp_path_factory):
    """A file with the pairs of 60 users."""
    file = tmp_path_factory.mktemp("data") / "plays.csv"
    command("generate", "-o", file, "--users", 60, "--items", 40, "--activity", 8, "--rng", 0)
    return file


@pytest.fixture(scope="module")
def fitted(plays):
    return komd.CFKOMD().fit(komd.read(plays))


def test_it_is_the_installed_package():
    assert Path(komd.__file__).is_relative_to(sysconfig.get_path("purelib"))
    assert komd.__version__ == os.environ["KOMD_VERSION"] == metadata.version("komd")
    assert not [name for name in EXTRAS if importlib.util.find_spec(name)], "extras are installed"
    assert not [name for name in ("tests", "benchmarks", "experiments") if importlib.util.find_spec(name)]


def test_typed_and_complete():
    files = importlib.resources.files("komd")
    assert (files / "py.typed").is_file()
    assert "<html" in (files / "serve" / "static" / "index.html").read_text(encoding="utf-8").lower()


def test_public_names():
    for name in komd.__all__:
        assert getattr(komd, name) is not None


def test_recommend_explain_save_load(fitted, tmp_path):
    known = fitted.recommend(n=5)
    assert len(set(known.table["user_id"].to_pylist())) == 60
    item = known.table["item_id"][0].as_py()
    new = fitted.recommend(histories={"guest": [item]}, n=3)
    assert item not in new.table["item_id"].to_pylist()
    assert fitted.explain(known.table["user_id"][0].as_py(), item) is not None
    fitted.save(tmp_path / "plays.komd")
    assert komd.load(tmp_path / "plays.komd").recommend(n=5).table.equals(known.table)


def test_evaluate(plays):
    train, test = next(komd.split.folds(komd.read(plays), rng=0))
    assert 0 < komd.evaluate(komd.ECFOMD().fit(train), test, metrics=["auc"])["auc"].mean <= 1


def test_the_command(plays, tmp_path):
    assert command("--version").strip() == f"komd {komd.__version__}"
    model = tmp_path / "plays.komd"
    command("fit", plays, "-o", model)
    assert "user-00000" in command("recommend", model, "--user", "user-00000", "-n", 3)
    command("analyze", plays)


def test_the_demo():
    assert "komd recommends" in command("demo", COLUMNS="140")


def test_the_module_is_the_command():
    done = subprocess.run([sys.executable, "-m", "komd", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"komd {komd.__version__}"


@pytest.mark.parametrize("model", ["WRMF", "BPR"])
def test_without_implicit(model, plays):
    with pytest.raises(komd.InputError, match=r"library implicit.*pip install .*\[rivals\]"):
        getattr(komd, model)().fit(komd.read(plays))


def test_without_optuna(plays):
    with pytest.raises(komd.InputError, match=r"tuning needs Optuna: pip install .*\[tune\]"):
        komd.tune(komd.CFKOMD(), komd.read(plays), budget="1s")


def test_without_pyspark():
    with pytest.raises(komd.InputError, match=r"komd\.spark needs Spark for Python: pip install .*\[spark\]"):
        importlib.import_module("komd.spark")


def test_without_a_web_framework(fitted, tmp_path):
    fitted.save(tmp_path / "plays.komd")
    words = command("serve", tmp_path / "plays.komd", code=2)
    assert "komd serve needs " in words and "[serve]" in words
    assert "Traceback" not in words
