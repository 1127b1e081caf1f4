"""Items: their names, what is similar to them, whether they are available."""

from __future__ import annotations

from pydantic import BaseModel, Field

from komd.serve.schemas.schema_parts import LIMITS, Identifier, RequestBody

__all__ = ["AvailabilityKept", "Curve", "Item", "ItemState", "Items", "PostedAvailability", "Similar", "SimilarItems"]


class Item(BaseModel):
    """An item and what it is called."""

    item_id: str
    name: str
    popularity: int
    popularity_rank: int
    details: dict[str, str]
    image: str | None = Field(default=None, description="The address of its image, if the service has images.")
    available: bool = Field(default=True, description="Whether it may be in lists.")


class Items(BaseModel):
    """Items, best match first."""

    items: list[Item]


class Similar(Item):
    """An item that is similar to another."""

    similarity: float


class SimilarItems(BaseModel):
    """What is similar to an item, the most similar first."""

    item_id: str
    name: str
    items: list[Similar]


class ItemState(RequestBody):
    """Whether an item is available."""

    item_id: Identifier
    available: bool


class PostedAvailability(
    RequestBody, json_schema_extra={"examples": [{"items": [{"item_id": "i7", "available": False}]}]}
):
    """Items that are available or not from now on. Of an item that is listed twice, the last entry holds."""

    items: list[ItemState] = Field(min_length=1, max_length=LIMITS.listed)

    @property
    def states(self) -> dict[str, bool]:
        """By id as text."""
        return {str(state.item_id): state.available for state in self.items}


class AvailabilityKept(BaseModel):
    """What was stored. It is on the disk, and holds for the next list of this worker; others follow in a second."""

    items: int = Field(description="Distinct items in the post.")
    changed: int = Field(description="Of how many of them the store said something else, or nothing, before.")
    unknown_items: list[str] = Field(description="Items the model does not know yet: stored, for when it does.")


class Curve(BaseModel):
    """The long tail: the item of rank ranks[k] was chosen by counts[k] users."""

    ranks: list[int]
    counts: list[int]
