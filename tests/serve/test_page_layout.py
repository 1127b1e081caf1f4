"""The page with hostile names and addresses, at three widths: nothing sticks out, nothing covers a button."""

from __future__ import annotations

import pytest

from komd.serve.serve_settings import Settings

from .browsing import BROWSER, holds
from .conftest import Running

pytestmark = BROWSER

LONG = "https://shop.example/" + "a-path-without-a-space/" * 9 + "?token=" + "Q" * 60
HOSTILE = {
    "unbroken": "W" * 300,
    "words": "a name of many words " * 14,
    "arabic": "كتاب الليالي (الجزء ٢) abc 123!",
    "hebrew": "ספר הלילות — 12/3 (xyz)",
    "override": "\u202edessrever si eman siht",
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈" * 40,
    "combining": "Z" + "\u0301\u0323\u0335" * 60 + "algo",
    "html": "<script>window.hit=1</script><img src=x onerror=window.hit=1>" * 3,
    "blank": " \t ",
    "invisible": "\u200b\u2060\ufeff",
    "empty": "",
    "newlines": "two\nlines\nof it",
}
WIDTHS = (1280, 768, 390)


@pytest.fixture(scope="module")
def hostile(shop, tmp_path_factory):
    """Every item has a hostile name and, as its first further column, a long address."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("hostile")
    names = [list(HOSTILE.values())[k % len(HOSTILE)] for k in range(90)]
    table = {"id": [7 * k + 3 for k in range(90)], "name": names, "page": [LONG] * 90, "maker": ["Ü" * 200] * 90}
    pq.write_table(pa.table(table), folder / "items.parquet")
    settings = Settings(
        model=shop / "numbers.komd", items=folder / "items.parquet", store=f"sqlite:///{folder / 'events.db'}"
    )
    running = Running(settings)
    yield running
    running.stop()


@pytest.fixture(params=WIDTHS)
def page(browser, hostile, request):
    opened = browser.new_page(viewport={"width": request.param, "height": 800}, reduced_motion="reduce")
    complaints = []
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    opened.set_default_timeout(10_000)
    opened.goto(hostile.address)
    opened.locator("#cards li").first.wait_for()
    opened.locator("#suggestions button").first.wait_for()
    yield opened
    assert complaints == []
    opened.close()


# What is hit at the centre of each visible button, link or summary is that element or inside it.
COVERED = """(within) => {
  const found = [];
  for (const one of document.querySelectorAll(`${within} :is(button, a, summary, input)`)) {
    if (!one.checkVisibility() || one.matches('.skip')) continue;
    one.scrollIntoView({ block: 'center', inline: 'nearest', behavior: 'instant' });
    const { left, top, width, height } = one.getBoundingClientRect();
    const hit = document.elementFromPoint(left + width / 2, top + height / 2);
    if (!hit || !(one.contains(hit) || hit.contains(one) && hit.closest('li, p, div') === one.closest('li, p, div')))
      found.push([one.outerHTML.slice(0, 120), hit && hit.outerHTML.slice(0, 120)]);
  }
  return found;
}"""
OUTSIDE = """(within) => [...document.querySelectorAll(`${within} :is(button, a, summary, input, .card, .panel, li)`)]
  .filter((one) => one.checkVisibility() && !one.matches('.skip'))
  .filter((one) => { const { left, right, width } = one.getBoundingClientRect();
    return width > 0 && (left < -0.5 || right > document.documentElement.clientWidth + 0.5); })
  .map((one) => one.outerHTML.slice(0, 120))"""


def fits(page, within="body"):
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    assert page.evaluate("window.innerWidth") == page.viewport_size["width"]
    assert page.evaluate(OUTSIDE, within) == []
    assert page.evaluate(COVERED, within) == []


def add_some(page, count=4):
    for k in range(count):
        with page.expect_response("**/v1/recommend"):
            page.locator("#cards .main").nth(k).click()
        holds(page, "n => document.querySelectorAll('#history li').length === n", arg=k + 1)
    for k in range(2):
        with page.expect_response("**/v1/recommend"):
            page.locator("#cards .dislike").nth(k).click()
        holds(page, "n => document.querySelectorAll('#disliked li').length === n", arg=k + 1)


def test_nothing_sticks_out_and_nothing_is_covered(page):
    fits(page)
    add_some(page)
    page.evaluate("for (const why of document.querySelectorAll('#cards .why')) why.open = true")
    page.locator("#known summary").click()
    fits(page)
    assert page.evaluate("window.hit") is None


def test_the_list_of_suggestions_is_readable(page):
    add_some(page, 2)
    page.get_by_label("Search the catalogue").focus()
    page.locator("#search-list [role=option]").first.wait_for()
    width = page.viewport_size["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    options = page.locator("#search-list [role=option]").evaluate_all(
        """all => all.map((option) => {
             const box = option.getBoundingClientRect(), name = option.querySelector('.name').getBoundingClientRect();
             return [box.left, box.right, box.height, name.width, option.querySelector('.name').textContent.length];
           })"""
    )
    assert len(options) == 8
    for left, right, height, name, letters in options:
        assert left >= 0 and right <= width
        assert height <= 110  # at most a few lines: letters are not written one below the other
        assert name >= (120 if letters > 20 else 10)
    page.keyboard.press("ArrowUp")  # the last: the first are in the history
    with page.expect_response("**/v1/recommend"):
        page.keyboard.press("Enter")
    holds(page, "document.querySelectorAll('#history li').length === 3")


def test_the_dialog_of_an_item(page):
    add_some(page, 2)
    page.get_by_role("button", name="Similar to").first.click()
    page.locator("#similar[open] li").first.wait_for()
    box = page.locator("#similar").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= page.viewport_size["width"]
    assert page.locator("#similar").evaluate("d => d.scrollWidth - d.clientWidth") <= 0
    fits(page, "#similar")


def test_names_keep_their_direction(page):
    """A right-to-left name neither turns the text around it nor is turned by it."""
    add_some(page, 2)
    for name in page.locator("h3 > *:first-child, .name").all():
        if name.is_visible():
            style = name.evaluate("e => [e.dir, getComputedStyle(e).unicodeBidi]")
            assert style[0] == "auto" and style[1] in ("isolate", "plaintext", "isolate-override")
    titles = page.locator("#cards h3 > *:first-child")
    for k in range(titles.count()):
        text, direction = titles.nth(k).evaluate("e => [e.textContent, getComputedStyle(e).direction]")
        assert direction == ("rtl" if text in (HOSTILE["arabic"], HOSTILE["hebrew"]) else "ltr"), text
        assert titles.nth(k).evaluate("e => e.getBoundingClientRect().width") > 4  # the id where the name shows nothing


def test_at_double_size(browser, hostile):
    """Zoomed to 200 %, a window of 1280 by 800 has 640 by 400 pixels for the page."""
    page = browser.new_page(viewport={"width": 640, "height": 400}, device_scale_factor=2, reduced_motion="reduce")
    page.goto(hostile.address)
    page.locator("#cards li").first.wait_for()
    add_some(page, 2)
    fits(page)
    page.close()
