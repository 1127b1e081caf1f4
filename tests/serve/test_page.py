"""The page in a real browser: what a visitor does and sees, with keyboard, screen reader and small screens."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import numpy as np
import pytest

import komd
from komd.data.interactions import Interactions
from komd.serve.serve_settings import Settings

from .browsing import BROWSER, barriers, holds, names, pick
from .conftest import Running

pytestmark = BROWSER


@pytest.fixture(scope="module")
def service(shop, tmp_path_factory):
    """Integer ids with names, one of them hostile."""
    store = tmp_path_factory.mktemp("page") / "events.db"
    running = Running(Settings(model=shop / "numbers.komd", items=shop / "names.tsv", store=f"sqlite:///{store}"))
    yield running
    running.stop()


@pytest.fixture
def page(browser, service, request):
    """An open page; what it throws, or what the content policy stops, fails the test."""
    how = getattr(request, "param", {})
    opened = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce", **how)
    complaints = []
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    asked = []
    opened.on("request", lambda sent: asked.append(sent.url))
    opened.goto(service.address)
    opened.locator("#cards li").first.wait_for()
    yield opened
    assert complaints == []
    assert all(url.startswith(service.address) for url in asked)  # nothing comes from elsewhere
    opened.close()


def service_says(service, history, **how):
    return service.post("/v1/recommend", {"history": history, "n": 10, "explain": True, "reasons": 6, **how})


def item(service, name):
    return service.get("/v1/items", q=name)["items"][0]


def test_search_add_reasons_remove(page, service):
    assert page.locator("#list-title").inner_text() == "Most popular"
    known = service.get("/v1/items", n=40)["items"][12]
    typo = known["name"][:3] + known["name"][4:]  # a letter is missing
    first = pick(page, typo, known["name"])
    assert first == known["name"]
    other = service.get("/v1/items", n=40)["items"][25]
    second = pick(page, other["name"])
    ids = [other["item_id"], known["item_id"]]
    answer = service_says(service, ids)
    holds(page, "n => document.querySelector('#cards h3').firstChild.textContent === n", arg=answer["items"][0]["name"])
    assert names(page) == [row["name"] for row in answer["items"]]
    assert page.locator("#list-title").inner_text() == "Recommended"

    # Every chart adds up to its score, as drawn and as written.
    for row, card in zip(answer["items"], page.locator("#cards > li").all(), strict=True):
        parts = [float(part.get_attribute("data-value")) for part in card.locator("tbody tr").all()]
        score = float(card.locator("tfoot tr").get_attribute("data-score"))
        assert score == row["score"] and sum(parts) == pytest.approx(score, abs=1e-12)
        written = [cell.replace("−", "-") for cell in card.locator("tbody .number").all_text_contents()]
        shown = float(card.locator("tfoot .number").text_content().replace("−", "-"))
        assert sum(map(float, written)) == pytest.approx(
            shown, abs=0.51 * 10 ** -len(written[0].split(".")[1]) * (len(written) + 1)
        )
    widths = (
        page.locator("#cards > li")
        .first.locator(".piece")
        .evaluate_all("all => all.map(p => parseFloat(p.style.width))")
    )
    parts = [
        float(part.get_attribute("data-value")) for part in page.locator("#cards > li").first.locator("tbody tr").all()
    ]
    positive = [part for part in parts if part > 0]
    assert [w / widths[0] for w in widths] == pytest.approx([p / positive[0] for p in positive], rel=1e-3)
    tick = page.locator("#cards > li .tick").first.evaluate("t => parseFloat(t.style.left)")
    assert tick / sum(widths) == pytest.approx(answer["items"][0]["score"] / sum(positive), rel=1e-3)

    # Taking one away changes the list, and says what changed.
    with page.expect_response("**/v1/recommend"):
        page.get_by_role("button", name=f"Remove {second}").click()
    holds(page, "document.querySelectorAll('#history li').length === 1")
    after = service_says(service, [known["item_id"]])
    holds(page, "n => document.querySelector('#cards h3').firstChild.textContent === n", arg=after["items"][0]["name"])
    assert names(page) == [row["name"] for row in after["items"]]
    before = [row["item_id"] for row in answer["items"]]
    for row, card in zip(after["items"], page.locator("#cards > li").all(), strict=True):
        mark = card.locator(".moved")
        if row["item_id"] not in before:
            assert mark.text_content() == "new"
        elif (was := before.index(row["item_id"]) + 1) != row["rank"]:
            assert mark.text_content() == f"{'▲' if was > row['rank'] else '▼'}{abs(was - row['rank'])}"
        else:
            assert mark.count() == 0
    holds(page, "document.querySelector('#spoken').textContent.includes('Recommended first')")
    page.get_by_role("button", name="Clear all").click()
    holds(page, "document.querySelector('#list-title').textContent === 'Most popular'")


def test_the_whole_by_keyboard(page, service):
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.get_by_label("Search the catalogue").focus()
    page.locator("#search-list [role=option]").first.wait_for()
    for key in ("ArrowDown", "ArrowDown", "ArrowUp"):
        page.keyboard.press(key)
    marked = page.locator("#search-input").get_attribute("aria-activedescendant")
    assert marked == "search-option-0"
    page.keyboard.press("Escape")
    assert page.locator("#search-input").get_attribute("aria-expanded") == "false"
    name = pick(page, service.get("/v1/items", n=5)["items"][3]["name"])
    page.keyboard.press("Escape")
    add = page.locator("#cards .main").first
    added = names(page)[0]
    add.focus()
    page.keyboard.press("Enter")
    page.locator("#history li", has_text=added).wait_for()
    page.get_by_role("button", name=f"Remove {name}").focus()
    page.keyboard.press("Enter")
    holds(page, "document.querySelectorAll('#history li').length === 1")
    assert page.evaluate("document.activeElement.closest('#history') !== null")  # focus does not fall off the page


def test_history_survives_reloading(page, service):
    name = pick(page, service.get("/v1/items", n=9)["items"][8]["name"])
    listed = names(page)
    page.reload()
    page.locator("#history li", has_text=name).wait_for()
    holds(page, "document.querySelector('#cards').dataset.fallback === 'no'")
    assert names(page) == listed


def test_a_known_user_similar_items_and_rare_ones(page, service):
    page.locator("#known summary").click()
    page.get_by_label("Id of a known user").fill("12")
    page.locator("#users-list [role=option]", has_text="120").first.wait_for()
    page.locator("#users-list [role=option]").get_by_text("120", exact=True).click()
    held = [entry["item_id"] for entry in service.get("/v1/users/120")["items"]]
    holds(page, "n => document.querySelectorAll('#history li').length === n", arg=len(held))
    answer = service.post("/v1/recommend", {"user_id": "120"})
    holds(page, "n => document.querySelector('#cards h3').firstChild.textContent === n", arg=answer["items"][0]["name"])
    assert names(page) == [row["name"] for row in answer["items"]]
    assert f"{len(held)} items, from 120" in page.locator("#history-note").inner_text()

    # The plot marks every recommended item at its rank and its count, on log scales.
    marks = page.locator("#plot .theirs title").all_text_contents()
    assert sorted(marks) == sorted(f"{row['name']}: chosen by {row['popularity']}" for row in answer["items"])
    assert page.locator("#plot .mine").count() == len(held)

    best = answer["items"][0]
    page.get_by_role("button", name=f"Similar to {best['name']}").click()
    near = service.get(f"/v1/items/{best['item_id']}/similar", n=60)["items"]
    assert {one["item_id"] for one in near[:8]} & set(held)
    page.locator("#similar[open]").wait_for()
    left = [one["name"] for one in near if one["item_id"] not in held][:8]  # what is in the history is left out
    assert page.locator("#similar-list .name").all_inner_texts() == left and len(left) == 8
    page.keyboard.press("Escape")

    with page.expect_response("**/v1/recommend"):
        page.locator("#rare").fill("70")
    holds(page, "document.querySelector('#rare-note').textContent.startsWith('Only')")
    note = page.locator("#rare-note").inner_text()
    limit = int(re.search(r"at most ([\d,]+)", note)[1].replace(",", ""))
    rare = service.post("/v1/recommend", {"user_id": "120", "max_popularity": limit})
    holds(page, "n => document.querySelector('#cards h3').firstChild.textContent === n", arg=rare["items"][0]["name"])
    assert names(page) == [row["name"] for row in rare["items"]]
    assert max(row["popularity"] for row in rare["items"]) <= limit < max(row["popularity"] for row in answer["items"])


def dislikes(page):
    return page.locator("#disliked .name").all_inner_texts()


def test_not_for_me_and_undo(page, service):
    known = service.get("/v1/items", n=40)["items"][12]
    pick(page, known["name"])
    before = service_says(service, [known["item_id"]])["items"]
    assert page.locator("#disliked-part").is_hidden()
    page.get_by_role("button", name=f"Not for me: {before[1]['name']}").focus()
    with page.expect_response("**/v1/recommend"):
        page.keyboard.press("Enter")
    after = service_says(service, [known["item_id"]], dislikes=[before[1]["item_id"]])["items"]
    holds(
        page,
        "n => [...document.querySelectorAll('#cards h3')].every(h => h.firstChild.textContent !== n)",
        before[1]["name"],
    )
    assert names(page) == [row["name"] for row in after]
    assert dislikes(page) == [before[1]["name"]]
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == f"Not for me: {after[1]['name']}"
    page.reload()
    page.locator("#disliked li").wait_for()
    holds(page, "document.querySelector('#cards').dataset.fallback === 'no'")
    assert names(page) == [row["name"] for row in after]
    with page.expect_response("**/v1/recommend"):
        page.get_by_role("button", name=f"Undo: {before[1]['name']}").click()
    holds(page, "n => document.querySelectorAll('#cards h3')[1].firstChild.textContent === n", before[1]["name"])
    assert names(page) == [row["name"] for row in before]
    assert page.locator("#disliked-part").is_hidden()
    with page.expect_response("**/v1/recommend"):
        page.get_by_role("button", name=f"Not for me: {before[0]['name']}").click()
    page.locator("#disliked li").wait_for()
    pick(page, before[0]["name"], before[0]["name"])  # who adds it no longer dislikes it
    assert page.locator("#disliked-part").is_hidden()
    page.get_by_role("button", name="Clear all").click()
    holds(page, "document.querySelector('#list-title').textContent === 'Most popular'")


def test_dislikes_weights_and_times_of_a_known_user(browser, serving, settings, tmp_path):
    """The list is the user's own, and reasons name what is disliked."""
    data = komd.generate(users=60, items=40, activity=6, tastes=4, rng=8)
    times = (int(time.time()) - 86_400 * np.arange(data.pairs)).astype(np.int64)
    parts = (data.users, data.items, data.indptr, data.indices, times)
    data = Interactions(*parts, weights=1.0 + np.arange(data.pairs, dtype=np.float32) % 3, time_unit="s")
    komd.CFKOMD(half_life="30d", dislikes_weight=1.0).fit(data).save(tmp_path / "timed.komd")
    running = serving(replace(settings, model=tmp_path / "timed.komd"))
    user = data.users[3]
    hated = running.post("/v1/recommend", {"user_id": user, "n": 1})["items"][0]
    running.post("/v1/events", {"events": [{"user_id": user, "item_id": hated["item_id"], "kind": "disliked"}]})
    answer = running.post("/v1/recommend", {"user_id": user, "explain": True})["items"]
    page = browser.new_page()
    page.goto(running.address)
    page.locator("#known summary").click()
    page.get_by_label("Id of a known user").fill(user)
    page.locator("#users-list [role=option]").get_by_text(user, exact=True).click()
    page.locator("#disliked li").wait_for()
    assert dislikes(page) == [hated["name"]]
    holds(page, "n => document.querySelector('#cards h3').firstChild.textContent === n", answer[0]["name"])
    assert names(page) == [row["name"] for row in answer]
    scores = page.locator("#cards tfoot tr").evaluate_all("all => all.map(row => Number(row.dataset.score))")
    assert scores == pytest.approx([row["score"] for row in answer], rel=1e-4)
    row = page.locator("#cards tbody tr", has_text=f"because you dislike {hated['name']}").first
    assert float(row.get_attribute("data-value")) < 0 and row.locator(".part.minus").count() == 1
    page.close()


