"""Item-based models whose matrix is built in stages from counts, and held dense, sparse or streamed."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from komd.engine.catalogue import Catalogue
from komd.engine.histories import Histories
from komd.engine.item_based import Neighbourhood
from komd.engine.renewed_catalogue import CatalogueChange
from komd.engine.updates import Updatable
from komd.kernels.stages import Stages
from komd.matrix.build import BeforeUpdate, build
from komd.matrix.item_matrix import Arrays, ItemMatrix
from komd.matrix.saved import staged_layouts, staged_matrix
from komd.matrix.storage import Plan

__all__ = ["KernelBased", "KernelNeighbourhood"]


class KernelBased(Updatable):
    """An item-based model that uses only the co-occurrence counts of items, or their weighted counts."""

    storage: str | None

    @abstractmethod
    def stages(self) -> Stages:
        """The stages that define the matrix."""

    @property
    def held_stages(self) -> Stages:
        """The stages of the stored matrix: in models saved by earlier versions, it includes the factor."""
        stages = self.stages()
        return replace(stages, normalised=True) if stages.apart and self.factor is None else stages

    def kernel_values(self, histories: Histories) -> NDArray[np.float32] | None:
        """What `stages().weighting` makes of the histories' weights: one value > 0 for each pair; None for 1 each."""
        return None

    def _build_matrix(self, catalogue: Catalogue, threads: int | None, memory: str | int | None) -> ItemMatrix:
        histories = catalogue.histories
        return build(
            self.stages(),
            histories.rows,
            len(catalogue.order),
            storage=self.storage,
            threads=threads,
            memory=memory,
            values=self.kernel_values(histories),
        )

    def _renewed(
        self, change: CatalogueChange, threads: int | None, memory: str | int | None, in_place: bool
    ) -> tuple[dict[str, Any], int, str | None]:
        catalogue = change.new
        matrix: ItemMatrix = self.__dict__["matrix"]
        stages, histories = self.stages(), catalogue.histories
        values, popularity = self.kernel_values(histories), catalogue.popularity.astype(np.int64)
        why = self.held_stages.shared_by_all(written_out=matrix.uncorrected is matrix)
        why = why or stages.counted_otherwise(change.old.histories.rows, histories.rows)
        why = why or stages.scaled_otherwise(change.old.popularity.astype(np.int64), popularity)
        if self.earlier_format:
            why = why or "it was saved by an earlier version"
        if stages.counts_values(self.kernel_values(change.old.histories)) != stages.counts_values(values):
            why = why or "weights came to count, or ceased to"
        changed = change.touched
        if stages.user_damping and len(change.changed_users):
            changed = changed.copy()
            changed[histories.take(change.changed_users).indices] = True
        before = None if why else BeforeUpdate(matrix, change.item_source, changed, change.by_item, in_place)
        made = build(
            stages,
            histories.rows,
            len(catalogue.order),
            storage=self.storage,
            threads=threads,
            memory=memory,
            values=values,
            before=before,
            popularity=popularity,
        )
        if made.storage != matrix.storage:
            why = why or f"it is held {made.storage} now, it was {matrix.storage}"
        factor = self._build_factor(catalogue)
        learned = {
            "matrix": made,
            "S": self._renewed_sums(made, None if why else before, catalogue, threads),
            "factor": factor,
            "earlier_format": False,
            "target_factors": self._scored_factors(catalogue, factor),
        }
        return learned, int(changed.sum()), why

    def _renewed_sums(
        self, made: ItemMatrix, before: BeforeUpdate | None, catalogue: Catalogue, threads: int | None
    ) -> NDArray[np.float64]:
        """S after an update; `before` is None if all of K was rebuilt."""
        return self._build_sums(made, catalogue, threads, None)

    @property
    def held(self) -> Plan:
        """How the matrix is held: its storage, how full it is, and the memory it takes."""
        self.catalogue  # noqa: B018 (refuses before fit)
        return self.matrix.plan

    def __repr__(self) -> str:
        if not self.fitted:
            return self.text
        truncation = f"; {self.matrix.truncation}" if self.matrix.truncation else ""
        return f"{self.text}  # {self.held}{truncation}"

    def _build_factor(self, catalogue: Catalogue) -> float | None:
        return self.stages().factor(catalogue.popularity.astype(np.int64))

    def _layouts(self) -> list[set[str]]:
        return [{"S"} | names for names in staged_layouts(self.stages(), self.storage)]

    def _restored_matrix(self, arrays: Arrays) -> ItemMatrix:
        found: Any = arrays
        weights = found.get("history_weights")
        histories = Histories(found["history_indptr"], found["history_indices"], weights=weights)
        values = self.kernel_values(histories)
        return staged_matrix(arrays, self.held_stages, histories.rows, len(found["order"]), values=values)


class KernelNeighbourhood(KernelBased, Neighbourhood):
    """A kernel-based model in which all items of a history count equally."""
