"""Updates of a saved model: appended to its journal, and now and then written as a new snapshot.

A record of the journal is on the disk when `update` returns, and is applied when the model is loaded. A snapshot is
written instead if the journal is long, or if users are removed: then nothing of them stays in the folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from komd import journal, store
from komd.checks import one_of
from komd.engine.catalogue import OnUnknown
from komd.engine.update_batch import UpdateBatch
from komd.engine.updates import Updatable, UpdateReport
from komd.errors import InputError
from komd.models.registry import restored

__all__ = ["SavedUpdate", "update", "update_saved"]

_LONGEST = 4 << 20  # bytes of a journal; beyond that the model is written anew
_TRIES = 100  # attempts of an update while other processes change the same folder


class SavedUpdate(NamedTuple):
    """What an update of a saved model did.

    Attributes
    ----------
    report : UpdateReport or None
        What changed; None if nothing did.
    compacted : bool
        Whether the model was rewritten without a journal.
    journal : int
        Size of the journal in bytes.
    """

    report: UpdateReport | None
    """What changed; None if nothing did."""
    compacted: bool
    """Whether the model was written anew, without a journal."""
    journal: int
    """The bytes of the journal now."""


def update(
    path: str | Path,
    added: Any = None,
    removed: Any = None,
    *,
    removed_users: Any = None,
    repeated: str = "sum",
    on_unknown: OnUnknown = "error",
    compact: bool = False,
    threads: int | None = None,
    memory: str | int | None = None,
) -> SavedUpdate:
    """Update a saved model on disk. When this returns, the update is durable and `komd.load` gives the updated model.

    Parameters
    ----------
    path : str or Path
        Folder of the model.
    added, removed : Interactions, frame, file or list of pairs, optional
        Pairs to add and pairs to remove, as in `model.update`.
    removed_users : list of ids, optional
        Users to remove with all their pairs.
    repeated : {"sum", "max", "last", "count"}
        The weight of a pair that is added again, as in `model.update`.
    on_unknown : {"error", "skip"}
        What to do if a pair or user to remove is not in the model.
    compact : bool
        Rewrite the model instead of appending to its journal. This happens anyway when the journal is long and when
        users are removed.
    threads : int, optional
        Number of threads, as in `fit`.
    memory : str or int, optional
        Memory budget, as in `fit`.

    Returns
    -------
    SavedUpdate
        What changed, and the size of the journal.

    Raises
    ------
    InputError
        If there is nothing to update, or the model cannot be updated.
    UnknownIdError
        If something to remove is unknown and `on_unknown` is "error".
    ModelFileError
        If there is no model at `path`, or it is damaged.

    Examples
    --------
    >>> import komd, tempfile
    >>> folder = tempfile.mkdtemp() + "/plays.komd"
    >>> komd.CFKOMD().fit([("ana", "i7"), ("ana", "i42"), ("bo", "i7"), ("cy", "i42")]).save(folder)
    >>> print(komd.update(folder, added=[("bo", "i9")]).report)
    pairs +1 −0, users +0 −0, items +1 −0; 1 rows of K renewed
    >>> komd.load(folder).recommend("cy", n=1).to_arrow().column("item_id").to_pylist()
    ['i7']
    """
    one_of("on_unknown", on_unknown, ("error", "skip"))
    nothing = added is None and removed is None and removed_users is None
    if nothing and not compact:
        raise InputError("nothing to update: give added=, removed= or removed_users=")
    batch = None if nothing else UpdateBatch.of(added, removed, removed_users, repeated)
    batches = [] if batch is None else [batch]
    return update_saved(
        Path(path), lambda model: batches, on_unknown=on_unknown, compact=compact, threads=threads, memory=memory
    )


def update_saved(
    path: Path,
    make: Callable[[Updatable], Iterable[UpdateBatch]],
    *,
    on_unknown: OnUnknown = "skip",
    compact: bool = False,
    threads: int | None = None,
    memory: str | int | None = None,
) -> SavedUpdate:
    """Update a saved model by the batches that `make` makes for it; each is applied before the next is made."""
    for attempt in range(_TRIES):
        saved = store.load(path)
        model = restored(path, saved)
        if not isinstance(model, Updatable):
            raise model.refused_update
        model.refresh(threads=threads, memory=memory)  # applies the journal, before what is new
        model.last_update, records, forgets = None, [], False
        for batch in make(model):
            model.take_in(batch, on_unknown)
            records.append(batch.to_bytes())
            forgets |= bool(len(batch.gone))
        report = model.refresh(threads=threads, memory=memory).last_update
        if report is None or report.nothing:
            report, records = None, []
        size = journal.size(path, saved.manifest)
        early = saved.format < store.FORMAT  # which earlier versions read, and would read without its journal
        long = size + sum(map(len, records)) > _LONGEST
        # Ids of users who are dropped must not stay in a journal.
        forgets = report is not None and (forgets or report.dropped_users > 0)
        whole = (compact and bool(size or records)) or (bool(records) and (long or forgets or early))
        try:
            if whole:
                model.write(path, saved)
            elif records:
                journal.append(path, records, manifest=saved.manifest, known=saved.tip)
        except journal.Superseded:
            if attempt == _TRIES - 1:
                raise
            continue
        return SavedUpdate(report, whole, journal.size(path, store.manifest_text(path)))
    raise AssertionError("unreachable")
