"""What pyproject.toml, CITATION.cff, the changelog and the workflows promise of a release, held to the source."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
import tomllib
import zipfile
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "komd"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# What we use of packages beyond their documented interface: module, or module.name of an attribute -> why. Any version
# may change it, so its package has an upper bound. To raise a bound: run the tests named here with the new version.
REACHES = {
    "llvmlite.ir": "inner loops are written in LLVM's language: tests/_core/test_row_products.py, test_sweep.py",
    "llvmlite.binding": "the number of registers decides how many rows are multiplied at once: test_row_products.py",
    "numba.core": "names of the types and settings of inner loops: tests/_core/test_row_products.py",
    "numba.core.caching": "machine code is compiled again when any file of _core changed: tests/_core/test_compile.py",
    "numba.core.codegen": "parts become machine code inside their callers alone: tests/_core/test_compile.py",
    "numba.core.compiler": "the same: tests/_core/test_compile.py",
    "numba.core.environment": "the same: tests/_core/test_compile.py",
    "numba.core.registry": "the same: tests/_core/test_compile.py",
    "numba.core.errors": "the error of a wrong type in an inner loop: tests/_core/test_row_products.py",
    "uvicorn.protocols.http.httptools_impl": "limits of connections are methods of its protocol that are not "
    "documented: tests/serve/test_connections.py",
    "uvicorn.supervisors": "SIGHUP is passed on to workers: tests/serve/test_process_signals.py",
    "fastapi.routing": "bodies of routes are recognised by `body_field`: tests/serve/test_large_requests.py",
    "implicit.recommender_base": "the error of a divergence: tests/models/test_wrmf.py, test_bpr.py",
    "pyspark.sql.pandas.types": "types of ids between Arrow and Spark: tests/spark/test_spark.py",
}
# What their documentation shows.
DOCUMENTED = {
    *("duckdb", "matplotlib", "numba", "numba.extending", "optuna", "psutil", "psycopg", "threadpoolctl"),
    *("matplotlib.backends.backend_agg", "matplotlib.figure", "matplotlib.lines", "matplotlib.ticker"),
    *("matplotlib.transforms", "numpy", "numpy.typing", "scipy.linalg.lapack", "scipy.optimize", "scipy.sparse"),
    *("scipy.special", "pyarrow", "pyarrow.compute", "pyarrow.csv"),
    *("pyarrow.parquet", "rich", "rich.console", "rich.progress", "rich.table", "rich.text"),
    *("typer", "typer.core", "fastapi", "fastapi.exceptions", "fastapi.responses", "fastapi.security"),
    *("starlette.exceptions", "starlette.responses", "starlette.routing", "starlette.types", "pydantic", "uvicorn"),
    *("pydantic_core", "IPython.display"),
    *("sqlalchemy", "sqlalchemy.exc", "sqlalchemy.dialects.postgresql", "sqlalchemy.dialects.sqlite"),
    *("sqlalchemy.schema", "prometheus_client", "prometheus_client.multiprocess"),
    *("opentelemetry.trace", "opentelemetry.trace.propagation.tracecontext"),
    *("opentelemetry.sdk.resources", "opentelemetry.sdk.trace", "opentelemetry.sdk.trace.export"),
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    *("pyspark", "pyspark.errors", "pyspark.ml.base", "pyspark.ml.param", "pyspark.ml.util", "pyspark.sql"),
}
# Names of packages that differ from the modules in them.
DISTRIBUTIONS = {
    "pydantic_core": "pydantic",
    "prometheus_client": "prometheus-client",
    "opentelemetry": "opentelemetry-sdk",
}


@cache
def imported() -> dict[str, set[str]]:
    """Every module of another package that the source imports -> the files that do."""
    found: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                inner = [f"{node.module}.{alias.name}" for alias in node.names]
                known = [name for name in inner if name in REACHES or name in DOCUMENTED]
                names = known + [node.module] * (len(known) < len(inner))
            for name in names:
                top = name.split(".")[0]
                if top not in sys.stdlib_module_names and top != "komd":
                    found.setdefault(name, set()).add(path.relative_to(SOURCE).as_posix())
    return found


def requirements() -> dict[str, Requirement]:
    """The packages that the library or one of its extras needs, without the tools of developers."""
    texts = list(PROJECT["dependencies"])
    for extra, more in PROJECT["optional-dependencies"].items():
        texts += [] if extra in ("dev", "docs", "test") else more
    return {found.name: found for found in map(Requirement, texts)}


def bounded(requirement: Requirement) -> bool:
    return any(one.operator in ("<", "<=", "==", "~=") for one in requirement.specifier)


def package_of(module: str) -> str:
    top = module.split(".")[0]
    return DISTRIBUTIONS.get(top, top)


# ---- dependencies -------------------------------------------------------------------------------------------------


def test_every_import_is_documented_or_a_reach_with_a_reason():
    unknown = {name: files for name, files in imported().items() if name not in REACHES and name not in DOCUMENTED}
    assert not unknown, f"say in DOCUMENTED or REACHES what these are: {unknown}"


def test_what_is_called_documented_is_used():
    assert set(imported()) >= DOCUMENTED, f"not imported any more: {DOCUMENTED - set(imported())}"


def test_every_reach_is_used_and_names_tests_that_exist():
    names = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    for module, reason in REACHES.items():
        assert module in imported(), f"{module} is not imported any more: remove it, and the bound if it was the last"
        tests = re.findall(r"test_\w+\.py", reason)
        assert tests and set(tests) <= names, f"{module}: {reason}"


def test_upper_bounds_have_a_reason_and_reaches_a_bound():
    reached = {package_of(module) for module in REACHES}
    found = {name for name, requirement in requirements().items() if bounded(requirement)}
    assert found - reached == set(), "an upper bound without a reason in REACHES"
    assert reached - found == set(), "a reach into a package without an upper bound"


def test_every_imported_package_is_a_declared_dependency():
    given = {"polars", "IPython"}  # used by those who have them: frames, and notebooks
    names = {package_of(module) for module in imported()} - given
    assert names <= set(requirements())


def test_every_dependency_has_a_lower_bound():
    for name, requirement in requirements().items():
        assert any(one.operator == ">=" for one in requirement.specifier), name


def test_installed_versions_are_within_the_bounds():
    from importlib import metadata

    for name, requirement in requirements().items():
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue  # an extra that is not installed
        assert requirement.specifier.contains(version, prereleases=True), f"{requirement}: {version} is installed"


# ---- one version --------------------------------------------------------------------------------------------------


def tool(name):
    """A script of tools/, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_files_name_one_version():
    found = tool("check_release").versions()
    assert found["CITATION.cff"] == found["pyproject.toml"]
    assert re.fullmatch(
        re.escape(found["pyproject.toml"]) + r" \((unreleased|\d{4}-\d\d-\d\d)\)", found["CHANGELOG.md"]
    )


