"""Which items may be in a list, by their attributes: named filters, conditions of the request, availability.

A mask has two parts that change at different times: what the table says of an item, which stays while the items stay,
and the order of the items, which is another one in every model. So masks by outside number are carried over from model
to model (`ItemAttributes`, `AvailableItems`), and each snapshot caches them by its own numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from komd.engine.catalogue import Catalogue
from komd.errors import InputError, nearest
from komd.serve.item_attributes import AttributeTable, BoundedCache, ItemAttributes
from komd.serve.item_availability import AvailableItems, ItemAvailability
from komd.serve.item_filters import FilterError, ItemConditions
from komd.serve.item_names import ItemNames

__all__ = ["NO_RULES", "CandidateMasks", "ItemMask", "ItemRules", "ListRules"]

_CACHED = 16  # masks of a snapshot: five bytes an item each


class ListRules(NamedTuple):
    """What a request says of the attributes of items; requests that agree in it are ranked together."""

    filters: tuple[str, ...] = ()
    where: ItemConditions = ()
    include_unavailable: bool = False
    max_per: tuple[tuple[str, int], ...] = ()


NO_RULES = ListRules()
"""Any item that is available."""


@dataclass(frozen=True)
class ItemRules:
    """What a service knows of items besides its models: the named filters, and which items are available."""

    filters: Mapping[str, ItemConditions] = field(default_factory=dict)
    availability: ItemAvailability = field(default_factory=ItemAvailability)

    def check(self, table: pa.Table) -> None:
        """Raise InputError if a table lacks a column that a filter needs, or its availability cannot be read."""
        attributes = AttributeTable(table)
        for name, conditions in self.filters.items():
            try:
                attributes.check(conditions)
            except InputError as error:
                raise InputError(f"filters.{name}: {error}") from None
        attributes.available()

    def conditions(self, asked: ListRules) -> ItemConditions:
        """All conditions of a request; FilterError if it names a filter that does not exist."""
        found = asked.where
        for name in asked.filters:
            if name not in self.filters:
                known = nearest(name, self.filters) if self.filters else "the configuration has none"
                raise FilterError(f"unknown filter {name!r}: {known}")
            found = self.filters[name] + found
        return found


class ItemMask(NamedTuple):
    """The items that may be in a list."""

    allowed: NDArray[np.bool_]
    """By inside number."""
    candidates: NDArray[np.int32]
    """The inside numbers of those that somebody chose, ascending."""


class CandidateMasks:
    """The masks of one snapshot."""

    def __init__(self, catalogue: Catalogue, available: AvailableItems, rules: ItemRules) -> None:
        self._catalogue = catalogue
        self._available = available
        self._rules = rules
        self._masks: BoundedCache[ItemMask] = BoundedCache(_CACHED)

    @staticmethod
    def of(
        catalogue: Catalogue, names: ItemNames, rules: ItemRules | None = None, before: CandidateMasks | None = None
    ) -> CandidateMasks:
        """The masks of a model's items; what `before` knows of the same items is used again."""
        former = None if before is None else before.attributes
        attributes, rules = ItemAttributes.of(names, former), ItemRules() if rules is None else rules
        if before is not None and attributes is former:
            return CandidateMasks(catalogue, before._available, rules)
        return CandidateMasks(catalogue, AvailableItems(attributes, rules.availability), rules)

    @property
    def attributes(self) -> ItemAttributes:
        """The attributes of the items."""
        return self._available.attributes

    def warm_up(self) -> None:
        """Compute what requests would have to wait for."""
        self._available.now()
        for name in self._rules.filters:
            self.of_rules(ListRules((name,)))

    def of_rules(self, asked: ListRules) -> ItemMask | None:
        """The items that a request allows; None: all of them."""
        version, available = (0, None) if asked.include_unavailable else self._available.now()
        if available is None and not asked.filters and not asked.where:
            return None
        conditions = self._rules.conditions(asked)
        if available is None and not conditions:
            return None
        key = conditions, asked.include_unavailable, version
        return self._masks.get(key, lambda: self._mask(conditions, available))

    def _mask(self, conditions: ItemConditions, available: NDArray[np.bool_] | None) -> ItemMask:
        by_outside = available
        if conditions:
            meeting = self.attributes.mask(conditions)
            by_outside = meeting if available is None else meeting & available
        assert by_outside is not None
        allowed = by_outside[self._catalogue.order]
        return ItemMask(allowed, np.flatnonzero(allowed[: self._catalogue.chosen]).astype(np.int32))

    def available(self, numbers: NDArray[np.int32]) -> list[bool]:
        """Whether items are available, by inside number."""
        _, mask = self._available.now()
        return [True] * len(numbers) if mask is None else mask[self._catalogue.order[numbers]].tolist()

    def unavailable(self) -> int:
        """How many items are not available."""
        _, mask = self._available.now()
        return 0 if mask is None else len(mask) - int(np.count_nonzero(mask))
