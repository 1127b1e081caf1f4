"""What README and the docs say and a command can check: code runs, links lead somewhere, names exist."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import json
import os
import re
import shlex
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer.main
from pyarrow import csv
from typer.testing import CliRunner

import komd
from komd.cli.main import app
from komd.models.registry import MODELS

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page
    for page in ROOT.rglob("*.md")
    if not any(part.startswith(".") or part in ("node_modules", "work") for part in page.relative_to(ROOT).parts)
)
README = (ROOT / "README.md").read_text(encoding="utf-8")
EVERYTHING = bool(os.environ.get("KOMD_DOCS"))  # also the commands of README that take minutes

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def code_of(text: str) -> list[str]:
    """Inline code, and the lines of code blocks, fenced or indented; continued lines joined."""
    text = re.sub(r"\\\n\s*", " ", text)
    fenced = re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S)
    rest = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    indented = re.findall(r"^ {4}(.+)$", rest, re.M)
    inline = re.findall(r"`([^`\n]+)`", rest)
    return [line for block in fenced for line in block.splitlines()] + indented + inline


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    plain = re.sub(r"[`*_]|\]\([^)]*\)", "", heading).replace("[", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


@pages
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```", "", text_of(page), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        assert there.exists(), f"{page.name} links to {target}"
        if anchor:
            headings = [slug(line) for line in re.findall(r"^#+ (.+)$", text_of(there), re.M)]
            assert anchor in headings, f"{page.name} links to {target}; there is {headings}"


def where_is() -> list[tuple[str, list[str]]]:
    """The rows of ARCHITECTURE.md's table: a question, and the files in its answer."""
    _, _, section = text_of(ROOT / "ARCHITECTURE.md").partition("\n## Where is …?\n")
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return [(question, re.findall(r"`([^`]+)`", answer)) for question, answer in cells[2:] if answer]


def test_every_question_has_one_file_that_exists():
    rows = where_is()
    assert len(rows) >= 30
    assert len({question for question, _ in rows}) == len(rows)
    for question, files in rows:
        assert len(files) == 1, question
        there = [folder / files[0] for folder in (ROOT / "src" / "komd", ROOT)]
        assert sum(file.is_file() for file in there) == 1, f"{question} {files[0]}"


@pytest.mark.parametrize(
    "name, writer",
    [
        ("performance", "benchmarks.page"),
        ("latency", "benchmarks.serve.__main__"),
        ("search", "benchmarks.page_search"),
    ],
)
def test_pages_are_as_their_commands_write_them(name, writer):
    """Those that are made of figures kept in the project: nothing is measured."""
    assert importlib.import_module(writer).page() == text_of(ROOT / "docs" / "results" / f"{name}.md")


@functools.cache
def module_names() -> set[str]:
    """Names of the project's Python files."""
    folders = ("src", "tests", "docs", "benchmarks", "experiments", "deploy")
    return {path.name for folder in folders for path in (ROOT / folder).rglob("*.py")}


@pages
def test_named_files_exist(page):
    if page.name == "CHANGELOG.md":
        return  # it names what was
    here = [ROOT, ROOT / "src" / "komd", ROOT / "src", page.parent, ROOT / ".ci"]
    for code in code_of(text_of(page)):
        for word in re.findall(r"(?<![\w/.$*{-])((?:[\w.-]+/)*[\w-]+\.(?:py|md|toml))\b(?!\()", code):
            found = any((folder / word).exists() for folder in here) or (word in module_names() and "/" not in word)
            assert found, f"{page.name} names {word}"
        for word in re.findall(r"(?<![\w/.<])((?:src|tests|docs|benchmarks|experiments)/[\w/]*)", code):
            made = word.endswith("/work/") or "/_build" in word  # by a run
            assert made or (ROOT / word).exists() or list(ROOT.glob(word + "*")), f"{page.name} names {word}"


def test_named_tests_exist():
    known = {name for file in (ROOT / "tests").rglob("*.py") for name in re.findall(r"def (test_\w+)", text_of(file))}
    for page in PAGES:
        for name in re.findall(r"(?<![\w/.])(test_\w+)(?![\w.])", " ".join(code_of(text_of(page)))):
            assert name in known, f"{page.name} names {name}"


