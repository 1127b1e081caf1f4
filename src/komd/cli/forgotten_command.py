"""`komd forgotten`: the users whom the store of a service has forgotten, and a refit must leave out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from komd.cli import options
from komd.cli import output as show
from komd.cli.result_files import check_file, write_result

__all__ = ["forgotten"]


@options.with_reading()
def forgotten(
    model: options.ModelFolder,
    data: Annotated[
        list[str] | None,
        Option(
            metavar="DATA", help="Data that a model is to be fitted to: its users are checked too; may be repeated."
        ),
    ] = None,
    store: Annotated[
        str | None,
        Option(
            metavar="URL",
            envvar="KOMD_STORE",
            help="The store of the service: sqlite:///FILE or postgresql://…; a file beside the model by default.",
        ),
    ] = None,
    forget_key_file: options.ForgetKeyFile = None,
    reading: options.ReadingOptions = options.DEFAULT_READING,
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="OUT", help="Write the ids to a file: .csv, .parquet or .json.")
    ] = None,
    memory: options.Memory = None,
    as_json: options.AsJson = False,
) -> None:
    """List users that a service has forgotten.

    These are users of the model, and of --data, that the service was told to forget. A refit must leave them out.
    """
    import pyarrow as pa

    import komd
    from komd.plain_text import id_text, printable

    if output is not None:
        check_file(output)
    catalogue = komd.load(model).catalogue
    folder = model.absolute()
    url = store or f"sqlite:///{folder.with_name(folder.name + '.events.db')}"
    with options.event_store(url, forget_key_file, model) as events:
        from komd.serve.forgotten_users import forgotten_users

        known = [catalogue.users]
        if data:
            known.append(reading.read(data, memory, every_id=True).users)
        found = forgotten_users(events, *known)
    rows = [pa.table({"user_id": found})]
    facts = {"model": str(model), "count": len(found)}
    if output is not None:
        write_result(rows, output, facts, as_json=as_json)
    elif as_json:
        show.print_rows("forgotten", rows, facts)
    else:
        for user in found.to_pylist():
            print(printable(id_text(user)))
    where = "the model or the data" if data else "the model"
    show.note(f"{len(found):,} forgotten users are in {where}")
