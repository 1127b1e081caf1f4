"""The page of a comparison: what it says, that it asks for nothing, and what a real browser shows of it."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from komd import svg
from komd.evaluation.comparison import Comparison, MetricSummary, Row
from komd.evaluation.comparison_page import page
from komd.evaluation.work_folder import ComparisonProtocol

HOSTILE = "<script>document.title='hit'</script>&\"'$x$|"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]


def comparison(rows=12, failed=1, metrics=("auc", "ndcg@100")):
    made = []
    for k in range(rows):
        mark = "best" if k == 3 else "tied" if k == 4 else ""
        scores = {
            name: MetricSummary(0.9 - 0.01 * abs(k - 3), 0.003, (0.9, 0.91), mark, 1.0 if mark else 0.001)
            for name in metrics
        }
        made.append(Row(f"MSDW(alpha={k / 16})", scores, (0.01 * 2**k,) * 2, (0.05,) * 2, 10**8))
    made += [Row(f"EASE({k}, {HOSTILE})", {}, failed=f"exceeded 10 min {HOSTILE}") for k in range(failed)]
    protocol = ComparisonProtocol(2, "random", 5, 0, tuple(metrics), "half")
    versions = {"komd": "0.1.0", "python": "3.11"}
    return Comparison(tuple(made), protocol, "Interactions(9 users × 8 items)", 9, 8, 40, 7, versions, 2)


class Balanced(HTMLParser):
    """Checks that tags nest, and gathers ids and text."""

    VOID = frozenset({"meta", "wbr", "br"})

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.text = [], [], []

    def handle_starttag(self, tag, attrs):
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_well_formed_and_every_id_once():
    parser = Balanced()
    parser.feed(page(comparison()))
    assert parser.open == []
    assert len(parser.ids) == len(set(parser.ids))
    text = "".join(parser.text)
    for words in ("MSDW(alpha=0.1875)", "0.9000", "exceeded 10 min", "7 test users"):
        assert words in text
    assert "13 models compared" in text and "1 of 13 models failed" in text


def test_it_asks_for_nothing_and_runs_nothing():
    text = page(comparison())
    assert "<script" not in text and "<link" not in text and "<img" not in text and "@import" not in text
    outside = re.findall(r"(?:src|href)=\"(?!#)[^\"]*|url\((?!#)[^)]*", text)
    assert outside == []
    named = set(re.findall(r"https?://[^\"'\s<]*", text))
    assert named <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}  # names, not addresses
    assert "default-src 'none'" in text


def test_names_are_data():
    text = page(comparison())
    assert HOSTILE not in text
    assert html.escape(HOSTILE) in text.replace("<wbr>", "")


def test_names_are_data_in_plots_too():
    """A dollar is no mathematics, an angle bracket no tag."""
    scores = {"auc": MetricSummary(0.9, 0.1, (0.9,), "best", 1.0)}
    rows = (Row("A($x_1$ <b>)", scores, (1.0,), (1.0,), 1), Row("B($", scores, (1.0,), (1.0,), 1))
    made = comparison(metrics=("auc",))
    text = page(Comparison(rows, made.protocol, made.data, 9, 8, 40, 7, made.versions, 2))
    assert "A($x_1$ &lt;b&gt;)" in text and "<b>)" not in text


@pytest.mark.parametrize("rows", [1, 2, 40])
def test_any_number_of_models(rows):
    assert page(comparison(rows, failed=0)).count("<svg") == 4


def test_undefined_measures_and_equal_ones():
    nan = float("nan")
    rows = tuple(
        Row(f"M{k}", {"auc": MetricSummary(v, v, (v,), "", nan)}, (0.1,), (0.1,), 1) for k, v in enumerate((nan, 0.5))
    )
    made = comparison(metrics=("auc",))
    for some in (rows, rows[:1]):
        text = page(Comparison(some, made.protocol, made.data, 9, 8, 40, 7, made.versions, 2))
        assert "–" in text


def test_nothing_but_failures():
    text = page(comparison(rows=0, failed=2))
    assert "No plots: every model failed" in text and text.count("exceeded 10 min") == 2


def test_without_matplotlib(monkeypatch):
    monkeypatch.setattr(svg, "available", lambda: False)
    text = page(comparison())
    assert "pip install matplotlib" in text and "<svg" not in text and "MSDW(alpha=0.1875)" in text.replace("<wbr>", "")


def test_the_same_page_every_time():
    assert page(comparison()) == page(comparison())


@pytest.fixture
def browser(tmp_path):
    """Run Chromium on a page; the test is skipped where there is none."""
    binary = next((found for name in NAMES if (found := shutil.which(name))), None)
    if binary is None:
        pytest.skip("no Chromium here (Debian: apt-get install chromium): the page is not tested in a browser")

    def call(file, *words):
        command = [binary, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", *words, file.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


# The page itself runs nothing; the copy that is measured is allowed this.
MEASURE = """<script>
const size = e => {
  const turned = e.getScreenCTM();
  return parseFloat(getComputedStyle(e).fontSize) * Math.hypot(turned.a, turned.b);
};
const sizes = [...document.querySelectorAll('svg, table')].map(e => {
  const box = e.getBoundingClientRect();
  return [e.tagName.toLowerCase(), Math.round(box.width), Math.round(box.height)];
});
const texts = [...document.querySelectorAll('svg text')].filter(e => e.getBoundingClientRect().width > 0);
document.body.dataset.seen = JSON.stringify({sizes, texts: texts.map(e => e.textContent),
  fonts: Math.min(...texts.map(size)),
  wide: document.documentElement.scrollWidth, window: innerWidth, title: document.title});
