"""What the source promises of its shape, read with `ast`: layers, private names, kinds of matrices, names, twins."""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "komd"
MODULES = sorted(SOURCE.rglob("*.py"))
# The pipeline from top to bottom: a layer imports those below it, and itself.
LAYERS = [
    {"cli", "__main__"},
    {"client"},
    {"serve"},
    {"spark"},
    {"tuning"},
    {"evaluation"},
    {"sparsity"},
    {"models"},
    {"engine"},
    {"journal", "manifest", "store"},
    {"matrix"},
    {"kernels"},
    {"data"},
    {"checks", "errors", "html", "memory", "notebook_html", "plain_text", "rows", "svg", "threads"},
    {"_core", "files", "notebook_bar", "progress"},
]
DEPTH = {name: depth for depth, names in enumerate(LAYERS) for name in names}
# Underscore names that are the only way in: of NamedTuple, of the system, of Spark's Params, of Numba's functions.
DOCUMENTED = {"_replace", "_fields", "_asdict", "_make", "os._exit", "_dummy", "_set", "made._cache"}
STORAGES = {"dense", "sparse", "streamed"}
MOST_PARAMETERS = 10


def within(path):
    return path.relative_to(SOURCE).as_posix()


@functools.cache
def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def layer(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def assert_none(rule, found):
    """`found`: what breaks a rule -> where or how."""
    wrong = [f"{name}: {', '.join(sorted(set(how)))}" for name, how in found.items() if how]
    assert not wrong, "\n".join([f"{rule}:", *wrong])


# ---- imports ------------------------------------------------------------------------------------------------------


def imported(path):
    """(line, dotted name) of every import in a file, wherever it stands; relative ones made absolute."""
    package = ["komd", *path.relative_to(SOURCE).parts[:-1]]
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            names = [f"{module}.{alias.name}" for alias in node.names] if module == "komd" else [module]
        else:
            continue
        yield from ((node.lineno, name) for name in names)


@pytest.mark.parametrize("path", [path for path in MODULES if path != SOURCE / "__init__.py"], ids=within)
def test_imports_point_down(path):
    here = layer(path)
    assert here in DEPTH, f"{here} is in no layer: add it to LAYERS"
    for line, name in imported(path):
        parts = name.split(".")
        if parts[0] != "komd":
            continue
        if len(parts) == 1 or parts[1] not in DEPTH:  # komd itself: its lazy names reach everywhere
            assert here == "cli", f"{path}:{line} imports {name}: from the package, the command line alone may"
            continue
        assert DEPTH[parts[1]] >= DEPTH[here], f"{path}:{line}: {here} imports {name}, which stands above it"


def test_only_the_core_is_compiled():
    for path in MODULES:
        for line, name in imported(path):
            if name.split(".")[0] in ("numba", "llvmlite"):
                assert layer(path) == "_core", f"{path}:{line} imports Numba"


def test_nothing_is_pickled():
    for path in MODULES:
        for line, name in imported(path):
            assert name.split(".")[0] not in {"pickle", "joblib", "dill", "marshal", "shelve"}, f"{path}:{line}"


# ---- names --------------------------------------------------------------------------------------------------------


def private(name):
    return name.startswith("_") and not name.startswith("__")


def defined(module):
    """The underscore names that a module defines itself: functions, methods, fields, variables, attributes of self."""
    for node in ast.walk(module):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _own(node.value):
            yield node.attr


def _own(value):
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "super"
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


def foreign_private_names(module):
    own = set(defined(module))
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "komd":
            yield from (f"import {alias.name}" for alias in node.names if private(alias.name) and alias.name != "_core")
        elif isinstance(node, ast.Attribute) and private(node.attr) and not _own(node.value):
            if node.attr not in own and not {node.attr, ast.unparse(node)} & DOCUMENTED:
                yield ast.unparse(node)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "setattr", "hasattr", "delattr"):
            name = getattr(node.args[1], "value", "")
            if not _own(node.args[0]) and isinstance(name, str) and private(name) and name not in own:
                yield ast.unparse(node)


def test_underscore_names_stay_in_their_module():
    assert_none("private names", {within(path): list(foreign_private_names(tree(path))) for path in MODULES})


def test_no_two_modules_share_a_name():
    where = defaultdict(list)
    for path in MODULES:
        if path.stem not in ("__init__", "__main__"):
            where[path.stem].append(within(path))
    assert_none("module names", {name: paths for name, paths in where.items() if len(paths) > 1})


