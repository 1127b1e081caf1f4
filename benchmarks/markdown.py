"""Tables and paragraphs of the pages that benchmarks and experiments write."""

from __future__ import annotations

import textwrap

__all__ = ["markdown", "wrapped"]


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def wrapped(words: str) -> str:
    """A paragraph, in lines of at most 118 characters."""
    return textwrap.fill(" ".join(words.split()), 118, break_long_words=False, break_on_hyphens=False) + "\n"
