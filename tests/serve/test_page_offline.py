"""The page while the service is gone, busy or refuses: it says so, asks again, and recovers without a reload."""

from __future__ import annotations

import json
import re
import signal
import socket
import time

import pytest

from komd.serve.serve_settings import Settings

from .browsing import BROWSER, barriers, holds, names
from .conftest import Command, Running

pytestmark = BROWSER
SILENT = "The service does not answer. Trying again …"


@pytest.fixture(scope="module")
def service(shop, tmp_path_factory):
    store = tmp_path_factory.mktemp("offline") / "events.db"
    running = Running(Settings(model=shop / "shop.komd", store=f"sqlite:///{store}"))
    yield running
    running.stop()


@pytest.fixture
def page(browser):
    opened = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    opened.set_default_timeout(20_000)
    thrown = []
    opened.on("pageerror", lambda error: thrown.append(str(error)))
    yield opened
    assert thrown == []
    opened.close()


def banner(page):
    return page.locator("#banner-words").inner_text() if page.locator("#banner").is_visible() else None


def test_the_server_is_killed_and_comes_back(page, shop, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ("serve", shop / "shop.komd", "--port", port, "--store", f"sqlite:///{tmp_path / 'e.db'}")
    running = Command(*words).wait()
    try:
        page.goto(f"http://127.0.0.1:{port}")
        page.evaluate("window.same = true")
        page.locator("#suggestions button").first.click()
        holds(page, "document.querySelector('#cards').dataset.fallback === 'no'")
        listed = names(page)
        running.stop(signal.SIGKILL)

        failed = []
        page.on("requestfailed", lambda request: failed.append(request.url))
        page.locator("#cards .main").first.click()
        holds(page, "!document.querySelector('#banner').hidden")
        assert banner(page) == SILENT
        assert page.locator("#took").inner_text() == ""  # nothing was answered
        assert page.locator("#outdated-note").is_visible() and names(page) == listed
        assert page.locator("#recommendations").get_attribute("data-outdated") == "yes"
        holds(page, "document.querySelectorAll('#history li').length === 2")
        page.get_by_label("Search the catalogue").fill("a")
        page.locator("#search-list", has_text=SILENT).wait_for()
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Similar to").first.click()
        page.locator("#similar[open] #similar-note", has_text=SILENT).wait_for()
        for _ in range(400):
            if sum("/recommend" in url for url in failed) >= 3:
                break
            page.wait_for_timeout(25)
        assert sum("/recommend" in url for url in failed) >= 3  # it goes on trying

        running = Command(*words).wait()
        page.locator("#similar-list li").first.wait_for(timeout=60_000)
        page.keyboard.press("Escape")
        holds(page, "document.querySelector('#banner').hidden")
        ids = page.locator("#history li").evaluate_all("all => all.map(li => li.dataset.id)")
        answer = running.client.post("/v1/recommend", json={"history": ids}).json()
        assert names(page) == [row["name"] for row in answer["items"]]
        assert re.fullmatch(r"answered in \d+ ms", page.locator("#took").inner_text())
        assert page.locator("#outdated-note").is_hidden()
        assert page.evaluate("window.same") is True
    finally:
        running.stop(signal.SIGKILL)


def test_the_first_load_fails(page, service):
    """Neither the suggestions nor the items of the address are lost."""
    held = [one["item_id"] for one in service.get("/v1/items", n=3)["items"]]
    page.route("**/v1/**", lambda route: route.abort())
    page.goto(f"{service.address}/#{'&'.join(held)}&not=gone-since")
    holds(page, "!document.querySelector('#banner').hidden")
    assert banner(page) == SILENT and page.locator("#outdated-note").is_hidden()
    assert page.locator("#rare").is_disabled()
    page.unroute("**/v1/**")
    page.locator("#cards .why").first.wait_for()
    assert page.locator("#history li").evaluate_all("all => all.map(li => li.dataset.id)") == held
    assert banner(page) is None and page.locator("#suggestions button").count() == 8
    assert page.locator("#rare").is_enabled()


@pytest.mark.parametrize("status", [429, 503, 504])
def test_busy_and_retry_after(page, service, status):
    """The words are the service's, and it is not asked before the time it named, whatever is clicked meanwhile."""
    page.goto(service.address)
    page.locator("#cards li").first.wait_for()
    asked = []

    def busy(route):
        asked.append(time.monotonic())
        if len(asked) > 1:
            return route.continue_()
        body = json.dumps({"detail": "too much at once"})
        return route.fulfill(status=status, content_type="application/json", headers={"Retry-After": "2"}, body=body)

    page.route("**/v1/recommend", busy)
    page.locator("#suggestions button").first.click()
    holds(page, "!document.querySelector('#banner').hidden")
    assert banner(page) == "Too much at once. Trying again in 2 seconds …"
    page.locator("#cards .main").nth(3).click()
    holds(page, "document.querySelector('#banner').hidden")
    holds(page, "document.querySelector('#cards').dataset.fallback === 'no'")
    assert asked[1] - asked[0] > 1.9
    assert page.locator("#history li").count() == 2 and page.locator("#outdated-note").is_hidden()


def test_what_is_refused_is_said_and_not_repeated(page, service):
    page.goto(service.address)
    page.locator("#cards li").first.wait_for()
    asked = []

    def refused(route):
        asked.append(route.request.url)
        body = json.dumps({"detail": "this token may not read"})
        route.fulfill(status=403, content_type="application/json", body=body)

    page.route("**/v1/recommend", refused)
    page.locator("#suggestions button").first.click()
    page.locator("#list-note", has_text="This token may not read.").wait_for()
    page.wait_for_timeout(800)
    assert len(asked) == 1 and banner(page) is None
    assert page.locator("#took").inner_text() == "" and page.locator("#outdated-note").is_visible()


def test_a_proxy_answers_in_html(page, service):
    page.goto(service.address)
    page.locator("#cards li").first.wait_for()
    page.route(
        "**/v1/recommend", lambda route: route.fulfill(status=502, content_type="text/html", body="<h1>Bad</h1>")
    )
    page.locator("#suggestions button").first.click()
    holds(page, "!document.querySelector('#banner').hidden")
    assert banner(page) == SILENT
    page.unroute("**/v1/recommend")
    page.get_by_role("button", name="Try now").focus()
    page.keyboard.press("Enter")
    holds(page, "document.querySelector('#banner').hidden")
    assert page.evaluate("document.activeElement.id") == "recommendations"  # the focus does not fall off the page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_while_the_service_is_gone(page, service, scheme):
    page.emulate_media(color_scheme=scheme)
    page.goto(service.address)
    page.locator("#cards li").first.wait_for()
    page.locator("#suggestions button").first.click()
    page.locator("#cards .why").first.wait_for()
    page.route("**/v1/**", lambda route: route.abort())
    page.locator("#cards .main").first.click()
    page.locator("#outdated-note").wait_for()
    assert page.locator("#banner").is_visible() and barriers(page) == []


WAITS = """async () => {
  const { retried } = await import('/static/retry.js');
  const waits = [];
  const usual = window.setTimeout;
  window.setTimeout = (work, wait) => { waits.push(wait); return usual(work, 0); };
  let left = 12;
  const gone = Object.assign(new Error('gone.'), { passing: true, wait: 0 });
  const work = async () => { if (left-- > 0) throw gone; return 'here'; };
  const told = [];
  const found = await retried(work, { signal: new AbortController().signal, trouble: (words) => told.push(words) });
  window.setTimeout = usual;
  return [found, waits, told];
}"""


def test_backoff_doubles_with_jitter_up_to_half_a_minute(page, service):
    page.goto(service.address)
    page.locator("#cards li").first.wait_for()
    runs = [page.evaluate(WAITS) for _ in range(3)]
    for found, waits, told in runs:
        assert found == "here" and told[-1] is None and set(told[:-1]) == {"gone. Trying again …"}
        assert len(waits) == 12
        for k, wait in enumerate(waits):
            full = min(30_000, 500 * 2**k)
            assert full / 2 <= wait <= full
    assert runs[0][1] != runs[1][1]
