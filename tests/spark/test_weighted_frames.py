"""Weights, times, ratings and moments on Spark: the model and the lists of one machine, and refusals in words."""

from __future__ import annotations

import datetime
import inspect
import itertools
import warnings

import numpy as np
import pyarrow as pa
import pytest

import komd
from komd.data.ids import Ids
from komd.data.interactions import Interactions
from komd.rows import pointers
from tests.budget import some
from tests.spark.test_merged_rows import merge_rows
from tests.spark.test_spark import assert_same, flat

pytest.importorskip("pyspark", reason="no pyspark: the extra spark")

SECONDS = 1_600_000_000
ALL = {"weightCol": "plays", "timeCol": "when", "ratingCol": "stars"}
MODELS = [
    "CFKOMD(half_life='30d', dislikes_weight=0.5, storage='dense')",
    "CFKOMD(weighting='sqrt', half_life='30d', dislikes_weight=0.5, storage='streamed')",
    "ECFOMD(weighting='linear', half_life='12h', storage='streamed')",
    "CFKOMD(weighted_kernel=True, half_life='30d', storage='dense')",
    "CFKOMD(weighted_kernel=True, kernel=Polynomial(degree=2, c=1), dislikes_weight=1, storage='streamed')",
]
RULES = [{}, {"disliked": 1}, {"liked": 3}]
REPEATED = ["sum", "max", "last", "count"]


@pytest.fixture(scope="module")
def rows():
    """(user, item, plays, seconds, stars), with repeated pairs and missing stars; some users and items are disliked
    only."""
    rng = np.random.default_rng(7)
    made = []
    for _ in range(2500):
        user, item = int(rng.integers(0, 90)), int(40 * rng.random() ** 2)
        stars = None if rng.random() < 0.05 else int(rng.integers(1, 6))
        stars = 1 if user < 3 or item == 39 else stars
        when = SECONDS + int(rng.integers(0, 200)) * 86_400
        made.append((f"u{user:02d}", f"i{item:02d}", int(rng.integers(1, 9)), when, stars))
    return made


def frame_of(spark, rows):
    schema = "user string, item string, plays int, when long, stars int"
    return spark.createDataFrame(rows, schema).repartition(5)


def interactions(rows, *, weighted=True, timed=True, everyone=False, **rule):
    """What one machine reads from such rows; with `everyone` also users and items that are in no history."""
    users, items = (sorted({row[k] for row in rows}) for k in (0, 1))
    keyed = [
        ((users.index(u), items.index(i)), plays, when, float("nan") if stars is None else stars)
        for u, i, plays, when, stars in rows
    ]
    chosen, dislikes, seen = merge_rows(keyed, **rule)
    kept = {*chosen, *dislikes, *seen} if everyone else chosen
    kept_users, kept_items = (sorted({key[k] for key in kept}) for k in (0, 1))
    names = (
        Ids(pa.array([ids[k] for k in kept]), noun=noun)
        for ids, kept, noun in ((users, kept_users, "user"), (items, kept_items, "item"))
    )
    known_users, known_items = names

    def compressed(pairs):
        pairs = [(kept_users.index(u), kept_items.index(i)) for u, i in pairs if u in kept_users and i in kept_items]
        lengths = np.bincount([u for u, _ in pairs], minlength=len(kept_users))
        return pointers(lengths), np.array([i for _, i in pairs], np.int32)

    order = sorted(chosen)
    others = {
        name: Interactions(known_users, known_items, *compressed(sorted(pairs)))
        for name, pairs in (("dislikes", dislikes), ("seen", seen))
    }
    times = np.array([chosen[key][1] for key in order], np.int64) if timed else None
    weights = np.array([chosen[key][0] for key in order], np.float32) if weighted else None
    return Interactions(
        known_users, known_items, *compressed(order), times, weights=weights, time_unit="s" if timed else None, **others
    )


def saved(model, folder):
    """All arrays and ids of a saved model."""
    from komd import store

    model.save(folder)
    return store.load(folder)


