"""`komd fit`: learn a model from data, from the events of a service, or from both, and save it."""

from __future__ import annotations

import contextlib
import time as clock
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from komd.cli import options
from komd.cli import output as show
from komd.errors import InputError

if TYPE_CHECKING:
    from komd.data.interactions import Interactions
    from komd.engine.updates import Updatable

__all__ = ["fit"]


@options.with_reading()
def fit(
    output: Annotated[
        Path, Option("--output", "-o", metavar="MODEL", help="Folder to save the model to, such as plays.komd.")
    ],
    data: options.OptionalData = None,
    model: Annotated[
        str, Option(help="Model as in Python: ECFOMD, \"CFKOMD(kernel='rbf', regularization=0.1)\".")
    ] = "CFKOMD(kernel='tanimoto')",
    store: options.Store = None,
    forget_key_file: options.ForgetKeyFile = None,
    reading: options.ReadingOptions = options.DEFAULT_READING,
    threads: options.Threads = None,
    memory: options.Memory = None,
    as_json: options.AsJson = False,
) -> None:
    """Fit a model to interactions, and save it."""
    import komd
    from komd import store as folders
    from komd.engine.kernel_based import KernelBased
    from komd.engine.updates import Updatable
    from komd.memory import readable
    from komd.threads import count

    chosen = komd.model_from_text(model)
    count(threads)
    folders.replaceable(output)  # better to know before a long fit
    if not data and store is None:
        raise InputError("nothing to learn from: name files of DATA, or the store of a service with --store")
    with contextlib.ExitStack() as stack:
        events = None if store is None else stack.enter_context(options.event_store(store, forget_key_file, output))
        both = chosen if data and events is not None else None
        if both is not None and not isinstance(both, Updatable):
            raise InputError(
                f"{type(both).__name__} cannot be updated, so it cannot take in events beside DATA; name one of the two"
            )
        start = clock.perf_counter()
        interactions = reading.read(data, memory) if data else _stored(events)
        read = clock.perf_counter()
        if not as_json:
            print(f"read    {interactions!r} in {read - start:.1f} s")
        chosen.fit(interactions, threads=threads, memory=memory)
        if both is not None:
            _take_in(both, events)
            if not as_json:
                print(f"events  {both.refresh(threads=threads, memory=memory).last_update or 'none in the store'}")
    fitted = clock.perf_counter()
    held = f"; {chosen.held}" if isinstance(chosen, KernelBased) else ""
    if not as_json:
        print(f"fitted  {chosen.text} in {fitted - read:.1f} s{held}")
    chosen.save(output)
    saved = clock.perf_counter()
    size = sum(file.stat().st_size for file in output.iterdir())
    if as_json:
        seconds = {"read": read - start, "fit": fitted - read, "save": saved - fitted}
        facts = {"model": chosen.text, "train": show.counts(interactions), "path": str(output), "bytes": size}
        facts |= {"columns": show.columns(interactions)}
        if isinstance(chosen, KernelBased):
            facts["storage"] = {"form": chosen.held.storage, "density": chosen.held.density, "bytes": chosen.held.bytes}
        show.json_document(facts | {"seconds": seconds})
    else:
        print(f"saved   {output} ({readable(size)}) in {saved - fitted:.1f} s")


def _stored(events: Any) -> Interactions:
    """All events of a store."""
    from komd.serve.store_updates import stored_interactions

    return stored_interactions(events)


def _take_in(model: Updatable, events: Any) -> None:
    """Let a fitted model learn the events of a store."""
    from komd.serve.store_updates import stored_batches

    for batch in stored_batches(events, model):
        model.take_in(batch)
