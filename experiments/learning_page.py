"""docs/results/learning.md and its figure, from what is kept. Sentences about results are made from their figures."""

from __future__ import annotations

from typing import Any

from benchmarks.markdown import markdown, wrapped
from benchmarks.measure import machine
from experiments import places
from experiments.histories_page import difference, listed, side
from experiments.learning import SETS, WINDOW
from experiments.learning_replay import BATCH, HOURS, LEARNING, NIGHT, OTHERS, REFITS, SAMPLE, N
from experiments.places import short

Results = dict[str, Any]
TITLES = {"ml-100k": "ML-100K", "ciao": "CiaoDVD"}
HOURLY = "every hour"
FIGURE = "learning"

HEAD = f"""# A day simulated: learning from every event

Written by `python -m experiments.learning`; every figure comes from a run of it.

The pairs of ML-100K and CiaoDVD are replayed in the order of their times; of equal times (CiaoDVD has only dates) in an
order drawn once with `rng=0`, so that the order of the file tells nothing. A pair that is repeated counts once, at its
first time. The first fifth of the events is fitted before the day begins; the other four fifths are spread evenly over
24 hours. Before an event is learned, the model is asked for the {N} best items for its user, without what the user has
already (test, then learn): recall@{N} is whether the item of the event is among them. An item that the model does not
know is a miss. Users who come for the first time are not asked about: they have no history.

All contenders are given the same live history, up to the event before. They differ in what K has learned:

- *{NIGHT}*: K of the first fifth, all day long;
- *every 3 hours*: fitted from scratch to all events so far, every 3 hours, which is every tenth of all events;
- *{HOURLY}*: the same, every hour;
- *{LEARNING}*: `model.update(added=...)` with every {BATCH} events.

Fits and updates take no time in the simulation. Settings were fixed before anything was measured here: `ECFOMD()` and
`Popularity()` as they are, and `CFKOMD(regularization=1.0, user_damping=0.5)`, without a filter. Nothing was chosen by
these results. In brackets: the 95 % bootstrap interval of a paired difference, over events; users are resampled,
because the events of one user depend on each other. **Bold** if it excludes 0; of so many intervals a few do by chance.
K is held dense on ML-100K and sparse on CiaoDVD all day, as after a fit to all pairs.

A day in which data grow fivefold is no ordinary day: it is there to see what each way to learn does to the same events.
Where a tenth of them is read as a day, *every 3 hours* is a model that is refitted every night.
"""


def signed(cell: list[float]) -> str:
    """A difference, its interval, bold if it excludes 0.

    >>> signed([0.01, 0.002, 0.018])
    '**+.0100 [+.0020, +.0180]**'
    """
    return difference({"difference": cell})


def direction(cell: list[float]) -> int:
    return side({"difference": cell})


def share(value: float) -> str:
    return f"{100 * value:.1f} %"


def page(results: Results) -> str:
    """The page; a data set without results is left out."""
    names = [name for name in SETS if name in results]
    if not names:
        return HEAD + "\nNot measured yet: `python -m experiments.learning`.\n"
    out = [HEAD, "## In short\n", "".join(in_short(name, results[name]) for name in names)]
    out.append(exactness(results, names))
    out.append(
        f"![recall@{N} by hour of the day, for every method and contender, on each data set](figures/{FIGURE}.svg)\n"
    )
    for name in names:
        out.append(section(name, results[name]))
    return "\n".join(out)


def in_short(name: str, found: Results) -> str:
    """Each method in one sentence: against the night before, against hourly refits, and with others' events alone."""
    lines = []
    for each in found["methods"].values():
        rows, own = each["contenders"], each["own"]
        words = f"- *{TITLES[name]}, {each['label']}*: recall@{N} {short(rows[LEARNING]['recall'])} learning; "
        words += "; ".join(
            f"{_against(rows[label]['difference'])} {text} ({signed(rows[label]['difference']).strip('*')})"
            for label, text in ((NIGHT, "the model of the night before"), (HOURLY, "hourly refits"))
        )
        words += f". On items that were known the night before: {_against(rows[NIGHT]['difference known'])} its model "
        words += f"({signed(rows[NIGHT]['difference known']).strip('*')}). "
        words += f"What others did since then: {_worth(own['others'])}; what the user did: {_worth(own['own'])}."
        lines.append(_item(words))
    return "".join(lines)


