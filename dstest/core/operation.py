"""Which operation of the history is being asked for: what a client puts into the traces that its
requests begin."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

OPERATION: Final[ContextVar[str | None]] = ContextVar("operation", default=None)
"""The id of the trace, and of its first span, that the operation of this task is."""


def trace_of(op_id: int | str) -> str:
    """The id of the trace of an operation, by its id in the history."""
    return f"op-{op_id}"