def identifiers(file: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(text_of(file))):
        names |= {getattr(node, field, None) for field in ("id", "arg", "attr", "name")}
    return {name for name in names if isinstance(name, str)}


def test_names_in_the_architecture_are_names_in_the_code():
    """Classes, methods and arguments, that is: words in code marks that have an underscore or two capitals."""
    inline = re.findall(
        r"`([\w.()]+)`", re.sub(r"^```.*?^```", "", text_of(ROOT / "ARCHITECTURE.md"), flags=re.M | re.S)
    )
    words = {word for code in inline if ".py" not in code for word in re.findall(r"[A-Za-z_]\w*", code)}
    names = {word for word in words if "_" in word or sum(letter.isupper() for letter in word) > 1}
    assert len(names) > 10
    unknown = names - set().union(*map(identifiers, (ROOT / "src").rglob("*.py")))
    assert not unknown


def test_symbols_of_the_mathematics_are_names_in_the_code():
    table = text_of(ROOT / "docs" / "guide" / "maths.md").partition("## Symbols")[2].partition("##")[0]
    codes = [re.split(r"(?<!\\)\|", line)[2] for line in table.splitlines() if line.startswith("| ")][2:]
    names = {
        name for cell in codes for code in re.findall(r"`([^`]+)`", cell) for name in re.findall(r"[a-zA-Z_]\w*", code)
    }
    assert len(names) > 30
    unknown = names - set().union(*map(identifiers, (ROOT / "src").rglob("*.py")))
    assert not unknown


@pages
def test_make_targets_and_modules_exist(page):
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
    for code in code_of(text_of(page)):
        for words in re.findall(r"(?:^|\s)make ((?:[a-z][a-z-]+ ?)+)", code.partition("#")[0]):
            for target in words.split():
                assert target in targets, f"{page.name}: make {target}"
        for module in re.findall(r"python -m ([\w.]+)", code):
            assert importlib.util.find_spec(module) is not None, f"{page.name}: python -m {module}"


@pages
def test_commands_and_options_exist(page):
    commands = typer.main.get_command(app).commands
    for code in code_of(text_of(page)):
        for name, rest in re.findall(r"(?:^|[\s$])komd ([a-z]+)([^|;#…]*)", code):
            if name not in commands:
                assert not re.match(r"\s+-", rest), f"{page.name}: komd {name}"
                continue
            known = {
                word for parameter in commands[name].params for word in (*parameter.opts, *parameter.secondary_opts)
            }
            outside = re.sub(r"\"[^\"]*\"|'[^']*'", "", rest)
            for option in re.findall(r"(?<![\w-])(--?[a-z][\w-]*)", outside):
                assert option in known | {"--help"}, f"{page.name}: komd {name} {option}"


@pages
def test_names_of_komd_and_models_exist(page):
    if page.name == "CHANGELOG.md":
        return
    for code in code_of(text_of(page)):
        for name in re.findall(r"(?<![\w./'\[-])komd\.([a-z_]\w*(?:\.\w+)*)", code):
            if name.split(".")[0] in ("komd", "git", "events"):
                continue
            thing: object = komd
            for at, part in enumerate(name.split(".")):
                if not hasattr(thing, part):
                    thing = importlib.import_module("komd." + ".".join(name.split(".")[: at + 1]))
                else:
                    thing = getattr(thing, part)
        for text in re.findall(rf"\b(?:{'|'.join(MODELS)})\((?:[^()…]|\([^()]*\))*\)", code):
            if "..." in text or re.search(r"=[^'\d\[{(\w.-]|[=(](?!None|True)[a-z]\b|\*\*|[μλθγβδ]|=r\b|=c\b", text):
                continue  # a form, not a model
            for model in komd_models(text):
                komd.model_from_text(model)


def komd_models(text: str) -> list[str]:
    from komd.evaluation.grid import models_of

    return models_of([text])


