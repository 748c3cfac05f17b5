"""Logs that are held against a specification, one or those of several servers as one (`merge`), and
replayed through a model (`run`).

    {"kind": "append", "entry": 7}
    {"kind": "gap"}

One log is a JSON object a line, in the order of what was done. A `gap` stands where what wrote it
ended and began again. A last line that was cut off is left out: what wrote it may have ended there.
"""

from __future__ import annotations

import heapq
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from dstest.core.errors import ConfigError, HistoryError
from dstest.spec.mapping import Event, Record
from dstest.spec.taking import RefusedStep, Taker

Place = tuple[str, str, int]
"""Name of a server, run, seq."""

Saw = dict[str, tuple[int | str, int] | dict[str, int]]
"""As it stands in a line; with a list it is an older log."""


class Merged(msgspec.Struct, frozen=True):
    """`events` have the field `at`, `NAME:LINE`, and `server`. `left_out` are by name how many
    lines at the end of a file could not be placed, `damaged` such that nobody can read.

    `lost` says what was written and is not there, in a sentence each. The torn last line of a
    server that was killed is no loss: it may never have been written. `walls` are by `at` the wall
    clocks in nanoseconds, as each server had them."""

    events: list[Event]
    left_out: dict[str, int]
    damaged: dict[str, int]
    lost: list[str] = []
    walls: dict[str, int] = {}


class _Line(msgspec.Struct):
    place: Place
    line: int
    wall_ns: int
    comes: list[Place]
    event: Event


class _LineMeta(msgspec.Struct):
    """What stands in a line beside what it says of the protocol."""

    seq: int
    kind: str
    wall_ns: int = 0
    run: int | str | None = None
    server: int | str | None = None
    saw: Saw = {}


class _File(msgspec.Struct):
    """Lines up to the first hole, all runs that begin, how many lines cannot be read, what is
    missing within, whether the last line cannot be read, and whose greatest run alone its server
    told."""

    lines: list[_Line] = []
    runs: list[int | str] = []
    bad: int = 0
    holes: list[str] = []
    torn: bool = False
    greatest: set[str] = set()


def log_of_run(nodes: Path, file: str) -> Merged:
    """Of `nodes/NAME/FILE` of each server. Raises HistoryError where there is none, or where none
    has a line that can be read."""
    found = dict[str, bytes]()
    for path in sorted(nodes.glob(f"*/{file}")):
        if not path.is_file():
            raise HistoryError(f"{path}: no regular file", remedy="what the server wrote, a file")
        try:
            found[path.parent.name] = path.read_bytes()
        except OSError as error:
            raise HistoryError(f"{path}: {error.strerror}", remedy="a file to read") from None
    if not found:
        raise HistoryError(
            f"{nodes}: no server has a {file}",
            remedy="a run of a system that writes it: of toykv with -o journal=yes",
        )
    made = merge(found)
    if not made.events:
        raise HistoryError(f"{nodes}: {file} of no server can be read", remedy="whole lines of it")
    return made


def merge(files: Mapping[str, bytes]) -> Merged:
    """By name of the server what it has written. Raises HistoryError where the order cannot be
    known.

        {"seq": 1, "run": 5, "server": 3, "kind": "start", ..}
        {"seq": 2, "kind": "vote", "saw": {"n2": {"4": 17}}, ..}

    `seq` is from 1 on in each run of a server; the first line of a run has its number or name.
    `saw` says of which lines of others a server had heard when it wrote: name -> run -> seq. Older
    logs have name -> [run, seq] there, of the run with the greatest number alone, and are refused
    where a later run has a smaller one.

    No line stands before one that it may have come from. Of lines that neither comes from the
    other, that of the earlier `wall_ns` comes first, which need not be true of any clock. Lines
    that come from one which is in no file cannot be placed, nor what their server wrote after them:
    they are left out. What is left is a consistent cut. Source: Lamport, "Time, Clocks, and the
    Ordering of Events in a Distributed System" (1978); Chandy and Lamport, "Distributed Snapshots"
    (1985)."""
    read: dict[str, _File] = {}
    lines: dict[str, list[_Line]] = {}
    damaged, left_out = dict[str, int](), dict[str, int]()
    lost, torn = list[str](), set[Place]()
    for name, text in sorted(files.items()):
        rows = text.split(b"\n")
        if rows[-1] == b"":
            rows.pop()
        one = read[name] = _read(name, rows)
        lines[name] = one.lines
        damaged |= {name: one.bad} if one.bad else {}
        if left := len(rows) - len(one.lines) - one.bad:
            left_out[name] = left
        if one.torn and text.endswith(b"\n"):
            one.holes.append(f"{name}, line {len(rows)}: cannot be read, and is not cut off")
        elif one.torn and one.lines:
            *_, run, seq = one.lines[-1].place
            torn.add((name, run, seq + 1))
        lost += one.holes
    _told_apart(read)
    lost += _unplaced(lines, torn)
    for name, count in _cut(lines).items():
        left_out[name] = left_out.get(name, 0) + count
    placed = _ordered(lines)
    walls = {str(one.event.fields["at"]): one.wall_ns for one in placed}
    return Merged([one.event for one in placed], left_out, damaged, lost, walls)


