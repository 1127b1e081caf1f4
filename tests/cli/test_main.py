"""Bad input: exit code 2, one line on stderr that says what to do, never a traceback."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import komd
from komd.cli.main import app

from .conftest import START

HEAVY = {"numpy", "pyarrow", "duckdb", "numba", "scipy", "pandas", "matplotlib", "polars", "implicit"}


def test_help_is_light():
    """`komd --help` loads nothing heavy, nor does the help of a command."""
    for words in (["--help"], ["--version"], ["evaluate", "--help"]):
        code = (
            f"import sys; sys.argv = ['komd', *{words!r}]\n"
            "from komd.cli.main import run\n"
            "try: run()\nexcept SystemExit as done: assert not done.code, done.code\n"
            f"print('loaded', sorted({HEAVY!r} & set(sys.modules)))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        assert done.stdout.splitlines()[-1] == "loaded []", done.stdout + done.stderr


def test_version(komd_out):
    assert komd_out("--version") == f"komd {komd.__version__}\n"


def test_the_real_command_fails_well(tmp_path, komd_process):
    done = komd_process("fit", tmp_path / "nowhere.csv", "-o", tmp_path / "m.komd")
    assert done.returncode == 2
    assert done.stderr == f"komd: no such file: {tmp_path / 'nowhere.csv'}\n"
    assert done.stdout == ""
    done = komd_process("fit", "--nonsense")
    assert done.returncode == 2 and "Traceback" not in done.stderr


DATA = {
    "empty": ("", "is empty"),
    "one column": ("user\nana\nbo\n", "one column"),
    "header only": ("user,item\n", "no rows"),
    "null ids": ("user,item\nana,\nbo,x\n", "1 missing item ids in 'item'"),
    "ragged": ("user,item\nana,x\nbo,x,y,z\n", "line 3"),
}


@pytest.mark.parametrize("case", DATA)
def test_bad_data(case, tmp_path, komd_fails):
    text, expected = DATA[case]
    file = tmp_path / "data.csv"
    file.write_text(text)
    for words in (["fit", file, "-o", tmp_path / "m.komd"], ["evaluate", file]):
        assert expected in komd_fails(*words)
    assert not (tmp_path / "m.komd").exists()


def test_wrong_columns(plays, tmp_path, komd_fails):
    fit = ("fit", plays / "plays.csv", "-o", tmp_path / "m.komd")
    line = komd_fails(*fit, "--user", "uid")
    assert "'uid' not found" in line and "user_id, item_id" in line and "--user" in line
    assert "--item 7 is not a column" in komd_fails(*fit, "--item", 7)
    assert "--min-rating needs ratings" in komd_fails(*fit, "--min-rating", 3)
    assert "min_rating" in komd_fails(*fit, "--min-rating", "nan")
    assert "no such database" in komd_fails("fit", "SELECT 1", "--database", tmp_path / "no.db", "-o", tmp_path / "m")
    assert "one query" in komd_fails("fit", "SELECT 1", "SELECT 2", "--database", ":memory:", "-o", tmp_path / "m")


def test_options_are_named_where_the_library_names_arguments(tmp_path, komd_fails):
    file = tmp_path / "user=5.csv"
    assert f"no such file: {file}" in komd_fails("fit", file, "-o", tmp_path / "m.komd")  # a name stays as it is
    file.write_text("ana,jazz\nbo,folk\n")
    assert "say which with --header or --no-header" in komd_fails("fit", file, "-o", tmp_path / "m.komd")


MODELS = {
    "CFKOMD(regularization=-1)": "regularization must be >= 0, got -1",
    "CFKOMD(regularization=float('nan'))": "unknown name 'float'",
    "CFKOMD(regularization=1e999)": "regularization must be a number",
    "CFKOMD(regularization='nan')": "regularization must be a number",
    "CFKOMD(kernel='tanimotto')": "did you mean 'tanimoto'?",
    "CFKOMD(kernel=Tanimotto())": "did you mean 'Tanimoto'?",
    "CFKOMD(kernal='linear')": "did you mean 'kernel'?",
    "CFKMOD": "did you mean 'CFKOMD'?",
    "Popularty()": "did you mean 'Popularity'?",
    "CFKOMD(": "cannot read the model",
    "__import__('os').system('true')": "unknown model",
}


@pytest.mark.parametrize("text", MODELS)
def test_bad_models(text, plays, tmp_path, komd_fails):
    file = plays / "plays.csv"
    assert MODELS[text] in komd_fails("fit", file, "-o", tmp_path / "m.komd", "--model", text)
    assert MODELS[text] in komd_fails("evaluate", file, "--model", text)
    assert MODELS[text] in komd_fails("evaluate", "--train", file, "--test", file, "--model", text)


def test_bad_parameters(plays, tmp_path, komd_fails):
    file, model = plays / "plays.csv", plays / "plays.komd"
    assert "did you mean 'ndcg@k'?" in komd_fails("evaluate", file, "--metrics", "ndgc@10")
    assert "--ties must be" in komd_fails("evaluate", file, "--ties", "maybe")
    assert "--half must be" in komd_fails("evaluate", file, "--half", "left")
    assert "--time" in komd_fails("evaluate", file, "--half", "time")
    assert "folds must be" in komd_fails("evaluate", file, "--folds", 1)
    assert "give --train A --test B" in komd_fails("evaluate")
    assert "give --train A --test B" in komd_fails("evaluate", "--train", file)
    assert "saved model" in komd_fails("evaluate", "--test", file)
    assert "saved model" in komd_fails("evaluate", "--test", file, "--model", "CFKOMD")
    assert "threads must be" in komd_fails("evaluate", file, "--threads", 0)
    assert "memory must be" in komd_fails("fit", file, "-o", tmp_path / "m.komd", "--memory", "much")
    assert "-n must be" in komd_fails("recommend", model, "-n", 0)
    assert "not both" in komd_fails("recommend", model, "--user", "user-00001", "--history", "x")
    assert "--on-unknown must be" in komd_fails("recommend", model, "--on-unknown", "cry")
    assert "explain takes" in komd_fails("explain", model, "user-00001")
    for name, value in (("--users", 0), ("--activity", "nan"), ("--taste-strength", 2), ("--item-tail", -1)):
        assert name[2:].replace("-", "_") in komd_fails("generate", "-o", tmp_path / "x.csv", name, value)
    made = ("generate", "-o", tmp_path / "x.csv")
    assert "did you mean 'msd'?" in komd_fails(*made, "--like", "mds")
    assert "--tastes, --item-tail cannot go with --like msd" in komd_fails(
        *made, "--like", "msd", "--tastes", 3, "--item-tail", 1
    )
    assert "--text-ids goes with --like" in komd_fails(*made, "--text-ids")
    assert not (tmp_path / "x.csv").exists()


def test_unknown_ids(plays, komd_fails):
    line = komd_fails("recommend", plays / "plays.komd", "--user", "user-0003")
    assert "unknown user 'user-0003'" in line and "did you mean 'user-0" in line and "--on-unknown skip" in line
    assert "these are integers" in komd_fails("recommend", plays / "ratings.komd", "--user", "ana")
    assert "unknown item 999" in komd_fails("recommend", plays / "ratings.komd", "--history", "7,999")
    assert "unknown item 999" in komd_fails("recommend", plays / "ratings.komd", "--only", "999", "--json")
    assert "unknown item 999" in komd_fails("explain", plays / "ratings.komd", "70", "999")


@pytest.fixture
def copy(plays: Path, tmp_path: Path) -> Path:
    shutil.copytree(plays / "plays.komd", tmp_path / "copy.komd")
    return tmp_path / "copy.komd"


def largest(model: Path) -> Path:
    return max(model.iterdir(), key=lambda file: file.stat().st_size)


def test_damaged_models(copy, komd_fails):
    file = largest(copy)
    content = file.read_bytes()
    commands = (["recommend", copy], ["explain", copy, "a", "b"])
    for damage, expected in (
        (content[:-100], "is incomplete"),
        (content[:-1] + bytes([content[-1] ^ 1]), "was altered"),
        (None, "is missing"),
    ):
        file.unlink() if damage is None else file.write_bytes(damage)
        for words in commands:
            assert expected in komd_fails(*words)
    (copy / "manifest.json").write_text("{")
    assert "cannot be read" in komd_fails("recommend", copy)
    (copy / "manifest.json").unlink()
    assert "no komd model" in komd_fails("recommend", copy)
    shutil.rmtree(copy)
    assert "no model at" in komd_fails("recommend", copy)


def test_a_model_from_a_newer_version(copy, komd_fails):
    manifest = json.loads((copy / "manifest.json").read_text())
    (copy / "manifest.json").write_text(json.dumps(manifest | {"format": 99, "komd": "9.0"}))
    line = komd_fails("recommend", copy)
    assert "komd 9.0" in line and "upgrade komd" in line


def test_outputs_that_cannot_be(plays, tmp_path, komd_fails):
    model = plays / "plays.komd"
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    for command in (["recommend", model], ["generate"]):
        assert "there is no folder" in komd_fails(*command, "-o", tmp_path / "no" / "x.csv")
        assert "it is a folder" in komd_fails(*command, "-o", tmp_path / "folder.csv")
        assert "must end in" in komd_fails(*command, "-o", tmp_path / "x.xlsx")
    assert "is a file" in komd_fails("fit", plays / "plays.csv", "-o", tmp_path / "file")
    assert "something other than a model" in komd_fails("fit", plays / "plays.csv", "-o", tmp_path / "full")


@contextlib.contextmanager
def powerless() -> Iterator[None]:
    """Without the rights of root, for whom every folder is open."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_no_permission(plays, komd_fails):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(plays / "plays.komd", folder / "old.komd")
        shutil.copy(plays / "plays.csv", folder)
        before = {file.name: file.read_bytes() for file in (folder / "old.komd").iterdir()}
        for locked in (folder / "old.komd", folder):
            locked.chmod(0o555)
        try:
            with powerless():
                fit = ("fit", folder / "plays.csv", "--model", "ECFOMD", "--json")
                line = komd_fails(*fit, "-o", folder / "old.komd")
                assert "ermission" in line and "is intact" in line
                assert "ermission" in komd_fails(*fit, "-o", folder / "new.komd")
                assert "ermission" in komd_fails("recommend", folder / "old.komd", "-o", folder / "x.csv")
                assert "ermission" in komd_fails("generate", "-o", folder / "x.parquet")
        finally:
            folder.chmod(0o755)
            (folder / "old.komd").chmod(0o755)
        assert {file.name: file.read_bytes() for file in (folder / "old.komd").iterdir()} == before


