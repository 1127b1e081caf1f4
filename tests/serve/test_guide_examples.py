"""Every example with curl in docs/guide/serving.md, run by a shell against `komd demo --serve`."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from komd.serve.serve_config import read_config
from komd.serve.token_file import read_tokens
from tests.serve.conftest import Command

GUIDE = (Path(__file__).parents[2] / "docs" / "guide" / "serving.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```", GUIDE, re.M | re.S)
EXAMPLES = [line for block in BLOCKS for line in re.sub(r"\\\n\s*", "", block).splitlines() if line.strip()]

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on the path")


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Of each example its command, status and body, in the order of the guide."""
    folder = tmp_path_factory.mktemp("demo")
    service = Command("demo", "--serve", "--port", 0, TMPDIR=str(folder)).wait()
    found = []
    try:
        for example in EXAMPLES:
            here = example.replace("localhost:8000", f"127.0.0.1:{service.client.base_url.port}")
            out = subprocess.run(
                ["sh", "-c", here + r" -o body -w '%{http_code}'"],
                capture_output=True,
                text=True,
                cwd=folder,
                env=os.environ | {"TOKEN": "t" * 32},
                timeout=60,
                check=False,
            )
            found.append((example, int(out.stdout or 0), (folder / "body").read_text(), out.stderr))
            (folder / "body").unlink()
    finally:
        service.stop()
    return found


def test_every_example_is_a_request_to_the_demo():
    assert len(EXAMPLES) >= 8
    for example in EXAMPLES:
        words = shlex.split(example)
        assert words[:2] == ["curl", "-s"] and any(word.startswith("localhost:8000/v1/") for word in words), example


def test_the_files_of_the_guide_are_accepted(tmp_path):
    for number, block in enumerate(re.findall(r"^```toml\n(.*?)^```", GUIDE, re.M | re.S)):
        file = tmp_path / f"{number}.toml"
        file.write_text(block)
        assert read_config(file)
    (tokens,) = re.findall(r"^```text\n(# token.*?)^```", GUIDE, re.M | re.S)
    (tmp_path / "tokens").write_text(tokens)
    assert [token.name for token in read_tokens(tmp_path / "tokens")] == ["", "shop-page", "backend"]


def test_every_example_succeeds(answers):
    for example, status, body, errors in answers:
        assert 200 <= status < 300, (example, status, body, errors)
        if "--head" not in example and "/v1/metrics" not in example:
            found = json.loads(body)
            assert not found.get("unknown_items"), example


def test_examples_do_what_the_guide_says(answers):
    found = {example: json.loads(body) for example, _, body, _ in answers if "--head" not in example}

    def of(*words):
        return [answer for example, answer in found.items() if all(word in example for word in words)]

    (first,) = of("/v1/recommend ", '"n": 3', "explain")
    assert len(first["items"]) == 3 and not first["fallback"]
    assert all(item["why"]["contributions"] for item in first["items"])
    assert all(answer["new"] == 1 for answer in of('"user_id": "ana"', "/v1/events "))
    (listed,) = of("users/ana/recommendations")
    shown = {item["item_id"] for item in listed["items"]}
    assert len(shown) == 10 and not listed["fallback"]
    assert not shown & {"Midnight Lantern (punk)", "Broken Meadow (choral)"}
    assert all(len(answer["items"]) == 10 for answer in of("/similar"))
    assert [answer["events"] for answer in of("DELETE", "users/ana")] == [2]
