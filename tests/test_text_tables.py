"""Tables as text: columns line up, and no text leaves its cell."""

from __future__ import annotations

from komd.text_tables import aligned, markdown_cell, markdown_table


def test_columns_line_up():
    assert aligned([["", "a"], ["bcd", "e"], ["f", "ghi"]]) == ["       a", "bcd    e", "f    ghi"]


def test_no_text_leaves_its_cell():
    assert markdown_cell("a|b\n\x1b[31m") == "a\\|b\\n\\x1b[31m"
    lines = markdown_table(["name", "n", "note"], [["a|b", "1", ""]], left=(0, 2))
    assert lines == ["| name | n | note |", "| --- | ---: | --- |", "| a\\|b | 1 |  |"]
