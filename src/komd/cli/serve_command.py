"""`komd serve`: a saved model as an HTTP service with a page to play with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from komd.cli import interrupt, options

__all__ = ["serve"]


def serve(
    model: options.ModelFolder,
    host: Annotated[str, Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    store: Annotated[
        str | None,
        Option(
            metavar="URL",
            envvar="KOMD_STORE",
            help="Where live histories are kept: sqlite:///FILE or postgresql://…; a file beside the model by default.",
        ),
    ] = None,
    items: Annotated[
        Path | None, Option(metavar="NAMES", help="Table (CSV, TSV, Parquet) with id, name and further columns.")
    ] = None,
    token_file: Annotated[
        Path | None, Option(help="File with one token per line; requests must carry one of them.")
    ] = None,
    workers: Annotated[int, Option(min=1, help="How many processes.")] = 1,
    learn: Annotated[
        bool,
        Option("--learn", help="Learn posted events, and unlearn forgotten users, in a process of its own."),
    ] = False,
    learn_seconds: Annotated[
        float, Option(help="With --learn: after how many seconds at most an event is learned.")
    ] = 1.0,
    learn_events: Annotated[int, Option(help="With --learn: how many events wait at most.")] = 1000,
    origin: Annotated[
        list[str] | None, Option(help="A site whose pages may use the API, as https://shop.example; may be repeated.")
    ] = None,
    insecure: Annotated[
        bool, Option("--insecure", help="Listen beyond this machine without a token. Everybody may read and write.")
    ] = False,
    log_requests: Annotated[bool, Option("--log-requests", help="A line for each request, without ids.")] = False,
    log_ids: Annotated[
        bool, Option("--log-ids", help="Let the log name ids: in addresses, and in what errors say.")
    ] = False,
) -> None:
    """Serve recommendations over HTTP, with live histories in a database and a page to play with."""
    from komd.serve.serve_settings import Settings
    from komd.serve.server_process import run

    folder = model.absolute()
    interrupt.yield_to()
    run(
        Settings(
            model=model,
            store=store or f"sqlite:///{folder.with_name(folder.name + '.events.db')}",
            items=items,
            host=host,
            port=port,
            token_file=token_file,
            insecure=insecure,
            workers=workers,
            origins=tuple(origin or ()),
            log_requests=log_requests,
            log_ids=log_ids,
            learn=learn,
            learn_seconds=learn_seconds,
            learn_events=learn_events,
        )
    )
