"""A day simulated: what models that learn from every event are worth beside models that are refitted now and then.

    python -m experiments.learning                     # about a quarter of an hour on two cores
    python -m experiments.learning --sets ciao         # this data set; the page is written from all that was kept
    python -m experiments.learning --page              # only writes the page

The pairs of ML-100K and Ciao come in the order of their times. The first fifth is fitted the night before; the other
events are spread evenly over 24 hours. Before an event is learned, the model is asked for the list of its user (test,
then learn). All contenders are given the same live histories; they differ in what K has learned by then. Results are
kept in `experiments/work/learning.json`: rerun to resume. The page is `docs/results/learning.md` (`learning_page.py`).
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

import komd
from experiments import places
from experiments.histories import read
from experiments.learning_replay import HOURS, LEARNING, NIGHT, OTHERS, REFITS, Floats, Record, Stream, replay
from komd.evaluation.bootstrap import paired_interval

SETS = ("ml-100k", "ciao")
METHODS = {
    "ECF-OMD": "ECFOMD(storage='{storage}')",
    "CF-KOMD": "CFKOMD(regularization=1.0, user_damping=0.5, storage='{storage}')",
    "Popularity": "Popularity()",
}
"""Fixed before anything was measured here: the defaults, and for CF-KOMD the γ that its documentation names."""
STORAGES = {"ml-100k": "dense", "ciao": "sparse"}
"""What a fit to all pairs would choose. An update keeps the storage, and Ciao begins small enough for a dense K."""
WINDOW = 3  # hours


def by_user(values: Floats, users: NDArray[Any]) -> Floats:
    """A value for each user, such that their mean is the mean over events, to resample users by.

    The events of a user depend on each other, so the bootstrap draws users. The mean over events is then a ratio of two
    sums over users; these are its linear terms.

    >>> by_user(np.array([1.0, 0.0, 1.0, 1.0]), np.array([7, 7, 7, 8]))
    array([0.625, 0.875])
    """
    _, who, counts = np.unique(users, return_inverse=True, return_counts=True)
    mean = values.mean()
    return np.asarray(mean + (np.bincount(who, weights=values) - mean * counts) / counts.mean())


def difference(first: Floats, second: Floats, users: NDArray[Any]) -> list[float]:
    """The mean of first − second over events, and its 95 % interval, users resampled."""
    if not len(first):
        return [float("nan")] * 3
    rng = np.random.default_rng(0)
    return [round(value, 5) for value in paired_interval(by_user(first, users), by_user(second, users), rng)]


def summary(stream: Stream, records: dict[str, Record]) -> dict[str, Any]:
    """What the page shows of one method: over the day, by hour and by window, and LEARNING minus the others."""
    learned = records[LEARNING]
    asked = ~np.isnan(learned.hits)
    known = asked & (records[NIGHT].unknown == 0)
    sample = ~np.isnan(records[OTHERS].hits)
    users = np.unique(np.array(stream.users), return_inverse=True)[1]
    position = np.arange(len(stream))

    def between(low: int, high: int) -> NDArray[np.bool_]:
        return asked & (position >= stream.hour(low)) & (position < stream.hour(high))

    def minus(first: str, second: str, mask: NDArray[np.bool_]) -> list[float]:
        return difference(records[first].hits[mask], records[second].hits[mask], users[mask])

    hours = [between(hour, hour + 1) for hour in range(HOURS)]
    windows = [between(hour, hour + WINDOW) for hour in range(0, HOURS, WINDOW)]
    out: dict[str, Any] = {
        "events": int(asked.sum()),
        "users": len(np.unique(users[asked])),
        "known": int(known.sum()),
        "contenders": {},
        "own": {
            "events": int(sample.sum()),
            "recall": {label: _mean(records[label].hits, sample) for label in (NIGHT, OTHERS, LEARNING)},
            "others": minus(OTHERS, NIGHT, sample),
            "own": minus(LEARNING, OTHERS, sample),
        },
    }
    for label in (*REFITS, LEARNING):
        record = records[label]
        out["contenders"][label] = {
            "recall": _mean(record.hits, asked),
            "recall known": _mean(record.hits, known),
            "unknown": _mean(record.unknown, asked),
            "popular": _mean(record.popular, asked),
            "hours": [_mean(record.hits, mask) for mask in hours],
            "windows": [_mean(record.hits, mask) for mask in windows],
            "times": len(record.seconds),
            "seconds": round(sum(record.seconds), 3),
            "last": float(np.median(record.seconds[-10:])) if record.seconds else 0.0,
        }
        if label != LEARNING:
            out["contenders"][label] |= {
                "difference": minus(LEARNING, label, asked),
                "difference known": minus(LEARNING, label, known),
                "difference windows": [minus(LEARNING, label, mask) for mask in windows],
            }
    return out


def _mean(values: Floats, mask: NDArray[np.bool_]) -> float:
    return float(values[mask].mean()) if mask.any() else float("nan")


def days(data: komd.Interactions, stream: Stream) -> float:
    """How many days the events of the simulated day took."""
    moments = np.sort(data.microseconds)
    return round(float(moments[-1] - moments[stream.start]) / 86_400e6, 1)


def run(name: str, data: komd.Interactions) -> None:
    """Every method on a data set, unless it is kept already."""
    stream = Stream.of(data)
    for label, form in METHODS.items():
        text, results = form.format(storage=STORAGES[name]), places.kept("learning")
        if text in results.get(name, {}).get("methods", {}):
            continue
        found = summary(stream, replay(stream, text)) | {"label": label}
        here = results.setdefault(name, {"methods": {}})
        here |= {"size": len(stream), "start": stream.start, "days": days(data, stream)}
        here["methods"][text] = found
        places.keep("learning", results)
        recalls = {each: places.short(row["recall"]) for each, row in found["contenders"].items()}
        print(f"{name}: {label}: {recalls}, {found['contenders'][LEARNING]['seconds']:.0f} s learning", flush=True)


def main() -> None:
    from experiments.learning_page import write

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(SETS), help=f"a list with commas of: {', '.join(SETS)}")
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    for name in [] if options.page else options.sets.split(","):
        data = read(name)
        if data is not None:
            run(name, data)
    write()


if __name__ == "__main__":
    main()