def assert_same_model(found, expected, folder):
    (text, arrays, ids, *_), (other_text, others, other_ids, *_) = (
        saved(model, folder / name) for model, name in ((found, "a.komd"), (expected, "b.komd"))
    )
    assert text == other_text and arrays.keys() == others.keys()
    for name, array in arrays.items():
        assert array.dtype == others[name].dtype and np.array_equal(array, others[name]), name
    assert {name: values.to_pylist() for name, values in ids.items()} == {
        name: values.to_pylist() for name, values in other_ids.items()
    }


@pytest.mark.parametrize("text", some(MODELS, 3))
def test_models_and_lists_are_those_of_one_machine(text, spark, rows, tmp_path):
    from komd.spark import KomdRecommender

    fitted = KomdRecommender(model=text, liked=4, disliked=1, **ALL).fit(frame_of(spark, rows))
    data = interactions(rows, liked=4, disliked=1)
    alone = komd.model_from_text(text).fit(data)
    assert data.dislikes.pairs > 50 and data.seen.pairs > 50 and "u00" not in data.users
    assert_same_model(fitted.komd, alone, tmp_path)
    assert_same(flat(fitted.recommendForAllUsers(9, format="long")), alone.recommend(n=9))
    shown = fitted.recommendForAllUsers(40, format="long", at="2020-12-24", excludeLowRated=False)
    expected = alone.recommend(n=40, at="2020-12-24", exclude_low_rated=False)
    assert_same(flat(shown), expected)
    if "half_life" in text:
        assert expected.to_arrow()["score"] != alone.recommend(n=40, exclude_low_rated=False).to_arrow()["score"]


@pytest.mark.parametrize(("rule", "repeated"), some([*itertools.product(RULES, REPEATED)], 5), ids=str)
def test_repeated_pairs_are_merged_as_on_one_machine(rule, repeated, spark, rows):
    from komd.engine.catalogue import Catalogue
    from komd.engine.saved_catalogue import catalogue_arrays
    from komd.spark.gather_catalogue import catalogue_of
    from komd.spark.merged_rows import RowRule
    from komd.spark.row_columns import RowColumns

    columns = RowColumns("user", "item", "plays", "when", "stars", rule=RowRule(repeated=repeated, **rule))
    found, _ = catalogue_arrays(catalogue_of(frame_of(spark, rows), columns))
    expected, _ = catalogue_arrays(Catalogue.of(interactions(rows, repeated=repeated, **rule)))
    assert found.keys() == expected.keys()
    for name, array in found.items():
        assert np.array_equal(array, expected[name]), name


def test_frames_are_read_as_by_read(spark, rows):
    from komd.engine.catalogue import Catalogue
    from komd.engine.saved_catalogue import catalogue_arrays
    from komd.spark.gather_catalogue import catalogue_of
    from komd.spark.merged_rows import RowRule
    from komd.spark.row_columns import RowColumns

    if "weight" not in inspect.signature(komd.read).parameters:
        pytest.skip("komd.read has no weights")
    names = ("user", "item", "plays", "when", "stars")
    table = pa.table(dict(zip(names, zip(*rows, strict=True), strict=True)))
    for rule in ({}, {"liked": 4, "disliked": 1}, {"disliked": 2, "repeated": "max"}, {"repeated": "count"}):
        asked = {"weight": "plays", "time": "when", "rating": "stars"}
        alone = komd.read(table, user="user", item="item", **asked, **rule)
        found = catalogue_of(frame_of(spark, rows), RowColumns("user", "item", **asked, rule=RowRule(**rule)))
        expected = Catalogue.of(alone)
        for name, array in catalogue_arrays(found)[0].items():
            assert np.array_equal(array, catalogue_arrays(expected)[0][name]), name
        assert found.users == expected.users and found.items == expected.items