def plays(path: Path) -> None:
    """Pairs that hold the ids of README's example."""
    made = komd.generate(users=80, items=40, activity=8, tastes=3, rng=0)
    users = [{"user-00000": "ana", "user-00001": "bo"}.get(u, u) for u in made.users.take(made.rows).to_pylist()]
    first = dict(zip(made.items.values.to_pylist(), ["i7", "i42", "i99"], strict=False))
    items = [first.get(item, item) for item in made.items.take(made.indices).to_pylist()]
    pairs = pa.table({"user_id": users, "item_id": items})
    pq.write_table(pairs, path)
    counted = pairs.append_column("plays", pa.array([1 + k % 7 for k in range(len(pairs))]))
    days = pa.array([1_700_000_000 + 86_400 * (k % 90) for k in range(len(pairs))])
    csv.write_csv(counted.append_column("timestamp", days), path.with_suffix(".csv"))


def test_the_python_of_the_readme(tmp_path, monkeypatch, capsys):
    blocks = re.findall(r"^```python\n(.*?)^```", README, re.M | re.S)
    assert len(blocks) == 2
    monkeypatch.chdir(tmp_path)
    plays(tmp_path / "plays.parquet")
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    assert repr(names["model"]).startswith("CFKOMD(")
    assert "auc" in capsys.readouterr().out


def test_the_three_numbers_of_the_readme_are_those_of_the_results():
    rows = [line for line in README.splitlines() if line.startswith("| **")]
    accuracy, speed, size = (re.findall(r"\d*\.\d+", row.split("](")[0].partition("|")[2]) for row in rows)
    page = text_of(ROOT / "docs" / "results" / "accuracy.md")
    table = page.partition("## ml-1m, random half")[2].partition("<details>")[0]
    models = ("CFKOMD", "WRMF", "EASE", "SLIM")
    ndcg = {name: re.search(rf"^\| {name} \| (\.\d+)", table, re.M) for name in models}
    assert accuracy == [f"{float(ndcg[name][1]):.3f}"[1:] for name in models]
    measured = json.loads(text_of(ROOT / "benchmarks" / "results.json"))["whole_job"]
    assert speed == [f"{measured['komd'] / measured['als']:.2f}"]
    msd = json.loads(text_of(ROOT / "benchmarks" / "msd.json"))
    minutes = {name: f"{(msd[name]['fit'] + msd[name]['rank']) / 60:.1f}" for name in ("ecfomd", "als", "cosine")}
    memory = {name: f"{msd[name]['rank_peak'] / 1e9:.1f}" for name in ("ecfomd", "als", "cosine")}
    assert size[-6:] == [each[name] for name in ("ecfomd", "als", "cosine") for each in (minutes, memory)]


LONG = ("compare", "tune", "demo", "serve")


def test_the_commands_of_the_readme(tmp_path, monkeypatch):
    """Those that take seconds, as they stand; with KOMD_DOCS=1 the others too, with a shorter budget."""
    monkeypatch.chdir(tmp_path)
    section = re.search(r"The same from the command line.*?\n\n((?: {4}.*\n)+)", README)
    assert section is not None
    lines = [line.strip() for line in section[1].splitlines()]
    assert len(lines) >= 9 and all(line.startswith("komd ") for line in lines)
    for line in lines:
        words = shlex.split(line, comments=True)[1:]
        if words[0] in LONG:
            if not EVERYTHING:
                continue
            words = [word.replace("2m", "20s") for word in words]
        done = CliRunner().invoke(app, words, catch_exceptions=False)
        assert done.exit_code == 0, (line, done.output)


