"""`komd demo`: all that komd does in half a minute, on a synthetic catalogue."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from komd.cli import options
from komd.cli import output as show

if TYPE_CHECKING:
    from komd.data.interactions import Interactions
    from komd.engine.recommender import Recommender

__all__ = ["demo"]

_METRICS = {"auc": "AUC", "ndcg@10": "nDCG@10", "recall@20": "recall@20", "coverage@10": "coverage@10"}


def demo(
    users: Annotated[int, Option(min=50, help="How many users.")] = 2000,
    items: Annotated[int, Option(min=50, help="How many items.")] = 600,
    activity: Annotated[float, Option(help="Mean number of items of a user.")] = 30.0,
    rng: options.Rng = 0,
    serve: Annotated[
        bool, Option("--serve", help="Also serve the catalogue over HTTP, with a web page to try it.")
    ] = False,
    port: Annotated[int, Option(min=0, max=65535, help="With --serve: the port; 0 chooses a free one.")] = 8000,
) -> None:
    """Generate data, fit, compare, recommend, explain: a short tour."""
    import numpy as np

    import komd

    if serve:
        _serve(komd.generate(users=users, items=items, activity=activity, rng=rng), port)
        return

    print("Generating users with tastes, and hiding half of what some of them chose …")
    data = komd.generate(users=users, items=items, activity=activity, rng=rng)
    train, test = next(komd.split.folds(data, rng=rng))
    print(f"{data!r}: {test.pairs:,} pairs hidden.")
    print("Fitting …")
    model = _compare(train, test)
    tested = np.flatnonzero(test.activity > 0)
    user = train.users[int(tested[np.argmin(np.abs(train.activity[tested] - 8))])]  # a history of readable length
    best = _recommend(model, train, test, user)
    print(f"Why {best}? Each item of the history adds its part; together they are the score, exactly.")
    show.explanation(model.explain(user, best))
    _serve_new_user(model, train)
    _next_steps(users, items, activity, rng, user, best)


def _serve(data: Interactions, port: int) -> None:
    """Fit, save in a temporary folder with a table of the names and tastes of items, and serve until stopped."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    import komd
    from komd.cli import interrupt
    from komd.data.generate import taste
    from komd.files import temporary_folder
    from komd.serve.process_signals import unwound_by_sigterm
    from komd.serve.serve_settings import Settings
    from komd.serve.server_process import run

    with unwound_by_sigterm(hangup=True), temporary_folder("komd-demo-") as folder:
        model, names = folder / "demo.komd", folder / "names.parquet"
        komd.CFKOMD().fit(data).save(model)
        ids = data.items.values.to_pylist()
        columns = {"id": ids, "name": [each.rpartition(" (")[0] for each in ids], "taste": list(map(taste, ids))}
        pq.write_table(pa.table(columns), names)
        print(f"{data!r}: open the address below in a browser; Ctrl-C stops, and nothing is kept.")
        interrupt.yield_to()
        run(
            Settings(model=model, store=f"sqlite:///{folder / 'events.db'}", items=names, port=port),
            reread_on_hangup=False,
        )


def _compare(train: Interactions, test: Interactions) -> Recommender:
    """Fit CF-KOMD and Popularity, show both; returns the first."""
    import komd

    made = show.table("model", *_METRICS.values(), "seconds", right=(*_METRICS.values(), "seconds"))
    fitted: list[Recommender] = [komd.Popularity(), komd.CFKOMD(kernel="tanimoto")]
    gains = []
    for model in fitted:
        start = time.perf_counter()
        found = komd.evaluate(model.fit(train), test, metrics=list(_METRICS))
        taken = time.perf_counter() - start
        gains.append(found["ndcg@10"].mean)
        show.row(made, model.text, *(f"{found[name].mean:.3f}" for name in _METRICS), f"{taken:.1f}")
    show.console().print(made)
    print("1 is perfect; an AUC of 0.5 is chance.", end="")
    if gains[0]:
        print(f" In the first ten, CF-KOMD gains {gains[1] / gains[0]:.1f} times what popularity does.", end="")
    print("\n")
    return fitted[-1]


def _recommend(model: Recommender, train: Interactions, test: Interactions, user: Any) -> Any:
    """Show the history of a user beside what is recommended; returns the best item."""
    from itertools import zip_longest

    chosen, hidden = train.history(user)[:10], set(test.history(user))
    served = model.recommend(user, n=10).table.to_pylist()
    made = show.table(f"{user} chose", "komd recommends", "score", "hidden", right=("score",))
    for left, right in zip_longest(chosen, served):
        cells = ("", "", "")
        if right is not None:
            mark = "✓ was chosen" if right["item_id"] in hidden else ""
            cells = (right["item_id"], f"{right['score']:.3f}", mark)
        show.row(made, "" if left is None else left, *cells)
    show.console().print(made)
    return served[0]["item_id"]


def _serve_new_user(model: Recommender, train: Interactions) -> None:
    """Recommend to a user that the model has never seen."""
    import numpy as np

    from komd.data.generate import taste

    liked = [train.items[int(k)] for k in np.argsort(-train.popularity, kind="stable")[:40]]
    first = liked[0]
    second = next((item for item in liked if taste(item) != taste(first)), liked[1])
    start = time.perf_counter()
    result = model.recommend(histories={"new": [first, second]}, n=5)
    taken = 1000 * (time.perf_counter() - start)
    print(f"A new user chose {first} and {second}. Nothing is retrained; {taken:.1f} ms later:")
    for line in result.table.to_pylist():
        print(f"  {line['rank']}. {line['item_id']}")


def _next_steps(users: int, items: int, activity: float, rng: int, user: Any, best: Any) -> None:
    commands: list[list[Any]] = [
        ["generate", "-o", "plays.csv", "--users", users, "--items", items, "--activity", activity, "--rng", rng],
        ["fit", "plays.csv", "-o", "plays.komd"],
        ["recommend", "plays.komd", "--user", user],
        ["recommend", "plays.komd", "--history", best],
        ["explain", "plays.komd", user, best],
        ["evaluate", "plays.csv", "--model", "Popularity", "--model", "ECFOMD", "--model", "CFKOMD"],
    ]
    print("\nTry next, with these or with your own plays.csv (a user and an item on each line):")
    for words in commands:
        print("  " + shlex.join(["komd", *map(str, words)]))
