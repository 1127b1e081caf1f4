"""Times: their unit, dates with and without time zones, fractions, mixtures, and the future."""

from __future__ import annotations

import datetime
import warnings

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import komd
from komd.data.interactions import TIME_UNITS
from komd.data.read import read
from komd.data.times import recognised_unit
from komd.errors import InputError, TimeWarning

SECOND = 978_300_760  # 2000-12-31T22:12:40
PER = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def timed(*times, **options):
    """Rows of one user with these times."""
    table = pa.table({"user": [1] * len(times), "item": list(range(len(times))), "when": pa.array(times)})
    return read(table, time="when", **options)


def written(tmp_path, *times, name="t.csv"):
    path = tmp_path / name
    path.write_text("user,item,when\n" + "".join(f"1,{k},{time}\n" for k, time in enumerate(times)))
    return path


@pytest.mark.parametrize("unit", PER)
def test_the_unit_is_told_by_size(unit, tmp_path):
    times = [SECOND * PER[unit], (SECOND + 5) * PER[unit]]
    for data in (
        timed(*times),
        timed(*map(float, times)),
        read(written(tmp_path, *times), time="when"),
        read([(1, k, time) for k, time in enumerate(times)], time=2),
        read(
            f"SELECT * FROM (VALUES (1, 1, {times[0]}), (1, 2, {times[1]})) AS t(u, i, moment)",
            user="u",
            item="i",
            time="moment",
            database=":memory:",
        ),
    ):
        assert data.time_unit == unit and sorted(data.times.tolist()) == times
        assert sorted(data.microseconds.tolist()) == [SECOND * 10**6, (SECOND + 5) * 10**6]


@given(st.integers(-(2**63), 2**63 - 1))
def test_recognised_units_against_the_calendar(value):
    found = [
        unit
        for unit, per in PER.items()
        if 631_152_000 <= value // per < 4_102_444_800  # 1990 to 2100
    ]
    assert [recognised_unit(value)] == (found or [None])


def test_other_numbers_have_an_order_only():
    data = timed(3, 1, 2)
    assert data.time_unit is None and data.times.tolist() == [3, 1, 2]
    with pytest.raises(InputError, match=r"unit of the times is not known \(numbers from 1 to 3\); .* with time_unit="):
        _ = data.microseconds
    assert timed(0, SECOND).time_unit is None  # one of them is no moment that is likely
    assert timed(-SECOND).time_unit is None


@pytest.mark.parametrize("unit", TIME_UNITS)
def test_the_unit_asked_for_counts(unit):
    data = timed(10_000, 20_000, time_unit=unit)
    assert data.time_unit == unit and data.times.tolist() == [10_000, 20_000]
    assert timed(SECOND, SECOND * 1000, time_unit="ms").time_unit == "ms"  # whoever says so is heard


def test_seconds_against_milliseconds(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, 5, SECOND, SECOND + 1, SECOND * 1000)
    message = (
        r"^t.csv: some times look like seconds, others like milliseconds; the first other is 978300760000 in row 4: "
        r"bring them to one unit, or say with time_unit= which one it is$"
    )
    with pytest.raises(InputError, match=message):
        read("t.csv", time="when")
    many = np.full(200_000, SECOND)
    many[150_000] *= 1000
    with pytest.raises(InputError, match=r"seconds, others like milliseconds; .* in row 150,001"):
        timed(*many.tolist())
    written(tmp_path, SECOND, name="a.csv")
    written(tmp_path, SECOND * 1000, name="b.csv")  # every file for itself would be fine
    with pytest.raises(InputError, match=r"^b.csv: some times look like seconds, .* in row 1:"):
        read(["a.csv", "b.csv"], time="when")


def test_fractions_become_microseconds(tmp_path):
    for data in (
        timed(SECOND + 0.5, float(SECOND)),
        read(written(tmp_path, f"{SECOND}.5", SECOND), time="when"),
        read(
            "SELECT * FROM (VALUES (1, 1, 978300760.5), (1, 2, 978300760)) AS t(u, i, moment)",
            user="u",
            item="i",
            time="moment",
            database=duckdb.connect(),
        ),
    ):
        assert data.time_unit == "us" and sorted(data.times.tolist()) == [SECOND * 10**6, SECOND * 10**6 + 500_000]
    data = timed(0.5, 2.0, time_unit="d")
    assert data.time_unit == "us" and data.times.tolist() == [43_200_000_000, 172_800_000_000]
    assert timed(1500.5, time_unit="ns").times.tolist() == [2]
    # Whole numbers first, fractions in another batch and another file.
    many = [float(SECOND)] * 70_000 + [SECOND + 0.25]
    assert timed(*many).times[[0, -1]].tolist() == [SECOND * 10**6, SECOND * 10**6 + 250_000]
    files = [written(tmp_path, SECOND, name="a.csv"), written(tmp_path, 1, f"{SECOND}.25", name="b.csv")]
    with pytest.raises(
        InputError,
        match=r"times must be whole numbers, .* unless their unit is known, .*b.csv has 978300760.25 in row 2",
    ):
        read(files, time="when")
    assert read(files, time="when", time_unit="s").time_unit == "us"
    with pytest.raises(InputError, match=r"times must be whole numbers.*has 0.5 in row 2 .*time_unit="):
        timed(1.0, 0.5)


