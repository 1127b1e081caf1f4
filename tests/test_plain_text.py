"""Text for terminals and machines: no control codes, no NaN."""

from __future__ import annotations

import json
import uuid

from komd.plain_text import json_text, printable


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
