"""What all checks know: the nodes that there are, who is meant by an address, clocks and faults."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from dstest.core.protocols import LogRecord
from dstest.core.protocols.logs import Topic
from dstest.logs.findings import Outcome, Row, row_of
from dstest.logs.windows import Expected, Windows

_ADDRESS: Final = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}|\[[0-9a-fA-F:]+\]")


class Offset(msgspec.Struct, frozen=True):
    """A node's wall clock minus the clock that all lines are told by, and how far off that may be.
    `how` says where it is from."""

    offset_ns: int
    doubt_ns: int
    how: str


class Line(NamedTuple):
    """A line as it was read. `time_ns` is of the clock of all lines, `topics` what it is about."""

    node: str
    place: str
    time_ns: int | None
    doubt_ns: int
    record: LogRecord
    topics: frozenset[Topic] = frozenset()

    @property
    def row(self) -> Row:
        """As evidence."""
        return row_of(self.place, self.time_ns, self.record.message)


class Scene:
    """`declared` are the nodes that there have to be; where nobody says, those that have logs.
    `harmless` are texts of healthy lines of the system that look like trouble."""

    def __init__(
        self,
        declared: Sequence[str],
        windows: Windows,
        addresses: Mapping[str, str],
        *,
        named: bool,
        harmless: Sequence[str] = (),
    ) -> None:
        self.declared = list(declared)
        self.named = named
        self.harmless = tuple(harmless)
        self.windows = windows
        names = "|".join(map(re.escape, sorted(declared, key=len, reverse=True)))
        self._by_name = re.compile(rf"(?<![\w.-])(?:{names or '(?!)'})(?![\w-])")
        self._names: dict[str, str] = {**addresses, **{name: name for name in declared}}

    def learn(self, record: LogRecord, node: str) -> None:
        """Ids that the system gives its members; `node` is whose log it is."""
        for id_, told in record.aliases.items():
            if id_ not in self._names and (name := self._found(told) if told else node):
                self._names[id_] = name

    def _found(self, told: str) -> str:
        if told in self._names:
            return self._names[told]
        address = _ADDRESS.search(told)
        return self._names.get(address[0], "") if address else ""

    def member(self, told: str) -> str:
        """Who is meant by a name, an address or an id; as it was told where nobody knows."""
        return (self._found(told) or told) if told else ""

    def peer_in(self, text: str, node: str) -> str:
        """The other member whose address or name stands in a text; empty where none does."""
        for address in (*_ADDRESS.findall(text), *self._by_name.findall(text)):
            name = self._names.get(address, "")
            if name and name != node:
                return name
        return ""

    def judged(self, line: Line, peer: str = "", alarm: str = "") -> Expected:
        """Is this line expected?"""
        about = (line.node, peer) if peer in self.declared else ()
        return self.windows.judged(
            line.time_ns, line.doubt_ns, (line.node,) if alarm else about, alarm
        )


class Check:
    """One of the checks: it is given every line and says what it came to."""

    name: str
    group: str
    asks: str
    """What it looks for, for people."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def line(self, line: Line) -> None:
        """One line of one log, in the order of that log."""
        raise NotImplementedError

    def end(self) -> Outcome:
        """When all were read."""
        raise NotImplementedError