def test_answers_are_drawn_within_a_tenth_of_a_second(page, service):
    """Not a measure of speed: that the page asks once for a click, at once, and waits for nothing else."""
    asked = []
    page.on("request", lambda sent: asked.append(sent.url) if "/v1/" in sent.url else None)
    with page.expect_response("**/v1/recommend"):
        page.locator("#suggestions button").first.click()
    holds(page, "document.querySelector('#cards').dataset.fallback === 'no'")
    assert [url.split("/v1/")[1] for url in asked] == ["recommend"]
    assert re.fullmatch(r"answered in \d+ ms", page.locator("#took").inner_text())


def test_hostile_names_are_text(page, service):
    hostile = service.get("/v1/items/3")["name"]
    assert hostile.startswith("<script>")
    pick(page, "script window hit", hostile)
    page.locator("#history li").first.wait_for()
    assert page.locator("#history li .name").inner_text() == hostile
    assert page.locator("#cards tbody th").first.inner_text() == hostile
    page.locator("#cards .plain").first.click()
    page.locator("#similar[open]").wait_for()
    page.keyboard.press("Escape")
    with page.expect_response("**/v1/recommend"):
        page.get_by_role("button", name="Remove").first.click()
    near = service.get("/v1/items/3/similar", n=1)["items"][0]
    pick(page, near["name"])
    page.get_by_role("button", name=f"Similar to {hostile}").or_(page.locator("#cards")).first.wait_for()
    assert page.evaluate("window.hit") is None
    assert page.locator("main img, main script").count() == 0


