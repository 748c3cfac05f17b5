"""Segments of a run that goes on, read on from where they were left, and what is new in them.

Checkers that judge each key alone are given only the keys in which something happened since the
last look, each with all its operations; a key in which nothing has happened for a while is
forgotten, and what comes later in it is left to the judgement after the run. So a look costs what
was done since the last one, however long the run. Other checkers are given everything, up to a
bound.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.core.op import Op
from dstest.store.events import Completion, Event, Invoked, event_of
from dstest.store.seal import operation
from dstest.store.segment import text_of

IDLE_NS: Final = 120_000_000_000
"""A key without news for so long is forgotten."""

OPS_MAX: Final = 2_000_000
"""Operations kept for a checker of whole histories; a longer run is judged at its end alone."""


def prefix(ops: list[Op], cut_ns: int) -> list[Op]:
    """What was known at `cut_ns`: later operations are left out, unfinished ones are unknown."""
    kept = []
    for op in ops:
        if op.invoke_ts > cut_ns:
            continue
        if op.complete_ts is not None and op.complete_ts > cut_ns:
            op = msgspec.structs.replace(
                op,
                complete_ts=None,
                output=None,
                error="unfinished",
                timeout_marker=True,
                node_seen=None,
            )
        kept.append(op)
    return kept


class _Tail:
    """One segment, read as far as its last whole line.

    A line may be seen while it is written. One whose checksum does not match is waited for; it is
    damaged, and left out, when it is still there at the next look and whole lines follow it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._waited_for: int | None = None

    def read(self) -> list[Event]:
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        lines = data.split(b"\n")[:-1]
        while lines and text_of(lines[-1]) is None:
            lines.pop()
        events = []
        for line in lines:
            text = text_of(line)
            if text is None and self._waited_for != self._offset:
                self._waited_for = self._offset
                break
            self._offset += len(line) + 1
            if text is not None and (event := event_of(text)) is not None:
                events.append(event)
        return events


class Following:
    """The operations of a run's segments so far. `keyed`: each key is judged alone."""

    def __init__(self, segments: Path, *, keyed: bool) -> None:
        self._segments = segments
        self._keyed = keyed
        self._tails: dict[Path, _Tail] = {}
        self._invokes: dict[int, Invoked] = {}
        self._done: dict[int, Completion] = {}
        self._of_key: dict[str, list[int]] = {}
        self._news_ns: dict[str, int] = {}
        self._forgotten: set[str] = set()
        self._ahead: list[tuple[int, str]] = []

    def _name(self, key: Any) -> str:
        return repr(key) if self._keyed else ""

    def _read(self) -> None:
        for path in sorted(self._segments.glob("*.seg")):
            for event in self._tails.setdefault(path, _Tail(path)).read():
                if isinstance(event, Invoked):
                    name = self._name(event.key)
                    if name in self._forgotten:
                        continue
                    self._invokes[event.op_id] = event
                    self._of_key.setdefault(name, []).append(event.op_id)
                    self._ahead.append((event.time_ns, name))
                elif isinstance(event, Completion) and event.op_id in self._invokes:
                    self._done[event.op_id] = event
                    self._ahead.append((event.time_ns, self._name(self._invokes[event.op_id].key)))

    def look(self, cut_ns: int) -> list[Op]:
        """Operations as known at run time `cut_ns`, by invocation: of the keys with something new
        since the last look, or all of them. Empty where there is nothing new, or too much."""
        self._read()
        fresh = {name for at_ns, name in self._ahead if at_ns <= cut_ns} - self._forgotten
        self._ahead = [(at_ns, name) for at_ns, name in self._ahead if at_ns > cut_ns]
        for name in fresh:
            self._news_ns[name] = cut_ns
        if not self._keyed and len(self._invokes) > OPS_MAX:
            self._forget("")
            return []
        ops = [
            operation(self._invokes[op_id], self._done.get(op_id), None)
            for name in fresh
            for op_id in self._of_key.get(name, ())
        ]
        for name, news_ns in list(self._news_ns.items()):
            if self._keyed and news_ns < cut_ns - IDLE_NS:
                self._forget(name)
        ops.sort(key=lambda op: (op.invoke_ts, op.op_id))
        return prefix(ops, cut_ns)

    def _forget(self, name: str) -> None:
        self._forgotten.add(name)
        self._news_ns.pop(name, None)
        for op_id in self._of_key.pop(name, ()):
            self._invokes.pop(op_id, None)
            self._done.pop(op_id, None)