</script></body>"""


@pytest.mark.parametrize("width", [1280, 520])
def test_a_browser_shows_table_and_plots(browser, tmp_path, width):
    text = page(comparison())
    policy = re.search(r"<meta http-equiv[^>]*>", text)
    assert policy is not None
    copy = tmp_path / "measured.html"
    copy.write_text(text.replace(policy.group(), "").replace("</body>", MEASURE), encoding="utf-8")
    dom = browser(copy, f"--window-size={width},2000", "--dump-dom")
    for words in ("MSDW(<wbr>alpha=0.1875)", "0.9000", "exceeded 10 min"):
        assert words in dom
    found = re.search(r'data-seen="([^"]*)"', dom)
    assert found is not None
    seen = json.loads(html.unescape(found.group(1)))
    drawn = [size for size in seen["sizes"] if size[0] == "svg" and size[1] > 0]
    assert len(drawn) == 3 and all(w > 250 and h > 150 for _, w, h in drawn)
    assert next(size for size in seen["sizes"] if size[0] == "table")[2] > 300
    assert {"auc", "fit", "rank", "seconds a fold (median, logarithmic axis)", "4 MSDW(alpha=0.1875)"} <= set(
        seen["texts"]
    )
    assert seen["fonts"] >= 9  # pixels
    assert seen["wide"] <= seen["window"]  # only the table scrolls sideways
    assert "hit" not in seen["title"]


@pytest.mark.parametrize(("scheme", "dark"), [("0", True), ("1", False)])
def test_what_a_browser_paints(browser, tmp_path, scheme, dark):
    """Light and dark: a page that is not blank, with the plots' own colour in it."""
    import numpy as np
    from matplotlib.image import imread

    file = tmp_path / "index.html"
    file.write_text(page(comparison()), encoding="utf-8")
    shot = tmp_path / "shot.png"
    browser(file, "--window-size=1280,2600", f"--blink-settings=preferredColorScheme={scheme}", f"--screenshot={shot}")
    pixels = (imread(shot)[:, :, :3] * 255).round().astype(int)
    paper = pixels[3, 3].mean()
    assert (paper < 60) if dark else (paper > 240)
    first = np.array([0x56, 0xB4, 0xE9] if dark else [0x00, 0x72, 0xB2])
    marks = (np.abs(pixels - first).max(axis=2) < 12).nonzero()
    assert len(marks[0]) > 500
    assert np.ptp(marks[0]) > 800 and np.ptp(marks[1]) > 600  # in the table and in all plots
