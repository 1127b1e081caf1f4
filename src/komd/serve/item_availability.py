"""Which items are available now: what the table of items says, and what was posted since, which comes before it.

The posted states are rows of the store. Every process reads what changed since it read last, about twice a second and
after each post of its own. They are held by id, so that they outlive models; `AvailableItems` are those of one model.
"""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from komd.serve.event_store import EventStore
from komd.serve.id_text import numbers_of
from komd.serve.item_attributes import ItemAttributes

__all__ = ["AvailableItems", "ItemAvailability"]


class ItemAvailability:
    """The posted states by item id, in the order in which they changed."""

    def __init__(self) -> None:
        self._posted: dict[str, tuple[int, bool]] = {}  # the number of the change, and the state; the last at the end
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._seq = 0
        self.version = 0
        """The number of the last change."""

    def read(self, events: EventStore) -> None:
        """Take in what changed in the store since this was called last."""
        with self._reading:
            rows = events.availability(self._seq)
            if rows:
                self.change({row.item: row.available for row in rows})
                self._seq = rows[-1].seq

    def change(self, states: dict[str, bool]) -> None:
        """Take in states of items."""
        with self._lock:
            for item, available in states.items():
                self._posted.pop(item, None)
                self._posted[item] = self.version + 1, available
                self.version += 1

    def since(self, version: int) -> tuple[int, dict[str, bool]]:
        """The number of the last change, and the states that changed after number `version`."""
        found: dict[str, bool] = {}
        with self._lock:
            for item in reversed(self._posted):
                number, available = self._posted[item]
                if number <= version:
                    break
                found[item] = available
            return self.version, found


class AvailableItems:
    """Which items of a model are available, by outside number; kept up to date by the changes since the last look."""

    def __init__(self, attributes: ItemAttributes, availability: ItemAvailability) -> None:
        self.attributes = attributes
        self._availability = availability
        self._lock = threading.Lock()
        self._known = 0, attributes.available()  # replaced as one, so that it can be read without the lock

    def now(self) -> tuple[int, NDArray[np.bool_] | None]:
        """A number that changes with the answer, and the mask, not to be written to; None: all are available."""
        known = self._known
        if self._availability.version == known[0]:
            return known
        with self._lock:
            version, mask = self._known
            version, states = self._availability.since(version)
            items = self.attributes.names.items
            numbers = numbers_of(items, list(states))
            values = np.fromiter(states.values(), np.bool_, len(states))
            if (numbers >= 0).any():
                mask = np.ones(len(items), np.bool_) if mask is None else mask.copy()
                mask[numbers[numbers >= 0]] = values[numbers >= 0]
            self._known = version, mask
            return self._known
