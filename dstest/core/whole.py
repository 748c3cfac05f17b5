"""What is said where a part of dstest itself, or a library that it needs, is not there."""

from __future__ import annotations

__all__ = ["is_missing", "said_of"]


def is_missing(error: BaseException) -> bool:
    """Is a module not there, or our extension not built? All else that an import says is a bug."""
    if isinstance(error, ModuleNotFoundError):
        return True
    if not isinstance(error, ImportError) or error.name not in ("checkers", "checkers._core"):
        return False
    return "_core" in str(error)


def said_of(error: ImportError) -> str:
    """One line: what is missing, and what helps."""
    return (
        f"dstest: {error}: it is not installed as a whole; `make setup` in its source tree builds"
        " and installs what is missing"
    )
