"""What a visitor can do on the page beyond picking: undo, more results, titles, images, reasons of long histories."""

from __future__ import annotations

import http.server
import struct
import threading
import zlib
from dataclasses import replace

import pytest

import komd
from komd.serve.schemas import LIMITS
from komd.serve.serve_settings import Settings

from .browsing import BROWSER, holds, names, pick
from .conftest import Running

pytestmark = BROWSER


@pytest.fixture(scope="module")
def service(shop, tmp_path_factory):
    store = tmp_path_factory.mktemp("actions") / "events.db"
    running = Running(Settings(model=shop / "numbers.komd", items=shop / "names.tsv", store=f"sqlite:///{store}"))
    yield running
    running.stop()


@pytest.fixture
def open_page(browser):
    """Open pages; what they throw, or what the content policy stops, fails the test."""
    opened, complaints = [], []

    def start(address, **how):
        page = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce", **how)
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if "Content Security" in said.text else None)
        page.goto(address)
        page.locator("#cards li").first.wait_for()
        opened.append(page)
        return page

    yield start
    for page in opened:
        page.close()
    assert complaints == []


@pytest.fixture
def page(open_page, service):
    return open_page(service.address)


def popular(service, count, skip=0):
    return [one["item_id"] for one in service.get("/v1/items", n=count + skip)["items"]][skip:]


def with_history(open_page, service, ids, fragment=""):
    page = open_page(f"{service.address}/#{'&'.join(ids)}{fragment}")
    holds(page, "n => document.querySelectorAll('#history li').length === n", arg=len(ids))
    page.locator("#cards .why").first.wait_for()
    return page


def shown(page):
    return page.locator("#history li").evaluate_all("all => all.map(li => li.dataset.id)")


def test_clear_all_can_be_undone(open_page, service):
    ids = popular(service, 5)
    page = with_history(open_page, service, ids[:4], f"&not={ids[4]}")
    listed = names(page)
    page.get_by_role("button", name="Clear all").focus()
    page.keyboard.press("Enter")
    holds(page, "document.querySelector('#list-title').textContent === 'Most popular'")
    assert shown(page) == [] and page.locator("#cleared-note").inner_text() == "5 items cleared."
    assert page.evaluate("document.activeElement.id") == "undo-clear"
    described = page.locator("#undo-clear").get_attribute("aria-describedby")
    assert described == "cleared-note"  # a screen reader says with the button what was cleared
    page.keyboard.press("Enter")
    holds(page, "document.querySelector('#list-title').textContent === 'Recommended'")
    assert shown(page) == ids[:4] and page.locator("#disliked li").count() == 1 and names(page) == listed
    assert page.evaluate("document.activeElement.id") == "clear" and page.locator("#cleared").is_hidden()

    page.get_by_role("button", name="Clear all").click()
    holds(page, "document.querySelector('#list-title').textContent === 'Most popular'")
    page.locator("#suggestions button").nth(2).click()
    holds(page, "document.querySelectorAll('#history li').length === 1")
    assert page.locator("#cleared").is_hidden()  # a new beginning: nothing to undo


def test_more_results(page, service):
    pick(page, service.get("/v1/items", n=9)["items"][4]["name"])
    assert page.locator("#cards > li").count() == 10
    for count in (20, 30, 40, 50):
        page.get_by_role("button", name="Show more").click()
        holds(page, "n => document.querySelectorAll('#cards > li').length === n", arg=count)
        at = page.evaluate(
            "[...document.querySelector('#cards').children].indexOf(document.activeElement.closest('li'))"
        )
        assert at == count - 10  # the first of the new ones
        assert page.locator("#cards .moved").count() == 0
    assert page.get_by_role("button", name="Show more").is_hidden()
    assert page.locator("#more-note").inner_text() == f"The first {LIMITS.explained}: a list with reasons has no more."
    answer = service.post("/v1/recommend", {"history": shown(page), "n": LIMITS.explained})
    assert names(page) == [row["name"] for row in answer["items"]]

    page.locator("#cards .main").nth(3).focus()
    page.keyboard.press("Enter")
    holds(page, "document.querySelectorAll('#history li').length === 2")
    answer = service.post("/v1/recommend", {"history": shown(page), "n": LIMITS.explained})
    holds(page, "n => document.querySelector('#cards h3').firstChild.textContent === n", arg=answer["items"][0]["name"])
    assert names(page) == [row["name"] for row in answer["items"]]  # as long as before
    focus = "[...document.querySelector('#cards').children].indexOf(document.activeElement.closest('li'))"
    assert page.evaluate(focus) == 3  # the card that took its place
    page.get_by_role("button", name="Clear all").click()
    holds(page, "document.querySelectorAll('#cards > li').length === 10")


