"""The reference page of error messages: every message in the source, with an anchor, by part of komd."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Message", "error_classes", "messages", "messages_page", "unreadable"]

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "komd"
TROUBLESHOOTING = ROOT / "docs" / "guide" / "troubleshooting.md"

# Folder or file of src/komd -> the heading of its messages, and the guide that gives the background.
PARTS = {
    "data": ("Reading and splitting data", "reading"),
    "kernels": ("Kernels", "concepts"),
    "models": ("Models", "choosing"),
    "engine": ("Recommending, explaining, updating", "updating"),
    "matrix": ("Memory and filters", "memory"),
    "evaluation": ("Evaluating and comparing", "metrics"),
    "tuning": ("Tuning", "tuning"),
    "sparsity": ("Sparsity", "sparsity"),
    "store.py": ("Model folders", "updating"),
    "cli": ("The command line", "troubleshooting"),
    "serve": ("The service", "serving"),
    "client": ("The client of the service", "operations"),
    "spark": ("Spark", "spark"),
    "": ("Everywhere", "troubleshooting"),
}
_AS_STORE = ("journal.py", "manifest.py")  # listed with store.py
_GAP = "…"  # stands for a name or a number


@dataclass(order=True)
class Message:
    """One message: its text with … for what varies, the classes of the errors that have it, and where it comes from."""

    part: str
    text: str
    classes: list[str] = field(default_factory=list)

    @property
    def anchor(self) -> str:
        """Its anchor on the page: the first words."""
        words = re.findall(r"[a-z0-9]+", self.text.lower())
        return "message-" + "-".join(words[:9])


@functools.cache
def _trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


@functools.cache
def error_classes() -> frozenset[str]:
    """Names of KomdError and of all classes that inherit from it."""
    bases: dict[str, set[str]] = {}
    for tree in _trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = {base.id for base in node.bases if isinstance(base, ast.Name)}
    found = {"KomdError"}
    while more := {name for name, parents in bases.items() if parents & found} - found:
        found |= more
    return frozenset(found)


# ---- texts ----------------------------------------------------------------------------------------------------------


def _texts(node: ast.expr | None, tree: ast.Module, depth: int = 0) -> Iterator[str]:
    """The texts that an expression may be, as far as the source says; what is only known in a run is a gap."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(_part(value, tree) for value in node.values)
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body, tree, depth)
        yield from _texts(node.orelse, tree, depth)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = list(_texts(node.left, tree, depth)), list(_texts(node.right, tree, depth))
        if left or right:
            yield from (a + b for a in left or [_GAP] for b in right or [_GAP])
    elif depth < 3:
        for found in _definitions(node, tree):
            yield from _texts(found, tree, depth + 1)


def _part(value: ast.expr, tree: ast.Module) -> str:
    """A part of an f-string: its words, or the argument, the command, the constant or the gap that it puts there."""
    if isinstance(value, ast.Constant):
        return str(value.value)
    assert isinstance(value, ast.FormattedValue)
    inner = value.value
    if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name):
        given = [each.value if isinstance(each, ast.Constant) else _GAP for each in inner.args]
        if inner.func.id == "argument" and given:
            shown = "" if len(given) == 1 else f'"{given[1]}"' if isinstance(given[1], str) else repr(given[1])
            return f"{given[0]}={shown}"
        if inner.func.id == "install":
            return f"pip install 'komd[{','.join(map(str, given))}]'"
    if isinstance(inner, ast.Name) and inner.id.isupper():
        known = [found.value for found in _definitions(inner, tree) if isinstance(found, ast.Constant)]
        return str(known[0]) if len(known) == 1 else _GAP
    return _GAP


def _definitions(node: ast.expr | None, tree: ast.Module) -> Iterator[ast.expr]:
    """What a name is assigned, or what a function returns: in the same file, or for attributes in any."""
    if isinstance(node, ast.Call):
        node = node.func
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None
    if name is None:
        return
    for place in _trees().values() if isinstance(node, ast.Attribute) else (tree,):
        for each in ast.walk(place):
            if isinstance(each, ast.FunctionDef) and each.name == name:
                yield from (found.value for found in ast.walk(each) if isinstance(found, ast.Return) and found.value)
            elif isinstance(each, ast.Assign) and any(getattr(target, "id", "") == name for target in each.targets):
                yield each.value


# ---- messages -------------------------------------------------------------------------------------------------------


