"""`komd recommend`: the best items for known users, for new ones, or for all, which a Spark cluster may serve."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from komd.cli import options
from komd.cli import output as show
from komd.cli.history_options import HISTORY, At, parsed_dislikes, parsed_history
from komd.cli.result_files import check_file, write_result
from komd.errors import InputError

if TYPE_CHECKING:
    from komd.data.ids import Ids
    from komd.engine.results import Recommendations

__all__ = ["recommend"]

_ROWS = 5_000_000  # made and written at a time: the lists of all users need not fit in memory


def recommend(
    model: options.ModelFolder,
    user: Annotated[list[str] | None, Option(metavar="ID", help="A known user; may be repeated.")] = None,
    history: Annotated[
        list[str] | None,
        Option(metavar='"A,B,C"', help=f"{HISTORY} May be repeated."),
    ] = None,
    dislike: Annotated[
        list[str] | None,
        Option(
            metavar='"A,B"',
            help="Items that the user of a --history dislikes: never recommended. With several histories, give one "
            "--dislike for each, in the same order; it may be empty.",
        ),
    ] = None,
    at: At = None,
    n: options.ListLength = 10,
    keep_seen: Annotated[bool, Option("--keep-seen", help="Also recommend items of the user's history.")] = False,
    include_low_rated: Annotated[
        bool,
        Option("--include-low-rated", help="Also recommend items that the user rated below the --liked of komd fit."),
    ] = False,
    only: Annotated[
        list[str] | None,
        Option(
            metavar="ITEMS",
            help="Recommend only these items, even if they have no users: a list with commas, or a file with one id "
            "per line.",
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None, Option(metavar="ITEMS", help="Recommend none of these: a list or a file.")
    ] = None,
    on_unknown: options.OnUnknown = "error",
    output: Annotated[
        Path | None,
        Option(
            "--output",
            "-o",
            metavar="OUT",
            help="Write all lists to a file (.csv, .parquet, .json), or to a folder of Parquet parts; if interrupted, "
            "rerun the same command to resume.",
        ),
    ] = None,
    spark: Annotated[
        str | None,
        Option(
            metavar="MASTER",
            help="Compute the lists on a Spark cluster and write them to folder OUT: spark://HOST:7077, local[2], …",
        ),
    ] = None,
    threads: options.Threads = None,
    memory: options.Memory = None,
    as_json: options.AsJson = False,
) -> None:
    """Recommend items to given users, to new users, or to all."""
    import numpy as np

    import komd
    from komd.engine.requests import moment

    folder = output if output is not None and not output.suffix else None
    if output is not None and folder is None:
        check_file(output)
    if user and history:
        raise InputError("give --user or --history, not both: a history stands for its user")
    if dislike and len(dislike) != len(history or []):
        raise InputError(f"give one --dislike for each --history, got {len(dislike)} for {len(history or [])}")
    if spark is not None:
        if user or history or dislike or folder is None:
            raise InputError("--spark writes the lists of all users to a folder (-o NAME), without --user or --history")
        if threads is not None:
            raise InputError("--threads has no effect with --spark: Spark decides how many cores work")

        def all_lists(fitted: Any) -> Any:
            allowed, denied = (_items(fitted.komd.catalogue.items, given, on_unknown) for given in (only, exclude))
            seen, low_rated = not keep_seen, not include_low_rated
            return fitted.recommendForAllUsers(
                n, format="long", excludeSeen=seen, items=allowed, exclude=denied, excludeLowRated=low_rated, at=at
            )

        _write_by_spark(spark, model, all_lists, folder, memory, as_json)
        return
    fitted = komd.load(model)
    catalogue = fitted.catalogue
    users: Any = [catalogue.users.parse(text, on_unknown) for text in user] if user else None
    everyone = not user and not history
    if everyone and output is None and not as_json:  # the table is cut: no need to serve all
        users = catalogue.users.values.slice(0, -(-show.ROWS // n))
    histories = dislikes = None
    if history:  # of users that the model need not know, by a name for each
        histories = {
            f"history {k}": parsed_history(catalogue.items, text, on_unknown) for k, text in enumerate(history, 1)
        }
    if dislike:
        dislikes = [parsed_dislikes(catalogue.items, text, on_unknown) for text in dislike]
    asked: dict[str, Any] = {
        "n": n,
        "histories": histories,
        "dislikes": dislikes,
        "at": at,
        "exclude_seen": not keep_seen,
        "exclude_low_rated": not include_low_rated,
        "items": _items(catalogue.items, only, on_unknown),
        "exclude": _items(catalogue.items, exclude, on_unknown),
        "on_unknown": on_unknown,
        "threads": threads,
        "memory": memory,
    }
    if folder is not None:
        show.folder(komd.recommend_to(fitted, folder, users, **asked), fitted.text, as_json)
        return
    if at is not None:
        asked["at"] = np.datetime64(moment(at), "us")  # the same for all blocks
    facts: dict[str, Any] = {"model": fitted.text, "fallback": [], "skipped": 0}

    def serve(users: Any) -> Recommendations:
        result = fitted.recommend(users, **asked)
        facts["fallback"] += result.fallback
        facts["skipped"] = result.skipped  # when there are several blocks, every user is known
        return result

    if output is None and not as_json:
        show.recommendations(serve(users), len(catalogue.users) if everyone else None)
        return
    blocks = [users]
    if everyone:
        ids, size = catalogue.users.values, max(1, _ROWS // n)
        blocks = [ids.slice(start, size) for start in range(0, len(ids), size)]
    tables = (serve(block).table for block in blocks)
    if output is None:
        show.print_rows("recommendations", tables, facts)
        return
    write_result(tables, output, facts, as_json=as_json)
    if not as_json:
        show.note_skipped(facts["skipped"])


def _items(ids: Ids, given: list[str] | None, on_unknown: str) -> list[Any] | None:
    """Item ids from lists and files; None when nothing was given."""
    if given is None:
        return None
    texts: list[str] = []
    for text in given:
        path = Path(text)
        if path.is_file():
            try:
                lines = path.read_text(encoding="utf-8-sig").splitlines()
            except UnicodeError:
                raise InputError(f"{path} is not UTF-8 text; a list of items has one id per line") from None
            texts += [line.strip() for line in lines if line.strip()]
        else:
            texts += options.listed(text)
    return [ids.parse(text, on_unknown) for text in texts]


def _write_by_spark(
    master: str, model: Path, all_lists: Callable[[Any], Any], folder: Path, memory: str | None, as_json: bool
) -> None:
    """Write Parquet files to a folder, which the executors must be able to write to."""
    from komd.spark import KomdRecommenderModel

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists already, and Spark does not resume from old parts; choose another folder")
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        session = SparkSession.builder.master(master).appName("komd recommend").getOrCreate()
    except PySparkException as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"Spark does not start with --spark {master}: {reason}; it needs Java 17 or later") from error
    try:
        fitted = KomdRecommenderModel.load(model, memory=memory)
        all_lists(fitted).write.mode("overwrite").parquet(folder.absolute().as_uri())
        rows = session.read.parquet(folder.absolute().as_uri()).count()
    finally:
        session.stop()
    users = len(fitted.komd.catalogue.users)
    if as_json:
        show.json_document({"model": fitted.komd.text, "path": str(folder), "users": users, "rows": rows})
    else:
        print(f"wrote the lists of {users:,} users, {rows:,} rows, to {folder}")
