"""What the tutorials say beside their cells, which run when the site is built: commands, extras, links to code."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from pyarrow import csv
from typer.testing import CliRunner

import komd
from komd.cli.main import app

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path
    for folder in ("tutorials", "guide")
    for path in (ROOT / "docs" / folder).glob("*.md")
    if "{code-cell}" in path.read_text(encoding="utf-8")
)
pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def blocks(page, kind):
    return re.findall(rf"^```{re.escape(kind)}\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


def test_there_are_seven_tutorials():
    assert sum(page.parent.name == "tutorials" for page in PAGES) == 7


@pages
def test_cells_are_python_and_the_page_is_a_notebook(page):
    assert page.read_text(encoding="utf-8").startswith(
        "---\nfile_format: mystnb\nkernelspec:\n  name: python3\n  language: python\n---\n"
    )
    for block in (*blocks(page, "{code-cell}"), *blocks(page, "python")):
        ast.parse(re.sub(r"\A:tags:.*\n", "", block))


@pages
def test_named_extras_exist(page):
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for extras in re.findall(r"pip install '(?:\.|komd)\[([\w,]+)\]'", page.read_text(encoding="utf-8")):
        assert set(extras.split(",")) <= set(known)


@pytest.mark.parametrize("name", ["five-minutes", "how-sparse"])
def test_commands_run_as_they_stand(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plays = komd.generate(users=1500, items=400, activity=25, tastes=8, rng=1)  # as on the first page
    csv.write_csv(plays.to_arrow(), "plays.csv")
    page = ROOT / "docs" / "tutorials" / f"{name}.md"
    lines = [line for block in blocks(page, "sh") for line in block.splitlines() if line.startswith("komd ")]
    assert lines
    for line in lines:
        done = CliRunner().invoke(app, shlex.split(line, comments=True)[1:], catch_exceptions=False)
        assert done.exit_code == 0, (line, done.output)
