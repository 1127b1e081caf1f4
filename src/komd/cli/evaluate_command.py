"""`komd evaluate`: how good models are on data they have not seen."""

from __future__ import annotations

import time as clock
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from komd.cli import options
from komd.cli import output as show
from komd.errors import InputError

if TYPE_CHECKING:
    from komd.data.interactions import Interactions
    from komd.evaluation.evaluate import Evaluation

__all__ = ["evaluate"]


def evaluate(
    data: Annotated[
        list[str] | None, typer.Argument(metavar="DATA", help="To be cut into folds; or give --train and --test.")
    ] = None,
    train: Annotated[
        list[str] | None, typer.Option("--train", metavar="DATA", help="To learn from; may be repeated.")
    ] = None,
    test: Annotated[
        list[str] | None, typer.Option("--test", metavar="DATA", help="To be found; may be repeated.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", help="As in Python; may be repeated. With --test alone: a saved model's folder."),
    ] = None,
    metrics: Annotated[
        str, typer.Option("--metrics", help="auc, map@k, ndcg@k, recall@k, hit@k, mrr@k, coverage@k, …")
    ] = "auc,ndcg@100,recall@20",
    ties: Annotated[
        str, typer.Option("--ties", metavar="half|strict", help="What equal scores count in AUC: one half, or none.")
    ] = "half",
    folds: Annotated[int, typer.Option("--folds", help="Groups of users that are tested in turn.")] = 5,
    half: Annotated[
        str, typer.Option("--half", metavar="random|given|time", help="Which half of a tested user is held out.")
    ] = "random",
    rng: options.Rng = 0,
    user: options.UserColumn = None,
    item: options.ItemColumn = None,
    rating: options.RatingColumn = None,
    time: options.TimeColumn = None,
    min_rating: options.MinRating = None,
    separator: options.Separator = None,
    header: options.Header = None,
    database: options.Database = None,
    threads: options.Threads = None,
    memory: options.Memory = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure models: on --train and --test, or on folds of one data set (the paper's protocol)."""
    from komd.checks import one_of
    from komd.evaluation.metrics import parse_metrics
    from komd.threads import count

    names = [str(metric) for metric in parse_metrics(metrics)]
    one_of("--ties", ties, ("half", "strict"))
    one_of("--half", half, ("random", "given", "time"))
    count(threads)
    models = model or ["CFKOMD(kernel='tanimoto')"]

    def read(source: list[str]) -> Interactions:
        return options.read(
            source,
            user=user,
            item=item,
            rating=rating,
            time=time,
            min_rating=min_rating,
            separator=separator,
            header=header,
            database=database,
            memory=memory,
        )

    measuring: dict[str, Any] = {"metrics": names, "ties": ties, "threads": threads, "memory": memory}
    if data and not train and not test:
        protocol = {"folds": folds, "half": half, "rng": rng}
        results = _by_folds(read, data, models, protocol, measuring)
        over = f"mean ± standard deviation over {folds} folds"
    elif train and test and not data:
        results = _held_out(read, train, test, models, measuring)
        over = f"mean ± standard deviation over {results[0]['test_users']:,} test users"
    elif test and not train and not data:
        results = _saved(read, test, model or [], measuring)
        over = f"mean ± standard deviation over {results[0]['test_users']:,} test users"
    else:
        raise InputError("give --train A --test B, or DATA to cut into folds, or --test B --model of a saved model")
    if as_json:
        show.json_document(results[0] if len(results) == 1 else results)
    else:
        _show(results, over)


def _held_out(
    read: Any, train: list[str], test: list[str], models: list[str], measuring: dict[str, Any]
) -> list[dict[str, Any]]:
    """Learn from one data set, measure on another. Items known are those of both together."""
    import komd

    unfitted = [komd.model_from_text(text) for text in models]
    start = clock.perf_counter()
    given = read(train)
    learned, asked = komd.align(given, read(test))
    reading = clock.perf_counter() - start
    results = []
    for model in unfitted:
        start = clock.perf_counter()
        model.fit(learned, threads=measuring["threads"], memory=measuring["memory"])
        fitted = clock.perf_counter()
        found = komd.evaluate(model, asked, **measuring)
        seconds = {"read": reading, "fit": fitted - start, "rank": clock.perf_counter() - fitted}
        results.append(_document(found, {"train": show.counts(given)}, seconds))
    if found.skipped:
        show.note(f"{found.skipped:,} test pairs left out: they stand in the training data as well")
    strangers = int(((learned.activity == 0) & (asked.activity > 0)).sum())
    if strangers:
        show.note(f"{strangers:,} test users are not in the training data: they are served by popularity")
    return results


def _saved(read: Any, test: list[str], folders: list[str], measuring: dict[str, Any]) -> list[dict[str, Any]]:
    """Measure saved models."""
    import komd

    for folder in folders:
        if not Path(folder).is_dir():
            raise InputError(f"without --train, --model is the folder of a saved model; {folder!r} is none")
    if not folders:
        raise InputError("--test needs --train DATA to learn from, or --model FOLDER of a saved model")
    start = clock.perf_counter()
    asked = read(test)
    reading = clock.perf_counter() - start
    results = []
    for folder in folders:
        start = clock.perf_counter()
        model = komd.load(folder)
        fitted = clock.perf_counter()
        catalogue = model.catalogue
        found = komd.evaluate(model, _in_kind(asked, model), on_unknown="skip", **measuring)
        seconds = {"read": reading, "fit": fitted - start, "rank": clock.perf_counter() - fitted}
        learned = {
            "users": len(catalogue.users),
            "items": len(catalogue.items),
            "interactions": len(catalogue.histories.indices),
        }
        results.append(_document(found, {"train": learned}, seconds))
        if found.skipped:
            show.note(
                f"{found.skipped:,} test pairs left out: {folder} does not know their user or item, "
                "or learned from them"
            )
    return results


def _in_kind(test: Interactions, model: Any) -> Interactions:
    """The test data with ids of the model's kind: a file of few rows may look like integers where the whole is text."""
    import numpy as np

    from komd.data.interactions import Interactions, align

    users, items = model.catalogue.users, model.catalogue.items
    if users.type == test.users.type and items.type == test.items.type:
        return test
    nobody = Interactions(users, items, np.zeros(len(users) + 1, np.int64), np.zeros(0, np.int32))
    return align(nobody, test)[1]


def _by_folds(
    read: Any,
    data: list[str],
    models: list[str],
    protocol: dict[str, Any],
    measuring: dict[str, Any],
) -> list[dict[str, Any]]:
    """The paper's protocol: mean and deviation over the folds."""
    import statistics

    import komd

    unfitted = [komd.model_from_text(text) for text in models]
    start = clock.perf_counter()
    given = read(data)
    reading = clock.perf_counter() - start
    found: list[list[Evaluation]] = [[] for _ in unfitted]
    seconds = [{"read": reading, "fit": 0.0, "rank": 0.0} for _ in unfitted]
    for train, test in komd.split.folds(given, **protocol):
        for k, model in enumerate(unfitted):
            start = clock.perf_counter()
            model.fit(train, threads=measuring["threads"], memory=measuring["memory"])
            fitted = clock.perf_counter()
            found[k].append(komd.evaluate(model, test, **measuring))
            seconds[k]["fit"] += fitted - start
            seconds[k]["rank"] += clock.perf_counter() - fitted
    results = []
    for evaluations, taken in zip(found, seconds, strict=True):
        document = _document(evaluations[0], {"data": show.counts(given)} | protocol, taken)
        document["test_users"] = sum(len(each.users) for each in evaluations)
        for name in document["metrics"]:
            values = [each[name].mean for each in evaluations]
            document["metrics"][name] = {
                "mean": statistics.fmean(values),
                "std": statistics.pstdev(values),
                "values": values,
            }
        results.append(document)
    return results


def _document(found: Evaluation, facts: dict[str, Any], seconds: dict[str, float]) -> dict[str, Any]:
    from komd.memory import peak

    return {
        "model": found.model,
        **facts,
        "test_users": len(found.users),
        "metrics": {
            name: {"mean": m.mean, "std": m.std, "low": m.low, "high": m.high} for name, m in found.metrics.items()
        },
        "ties": found.ties,
        "seconds": {name: round(value, 4) for name, value in seconds.items()},
        "peak_memory_mb": round(peak() / 1e6, 1),
    }


def _show(results: list[dict[str, Any]], over: str) -> None:
    metrics = list(results[0]["metrics"])
    made = show.table("model", *metrics, "seconds", right=(*metrics, "seconds"))
    for result in results:
        values = [f"{m['mean']:.4f} ± {m['std']:.4f}" for m in result["metrics"].values()]
        show.row(made, result["model"], *values, f"{result['seconds']['fit'] + result['seconds']['rank']:.2f}")
    show.console().print(made)
    data = results[0].get("train") or results[0]["data"]
    known = "learned from" if "train" in results[0] else "data:"
    show.say(f"{over}; {known} {data['users']:,} users × {data['items']:,} items, {data['interactions']:,} pairs")
