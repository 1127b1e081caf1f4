"""Which users a store has marked as forgotten, among those that a model or data knows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from komd.data.ids import Ids
from komd.serve.event_store import EventStore
from komd.serve.id_text import texts_of

__all__ = ["forgotten_users"]


def forgotten_users(events: EventStore, *known: Ids) -> pa.Array:
    """The ids of the users in any of `known` who were forgotten, in order; as text where their kinds differ.

    The store has no ids of theirs, only marks: so the mark of each known user is looked up among them.
    """
    marks = events.marks()
    found = []
    for users in known:
        rows = [k for k, text in enumerate(texts_of(users.values)) if events.mark(text) in marks] if marks else []
        found.append(users.take(np.array(rows, np.int64)))
    if any(ids.type != found[0].type for ids in found):
        found = [pa.array(texts_of(ids), pa.string()) for ids in found]
    distinct = pa.chunked_array(found).unique()
    return distinct.take(pa.compute.sort_indices(distinct)) if len(distinct) else distinct