def test_no_more_than_there_are(open_page, service):
    """Under a limit that leaves a few items there is nothing more to show."""
    page = with_history(open_page, service, popular(service, 2))
    with page.expect_response("**/v1/recommend"):
        page.locator("#rare").fill("100")
    holds(page, "document.querySelectorAll('#cards > li').length < 10")
    assert page.get_by_role("button", name="Show more").is_hidden()


def test_a_title_opens_what_is_known_of_an_item(open_page, service):
    ids = popular(service, 30)
    page = with_history(open_page, service, ids)
    first = service.post("/v1/recommend", {"history": ids})["items"][0]
    title = page.locator("#cards h3 .go").first
    assert title.inner_text() == first["name"]
    title.focus()
    page.keyboard.press("Enter")
    page.locator("#similar[open]").wait_for()
    assert page.locator("#similar-title").inner_text() == first["name"]
    assert page.locator("#similar-about dl").inner_text().split() == ["year", first["details"]["year"]]
    near = service.get(f"/v1/items/{first['item_id']}/similar", n=89)["items"]
    left = [one for one in near if one["item_id"] not in ids][:8]
    assert len(left) == 8 and left != near[:8]  # the history hides some, others take their place
    assert page.locator("#similar-list .name").all_inner_texts() == [one["name"] for one in left]
    page.locator("#similar-list .go").nth(2).click()  # and so on, from item to item
    holds(page, "n => document.querySelector('#similar-title').textContent === n", arg=left[2]["name"])
    page.get_by_role("button", name="Add", exact=False).locator("visible=true").first.wait_for()
    page.locator("#similar-list button.plain").first.click()
    holds(page, "n => document.querySelectorAll('#history li').length === n", arg=len(ids) + 1)
    assert page.locator("#similar").is_hidden()


@pytest.mark.parametrize("limit", [0, 60])
def test_the_words_of_a_match(open_page, service, limit):
    """Thirds of the best score that any item gets for this history, also if popular items are left out."""
    ids = popular(service, 3, skip=10)
    page = with_history(open_page, service, ids)
    best = service.post("/v1/recommend", {"history": ids, "n": 1})["items"][0]["score"]
    if limit:
        with page.expect_response("**/v1/recommend"):
            page.locator("#rare").fill(str(limit))
        holds(page, "document.querySelector('#rare-note').textContent.startsWith('Only')")
        page.locator("#cards .match.weak").first.wait_for()
    while page.get_by_role("button", name="Show more").is_visible():
        count = page.locator("#cards > li").count()
        page.get_by_role("button", name="Show more").click()
        holds(page, "n => document.querySelectorAll('#cards > li').length > n", arg=count)
    scores = page.locator("#cards tfoot tr").evaluate_all("all => all.map(row => Number(row.dataset.score))")
    words = page.locator("#cards .match").all_text_contents()
    expected = ["strong" if s >= 2 * best / 3 else "fair" if s >= best / 3 else "weak" for s in scores]
    assert words == [f"{word} match" for word in expected] and "weak" in expected
    if limit:
        relative = ["strong" if s >= 2 * scores[0] / 3 else "fair" if s >= scores[0] / 3 else "weak" for s in scores]
        assert scores[0] < best and expected != relative  # not beside the first of this list
    explained = page.locator("#cards .match").first.get_attribute("title")
    share = round(100 * scores[0] / best)
    assert explained.startswith(f"{expected[0]} match: {share} % of the best score") and "no probability" in explained
    assert (
        page.locator("#cards .why > .note").first.text_content().lower() == explained.lower()
    )  # without a mouse as well


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    """A model with contributions of both signs."""
    folder = tmp_path_factory.mktemp("signed")
    data = komd.generate(users=150, items=90, activity=9, tastes=5, rng=3)
    komd.EASE().fit(data).save(folder / "ease.komd")
    running = Running(Settings(model=folder / "ease.komd", store=f"sqlite:///{folder / 'events.db'}"))
    yield running
    running.stop()


