"""How many requests a second a token or an address may send, counted over all workers.

For each of them one number is kept, the time at which its next request is due if they are sent evenly (the generic
cell rate algorithm): a request is refused if it comes earlier than that by more than a burst. The numbers are in memory
that all workers map, of the clock that all processes share; a number lost between two workers lets one request pass.
"""

from __future__ import annotations

import functools
import hashlib
import ipaddress
import math
import mmap
import os
import secrets
import time
from pathlib import Path

__all__ = ["RateLimit", "RateSlots", "address_key", "address_name"]

_FILE = "komd-rates"
_WAYS = 4  # slots among which a key has its place
_BUCKETS = 1 << 14
_SECRET = 16  # bytes at the beginning: keys are hashed with it, so that nobody can choose whose slot to share
_SIZE = _SECRET + 16 * _WAYS * _BUCKETS  # a slot is a tag and a time, 8 bytes each
_FEWEST = 10  # requests that may come at once, whatever the rate


class RateSlots:
    """The slots: those in the file that workers share, or those of this process alone."""

    def __init__(self, shared: Path | None = None) -> None:
        if shared is None:
            self._memory = mmap.mmap(-1, _SIZE)
            self._memory[:_SECRET] = secrets.token_bytes(_SECRET)
        else:
            with shared.open("r+b") as file:
                self._memory = mmap.mmap(file.fileno(), _SIZE)
        self._secret = self._memory[:_SECRET]
        view = memoryview(self._memory)[_SECRET:]
        # Each is read and written as one aligned word, so another worker never sees half of one.
        self._tags, self._times = view.cast("Q"), view.cast("d")

    @staticmethod
    def shared_or_own(folder: str | None) -> RateSlots:
        """Those of the workers that share a folder; without one, of this process."""
        shared = None if folder is None else Path(folder) / _FILE
        return RateSlots(shared if shared is not None and shared.is_file() else None)

    @staticmethod
    def share(folder: str) -> None:
        """Make the file that workers share, for its owner alone."""
        opened = os.open(Path(folder) / _FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(opened, "wb") as file:
            file.write(secrets.token_bytes(_SECRET))
            file.truncate(_SIZE)

    def _find(self, key: bytes) -> tuple[int, int, range]:
        """The place of a key, or -1; its tag; the places where it may be."""
        digest = hashlib.blake2b(key, digest_size=16, key=self._secret).digest()
        tag = int.from_bytes(digest[:8]) | 1  # 0 is an empty slot
        first = 2 * _WAYS * (int.from_bytes(digest[8:]) % _BUCKETS)
        places = range(first, first + 2 * _WAYS, 2)
        return next((place for place in places if self._tags[place] == tag), -1), tag, places

    def due(self, key: bytes) -> float:
        """The time of a key; 0 if it has none."""
        place, _, _ = self._find(key)
        return self._times[place + 1] if place >= 0 else 0.0

    def put(self, key: bytes, when: float) -> None:
        """Another time of a key. If it has no slot yet, it takes the one among its few that is due soonest."""
        place, tag, places = self._find(key)
        if place < 0:
            place = min(places, key=lambda place: self._times[place + 1])
            self._tags[place] = tag
        self._times[place + 1] = when


class RateLimit:
    """A limit of requests a second for each key of one kind; twice as many, or ten, may come at once."""

    def __init__(self, slots: RateSlots, kind: str, per_second: float, burst: float | None = None) -> None:
        self.kind = kind
        self._slots = slots
        self._interval = 1 / per_second
        self._early = (max(_FEWEST, 2 * per_second if burst is None else burst) - 1) * self._interval

    def wait(self, key: bytes) -> int:
        """After how many seconds the next request of this key may come: 0 if it may now."""
        return self._wait(self._slots.due(self.kind.encode() + key), time.monotonic())

    def _wait(self, due: float, now: float) -> int:
        return max(math.ceil(due - now - self._early), 0)

    def spend(self, key: bytes) -> int:
        """Count a request; returns 0, or what `wait` does if it is one too many, which is not counted."""
        now, key = time.monotonic(), self.kind.encode() + key
        due = self._slots.due(key)
        if wait := self._wait(due, now):
            return wait
        self._slots.put(key, max(due, now) + self._interval)
        return 0


@functools.lru_cache(4096)
def address_key(address: str) -> bytes:
    """What counts as one address: of IPv6 the network of 64 bits, which one customer has all of.

    >>> address_key("2001:db8::1") == address_key("2001:db8::2"), address_key("192.0.2.1") == address_key("192.0.2.2")
    (True, False)
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address.encode()
    parsed = getattr(parsed, "ipv4_mapped", None) or parsed
    return parsed.packed[:8] if parsed.version == 6 else parsed.packed


@functools.lru_cache(4096)
def address_name(address: str) -> str:
    """What counts as one address, as text: requests of one customer are those of one client.

    >>> address_name("2001:db8::1"), address_name("192.0.2.1"), address_name("::ffff:192.0.2.1"), address_name("unix")
    ('2001:db8::/64', '192.0.2.1', '192.0.2.1', 'unix')
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    parsed = getattr(parsed, "ipv4_mapped", None) or parsed
    return str(parsed) if parsed.version == 4 else f"{ipaddress.ip_address(address_key(address) + bytes(8))}/64"
