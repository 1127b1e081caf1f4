"""The page of an analysis: what it says, that it asks for nothing, and what a real browser shows of it."""

from __future__ import annotations

import dataclasses
import html
import json
import re

import numpy as np
import pytest
import scipy.sparse

from komd import svg
from komd.matrix import cost
from komd.sparsity import analyze
from komd.sparsity.sparsity_page import page
from tests.evaluation.test_comparison_page import HOSTILE, MEASURE, Balanced, browser

__all__ = ["browser"]  # the fixture


@pytest.fixture(scope="module")
def found():
    kept, cost.machine_speed = cost.machine_speed, lambda storage, workers: 1.0
    try:
        rng = np.random.default_rng(0)
        R = rng.random((300, 200)) < np.outer(np.exp(rng.normal(-1, 1, 300)), np.arange(1, 201) ** -0.8).clip(max=0.9)
        first = analyze(scipy.sparse.csr_array(R.astype(np.int8)), name="plays")
        return [
            first,
            dataclasses.replace(first, name=HOSTILE),
            analyze(scipy.sparse.csr_array(np.eye(9)), name="alike"),
        ]
    finally:
        cost.machine_speed = kept


def test_it_is_whole_and_asks_for_nothing(found):
    text = page(found)
    parser = Balanced()
    parser.feed(text.replace("<!doctype html>", ""))
    assert parser.open == []
    assert len(parser.ids) == len(set(parser.ids))
    assert "<script" not in text and not re.search(r"(src|href)=[\"']?(https?:)?//", text)
    assert "default-src 'none'" in text
    words = " ".join(parser.text)
    for part in ("Side by side", "plays", "degree-aware", "saturating", "What K will cost here", "streamed", "chosen"):
        assert part in words
    assert html.unescape(html.escape(HOSTILE)) in words
    for sentence in found[0].verdict:
        assert sentence in words


def test_every_data_set_has_its_plots(found):
    assert page(found).count("<svg") == 2 + 2 * 3
    assert page(found[:1]).count("<svg") == 2


def test_the_same_page_every_time(found):
    assert page(found) == page(found)


def test_without_matplotlib(found, monkeypatch):
    monkeypatch.setattr(svg, "available", lambda: False)
    text = page(found)
    assert "pip install matplotlib" in text and "<svg" not in text and "<table" in text


@pytest.mark.parametrize("width", [1280, 520])
def test_a_browser_shows_tables_and_plots(browser, found, tmp_path, width):
    text = page(found)
    policy = re.search(r"<meta http-equiv[^>]*>", text)
    assert policy is not None
    copy = tmp_path / "measured.html"
    copy.write_text(text.replace(policy.group(), "").replace("</body>", MEASURE), encoding="utf-8")
    dom = browser(copy, f"--window-size={width},3000", "--dump-dom")
    seen = json.loads(html.unescape(re.search(r'data-seen="([^"]*)"', dom).group(1)))
    drawn = [size for size in seen["sizes"] if size[0] == "svg" and size[1] > 0]
    assert len(drawn) == 1 + 2 * 3 and all(w > 250 and h > 120 for _, w, h in drawn)
    labels = {"rank of the item (1 has the most users)", "users of the item", "items of the user"}
    assert labels | {"density of K, per cent (logarithmic axis)", "d(K)"} <= set(seen["texts"])
    assert seen["fonts"] >= 9  # pixels
    assert seen["wide"] <= seen["window"]  # only tables scroll sideways
    assert "hit" not in seen["title"]