def test_partitions_do_not_change_sums_of_fractions(spark):
    from komd.spark.gather_catalogue import catalogue_of
    from komd.spark.row_columns import RowColumns

    rng = np.random.default_rng(0)
    made = [(int(rng.integers(0, 9)), int(rng.integers(0, 5)), float(np.exp(rng.normal(0, 9)))) for _ in range(900)]
    frame = spark.createDataFrame(made, "user int, item int, plays double")
    one, many = (
        catalogue_of(frame.repartition(parts), RowColumns("user", "item", "plays")).histories.weights
        for parts in (1, 7)
    )
    assert np.array_equal(one, many)


@pytest.mark.parametrize("kind", some(["timestamp", "timestamp_ntz", "date", "ms", "us", "ns", "min"], 4))
def test_times_of_every_type(kind, spark, rows):
    from pyspark.sql import functions as F

    from komd.spark.gather_catalogue import catalogue_of
    from komd.spark.row_columns import RowColumns

    frame = frame_of(spark, rows)
    unit = None
    if kind in ("timestamp", "timestamp_ntz", "date"):
        moment = F.timestamp_seconds("when")
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        moment = moment if kind == "timestamp" else F.convert_timezone(None, F.lit("UTC"), moment.cast("timestamp_ntz"))
        frame = frame.withColumn("when", moment.cast(kind))
    elif kind == "min":
        frame, unit = frame.withColumn("when", (F.col("when") / 60).cast("long")), "min"
    else:
        frame = frame.withColumn("when", F.col("when") * {"ms": 10**3, "us": 10**6, "ns": 10**9}[kind])
    try:
        found = catalogue_of(frame, RowColumns("user", "item", time="when", time_unit=unit)).histories.times
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
    each = 86_400_000_000 if kind == "date" else 60_000_000 if kind == "min" else 1
    expected = interactions(rows, weighted=False)
    assert np.array_equal(np.sort(found), np.sort(expected.microseconds // each * each))


def test_given_histories_have_weights_times_and_ratings(spark, rows):
    from komd.spark import KomdRecommender

    text = "CFKOMD(half_life='30d', dislikes_weight=0.5)"
    fitted = KomdRecommender(model=text, liked=4, disliked=1, **ALL).fit(frame_of(spark, rows))
    alone = komd.model_from_text(text).fit(interactions(rows, liked=4, disliked=1))
    strangers = [(f"new {user}", *row) for user, *row in rows if user < "u30"]
    histories = interactions(strangers, liked=4, disliked=1)
    for asked in ({}, {"at": datetime.datetime(2021, 3, 1)}):
        # A user without a liked item is in no history of one machine; on Spark such a user is served by popularity.
        found = fitted.recommendForHistories(frame_of(spark, strangers), 8, format="long", **asked)
        known = set(histories.users.values.to_pylist())
        found = [row for row in flat(found).to_pylist() if row["user_id"] in known]
        expected = alone.recommend(histories=histories, n=8, **asked).to_arrow()
        order = [("user_id", "ascending"), ("rank", "ascending")]
        assert found == expected.sort_by(order).to_pylist()
    for wrong, words in (
        (("x", "i00", 0, SECONDS, 5), "of 1 rows 1 have a weight that is not > 0"),
        (("x", "i00", 1, None, 5), "of 1 rows 1 without a time in 'when'"),
        (("x", "i00", 1, 7, 5), "say with timeUnit"),
    ):
        with pytest.raises(komd.InputError, match=words):
            fitted.recommendForHistories(frame_of(spark, [wrong]), 8)
    with pytest.raises(komd.InputError, match="no column 'plays' for weights"):
        fitted.recommendForHistories(frame_of(spark, strangers).drop("plays"), 8)
    bare = fitted.copy()
    for param in (bare.weightCol, bare.timeCol, bare.ratingCol, bare.liked, bare.disliked):
        bare.clear(param)
    given = {"x": ["i00", "i05"], "y": ["i03"]}
    pairs = spark.createDataFrame([(u, i) for u, row in given.items() for i in row], "user string, item string")
    assert_same(flat(bare.recommendForHistories(pairs, 5, format="long")), alone.recommend(histories=given, n=5))


def test_scores_at_a_moment(spark, rows):
    from komd.spark import KomdRecommender

    text = "CFKOMD(half_life='30d')"
    fitted = KomdRecommender(model=text, weightCol="plays", timeCol="when").fit(frame_of(spark, rows).drop("stars"))
    alone = komd.model_from_text(text).fit(interactions(rows))
    pairs = [(f"u{k % 80:02d}", f"i{k % 30:02d}") for k in range(3, 60)]
    asked = spark.createDataFrame(pairs, "user string, item string")

    def scores(model):
        return {(row["user"], row["item"]): row["prediction"] for row in model.transform(asked).collect()}

    for at in (None, "2020-10-01"):
        listed = alone.score(pairs, at=at).to_arrow().to_pylist()
        expected = {(row["user_id"], row["item_id"]): row["score"] for row in listed}
        assert scores(fitted if at is None else fitted.copy().setAt(at)) == expected
    assert scores(fitted) != scores(fitted.copy().setAt(datetime.date(2020, 10, 1)))
    some = fitted.copy().setAt("2020-10-01").recommendForUserSubset(asked, 5, format="long")
    assert_same(flat(some), alone.recommend(sorted({u for u, _ in pairs}), n=5, at="2020-10-01"))
    with pytest.raises(komd.InputError, match="at must be"):
        fitted.recommendForAllUsers(3, at="soon")
    with pytest.raises(komd.InputError, match="at must be"):
        fitted.setAt("soon")


def test_models_of_one_machine_are_loaded_with_columns(spark, rows, tmp_path):
    from pyspark.sql import functions as F

    from komd.spark import KomdRecommenderModel

    alone = komd.CFKOMD(half_life="30d").fit(interactions(rows))
    alone.save(tmp_path / "m.komd")
    loaded = KomdRecommenderModel.load(tmp_path / "m.komd", weightCol="plays", timeCol="when")
    strangers = [(f"new {user}", *row) for user, *row in rows if user < "u20"]
    frame = frame_of(spark, strangers).drop("stars").withColumn("when", F.timestamp_seconds("when"))
    found = loaded.recommendForHistories(frame, 6, format="long")
    assert_same(flat(found), alone.recommend(histories=interactions(strangers), n=6))


def test_estimators_keep_their_columns(tmp_path, spark):
    from komd.spark import KomdRecommender

    asked = {"weightCol": "w", "timeCol": "t", "timeUnit": "d", "ratingCol": "r", "liked": 4.0, "disliked": 2.0}
    KomdRecommender(model="ECFOMD()", repeated="last", **asked).write().overwrite().save(str(tmp_path / "e"))
    again = KomdRecommender.load(str(tmp_path / "e"))
    assert again.column_params == asked | {
        "userCol": "user",
        "itemCol": "item",
        "repeated": "last",
        "predictionCol": "prediction",
    }
    changed = KomdRecommender(model="ECFOMD()").setWeightCol("w").setTimeCol("t").setTimeUnit("d").setRatingCol("r")
    changed = changed.setLiked(4).setDisliked(2).setRepeated("last")
    assert changed.column_params == again.column_params


# ---- bad input ------------------------------------------------------------------------------------------------------

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("values", "kind", "words"),
    [
        ([1.0, None, NAN], "double", r"of 3 rows 2 have no weight \(null or NaN\) in 'w'; keep the others with frame"),
        ([1.0, 0.0, -1.0], "double", "of 3 rows 2 have a weight that is not > 0 and finite in single precision in 'w'"),
        ([INF, 1e300, 1.0], "double", "of 3 rows 2 have a weight that is not"),
        ([None, 0, 3], "int", r"1 have no weight \(null or NaN\) and 1 have a weight that is not"),
        ([3e38, 3e38, 3e38], "double", "weights of 1 repeated pairs add up to more than single precision holds"),
        (["1", "2", "3"], "string", "column 'w' is of type string; weights are numbers: cast the column"),
    ],
)
def test_bad_weights_are_refused_with_their_number(values, kind, words, spark):
    from komd.spark import KomdRecommender

    frame = spark.createDataFrame([("a", "x", w) for w in values], f"user string, item string, w {kind}")
    with pytest.raises(komd.InputError, match=words):
        KomdRecommender(model="CFKOMD()", weightCol="w").fit(frame)


def test_weights_of_dislikes_need_not_be_numbers(spark):
    from komd.spark import KomdRecommender

    made = [("a", "x", 2.0, 5), ("a", "y", None, 1), ("b", "y", 1.0, 4), ("b", "x", -1.0, 3)]
    frame = spark.createDataFrame(made, "user string, item string, w double, rating int")
    fitted = KomdRecommender(model="CFKOMD()", weightCol="w", liked=4, disliked=2).fit(frame)
    assert fitted.komd.catalogue.histories.weights.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("values", "kind", "asked", "words"),
    [
        ([SECONDS, None], "long", {}, r"of 2 rows 1 without a time in 't'; leave them out .*, or do without timeCol"),
        ([SECONDS, 5], "long", {}, "numbers from 5 to 1,600,000,000, .* between 1990 and 2100 .* say with timeUnit"),
        ([SECONDS, SECONDS * 1000], "long", {}, "say with timeUnit what they count since 1970"),
        ([SECONDS, SECONDS], "long", {"timeUnit": "week"}, "unknown timeUnit 'week'"),
        ([2**60, 5], "long", {"timeUnit": "d"}, "no moments with timeUnit='d': give another unit"),
        ([1.5, 2.5], "double", {}, "column 't' is of type double; times are timestamps, dates or whole numbers"),
        ([datetime.date(2020, 1, 1)] * 2, "date", {"timeUnit": "s"}, "timeUnit is for numbers, but 't' has dates"),
    ],
)
def test_bad_times_are_refused(values, kind, asked, words, spark):
    from komd.spark import KomdRecommender

    frame = spark.createDataFrame([("a", "x", t) for t in values], f"user string, item string, t {kind}")
    with pytest.raises(komd.InputError, match=words):
        KomdRecommender(model="CFKOMD()", timeCol="t", **asked).fit(frame)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"model": "CFKOMD(half_life='30d')"}, "the data has no times: read it with timeCol"),
        ({"repeated": "last"}, "repeated='last' needs timeCol: the rows of a frame have no order"),
        ({"repeated": "first"}, "repeated must be 'sum'"),
        ({"timeUnit": "s"}, "timeUnit needs timeCol"),
        ({"liked": 1, "disliked": 2}, "disliked must be less than liked"),
        ({"liked": 3}, r"liked needs ratings, but the frame has no column of them \(choose with ratingCol\)"),
        ({"weightCol": "plays"}, "the frame has no column 'plays' for weights"),
        ({"ratingCol": "n", "liked": 9}, r"no row has a rating of at least 9 \(liked\): nothing is left"),
        ({"ratingCol": "n", "disliked": 9}, r"every row has a rating of at most 9 \(disliked\): nothing is left"),
        ({"ratingCol": "item", "liked": 9}, "column 'item' is of type string; ratings are numbers"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused(asked, words, spark):
    from komd.spark import KomdRecommender

    frame = spark.createDataFrame([("a", "x", 1), ("b", "x", 1)], "user string, item string, n int")
    with pytest.raises(komd.InputError, match=words):
        KomdRecommender(**asked).fit(frame)


def test_weights_without_use_are_told(spark):
    from komd.spark import KomdRecommender

    frame = spark.createDataFrame([("a", "x", 1), ("b", "x", 2)], "user string, item string, n int")
    with pytest.warns(komd.UnusedWeightsWarning, match="MSDW does not use weights"):
        KomdRecommender(model="MSDW()", weightCol="n").fit(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error", komd.UnusedWeightsWarning)
        KomdRecommender(model="ECFOMD()", weightCol="n").fit(frame)