def _item(words: str) -> str:
    first, *others = wrapped(words).splitlines()
    return "\n".join([first, *(f"  {line}" for line in others)]) + "\n"


def _against(cell: list[float]) -> str:
    return {1: "better than", -1: "worse than", 0: "no difference beyond chance from"}[direction(cell)]


def _worth(cell: list[float]) -> str:
    return signed(cell).strip("*") if direction(cell) else f"nothing beyond chance ({signed(cell)})"


def exactness(results: Results, names: list[str]) -> str:
    checked = listed([f"{len(results[name]['methods'])} methods on {TITLES[name]}" for name in names])
    return wrapped(
        f"At the end of the stream, and at the end of each of the {HOURS} hours, every learning model was compared "
        f"with a fit from scratch to the same events: all arrays and ids are equal to the last bit ({checked}). The "
        "command stops where they are not. So *every hour* and *learning* are the same model at the start of each hour."
    )


def section(name: str, found: Results) -> str:
    day = found["size"] - found["start"]
    out = [f"## {TITLES[name]}\n"]
    first = next(iter(found["methods"].values()))
    out.append(
        wrapped(
            f"{found['size']:,} events: {found['start']:,} before the day, {day:,} during it ({day / HOURS:,.0f} an "
            f"hour), which took {found['days']:,.0f} days in fact. {BATCH} events are {86_400 * BATCH / day:.1f} s of "
            f"the simulated day. {first['events']:,} events of {first['users']:,} users are asked about; the items of "
            f"{first['known']:,} of them were known the night before."
        )
    )
    rows = [row for each in found["methods"].values() for row in day_rows(each)]
    head = ["", f"recall@{N}", "learning minus this", "item unknown", f"recall@{N}, items known the night before"]
    head += ["learning minus this", "history unknown"]
    out.append(markdown(head, rows))
    out.append(
        wrapped(
            "*Item unknown*: events whose item the model did not know. *History unknown*: events at which it knew "
            "nothing of the user's history, and recommended popular items. On *items known the night before* the "
            "comparison is uneven: a model that knows fewer items has fewer candidates to place before them."
        )
    )
    out += ["### By window\n", windows(found), "### Whose events\n", own(found), "### Seconds\n", seconds(found)]
    return "\n".join(out)


def day_rows(each: Results) -> list[list[str]]:
    out = []
    for label, row in each["contenders"].items():
        differences = [signed(row[key]) if key in row else "" for key in ("difference", "difference known")]
        cells = [f"{each['label']}, {label}", short(row["recall"]), differences[0], share(row["unknown"])]
        out.append([*cells, short(row["recall known"]), differences[1], share(row["popular"])])
    return out


def windows(found: Results) -> str:
    """Recall of learning by window, and its difference from the first and the last kind of refit."""
    hours = [f"{hour}–{hour + WINDOW} h" for hour in range(0, HOURS, WINDOW)]
    rows, words = [], []
    for each in found["methods"].values():
        contenders = each["contenders"]
        rows.append([f"{each['label']}, {LEARNING}", *map(short, contenders[LEARNING]["windows"])])
        for label in (NIGHT, HOURLY):
            cells = contenders[label]["difference windows"]
            rows.append([f"minus {label}", *map(signed, cells)])
            count = {sign: sum(direction(cell) == sign for cell in cells) for sign in (1, -1, 0)}
            words.append(
                f"- {each['label']}, learning against {label}: higher in {count[1]} of {len(cells)} windows, lower in "
                f"{count[-1]}, no difference beyond chance in {count[0]}\n"
            )
    return markdown(["", *hours], rows) + "\n" + "".join(words)


