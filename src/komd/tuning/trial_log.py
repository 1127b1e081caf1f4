"""What was tried, kept in a file as it comes, so that a search that was stopped can go on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from komd.data.interactions import Interactions
from komd.errors import InputError
from komd.evaluation.work_folder import fingerprint
from komd.files import write_text
from komd.tuning.tuning_result import Trial

__all__ = ["Notebook"]


class Notebook:
    """The trials of one question. Its file is named by a checksum of the data and of everything that was asked.

    So another question in the same folder has another file, and nothing mixes. The file is written aside and renamed
    after every trial: whatever is killed, it is whole.
    """

    def __init__(self, path: Path | None, question: dict[str, Any], trials: list[Trial]) -> None:
        self._path, self._question, self.trials = path, question, trials

    @staticmethod
    def open(folder: Path | None, data: Interactions, question: dict[str, Any]) -> Notebook:
        """The notebook for this question, with what an earlier run wrote into it."""
        if folder is None:
            return Notebook(None, question, [])
        if folder.exists() and not folder.is_dir():
            raise InputError(f"keep must be a folder, and {folder} is a file")
        folder.mkdir(parents=True, exist_ok=True)
        question = question | {"data": fingerprint(data)}
        mark = hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:16]
        path = folder / f"tuning-{mark}.json"
        trials = []
        if path.exists():
            try:
                trials = [Trial(**trial) for trial in json.loads(path.read_text(encoding="utf-8"))["trials"]]
            except (ValueError, KeyError, TypeError):
                raise InputError(f"{path} is no record of a search; remove it, or keep this one elsewhere") from None
        return Notebook(path, question, trials)

    def add(self, trial: Trial) -> None:
        """One more."""
        self.trials.append(trial)
        if self._path is not None:
            document = {"question": self._question, "trials": [asdict(trial) for trial in self.trials]}
            write_text(self._path, json.dumps(document, indent=1))
