"""Text for terminals and machines: no control codes, no NaN; columns line up, and no text leaves its cell."""

from __future__ import annotations

import json
import uuid

from komd.plain_text import aligned, json_text, markdown_cell, markdown_table, printable


def test_control_codes_are_shown_not_sent():
    assert printable("naïve ✓") == "naïve ✓"
    assert printable("a\x1b[31m\nb\u202e") == "a\\x1b[31m\\nb\\u202e"
    assert printable(7) == "7"


def test_json_has_no_nan_and_any_id():
    value = {"mean": float("nan"), "rows": [(1.5, float("inf"))], "ids": [b"\x00\xff", uuid.UUID(int=1)], "word": "né"}
    read = json.loads(json_text(value))
    assert read == {"mean": None, "rows": [[1.5, None]], "ids": ["00ff", str(uuid.UUID(int=1))], "word": "né"}
    assert "né" in json_text(value)
    assert json_text(value, ascii_only=True).isascii()


def test_columns_line_up():
    assert aligned([["", "a"], ["bcd", "e"], ["f", "ghi"]]) == ["       a", "bcd    e", "f    ghi"]


def test_no_text_leaves_its_cell():
    assert markdown_cell("a|b\n\x1b[31m") == "a\\|b\\n\\x1b[31m"
    lines = markdown_table(["name", "n", "note"], [["a|b", "1", ""]], left=(0, 2))
    assert lines == ["| name | n | note |", "| --- | ---: | --- |", "| a\\|b | 1 |  |"]