def test_no_two_public_classes_share_a_name():
    where = defaultdict(list)
    for path in MODULES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where[node.name].append(within(path))
    assert_none("class names", {name: paths for name, paths in where.items() if len(paths) > 1})


# ---- kinds of matrices --------------------------------------------------------------------------------------------


def matrix_classes():
    """The classes of `matrix/` that are item matrices."""
    for path in (SOURCE / "matrix").glob("*.py"):
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and node.name.endswith("Matrix"):
                yield node.name


def decisions_by_kind(module, kinds):
    """Expressions that ask for the class or the storage of a matrix."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            asked = node.args[1:] if node.func.id in ("isinstance", "issubclass") else []
        elif isinstance(node, ast.Compare):
            asked = [node.left, *node.comparators]
        elif isinstance(node, (ast.MatchClass, ast.MatchValue)):
            asked = [node]
        else:
            continue
        parts = [part for top in asked for part in ast.walk(top)]
        by_class = any(isinstance(part, ast.Name) and part.id in kinds for part in parts)
        by_storage = not isinstance(node, ast.Call) and any(
            isinstance(part, ast.Constant) and part.value in STORAGES for part in parts
        )
        if by_class or by_storage:
            yield ast.unparse(node)


def test_what_kind_a_matrix_is_decides_nothing_outside_its_folder():
    kinds = set(matrix_classes())
    assert {"DenseMatrix", "SparseMatrix", "StreamedMatrix"} <= kinds
    outside = [path for path in MODULES if layer(path) != "matrix"]
    assert_none("kinds of matrices", {within(path): list(decisions_by_kind(tree(path), kinds)) for path in outside})


# ---- the compiled core --------------------------------------------------------------------------------------------


def compiled_functions(path):
    for node in tree(path).body:
        decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
        if {"compiled", "inner"} & {ast.unparse(decorator) for decorator in decorators}:
            yield node


CORE = sorted((SOURCE / "_core").glob("*.py"))


def test_compiled_functions_take_groups_of_arrays():
    found = {}
    for path in CORE:
        for function in compiled_functions(path):
            taken = function.args
            assert not taken.vararg and not taken.kwarg
            count = len(taken.posonlyargs + taken.args + taken.kwonlyargs)
            if count > MOST_PARAMETERS:
                found[function.name] = [f"{within(path)} takes {count}"]
    assert_none("parameters", found)


def public_names(path):
    for node in tree(path).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def test_every_compiled_function_has_a_test_of_its_own():
    """In the file of its module's name; that it is held to a slow twin there is for the reader to see."""
    found = {}
    for path in CORE:
        test = TESTS / "_core" / f"test_{path.stem}.py"
        nodes = list(ast.walk(tree(test))) if test.exists() else []
        used = {getattr(node, "id", None) or getattr(node, "attr", None) for node in nodes}
        public = public_names(path)
        for function in compiled_functions(path):
            if function.name in public and function.name not in used:
                found[function.name] = [f"not called in tests/_core/{test.name}"]
    assert_none("twins", found)


def test_named_twins_exist():
    """`tests/reference.py::name` in a docstring, or a test file alone."""
    for path in MODULES:
        for file, name in re.findall(r"(tests/[\w/]+\.py)(?:::(\w+))?", path.read_text(encoding="utf-8")):
            there = TESTS.parent / file
            assert there.is_file(), f"{within(path)} names {file}"
            names = {getattr(node, "name", None) for node in ast.walk(tree(there))} | {""}
            assert name in names, f"{within(path)} names {file}::{name}"


def test_tests_mirror_the_tree():
    """A test file of these folders tests the module of its name; every method and every compiled module has one."""
    for folder in ("_core", "kernels", "matrix", "engine", "models"):
        modules = {path.stem for path in (SOURCE / folder).glob("*.py")} - {"__init__"}
        tested = {path.stem.removeprefix("test_") for path in (TESTS / folder).glob("test_*.py")}
        assert tested <= modules, f"tests/{folder} tests what is not in src/komd/{folder}: {sorted(tested - modules)}"
        if folder in ("_core", "models"):
            assert modules - tested <= {"groups"}, f"not tested in tests/{folder}: {sorted(modules - tested)}"
