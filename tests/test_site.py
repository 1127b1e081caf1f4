"""The documentation site: built without a warning, every link leads somewhere, and it works in a browser."""

from __future__ import annotations

import functools
import http.server
import os
import subprocess
import sys
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import komd

from .serve.browsing import ARGUMENTS, BROWSER, CHROMIUM

ROOT = Path(__file__).parents[1]
BUILT = os.environ.get("KOMD_SITE")  # the folder of a site that was just built; else one is built without tutorials run


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if BUILT:
        return Path(BUILT).resolve()
    for needed in ("sphinx", "furo", "myst_nb"):
        pytest.importorskip(needed, reason="the site needs the extra docs")
    folder = tmp_path_factory.mktemp("site")
    words = ["-q", "--fail-on-warning", "-D", "nb_execution_mode=off", "-d", str(folder / "doctrees")]
    command = [sys.executable, "-m", "sphinx", *words, str(ROOT / "docs"), str(folder / "html")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def address(site):
    handler = functools.partial(Quiet, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words):
        pass


@pytest.fixture
def page(address):
    """A page of a browser that notes errors and requests to other hosts, of which there must be none."""
    api = pytest.importorskip("playwright.sync_api")
    wrong: list[str] = []
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda asked: None if asked.url.startswith((address, "data:")) else wrong.append(asked.url))
        page.on("response", lambda answer: wrong.append(answer.url) if answer.status >= 400 else None)
        yield page
        browser.close()
    assert wrong == []


# ---- links ----------------------------------------------------------------------------------------------------------


class Links(HTMLParser):
    """What a page links to or loads, and the anchors it has."""

    def __init__(self, text):
        super().__init__()
        self.targets: set[str] = set()
        self.anchors: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.targets.add(value)
                if tag != "a":
                    self.loaded.add(value)


def test_every_link_of_the_site_leads_somewhere(site):
    pages = {path: Links(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    assert len(pages) > 100
    wrong = []
    for path, links in pages.items():
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            here = path.relative_to(site)
            if not there.is_file():
                wrong.append(f"{here}: {target}")
            elif parts.fragment and there in pages and unquote(parts.fragment) not in pages[there].anchors:
                wrong.append(f"{here}: {target} (no such anchor)")
    assert wrong == []


def test_no_page_loads_anything_from_another_host(site):
    for path in site.rglob("*.html"):
        for target in Links(path.read_text(encoding="utf-8")).loaded:
            assert not urlsplit(target).netloc, f"{path.relative_to(site)} loads {target}"


def test_tutorials_show_results(site):
    if not BUILT:
        pytest.skip("tutorials are executed by `make docs`: give its folder as KOMD_SITE")
    for name, shown in {"five-minutes": "Recommendations for user-00042", "how-sparse": "Density of K"}.items():
        text = (site / "tutorials" / f"{name}.html").read_text(encoding="utf-8")
        assert shown in text and "Traceback" not in text


def test_every_public_name_has_a_page(site):
    modules = {"datasets", "kernels", "sparsity", "split"}
    for name in set(komd.__all__) - modules - {"__version__"}:
        assert (site / "reference" / "api" / f"komd.{name}.html").is_file(), name
    for module in modules:
        for name in getattr(komd, module).__all__:
            assert (site / "reference" / "api" / f"komd.{module}.{name}.html").is_file(), f"{module}.{name}"


def test_every_error_message_has_an_anchor(site):
    anchors = Links((site / "reference" / "messages.html").read_text(encoding="utf-8")).anchors
    assert len([anchor for anchor in anchors if anchor.startswith("message-")]) > 400


def test_what_is_returned_is_said_once(site):
    text = (site / "reference" / "api" / "komd.Recommendations.html").read_text(encoding="utf-8")
    assert "Returns" in text and "Return type" not in text and "Attributes" in text


# ---- in a browser -----------------------------------------------------------------------------------------------


@BROWSER
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_home_and_a_reference_page_can_be_read(page, address, scheme):
    page.emulate_media(color_scheme=scheme)
    for path in ("index.html", "reference/api/komd.CFKOMD.html"):
        page.goto(address + path)
        assert page.locator("h1").inner_text().strip("#¶ \n") in ("komd", "CFKOMD")
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        bright = sum(map(int, background[4:-1].split(",")[:3])) > 3 * 128
        assert bright == (scheme == "light")
    signature = page.locator("dt.sig").first.inner_text()
    assert "user_damping" in signature
    assert page.get_by_role("link", name="Kernel", exact=True).first.is_visible()  # the type of a parameter


@BROWSER
def test_search_finds_a_parameter(page, address):
    page.goto(address + "index.html")
    page.get_by_placeholder("Search").fill("user_damping")
    page.keyboard.press("Enter")
    page.locator("#search-results li a[href*='komd.CFKOMD']").first.wait_for()


@BROWSER
def test_search_finds_an_error_message(page, address):
    page.goto(address + "index.html")
    page.get_by_placeholder("Search").fill("missing ids remove those rows")
    page.keyboard.press("Enter")
    page.locator("#search-results li a[href*='reference/messages']").first.wait_for()


@BROWSER
def test_figures_are_shown_and_a_phone_does_not_scroll_sideways(page, address):
    page.set_viewport_size({"width": 390, "height": 800})
    for path in ("index.html", "results/sparsity.html", "guide/maths.html", "reference/commands.html"):
        page.goto(address + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
    page.goto(address + "results/sparsity.html")
    widths = page.locator("article img").evaluate_all("all => all.map(one => one.naturalWidth)")
    assert len(widths) == 2 and min(widths) > 100
