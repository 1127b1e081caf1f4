"""`komd recommend --spark`: the lists of all users, made and written by a Spark cluster."""

from __future__ import annotations

from pathlib import Path

from komd.cli import output as show
from komd.errors import InputError

__all__ = ["recommend_on_spark"]


def recommend_on_spark(
    model: Path,
    master: str,
    output: Path,
    *,
    n: int,
    exclude_seen: bool,
    exclude_low_rated: bool,
    only: list[str] | None,
    exclude: list[str] | None,
    on_unknown: str,
    memory: str | None,
    as_json: bool,
) -> None:
    """Write Parquet files to the folder `output`, which the executors must be able to write to."""
    from komd.cli.recommend_command import items_given
    from komd.spark import KomdRecommenderModel

    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise InputError(f"{output} exists already, and Spark does not resume from old parts; choose another folder")
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        session = SparkSession.builder.master(master).appName("komd recommend").getOrCreate()
    except PySparkException as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"Spark does not start with --spark {master}: {reason}; it needs Java 17 or later") from error
    try:
        fitted = KomdRecommenderModel.load(model, memory=memory)
        ids = fitted.komd.catalogue.items
        allowed, denied = (items_given(ids, given, on_unknown) for given in (only, exclude))
        lists = fitted.recommendForAllUsers(
            n, format="long", excludeSeen=exclude_seen, items=allowed, exclude=denied, excludeLowRated=exclude_low_rated
        )
        lists.write.mode("overwrite").parquet(output.absolute().as_uri())
        rows = session.read.parquet(output.absolute().as_uri()).count()
    finally:
        session.stop()
    users = len(fitted.komd.catalogue.users)
    if as_json:
        show.json_document({"model": fitted.komd.text, "path": str(output), "people": users, "rows": rows})
    else:
        show.say(f"wrote the lists of {users:,} users, {rows:,} rows, to {output}")
