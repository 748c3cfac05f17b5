"""Spans: what a server did for whom, from when to when, a line of JSON each; if a file is wanted.

A span is written when it ends, so that one which was under way when its server died is missing.
What is asked of another server carries the span that it is asked for (`span`: trace and span).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any

__all__ = ["CURRENT", "Context", "Span", "Spans", "context_of"]

Context = list[str]
"""Trace and span."""

CURRENT: ContextVar[Context | None] = ContextVar("span", default=None)


def context_of(message: dict[str, Any]) -> Context | None:
    """The span that a message is sent for; None where it names none, or what is none."""
    told = message.get("span")
    good = isinstance(told, list) and len(told) == 2 and all(isinstance(one, str) for one in told)
    return told if good else None


class Span:
    """From `with` to its end. `context` is None where nothing is written."""

    def __init__(self, spans: Spans | None, row: dict[str, Any], parent: Context | None) -> None:
        self._spans, self._row = spans, row
        self.context: Context | None = None
        if spans is not None and parent is not None:
            self.context = [parent[0], spans.next_id()]
            row["traceId"], row["spanId"] = self.context
            row["parentSpanId"] = parent[1]
        self._token: Token[Context | None] | None = None

    def __enter__(self) -> Span:
        if self.context is not None and self._spans is not None:
            self._row["startNs"] = self._spans.now_ns()
            self._token = CURRENT.set(self.context)
        return self

    def note(self, **more: Any) -> None:
        """What is known later."""
        self._row.update(more)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.context is None or self._spans is None or kind is GeneratorExit:
            return  # nobody goes on: the process is gone
        assert self._token is not None
        CURRENT.reset(self._token)
        self._row["endNs"] = self._spans.now_ns()
        if error is not None:
            self._row["error"] = repr(error)
        self._spans.write(self._row)


class Spans:
    """Of one server. `line` takes what is to be kept, None where nothing is."""

    def __init__(
        self, node: str, now_ns: Callable[[], int], line: Callable[[str], object] | None
    ) -> None:
        self._node, self._line = node, line
        self.now_ns = now_ns
        self._start = f"{node}-{now_ns():x}"
        self._number = 0

    @property
    def wanted(self) -> bool:
        """Is anything written?"""
        return self._line is not None

    def next_id(self) -> str:
        """An id that no other span has, not even of an earlier process of this server."""
        self._number += 1
        return f"{self._start}-{self._number}"

    def span(self, operation: str, kind: str, parent: Context | None = None, **more: Any) -> Span:
        """A span below `parent`, or below the one that is under way; none where neither is."""
        above = CURRENT.get() if parent is None else parent
        row = {"nodeId": self._node, "operation": operation, "kind": kind, **more}
        return Span(self if self.wanted else None, row, above)

    def root(self, operation: str, trace: str) -> Span:
        """The first of a trace of this server's own."""
        row = {"nodeId": self._node, "operation": operation, "kind": "internal"}
        return Span(self if self.wanted else None, row, [trace, ""])

    def write(self, row: dict[str, Any]) -> None:
        """One that has ended."""
        if self._line is not None:
            self._line(json.dumps(row, separators=(",", ":")))
