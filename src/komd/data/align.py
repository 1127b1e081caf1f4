"""Several sets of interactions over common ids, so that a number means the same user or item in each."""

from __future__ import annotations

import pyarrow as pa

from komd.data.encode import Encoder, as_text
from komd.data.ids import Ids, Numbers
from komd.data.interactions import Interactions

__all__ = ["align"]


def align(*interactions: Interactions) -> tuple[Interactions, ...]:
    """Put several data sets over one common set of users and items.

    The ids are the sorted union. If ids are integers in one data set and text in another, all become text.

    Parameters
    ----------
    *interactions : Interactions
        The data sets.

    Returns
    -------
    tuple of Interactions
        The same pairs; a number now means the same user or item in each.

    Examples
    --------
    >>> from komd.data.generate import generate
    >>> first, second = generate(users=3, items=8, tastes=2), generate(users=5, items=8, tastes=2)
    >>> [data.shape for data in align(first, second)]
    [(5, 8), (5, 8)]
    """
    users = _union([data.users for data in interactions])
    items = _union([data.items for data in interactions])
    return tuple(_renumbered(data, users, items) for data in interactions)


def _union(parts: list[Ids]) -> Ids:
    if all(part == parts[0] for part in parts[1:]):
        return parts[0]
    noun = parts[0].noun
    if all(part.is_range for part in parts):
        return Ids.range(max(map(len, parts)), noun=noun)
    encoder = Encoder(noun)
    for part in parts:
        encoder.add(part.values)
    return encoder.finish()[0]


def _renumbered(data: Interactions, users: Ids, items: Ids) -> Interactions:
    if users == data.users and items == data.items:
        rest = {name: getattr(data, name) for name in ("weights", "time_unit", "dislikes")}
        return Interactions(users, items, data.indptr, data.indices, data.times, data.seen, **rest)
    rows, columns = _numbers(data.users, users), _numbers(data.items, items)

    def renumbered(part: Interactions) -> Interactions:
        return Interactions.from_numbers(
            users,
            items,
            rows[part.rows],
            columns[part.indices],
            part.times,
            weights=part.weights,
            time_unit=part.time_unit,
        )

    found = renumbered(data)
    found = found.with_dislikes(renumbered(data.dislikes)) if data.dislikes else found
    return found.with_seen(rows[data.seen.rows], columns[data.seen.indices]) if data.seen else found


def _numbers(old: Ids, new: Ids) -> Numbers:
    alike = old.type == new.type or (pa.types.is_integer(old.type) and pa.types.is_integer(new.type))
    return new.find(old.values if alike else as_text(old.values))
