"""Rates: against a slow twin, shared by processes, and as clients see them."""

from __future__ import annotations

import multiprocessing
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from komd.errors import InputError
from komd.serve import rate_limits
from komd.serve.rate_limits import RateLimit, RateSlots, address_key
from komd.serve.serve_settings import Limits

from .conftest import Command, connected


class Bucket:
    """The slow twin: a bucket of `size` requests that fills at `rate` a second."""

    def __init__(self, rate, size):
        self.rate, self.size, self.level, self.last = rate, size, size, None

    def spend(self, now):
        if self.last is not None:
            self.level = min(self.size, self.level + (now - self.last) * self.rate)
        self.last = now
        if self.level < 1 - 1e-9:
            return False
        self.level -= 1
        return True


@given(
    rate=st.sampled_from([0.5, 1.0, 4.0, 8.0, 64.0]),
    pauses=st.lists(st.sampled_from([0.0, 0.0, 0.0, 1 / 128, 1 / 16, 0.25, 1.0, 3.0]), max_size=120),
)
def test_as_a_bucket(rate, pauses):
    now = 1000.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rate_limits.time, "monotonic", lambda: now)
        limit, twin = RateLimit(RateSlots(), "token", rate), Bucket(rate, max(10, 2 * rate))
        for pause in pauses:
            now += pause
            waits = limit.wait(b"k")
            found = limit.spend(b"k")
            assert found == waits and (found == 0) == twin.spend(now)
            if found:  # after so long it may, and a second before not yet
                assert twin.level + (found - 1) * rate < 1 <= twin.level + found * rate
        assert limit.spend(b"another") == 0


def test_keys_do_not_disturb_each_other():
    slots = RateSlots()
    one, other = RateLimit(slots, "address", 1.0), RateLimit(slots, "token", 1.0)
    keys = [b"%d" % k for k in range(500)]
    for _ in range(10):
        assert [one.spend(key) for key in keys] == [0] * 500
    assert all(one.spend(key) for key in keys) and not any(other.spend(key) for key in keys)


def test_more_keys_than_slots():
    limit = RateLimit(RateSlots(), "address", 1.0)
    for k in range(20):
        for number in range(8000):
            limit.spend(b"%d-%d" % (k, number))
    found = [limit.spend(b"fresh") for _ in range(11)]  # somebody else is forgotten
    assert found[:10] == [0] * 10 and found[10] > 0


def test_addresses():
    assert address_key("::ffff:192.0.2.1") == address_key("192.0.2.1") != address_key("192.0.2.2")
    assert address_key("2001:db8:0:1::1") != address_key("2001:db8:0:2::1")
    assert address_key("no address") == b"no address"


def spend_many(folder, count, found):
    limit = RateLimit(RateSlots.shared_or_own(folder), "token", 0.001, burst=200)
    found.put(sum(limit.spend(b"k") == 0 for _ in range(count)))


def test_processes_share_what_they_count(tmp_path):
    RateSlots.share(str(tmp_path))
    assert [path.stat().st_mode & 0o777 for path in tmp_path.iterdir()] == [0o600]
    context = multiprocessing.get_context("spawn")
    found = context.Queue()
    started = [context.Process(target=spend_many, args=(str(tmp_path), 300, found)) for _ in range(2)]
    for process in started:
        process.start()
    passed = found.get(timeout=60) + found.get(timeout=60)
    for process in started:
        process.join()
    assert 200 <= passed < 300  # alone, each lets 200 pass; some may be lost between the two


@pytest.mark.parametrize("rate", [0, -1, 5e-324, float("nan"), float("inf")])
def test_rates_that_are_refused(settings, rate):
    with pytest.raises(InputError, match="token_rate is requests a second"):
        replace(settings, limits=Limits(token_rate=rate)).check()


def ask(service, path="/v1/model", token=None, address=None, count=1):
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    headers |= {} if address is None else {"x-forwarded-for": address}
    return [service.client.get(path, headers=headers) for _ in range(count)]


def codes(answers):
    return {answer.status_code for answer in answers}


def test_rates_of_addresses(settings, serving):
    slow = Limits(address_rate=0.05)
    service = serving(replace(settings, limits=slow, trusted_proxies=("127.0.0.1",)))
    assert codes(ask(service, address="203.0.113.1", count=10)) == {200}
    (refused,) = ask(service, address="203.0.113.1")
    assert refused.status_code == 429 and 1 <= int(refused.headers["retry-after"]) <= 20
    assert "too many requests from this address; try again in" in refused.json()["detail"]
    assert codes(ask(service, address="203.0.113.2")) == {200}
    for path in ("/v1/health", "/v1/ready", "/", "/static/app.js"):
        assert codes(ask(service, path, address="203.0.113.1", count=3)) == {200}
    text = ask(service, "/v1/metrics", address="203.0.113.3")[0].text
    assert 'komd_rate_limited_total{limit="address"} 1.0' in text


@pytest.fixture
def tokens(tmp_path):
    file = tmp_path / "tokens"
    file.write_text("a" * 32 + "\n" + "b" * 32 + "\n")
    return file


def test_rates_of_tokens(settings, serving, tokens):
    service = serving(replace(settings, token_file=tokens, limits=Limits(token_rate=0.05)))
    assert codes(ask(service, token="a" * 32, count=10)) == {200}
    (refused,) = ask(service, token="a" * 32)
    assert (
        refused.status_code == 429 and "with this token" in refused.json()["detail"] and refused.headers["retry-after"]
    )
    assert codes(ask(service, token="b" * 32)) == {200}


def test_guessing_is_limited(settings, serving, tokens):
    service = serving(replace(settings, token_file=tokens, trusted_proxies=("127.0.0.1",)))
    found = codes(ask(service, token="x" * 32, address="203.0.113.1", count=400))
    assert found == {401, 429}
    for _ in range(50):  # on a slow machine one more try may have become free meanwhile
        codes(ask(service, token="x" * 32, address="203.0.113.1", count=5))
        guessed = ask(service, token="a" * 32, address="203.0.113.1")[0]  # even the right one says nothing now
        if guessed.status_code == 429:
            break
    assert guessed.status_code == 429 and "wrong tokens" in guessed.json()["detail"]
    assert codes(ask(service, address="203.0.113.1")) == {401}
    assert codes(ask(service, token="a" * 32, address="203.0.113.2")) == {200}


def test_workers_count_together(shop, tmp_path, tokens):
    config = tmp_path / "komd.toml"
    config.write_text(f'store = "sqlite:///{tmp_path / "e.db"}"\n[limits]\ntoken_rate = 0.02\n')
    words = ["serve", shop / "shop.komd", "--config", config, "--token-file", tokens, "--port", 0, "--workers", 2]
    service = Command(*words).wait()
    try:
        found = []
        for _ in range(40):  # each over a connection of its own, so that both workers are asked
            with connected(service.client.base_url) as one:
                found.append(one.get("/v1/model", headers={"authorization": "Bearer " + "a" * 32}).status_code)
        assert 10 <= found.count(200) <= 12 and set(found) == {200, 429}
    finally:
        service.stop()
