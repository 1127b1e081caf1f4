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
    """The root of every error komd raises on purpose. Its message names arguments by `argument`."""


class InputError(KomdError, ValueError):
    """Data or a parameter that komd cannot work with."""


class UnknownIdError(KomdError, KeyError):
    """An id of a user or an item that the data does not hold."""


class SolverError(KomdError, RuntimeError):
    """A problem that was not solved to the accuracy asked for."""


class ModelFileError(KomdError):
    """A saved model that is missing, damaged, or from a newer version of komd."""


class FallbackWarning(UserWarning):
    """Some users were served by popularity because they have no history."""


class FilterWarning(UserWarning):
    """An approximate filter of low rank: eigenvalues were left out that are large beside `ridge`."""


class WordedWarning(_Worded, UserWarning):
    """The root of warnings whose message names arguments by `argument`."""


class UnusedColumnWarning(WordedWarning):
    """The data has a column of ratings or counts that was not asked for; `weight=False` says that this is meant."""


class UnusedWeightsWarning(WordedWarning):
    """Data with weights, and a model in which every pair counts 1."""


class TimeWarning(WordedWarning):
    """Some times lie in the future: is their unit another?"""


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