@contextlib.contextmanager
def small_files(size: int) -> Iterator[None]:
    """As if the disk were full once a file has this many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_disk_full(plays, copy, tmp_path):
    """Nothing is left half written, and what was there stays."""
    out = tmp_path / "r.csv"
    out.write_text("old")
    before = {file.name: file.read_bytes() for file in copy.iterdir()}
    runner = CliRunner()
    with small_files(2048):
        written = runner.invoke(app, ["recommend", str(plays / "plays.komd"), "-o", str(out)])
        fitted = runner.invoke(app, ["fit", str(plays / "plays.csv"), "-o", str(copy), "--model", "ECFOMD"])
    for result in (written, fitted):
        assert result.exit_code == 2, result.output
        assert len(result.stderr.splitlines()) == 1 and result.stderr.startswith("komd: could not ")
    assert out.read_text() == "old"
    assert {file.name: file.read_bytes() for file in copy.iterdir()} == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["copy.komd", "r.csv"]


def test_disk_full_in_a_comparison(plays, tmp_path):
    report = tmp_path / "report"
    with small_files(1000):
        done = CliRunner().invoke(
            app, ["compare", str(plays / "plays.csv"), "--models", "Popularity", "--report", str(report)]
        )
    assert done.exit_code == 2, done.output
    assert re.fullmatch(r"komd: could not write .*/work/data-\w+/ind\w+\.npy: File too large\n", done.stderr), (
        done.stderr
    )
    assert not list(report.rglob("*.tmp"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_output_to_a_full_disk(plays, komd_process):
    with Path("/dev/full").open("w") as full:
        done = komd_process("recommend", plays / "plays.komd", "--json", stdout=full)
    assert done.returncode == 2
    assert done.stderr == "komd: No space left on device\n"


def test_a_reader_that_leaves_is_no_error(plays):
    command = [sys.executable, "-c", START, "recommend", str(plays / "plays.komd"), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


def test_interrupted(plays, monkeypatch):
    def stopped(path: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(komd, "load", stopped)
    result = CliRunner().invoke(app, ["recommend", str(plays / "plays.komd")])
    assert result.exit_code == 130
    assert result.stderr == "komd: stopped\n"


def test_a_bug_keeps_its_traceback(plays, monkeypatch):
    def broken(path: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(komd, "load", broken)
    result = CliRunner().invoke(app, ["recommend", str(plays / "plays.komd")])
    assert isinstance(result.exception, RuntimeError)
