"""The errors komd raises on purpose. Each says what was wrong, what came in, and what to do."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable

__all__ = [
    "FallbackWarning",
    "FilterWarning",
    "InputError",
    "KomdError",
    "ModelFileError",
    "SolverError",
    "TimeWarning",
    "UnknownIdError",
    "UnusedColumnWarning",
    "UnusedWeightsWarning",
    "WordedWarning",
    "argument",
    "install",
    "nearest",
]

_OPEN, _CLOSE = "\ue000", "\ue001"  # for private use: no text of anybody's has them
_ARGUMENT = re.compile(f"{_OPEN}(\\w+)=([^{_CLOSE}]*){_CLOSE}")


class _Worded(Exception):
    """A message that names arguments by `argument`."""

    def __init__(self, message: str = "") -> None:
        self._message = message
        super().__init__(self.worded(lambda name, value: f"{name}={value}"))

    def worded(self, show: Callable[[str, str], str]) -> str:
        """The message with every argument as `show(name, value)` writes it; `value` is Python text, perhaps empty."""
        return _ARGUMENT.sub(lambda found: show(found[1], found[2]), self._message)

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show its repr


class KomdError(_Worded):
    """Base class of all errors that komd raises on purpose.

    Examples
    --------
    >>> import komd
    >>> try:
    ...     komd.load("nowhere.komd")
    ... except komd.KomdError as error:
    ...     print(type(error).__name__, error)
    ModelFileError no model at ...nowhere.komd
    """


class InputError(KomdError, ValueError):
    """Invalid data or an invalid parameter.

    Examples
    --------
    >>> import komd
    >>> komd.ECFOMD(regularization=-1)
    Traceback (most recent call last):
        ...
    komd.errors.InputError: regularization must be ..., got -1
    """


class UnknownIdError(KomdError, KeyError):
    """An id of a user or an item that is not in the data.

    Examples
    --------
    >>> import komd
    >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
    >>> model = komd.ECFOMD().fit(data)
    >>> model.recommend("user-0042")
    Traceback (most recent call last):
        ...
    komd.errors.UnknownIdError: unknown user ...
    """


class SolverError(KomdError, RuntimeError):
    """A problem that was not solved to the requested accuracy.

    Examples
    --------
    >>> import komd
    >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
    >>> komd.CFOMD(max_iterations=1, tolerance=1e-15).fit(data).recommend("user-00042")
    Traceback (most recent call last):
        ...
    komd.errors.SolverError: 1 of 1 problems were not solved in 1 iterations: ...
    """


class ModelFileError(KomdError):
    """A saved model that is missing, damaged, or written by a newer version of komd.

    Examples
    --------
    >>> import komd
    >>> komd.load("nowhere.komd")
    Traceback (most recent call last):
        ...
    komd.errors.ModelFileError: no model at ...nowhere.komd
    """


class FallbackWarning(UserWarning):
    """Some users have no history and were served by popularity.

    Examples
    --------
    >>> import komd, warnings
    >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
    >>> model = komd.ECFOMD().fit(data)
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     lists = model.recommend(histories={"guest": []}, n=3)
    >>> said[0].category.__name__
    'FallbackWarning'
    >>> lists.fallback
    ['guest']
    """


class FilterWarning(UserWarning):
    """A low-rank filter leaves out eigenvalues that are large compared with `ridge`.

    Examples
    --------
    >>> import komd, warnings
    >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     model = komd.CFKOMD(ridge=0.1, rank=2, storage="sparse").fit(data)
    >>> said[0].category.__name__
    'FilterWarning'
    """


class WordedWarning(_Worded, UserWarning):
    """The root of warnings whose message names arguments by `argument`."""


class UnusedColumnWarning(WordedWarning):
    """The data has a column of ratings or counts that is not used. `weight=False` says that this is intended.

    Examples
    --------
    >>> import komd, pyarrow, warnings
    >>> plays = pyarrow.table({"user": ["ana", "bo"], "item": ["i7", "i42"], "plays": [3, 1]})
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     data = komd.read(plays)
    >>> said[0].category.__name__
    'UnusedColumnWarning'
    >>> data = komd.read(plays, weight="plays")  # uses them
    >>> data = komd.read(plays, weight=False)  # says that this is meant
    """


class UnusedWeightsWarning(WordedWarning):
    """The data has weights, but the model counts every pair as 1.

    Examples
    --------
    >>> import komd, numpy, warnings
    >>> data = komd.generate(users=60, items=30, activity=6, tastes=3, rng=0)
    >>> weighted = data.with_weights(numpy.full(data.pairs, 2.0))
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     model = komd.EASE().fit(weighted)
    >>> said[0].category.__name__
    'UnusedWeightsWarning'
    """


class TimeWarning(WordedWarning):
    """Some times are in the future; their unit may be wrong.

    Examples
    --------
    >>> import komd, pyarrow, warnings
    >>> plays = pyarrow.table({"user": ["ana", "bo"], "item": ["i7", "i42"], "time": [4_000_000_000, 1_700_000_000]})
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     data = komd.read(plays, time="time", time_unit="s")
    >>> said[0].category.__name__
    'TimeWarning'
    """


def argument(name: str, value: object = None) -> str:
    """An argument of a function within a message: a caller of Python sees `user=`, the command line shows `--user`.

    >>> print(InputError(f"choose with {argument('user')}, or skip with {argument('on_unknown', 'skip')}"))
    choose with user=, or skip with on_unknown="skip"
    """
    text = "" if value is None else f'"{value}"' if isinstance(value, str) else repr(value)
    return f"{_OPEN}{name}={text}{_CLOSE}"


def nearest(name: str, known: Iterable[str]) -> str:
    """Words that name the known choices, the nearest first: appended to 'unknown ...' messages.

    >>> nearest("tanimotto", ["linear", "tanimoto"])
    "did you mean 'tanimoto'? (known: linear, tanimoto)"
    """
    names = sorted(known)
    lowered = {n.lower(): n for n in names}
    close = difflib.get_close_matches(name.lower(), list(lowered), n=1, cutoff=0.5)
    listing = f"known: {', '.join(names)}"
    return f"did you mean {lowered[close[0]]!r}? ({listing})" if close else listing


def install(*extras: str) -> str:
    """The command that installs extras of this komd: from where it came from itself, which need not be an index.

    >>> install("tune")  # doctest: +SKIP
    "pip install '/home/ana/komd[tune]'"
    """
    from importlib import metadata
    from urllib.parse import unquote, urlsplit

    wanted = f"[{','.join(extras)}]"
    try:
        origin = metadata.distribution("komd").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return f"pip install '.{wanted}' in the folder of komd's pyproject.toml"
    if not origin:  # from an index, which has it again
        return f"pip install 'komd{wanted}'"
    url = str(json.loads(origin).get("url", ""))
    if url.startswith("file:"):
        return f"pip install '{unquote(urlsplit(url).path)}{wanted}'"
    return f"pip install 'komd{wanted} @ {url}'"