def _told_apart(files: Mapping[str, _File]) -> None:
    """Raises HistoryError for two runs of one name, and where what was heard of a run may be
    missing."""
    told = {name for one in files.values() for name in one.greatest}
    for name, one in files.items():
        twice = next((run for n, run in enumerate(one.runs) if run in one.runs[:n]), None)
        if twice is not None:
            raise HistoryError(
                f"run {twice} of {name} begins twice",
                remedy="one file of each server, with a name of its own for each of its starts",
            )
        numbers = [run for run in one.runs if isinstance(run, int)]
        if name in told and numbers != sorted(numbers):
            raise HistoryError(
                f"the clock of {name} went back between two of its starts, and these logs, of an "
                "older version, do not say what was heard of the later one",
                remedy="a run of this version",
            )


def _read(name: str, rows: Iterable[bytes]) -> _File:
    """Runs follow one another; within one nothing is missing, but at its end."""
    found = _File()
    run, server, last, before, whole = None, None, 0, 0, True
    for number, row in enumerate(rows, 1):
        try:
            said = msgspec.json.decode(row, type=_LineMeta)
            fields: dict[str, Any] = json.loads(row)
        except (msgspec.DecodeError, ValueError, RecursionError):
            found.bad, before = found.bad + 1, before + 1
            continue
        begins = said.seq == 1 and said.run is not None
        found.runs += [said.run] if begins and said.run is not None else []
        found.greatest |= {other for other, of in said.saw.items() if isinstance(of, tuple)}
        if not whole:
            continue
        if before > 1 or (before and not begins):
            gap = f"{name}, line {number - 1}: cannot be read, and there is more behind it"
            found.holes.append(gap)
        before = 0
        if not (begins or (run is not None and said.seq == last + 1)):
            gap = f"{name}, line {number}: {said.seq} follows {last}: lines are missing"
            found.holes.append(gap)
            whole = False
            continue
        if begins:
            run, server = said.run, said.server
        assert run is not None
        last = said.seq
        for beside in ("seq", "kind", "wall_ns", "run", "saw"):
            fields.pop(beside, None)
        event = Event(said.kind, {"at": f"{name}:{number}", "server": server, **fields})
        place = (name, str(run), last)
        found.lines.append(_Line(place, number, said.wall_ns, _from(said.saw), event))
    if whole and before > 1:
        found.holes.append(f"{name}: the last {before} lines cannot be read")
    found.torn = whole and before == 1
    return found


def _unplaced(lines: Mapping[str, list[_Line]], torn: set[Place]) -> list[str]:
    """Of each server the first line that comes from one which is in no file."""
    there = {one.place for found in lines.values() for one in found} | torn
    said = []
    for name, found in lines.items():
        places = ((one, place) for one in found for place in one.comes if place not in there)
        for one, (other, run, seq) in itertools.islice(places, 1):
            said.append(
                f"{name}, line {one.line}: comes from line {seq} of run {run} of {other}, which is "
                "in no file"
            )
    return said


def _cut(lines: dict[str, list[_Line]]) -> dict[str, int]:
    """Take away what cannot be placed; how many lines of whom."""
    counts: dict[str, int] = {}
    todo = True
    while todo:
        todo = False
        there = {one.place for found in lines.values() for one in found}
        for name, found in lines.items():
            keep = next(
                (n for n, one in enumerate(found) if any(p not in there for p in one.comes)), None
            )
            if keep is not None:
                counts[name] = counts.get(name, 0) + len(found) - keep
                del found[keep:]
                todo = True
    return counts


def _from(saw: Saw) -> list[Place]:
    """The lines of others that one comes from; seq 0 is before the first of a run."""
    found: list[Place] = []
    for name, of in saw.items():
        runs = [of] if isinstance(of, tuple) else of.items()
        found += [(name, str(run), seq) for run, seq in runs if seq]
    return found


