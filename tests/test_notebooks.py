"""Results and progress in Jupyter: shown as HTML in a real kernel, and looked at in a real browser."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest

import komd
from komd import notebook_bar, progress
from komd.engine.results import Explanation, Recommendations, Scores
from komd.notebook_html import ROWS, bar, cell
from komd.tuning.tuning_result import Trial, Tuning

from .serve.browsing import ARGUMENTS, BROWSER, CHROMIUM, barriers

HOSTILE = [
    "<img src=x onerror=window.hacked=1>",
    "</style><script>window.hacked=1</script>",
    '"><b onmouseover=window.hacked=1>bold',
    "</table></div><h1>out</h1>",
    "a\x1b[31mb\u202ec\n\td",
    "&lt;script&gt;",
    "long " * 100,
]


@pytest.fixture(scope="module")
def results():
    """One of each kind, with names that are hostile where they come from outside."""
    pairs = [(f"u{k} {HOSTILE[k % 7]}", HOSTILE[j]) for k in range(14) for j in range(7) if (k + j) % 3]
    data = komd.Interactions.of(pairs)
    model = komd.CFKOMD().fit(data)
    made = komd.generate(users=120, items=50, activity=10, rng=0)
    train, test = next(komd.split.folds(made, rng=0))
    user = data.users.values[0].as_py()
    missing = next(name for name in HOSTILE if name not in data.history(user))
    trial = Trial("CFKOMD(regularization=0.5)", {"regularization": "0.5"}, [0.25, 0.35], 0.1, "complete")
    return {
        "Interactions": data,
        "Recommendations": model.recommend(n=3),
        "Scores": model.score([(user, missing)]),
        "Explanation": model.explain(user, missing),
        "Evaluation": komd.evaluate(komd.ECFOMD().fit(train), test),
        "Comparison": komd.compare(made, "Popularity, ECFOMD, WRMF(factors=100000)", folds=2, memory="200MB"),
        "Analysis": komd.sparsity.analyze(made, name=HOSTILE[1]),
        "Tuning": Tuning("ndcg@100", (trial, Trial(HOSTILE[1], {}, [], 0.1, "failed", HOSTILE[0])), 2, 1.0),
        "Analyses": komd.sparsity.compare({HOSTILE[0]: made, "plain": made}),
    }


# ---- without a browser ----------------------------------------------------------------------------------------------


def table_of(rows):
    return pa.table(
        {
            "user_id": [f"u{k // 10}" for k in range(rows)],
            "item_id": [f"i{k}" for k in range(rows)],
            "score": np.linspace(2, -1, rows),
            "rank": pa.array(np.arange(rows) % 10 + 1, pa.int32()),
        }
    )


def test_long_tables_are_cut_and_say_so():
    shown = Recommendations(table_of(95), fallback=["u7"], skipped=2)._repr_html_()
    assert shown.count("<tr>") == ROWS + 1
    assert "75 more rows" in shown and "1 without history" in shown and "2 unknown ids skipped" in shown
    assert "more rows" not in Recommendations(table_of(ROWS))._repr_html_()


def test_an_id_is_shown_where_its_list_begins_and_alone_in_the_title():
    several = Recommendations(table_of(15))._repr_html_()
    assert several.count(">u0<") == 1 and several.count(">u1<") == 1
    one = Recommendations(table_of(10))._repr_html_()
    assert "Recommendations for u0: 10 rows" in one and ">u0<" not in one
    assert "0 rows" in Recommendations(table_of(0))._repr_html_()
    assert "Scores" in Scores(table_of(2).drop_columns("rank"))._repr_html_()


def test_an_explanation_shows_all_terms_of_its_sum():
    parts = np.array([0.5, -0.25, *[0.125] * 12])
    table = pa.table(
        {"item_id": [f"i{k}" for k in range(14)], "weight": parts, "similarity": parts, "contribution": parts}
    )
    shown = Explanation("ana", "i99", float(parts.sum() - 1), -1.0, table)._repr_html_()
    assert "Why i99 for ana" in shown
    for text in ("4 more items", ">0.5<", "the global term", ">-1<", f"{parts.sum() - 1:.6g}"):
        assert text in shown
    assert shown.count("bar less") == 1
    empty = Explanation(None, "i99", 3.0, 3.0, table.slice(0, 0), fallback=True)._repr_html_()
    assert "this history" in empty and "popularity" in empty


def test_cells_hold_no_markup():
    assert cell("<b>&") == "&lt;b&gt;&amp;" and cell(1 / 3) == "0.333333" and cell("a\x00b") == "a\\x00b"
    assert len(cell("x" * 1000)) == 120
    assert "width:0.00em" in bar(float("nan"), 1.0) and "width:0.00em" in bar(1.0, 0.0)


def test_interactions_are_not_expanded_to_be_shown(monkeypatch):
    data = komd.generate(users=50, items=30, activity=5, rng=0)
    monkeypatch.setattr(komd.Interactions, "rows", property(lambda self: 1 / 0))
    shown = data._repr_html_()
    assert "The first 5 of" in shown and shown.count("<tr>") == 6
    assert cell(data.history(data.users.values[0].as_py())[0]) in shown


def test_a_bar_in_a_notebook_is_shown_late_and_removed(monkeypatch):
    pictures: list[str] = []

    class Handle:
        def update(self, shown):
            pictures.append(shown.data)

    def display(shown, *, display_id):
        pictures.append(shown.data)
        return Handle()

    ipython = pytest.importorskip("IPython.display")
    monkeypatch.setattr(ipython, "display", display)
    monkeypatch.setattr("sys.stderr", io.StringIO())
    monkeypatch.setattr(progress, "in_notebook", lambda: True)
    with progress.progress("short work", 10) as advance:
        advance(10)
    assert pictures == []  # done before anybody waited
    monkeypatch.setattr(progress, "_PATIENCE", -1.0)
    monkeypatch.setattr(notebook_bar, "_PAUSE", -1.0)
    with progress.progress("fit <K>", 10) as advance:
        for _ in range(4):
            advance(2)
    assert "fit &lt;K&gt;" in pictures[0] and 'value="0.2000"' in pictures[0]
    assert 'value="0.8000"' in pictures[-2] and "8/10" in pictures[-2] and pictures[-1] == ""
    monkeypatch.setattr(progress, "in_notebook", lambda: False)
    with progress.progress("elsewhere", 10) as advance:
        advance(10)
    assert pictures[-1] == "" and not notebook_bar.in_notebook()


# ---- in a kernel ----------------------------------------------------------------------------------------------------

CELLS = [
    "import komd, komd.progress\n"
    "komd.progress._PATIENCE = -1\n"
    "from pyarrow import csv\n"
    "csv.write_csv(komd.generate(users=60, items=30, activity=6, rng=0).to_arrow(), 'plays.csv')",
    "data = komd.read('plays.csv')\ndata",
    "komd.CFKOMD().fit(data).recommend('user-00007', n=3)",
]


def test_in_a_real_kernel(tmp_path):
    """Files are read and results shown where ipywidgets is missing, as in many environments."""
    nbformat = pytest.importorskip("nbformat", reason="the extra docs is not installed")
    nbclient = pytest.importorskip("nbclient", reason="the extra docs is not installed")
    pytest.importorskip("ipykernel", reason="the extra docs is not installed")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS])
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    first, read, listed = (cell.outputs for cell in notebook.cells)
    bars = [each for each in (*first, *read, *listed) if each.output_type == "display_data"]
    assert bars and all(each.data["text/html"] == "" for each in bars)  # shown, and removed
    assert "Interactions: 60 users" in read[-1].data["text/html"]
    assert "Recommendations for user-00007: 3 rows" in listed[-1].data["text/html"]
    assert "Recommendations(3 rows)" in listed[-1].data["text/plain"]


# ---- in a browser ---------------------------------------------------------------------------------------------------

THEMES = {"light": ("#ffffff", "#212121"), "dark": ("#111111", "#e0e0e0")}


@BROWSER
@pytest.mark.parametrize("width", [1100, 420])
@pytest.mark.parametrize("theme", THEMES)
def test_what_a_browser_shows(results, theme, width):
    """Jupyter sets the colours of a cell; the fragments take them over."""
    api = pytest.importorskip("playwright.sync_api")
    paper, ink = THEMES[theme]
    cells = "".join(f'<section id="{name}">{found._repr_html_()}</section>' for name, found in results.items())
    text = (
        f'<!doctype html><html lang="en"><head><title>notebook</title></head>'
        f'<body style="background:{paper};color:{ink};font:14px sans-serif"><main><h1>Cells</h1>{cells}</main></body>'
        "</html>"
    )
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": width, "height": 900})
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.set_content(text)
        assert page.evaluate("window.hacked") is None
        assert page.locator("main script, main img, main b[onmouseover]").count() == 0
        assert page.locator("h1").count() == 1 and asked == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        ids = page.locator("[id]").evaluate_all("all => all.map(one => one.id)")
        assert len(ids) == len(set(ids))
        for name in results:
            assert page.locator(f"#{name} table").first.is_visible(), name
        assert page.locator("#Analysis svg").count() == 2 and page.locator("#Comparison svg").count() == 1
        assert "failed" in page.locator("#Comparison").inner_text()
        assert [found for found in barriers(page) if found[1] in ("serious", "critical")] == []
        browser.close()
