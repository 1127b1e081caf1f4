"""`komd fit`: learn a model from data and save it."""

from __future__ import annotations

import time as clock
from pathlib import Path
from typing import Annotated

from typer import Option

from komd.cli import options
from komd.cli import output as show

__all__ = ["fit"]


@options.with_reading()
def fit(
    data: options.Data,
    output: Annotated[
        Path, Option("--output", "-o", metavar="MODEL", help="Folder to save the model to, as plays.komd.")
    ],
    model: Annotated[
        str, Option(help="As in Python: ECFOMD, \"CFKOMD(kernel='rbf', regularization=0.1)\".")
    ] = "CFKOMD(kernel='tanimoto')",
    reading: options.ReadingOptions = options.DEFAULT_READING,
    threads: options.Threads = None,
    memory: options.Memory = None,
    as_json: options.AsJson = False,
) -> None:
    """Learn a model from who chose what, and save it."""
    import komd
    from komd import store
    from komd.engine.kernel_based import KernelBased
    from komd.memory import readable
    from komd.threads import count

    chosen = komd.model_from_text(model)
    count(threads)
    store.replaceable(output)  # better to know before a long fit
    start = clock.perf_counter()
    interactions = reading.read(data, memory)
    read = clock.perf_counter()
    if not as_json:
        print(f"read    {interactions!r} in {read - start:.1f} s")
    chosen.fit(interactions, threads=threads, memory=memory)
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
