"""`komd update`: pairs that came and went, into a saved model."""

from __future__ import annotations

import dataclasses
import time as clock
from functools import partial
from typing import TYPE_CHECKING, Annotated, cast

from typer import Option

from komd.cli import options
from komd.cli import output as show
from komd.errors import InputError

if TYPE_CHECKING:
    from komd.engine.catalogue import OnUnknown

__all__ = ["update"]


@options.with_reading()
def update(
    model: options.ModelFolder,
    add: Annotated[
        list[str] | None, Option(metavar="DATA", help="Pairs to add: data as for komd fit; may be repeated.")
    ] = None,
    remove: Annotated[
        list[str] | None, Option(metavar="PAIRS", help="Pairs of users and items to remove; may be repeated.")
    ] = None,
    remove_user: Annotated[
        list[str] | None, Option(metavar="ID", help="User to remove with all pairs; may be repeated.")
    ] = None,
    store: options.Store = None,
    forget_key_file: options.ForgetKeyFile = None,
    compact: Annotated[
        bool, Option("--compact", help="Rewrite the model instead of appending to its journal.")
    ] = False,
    on_unknown: options.OnUnknown = "error",
    reading: options.ReadingOptions = options.DEFAULT_READING,
    threads: options.Threads = None,
    memory: options.Memory = None,
    as_json: options.AsJson = False,
) -> None:
    """Add and remove pairs of a saved model.

    The model then equals one fitted to the remaining pairs.
    """
    import komd
    from komd.models.saved_update import update_saved
    from komd.threads import count

    if not (add or remove or remove_user or store or compact):
        raise InputError("nothing to update: give --add, --remove, --remove-user, --store or --compact")
    if store and (add or remove or remove_user):
        raise InputError("--store says all that is to be learned: give it without --add, --remove and --remove-user")
    count(threads)
    start, added = clock.perf_counter(), None
    if store:
        with options.event_store(store, forget_key_file, model) as events:
            from komd.serve.store_updates import stored_batches

            done = update_saved(model, partial(stored_batches, events), compact=compact, threads=threads, memory=memory)
    else:
        added = reading.read(add, memory, every_id=True) if add else None
        removed = reading.read_pairs(remove, memory) if remove else None
        done = komd.update(
            model,
            added,
            removed,
            removed_users=remove_user or None,
            repeated=reading.repeated or "sum",
            on_unknown=cast("OnUnknown", on_unknown),
            compact=compact,
            threads=threads,
            memory=memory,
        )
    seconds = clock.perf_counter() - start
    if as_json:
        report = None if done.report is None else dataclasses.asdict(done.report)
        facts = {"update": report, "compacted": done.compacted, "journal_bytes": done.journal, "seconds": seconds}
        show.json_document({"path": str(model)} | facts)
        return
    if added is not None:
        print(f"read     {added!r}")
    kept = "; the model written anew" if done.compacted else f"; in its journal ({done.journal:,} bytes)"
    what = f"{done.report or 'nothing changed'}{kept if done.report or done.compacted else ''}"
    print(f"updated  {model}: {what}, in {seconds:.1f} s")
