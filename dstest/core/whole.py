"""What is said where a part of dstest itself, or a library that it needs, is not there."""

from __future__ import annotations

__all__ = ["said_of"]


def said_of(error: ImportError) -> str:
    """One line: what is missing, and what helps."""
    return (
        f"dstest: {error}: it is not installed as a whole; `make setup` in its source tree builds"
        " and installs what is missing"
    )
