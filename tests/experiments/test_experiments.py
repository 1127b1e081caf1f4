"""The experiments: the paper's figures as printed, the page from invented results, and a small run from end to end."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import komd
from experiments import (
    differences,
    figure_longtails,
    figure_times,
    paper,
    places,
    reproduction,
    sparsity,
    sparsity_costs,
    sparsity_table,
    sparsity_tails,
    table_auc,
    table_datasets,
    table_density,
    tuning,
)

ROOT = Path(__file__).parents[2]
SUMMARY = ROOT.parent / "shared" / "PAPER.md"
COLUMNS = ("ml-1m", "netflix", "filmtrust", "ciao")


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Nothing is written into the project."""
    monkeypatch.setattr(places, "WORK", tmp_path / "work")
    for module in (table_auc, figure_longtails, figure_times, reproduction, sparsity, sparsity_table, sparsity_tails):
        for name in ("WORK", "RESULTS"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, tmp_path / name.lower())
    (tmp_path / "results").mkdir()
    return tmp_path


def printed_rows():
    if not SUMMARY.exists():
        pytest.skip("the summary of the paper is not beside this checkout")
    lines = SUMMARY.read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]


def test_auc_figures_are_those_of_the_summary():
    methods = {
        "MSDW": [m for m in paper.AUC if m.startswith("MSDW")],
        "ECF-OMD": ["ECF-OMD"],
        "CF-K polynomial": [m for m in paper.AUC if m.startswith("CF-K polynomial")],
        "CF-K Tanimoto": ["CF-K Tanimoto"],
        "WRMF": ["WRMF"],
        "BPR": ["BPR"],
    }
    seen = set()
    for cells in printed_rows():
        if len(cells) != 5 or not re.fullmatch(r"(\.\d+ ?)+", cells[1]):
            continue
        (key,) = [key for key in methods if cells[0].startswith(key + " ") or cells[0] == key]
        for data, cell in zip(COLUMNS, cells[1:], strict=True):
            assert [float(text) for text in cell.split()] == [paper.AUC[m][data].mean for m in methods[key]]
        seen.add(key)
    assert seen == set(methods)


def test_density_figures_are_those_of_the_summary():
    titles = {title: name for name, title in paper.TITLES.items()}
    rows = {cells[0]: cells[1:4] for cells in printed_rows() if len(cells) == 7 and cells[0] in titles}
    assert {titles[title] for title in rows} == set(paper.DENSITY)
    for title, cells in rows.items():
        assert tuple(float(cell.removesuffix(" %")) for cell in cells) == paper.DENSITY[titles[title]]


def test_every_row_of_the_paper_is_run_and_can_be_made():
    assert list(table_auc.ROWS) == list(paper.AUC)
    texts = [*table_auc.ROWS.values(), *table_auc.CONTEXT.values(), *table_auc.SLOW.values()]
    texts += [text for pairs in (1, 10**6) for grid in tuning.grids(pairs).values() for text in grid]
    for text in texts:
        komd.model_from_text(text)


def invented(shift=0.0):
    """Results in the shape the experiments keep, ours being the paper's figures and `shift` more."""
    auc = {
        data: {
            half: {
                method: {
                    "text": "M()",
                    "mark": "best" if method == "CF-K Tanimoto" else "",
                    "auc": [figures[data].mean + shift, 0.002],
                    "ndcg@100": [0.5, 0.01],
                    "fit": 1.0,
                    "rank": 0.5,
                }
                for method, figures in paper.AUC.items()
            }
            for half in table_auc.HALVES
        }
        for data in paper.DATA
    }
    return {
        "datasets": {"netflix": {"users": 90_736, "items": 3_559, "pairs": 1_630_174}},
        "density": {},
        "longtails": {},
        "auc": auc,
        "tuning": {"ml-1m": {"WRMF": {"WRMF(factors=8)": 0.9, "WRMF(factors=9)": 0.8}}},
        "authors": {},
        "readings": {},
        "claims": {},
        "msd": {},
    }


def test_the_page_shows_paper_ours_and_difference():
    page = reproduction.page(invented(0.02), "a machine")
    assert "| ECF-OMD | 0.895 ± 0.0003 | 0.915 ± 0.0020 | +0.020 | 0.500 | 0.915 ± 0.0020 | +0.020 | 0.500 |" in page
    assert "| **0.915** ± 0.0020 | +0.020 |" in page
    assert "0 of 52 cells lie within 0.01 of the paper, 52 above, 0 below" in page
    assert "`WRMF(factors=8)` **chosen** | 0.9000" in page
    assert "- Not run: RP3β, Popularity, EASE, BPR on items, WRMF, tuned, BPR, tuned (minutes a round" in page
    assert "1,630,174 of about 3,300,000 pairs (49 %)" in page
    assert "Not measured yet: `python -m experiments.table_msd`" in page
    assert "here too" in page
    assert "rank correlation of 1.00" in page


def test_the_page_says_where_ours_is_worse():
    results = invented()
    results["auc"]["ciao"]["random"]["MSDW α=0"]["auc"][0] -= 0.1
    results["auc"]["filmtrust"]["given"]["WRMF"] = {"text": "WRMF()", "failed": "took longer than 600 s"}
    summary = differences.summary(results["auc"])
    assert "51 of 52 cells" in summary
    assert "Where ours is worse by more than 0.01: Ciao MSDW α=0 (-0.100)." in summary
    assert "51 of 51 cells" in summary  # the row that failed is no cell
    assert "| took longer than 600 s |" in reproduction.page(results, "a machine")


def test_an_empty_page_says_what_to_run():
    page = reproduction.page({name: {} for name in reproduction.PARTS}, "a machine")
    for module in ("table_datasets", "table_auc", "figure_times", "table_density", "table_msd"):
        assert f"`python -m experiments.{module}`" in page
    for part in ("authors", "claims"):
        assert f"`python -m experiments --only {part}`" in page


