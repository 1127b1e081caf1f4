"""The service itself: its models, how far they have learned, its health."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from komd.serve.schemas.schema_parts import RequestBody

__all__ = ["ArmLearning", "CandidateModel", "CandidateShare", "Health", "Learning", "Model"]


class Model(BaseModel):
    """The model in use."""

    model: str
    version: str
    loaded_at: float
    users: int
    items: int
    interactions: int
    named_items: int
    example_item: str
    uses_weights: bool = Field(default=False, description="Whether weights make a difference to this model.")
    half_life: str | None = Field(default=None, description='After what time an event counts half, such as "30d".')
    learned_seq: int | None = Field(
        default=None, description="The number of the last commit of the store that it has learned; null: none."
    )
    dislikes_weight: float = Field(
        default=0, description="How much dislikes count in scores. They are left out of every list, whatever it is."
    )


class ArmLearning(BaseModel):
    """How far the candidate has learned what is stored. The fields are those of Learning."""

    learned_seq: int | None
    behind: bool
    learned_at: float | None
    model: str
    skipped: int
    unlearned_seq: int | None


class CandidateModel(BaseModel):
    """The model that is tried on a share of the users."""

    state: Literal["none", "serving", "promoted", "dropped"] = Field(
        description="none: the service has no candidate. serving: it answers the share. promoted, dropped: it answers "
        "nobody."
    )
    model: str | None = None
    version: str | None = Field(default=None, description="Version of the model, as in its lists.")
    share: float = Field(default=0, description="The share of users whom it serves now.")
    users: int = Field(default=0, description="About how many of the users of the main model these are.")
    since: float | None = Field(default=None, description="When that was decided: seconds since 1970.")


class CandidateShare(RequestBody, json_schema_extra={"examples": [{"share": 0.25}]}):
    """A share for the candidate."""

    share: float = Field(
        ge=0,
        le=1,
        description="Of the users, between 0 and 1. Whoever it serves, it keeps serving while the share grows.",
    )


class Learning(BaseModel):
    """How far the model in use has learned what is stored."""

    learning: bool = Field(description="Whether the service learns (--learn).")
    learned_seq: int | None = Field(description="The number of the last commit that the model in use has learned.")
    stored_seq: int = Field(description="The number of the store's last commit.")
    behind: bool = Field(description="Whether the service learns, and there are commits to learn.")
    learned_at: float | None = Field(description="When the learner said so: seconds since 1970.")
    model: str = Field(description="Version of the model in use.")
    skipped: int = Field(
        description="How many stored changes cannot be learned: an id in them is not of the model's kind."
    )
    unlearned_seq: int | None = Field(
        description="The number of the last commit whose forgotten users are not in the model folder either, nor in "
        "the candidate's."
    )
    candidate: ArmLearning | None = Field(default=None, description="The same of the candidate, if there is one.")


class Health(BaseModel):
    """The state of the service."""

    status: str