def test_the_changelog_is_by_version_newest_first():
    headings = re.findall(r"^## (\S+) \(", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert [Version(text) for text in headings] == sorted(map(Version, headings), reverse=True)
    assert len(set(headings)) == len(headings) >= 2


def test_what_keeps_a_tag_from_being_released(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.0"\n')
    (tmp_path / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 1.2.0\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.0 (unreleased)\n")
    check = tool("check_release").problems
    assert [line.split(" is ")[0] for line in check("v1.2.0", tmp_path)] == ["the topmost heading of CHANGELOG.md"]
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.0 (2027-01-31)\n\n## 1.1.0 (2026-12-01)\n")
    assert check("v1.2.0", tmp_path) == []
    (tmp_path / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 1.2.0\ndate-released: 2027-01-30\n")
    assert [line.split(" on ")[0] for line in check("v1.2.0", tmp_path)] == ["CITATION.cff was released"]
    (tmp_path / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 1.2.0\n")
    assert len(check("v1.3.0", tmp_path)) == 3


# ---- the wheel ----------------------------------------------------------------------------------------------------


def wheel_with(path, names):
    with zipfile.ZipFile(path, "w") as made:
        for name in names:
            made.writestr(name, b"")
    return path


def test_a_wheel_that_lacks_or_leaks_a_file_is_refused(tmp_path):
    checks = tool("check_package")
    about = f"komd-{checks.version()}.dist-info/"
    described = [about + name for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")]
    source = checks.source_files()
    assert {"komd/py.typed", "komd/serve/static/index.html", "komd/_core/simplex.py"} <= source
    assert not [name for name in source if name.endswith((".pyc", ".nbi"))]
    checks.check_wheel(wheel_with(tmp_path / "good.whl", [*source, *described]), source)
    for names in ([*source, *described, "tests/conftest.py"], [*(source - {"komd/py.typed"}), *described]):
        with pytest.raises(AssertionError, match=r"tests/conftest\.py|komd/py\.typed"):
            checks.check_wheel(wheel_with(tmp_path / "bad.whl", names), source)


# ---- continuous integration ---------------------------------------------------------------------------------------


def supported() -> list[str]:
    return [text.rpartition(" ")[2] for text in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", text)]


def test_supported_pythons_are_named_alike_everywhere():
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))["jobs"]
    matrix = jobs["library"]["strategy"]["matrix"]
    assert matrix["python"] == supported()
    assert matrix["os"] == ["ubuntu-latest", "macos-latest", "windows-latest"]
    assert PROJECT["requires-python"] == f">={supported()[0]}"
    policy = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
    assert f"Python {supported()[0]} to {supported()[-1]}" in policy


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.y*ml")), ids=lambda path: path.name)
def test_workflows_run_targets_and_files_that_exist(path):
    yaml = pytest.importorskip("yaml")
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    for job in found.get("jobs", {}).values():
        for step in job["steps"]:
            words = step.get("run", "")
            for names in re.findall(r"\bmake ((?:[a-z-]+ ?)+)", words):
                assert set(names.split()) <= set(targets), words
            for file in re.findall(r"(?:tests|tools)/[\w/.-]+", words):
                assert (ROOT / file).exists(), file


def test_publishing_needs_no_secret_and_little_permission():
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    assert "secrets." not in text and "password" not in text
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load(text)["jobs"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["needs"] == "build"


def test_formats_are_as_the_policy_says():
    from komd.manifest import FORMAT

    row = re.search(r"^\| model folder .*?\| (\d+) \| ([\d, ]+) \|", (ROOT / "docs" / "policy.md").read_text(), re.M)
    assert row is not None and int(row[1]) == FORMAT
    assert [int(text) for text in row[2].split(",")] == list(range(1, FORMAT + 1))