def own(found: Results) -> str:
    """What the learning model gains by others' events and by the user's own, on the sample."""
    rows = []
    for each in found["methods"].values():
        part = each["own"]
        recalls = [short(part["recall"][label]) for label in (NIGHT, OTHERS, LEARNING)]
        rows.append([each["label"], *recalls, signed(part["others"]), signed(part["own"])])
    events = next(iter(found["methods"].values()))["own"]["events"]
    head = ["", NIGHT, OTHERS, LEARNING, "others' events", "the user's own"]
    return (
        wrapped(
            f"At a random one in {SAMPLE} of the events ({events:,} asked about, `rng=0`) the learning model was also "
            f"asked after unlearning all that the user ever did (`update(removed_users=[user])`): *{OTHERS}*. The "
            "history in the question stays the same. *Others' events* is this model minus that of the night before "
            "(which has what the user did before the day, if anything); *the user's own* is learning minus this model: "
            "this part of the gain is no news about other users, but K with the user's own pairs in it, as after any "
            "fit to data that contain the user. This part was added to explain the figures above, after they were seen."
        )
        + "\n"
        + markdown(head, rows)
    )


def seconds(found: Results) -> str:
    """What learning costs: in all, each time, and beside a fit."""
    rows, words = [], []
    for each in found["methods"].values():
        contenders = each["contenders"]
        for label, row in contenders.items():
            if row["times"]:
                per = 1000 * row["seconds"] / row["times"]
                rows.append(
                    [f"{each['label']}, {label}", f"{row['times']:,}", f"{row['seconds']:.1f}", f"{per:.1f}",
                     f"{1000 * row['last']:.1f}"]
                )  # fmt: skip
        ratio = contenders[HOURLY]["last"] / max(contenders[LEARNING]["last"], 1e-9)
        all_day = contenders[LEARNING]["seconds"] / max(contenders[HOURLY]["seconds"], 1e-9)
        words.append(f"{each['label']} {ratio:.1f} ({all_day:.1f})")
    head = ["", "refits or updates", "seconds in all", "milliseconds each", "median of the last ten, ms"]
    return (
        markdown(head, rows)
        + "\n"
        + wrapped(
            f"How many times as long a refit takes as an update with {BATCH} events, by the medians of the last ten; "
            f"and in brackets how many times as long all updates took as all hourly refits: {listed(words)}. Reading "
            f"the pairs is part of both. The fit before the day is not counted. Machine: {machine()}; other programs "
            "ran on it meanwhile, so that these times are rough."
        )
    )


def figure(results: Results) -> str:
    """Recall by hour: a row for each data set, a panel for each method, a line for each contender."""
    from komd.svg import FIRST, INK, SECOND, THIRD, standalone

    styles: dict[str, dict[str, Any]] = {
        LEARNING: {"color": FIRST, "linewidth": 2.2},
        HOURLY: {"color": THIRD, "linestyle": (0, (1, 1.2)), "linewidth": 2.0},
        "every 3 hours": {"color": SECOND, "linestyle": (0, (5, 2)), "linewidth": 1.6},
        NIGHT: {"color": INK, "linestyle": (0, (6, 2, 1, 2)), "linewidth": 1.4},
    }
    names = [name for name in SETS if name in results]
    most = max(len(results[name]["methods"]) for name in names)

    def draw(canvas: Any) -> None:
        panels = canvas.subplots(len(names), most, sharex=True, sharey="row", squeeze=False)
        for line, name in zip(panels, names, strict=True):
            for axes, each in zip(line, results[name]["methods"].values(), strict=False):
                for label, style in styles.items():
                    values = each["contenders"][label]["hours"]
                    axes.plot([hour + 0.5 for hour in range(HOURS)], values, label=label, **style)
                axes.set_title(f"{TITLES[name]}, {each['label']}", fontsize=11.5)
                axes.set_xticks(range(0, HOURS + 1, 6))
                axes.set_xlim(0, HOURS)
                axes.grid(True)
            line[0].set_ylabel(f"recall@{N}")
            line[0].set_ylim(bottom=0)
        for axes in panels[-1]:
            axes.set_xlabel("hour of the simulated day")
        handles, labels = panels[0][0].get_legend_handles_labels()
        canvas.legend(handles, labels, loc="outside upper left", ncols=len(REFITS) + 1, frameon=False, fontsize=11)

    return standalone(draw, 11.0, 1.0 + 2.7 * len(names))


def write() -> None:
    results = places.kept("learning")
    (places.RESULTS / "learning.md").write_text(page(results), encoding="utf-8")
    if any(name in results for name in SETS):
        (places.RESULTS / "figures").mkdir(parents=True, exist_ok=True)
        (places.RESULTS / "figures" / f"{FIGURE}.svg").write_text(figure(results), encoding="utf-8")
    print("wrote docs/results/learning.md")
