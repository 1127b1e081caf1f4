"""Every measure against another implementation: scikit-learn for AUC, TREC's evaluator for lists."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

import komd
from komd.errors import InputError
from komd.evaluation.metrics import METRICS, parse_metrics


def everything(model, train):
    """Scores of all items for all users, users × items in order of ids, by the public interface alone."""
    table = model.recommend(n=train.shape[1], exclude_seen=False).to_arrow()
    scores = np.empty(train.shape)
    users, items = train.users.find(table["user_id"]), train.items.find(table["item_id"])
    scores[users, items] = table["score"].to_numpy()
    return scores


def folded(seed, **kwargs):
    data = komd.generate(rng=seed, **{"users": 120, "items": 60, "activity": 14, **kwargs})
    return next(iter(komd.split.folds(data, rng=seed)))


@given(seed=st.integers(0, 10_000), name=st.sampled_from(["ECFOMD()", "CFKOMD(kernel='jaccard')", "Popularity()"]))
@settings(max_examples=15, deadline=None)
def test_auc_is_scikit_learns(seed, name):
    """Correction 4 of the paper: ties count one half; negatives are in neither the training nor the test set."""
    train, test = folded(seed)
    model = komd.model_from_text(name).fit(train)
    found = komd.evaluate(model, test, metrics="auc")
    scores, seen, wanted = everything(model, train), train.to_csr().toarray() > 0, test.to_csr().toarray() > 0
    for user, value in zip(train.users.find(found.users), found["auc"].values, strict=True):
        left = ~seen[user]
        assert value == pytest.approx(roc_auc_score(wanted[user, left], scores[user, left]), abs=1e-9)


def test_the_strict_rule_counts_ties_as_wrong():
    train, test = folded(3)
    model = komd.Popularity().fit(train)
    strict = komd.evaluate(model, test, metrics="auc", ties="strict")
    scores, seen, wanted = everything(model, train), train.to_csr().toarray() > 0, test.to_csr().toarray() > 0
    for user, value in zip(train.users.find(strict.users), strict["auc"].values, strict=True):
        others = scores[user, ~seen[user] & ~wanted[user]]
        twin = np.mean([np.mean(score > others) for score in scores[user, wanted[user]]])
        assert value == pytest.approx(twin, abs=1e-12)
    assert strict["auc"].mean < komd.evaluate(model, test, metrics="auc")["auc"].mean
    assert strict.ties == "strict"


@given(seed=st.integers(0, 10_000), k=st.integers(1, 70))
@settings(max_examples=15, deadline=None)
def test_lists_are_measured_as_trec_does(seed, k):
    """Correction 5 of the paper: AP@k sums precision at relevant positions and divides by min(|test|, k)."""
    train, test = folded(seed)
    model = komd.ECFOMD().fit(train)
    names = ["precision", "recall", "recall_capped", "hit", "mrr", "map", "ndcg"]
    found = komd.evaluate(model, test, metrics=[f"{name}@{k}" for name in names])
    lists = model.recommend(found.users, n=k)
    run: dict[str, dict[str, float]] = {user: {} for user in found.users.to_pylist()}
    for row in lists.to_arrow().to_pylist():
        run[row["user_id"]][row["item_id"]] = -float(row["rank"])  # our order, ties settled our way
    judged = {user: dict.fromkeys(test.history(user), 1) for user in run}
    measures = {f"P.{k}", f"recall.{k}", f"success.{k}", "recip_rank", f"map_cut.{k}", f"ndcg_cut.{k}"}
    trec = pytrec_eval.RelevanceEvaluator(judged, measures).evaluate(run)
    for place, user in enumerate(found.users.to_pylist()):
        theirs, t = trec[user], len(judged[user])
        value = {name: found[f"{name}@{k}"].values[place] for name in names}
        assert value["precision"] == pytest.approx(theirs[f"P_{k}"])
        assert value["recall"] == pytest.approx(theirs[f"recall_{k}"])
        assert value["recall_capped"] == pytest.approx(theirs[f"recall_{k}"] * t / min(k, t))
        assert value["hit"] == pytest.approx(theirs[f"success_{k}"])
        assert value["mrr"] == pytest.approx(theirs["recip_rank"])
        assert value["map"] == pytest.approx(theirs[f"map_cut_{k}"] * t / min(k, t))
        assert value["ndcg"] == pytest.approx(theirs[f"ndcg_cut_{k}"])


def test_coverage_novelty_and_popularity_are_what_they_say():
    train, test = folded(5)
    model = komd.ECFOMD().fit(train)
    found = komd.evaluate(model, test, metrics="coverage@5,novelty@5,popularity@5")
    lists = model.recommend(found.users, n=5).to_arrow().to_pylist()
    assert found["coverage@5"].mean == len({row["item_id"] for row in lists}) / train.shape[1]
    share = dict(zip(train.items, np.maximum(train.popularity, 1) / (train.activity > 0).sum(), strict=True))
    for user, value in zip(found.users.to_pylist(), found["novelty@5"].values, strict=True):
        twin = np.mean([-np.log2(share[row["item_id"]]) for row in lists if row["user_id"] == user])
        assert value == pytest.approx(twin)
    for user, value in zip(found.users.to_pylist(), found["popularity@5"].values, strict=True):
        assert value == pytest.approx(np.mean([share[row["item_id"]] for row in lists if row["user_id"] == user]))


def test_names_are_read_and_refused_with_words():
    assert [str(m) for m in parse_metrics("auc,ndcg@10, recall@5,auc")] == ["auc", "ndcg@10", "recall@5"]
    with pytest.raises(InputError, match=r"unknown metric 'ndgc@10'; did you mean 'ndcg@k'"):
        parse_metrics("ndgc@10")
    with pytest.raises(InputError, match="needs a depth of at least 1"):
        parse_metrics("ndcg")
    with pytest.raises(InputError, match="needs a depth of at least 1"):
        parse_metrics("ndcg@0")
    with pytest.raises(InputError, match="no metric"):
        parse_metrics([])


def test_every_metric_is_in_the_docs_and_knows_its_name():
    (table,) = (Path(__file__).parents[2] / "docs").rglob("metrics.md")
    for name, metric in METRICS.items():
        asked = f"{name}@k" if metric.needs_depth else name
        assert f"| `{asked}` |" in table.read_text(encoding="utf-8")
        (parsed,) = parse_metrics(asked.replace("@k", "@7"))
        assert (type(parsed), str(parsed)) == (metric, asked.replace("@k", "@7"))
