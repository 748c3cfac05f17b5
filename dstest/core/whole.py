"""What is said where a part of dstest itself, or a library that it needs, is not there."""

from __future__ import annotations

import traceback

STARVED = "dstest: this process may have too little memory, or too few threads, to begin"
_STARVING = ("failed to map segment", "can't start new thread", "Cannot allocate memory")


def is_starved(error: BaseException) -> bool:
    """Is there too little to load what dstest consists of? What it is asked about may fit."""
    if isinstance(error, MemoryError):
        frames = traceback.extract_tb(error.__traceback__)
        return any("importlib" in frame.filename for frame in frames)
    kinds = (ImportError, RuntimeError, OSError)
    return isinstance(error, kinds) and any(words in str(error) for words in _STARVING)


def is_missing(error: BaseException) -> bool:
    """Is a module not there, or our extension not built? All else that an import says is a bug."""
    if isinstance(error, ModuleNotFoundError):
        return True
    if not isinstance(error, ImportError) or error.name not in ("checkers", "checkers._core"):
        return False
    return "_core" in str(error)


def missing_line(error: ImportError) -> str:
    """One line: what is missing, and what helps."""
    return (
        f"dstest: {error}: it is not installed as a whole; `make setup` in its source tree builds"
        " and installs what is missing"
    )
