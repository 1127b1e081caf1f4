"""A model's catalogue in the arrays of a saved model, and the checks that the arrays fit together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from komd.data.ids import Ids
from komd.engine.catalogue import Catalogue
from komd.engine.histories import Histories
from komd.errors import ModelFileError
from komd.matrix.item_matrix import Arrays
from komd.matrix.saved import well_formed

__all__ = ["catalogue_arrays", "restored_catalogue"]

_OPTIONAL: tuple[set[str], ...] = (  # only if the data has them
    {"seen_indptr", "seen_indices"},
    {"dislikes_indptr", "dislikes_indices"},
    {"history_weights"},
    {"history_times"},
)


def catalogue_arrays(catalogue: Catalogue) -> tuple[Arrays, dict[str, pa.Array]]:
    """The arrays and ids to save."""
    histories = catalogue.histories
    arrays: Arrays = {
        "order": catalogue.order,
        "history_indptr": histories.indptr,
        "history_indices": histories.indices,
    }
    for name, others in (("seen", histories.seen), ("dislikes", histories.dislikes)):
        if others is not None:
            arrays |= {f"{name}_indptr": others.indptr, f"{name}_indices": others.indices}
    for name, aligned in (("history_weights", histories.weights), ("history_times", histories.times)):
        if aligned is not None:
            arrays[name] = aligned
    return arrays, {"users": catalogue.users.values, "items": catalogue.items.values}


def restored_catalogue(model: str, layouts: list[set[str]], arrays: Arrays, ids: dict[str, pa.Array]) -> Catalogue:
    """The catalogue that was saved. `layouts` are the sets of names that the model's own arrays may have."""
    _same_names(model, layouts, arrays, ids)
    _matching(arrays, ids)
    found: Any = arrays
    seen, dislikes = (
        Histories(found[f"{name}_indptr"], found[f"{name}_indices"]) if f"{name}_indptr" in arrays else None
        for name in ("seen", "dislikes")
    )
    histories = Histories(
        found["history_indptr"],
        found["history_indices"],
        seen=seen,
        weights=found.get("history_weights"),
        times=found.get("history_times"),
        dislikes=dislikes,
    )
    users, items = Ids(ids["users"], noun="user"), Ids(ids["items"], noun="item")
    return Catalogue(users, items, found["order"], histories.known())


def _same_names(model: str, layouts: list[set[str]], arrays: Arrays, ids: dict[str, pa.Array]) -> None:
    """Refuse a folder in which an array is missing or unexpected: the model would load, but give wrong answers."""
    known = {"order", "history_indptr", "history_indices"}
    for optional in _OPTIONAL:
        if optional <= arrays.keys():
            known |= optional
    learned = arrays.keys() - known
    if not known <= arrays.keys() or set(ids) != {"users", "items"} or learned not in layouts:
        found = ", ".join(sorted([*arrays, *ids]))
        raise ModelFileError(f"the saved arrays are not those of {model}: {found}; save the model again")


def _matching(arrays: Arrays, ids: dict[str, pa.Array]) -> None:
    """Refuse arrays that do not fit each other: compiled code does not check indices."""
    n, m = len(ids["users"]), len(ids["items"])
    order = arrays["order"]
    rows = [name for name in ("history", "seen", "dislikes") if f"{name}_indptr" in arrays]
    pairs, weights, times = arrays["history_indices"].shape, arrays.get("history_weights"), arrays.get("history_times")
    fits = (
        order.shape == (m,)
        and order.dtype == np.int32
        and (order.size == 0 or bool(order.min() >= 0 and (np.bincount(order, minlength=m) == 1).all()))
        and all(well_formed(arrays[f"{name}_indptr"], arrays[f"{name}_indices"], n, m) for name in rows)
        and (weights is None or (weights.shape == pairs and weights.dtype == np.float32 and _all_positive(weights)))
        and (times is None or (times.shape == pairs and times.dtype == np.int64))
    )
    if not fits:
        raise ModelFileError("the saved arrays do not belong together; save the model again")


def _all_positive(weights: Any) -> bool:
    return bool((np.isfinite(weights) & (weights > 0)).all())
