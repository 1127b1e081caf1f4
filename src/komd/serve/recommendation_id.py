"""The id of a recommendation: it says by itself which model made the list and when, so that nothing is written for it.

Each id is new. It is signed, so that an event cannot be attributed to a list that was never given out:

    6 bytes  release of the model        4 bytes  seconds since 1970        8 bytes  signature (truncated HMAC-SHA256)
    1 byte   arm (0: the main model)     5 bytes  random

and written in URL-safe base64: 32 characters. It names neither the user nor the items.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import time
from typing import Literal, NamedTuple

__all__ = ["ARMS", "LENGTH", "UNASSIGNED", "RecommendationIds", "Recommended", "recommendation_of", "today"]

LENGTH = 32
"""Characters of an id."""

ARMS: tuple[Literal["main"], Literal["candidate"], Literal["unassigned"]] = ("main", "candidate", "unassigned")
"""The names of arms, by their numbers. Unassigned are lists of nobody in particular while a candidate serves: the main
model makes them all, so they say nothing in a comparison of the two."""

UNASSIGNED = 2

_RANDOM = 5
_SIGNATURE = 8
_DAY = 86_400


class Recommended(NamedTuple):
    """What an id says."""

    release: str
    """The version of the model in the folder."""
    arm: int
    day: int
    """Days since 1970, UTC."""


class RecommendationIds:
    """Makes ids and verifies them. Workers with the same key accept each other's."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def new(self, release: str, arm: int) -> str:
        """An id for a list that this release made now."""
        said = bytes.fromhex(release) + bytes([arm]) + int(time.time()).to_bytes(4) + os.urandom(_RANDOM)
        return base64.urlsafe_b64encode(said + self._signature(said)).decode()

    def verified(self, text: str) -> bool:
        """Whether this is an id that was made with the key."""
        try:
            found = base64.b64decode(text.encode("ascii"), b"-_", validate=True)
        except (UnicodeEncodeError, binascii.Error):
            return False
        said, signature = found[:-_SIGNATURE], found[-_SIGNATURE:]
        return len(text) == LENGTH and hmac.compare_digest(signature, self._signature(said))

    def _signature(self, said: bytes) -> bytes:
        return hmac.digest(self._key, said, hashlib.sha256)[:_SIGNATURE]


def recommendation_of(text: str) -> Recommended:
    """What a verified id says."""
    found = base64.urlsafe_b64decode(text)
    return Recommended(found[:6].hex(), found[6], int.from_bytes(found[7:11]) // _DAY)


def today() -> int:
    """The day by which recommendations that are made now are counted."""
    return int(time.time()) // _DAY
