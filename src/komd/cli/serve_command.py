"""`komd serve`: a saved model as an HTTP service with a page to play with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from komd.cli import interrupt

__all__ = ["serve"]


def serve(
    model: Annotated[Path | None, Argument(metavar="MODEL", help="Folder of a saved model (komd fit).")] = None,
    config: Annotated[
        Path | None, Option(metavar="TOML", help="File with these options, types of events, filters and limits.")
    ] = None,
    print_config: Annotated[
        bool, Option("--print-config", help="Check and print the resulting configuration, and exit.")
    ] = False,
    host: Annotated[str | None, Option(help="Address to listen on; 127.0.0.1 by default.")] = None,
    port: Annotated[int | None, Option(min=0, max=65535, help="Port, 8000 by default; 0 chooses a free one.")] = None,
    store: Annotated[
        str | None,
        Option(
            metavar="URL",
            envvar="KOMD_STORE",
            help="Database of live histories: sqlite:///FILE or postgresql://…; a file beside the model by default.",
        ),
    ] = None,
    items: Annotated[
        Path | None, Option(metavar="NAMES", help="Table (CSV, TSV, Parquet) with id, name and further columns.")
    ] = None,
    images: Annotated[str | None, Option(metavar="COLUMN", help="Column of --items with URLs of images.")] = None,
    public_url: Annotated[
        str | None,
        Option(metavar="URL", help="Behind a proxy: the address that browsers use, such as https://recs.example."),
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        Option(
            metavar="ADDRESS",
            help="Proxy, or network of proxies, whose forwarded headers are trusted; may be repeated.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None, Option(help="File with one token per line, and its roles; requests must carry one of the tokens.")
    ] = None,
    forget_key_file: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            envvar="KOMD_FORGET_KEY_FILE",
            help="File for the key that hides the ids of forgotten users; by default beside an SQLite store, or beside "
            "the model.",
        ),
    ] = None,
    workers: Annotated[int | None, Option(min=1, help="Number of processes; 1 by default.")] = None,
    learn: Annotated[
        bool | None,
        Option("--learn", help="Learn posted events, and unlearn forgotten users, in a separate process."),
    ] = None,
    learn_seconds: Annotated[
        float | None, Option(help="With --learn: seconds until an event is learned, at most; 1 by default.")
    ] = None,
    learn_events: Annotated[
        int | None, Option(help="With --learn: number of events that wait, at most; 1,000 by default.")
    ] = None,
    candidate: Annotated[
        Path | None, Option(metavar="MODEL", help="Another model, which serves a share of the users.")
    ] = None,
    share: Annotated[
        str | None, Option(metavar="SHARE", help="Share of the users that --candidate serves; 10% by default.")
    ] = None,
    allow_shrink: Annotated[
        bool | None,
        Option("--allow-shrink", help="Accept a new model that has lost most users or items of the one before."),
    ] = None,
    origin: Annotated[
        list[str] | None,
        Option(help="Site whose pages may call the API, such as https://shop.example; may be repeated."),
    ] = None,
    insecure: Annotated[
        bool | None,
        Option("--insecure", help="Allow access from other machines without a token: anybody may read and write."),
    ] = None,
    tracing: Annotated[
        bool | None,
        Option("--tracing", help="Trace requests with OpenTelemetry, configured by its environment variables OTEL_…"),
    ] = None,
    log_requests: Annotated[
        bool | None, Option("--log-requests", help="Log a line for each request, without ids.")
    ] = None,
    log_ids: Annotated[
        bool | None, Option("--log-ids", help="Let log lines contain ids, in addresses and in error messages.")
    ] = None,
    watch_seconds: Annotated[
        float | None,
        Option(help="Seconds between checks of models, tables and tokens for changes; 1 by default."),
    ] = None,
) -> None:
    """Serve recommendations over HTTP.

    Live histories are kept in a database. A web page shows the service at work.
    """
    from komd.serve.serve_config import as_toml, read_config, settings_of, share_of
    from komd.serve.server_process import run

    given = {
        "model": model,
        "host": host,
        "port": port,
        "store": store,
        "items": items,
        "images": images,
        "public_url": public_url,
        "trusted_proxies": tuple(trusted_proxy) if trusted_proxy else None,
        "token_file": token_file,
        "forget_key_file": forget_key_file,
        "workers": workers,
        "learn": learn,
        "learn_seconds": learn_seconds,
        "learn_events": learn_events,
        "candidate": candidate,
        "share": None if share is None else share_of(share),
        "allow_shrink": allow_shrink,
        "origins": tuple(origin) if origin else None,
        "insecure": insecure,
        "tracing": tracing,
        "log_requests": log_requests,
        "log_ids": log_ids,
        "watch_seconds": watch_seconds,
    }
    values = {} if config is None else read_config(config)
    settings = settings_of(values | {name: value for name, value in given.items() if value is not None})
    if print_config:
        settings.check()
        print(as_toml(settings), end="")
        return
    interrupt.yield_to()
    run(settings)