UTC, CET = datetime.UTC, datetime.timezone(datetime.timedelta(hours=1))
NOON = int(datetime.datetime(2020, 5, 1, 12, tzinfo=UTC).timestamp()) * 10**6


@pytest.mark.parametrize(
    "times",
    [
        ["2020-05-01 12:00:00"],
        ["2020-05-01T12:00:00Z"],
        ["2020-05-01T13:00:00+01:00"],
        ["2020-05-01 13:00:00+0100", "2020-05-01 12:00"],
        ["2020-05-01T12:00:00", "2020-05-01T12:00:00Z", "2020-05-01 14:30:00.000+02:30"],
    ],
)
def test_times_without_an_offset_are_utc(times, tmp_path):
    """Also beside others that have one, in the same rows, in other batches and in other files."""
    data = read(written(tmp_path, *times), time="when")
    assert data.time_unit == "us" and set(data.times.tolist()) == {NOON}
    assert set(timed(*times).times.tolist()) == {NOON}
    files = [written(tmp_path, time, name=f"{k}.csv") for k, time in enumerate(times)]
    assert set(read(files, time="when").times.tolist()) == {NOON}
    far = timed(*(times[:1] * 70_000), *times)
    assert set(far.times.tolist()) == {NOON}


def test_columns_of_timestamps():
    naive, aware = datetime.datetime(2020, 5, 1, 12), datetime.datetime(2020, 5, 1, 13, tzinfo=CET)
    for times in ([naive], [aware], [naive, aware], [aware, naive]):
        assert set(timed(*times).times.tolist()) == {NOON}
        rows = [(1, k, time) for k, time in enumerate(times)]
        assert set(read(rows, time=2).times.tolist()) == {NOON}
    frame = pd.DataFrame(
        {"user": [1], "item": [1], "when": pd.to_datetime(["2020-05-01 13:00"]).tz_localize("Europe/Rome")}
    )
    assert read(frame, time="when").times.tolist() == [NOON - 3600 * 10**6]
    days = timed(datetime.date(2020, 5, 1))
    assert (days.time_unit, days.times.tolist()) == ("us", [NOON - 12 * 3600 * 10**6])


def test_what_is_no_time(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for times, message in (
        (["2020-05-01", "noon"], "t.csv has 'noon' in row 2"),
        (["2020-05-01", "2020-05-01T12:00Z", "noon"], "t.csv has 'noon' in row 3"),
        (["5", "2020-05-01"], "t.csv has '2020-05-01' in row 2"),
        (["2020-13-01"], "t.csv has '2020-13-01' in row 1"),
        (["5", "inf"], "t.csv has 'inf' in row 2"),
    ):
        written(tmp_path, *times)
        with pytest.raises(InputError, match=f"times must be whole numbers, dates or timestamps, but {message}"):
            read("t.csv", time="when")
    for bad in (None, float("nan")):
        with pytest.raises(InputError, match="has no time in row 2; remove such rows, or read without time="):
            timed(1.0, bad)
    with pytest.raises(InputError, match="times must be whole numbers"):
        timed(1.0, float("inf"))
    files = [written(tmp_path, SECOND, name="a.csv"), written(tmp_path, "2020-05-01", name="b.csv")]
    with pytest.raises(InputError, match=r"b.csv: some times are numbers, others dates \(around row 1\)"):
        read(files, time="when")


def test_bad_units(tmp_path):
    with pytest.raises(InputError, match=r"unknown time_unit 'sec': did you mean|unknown time_unit 'sec': known"):
        timed(5, time_unit="sec")
    with pytest.raises(
        InputError, match=r"time_unit= is for numbers, but .* has dates, which need no unit: leave it out"
    ):
        timed("2020-05-01", time_unit="s")
    with pytest.raises(InputError, match="time_unit= needs time=, the column of times"):
        read([(1, 2)], time_unit="s")
    with pytest.raises(InputError, match=r'has the time 978300760000 in row 2, which is no moment with time_unit="d"'):
        timed(1, SECOND * 1000, time_unit="d")


def test_times_in_the_future_are_kept_and_named():
    assert komd.TimeWarning is TimeWarning
    with pytest.warns(TimeWarning) as said:
        data = timed(SECOND, 2**32 - 1, 2**32 - 1, time_unit="s")
    assert [str(each.message) for each in said] == [
        "the pyarrow Table: 2 times lie in the future, the latest 2106-02-07; wrong unit? (time_unit=)"
    ]
    assert data.times.max() == 2**32 - 1 and said[0].filename == __file__
    with pytest.warns(TimeWarning, match="1 times lie in the future, the latest 2090-01-01$"):
        timed("2020-01-01", "2090-01-01")
    with pytest.warns(TimeWarning, match="the latest 2090-01-01; wrong unit"):
        timed(3_786_912_000 * 10**9)
    tomorrow = datetime.datetime.now(UTC) + datetime.timedelta(hours=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        timed(tomorrow)
        timed(1, 2**62)  # of no known unit