@pytest.mark.parametrize("which", ["service", "signed"])
def test_long_histories_are_summed(open_page, which, request):
    """The largest by name, the others together, what adds apart from what takes away; all of it is the score."""
    service = request.getfixturevalue(which)
    ids = popular(service, 40)
    page = with_history(open_page, service, ids)
    answer = service.post("/v1/recommend", {"history": ids, "explain": True, "reasons": 100})["items"]
    grouped = against = 0
    for row, card in zip(answer, page.locator("#cards > li").all(), strict=True):
        parts = [(one["name"], one["contribution"]) for one in row["why"]["contributions"]]
        assert len(parts) == 40
        named = [(name, part) for name, part in parts if part][:6]
        rest = [part for name, part in parts if (name, part) not in named]
        up, down = [part for part in rest if part > 0], [part for part in rest if part < 0]
        idle = len(rest) - len(up) - len(down)
        expected = [*named]
        if up:
            expected.append(
                (f"and {len(up)} more item{'s' * (len(up) > 1)} together{', for it' * bool(down)}", sum(up))
            )
        if down:
            words = f"and {len(down)} more item{'s' * (len(down) > 1)} together{', against it' * bool(up)}"
            expected.append((words, sum(down)))
        if idle:
            expected.append((f"and {idle} more item{'s' * (idle > 1)} without effect", 0))
        if row["why"]["global_term"]:
            expected.append(("what you did not choose", row["why"]["global_term"]))
        grouped, against = grouped + len(up), against + len(down)
        found = card.locator("tbody tr").evaluate_all(
            "all => all.map(row => [row.querySelector('.part-name').textContent, Number(row.dataset.value)])"
        )
        assert [name for name, _ in found] == [name for name, _ in expected]
        assert [value for _, value in found] == pytest.approx([value for _, value in expected], abs=1e-12)
        assert sum(value for _, value in found) == pytest.approx(row["score"], abs=1e-12)
        pieces = card.locator(".piece").count()
        assert pieces == sum(value > 0 for _, value in expected)
    assert grouped and bool(against) == (which == "signed")


def test_seven_items_are_all_named(open_page, service):
    """A sum of a single item would hide its name for nothing."""
    page = with_history(open_page, service, popular(service, 7))
    rows = page.locator("#cards > li").first.locator("tbody .part-name").all_text_contents()
    assert len(rows) == 8 and not any("more item" in row for row in rows)


def test_a_history_longer_than_a_request(open_page, tmp_path):
    """The newest are used, and the page says so."""
    import pyarrow as pa

    count = LIMITS.history + 60
    users = ["big"] * count + [f"u{k % 40}" for k in range(800)]
    items = [f"i{k}" for k in range(count)] + [f"i{(k * 37) % (count + 20)}" for k in range(800)]
    times = [1_600_000_000 + 60 * k for k in range(count)] + [1_600_000_000] * 800
    table = pa.table({"user": users, "item": items, "time": times})
    komd.CFKOMD(half_life="3000d").fit(komd.read(table, time="time")).save(tmp_path / "long.komd")
    running = Running(Settings(model=tmp_path / "long.komd", store=f"sqlite:///{tmp_path / 'e.db'}"))
    try:
        page = open_page(running.address)
        assert page.locator("#used-note").is_hidden()
        page.locator("#known summary").click()
        page.get_by_label("Id of a known user").fill("big")
        with page.expect_request("**/v1/recommend") as asked:
            page.locator("#users-list [role=option]").get_by_text("big", exact=True).click()
        sent = [one["item_id"] for one in asked.value.post_data_json["history"]]
        assert sent == [f"i{k}" for k in reversed(range(60, count))]
        words = "The service uses at most 2,000 items: the newest 2,000 of 2,060 are used."
        assert page.locator("#used-note").inner_text() == words
        page.locator("#cards .why").first.wait_for()
        listed = page.locator("#cards > li").evaluate_all("all => all.map(li => li.dataset.id)")
        assert listed and not set(listed) & set(items[:count])  # the older ones are left out all the same
    finally:
        running.stop()


# ---- addresses and images --------------------------------------------------------------------------------------


def png():
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    pixels = zlib.compress(b"".join(b"\0" + b"\x20\x60\xd0" * 8 for _ in range(8)))
    head = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


@pytest.fixture(scope="module")
def gallery():
    """A server of images on another port; /broken.png is none."""
    asked = []

    class Images(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers.get("referer")))
            self.send_response(404 if self.path == "/broken.png" else 200)
            self.send_header("content-type", "image/png")
            self.end_headers()
            self.wfile.write(b"" if self.path == "/broken.png" else png())

        def log_message(self, *words):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Images)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()


