"""What the tests of the page share: which browser, how to wait, how to pick an item."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

CHROMIUM = next(
    (
        found
        for name in ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
        if (found := shutil.which(name))
    ),
    None,
)
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
BROWSER = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the path")


def holds(page, expression, arg=None):
    """Wait until this is true of the page. (The browser's own waiting evaluates text, which the policy forbids.)"""
    for _ in range(600):
        if page.evaluate(expression, arg):
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"never true: {expression} ({arg})")


def pick(page, words, expected=None):
    """Search, wait for the list, take the first with the keyboard; returns its name."""
    page.get_by_label("Search the catalogue").fill(words)
    first = page.locator("#search-list [role=option][aria-selected=true]")
    first.wait_for()
    if expected:
        page.locator("#search-list [role=option] .name", has_text=expected).first.wait_for()
    name = first.locator(".name").inner_text()
    with page.expect_response("**/v1/recommend"):
        page.keyboard.press("Enter")
    page.locator("#history li", has_text=name).wait_for()
    holds(page, "document.querySelector('#cards').dataset.fallback === 'no'")
    return name


def names(page):
    return page.locator("#cards h3").evaluate_all("all => all.map(h => h.firstChild.textContent)")


def barriers(page):
    """What axe finds to be in the way of people with disabilities."""
    axe = pytest.importorskip("axe_playwright_python.base")
    page.evaluate(next(Path(axe.__file__).parent.glob("axe.min.js")).read_text())
    return [
        (one["id"], one["impact"], [node["html"][:120] for node in one["nodes"][:3]])
        for one in page.evaluate("() => axe.run(document)")["violations"]
        if one["impact"] in ("serious", "critical", "moderate")
    ]
