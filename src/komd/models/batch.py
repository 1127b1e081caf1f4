"""Lists for many people, written to a folder part by part: what is written stays, and a stopped run goes on.

    RECS/
      request.json           what was asked, of which model, in how many parts
      part-00000.parquet     the lists of the first people: user_id, item_id, score, rank
      part-00001.parquet     ...

Every part holds the same people whenever and however often the run is stopped, and is put in place whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from komd import threads as pool
from komd.errors import InputError
from komd.models.catalogue import OnUnknown
from komd.models.histories import Histories
from komd.models.ranking import Question, Ranked
from komd.models.recommender import Recommender

__all__ = ["Written", "recommend_to"]

_REQUEST = "request.json"
_OURS = re.compile(r"part-\d{5,}\.parquet|request\.json|\.(part-\d{5,}\.parquet|request\.json)\.\d+")
_ROWS = 2_000_000  # of a part, about


@dataclass(frozen=True)
class Written:
    """What a folder of recommendations holds.

    Attributes
    ----------
    path
        The folder.
    people, parts
        How many there are in all.
    resumed
        How many parts were there already.
    skipped
        Unknown ids passed over.
    """

    path: Path
    people: int
    parts: int
    resumed: int
    skipped: int


def recommend_to(
    model: Recommender,
    path: str | Path,
    users: Any = None,
    *,
    n: int = 10,
    histories: Any = None,
    exclude_seen: bool = True,
    items: Iterable[Any] | None = None,
    exclude: Iterable[Any] | None = None,
    on_unknown: OnUnknown = "error",
    threads: int | None = None,
    memory: str | int | None = None,
    exclude_low_rated: bool = True,
) -> Written:
    """Write the n best items of many people to Parquet parts in a folder; called again, it goes on where it stopped.

    The parameters are those of `recommend`. Parts are written as people finish, each put in place whole, so that
    whatever stops the run no list is lost, repeated or cut. A folder that holds the answer to another request, or
    something else, is refused.

    Examples
    --------
    >>> import komd, tempfile
    >>> model = komd.ECFOMD().fit(komd.generate(users=50, items=30, activity=6, rng=0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = komd.recommend_to(model, folder + "/recs", n=5)
    >>> written.people, written.parts, written.resumed
    (50, 1, 0)
    """
    path = Path(path)
    people, rows, question, skipped = model._asked(
        users, n, histories, exclude_seen, items, exclude, on_unknown, exclude_low_rated
    )
    pieces = pool.blocks(len(rows), max(1, _ROWS // question.n))
    request = _described(model, people, rows, question, len(pieces))
    done = _opened(path, request)
    missing = [k for k in range(len(pieces)) if k not in done]
    if missing:
        left = np.concatenate([np.arange(*pieces[k]) for k in missing])
        answers = model._ranked(
            rows.take(left.astype(np.int32)), question, threads=threads, memory=memory, label="recommend"
        )
        for k, parts in _by_part(answers, [pieces[k] for k in missing]):
            first, last = pieces[missing[k]]
            _put(path / f"part-{missing[k]:05d}.parquet", model._table(people.slice(first, last - first), parts))
    return Written(path, len(rows), len(pieces), len(done), skipped)


def _by_part(answers: Iterator[Ranked], pieces: list[tuple[int, int]]) -> Iterator[tuple[int, list[Ranked]]]:
    """Cut answers, which come for any number of people at a time, into those of each piece."""
    here: list[Ranked] = []
    have = k = 0
    for answer in answers:
        start = 0
        while start < len(answer.counts):
            wanted = pieces[k][1] - pieces[k][0] - have
            stop = min(start + wanted, len(answer.counts))
            here.append(Ranked(answer.items[start:stop], answer.scores[start:stop], answer.counts[start:stop]))
            have += stop - start
            start = stop
            if have == pieces[k][1] - pieces[k][0]:
                yield k, here
                here, have, k = [], 0, k + 1


def _described(model: Recommender, people: pa.Array, rows: Histories, question: Question, parts: int) -> dict[str, Any]:
    """What was asked, so that another request is told from this one."""
    catalogue = model.catalogue
    digest = hashlib.sha256()
    learned = [array for array in model._arrays().values() if array.nbytes <= 1 << 26]
    own = (catalogue.order, catalogue.histories.indptr, catalogue.histories.indices)
    seen = () if rows.seen is None else (rows.seen.indptr, rows.seen.indices)
    for array in (*own, *learned, rows.indptr, rows.indices, *seen, question.candidates):
        digest.update(np.ascontiguousarray(array).data)
    for ids in (catalogue.items.values, people):
        for buffer in ids.buffers():
            digest.update(buffer or b"")
    return {
        "model": model.text,
        "n": question.n,
        "people": len(rows),
        "exclude_seen": question.exclude_seen,
        "candidates": len(question.candidates),
        "parts": parts,
        "sha256": digest.hexdigest(),
    }


def _opened(path: Path, request: dict[str, Any]) -> set[int]:
    """The parts that the folder holds already, for this very request."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file; recommendations are written to a folder")
    path.mkdir(parents=True, exist_ok=True)
    strange = [file.name for file in path.iterdir() if not _OURS.fullmatch(file.name)]
    if strange:
        raise InputError(f"{path} holds something other than recommendations ({strange[0]}); choose another folder")
    file = path / _REQUEST
    if file.exists():
        try:
            old = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{file} cannot be read ({error}); choose another folder") from error
        if old != request:
            told = [f"{key} {old.get(key)!r}, not {value!r}" for key, value in request.items() if old.get(key) != value]
            told = [each for each in told if not each.startswith("sha256")] or ["other data, people or candidates"]
            raise InputError(
                f"{path} holds the answer to another request: {'; '.join(told)}. Choose another folder, or remove it"
            )
    elif any(entry.name.startswith("part-") for entry in path.iterdir()):
        raise InputError(f"{path} holds parts but no {_REQUEST}; choose another folder")
    for remains in path.glob(".*"):
        with contextlib.suppress(OSError):
            remains.unlink()
    if not file.exists():
        aside = path / f".{_REQUEST}.{os.getpid()}"
        aside.write_text(json.dumps(request, indent=1), encoding="utf-8")
        aside.replace(file)
    return {int(entry.name[5:-8]) for entry in path.glob("part-*.parquet")}


def _put(file: Path, table: pa.Table) -> None:
    """Write one part aside, flush it to the disk, and put it in place in one step."""
    from pyarrow import parquet

    aside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with aside.open("wb") as sink:
            parquet.write_table(table, sink, compression="zstd")
            sink.flush()
            os.fsync(sink.fileno())
        aside.replace(file)
    except OSError as error:
        raise InputError(
            f"could not write {file}: {error.strerror or error}; the parts before it are whole, and the same call goes "
            "on from there"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
