"""Item-based models whose matrix is built in stages from counts: it may be held dense or sparse, or streamed."""

from __future__ import annotations

from abc import abstractmethod

from komd._core.groups import Rows
from komd.engine.catalogue import Catalogue
from komd.engine.item_based import ItemBased, Neighbourhood
from komd.kernels.stages import Stages
from komd.matrix.build import build
from komd.matrix.item_matrix import Arrays, ItemMatrix
from komd.matrix.saved import staged_layouts, staged_matrix
from komd.matrix.storage import Plan

__all__ = ["KernelBased", "KernelNeighbourhood"]


class KernelBased(ItemBased):
    """An item-based model that needs of its data only how often items were chosen together."""

    storage: str | None

    @abstractmethod
    def stages(self) -> Stages:
        """What the matrix is."""

    def _build_matrix(self, catalogue: Catalogue, threads: int | None, memory: str | int | None) -> ItemMatrix:
        rows, items = catalogue.histories.rows, len(catalogue.order)
        return build(self.stages(), rows, items, storage=self.storage, threads=threads, memory=memory)

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

    def _layouts(self) -> list[set[str]]:
        return [{"S"} | names for names in staged_layouts(self.stages(), self.storage)]

    def _restored_matrix(self, arrays: Arrays) -> ItemMatrix:
        rows = Rows(arrays["history_indptr"], arrays["history_indices"])  # type: ignore[arg-type]
        return staged_matrix(arrays, self.stages(), rows, len(arrays["order"]))


class KernelNeighbourhood(KernelBased, Neighbourhood):
    """One in which every item of a history has the same say."""
