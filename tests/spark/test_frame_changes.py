"""Updates from frames: the lists and arrays of one machine's update, and of a fit on what remains; old models stay."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import komd
from komd import journal, store
from komd.engine.update_batch import UpdateBatch
from tests.budget import some
from tests.spark.test_spark import assert_same, flat
from tests.spark.test_weighted_frames import ALL, SECONDS, assert_same_model, interactions

pytest.importorskip("pyspark", reason="no pyspark: the extra spark")

RATED = {"liked": 4.0, "disliked": 1.0}
MODELS = [
    "CFKOMD(half_life='30d', dislikes_weight=0.5, storage='dense')",
    "CFKOMD(weighted_kernel=True, kernel=Polynomial(degree=2, c=1), user_damping=0.5, storage='streamed')",
    "ECFOMD(weighting='sqrt', half_life='30d', storage='sparse')",
    "CFKOMD(ridge=5, rank=8, prior=0.01)",
    "MSDW(alpha=0.15, locality=3)",
    "RP3Beta(storage='sparse')",
]
REMOVED_USERS = ["u07", "u11"]


def made_rows(users, items, size, rng):
    """(user, item, plays, seconds, stars), with repeated pairs."""
    made = []
    for _ in range(size):
        when = SECONDS + int(rng.integers(0, 200)) * 86_400
        pair = f"u{int(rng.choice(users)):02d}", f"i{int(rng.choice(items)):02d}"
        made.append((*pair, int(rng.integers(1, 9)), when, int(rng.integers(1, 6))))
    return made


@pytest.fixture(scope="module")
def before():
    """Rows of the model: 40 users, of whom u00 dislikes everything, and 24 items."""
    rows = made_rows(range(40), range(24), 900, np.random.default_rng(1))
    return [(*row[:4], 1 if row[0] == "u00" else row[4]) for row in rows]


@pytest.fixture(scope="module")
def added():
    """New users (u40 to u44) and items (i24 to i27), pairs that are there already, and users who only dislike."""
    rows = made_rows(range(1, 45), [k for k in range(28) if k != 5], 260, np.random.default_rng(2))
    rows = [(*row[:4], 1 if row[0] in ("u03", "u44") else row[4]) for row in rows]
    return [*rows, ("u41", "i24", 2, SECONDS, 5), ("u03", "i25", 1, SECONDS, 1)]


@pytest.fixture(scope="module")
def removed(before):
    """Pairs to remove: some of them seen or disliked, and all of the item i05, so that it is dropped."""
    kept = interactions(before, **RATED)
    known = {*kept.users.values.to_pylist()}
    pairs = sorted({row[:2] for row in before if row[0] in known and row[0] not in REMOVED_USERS})
    return [pair for k, pair in enumerate(pairs) if k % 9 == 0 or pair[1] == "i05"]


def remaining(rows, removed):
    """The rows that removals leave."""
    gone = set(removed)
    return [row for row in rows if row[:2] not in gone and row[0] not in REMOVED_USERS]


def frame_of(spark, rows, *, parts=2):
    return spark.createDataFrame(rows, "user string, item string, plays int, when long, stars int").coalesce(parts)


def pairs_frame(spark, pairs, schema="user string, item string"):
    return spark.createDataFrame(pairs, schema).coalesce(1)


@pytest.fixture(scope="module")
def frames(spark, added, removed):
    return {
        "added": frame_of(spark, added).cache(),
        "removed": pairs_frame(spark, [*removed, removed[0]]).cache(),
        "removedUsers": pairs_frame(spark, [(user,) for user in REMOVED_USERS], "user string"),
    }


@pytest.fixture(scope="module")
def gathered():
    """`interactions_of` for these frames, gathered once: they are the same for every model."""
    from komd.spark.gather_catalogue import interactions_of

    found = {}

    def once(frame, columns):
        if columns not in found:
            found[columns] = interactions_of(frame, columns)
        return found[columns]

    return once


@pytest.fixture(scope="module")
def loaded(spark, tmp_path_factory):
    """A model fitted on one machine, as a model on Spark."""

    def load(model, data, **columns):
        from komd.spark import KomdRecommenderModel

        folder = tmp_path_factory.mktemp("models") / "m.komd"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", komd.UnusedWeightsWarning)
            komd.model_from_text(model).fit(data).save(folder)
        return KomdRecommenderModel.load(folder, **columns)

    return load


@pytest.mark.filterwarnings("ignore::komd.UnusedWeightsWarning", "ignore::komd.FilterWarning")
@pytest.mark.parametrize("text", some(MODELS, 3))
def test_updates_are_those_of_one_machine_and_of_a_fit(
    text, loaded, before, added, removed, frames, gathered, tmp_path, monkeypatch
):
    from komd.spark import frame_changes

    monkeypatch.setattr(frame_changes, "interactions_of", gathered)
    fitted = loaded(text, interactions(before, **RATED), **ALL, **RATED)
    alone = fitted.komd
    now = fitted.update(**frames)
    alone.update(interactions(added, everyone=True, **RATED), removed, removed_users=REMOVED_USERS).refresh()
    again = komd.model_from_text(text).fit(interactions(remaining(before, removed) + added, **RATED))
    assert alone.last_update.new_users >= 4 and alone.last_update.dropped_items == 1
    assert now.komd.last_update == alone.last_update
    assert_same_model(now.komd, alone, tmp_path)
    assert_same_model(now.komd, again, tmp_path)
    assert_same(flat(now.recommendForAllUsers(9, format="long")), again.recommend(n=9))


def test_models_fitted_by_spark_are_updated_and_the_old_ones_stay(spark, before, added, removed, tmp_path):
    from komd.spark import KomdRecommender

    text, shared = "CFKOMD(half_life='30d', dislikes_weight=0.5)", tmp_path / "m.komd"
    fitted = KomdRecommender(model=text, sharedFolder=str(shared), **ALL, **RATED).fit(frame_of(spark, before))
    fitted.setAt("2021-03-01").setPredictionCol("score")
    old = komd.model_from_text(text).fit(interactions(before, **RATED))
    lists = fitted.recommendForAllUsers(5, format="long")  # computed after the updates
    first = fitted.update(frame_of(spark, added, parts=3))
    second = first.update(
        removed=pairs_frame(spark, removed), removedUsers=np.array(REMOVED_USERS), sharedFolder=tmp_path / "other.komd"
    )
    third = first.update(
        removed=pairs_frame(spark, removed).union(pairs_frame(spark, [("u01", "x")])), onUnknown="skip"
    )
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["m-2.komd", "m-3.komd", "m.komd", "other.komd"]
    for model in (first, second, third):
        assert model.uid != fitted.uid and model.column_params == fitted.column_params
        assert model.getOrDefault(model.at) == "2021-03-01"
    fitted.komd.update(removed_users=["u01"])  # a model of its own
    assert_same_model(fitted.komd, old, tmp_path / "old")
    assert_same(flat(lists), old.recommend(n=5, at="2021-03-01"))
    again = komd.model_from_text(text).fit(interactions(remaining(before + added, removed), **RATED))
    assert_same_model(komd.load(tmp_path / "other.komd"), again, tmp_path / "second")
    assert_same(flat(second.recommendForAllUsers(5, format="long")), again.recommend(n=5, at="2021-03-01"))
    with pytest.raises(komd.InputError, match=r"m\.komd is the folder of the model that is updated, .* choose another"):
        fitted.update(removedUsers=["u01"], sharedFolder=shared)


@pytest.mark.parametrize("repeated", ["max", "last", "count"])
def test_pairs_that_are_there_are_merged_as_repeated_says(repeated, spark, loaded, before, added, tmp_path):
    text, columns = "CFKOMD(weighted_kernel=True)", {"weightCol": "plays", "timeCol": "when"}
    # The times differ: of equal ones "last" takes the added row.
    before, added = ([(*row[:3], row[3] + k, 5) for k, row in enumerate(rows)] for rows in (before, added))
    fitted = loaded(text, interactions(before, repeated=repeated), repeated=repeated, **columns)
    now = fitted.update(frame_of(spark, added).drop("stars"))
    again = komd.model_from_text(text).fit(interactions(before + added, repeated=repeated))
    assert_same_model(now.komd, again, tmp_path)


def test_whole_numbers_keep_their_type_until_others_come(spark, tmp_path):
    from komd.spark import KomdRecommender

    rows = [(u, (u * u + 3 * k) % 17) for u in range(40) for k in range(4)]
    frame = spark.createDataFrame(rows, "person short, thing int").coalesce(1)
    fitted = KomdRecommender(model="MSDW()", userCol="person", itemCol="thing").fit(frame)
    large = 100_000
    more = [(39, large), (38, large)]
    same = fitted.update(spark.createDataFrame(more, "person short, thing int"))
    wider = same.update(spark.createDataFrame([(large, 3)], "person int, thing int"), removedUsers=[0])
    kinds = [str(model.recommendForAllUsers(2).schema["person"].dataType) for model in (fitted, same, wider)]
    assert kinds == ["ShortType()", "ShortType()", "LongType()"]
    kept = [row for row in [*rows, *more, (large, 3)] if row[0] != 0]
    assert_same(flat(wider.recommendForAllUsers(9, format="long")), komd.MSDW().fit(kept).recommend(n=9))


def test_empty_frames_change_nothing(spark, loaded, before, tmp_path):
    fitted = loaded("MSDW()", interactions(before, **RATED), **ALL, **RATED)
    now = fitted.update(frame_of(spark, []), pairs_frame(spark, []), removedUsers=pairs_frame(spark, [], "user string"))
    assert_same_model(now.komd, fitted.komd, tmp_path)


@pytest.mark.parametrize("shared", [False, True])
def test_models_with_a_journal_are_loaded_with_their_updates(shared, spark, before, added, tmp_path):
    from komd.spark import KomdRecommenderModel

    folder = tmp_path / "m.komd"
    komd.CFKOMD(half_life="30d").fit(interactions(before)).save(folder)
    batch = UpdateBatch.of(interactions(added), [before[0][:2]], ["u09"], "sum")
    journal.append(folder, [batch.to_bytes()], manifest=store.manifest_text(folder), known="")
    files = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    fitted = KomdRecommenderModel.load(folder, shared=shared)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == files
    left = [row for row in before if row[0] != "u09" and row[:2] != before[0][:2]] + added
    again = komd.CFKOMD(half_life="30d").fit(interactions(left))
    assert_same(flat(fitted.recommendForAllUsers(6, format="long")), again.recommend(n=6))


def test_folders_beside_are_numbered(tmp_path):
    from komd.spark.model_folder import folder_beside

    (tmp_path / "plays-3.komd").mkdir()
    found = [folder_beside(tmp_path / name).name for name in ("plays.komd", "plays.komd", "plays-2.komd", "plays")]
    assert found == ["plays-2.komd", "plays-4.komd", "plays-5.komd", "plays-2"]
    with pytest.raises(komd.ModelFileError, match=r"could not make the folder .*m-2\.komd .* with sharedFolder"):
        folder_beside(tmp_path / "nowhere" / "m.komd")


# ---- bad input ------------------------------------------------------------------------------------------------------


def test_bad_updates_are_refused_in_words(spark, loaded, before):
    data = interactions(before)
    timed = loaded("CFKOMD(half_life='30d')", data, weightCol="plays", timeCol="when")
    bare = loaded("MSDW()", komd.read([row[:2] for row in before]))
    pair, row = pairs_frame(spark, [("u01", "nothing")]), frame_of(spark, [("u01", "i01", 1, SECONDS, 5)])
    everyone = pairs_frame(spark, [(user,) for user in data.users.values.to_pylist()], "user string")

    def wrong(*values):
        return frame_of(spark, [("u01", "i01", *values)])

    cases = [
        (timed, {}, "nothing to update: give a frame of pairs, removed=, or removedUsers="),
        (timed, {"added": [("u01", "i01")]}, "added must be a Spark frame of pairs, got list: make one with"),
        (timed, {"removed": [("u01", "i01")]}, "removed must be a Spark frame of pairs, got list"),
        (timed, {"removedUsers": "u01"}, "removedUsers is a frame or a list of user ids, got 'u01'"),
        (timed, {"removedUsers": 7}, "removedUsers is a frame or a list of user ids, got 7"),
        (timed, {"removedUsers": ["u01"], "onUnknown": "pass"}, "onUnknown must be 'error' or 'skip', got 'pass'"),
        (timed, {"added": row.drop("plays")}, "the frame has no column 'plays' for weights"),
        (timed, {"added": wrong(0, SECONDS, 5)}, "of 1 rows 1 have a weight that is not > 0"),
        (timed, {"added": wrong(1, None, 5)}, "of 1 rows 1 without a time in 'when'"),
        (timed, {"added": wrong(1, 7, 5)}, "say with timeUnit"),
        (timed, {"removed": pairs_frame(spark, [(None, "i01")])}, "of 1 rows 1 without a user; leave them out"),
        (timed, {"removed": row.drop("item")}, "the frame has no column 'item' for item ids"),
        (timed, {"removedUsers": pairs_frame(spark, [(None,)], "user string")}, "removedUsers has rows without a user"),
        (timed, {"removedUsers": row.drop("user")}, "the frame has no column 'user' for user ids"),
        (timed, {"removedUsers": everyone}, "this would remove all pairs"),
        (
            timed.copy().setRatingCol("stars").setLiked(4).setRepeated("last"),
            {"added": row},
            "'last' cannot be updated",
        ),
        (bare.copy().setWeightCol("plays"), {"added": row}, "without weights, and weightCol='plays' would add some"),
        (bare.copy().setRepeated("count"), {"added": row}, "without weights, and repeated='count' would add some"),
    ]
    untimed = timed.copy()
    untimed.clear(untimed.timeCol)
    cases.append((untimed, {"added": row}, "the model knows when each pair happened: say which column"))
    for model, asked, words in cases:
        with pytest.raises(komd.InputError, match=words):
            model.update(**asked)
    for asked in ({"removed": pair}, {"removedUsers": ["nobody"]}):
        with pytest.raises(komd.UnknownIdError, match=r"nothing|nobody") as found:
            bare.update(**asked)
        assert 'onUnknown="skip"' in str(found.value) and "on_unknown" not in str(found.value)