def _places() -> Iterator[tuple[str, ast.Call, str, list[str]]]:
    """Every place that words an error: file, call, class, and the texts that it may have."""
    for path, tree in _trees().items():
        file = path.relative_to(SOURCE).as_posix()
        for call, name in _calls(tree):
            texts = {_shown(text) for text in _texts(call.args[0] if call.args else None, tree)}
            yield file, call, name, sorted(text for text in texts if _says(text))


def _calls(tree: ast.Module) -> Iterator[tuple[ast.Call, str]]:
    """Calls that make an error of komd, and those by which the class of an error words it itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in error_classes():
            if node.func.id not in _worded_by_class(tree):
                yield node, node.func.id
        elif isinstance(node, ast.ClassDef) and node.name in _worded_by_class(tree):
            yield from ((each, node.name) for each in ast.walk(node) if _makes_its_words(each))


def _worded_by_class(tree: ast.Module) -> set[str]:
    """Errors of a file whose classes word them, with nothing but numbers from outside."""
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name in error_classes())
    return {made.name for made in classes if any(map(_makes_its_words, ast.walk(made)))}


def _makes_its_words(node: ast.AST) -> bool:
    """`super().__init__("words")` or `super().__init__(f"words")`."""
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func) == "super().__init__"
        and isinstance(node.args[0] if node.args else None, ast.Constant | ast.JoinedStr)
    )


def _shown(text: str) -> str:
    return re.sub(rf"{_GAP}(?:\s*{_GAP})+", _GAP, re.sub(r"\s+", " ", text)).strip()


def _says(text: str) -> bool:
    """Whether there are words of its own, and not only those of an error that is passed on."""
    return re.search(r"[A-Za-z]{5,}|[A-Za-z]{2,}.*?[^A-Za-z][A-Za-z]{2,}", text) is not None


def unreadable() -> list[str]:
    """Places whose message this module cannot read, as file: code."""
    return [f"{file}: {ast.unparse(call)}" for file, call, _, texts in _places() if not texts]


@functools.cache
def messages() -> tuple[Message, ...]:
    """Every message once for each part of komd, in the order of the page."""
    found: dict[tuple[str, str], Message] = {}
    for file, _, name, texts in _places():
        top = file.split("/")[0]
        part = top if top in PARTS else "store.py" if top in _AS_STORE else ""
        for text in texts:
            message = found.setdefault((part, text), Message(part, text))
            if name not in message.classes:
                message.classes.append(name)
    order = list(PARTS)
    return tuple(
        sorted(found.values(), key=lambda one: (order.index(one.part), re.sub(r"^[\W_]+", "", one.text.lower())))
    )


# ---- the page -------------------------------------------------------------------------------------------------------


def _advice() -> list[tuple[list[str], str]]:
    """The messages that troubleshooting.md explains: their fixed words, and the anchor of the section."""
    rows = []
    for heading in re.findall(r"^### (`.+)$", TROUBLESHOOTING.read_text(encoding="utf-8"), re.M):
        slug = re.sub(r"[^\w\- ]", "", heading.replace("`", "").strip().lower()).replace(" ", "-")
        for message in re.findall(r"`([^`]+)`", heading):
            rows.append(([part.strip() for part in message.split(_GAP) if part.strip()], slug))
    return rows


def messages_page() -> str:
    """The page in Markdown."""
    lines = [
        "# Error messages",
        "Every message of an error that komd raises on purpose, by part of komd. `…` stands for names and numbers. "
        "Search this page for a few words of your message. Messages say what to do; where there is more to say, "
        "*more* leads to it. [Troubleshooting](../guide/troubleshooting.md) explains the classes of errors and the "
        "frequent messages.",
    ]
    advice, used = _advice(), set()
    for part, (heading, guide) in PARTS.items():
        of_part = [message for message in messages() if message.part == part]
        if not of_part:
            continue
        title = (TROUBLESHOOTING.parent / f"{guide}.md").read_text(encoding="utf-8").partition("# ")[2].splitlines()[0]
        lines += [f"## {heading}", f"Background: [{title}](../guide/{guide}.md)."]
        for message in of_part:
            anchor, again = message.anchor, 2
            while anchor in used:
                anchor, again = f"{message.anchor}-{again}", again + 1
            used.add(anchor)
            more = next((slug for words, slug in advice if all(word in message.text for word in words)), "")
            link = f" · [more](../guide/troubleshooting.md#{more})" if more else ""
            marks = "``" if "`" in message.text else "`"
            lines.append(f"({anchor})=\n{marks}{message.text}{marks}  \n{', '.join(message.classes)}{link}")
    return "\n\n".join(lines) + "\n"


if __name__ == "__main__":
    print(messages_page())
