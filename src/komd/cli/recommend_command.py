"""`komd recommend`: the best items for known users, for new ones, or for all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from komd.cli import options
from komd.cli import output as show
from komd.cli.result_files import check_file, write_result
from komd.errors import InputError

if TYPE_CHECKING:
    from komd.data.ids import Ids
    from komd.engine.results import Recommendations

__all__ = ["items_given", "recommend"]

_ROWS = 5_000_000  # made and written at a time: the lists of all users need not fit in memory


def recommend(
    model: options.ModelFolder,
    user: Annotated[
        list[str] | None, typer.Option("--user", metavar="ID", help="A known user; may be repeated.")
    ] = None,
    history: Annotated[
        list[str] | None,
        typer.Option(
            "--history", metavar='"A,B,C"', help="Items of a user that the model need not know; may be repeated."
        ),
    ] = None,
    n: options.ListLength = 10,
    keep_seen: Annotated[bool, typer.Option("--keep-seen", help="Recommend also what a user has.")] = False,
    include_low_rated: Annotated[
        bool, typer.Option("--include-low-rated", help="Recommend also what a user rated below fit's --min-rating.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="ITEMS",
            help="Only these (also items without users): a list with commas, or a file with one id per line.",
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", metavar="ITEMS", help="None of these: a list or a file.")
    ] = None,
    on_unknown: options.OnUnknown = "error",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="Write all to a file (.csv, .parquet, .json), or to a folder of Parquet parts; if interrupted, "
            "rerun the same command to resume.",
        ),
    ] = None,
    spark: Annotated[
        str | None,
        typer.Option(
            "--spark",
            metavar="MASTER",
            help="Let a Spark cluster make the lists and write them to the folder OUT: spark://HOST:7077, local[2], …",
        ),
    ] = None,
    threads: options.Threads = None,
    memory: options.Memory = None,
    as_json: options.AsJson = False,
) -> None:
    """Recommend items: to some users, to new ones with a history, or to all."""
    import komd

    folder = output if output is not None and not output.suffix else None
    if output is not None and folder is None:
        check_file(output)
    if user and history:
        raise InputError("give --user or --history, not both: a history stands for its user")
    if spark is not None:
        if user or history or folder is None:
            raise InputError("--spark writes the lists of all users to a folder (-o NAME), without --user or --history")
        if threads is not None:
            raise InputError("--threads has no effect with --spark: Spark decides how many cores work")
        from komd.cli.recommend_on_spark import recommend_on_spark

        recommend_on_spark(
            model,
            spark,
            folder,
            n=n,
            exclude_seen=not keep_seen,
            exclude_low_rated=not include_low_rated,
            only=only,
            exclude=exclude,
            on_unknown=on_unknown,
            memory=memory,
            as_json=as_json,
        )
        return
    fitted = komd.load(model)
    catalogue = fitted.catalogue
    users: Any = options.ids_of(catalogue.users, user, on_unknown) if user else None
    everyone = not user and not history
    if everyone and output is None and not as_json:  # the table is cut: no need to serve all
        users = catalogue.users.values.slice(0, -(-show.ROWS // n))
    asked: dict[str, Any] = {
        "n": n,
        "histories": _histories(catalogue.items, history, on_unknown) if history else None,
        "exclude_seen": not keep_seen,
        "exclude_low_rated": not include_low_rated,
        "items": items_given(catalogue.items, only, on_unknown),
        "exclude": items_given(catalogue.items, exclude, on_unknown),
        "on_unknown": on_unknown,
        "threads": threads,
        "memory": memory,
    }
    if folder is not None:
        show.folder(komd.recommend_to(fitted, folder, users, **asked), fitted.text, as_json)
        return
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


def _histories(ids: Ids, texts: list[str], on_unknown: str) -> dict[str, list[Any]]:
    """Histories of users that the model need not know, by a name for each."""
    return {f"history {k}": options.ids_of(ids, options.listed(text), on_unknown) for k, text in enumerate(texts, 1)}


def items_given(ids: Ids, given: list[str] | None, on_unknown: str) -> list[Any] | None:
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
    return options.ids_of(ids, texts, on_unknown)
