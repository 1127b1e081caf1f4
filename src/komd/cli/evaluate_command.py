"""`komd evaluate`: how good models are on data they have not seen."""

from __future__ import annotations

import functools
import time as clock
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from komd.cli import options
from komd.cli import output as show
from komd.errors import InputError

if TYPE_CHECKING:
    from komd.data.interactions import Interactions
    from komd.evaluation.evaluate import Evaluation

__all__ = ["evaluate"]


@options.with_reading()
def evaluate(
    data: Annotated[
        list[str] | None, Argument(metavar="DATA", help="Data to split into folds; or give --train and --test.")
    ] = None,
    train: Annotated[list[str] | None, Option(metavar="DATA", help="Data to learn from; may be repeated.")] = None,
    test: Annotated[list[str] | None, Option(metavar="DATA", help="Held-out data; may be repeated.")] = None,
    model: Annotated[
        list[str] | None,
        Option(
            help="Model as in Python, CFKOMD(kernel='tanimoto') by default; may be repeated. With --test alone: the "
            "folder of a saved model."
        ),
    ] = None,
    metrics: options.Metrics = "auc,ndcg@100,recall@20",
    ties: options.Ties = "half",
    folds: options.Folds = 5,
    half: options.Half = "random",
    rng: options.Rng = 0,
    reading: options.ReadingOptions = options.DEFAULT_READING,
    threads: options.Threads = None,
    memory: options.Memory = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure models on held-out data.

    Either on --train and --test, or on folds of one data set (the paper's protocol).
    """
    from komd.evaluation.metrics import parse_metrics
    from komd.threads import count

    names = [str(metric) for metric in parse_metrics(metrics)]
    count(threads)
    models = model or ["CFKOMD(kernel='tanimoto')"]

    read = functools.partial(reading.read, memory=memory)
    measuring: dict[str, Any] = {"metrics": names, "ties": ties, "threads": threads, "memory": memory}
    if data and not train and not test:
        results = _by_folds(read, data, models, {"folds": folds, "half": half, "rng": rng}, measuring)
        over = f"{folds} folds, half {half}, rng {rng}"
    elif test and not data:
        results = (
            _held_out(read, train, test, models, measuring) if train else _saved(read, test, model or [], measuring)
        )
        over = f"{results[0]['test_users']:,} test users"
    else:
        raise InputError("give --train A --test B, or DATA to split into folds, or --test B --model of a saved model")
    if as_json:
        show.json_document(results[0] if len(results) == 1 else results)
    else:
        _show(results, f"mean ± standard deviation over {over}; ties {results[0]['ties']}")


def _timed(call: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[Any, float]:
    """What a call returns, and the seconds it took."""
    start = clock.perf_counter()
    result = call(*arguments, **options)
    return result, clock.perf_counter() - start


def _fit_and_measure(
    model: Any, train: Interactions, test: Interactions, measuring: dict[str, Any]
) -> tuple[Evaluation, float, float]:
    """The figures, seconds to fit, seconds to rank."""
    from komd.evaluation.evaluate import evaluate_round

    _, fit = _timed(model.fit, train, threads=measuring["threads"], memory=measuring["memory"])
    found, rank = _timed(evaluate_round, model, train, test, **measuring)
    return found, fit, rank


def _held_out(
    read: Any, train: list[str], test: list[str], models: list[str], measuring: dict[str, Any]
) -> list[dict[str, Any]]:
    """Learn from one data set, measure on another. The items are those of both together."""
    import komd

    unfitted = [komd.model_from_text(text) for text in models]
    given, read_train = _timed(read, train)
    (learned, asked), read_test = _timed(lambda: komd.align(given, read(test)))
    results = []
    for model in unfitted:
        found, fit, rank = _fit_and_measure(model, learned, asked, measuring)
        seconds = {"read": read_train + read_test, "fit": fit, "rank": rank}
        results.append(_document(found, {"train": show.counts(given)}, seconds))
    if found.skipped:
        show.note(f"{found.skipped:,} test pairs left out: the training data contain them too")
    new = int(((learned.activity == 0) & (asked.activity > 0)).sum())
    if new:
        show.note(f"{new:,} test users are not in the training data: they are served by popularity")
    return results


def _saved(read: Any, test: list[str], folders: list[str], measuring: dict[str, Any]) -> list[dict[str, Any]]:
    """Measure saved models."""
    import komd

    for folder in folders:
        if not Path(folder).is_dir():
            raise InputError(f"without --train, --model is the folder of a saved model; {folder!r} is none")
    if not folders:
        raise InputError("--test needs --train DATA to learn from, or --model FOLDER of a saved model")
    if measuring["ties"] == "appearance":
        raise InputError("--ties appearance needs --train DATA: a saved model does not keep the order of its data")
    asked, reading = _timed(read, test)
    results = []
    for folder in folders:
        model, loading = _timed(komd.load, folder)
        found, rank = _timed(komd.evaluate, model, _in_kind(asked, model), on_unknown="skip", **measuring)
        users, items, pairs = model.catalogue.users, model.catalogue.items, model.catalogue.histories.indices
        learned = {"users": len(users), "items": len(items), "interactions": len(pairs)}
        results.append(_document(found, {"train": learned}, {"read": reading, "fit": loading, "rank": rank}))
        if found.skipped:
            show.note(
                f"{found.skipped:,} test pairs left out: {folder} does not know their user or item, "
                "or learned from them"
            )
    return results


def _in_kind(test: Interactions, model: Any) -> Interactions:
    """The test data with ids of the model's kind: in a short file, text ids may all look like integers."""
    import numpy as np

    from komd.data.align import align
    from komd.data.interactions import Interactions

    users, items = model.catalogue.users, model.catalogue.items
    if users.type == test.users.type and items.type == test.items.type:
        return test
    empty = Interactions(users, items, np.zeros(len(users) + 1, np.int64), np.zeros(0, np.int32))
    return align(empty, test)[1]


def _by_folds(
    read: Any, data: list[str], models: list[str], protocol: dict[str, Any], measuring: dict[str, Any]
) -> list[dict[str, Any]]:
    """The paper's protocol: mean and deviation over the folds."""
    import statistics

    import komd

    unfitted = [komd.model_from_text(text) for text in models]
    given, reading = _timed(read, data)
    measured: list[list[tuple[Evaluation, float, float]]] = [[] for _ in unfitted]
    for train, test in komd.split.folds(given, **protocol):
        for model, rounds in zip(unfitted, measured, strict=True):
            rounds.append(_fit_and_measure(model, train, test, measuring))
    results = []
    for rounds in measured:
        evaluations, fit, rank = zip(*rounds, strict=True)
        seconds = {"read": reading, "fit": sum(fit), "rank": sum(rank)}
        document = _document(evaluations[0], {"data": show.counts(given)} | protocol, seconds)
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
    print(f"{over}; {known} {data['users']:,} users × {data['items']:,} items, {data['interactions']:,} pairs")
