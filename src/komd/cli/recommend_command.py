"""`komd recommend`: the best items for known people, for strangers, or for everybody."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from komd.cli import options
from komd.cli import output as show
from komd.errors import InputError

if TYPE_CHECKING:
    from komd.data.ids import Ids
    from komd.engine.catalogue import OnUnknown
    from komd.engine.results import Recommendations

__all__ = ["items_given", "recommend"]

_ROWS = 5_000_000  # made and written at a time: everybody's lists need not fit in memory


def recommend(
    model: options.ModelFolder,
    user: Annotated[
        list[str] | None, typer.Option("--user", metavar="ID", help="A known person; may be repeated.")
    ] = None,
    history: Annotated[
        list[str] | None,
        typer.Option("--history", metavar='"A,B,C"', help="Items of someone the model need not know; repeatable."),
    ] = None,
    n: Annotated[int, typer.Option("-n", "--n", help="Length of the lists.")] = 10,
    keep_seen: Annotated[bool, typer.Option("--keep-seen", help="Recommend also what a person has.")] = False,
    include_low_rated: Annotated[
        bool,
        typer.Option("--include-low-rated", help="Recommend also what a user rated below fit's --min-rating."),
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="ITEMS",
            help="Only these (items nobody chose too): a list with commas, or a file with one id a line.",
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
            help="Write all to a file (.csv, .parquet, .json), or to a folder of Parquet parts that a stopped run "
            "goes on with.",
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
    """Recommend items: to some people, to strangers with a history, or to everybody."""
    import komd
    from komd.checks import one_of
    from komd.memory import readable

    folder = output is not None and not output.suffix
    if output is not None and not folder:
        show.check_output(output)
    one_of("--on-unknown", on_unknown, ("error", "skip"))
    if n < 1:
        raise InputError(f"-n must be a whole number of at least 1, got {n}")
    if user and history:
        raise InputError("give --user or --history, not both: a history stands for its person")
    if spark is not None:
        if user or history or output is None or not folder:
            raise InputError("--spark writes everybody's lists to a folder (-o NAME), without --user or --history")
        if threads is not None:
            raise InputError("--threads has no say with --spark: the cluster's cores are Spark's to share out")
        from komd.cli.recommend_on_spark import recommend_on_spark

        recommend_on_spark(
            model, spark, output, n, not keep_seen, only, exclude, on_unknown, memory, as_json, not include_low_rated
        )
        return
    fitted = komd.load(model)
    catalogue = fitted.catalogue
    people: Any = options.ids_of(catalogue.users, user, on_unknown) if user else None
    strangers = None
    if history:
        strangers = {
            f"history {k}": options.ids_of(catalogue.items, options.listed(text), on_unknown)
            for k, text in enumerate(history, 1)
        }
    everybody = people is None and strangers is None
    if everybody and output is None and not as_json:  # the table is cut: no need to serve all
        people = catalogue.users.values.slice(0, -(-show.ROWS // n))
    allowed, denied = (items_given(catalogue.items, given, on_unknown) for given in (only, exclude))
    if folder and output is not None:
        written = komd.recommend_to(
            fitted,
            output,
            people,
            n=n,
            histories=strangers,
            exclude_seen=not keep_seen,
            exclude_low_rated=not include_low_rated,
            items=allowed,
            exclude=denied,
            on_unknown=cast("OnUnknown", on_unknown),
            threads=threads,
            memory=memory,
        )
        show.folder(written, fitted.text, as_json)
        return
    facts: dict[str, Any] = {"model": fitted.text, "fallback": [], "skipped": 0}

    def serve(people: Any) -> Recommendations:
        result = fitted.recommend(
            people,
            n=n,
            histories=strangers,
            exclude_seen=not keep_seen,
            exclude_low_rated=not include_low_rated,
            items=allowed,
            exclude=denied,
            on_unknown=cast("OnUnknown", on_unknown),
            threads=threads,
            memory=memory,
        )
        facts["fallback"] += result.fallback
        facts["skipped"] = result.skipped  # when there are several blocks, every person is known
        return result

    if output is None and not as_json:
        show.recommendations(serve(people), len(catalogue.users) if everybody else None)
        return
    if people is None and strangers is None:
        everyone, some = catalogue.users.values, max(1, _ROWS // n)
        tables = (serve(everyone.slice(a, some)).table for a in range(0, len(everyone), some))
    else:
        tables = (serve(each).table for each in [people])
    if output is None:
        show.print_rows("recommendations", tables, lambda: facts)
        return
    rows, size = show.write(tables, output)
    if as_json:
        show.json_document(facts | {"path": str(output), "rows": rows, "bytes": size})
    else:
        show.say(f"wrote {rows:,} rows to {output} ({readable(size)})")
        if facts["skipped"]:
            show.note(f"{facts['skipped']:,} unknown ids skipped")


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
                raise InputError(f"{path} is not UTF-8 text; a list of items has one id a line") from None
            texts += [line.strip() for line in lines if line.strip()]
        else:
            texts += options.listed(text)
    return options.ids_of(ids, texts, on_unknown)