def colours(page):
    return page.evaluate("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]")


def brightness(text):
    return sum(map(int, re.findall(r"\d+", text)[:3])) / 3


@pytest.mark.parametrize("page", [{"color_scheme": "dark"}, {"color_scheme": "light"}], indirect=True)
def test_light_and_dark(page):
    dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    paper, ink = map(brightness, colours(page))
    assert (paper < 60 and ink > 200) if dark else (paper > 230 and ink < 60)
    button = page.locator("#theme")
    seen = []
    for _ in range(3):
        button.click()
        seen.append(brightness(colours(page)[0]) < 60)
    assert seen == [False, True, dark]  # light, dark, as the system has it
    button.click()
    page.reload()
    page.locator("#cards li").first.wait_for()
    assert brightness(colours(page)[0]) > 230  # remembered


def test_a_phone(browser, service):
    phone = browser.new_page(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    phone.goto(service.address)
    phone.locator("#suggestions button").first.tap()
    phone.locator("#cards .why").first.wait_for()
    assert phone.evaluate("document.documentElement.scrollWidth") <= 360  # nothing sticks out
    small = phone.locator("button:visible, summary:visible").evaluate_all(
        "all => all.map(b => b.getBoundingClientRect()).filter(r => r.height < 24 || r.width < 24).length"
    )
    assert small == 0  # everything can be hit with a thumb
    size = phone.evaluate("parseFloat(getComputedStyle(document.querySelector('#cards h3')).fontSize)")
    assert size >= 14
    tops = phone.evaluate(
        "['history', 'recommendations', 'plot'].map(i => document.getElementById(i).getBoundingClientRect().top)"
    )
    assert tops == sorted(tops)  # one column
    phone.close()


@pytest.mark.parametrize("page", [{"color_scheme": "light"}, {"color_scheme": "dark"}], indirect=True)
@pytest.mark.parametrize("place", ["start", "chosen", "disliked", "cleared", "dialog", "docs", "phone"])
def test_axe_finds_nothing_serious(page, place, service):
    if place in ("chosen", "disliked", "cleared", "dialog", "phone"):
        pick(page, service.get("/v1/items", n=5)["items"][2]["name"])
        page.keyboard.press("Escape")
        page.locator("#known summary").click()
    if place in ("disliked", "phone"):
        page.get_by_role("button", name="Not for me: ").first.click()
        page.locator("#disliked li").wait_for()
    if place == "cleared":
        page.get_by_role("button", name="Clear all").click()
        page.locator("#undo-clear").wait_for()
    if place == "dialog":
        page.locator("#cards .plain").first.click()
        page.locator("#similar[open]").wait_for()
    if place == "phone":
        page.set_viewport_size({"width": 360, "height": 740})
    if place == "docs":
        page.goto(service.address + "/docs")
        page.locator(".operation summary").first.click()
    assert barriers(page) == []


def test_a_token_is_asked_for(browser, settings, serving, tmp_path):
    file = tmp_path / "tokens"
    file.write_text("t" * 32)
    locked = serving(replace(settings, token_file=file))
    page = browser.new_page()
    page.goto(locked.address)
    page.locator("#token-input").fill("wrong" * 5)
    page.get_by_role("button", name="Continue").click()
    page.locator("#token[open]").wait_for()
    page.locator("#token-input").fill("t" * 32)
    page.get_by_role("button", name="Continue").click()
    page.locator("#cards li").first.wait_for()
    assert page.locator("#cards li").count() == 10
    page.close()


def test_the_description_as_a_page(browser, service):
    page = browser.new_page()
    page.goto(service.address + "/docs")
    page.locator(".operation").first.wait_for()
    about = service.get("/openapi.json")
    shown = page.locator(".operation > summary code").all_text_contents()
    assert sorted(shown) == sorted(path for path, methods in about["paths"].items() for _ in methods)
    recommend = page.locator(".operation", has=page.locator("summary code", has_text=re.compile(r"^/v1/recommend$")))
    recommend.locator("summary").click()
    recommend.get_by_label("Body").fill('{"history": [10], "n": 2}')
    recommend.get_by_role("button", name="Send").click()
    recommend.locator("pre", has_text='"fallback": false').wait_for()
    page.close()