def message_pages():
    """docs/message_pages.py, which reads the source for the messages of errors."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        return importlib.import_module("message_pages")
    finally:
        sys.path.remove(str(ROOT / "docs"))


# Places that pass on the words of another error, or of one that is listed where it is made.
PASSED_ON = (
    "client/http_client.py: ServiceError(",
    "evaluation/comparison.py: InputError(",
    "serve/api.py: DeadlineExceeded(words)",
    "serve/hot_reload.py: InputError(f'{self._items.name}: {error}')",
    "serve/hot_reload.py: ModelFileError(names_only(",
    "serve/serve_config.py: InputError(f'{path}: {error}')",
    "spark/estimator.py: InputError(error.worded(",
    "spark/model_folder.py: InputError('; '.join(",
)


def test_every_error_message_has_an_anchor_on_the_page_of_messages():
    """A new error is listed by itself. If this fails, write its message where it is raised: a text or an f-string."""
    reader = message_pages()
    unread = [place for place in reader.unreadable() if not place.startswith(PASSED_ON)]
    assert unread == []
    page = reader.messages_page()
    anchors = re.findall(r"^\((message-[a-z0-9-]+)\)=$", page, re.M)
    assert len(anchors) == len(set(anchors)) == len(reader.messages()) > 400
    assert {name for message in reader.messages() for name in message.classes} >= {"InputError", "CircuitOpen"}


def test_messages_are_read_as_they_are_shown():
    """Words, names of arguments and gaps: against messages that are provoked."""
    texts = [message.text for message in message_pages().messages()]
    data = komd.generate(users=40, items=20, activity=4, tastes=2, rng=0)
    for provoke in (
        lambda: komd.split.time(data),
        lambda: komd.generate(users=9, items=9, activity=3, tastes=12, rng=0),
        lambda: komd.CFKOMD().recommend("ana"),
        lambda: komd.load("nowhere.komd"),
        lambda: komd.CFKOMD(kernel=7).fit(data),
    ):
        with pytest.raises(komd.KomdError) as raised:
            provoke()
        said = str(raised.value)
        patterns = [".*".join(map(re.escape, text.split("…"))) for text in texts]
        assert any(re.fullmatch(pattern, said) for pattern in patterns), said


def follow_docs():
    """tools/follow_docs.py, which does what README and the site say in an empty environment."""
    spec = importlib.util.spec_from_file_location("follow_docs", ROOT / "tools" / "follow_docs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look for it
    spec.loader.exec_module(module)
    return module


def test_every_command_of_the_site_is_followed_or_left_out_with_a_reason():
    """By CI, on every page for users; pages of results and decisions say how they were made."""
    tool = follow_docs()
    folders = ("README.md", "docs/*.md", "docs/tutorials/*.md", "docs/guide/*.md", "docs/project/*.md")
    known = {path.relative_to(ROOT).as_posix() for folder in folders for path in ROOT.glob(folder)}
    told = {page for page in known if list(tool.steps(page))}
    assert told - set(tool.PAGES) - set(tool.NOT_FOLLOWED) == set()
    assert set(tool.PAGES) <= told
    steps = [step for page in tool.PAGES for step in tool.steps(page)]
    assert sum(not step.reason for step in steps) > 100
    assert all(any(re.search(found, step.text) for step in steps) for found in tool.LEFT_OUT), "not needed any more"


def komd_errors() -> set[str]:
    """Names of the classes in the source that inherit from KomdError or from one of its subclasses, and of warnings."""
    bases: dict[str, list[str]] = {}
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(text_of(file))):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = [base.id for base in node.bases if isinstance(base, ast.Name)]
    found = {"KomdError", "UserWarning", "WordedWarning"}
    while more := {name for name, parents in bases.items() if set(parents) & found} - found:
        found |= more
    return {name for name in found if not name.startswith("_")} - {"UserWarning", "WordedWarning"}


def test_every_error_has_an_anchor_in_the_troubleshooting_page():
    headings = re.findall(r"^#+ (.+)$", text_of(ROOT / "docs" / "guide" / "troubleshooting.md"), re.M)
    assert komd_errors() - {"UnknownIdsWarning"} <= set(headings)


def test_messages_of_the_troubleshooting_page_are_messages_of_komd():
    source = "\n".join(
        node.value
        for file in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(text_of(file)))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    headings = re.findall(r"^### (`.+)$", text_of(ROOT / "docs" / "guide" / "troubleshooting.md"), re.M)
    assert len(headings) > 25
    for heading in headings:
        for message in re.findall(r"`([^`]+)`", heading):
            for part in message.split("…"):
                assert part.strip() in source, f"no message has {part.strip()!r}"
