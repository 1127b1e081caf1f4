"""The page through TLS, with the recipes of docs/guide/serving.md as they stand there, in real proxies."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.serve.conftest import Command, until

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
PATH = os.environ.get("PATH", "") + os.pathsep + "/usr/sbin"
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the path")
GUIDE = (Path(__file__).parents[2] / "docs" / "guide" / "serving.md").read_text(encoding="utf-8")


def recipe(language):
    """The one code block of this language in the guide."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.M | re.S)
    return found


def changed(text, **pairs):
    """The recipe with what differs here: ports and files. Each must be in it."""
    for before, after in pairs.values():
        assert before in text, before
        text = text.replace(before, after)
    return text


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def nginx(folder, port, upstream):
    certificate = ["-keyout", "tls.key", "-out", "tls.pem", "-days", "2", "-subj", "/CN=recs.example"]
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *certificate]
    subprocess.run(make, cwd=folder, check=True, capture_output=True)
    server = changed(
        recipe("nginx"),
        port=("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;"),
        certificate=("/etc/ssl/recs.example.pem", f"{folder}/tls.pem"),
        key=("/etc/ssl/recs.example.key", f"{folder}/tls.key"),
        upstream=("http://127.0.0.1:8000", upstream),
    )
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    start = f"daemon off; pid {folder}/pid; error_log {folder}/log; events {{}}"
    whole = f"{start} http {{ access_log off; {temporary} {server} }}"
    (folder / "nginx.conf").write_text(whole)
    return ["-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "log")]


def caddy(folder, port, upstream):
    site = changed(
        recipe("caddy"),
        port=("recs.example {", f"https://recs.example:{port} {{\n    tls internal"),  # no certificate can be had here
        upstream=("127.0.0.1:8000", upstream.removeprefix("http://")),
    )
    options = "{\n admin off\n auto_https disable_redirects\n skip_install_trust\n}\n"
    (folder / "Caddyfile").write_text(options + site)
    return ["run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]


@pytest.fixture(scope="module", params=[nginx, caddy], ids=["nginx", "caddy"])
def proxied(request, shop, tmp_path_factory):
    """The address of a service behind a proxy, and the service itself."""
    name = request.param.__name__
    program = shutil.which(name, path=PATH)
    if program is None:
        pytest.skip(f"no {name} here: install Debian's {name}")
    folder, port = tmp_path_factory.mktemp(name), free_port()
    address = f"https://recs.example:{port}"
    rates = folder / "komd.toml"
    rates.write_text(f'store = "sqlite:///{folder / "e.db"}"\n[limits]\naddress_rate = 10\n')
    words = ["--public-url", address, "--trusted-proxy", "127.0.0.1", "--port", 0, "--config", rates]
    service = Command("serve", shop / "numbers.komd", "--items", shop / "names.tsv", *words).wait()
    command = [program, *request.param(folder, port, str(service.client.base_url).rstrip("/"))]
    environment = os.environ | {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    with (folder / "out").open("wb") as out:
        proxy = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
    try:
        assert until(lambda: answers(port) or proxy.poll() is not None, seconds=60)
        assert proxy.poll() is None, (folder / "out").read_text()
        yield address, port, service
    finally:
        proxy.terminate()
        proxy.wait(20)
        service.stop()


def answers(port):
    try:
        return through(port, "/v1/ready").status_code == 200
    except httpx.TransportError:
        return False


def through(port, path, method="GET", client=None, **how):
    """A request to the proxy by the name that it serves, from an address that is no proxy's."""
    if client is None:
        with visitor() as client:
            return through(port, path, method, client, **how)
    headers = {"host": f"recs.example:{port}"} | how.pop("headers", {})
    address = f"https://127.0.0.1:{port}{path}"
    return client.request(method, address, headers=headers, extensions={"sni_hostname": "recs.example"}, **how)


def visitor():
    return httpx.Client(transport=httpx.HTTPTransport(verify=False, local_address="127.0.0.2"))


def test_the_page_recommends_through_tls(proxied):
    address, _, _ = proxied
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=CHROMIUM, args=[*arguments, "--host-resolver-rules=MAP recs.example 127.0.0.1"]
        )
        try:
            page = browser.new_page(ignore_https_errors=True)
            complaints = []
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("response", lambda answer: complaints.append(answer.url) if answer.status >= 400 else None)
            page.goto(address)
            page.locator("#cards li").first.wait_for()
            page.get_by_label("Search the catalogue").fill("lan")
            page.locator("#search-list [role=option][aria-selected=true]").wait_for()
            with page.expect_response("**/v1/recommend") as asked:
                page.keyboard.press("Enter")
            assert asked.value.status == 200 and asked.value.request.method == "POST"
            page.locator("#history li").first.wait_for()
            assert page.locator("#cards li").count() > 3
            assert complaints == []
        finally:
            browser.close()


def test_requests_through_the_proxy(proxied):
    address, port, service = proxied
    assert through(port, "/v1/model", headers={"origin": address}).status_code == 200
    for origin in ("https://evil.example", f"http://recs.example:{port}"):
        assert through(port, "/v1/model", headers={"origin": origin}).status_code == 403
    body = {"events": [{"user_id": "a/b ü", "item_id": "3"}]}
    assert through(port, "/v1/events", "POST", json=body, headers={"origin": address}).status_code == 200
    assert through(port, "/v1/users/a%2Fb%20%C3%BC").json()["user_id"] == "a/b ü"  # the path arrives as it was sent
    assert through(port, "/v1/ready", "HEAD").status_code == 200
    assert service.client.get("/v1/model", headers={"host": "evil.example"}).status_code == 421


def test_clients_cannot_choose_their_address(proxied):
    """Each lies differently, and all are the one client that they are."""
    _, port, _ = proxied
    found = set()
    with visitor() as client:
        for k in range(2000):
            lies = {"x-forwarded-for": f"203.0.113.{k % 250}", "forwarded": f"for=203.0.113.{k % 250}"}
            found.add(through(port, "/v1/model", client=client, headers=lies).status_code)
            if 429 in found:
                break
    assert 429 in found