def _ordered(lines: dict[str, list[_Line]]) -> list[_Line]:
    """Earliest first among those of which all that they come from is there already. Raises
    HistoryError for lines that come from one another in a circle."""
    order: list[_Line] = []
    placed: set[Place] = set()
    at = dict.fromkeys(lines, 0)
    waiting: dict[Place, list[str]] = {}
    ready: list[tuple[int, str]] = []

    def offer(name: str) -> None:
        if at[name] == len(lines[name]):
            return
        one = lines[name][at[name]]
        missing = next((place for place in one.comes if place not in placed), None)
        if missing is None:
            heapq.heappush(ready, (one.wall_ns, name))
        else:
            waiting.setdefault(missing, []).append(name)

    for name in lines:
        offer(name)
    while ready:
        _, name = heapq.heappop(ready)
        one = lines[name][at[name]]
        at[name] += 1
        order.append(one)
        placed.add(one.place)
        offer(name)
        for other in waiting.pop(one.place, ()):
            offer(other)
    if len(order) < sum(map(len, lines.values())):
        stuck = sorted(n for n in lines if at[n] < len(lines[n]))
        raise HistoryError(
            f"the logs of {', '.join(stuck)} come from one another in a circle",
            remedy="logs of one run, as the servers wrote them",
        )
    return order


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, for `object_pairs_hook`. Raises ValueError for a name that stands twice:
    which of them is meant?"""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def cut_off(path: Path) -> bool:
    """Does the last line lack its end, so that it is left out?"""
    last = path.read_bytes().rpartition(b"\n")[2]
    try:
        json.loads(last or b"{}")
    except (ValueError, RecursionError):
        return True
    return False


def read_log(path: Path, kind: str = "kind") -> Iterator[Event]:
    """`kind` is the field that says of what kind a line is.

    Raises HistoryError for a line that is no JSON object or says no kind, and for a file that
    cannot be read.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror}", remedy="name a file of lines") from None
    rows = text.split(b"\n")
    for number, row in enumerate(rows, 1):
        if not row.strip():
            continue
        try:
            line = json.loads(row, object_pairs_hook=once)
        except (ValueError, RecursionError):
            if number == len(rows):
                return
            line = None
        if not isinstance(line, dict):
            raise HistoryError(
                f"{path}, line {number}: no JSON object", remedy="one a line, whole lines only"
            )
        try:
            yield Event.of(line, kind)
        except ConfigError as error:
            raise HistoryError(f"{path}, line {number}: {error}", remedy=error.remedy) from None


class Happening(NamedTuple):
    """An event of a replay. `begins`: an operation was invoked; else it completed, or a line of a
    log was met. `number` tells records apart, `place` is that of the completion among all
    completions, or of the line."""

    begins: bool
    number: int
    record: Record
    place: int | None


class Frontier(NamedTuple):
    """`frontier` are states, each with the set of open operations that have taken effect, as bits;
    `open` are the operations that are under way, by number."""

    frontier: tuple[tuple[Any, int], ...]
    open: dict[int, Any]


class Stuck(Exception):
    """No state can do it. `refused` counts what refused which candidate."""

    def __init__(self, refused: Counter[RefusedStep], states: int) -> None:
        super().__init__("no state can do it")
        self.refused, self.states = refused, states


class Exceeded(Exception):
    """More states than may be looked at for one record."""


class Replay(Protocol):
    """`unknown_taken` counts how often an operation of unknown outcome was taken to have had an
    effect, `left` the states that were left since they lead nowhere.

    A way to advance past one event: `conform.py` has that of concurrent operations and that of a
    log. What is known after each event is a frontier: all states in which the specification can be
    then.
    """

    taker: Taker
    unknown_taken: int
    left: int

    def begin(self) -> Frontier: ...

    def advance(self, known: Frontier, event: Happening) -> Frontier:
        """Raises Stuck or Exceeded."""
        ...


class ReplayEnd(NamedTuple):
    """How far a replay came. `at` is the event at which it ended, None at the end of all; `before`
    has what was known before each event that was met, where that is kept."""

    at: int | None
    before: list[Frontier]
    last: Frontier
    peak: int
    stuck: Stuck | None = None
    exceeded: bool = False


def run(
    replay: Replay,
    events: Iterable[Happening],
    known: Frontier | None = None,
    keep: bool = False,
    doing: str = "",
) -> ReplayEnd:
    """From the beginning, or from what is known; `doing` is told of as it goes on. Raises
    ConfigError where the model can begin in no state, Spent where that is looked at."""
    if known is None:
        known = replay.begin()
        if not known.frontier:
            raise ConfigError(
                "the specification can begin in no state",
                remedy="an invariant fails in each of its initial states",
            )
    before: list[Frontier] = []
    peak = len(known.frontier)
    for place, event in enumerate(events):
        if keep:
            before.append(known)
        watch = replay.taker.watch
        watch.look()
        if doing:
            watch.doing = f"{doing}: at {place}, {len(known.frontier)} states"
        try:
            known = replay.advance(known, event)
        except Stuck as stuck:
            return ReplayEnd(place, before, known, peak, stuck=stuck)
        except Exceeded:
            return ReplayEnd(place, before, known, peak, exceeded=True)
        peak = max(peak, len(known.frontier))
    return ReplayEnd(None, before, known, peak)
