"""What requests and responses are made of: ids, limits, and the form of errors."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from komd.serve.serve_settings import Limits

__all__ = ["LIMITS", "ErrorDetail", "Identifier", "Number", "RequestBody", "Text", "texts_of_ids"]


LIMITS = Limits()
"""The limits are part of the description, so they are the same for every service."""


Text = Annotated[str, Field(min_length=1, max_length=LIMITS.identifier, pattern=r"^[^\x00]*$")]
Number = Annotated[int, Field(strict=True, gt=-(2**64), lt=2**64)]
Identifier = Text | Number
"""An id as it may be sent. Validated without a call into Python, of which a request may need thousands."""


def texts_of_ids(ids: list[str | int] | None) -> list[str] | None:
    return None if ids is None else [one if type(one) is str else str(one) for one in ids]


class RequestBody(BaseModel, extra="forbid"):
    """Unknown fields are refused. Responses are made here, so not checked again."""


class ErrorDetail(BaseModel, title="Problem"):
    """What was wrong, in words."""

    __qualname__ = "Problem"

    detail: str
