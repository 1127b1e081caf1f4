"""komd where POSIX is not: what Windows lacks is guarded. (CI runs the tests on Windows and macOS themselves.)"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "komd"


def test_every_module_works_without_posix(tmp_path):
    script = ROOT / "tests" / "windows_like.py"
    done = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    imported = re.search(r"imported (\d+), absent (\d+)", done.stdout)
    assert imported is not None and int(imported[1]) > 150


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_texts_are_utf_8_on_every_system(path):
    """`read_text`, `write_text` and `open` of texts name their encoding: Windows would use that of its language."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        given = [ast.unparse(part) for part in node.args]
        text = {"read_text": given == [], "open": given in ([], ["'r'"], ["'w'"], ["'a'"])}.get(node.func.attr, False)
        if node.func.attr == "write_text":
            text = ast.unparse(node.func.value) != "files"  # which always writes UTF-8
        named = any(keyword.arg == "encoding" for keyword in node.keywords)
        assert named or not text, f"{path.name}:{node.lineno}: {ast.unparse(node)}"
