"""What servers wrote down of their protocol: terms, votes, leaders, entries, acknowledgements.

The lines are those of `dstest.spec.shipped.raft`, merged so that none stands before one that it may
have come from (`dstest.spec.merged`). They are looked at here and not judged by a specification:
`dstest spec conform raft RUN` does that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import eq
from pathlib import Path
from typing import Any

import msgspec

from dstest.core.errors import HistoryError
from dstest.logs.clocks import Clocks
from dstest.patterns.model import Row, row
from dstest.spec.merged import log_of_run

Entry = tuple[int, Any]
"""Term and mark of an entry."""


class Step(msgspec.Struct, frozen=True):
    """One line. `server` is the id by which the others know who wrote it."""

    kind: str
    node: str
    server: Any
    fields: dict[str, Any]
    place: str
    time_ns: int | None

    def row(self, said: str = "") -> Row:
        """As evidence."""
        shown = " ".join(f"{k}={v}" for k, v in self.fields.items() if k not in ("rows", "sums"))
        text = said or f"{self.kind} {shown}"
        return row("journal", self.place, text, self.time_ns, self.node)

    @property
    def term(self) -> int:
        return int(self.fields.get("term") or 0)

    @property
    def index(self) -> int:
        return int(self.fields.get("index") or 0)


class Journal(msgspec.Struct, frozen=True):
    """`names` are nodes by the ids of their servers. `lost` says what is missing of it: where it is
    not empty, what nobody wrote may have been written. `until_ns` is then the moment up to which
    the lines of all servers are there; later silence says nothing."""

    steps: list[Step]
    names: dict[Any, str]
    lost: list[str]
    until_ns: int | None = None

    def silent_to(self, end_ns: int) -> int:
        """Up to when it shows that something was not written, of what lasts to `end_ns`."""
        return end_ns if self.until_ns is None else min(end_ns, self.until_ns)

    def of(self, *kinds: str) -> Iterator[Step]:
        """Lines of these kinds, in their order."""
        return (step for step in self.steps if step.kind in kinds)

    def node(self, server: Any) -> str:
        """The node of a server; its id where nobody knows."""
        return self.names.get(server, str(server))


def read_journal(
    run: Path,
    files: frozenset[str],
    clocks: Clocks,
    origin_ns: int | None,
    gaps: Callable[[Callable[[str], bool]], list[str]],
) -> Journal | str:
    """Of a run directory; a sentence where there is none. With `origin_ns` it is of a simulation,
    whose clock had that at the start of the run. `gaps` tells what was not kept of files."""
    for name in sorted(files):
        try:
            made = log_of_run(run / "nodes", name)
        except HistoryError as error:
            return error.message.replace(str(run) + "/", "")
        steps, names = [], {}
        for event in made.events:
            place = str(event.fields["at"])
            node, _, number = place.partition(":")
            server = event.fields.get("server")
            names[server] = node
            wall_ns = made.walls.get(place, 0)
            at: int | None = clocks.aligned(node, wall_ns)[0] if wall_ns else None
            if origin_ns is not None:
                at = wall_ns - origin_ns
            rest = {k: v for k, v in event.fields.items() if k not in ("at", "server")}
            shown = f"nodes/{node}/{name}:{number}"
            steps.append(Step(event.kind, node, server, rest, shown, at))
        lost = [*made.lost, *gaps(partial(eq, name))]
        until_ns = _until(steps, made.left_out) if lost else None
        return Journal(steps, names, lost, until_ns)
    return "its system keeps no journal of its protocol"


def _until(steps: list[Step], left_out: Iterable[str]) -> int:
    """The earliest end of what is there of a server; 0 where nothing is of one that wrote."""
    ends = dict.fromkeys(left_out, 0)
    for step in steps:
        if step.time_ns is not None:
            ends[step.node] = max(ends.get(step.node, 0), step.time_ns)
    return min(ends.values(), default=0)


class Replica:
    """The log of one server, as its lines have changed it."""

    def __init__(self) -> None:
        self.log: list[Entry] = []
        self.voters: list[tuple[int, list[Any]]] = []
        self.commit = self.acked = 0

    def change(self, first: int, rows: list[Any]) -> None:
        """From `first` on these entries stand there, and none behind them."""
        del self.log[max(first - 1, 0) :]
        self.voters = [one for one in self.voters if one[0] < first]
        for at, entry in enumerate(rows, first):
            self.log.append((entry[0], entry[1]))
            if len(entry) > 2:
                self.voters.append((at, list(entry[2])))

    def who_votes(self) -> list[Any]:
        """Members that the latest entry about members names, as it names them."""
        return self.voters[-1][1] if self.voters else []

    def at(self, index: int) -> Entry | None:
        return self.log[index - 1] if 1 <= index <= len(self.log) else None


def replicas(journal: Journal) -> Iterator[tuple[Step, Replica, dict[Any, Replica]]]:
    """Each line, with its server's log as it was *before* it, and those of all."""
    every: dict[Any, Replica] = {}
    for step in journal.steps:
        mine = every.setdefault(step.server, Replica())
        yield step, mine, every
        _take(step, mine)


def _take(step: Step, mine: Replica) -> None:
    fields = step.fields
    if step.kind in ("start", "accept"):
        first = int(fields.get("first") or 1)
        mine.change(first, fields.get("rows") or [])
        mine.commit = 0 if step.kind == "start" else min(mine.commit, first - 1)
        mine.acked = len(mine.log) if step.kind == "start" else min(mine.acked, first - 1)
    elif step.kind == "append":
        mine.change(step.index, [fields["row"]])
    elif step.kind == "ack":
        mine.acked = max(mine.acked, step.index)
    elif step.kind in ("commit", "learn"):
        mine.commit = max(mine.commit, step.index)
