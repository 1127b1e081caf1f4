"""Lists for many users, written to a folder part by part: an interrupted run resumes where it stopped.

    RECS/
      request.json           what was asked, of which model, in how many parts
      part-00000.parquet     the lists of the first users: user_id, item_id, score, rank
      part-00001.parquet     ...
      SHA256SUMS             checksums of the parts that are done, as sha256sum reads and writes them

Each part holds the same users, however often the run is interrupted, and is written by an atomic replace. A part counts
as done if it matches its checksum; one that was truncated or damaged since is written again. A lock ensures that only
one run at a time writes to a folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from komd import files
from komd import threads as pool
from komd.engine.catalogue import OnUnknown
from komd.engine.histories import Histories
from komd.engine.ranking import RankedBlock, RankingRequest
from komd.engine.recommender import Recommender
from komd.engine.requests import asked_lists
from komd.engine.results import lists_table
from komd.errors import InputError

__all__ = ["Written", "recommend_to"]

_REQUEST = "request.json"
_SUMS = "SHA256SUMS"
_LOCK = ".lock"
_DIGESTS = ("sha256", "microseconds")  # parts of a request that are not shown in messages
_SHOWN = {"people": "users"}  # names of earlier versions, as messages show them
_OURS = re.compile(r"part-\d{5,}\.parquet|request\.json|SHA256SUMS|\.lock|\.(part-\d{5,}\.parquet|request\.json)\.\d+")
_SUM = re.compile(r"([0-9a-f]{64})  (part-\d{5,}\.parquet)")
_ROWS = 2_000_000  # rows of a part, approximately


@dataclass(frozen=True)
class Written:
    """What a folder of recommendations holds.

    Attributes
    ----------
    path : Path
        The folder.
    users, parts : int
        Number of users and of parts in all.
    resumed : int
        Parts that existed already.
    skipped : int
        Unknown ids that were skipped.
    redone : int
        Parts that existed but did not match their checksums, and were written again.
    """

    path: Path
    users: int
    parts: int
    resumed: int
    skipped: int
    redone: int = 0


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
    dislikes: Any = None,
    at: Any = None,
) -> Written:
    """Write the n best items of many users to Parquet files in a folder. If interrupted, the same call resumes.

    Files are written as users finish, each replaced atomically, so that no list is lost, repeated or truncated. A file
    that was damaged since is written again. A folder that holds the answer to another request, something else, or the
    output of another running call is refused.

    Parameters
    ----------
    model : Recommender
        A fitted model.
    path : str or Path
        The folder; it is created if it does not exist.
    users, n, histories, exclude_seen, items, exclude, on_unknown, threads, memory, exclude_low_rated, dislikes, at
        As in `recommend`. With `at="now"`, all files are of the moment of the first call, which is kept in
        `request.json`.

    Returns
    -------
    Written
        What the folder holds.

    Raises
    ------
    InputError
        If the folder cannot be used, or an argument is invalid.
    UnknownIdError
        If a user or an item is unknown and `on_unknown` is "error".

    Examples
    --------
    >>> import komd, tempfile
    >>> model = komd.ECFOMD().fit(komd.generate(users=50, items=30, activity=6, rng=0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = komd.recommend_to(model, folder + "/recs", n=5)
    >>> written.users, written.parts, written.resumed
    (50, 1, 0)
    """
    path = Path(path)
    model = model.view()  # not affected by updates during the run
    (ids, rows, skipped), asked = asked_lists(
        model.catalogue, users, n, histories, exclude_seen, items, exclude, on_unknown, exclude_low_rated, dislikes, at
    )
    pieces = pool.blocks(len(rows), max(1, _ROWS // asked.n))
    request = _described(model, ids, rows, asked, len(pieces))
    if rows.at is not None:
        now = isinstance(at, str) and at == "now"
        request |= {"at": at if now else str(np.datetime64(rows.at, "us")), "microseconds": rows.at}
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file; recommendations are written to a folder")
    _refuse_strange(path)
    try:
        with files.locked(path / _LOCK) as alone:
            done, redone = _opened(path, request, alone)
            rows = replace(rows, at=request.get("microseconds"))
            missing = [k for k, name in enumerate(map(_name, range(len(pieces)))) if name not in done]
            if missing:
                left = np.concatenate([np.arange(*pieces[k]) for k in missing])
                answers = model.ranked_blocks(
                    rows.take(left.astype(np.int32)), asked, threads=threads, memory=memory, label="recommend"
                )
                for k, parts in _by_part(answers, [pieces[k] for k in missing]):
                    first, last = pieces[missing[k]]
                    table = lists_table(model.catalogue, ids.slice(first, last - first), parts)
                    done[_name(missing[k])] = _put(path / _name(missing[k]), table)
                    files.write_text(path / _SUMS, "".join(f"{each}  {name}\n" for name, each in sorted(done.items())))
    except files.LockHeld:
        raise InputError(
            f"another run is writing to {path}: wait until it has ended, then repeat the call to check what it wrote, "
            "or choose another folder"
        ) from None
    except OSError as error:
        raise InputError(
            f"could not write to {path}: {error.strerror or error}; the parts before it are whole, and the same call "
            "goes on from there"
        ) from error
    return Written(path, len(rows), len(pieces), len(pieces) - len(missing), skipped, redone)


def _name(part: int) -> str:
    return f"part-{part:05d}.parquet"


def _by_part(answers: Iterator[RankedBlock], pieces: list[tuple[int, int]]) -> Iterator[tuple[int, list[RankedBlock]]]:
    """Regroup answers, which come for any number of users at a time, into those of each piece."""
    here: list[RankedBlock] = []
    have = k = 0
    for answer in answers:
        start = 0
        while start < len(answer.counts):
            wanted = pieces[k][1] - pieces[k][0] - have
            stop = min(start + wanted, len(answer.counts))
            here.append(RankedBlock(answer.items[start:stop], answer.scores[start:stop], answer.counts[start:stop]))
            have += stop - start
            start = stop
            if have == pieces[k][1] - pieces[k][0]:
                yield k, here
                here, have, k = [], 0, k + 1


def _described(
    model: Recommender, users: pa.Array, rows: Histories, asked: RankingRequest, parts: int
) -> dict[str, Any]:
    """A description of the request, which distinguishes it from any other."""
    catalogue = model.catalogue
    digest = hashlib.sha256()
    learned = [array for array in model.learned_arrays().values() if array.nbytes <= 1 << 26]
    own = (catalogue.order, catalogue.histories.indptr, catalogue.histories.indices)
    seen = () if rows.seen is None else (rows.seen.indptr, rows.seen.indices)
    for array in (*own, *learned, rows.indptr, rows.indices, *seen, asked.candidates):
        digest.update(np.ascontiguousarray(array).data)
    for histories in (catalogue.histories, rows):
        for name, values in _beside_items(histories).items():
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(values).data)
    for ids in (catalogue.items.values, users):
        for buffer in ids.buffers():
            digest.update(buffer or b"")
    return {
        "model": model.text,
        "n": asked.n,
        "people": len(rows),  # the name that folders of earlier versions have, so that they resume
        "exclude_seen": asked.exclude_seen,
        "candidates": len(asked.candidates),
        "parts": parts,
        "sha256": digest.hexdigest(),
    }


def _beside_items(histories: Histories) -> dict[str, NDArray[Any]]:
    """Weights, times and dislikes by name, where there are any."""
    found: dict[str, NDArray[Any] | None] = {"weights": histories.weights, "times": histories.times}
    if histories.dislikes is not None:
        found |= {"dislikes_indptr": histories.dislikes.indptr, "dislikes_indices": histories.dislikes.indices}
    return {name: values for name, values in found.items() if values is not None}


def _refuse_strange(path: Path) -> None:
    strange = [file.name for file in path.iterdir() if not _ours(file.name)] if path.exists() else []
    if strange:
        raise InputError(f"{path} holds something other than recommendations ({strange[0]}); choose another folder")


def _ours(name: str) -> bool:
    return bool(_OURS.fullmatch(name) or files.is_temporary(name))


def _opened(path: Path, request: dict[str, Any], alone: bool) -> tuple[dict[str, str], int]:
    """The checksums of the parts of this request that are done, and how many parts do not match.

    "now" in the request is replaced by the moment at which the folder was begun.
    """
    _refuse_strange(path)
    file = path / _REQUEST
    if file.exists():
        try:
            old = json.loads(file.read_text(encoding="utf-8"))
            if not isinstance(old, dict):
                raise ValueError("it describes no request")
        except (OSError, ValueError) as error:
            raise InputError(f"{file} cannot be read ({error}); choose another folder") from error
        if request.get("at") == old.get("at") == "now":
            if not isinstance(old.get("microseconds"), int):
                raise InputError(f"{file} does not say which moment now was; choose another folder")
            request["microseconds"] = old["microseconds"]
        if old != request:
            differ = [key for key in {**request, **old} if old.get(key) != request.get(key)]
            shown = {key: _SHOWN.get(key, key) for key in differ if key not in _DIGESTS}
            told = [f"{name} {old.get(key)!r}, not {request.get(key)!r}" for key, name in shown.items()]
            told = told or ["other data, users or candidates"]
            raise InputError(
                f"{path} holds the answer to another request: {'; '.join(told)}. Choose another folder, or remove it"
            )
    elif any(entry.name.startswith("part-") for entry in path.iterdir()):
        raise InputError(f"{path} holds parts but no {_REQUEST}; choose another folder")
    else:
        files.write_text(file, json.dumps(request, indent=1))
    for remains in path.glob(".*") if alone else ():
        if remains.name != _LOCK:
            with contextlib.suppress(OSError):
                remains.unlink()
    there = sorted(entry for entry in path.glob("part-*.parquet"))
    sums = _sums(path / _SUMS)
    done = {part.name: sums[part.name] for part in there if files.checksum(part) == sums.get(part.name)}
    return done, len(there) - len(done)


def _sums(file: Path) -> dict[str, str]:
    """Checksums by part; lines that cannot be read are ignored."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return {}
    return {found.group(2): found.group(1) for line in lines if (found := _SUM.fullmatch(line))}


def _put(file: Path, table: pa.Table) -> str:
    """Write one part by an atomic replace; returns its checksum."""
    from pyarrow import parquet

    aside = files.write_aside(
        file, lambda sink: parquet.write_table(table, sink, compression="zstd", write_page_checksum=True)
    )
    digest = files.checksum(aside)
    files.replace(aside, file)
    return digest