@pytest.fixture(scope="module")
def catalogue(shop, gallery, service, tmp_path_factory):
    """The most popular items have, in this order: good links and images, a broken image, and what is no address."""
    folder = tmp_path_factory.mktemp("catalogue")
    address, _ = gallery
    ids = popular(service, 90)
    links = ["https://shop.example/item/1?a=b", "javascript:alert(1)", "", "ftp://shop.example/3", "//shop.example/4"]
    covers = [f"{address}/good.png", f"{address}/broken.png", "javascript:alert(1)", "data:image/png;base64,AAAA", ""]
    lines = ["id\tname\tmaker\tLink\tcover"]
    for k, item in enumerate(ids):
        lines.append(f"{item}\tThing {k}\tmaker {k}\t{links[k % 5]}\t{covers[k % 5]}")
    (folder / "items.tsv").write_text("\n".join(lines) + "\n")
    running = Running(
        Settings(
            model=shop / "numbers.komd",
            items=folder / "items.tsv",
            images="cover",
            store=f"sqlite:///{folder / 'events.db'}",
        )
    )
    yield running
    running.stop()


def test_titles_lead_to_the_pages_of_items(open_page, catalogue):
    page = open_page(catalogue.address)
    assert names(page) == [f"Thing {k}" for k in range(10)]
    for k, title in enumerate(page.locator("#cards h3 .go").all()):
        tag = title.evaluate("e => e.tagName")
        assert tag == ("A" if k % 5 == 0 else "BUTTON"), k
        if tag == "A":
            assert title.get_attribute("href") == "https://shop.example/item/1?a=b"
            assert title.get_attribute("target") == "_blank"
            assert title.get_attribute("rel") == "noopener noreferrer"
    about = page.locator("#cards .about").first.inner_text()
    assert "maker 0" in about and "shop.example" not in about
    page.get_by_role("button", name="Similar to Thing 0", exact=True).click()
    page.locator("#similar[open]").wait_for()
    link = page.locator("#similar-about dd a")
    assert link.inner_text() == "shop.example" and link.get_attribute("rel") == "noopener noreferrer"
    page.keyboard.press("Escape")
    page.locator("#cards").get_by_role("button", name="Thing 1", exact=True).click()
    page.locator("#similar[open]").wait_for()
    assert page.locator("#similar-about a").count() == 0
    assert "javascript:alert(1)" in page.locator("#similar-about").inner_text()


def test_images(open_page, catalogue, gallery):
    address, asked = gallery
    page = open_page(catalogue.address)
    loaded = "document.querySelector('#cards > li:first-child .image')?.naturalWidth === 8"
    holds(page, loaded)
    holds(page, "document.querySelectorAll('#cards > li:nth-child(2) .image').length === 0")  # broken: it disappears
    assert ("/broken.png", None) in asked and {referrer for _, referrer in asked} == {None}
    page.locator("#cards > li").nth(9).scroll_into_view_if_needed()
    holds(page, "document.querySelectorAll('#cards .image').length === 2")  # the 1st and the 6th
    for image in page.locator("#cards .image").all():
        assert image.get_attribute("loading") == "lazy" and image.get_attribute("alt") == ""
        assert image.get_attribute("src") == f"{address}/good.png"
    page.get_by_label("Search the catalogue").fill("Thing 5")
    page.locator("#search-list .image").first.wait_for()


def test_images_in_answers(catalogue, service, gallery):
    ids = popular(service, 5)
    found = [catalogue.get(f"/v1/items/{item}") for item in ids]
    good, broken = f"{gallery[0]}/good.png", f"{gallery[0]}/broken.png"
    assert [one["image"] for one in found] == [good, broken, None, None, None]
    assert all("cover" not in one["details"] and "maker" in one["details"] for one in found)
    rows = catalogue.post("/v1/recommend", {"history": []})["items"]
    assert [row["image"] for row in rows[:5]] == [good, broken, None, None, None]
    near = catalogue.get(f"/v1/items/{ids[0]}/similar", n=50)["items"]
    assert {one["image"] for one in near} == {good, broken, None}
    policy = catalogue.client.get("/").headers["content-security-policy"]
    assert "img-src 'self' https: http:;" in policy and "script-src 'self';" in policy
    assert "img-src 'self';" in service.client.get("/").headers["content-security-policy"]


def test_a_page_by_tls_shows_images_by_tls_alone(catalogue):
    secure = Running(replace(catalogue.settings, public_url="https://recs.example"))
    try:
        assert "img-src 'self' https:;" in secure.client.get("/").headers["content-security-policy"]
    finally:
        secure.stop()


def test_an_address_that_anybody_may_have_written(open_page, service):
    """Parts that are no ids are left out: they neither stop the page nor lead it to other parts of the service."""
    (known,) = popular(service, 1)
    page = open_page(f"{service.address}/#%ff&../model&{'9' * 300}&%00&not=%fe&{known}")
    assert page.locator("#history li").evaluate_all("all => all.map((one) => one.dataset.id)") == [known]
