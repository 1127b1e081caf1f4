"""One update as a table: statements about pairs of users and items, and users to remove.

Every way to update a model (`update`, the journal of a model folder, the events of a service) uses this form, in memory
and on disk, so that an update has one meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from komd.checks import one_of
from komd.data.interactions import Interactions
from komd.data.pairs import read_pairs
from komd.data.repeated_pairs import REPEATED
from komd.errors import InputError, ModelFileError

__all__ = ["CHOSEN", "DISLIKED", "NO_TIME", "REMOVED", "SEEN", "STORED", "UpdateBatch"]

CHOSEN, DISLIKED, SEEN, REMOVED = 0, 1, 2, 3
"""What a statement says of a pair. Of several, the smallest counts, unless the rule is "last" or "stored"."""
STORED = "stored"
"""The rule of events that a service stored: each is the final state of its pair, and replaces any earlier one."""
NO_TIME = int(np.iinfo(np.int64).min)

_QUICK = 1000  # pairs up to which a list of tuples is used directly, without `komd.read`
_SCHEMA = pa.schema([("kind", pa.int8()), ("weight", pa.float64()), ("time", pa.int64())])


@dataclass(frozen=True, eq=False)
class UpdateBatch:
    """Statements in their order, after the removal of the users `gone`.

    `users` and `items` are Arrow arrays of ids, one for each statement; `weights` are NaN and `times` (microseconds
    since 1970) NO_TIME if not given. `rule` says how repeated pairs are merged, as in `komd.read`, or is STORED.
    """

    users: pa.Array
    items: pa.Array
    kinds: NDArray[np.int8]
    weights: NDArray[np.float64]
    times: NDArray[np.int64]
    rule: str = "sum"
    gone: pa.Array = field(default_factory=lambda: _no_ids())
    weighted: bool = False
    """Whether the data that is added has weights."""
    timed: bool = False
    """Whether it has times in a known unit."""

    def __len__(self) -> int:
        return len(self.kinds)

    @staticmethod
    def of(added: Any, removed: Any, removed_users: Any, repeated: str) -> UpdateBatch:
        """From the arguments of `update`: removals come first."""
        one_of("repeated", repeated, REPEATED)
        parts = [_of_pairs(*_ids_of(removed), REMOVED)] if removed is not None else []
        weighted = timed = False
        if added is not None:
            quick = _quick(added)
            if quick is not None:
                parts.append(_of_pairs(*quick, CHOSEN))
            else:
                data = Interactions.of(added)
                weighted, timed = data.weights is not None, data.time_unit is not None
                others = ((data, CHOSEN), (data.dislikes, DISLIKED), (data.seen, SEEN))
                parts += [_of_interactions(each, kind) for each, kind in others if each is not None]
        gone = _listed(removed_users)
        parts = [part for part in parts if len(part[0])] or [_of_pairs(_no_ids(), _no_ids(), REMOVED)]
        users, items, kinds, weights, times = (_joined(each) for each in zip(*parts, strict=True))
        return UpdateBatch(users, items, kinds, weights, times, repeated, gone, weighted, timed)

    @staticmethod
    def of_events(
        events: Sequence[tuple[Any, Any, int, float | None, int]], gone: Iterable[Any], like: tuple[Any, Any]
    ) -> UpdateBatch:
        """From events of a service: (user, item, kind, weight, microseconds); `like` are the types of both ids."""
        users, items, kinds, weights, times = zip(*events, strict=True) if events else ((), (), (), (), ())
        return UpdateBatch(
            pa.array(users, like[0]),
            pa.array(items, like[1]),
            np.array(kinds, np.int8),
            np.array([np.nan if weight is None else weight for weight in weights]),
            np.array(times, np.int64),
            STORED,
            pa.array(list(gone), like[0]),
        )

    def to_bytes(self) -> bytes:
        """As one Arrow stream, for a journal."""
        facts = {"rule": self.rule, "weighted": str(int(self.weighted)), "timed": str(int(self.timed))}
        columns = [self.users, self.items, self.kinds, self.weights, self.times]
        statements = pa.table(dict(zip(("user", "item", *_SCHEMA.names), map(pa.array, columns), strict=True)))
        out = pa.BufferOutputStream()
        for table in (statements.replace_schema_metadata(facts), pa.table({"gone": self.gone})):
            with pa.ipc.new_stream(out, table.schema) as writer:
                writer.write_table(table)
        return bytes(out.getvalue())

    @staticmethod
    def from_bytes(record: bytes) -> UpdateBatch:
        """The update that `to_bytes` serialised."""
        try:
            source = pa.BufferReader(record)
            statements = pa.ipc.open_stream(source).read_all()
            gone = pa.ipc.open_stream(source).read_all().column("gone").combine_chunks()
            facts = {key.decode(): value.decode() for key, value in (statements.schema.metadata or {}).items()}
            users, items = (statements.column(name).combine_chunks() for name in ("user", "item"))
            kinds, weights, times = (
                statements.column(each.name).cast(each.type).combine_chunks().to_numpy() for each in _SCHEMA
            )
            if facts["rule"] not in (*REPEATED, STORED) or (
                len(kinds) and not REMOVED >= kinds.min() >= kinds.max() - 3
            ):
                raise ValueError(f"rule {facts['rule']!r}")
        except (pa.ArrowException, KeyError, ValueError, UnicodeError) as error:
            raise ModelFileError(f"the journal of a model has a record that is no update ({error})") from error
        weighted, timed = facts["weighted"] == "1", facts["timed"] == "1"
        return UpdateBatch(users, items, kinds, weights, times, facts["rule"], gone, weighted, timed)


def _no_ids() -> pa.Array:
    return pa.array([], pa.null())


def _of_pairs(users: pa.Array, items: pa.Array, kind: int) -> tuple[Any, ...]:
    size = len(users)
    return users, items, np.full(size, kind, np.int8), np.full(size, np.nan), np.full(size, NO_TIME)


def _of_interactions(data: Interactions, kind: int) -> tuple[Any, ...]:
    users, items, kinds, weights, times = _of_pairs(data.users.take(data.rows), data.items.take(data.indices), kind)
    if data.weights is not None:
        weights = data.weights.astype(np.float64)
    if data.times is not None and data.time_unit is not None:
        times = data.microseconds
    return users, items, kinds, weights, times


def _quick(pairs: Any) -> tuple[pa.Array, pa.Array] | None:
    """The ids of a short list of tuples of text or integers; None for anything else."""
    if not isinstance(pairs, list) or len(pairs) > _QUICK:
        return None
    if not pairs:
        return _no_ids(), _no_ids()
    if not all(type(pair) is tuple and len(pair) == 2 for pair in pairs):
        return None
    columns = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    if any({*map(type, column)} not in ({str}, {int}) for column in columns):
        return None
    try:
        return pa.array(columns[0]), pa.array(columns[1])
    except (OverflowError, pa.ArrowException):
        return None


def _ids_of(removed: Any) -> tuple[pa.Array, pa.Array]:
    """Users and items of pairs to remove, in whatever form `komd.read` takes."""
    quick = _quick(removed)
    return read_pairs(removed).ids() if quick is None else quick


def _listed(ids: Any) -> pa.Array:
    if ids is None:
        return _no_ids()
    if isinstance(ids, pa.Array):
        return ids
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise InputError(f"removed_users is a list of user ids, got {ids!r} (write [{ids!r}] for one)")
    return pa.array(list(ids))


def _joined(parts: Sequence[Any]) -> Any:
    """Several arrays as one. If ids to remove and ids to add are of two types, all become text."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    if any(part.type != parts[0].type for part in parts):
        from komd.data.encode import as_text

        parts = [as_text(part) for part in parts]
    return pa.concat_arrays(parts) if len(parts) > 1 else parts[0]
