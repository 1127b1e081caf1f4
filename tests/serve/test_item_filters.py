"""Conditions on attributes: their grammar, their meaning against plain Python, and lists by them over HTTP."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import komd
from komd.errors import InputError
from komd.serve.app import check
from komd.serve.item_attributes import AttributeColumn, AttributeTable, BoundedCache, ItemAttributes
from komd.serve.item_filters import FilterError, conditions_of, named_filters
from komd.serve.item_names import ItemNames, read_names
from komd.serve.schemas import Ask
from komd.serve.serve_config import as_toml, read_config, settings_of
from komd.serve.serve_settings import Settings
from tests.serve import attributed
from tests.serve.conftest import Running, same_lists, until

SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
FILTERS = {"kids": {"genre": ["Children's", "Comedy"]}, "nineties": {"year": {"min": 1990, "max": 1999}}}


# ---- the grammar ------------------------------------------------------------------------------------------------


def test_equal_conditions_are_equal_keys():
    one = conditions_of({"year": {"min": 1990}, "genre": ["Comedy", "Comedy ", "Drama"]})
    assert one == conditions_of({"genre": ("Comedy", "Drama"), "year": {"min": 1990.0}})
    assert hash(one) == hash(conditions_of({"genre": ["Comedy", "Drama"], "year": {"min": 1990}}))
    assert one != conditions_of({"genre": ["Comedy", "Drama"], "year": {"max": 1990}})


@pytest.mark.parametrize(
    "said, words",
    [
        ("Comedy", "columns and what they must be"),
        ({"genre": None}, "genre: expected text or a number, got null"),
        ({"genre": True}, "genre: expected text or a number, got true .write it as text"),
        ({"genre": {}}, "genre: an object has min, max or not, got nothing"),
        ({"genre": {"nto": "x"}}, "genre: an object has min, max or not, got 'nto'"),
        ({"genre": [["x"]]}, "genre: expected text or a number, got a list"),
        ({"genre": " "}, "genre: a value is text of 1 to 500"),
        ({"genre": "Comedy|Drama"}, "genre: | separates the values".replace("|", r"\|")),
        ({"genre": {"not": "x" * 501}}, "genre.not: a value is text of 1 to 500"),
        ({"year": {"min": "1990"}}, "year.min: expected a number, got text"),
        ({"year": {"min": 2000, "max": 1990}}, "year: min 2000 is above max 1990"),
        ({"year": {"max": float("nan")}}, "year.max: the number is not finite"),
        ({"year": 10**400}, "year: the number is not finite"),
        ({"": "x"}, "the name of a column is text"),
        ({f"c{k}": "x" for k in range(21)}, "conditions on 21 columns; at most 20"),
        ({"genre": [str(k) for k in range(600)], "year": {"not": list(range(401))}}, "1,001 values; at most 1,000"),
    ],
)
def test_what_is_no_condition(said, words):
    with pytest.raises(InputError, match=words):
        conditions_of(said)


def test_filters_of_a_configuration(tmp_path):
    with pytest.raises(InputError, match=r"filters\.kids: genre: an object has"):
        named_filters({"kids": {"genre": {"nto": "x"}}})
    with pytest.raises(InputError, match=r"filters\.kids has no condition"):
        named_filters({"kids": {}})
    service = Settings(model=tmp_path / "m.komd", store="sqlite:///x.db", filters=FILTERS)
    with pytest.raises(InputError, match=r"filters are conditions on the columns .* none is given"):
        service.check()
    service = replace(service, items=tmp_path / "items.csv")
    assert service.check() == []
    assert named_filters(Settings.from_text(service.to_text()).filters) == named_filters(FILTERS)


# ---- what conditions mean ---------------------------------------------------------------------------------------

WORDS = st.sampled_from(
    ["Comedy", "comedy", "Drama", "Sci Fi", "7", "7.0", "-3", "1e3", "1e999", ".5", "7 ", "é", "||"]
)
CELLS = st.one_of(st.none(), st.lists(WORDS, max_size=3).map("|".join))
WANTED = st.one_of(WORDS.filter(lambda word: "|" not in word), st.sampled_from([7, -3.0, 1000, 0.5]))
SAID = st.one_of(
    WANTED,
    st.lists(WANTED, max_size=3),
    st.fixed_dictionaries({"not": st.lists(WANTED, max_size=2)}),
    st.fixed_dictionaries(
        {"min": st.sampled_from([-5, 7])}, optional={"max": st.sampled_from([7, 999.5]), "not": WANTED}
    ),
    st.fixed_dictionaries({"max": st.sampled_from([-3, 7, 5000])}),
)


@given(cells=st.lists(st.tuples(CELLS, CELLS), max_size=12), where=st.dictionaries(st.sampled_from("ab"), SAID))
@SETTINGS
def test_conditions_mean_what_plain_python_says(cells, where):
    ids = [f"i{k}" for k in range(len(cells))]
    columns = {"a": [one[0] for one in cells], "b": [one[1] for one in cells]}
    texts = [ids, *columns.values()]
    table = pa.table([pa.array(text, pa.string()) for text in texts], names=["id", "a", "b"])
    found = AttributeTable(table).matching(conditions_of(where)).tolist()
    rows = [{name: column[k] or "" for name, column in columns.items()} for k in range(len(cells))]
    assert found == [attributed.meets(row, where) for row in [*rows, {}]]  # the last: an item that is in no row


def test_a_column_keeps_the_values_of_each_row_in_their_order():
    column = AttributeColumn.of(pa.array(["b|a", None, "", "a", "| c|"]))
    held = [
        column.values.take(pa.array(column.codes[a:b])).to_pylist()
        for a, b in zip(*(column.indptr[:-1], column.indptr[1:]), strict=True)
    ]
    assert held == [["b", "a"], [], [], ["a"], ["c"], []]


def test_masks_are_kept_while_items_and_table_are_the_same(tmp_path):
    attributed.write_table(tmp_path / "t.csv", [{"id": f"i{k}", "name": "n", "genre": "ab"[k % 2]} for k in range(4)])
    table = read_names(tmp_path / "t.csv")
    items = komd.read([("u", f"i{k}") for k in range(4)]).items
    more = komd.read([("u", f"i{k}") for k in range(5)]).items
    first = ItemAttributes.of(ItemNames.of(items, table))
    wanted = conditions_of({"genre": "a"})
    assert first.mask(wanted).tolist() == [True, False, True, False]
    assert first.mask(wanted) is first.mask(conditions_of({"genre": ["a"]}))
    assert ItemAttributes.of(first.names, first) is first
    other = ItemAttributes.of(ItemNames.of(more, table), first)  # an item more: the columns need not be read again
    assert other.table is first.table
    assert other.mask(wanted).tolist() == [True, False, True, False, False]
    with pytest.raises(FilterError, match="no table of items"):
        ItemAttributes.of(ItemNames.of(items, None), first).mask(wanted)


def test_a_cache_keeps_what_was_used_last():
    cache, made = BoundedCache(2), []

    def get(key):
        return cache.get(key, lambda: made.append(key) or key)

    assert [get(key) for key in "abacab"] == list("abacab")
    assert made == ["a", "b", "c", "b"]


# ---- over HTTP --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("attributed")


@pytest.fixture(scope="module")
def rows(folder):
    return attributed.make(folder)


@pytest.fixture(scope="module")
def service(folder, rows):
    settings = Settings(
        model=folder / "shop.komd", store=f"sqlite:///{folder / 'e.db'}", items=folder / "items.csv", filters=FILTERS
    )
    running = Running(settings)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def history(rows):
    return list(rows)[:4]


def listed(answer):
    return [(row["item_id"], row["score"]) for row in answer["items"]]


FORMS = [
    {"genre": "Comedy"},
    {"genre": "comedy"},
    {"genre": ["Comedy", "Sci-Fi"]},
    {"genre": []},
    {"genre": {"not": ["Horror", "Drama"]}},
    {"genre": {"not": "Horror"}, "year": {"min": 1990, "max": 1999}},
    {"year": 1985},
    {"year": "unknown"},
    {"year": {"min": 1995}},
    {"year": {"max": 1984, "not": 1982}},
    {"name": "Item 12"},
    {"label": "x" * 500},  # the table has 601 letters: it is cut when it is shown, not when it is compared
    {},
]


@pytest.mark.parametrize("where", FORMS, ids=str)
def test_a_filter_changes_nothing_but_the_candidates(service, rows, history, where):
    for exclude_seen in (True, False):
        ask = {"history": history, "n": 90, "exclude_seen": exclude_seen}
        everything = listed(service.post("/v1/recommend", ask))
        found = listed(service.post("/v1/recommend", ask | {"where": where}))
        assert found == [one for one in everything if attributed.meets(rows[one[0]], where)]
    if where in FORMS[:1] + FORMS[4:6]:
        assert 0 < len(found) < len(everything)


def test_filters_join_with_everything_else(service, rows, history):
    everything = listed(service.post("/v1/recommend", {"history": history, "n": 90}))
    popular = {item["item_id"]: item["popularity"] for item in service.get("/v1/items", n=90)["items"]}
    where = {"artist": {"not": "a3"}}
    allowed, denied = list(rows)[10:80], list(rows)[20:30]
    ask = {
        "history": history,
        "n": 90,
        "filters": ["kids", "nineties"],
        "where": where,
        "items": allowed,
        "exclude": denied,
        "max_popularity": 20,
    }
    held = [*FILTERS.values(), where]
    expected = [
        (item, score)
        for item, score in everything
        if all(attributed.meets(rows[item], one) for one in held)
        and item in allowed
        and item not in denied
        and popular[item] <= 20
    ]
    assert expected
    assert listed(service.post("/v1/recommend", ask)) == expected


def test_a_user_in_the_short_form(service, rows):
    user = service.get("/v1/users", n=1)["users"][0]
    both = service.get(f"/v1/users/{user}/recommendations", n=50, filter=["kids", "nineties"])
    assert both["items"]
    assert listed(both) == listed(
        service.post("/v1/recommend", {"user_id": user, "n": 50, "filters": ["nineties", "kids"]})
    )
    kids = service.get(f"/v1/users/{user}/recommendations", n=50, filter="kids")
    assert len(kids["items"]) > len(both["items"])
    assert all(attributed.meets(rows[row["item_id"]], FILTERS["kids"]) for row in kids["items"])


def test_reasons_and_users_without_history(service, rows, history):
    answer = service.post("/v1/recommend", {"history": history, "filters": ["kids"], "explain": True, "n": 5})
    for row in answer["items"]:
        parts = sum(part["contribution"] for part in row["why"]["contributions"])
        total = parts + row["why"]["others"]["contribution"] + row["why"]["global_term"]
        assert total == pytest.approx(row["score"], abs=1e-12)
    popular = service.post("/v1/recommend", {"history": [], "filters": ["kids"], "n": 90})
    assert popular["fallback"]
    scores = [row["popularity"] for row in popular["items"]]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == sum(attributed.meets(row, FILTERS["kids"]) for row in rows.values())


def test_a_batch_with_different_filters_is_the_single_answers(service, history):
    ways = [
        {},
        *({"where": where} for where in FORMS),
        {"filters": ["kids"]},
        {"filters": ["kids", "nineties"], "where": {"artist": "a1"}},
        {"filters": ["kids"], "include_unavailable": True},
        {"max_per": {"artist": 1}},
        {"max_per": {"artist": 1, "genre": 2}},
        {"max_per": {"artist": 2}, "filters": ["kids"]},
    ]
    asks = [{"history": history[: 1 + k % 4], "n": 6, **way} for k, way in enumerate(ways * 2)]
    answers = service.post("/v1/recommend/batch", {"requests": asks})["answers"]
    assert all(
        same_lists(answer, service.post("/v1/recommend", ask)) for answer, ask in zip(answers, asks, strict=True)
    )
    assert len({str(answer["items"]) for answer in answers}) > 15


def test_requests_with_different_rules_are_not_ranked_together():
    plain = Ask(history=["a"])
    others = [
        Ask(history=["a"], filters=["kids"]),
        Ask(history=["a"], where={"genre": "Comedy"}),
        Ask(history=["a"], include_unavailable=True),
        Ask(history=["a"], max_per={"artist": 1}),
    ]
    assert len({ask.options() for ask in [plain, *others]}) == 5
    assert others[1].options() == Ask(history=["b"], where={"genre": ["Comedy"]}).options()


@pytest.mark.parametrize(
    "asked, words",
    [
        ({"filters": ["kid"]}, "unknown filter 'kid': did you mean 'kids'? (known: kids, nineties)"),
        ({"where": {"gnre": "x"}}, "no column 'gnre': did you mean 'genre'?"),
        ({"where": {"id": "x"}}, "no column 'id'"),
        ({"where": {"available": "true"}}, "'available' takes no condition"),
        ({"where": {"year": {"min": "x"}}}, "where: year.min: expected a number, got text"),
        ({"where": ["genre"]}, "where: conditions are columns"),
        ({"where": {"genre": [str(k) for k in range(1001)]}}, "at most 1,000"),
        ({"max_per": {"artits": 1}}, "no column 'artits': did you mean 'artist'?"),
        ({"max_per": {"artist": 0}}, "max_per.artist: Input should be greater than or equal to 1"),
        ({"max_per": {str(k): 1 for k in range(6)}}, "max_per: Dictionary should have at most 5"),
        ({"filters": ["x"] * 21}, "filters: List should have at most 20"),
    ],
)
def test_what_is_refused(service, asked, words):
    for path, body in (("/v1/recommend", asked), ("/v1/recommend/batch", {"requests": [asked | {"history": []}]})):
        body = body if "requests" in body else body | {"history": []}
        assert words.split(": ", 1)[-1] in service.post(path, body, code=422)["detail"]
    assert words in service.post("/v1/recommend", asked | {"history": []}, code=422)["detail"]


def test_the_short_form_refuses_unknown_filters(service):
    words = service.get("/v1/users/u1/recommendations", code=422, filter="kisd")["detail"]
    assert words == "unknown filter 'kisd': did you mean 'kids'? (known: kids, nineties)"


def test_without_a_table_there_are_no_columns(running):
    for asked in ({"where": {"genre": "Comedy"}}, {"max_per": {"artist": 1}}):
        words = running.post("/v1/recommend", asked | {"history": []}, code=422)["detail"]
        assert words == "there is no table of items, so there are no columns; start the service with --items"
    words = running.post("/v1/recommend", {"filters": ["kids"], "history": []}, code=422)["detail"]
    assert words == "unknown filter 'kids': the configuration has none"
    assert running.post("/v1/recommend", {"where": {}, "filters": [], "history": []})["items"]


def test_an_item_that_nobody_chose_must_be_named_and_meet_the_filter(tmp_path, serving):
    data = komd.read([("u", "a"), ("u", "b"), ("v", "b"), ("v", "c"), ("w", "b"), ("w", "d"), ("w", "e")])
    komd.ECFOMD().fit(data.keep(data.indices < 3)).save(tmp_path / "m.komd")
    rows = [{"id": item, "name": item, "genre": "y" if item == "e" else "x"} for item in "abcde"]
    attributed.write_table(tmp_path / "t.csv", rows)
    running = serving(Settings(tmp_path / "m.komd", f"sqlite:///{tmp_path / 'e.db'}", tmp_path / "t.csv"))
    ask = {"history": ["b"], "where": {"genre": "x"}}
    assert {item for item, _ in listed(running.post("/v1/recommend", ask))} == {"a", "c"}
    named = running.post("/v1/recommend", ask | {"items": ["a", "d", "e"]})
    assert {item for item, _ in listed(named)} == {"a", "d"}


# ---- the configuration and the table ----------------------------------------------------------------------------


def replaced(path, rows):
    """Another table in the place of the one there, with another time."""
    attributed.write_table(path.with_suffix(".new"), rows)
    before = path.stat().st_mtime_ns
    path.with_suffix(".new").replace(path)
    os.utime(path, ns=(before + 10**9, before + 10**9))


def test_a_filter_on_a_column_that_is_not_there_is_refused_at_the_start(folder, rows, tmp_path):
    settings = Settings(folder / "shop.komd", f"sqlite:///{tmp_path / 'e.db'}", folder / "items.csv")
    for filters, words in (
        ({"kids": {"gnre": "x"}}, r"items\.csv: filters\.kids: .* no column 'gnre': did you mean 'genre'\?"),
        ({"old": {"available": "no"}}, r"items\.csv: filters\.old: 'available' takes no condition"),
    ):
        with pytest.raises(InputError, match=words):
            check(replace(settings, filters=filters))
    check(replace(settings, filters=FILTERS))


def test_filters_of_a_file(folder, rows, tmp_path, serving):
    file = tmp_path / "komd.toml"
    file.write_text(
        f"""
        model = "{folder / "shop.komd"}"
        items = "{folder / "items.csv"}"
        store = "sqlite:///e.db"
        [filters.kids]
        genre = ["Children's", "Comedy"]
        artist = {{ not = "a0" }}
        [filters."old ones"]
        year = {{ max = 1989.5 }}
        """
    )
    settings = settings_of(read_config(file))
    settings.check()
    (tmp_path / "again.toml").write_text(as_toml(settings))
    assert settings_of(read_config(tmp_path / "again.toml")).filters == settings.filters
    found = serving(settings).post("/v1/recommend", {"history": [], "n": 90, "filters": ["kids", "old ones"]})
    held = [{"genre": ["Children's", "Comedy"], "artist": {"not": "a0"}}, {"year": {"max": 1989.5}}]
    expected = {item for item, row in rows.items() if all(attributed.meets(row, one) for one in held)}
    assert expected and {item for item, _ in listed(found)} == expected
    file.write_text('model = "m.komd"\n[filters.kids]\nyear = 1990-01-01\n')
    with pytest.raises(InputError, match=r"none is given"):
        settings_of(read_config(file)).check()
    file.write_text('model = "m.komd"\nitems = "i.csv"\n[filters.kids]\nyear = 1990-01-01\n')
    with pytest.raises(InputError, match=r"filters\.kids: year: expected text or a number, got date"):
        settings_of(read_config(file)).check()


def test_a_new_table_is_used_and_one_that_lost_a_column_is_refused(folder, rows, tmp_path, serving):
    table = tmp_path / "items.csv"
    attributed.write_table(table, [row for row in rows.values() if row])
    settings = Settings(
        folder / "shop.komd", f"sqlite:///{tmp_path / 'e.db'}", table, filters=FILTERS, watch_seconds=0.1
    )
    running = serving(settings)
    ask = {"history": list(rows)[:2], "n": 90, "filters": ["kids"], "where": {"artist": {"not": "a0"}}}
    before = listed(running.post("/v1/recommend", ask))
    fresh = {item: row | {"genre": "Comedy" if k % 2 else "Horror"} for k, (item, row) in enumerate(rows.items())}
    fresh = {item: row for item, row in fresh.items() if "id" in row}
    replaced(table, fresh.values())
    assert until(lambda: listed(running.post("/v1/recommend", ask)) != before)
    now = listed(running.post("/v1/recommend", ask))
    assert {item for item, _ in now} <= {item for item, row in fresh.items() if row["genre"] == "Comedy"}
    replaced(table, [{key: row[key] for key in row if key != "year"} for row in fresh.values()])
    words = running.post("/v1/model/reload", {}, code=409)["detail"]
    assert "the old model stays: items.csv: filters.nineties: the table of items has no column 'year'" in words
    assert str(tmp_path) not in words
    assert listed(running.post("/v1/recommend", ask)) == now
    assert running.post("/v1/recommend", ask | {"filters": ["nineties"]})["items"]
    replaced(table, fresh.values())
    running.post("/v1/model/reload", {})
    assert listed(running.post("/v1/recommend", ask)) == now


# ---- every kind of model ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [komd.CFKOMD(), komd.CFKOMD(storage="streamed"), komd.RP3Beta(), komd.Popularity()],
    ids=["dense", "streamed", "rp3beta", "popularity"],
)
def test_filters_and_quotas_of_other_models(model, folder, rows, history, tmp_path):
    model.fit(komd.generate(users=150, items=90, activity=9, tastes=5, rng=3)).save(tmp_path / "m.komd")
    running = Running(Settings(tmp_path / "m.komd", f"sqlite:///{tmp_path / 'e.db'}", folder / "items.csv"))
    try:
        ask = {"history": history, "n": 90}
        everything = listed(running.post("/v1/recommend", ask))
        where = {"genre": {"not": "Horror"}, "year": {"min": 1985}}
        expected = [one for one in everything if attributed.meets(rows[one[0]], where)]
        assert 0 < len(expected) < len(everything)
        assert listed(running.post("/v1/recommend", ask | {"where": where})) == expected
        assert listed(
            running.post("/v1/recommend", ask | {"n": 7, "where": where, "max_per": {"artist": 1}})
        ) == attributed.greedy(expected, rows, {"artist": 1}, 7)
    finally:
        running.stop()


def test_masks_are_by_the_numbers_of_each_model(tmp_path):
    """Two models of the same items in another order of popularity: the same filter, other numbers."""
    from komd.serve.candidate_masks import CandidateMasks, ItemRules, ListRules

    table = pa.table({"id": ["a", "b", "c"], "name": ["a", "b", "c"], "genre": ["x", "y", "x"]})
    rules = ItemRules(named_filters({"f": {"genre": "x"}}))
    first = komd.Popularity().fit(komd.read([("1", "a"), ("2", "a"), ("3", "a"), ("1", "b"), ("2", "b"), ("1", "c")]))
    second = komd.Popularity().fit(komd.read([("1", "c"), ("2", "c"), ("3", "c"), ("1", "b"), ("2", "b"), ("1", "a")]))
    second_b = komd.Popularity().fit(
        komd.read([("1", "b"), ("2", "b"), ("3", "b"), ("1", "c"), ("2", "c"), ("1", "a")])
    )
    names = ItemNames.of(first.catalogue.items, table)
    before = None
    for model, expected in ((first, [0, 2]), (second, [0, 2]), (second_b, [1, 2])):
        masks = CandidateMasks.of(model.catalogue, names, rules, before)
        found = masks.of_rules(ListRules(("f",)))
        assert found.candidates.tolist() == expected
        assert np.flatnonzero(found.allowed).tolist() == expected
        assert masks.of_rules(ListRules(("f",))) is found
        assert before is None or masks.attributes is before.attributes
        before = masks
