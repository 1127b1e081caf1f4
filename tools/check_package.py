"""Build the wheel and the source archive, check what is in them, and test the wheel in an empty environment.

    python tools/check_package.py [--dist FOLDER]

The archive is made from this tree and the wheel from the archive; a wheel made from the tree must have the same
content. The wheel is installed with its runtime dependencies alone and tests/installed/wheel_tests.py runs against it,
outside of this tree. With --dist the two files are kept there, ready to publish. Needs the package `build`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "komd"
TESTS = ROOT / "tests" / "installed" / "wheel_tests.py"
IN_ARCHIVE = (
    "LICENSE",
    "README.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "pyproject.toml",
    "tests/conftest.py",
    "docs/README.md",
)


def run(*words: object, cwd: Path = ROOT, **environment: str) -> None:
    """Run a command that must succeed, without the settings of this tree."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    print("+", *words, flush=True)
    subprocess.run([str(word) for word in words], cwd=cwd, env=kept | environment, check=True)


def version() -> str:
    """The version in pyproject.toml."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


def source_files() -> set[str]:
    """All files of the package, as a wheel names them."""
    return {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".pyc", ".nbi", ".nbc")
    }


def wheel_contents(wheel: Path) -> dict[str, bytes]:
    """Name -> content of the files of a wheel."""
    with zipfile.ZipFile(wheel) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def check_wheel(wheel: Path, source: set[str]) -> None:
    """The wheel has every file of the package and its own description, and nothing else."""
    about = f"komd-{version()}.dist-info"
    names = set(wheel_contents(wheel))
    described = {f"{about}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")}
    assert names == source | described, f"missing or superfluous: {sorted(names ^ (source | described))}"
    assert {"komd/py.typed", "komd/serve/static/index.html"} <= names


def check_archive(archive: Path) -> None:
    """The source archive has what a distributor needs, in one folder, and no work of runs."""
    folder = f"komd-{version()}/"
    with tarfile.open(archive) as opened:
        names = set(opened.getnames())
    assert all(name.startswith(folder) for name in names)
    assert {folder + name for name in IN_ARCHIVE} <= names, "the source archive lacks files"
    left = {name for name in names if "/work/" in name or "__pycache__" in name or ".venv" in name}
    assert not left, f"the source archive has {sorted(left)[:5]}"


def build(folder: Path) -> tuple[Path, Path]:
    """The archive, and the wheel made from it; another wheel, made from this tree, has the same content."""
    run(sys.executable, "-m", "build", "--outdir", folder)
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder / "direct")
    (archive,), (wheel,), (direct,) = (list(folder.glob(name)) for name in ("*.tar.gz", "*.whl", "direct/*.whl"))
    assert wheel_contents(wheel) == wheel_contents(direct), "the wheel of the archive differs from that of the tree"
    return archive, wheel


def try_wheel(wheel: Path, folder: Path) -> None:
    """Install into an empty environment, and run the tests of the wheel from outside the tree."""
    place = folder / "environment"
    venv.create(place, with_pip=True)
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, "pytest")
    run(python, "-m", "pip", "check")
    outside = folder / "outside"
    outside.mkdir()
    shutil.copy(TESTS, outside)
    options = ["-q", "-p", "no:cacheprovider", "-rs"]
    run(python, "-I", "-m", "pytest", *options, TESTS.name, cwd=outside, KOMD_VERSION=version())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dist", type=Path, help="keep the wheel and the source archive in this folder")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="komd-package-") as made:
        folder = Path(made)
        archive, wheel = build(folder)
        check_wheel(wheel, source_files())
        check_archive(archive)
        try_wheel(wheel, folder)
        if asked.dist is not None:
            asked.dist.mkdir(parents=True, exist_ok=True)
            for file in (archive, wheel):
                shutil.copy(file, asked.dist)
    print(f"{wheel.name} and {archive.name}: installed and tested")


if __name__ == "__main__":
    main()
