"""`dstest trace`: traces of requests through nodes."""

from __future__ import annotations

__all__ = ["trace"]


def trace() -> None:
    """Read traces: where the time went, who asked whom, and what does not fit."""
