"""docs/results/search.md, from benchmarks/name_search.json: `python -m benchmarks.page_search` writes it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.markdown import markdown, wrapped
from benchmarks.measure import ROOT

__all__ = ["page", "write"]

FIGURES = ROOT / "benchmarks" / "name_search.json"
NAMES = {"ours": "komd's index", "fts5": "SQLite FTS5, trigrams", "rapidfuzz": "rapidfuzz, every name"}
KINDS = {
    "exact": "exact, in lower case",
    "prefix": "a prefix (half of the name or more)",
    "typo": "a letter left out, added or replaced",
    "transposition": "two letters exchanged",
    "joined": "spaces left out",
    "split": "a space added within a word",
    "order": "first word last",
    "accents": "accents left out or added",
}
HEAD = """# Search by name

Written by `python -m benchmarks.name_search`. [decisions/0012](../decisions/0012-name-search.md) says what follows.
"""


def page(file: Path = FIGURES) -> str:
    """The text."""
    found = json.loads(file.read_text())
    parts = [HEAD, _about(found)]
    for one in found["data"]:
        parts += [f"## {one['names']:,} names: {one['source']}\n", _quality(one), _speed(one)]
    return "\n".join(parts)


def write(path: Path = ROOT / "docs" / "results" / "search.md") -> None:
    """Write the page."""
    path.write_text(page(), encoding="utf-8")


def _about(found: dict[str, Any]) -> str:
    return wrapped(f"""{found["machine"]}; SQLite {found["sqlite"]}, rapidfuzz {found["rapidfuzz"]}. Queries are made
    from names by a fixed generator of random numbers, {found["each"]} of each kind; popular items are meant more often.
    Choices were made on queries for items of even number (and on 60,000 generated names): the weights of our order,
    SQLite's number of trigrams and of candidates, rapidfuzz's scorer. The figures are of queries for items of odd
    number. They were seen once before our order was last revised (names with the words in the typed order first), so
    small differences in our favour mean little. SQLite and rapidfuzz use the weights of our order, not tuned for them.
    An answer counts if it has the very name that was meant. A prefix may fit several names equally well: no search
    finds all of these first; ours also looks for it at later words of names, which these queries never mean.""") + (
        "\n"
        + wrapped(f"""SQLite and rapidfuzz only find candidates; they get our folding of letters, further candidates
        from an ordinary index of prefixes (SQLite) or a scan for prefixes (rapidfuzz), and an order like ours, by
        the edit distances of rapidfuzz. Each query goes to one contender after the other, in one process and one
        thread, so that other work on the machine slows all alike; its time is the best of {found["turns"]}. Compare the
        ratios.""")
    )


def _quality(one: dict[str, Any]) -> str:
    rows = []
    for kind, words in KINDS.items():
        both = [figures["quality"][kind] for figures in one["figures"].values()]
        rows.append([words, *(f"{100 * first:.1f} / {100 * among:.1f}" for first, among in both)])
    means = []
    for figures in one["figures"].values():
        shares = list(figures["quality"].values())
        means.append(" / ".join(f"{100 * sum(share[k] for share in shares) / len(shares):.1f}" for k in (0, 1)))
    rows.append(["**mean**", *means])
    head = ["% first / % among five", *(NAMES[name] for name in one["figures"])]
    return markdown(head, rows)


def _speed(one: dict[str, Any]) -> str:
    ours = one["figures"]["ours"]
    rows = []
    for name, figures in one["figures"].items():
        times = [f"{figures[key]:.1f} ({figures[key] / ours[key]:.1f}×)" for key in ("p50", "p99")]
        rows.append([NAMES[name], *times, f"{figures['build']:.1f}", f"{figures['bytes'] / 1e6:.0f}"])
    return markdown(["", "median ms", "99th percentile ms", "s to build", "MB of the index"], rows)


if __name__ == "__main__":
    write()