def test_equal_figures_share_their_rank():
    """Printed to three digits, several methods are equal: what comes first in the table must not matter."""
    printed, ours = [0.9, 0.9, 0.9, 0.8], [0.93, 0.92, 0.91, 0.85]
    assert differences.rank_correlation(printed, ours) == pytest.approx(0.7746, abs=1e-4)
    for order in ([1, 0, 2, 3], [2, 1, 0, 3]):
        again = differences.rank_correlation([printed[k] for k in order], [ours[k] for k in order])
        assert again == pytest.approx(differences.rank_correlation(printed, ours))


def test_densities_against_the_whole_kernel(small):
    found = table_density.densities(small)
    R = small.to_csr().toarray()
    users, items = R.shape
    assert found["R"] == pytest.approx(100 * R.mean())
    assert found["K"] == pytest.approx(100 * np.count_nonzero(R.T @ R) / items**2)
    chance = 1 - (1 - R.mean() ** 2) ** users
    assert found["d"] == pytest.approx(100 * (items + (items**2 - items) * chance) / items**2)
    a, d = R.sum(axis=1), R.sum(axis=0)
    expected = 1 - np.exp(-np.outer(d, d) * (a * (a - 1)).sum() / R.sum() ** 2)
    np.fill_diagonal(expected, d > 0)
    assert found["degrees"] == pytest.approx(100 * expected.mean())


def test_from_data_to_page(elsewhere, monkeypatch, capsys):
    """Generated data in FilmTrust's place, through table, figures and page; run again, it is read back."""
    folder = elsewhere / "data" / "filmtrust"
    folder.mkdir(parents=True)
    data = komd.generate(users=150, items=60, activity=12, tastes=3, rng=3)
    lines = [f"{u} {i} 1" for u, i in zip(data.rows.tolist(), data.indices.tolist(), strict=True)]
    (folder / "ratings.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("KOMD_DATA", str(folder.parent))
    few = {label: table_auc.ROWS[label] for label in ("MSDW α=0", "ECF-OMD")}
    monkeypatch.setattr(table_auc, "rows_of", lambda name, data, slow: few)

    first = table_auc.run(("filmtrust", "ciao"))
    assert "ciao left out: CiaoDVD is not part of komd" in capsys.readouterr().out
    assert set(first["filmtrust"]) == set(table_auc.HALVES)
    for rows in first["filmtrust"].values():
        for row in rows.values():
            assert 0.5 < row["auc"][0] < 1
            assert row["fit"] >= 0
    again = table_auc.run(("filmtrust",))
    assert again["filmtrust"] == first["filmtrust"]  # times and all: nothing was run twice

    alone = [
        komd.evaluate(komd.ECFOMD(regularization=0.01).fit(train), test, metrics=["auc"])["auc"].mean
        for train, test in komd.split.folds(places.load("filmtrust"), rng=0)
    ]
    assert first["filmtrust"]["random"]["ECF-OMD"]["auc"] == pytest.approx([np.mean(alone), np.std(alone)])

    table_datasets.run()
    figure_times.run()
    figure_longtails.run()
    reproduction.write()
    assert (elsewhere / "results" / "figures" / "times.svg").exists()
    assert (elsewhere / "results" / "figures" / "longtail-filmtrust.svg").exists()
    page = (elsewhere / "results" / "reproduction.md").read_text(encoding="utf-8")
    assert f"{first['filmtrust']['random']['ECF-OMD']['auc'][0]:.3f} ± " in page


def test_one_tail_at_a_time_keeps_the_size(monkeypatch):
    """Users, items and pairs stay; the tail that is lengthened is the only one that moves."""
    for name, value in (("USERS", 200), ("ITEMS", 120), ("PAIRS", 1500)):
        monkeypatch.setattr(sparsity_tails, name, value)
    flat = sparsity_tails.made()
    items, users = sparsity_tails.made(items=1.0), sparsity_tails.made(users=1.2)
    for data in (flat, items, users, sparsity_tails.made(tastes=0.9)):
        assert (*data.shape, data.pairs) == (200, 120, 1500)
    assert np.array_equal(flat.activity, items.activity)
    assert items.popularity.std() > 3 * flat.popularity.std() and users.activity.std() > 3 * flat.activity.std()
    found = [sparsity_tails.densities(data) for data in (items, flat, users)]
    assert found[0]["K"] < found[1]["K"] < found[2]["K"]
    assert len({each["d(K)"] for each in found}) == 1


def test_the_sparsity_page(elsewhere, monkeypatch, small):
    """All its parts, with generated data in place of every real set; without results it says what to run."""
    empty = sparsity.page({}, {}, {})
    for module in ("sparsity_tails", "sparsity_table", "sparsity_costs"):
        assert f"`python -m experiments.{module}`" in empty
    for name, value in (("USERS", 60), ("ITEMS", 40), ("PAIRS", 300), ("SEEDS", 1)):
        monkeypatch.setattr(sparsity_tails, name, value)
    for module in (sparsity_table, sparsity_costs):
        monkeypatch.setattr(module, "DATA", ("ciao",))
        monkeypatch.setattr(module, "interactions", lambda name: small)
    sparsity.run()
    page = (elsewhere / "results" / "sparsity.md").read_text(encoding="utf-8")
    exact = 100 * np.count_nonzero(small.to_csr().T @ small.to_csr().toarray()) / 50**2
    assert f"**{exact:.5g} %**" in page and "Not measured" not in page
    for name in ("sparsity-tails", "sparsity-densities"):
        assert f"figures/{name}.svg" in page and (elsewhere / "results" / "figures" / f"{name}.svg").exists()
