"""The trials of a search, written to a file one by one, so that an interrupted search can be resumed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from komd.data.interactions import Interactions
from komd.errors import InputError
from komd.evaluation.work_folder import fingerprint, kept_folder
from komd.files import write_text
from komd.tuning.tuning_result import Trial

__all__ = ["TrialLog"]


class TrialLog:
    """The trials of one search. The file is named by a checksum of the data and of all settings of the search.

    So searches with different settings can share a folder. The file is replaced atomically after every trial.
    """

    def __init__(self, path: Path | None, settings: dict[str, Any], trials: list[Trial]) -> None:
        self._path, self._settings, self.trials = path, settings, trials

    @staticmethod
    def open(keep: str | Path | None, data: Interactions, settings: dict[str, Any]) -> TrialLog:
        """The log of a search with these settings, with the trials of earlier runs; without a folder, in memory."""
        if keep is None:
            return TrialLog(None, settings, [])
        settings = settings | {"data": fingerprint(data)}
        checksum = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]
        path = kept_folder(keep) / f"tuning-{checksum}.json"
        trials = []
        if path.exists():
            try:
                trials = [Trial(**trial) for trial in json.loads(path.read_text(encoding="utf-8"))["trials"]]
            except (ValueError, KeyError, TypeError):
                raise InputError(f"{path} is not a log of trials; remove it, or choose another folder") from None
        return TrialLog(path, settings, trials)

    def add(self, trial: Trial) -> None:
        """Add a trial and write the file."""
        self.trials.append(trial)
        if self._path is not None:
            document = {"question": self._settings, "trials": [asdict(trial) for trial in self.trials]}
            write_text(self._path, json.dumps(document, indent=1))
