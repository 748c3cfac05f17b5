"""A pytest plugin: `checkers._core` is the extension that DSTEST_CORE names."""

from __future__ import annotations

import importlib.util
import os
import sys

import checkers

_PATH = os.environ["DSTEST_CORE"]
_SPEC = importlib.util.spec_from_file_location("checkers._core", _PATH)
assert _SPEC is not None and _SPEC.loader is not None
_CORE = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_CORE)
sys.modules["checkers._core"] = _CORE
vars(checkers)["_core"] = _CORE


def pytest_report_header() -> str:
    return f"checkers._core from {_PATH}"
