"""Who asked a proxy, and how: the forwarded headers of trusted proxies, and of nobody else.

Each proxy appends the address that it was asked from, so addresses are read from the right, past trusted proxies, to
the first that is not one: what stands left of it may have been written by the client. X-Forwarded-For and RFC 7239's
Forwarded are both understood. A proxy that sets one passes on the other as the client wrote it; so if they name
different clients, neither is believed.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

__all__ = ["ForwardedRequest", "TrustedProxies"]

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

_LONGEST = 2000  # characters of a Forwarded header
_PAIR = re.compile(r'\s*(?:([\w-]+)=("(?:\\.|[^"\\])*"|[^;,"\s]*))?\s*([;,]|$)')


class ForwardedRequest(NamedTuple):
    """A request as the outermost trusted proxy saw it."""

    address: str
    scheme: str | None = None
    host: str | None = None


class TrustedProxies:
    """Addresses and networks whose forwarded headers are believed."""

    def __init__(self, trusted: Sequence[str]) -> None:
        self._networks = [ipaddress.ip_network(text) for text in trusted]
        self._trusts = functools.lru_cache(1024)(self._is_trusted)

    def _is_trusted(self, text: str) -> bool:
        address = _parsed(text)
        return address is not None and any(address in network for network in self._networks)

    def seen(self, peer: str, headers: _Headers) -> ForwardedRequest:
        """Who is behind a connection from `peer`: the peer itself unless it is a trusted proxy."""
        if not self._networks or not self._trusts(peer):
            return ForwardedRequest(peer)
        given = _joined(headers)
        standard = given.get(b"forwarded")
        usual = self._usual(peer, given) if any(name in given for name in _USUAL) else None
        if standard is None:
            return usual or ForwardedRequest(peer)
        found = self._standard(peer, standard)
        if usual is not None and usual.address != found.address:
            return ForwardedRequest(peer)
        return found

    def _walk(self, peer: str, addresses: list[str]) -> tuple[str, int]:
        """The client's address, and how many of the addresses were read from the right to find it."""
        client, hops = peer, 0
        for text in reversed(addresses):
            address = _parsed(text)
            if address is None:  # "unknown", or no address at all: the proxy that said so is all that is known
                break
            client, hops = str(address), hops + 1
            if not self._trusts(client):
                break
        return client, hops

    def _usual(self, peer: str, given: dict[bytes, str]) -> ForwardedRequest:
        client, hops = self._walk(peer, _parts(given.get(b"x-forwarded-for", "")))

        def said(name: bytes) -> str | None:
            values = _parts(given.get(name, ""))
            return values[max(len(values) - max(hops, 1), 0)] if values else None  # a proxy appends, or replaces all

        scheme = said(b"x-forwarded-proto")
        return ForwardedRequest(client, None if scheme is None else scheme.lower(), said(b"x-forwarded-host"))

    def _standard(self, peer: str, text: str) -> ForwardedRequest:
        elements = _elements(text[: _LONGEST + 1])
        if elements is None or len(text) > _LONGEST:
            return ForwardedRequest(peer)
        client, hops = self._walk(peer, [element.get("for", "unknown") for element in elements])
        if not hops:
            return ForwardedRequest(peer)
        outermost = elements[len(elements) - hops]
        scheme = outermost.get("proto")
        return ForwardedRequest(client, None if scheme is None else scheme.lower(), outermost.get("host"))


_USUAL = (b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host")


def _joined(headers: _Headers) -> dict[bytes, str]:
    """The forwarded headers; several of one name are one, as HTTP has it."""
    found: dict[bytes, str] = {}
    for name, value in headers:
        if name == b"forwarded" or name in _USUAL:
            text = value.decode("latin-1")
            found[name] = f"{found[name]},{text}" if name in found else text
    return found


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if text.strip() else []


def _elements(text: str) -> list[dict[str, str]] | None:
    """The elements of a Forwarded header; None if it is not written as one.

    A quote that a client leaves open would end at the first one of the proxy's own element, which would then be read as
    a part of the client's: so all of the text must be read, pair by pair.

    >>> _elements('for=192.0.2.1;proto=https, for="[2001:db8::1]:80"')
    [{'for': '192.0.2.1', 'proto': 'https'}, {'for': '[2001:db8::1]:80'}]
    >>> _elements('for=6.6.6.6;a=", for="[2001:db8::1]:80"') is None
    True
    """
    found: list[dict[str, str]] = [{}]
    at = 0
    while at <= len(text):
        pair = _PAIR.match(text, at)
        if pair is None:
            return None
        if pair[1]:
            found[-1][pair[1].lower()] = _unquoted(pair[2])
        if not pair[3]:
            return found
        if pair[3] == ",":
            found.append({})
        at = pair.end()
    return found


def _unquoted(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value


@functools.lru_cache(1024)
def _parsed(text: str) -> Address | None:
    """An address, with or without a port; None for any other text.

    >>> _parsed("192.0.2.1:80"), _parsed("[2001:db8::1]:80"), _parsed("::ffff:192.0.2.1"), _parsed("unknown")
    (IPv4Address('192.0.2.1'), IPv6Address('2001:db8::1'), IPv4Address('192.0.2.1'), None)
    """
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
