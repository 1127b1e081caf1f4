"""What every round of the kill test needs: imports, and a model that was loaded once. Forked, never served from."""

from __future__ import annotations

import os
from pathlib import Path

import uvicorn  # noqa: F401

import komd.serve.app
import komd.serve.connections  # noqa: F401
from komd.serve.hot_reload import ModelWatcher

if "KOMD_PRELOADED" in os.environ:
    ModelWatcher(Path(os.environ["KOMD_PRELOADED"]))
