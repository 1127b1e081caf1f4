"""The client behind a proxy: headers of trusted proxies, lies of others, and what the service makes of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from komd.serve import request_context
from komd.serve.forwarded import ForwardedRequest, TrustedProxies

from .conftest import code, request

PROXIES = TrustedProxies(["10.0.0.0/8", "2001:db8:1::/48", "127.0.0.1"])


def seen(peer, **headers):
    given = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    return PROXIES.seen(peer, given)


@pytest.mark.parametrize("peer", ["192.0.2.1", "", "unix", "2001:db8:2::1"])
def test_others_are_not_believed(peer):
    said = {"x_forwarded_for": "203.0.113.9", "x_forwarded_proto": "https", "forwarded": "for=203.0.113.9"}
    assert seen(peer, **said) == ForwardedRequest(peer)
    assert TrustedProxies([]).seen("127.0.0.1", [(b"x-forwarded-for", b"203.0.113.9")]).address == "127.0.0.1"


@pytest.mark.parametrize(
    ("addresses", "client"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("6.6.6.6, 203.0.113.9", "203.0.113.9"),  # what the client wrote stands at the left
        ("6.6.6.6, 203.0.113.9, 10.1.1.1", "203.0.113.9"),  # two trusted proxies in a row
        ("6.6.6.6,203.0.113.9 , 10.1.1.1,10.2.2.2", "203.0.113.9"),
        ("10.1.1.1, 10.2.2.2", "10.1.1.1"),  # a client in the network of the proxies
        ("203.0.113.9:4711", "203.0.113.9"),
        ("[2001:db8:9::1]:4711", "2001:db8:9::1"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("unknown", "10.0.0.1"),
        ("6.6.6.6, unknown", "10.0.0.1"),  # what stands left of nonsense is not known to be true
        ("6.6.6.6, <script>, 10.1.1.1", "10.1.1.1"),
        ("", "10.0.0.1"),
        (", ,", "10.0.0.1"),
    ],
)
def test_addresses_are_read_from_the_right(addresses, client):
    assert seen("10.0.0.1", x_forwarded_for=addresses).address == client
    assert seen("::ffff:10.0.0.1", x_forwarded_for=addresses).address in (client, "::ffff:10.0.0.1")
    if client != "10.0.0.1" and ":" not in addresses and "<" not in addresses:
        standard = ", ".join(f"for={part.strip()}" for part in addresses.split(","))
        assert seen("10.0.0.1", forwarded=standard).address == client


def test_several_headers_are_one():
    given = [(b"x-forwarded-for", b"6.6.6.6"), (b"x-forwarded-for", b"203.0.113.9"), (b"x-forwarded-for", b"10.9.9.9")]
    assert PROXIES.seen("10.0.0.1", given).address == "203.0.113.9"


def test_scheme_and_host():
    found = seen("10.0.0.1", x_forwarded_for="203.0.113.9", x_forwarded_proto="HTTPS", x_forwarded_host="recs.example")
    assert found == ForwardedRequest("203.0.113.9", "https", "recs.example")
    found = seen("10.0.0.1", x_forwarded_for="6.6.6.6, 203.0.113.9", x_forwarded_proto="gopher, https")
    assert found.scheme == "https"  # the first was written by the client
    found = seen(
        "10.0.0.1",
        forwarded='for=6.6.6.6;host=evil.example, For="[2001:db8:9::1]:47";proto=https;host="recs.example:8443";by=x, '
        "for=10.3.3.3;proto=http;host=inner",
    )
    assert found == ForwardedRequest("2001:db8:9::1", "https", "recs.example:8443")


def test_headers_that_contradict_each_other_are_not_believed():
    """A proxy that writes one of the two passes on the other as the client wrote it."""
    assert seen("10.0.0.1", x_forwarded_for="203.0.113.9", forwarded="for=203.0.113.9").address == "203.0.113.9"
    assert seen("10.0.0.1", x_forwarded_for="203.0.113.9", forwarded="for=6.6.6.6") == ForwardedRequest("10.0.0.1")


@pytest.mark.parametrize("text", ["", ";", "for", "for=", 'for="', "\x00", "=;,=", '"' + r"\"" * 900, '",' * 15_000])
def test_nonsense_is_not_believed(text):
    assert seen("10.0.0.1", forwarded=text).address == "10.0.0.1"


@pytest.fixture
def clients(monkeypatch):
    """Who the service takes the client of each request for."""
    found = []
    usual = request_context.enter
    monkeypatch.setattr(request_context, "enter", lambda context: found.append(context.client) or usual(context))
    return found


def test_the_service_behind_a_proxy(settings, serving, clients):
    public = replace(settings, public_url="https://recs.example", trusted_proxies=("127.0.0.1",))
    assert "anyone who reaches https://recs.example" in public.check()[0]
    service = serving(public)
    forwarded = ["X-Forwarded-For: 6.6.6.6, 203.0.113.9", "X-Forwarded-Proto: https"]
    for host in ("recs.example", "Recs.Example:443", "127.0.0.1"):
        for origin in ([], ["Origin: https://recs.example"]):
            assert code(service.send(request("GET", "/v1/model", *forwarded, *origin, host=host))) == 200
    assert set(clients) == {"203.0.113.9"}
    for origin in ("http://recs.example", "https://recs.example:444", "https://evil.example", "null"):
        assert code(service.send(request("GET", "/v1/model", f"Origin: {origin}", host="recs.example"))) in (200, 403)
        answer = service.send(request("GET", "/v1/model", *forwarded, f"Origin: {origin}", host="recs.example"))
        assert code(answer) == 403 and b"--public-url" in answer, origin
    # a foreign page that reaches this machine by its own name can send any header, except Host
    rebound = ["X-Forwarded-Host: recs.example", "Forwarded: for=1.2.3.4;host=recs.example;proto=https"]
    assert code(service.send(request("GET", "/v1/model", *rebound, host="evil.example"))) == 421


def test_without_trusted_proxies_the_headers_mean_nothing(settings, serving, clients):
    service = serving(settings)
    lies = ["X-Forwarded-For: 203.0.113.9", "X-Forwarded-Proto: https", "X-Forwarded-Host: recs.example"]
    assert code(service.send(request("GET", "/v1/model", *lies))) == 200
    assert clients == ["127.0.0.1"]
    assert code(service.send(request("GET", "/v1/model", *lies, "Origin: https://recs.example"))) == 403
    assert code(service.send(request("GET", "/v1/model", *lies, host="recs.example"))) == 421


def test_a_trusted_proxy_says_which_origin_is_ours(settings, serving):
    service = serving(replace(settings, trusted_proxies=("127.0.0.0/8",)))
    ours = ["X-Forwarded-Proto: https", "X-Forwarded-Host: recs.example", "Origin: https://recs.example"]
    assert code(service.send(request("GET", "/v1/model", *ours))) == 200
    assert code(service.send(request("GET", "/v1/model", *ours[1:]))) == 403


def test_an_open_quote_does_not_take_in_what_the_proxy_added():
    """The client leaves a quote open, which the first quote of the proxy would close."""
    for lie in ('for=6.6.6.6;a="', 'for=6.6.6.6;a="b\\', 'for="', 'for=6.6.6.6;a="";b="'):
        for truth in ('for="[2001:db8:9::1]:47"', 'for="203.0.113.9";proto=https', "for=203.0.113.9"):
            assert seen("10.0.0.1", forwarded=f"{lie}, {truth}").address in ("10.0.0.1", "203.0.113.9"), (lie, truth)
            given = [(b"forwarded", lie.encode()), (b"forwarded", truth.encode())]
            assert PROXIES.seen("10.0.0.1", given).address in ("10.0.0.1", "203.0.113.9"), (lie, truth)
    assert seen("10.0.0.1", forwarded='for=6.6.6.6, for="203.0.113.9";by="a,b;c"; proto=http').scheme == "http"


def test_addresses_of_one_ipv6_network_are_one_client(settings, serving, clients):
    service = serving(replace(settings, trusted_proxies=("127.0.0.1",)))
    for address in ("2001:db8:7::1", "2001:db8:7::2:1", "2001:db8:8::1", "203.0.113.9", "::ffff:203.0.113.9"):
        assert code(service.send(request("GET", "/v1/model", f"X-Forwarded-For: {address}"))) == 200
    assert clients == ["2001:db8:7::/64"] * 2 + ["2001:db8:8::/64"] + ["203.0.113.9"] * 2
