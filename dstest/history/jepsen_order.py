"""Events of a Jepsen history: whose they are, and in which order they happened; and Jepsen's logs
and its history.txt, line by line as the op maps that they tell of (`as_edn`).

The order is that of `:index` where every event has one, else that of the file. A file whose times
or indices step back against its order is refused: which of the two is right nobody knows. Steps of
a moment are innocent, for the threads of a recorder race. `:time` gives the distances where every
event has one, equal ones moved 1 ns apart; otherwise the event's number stands in for its time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from dstest.core.errors import HistoryError
from dstest.core.op import NULL_IS_RESULT
from dstest.history.edn import first_end
from dstest.history.jepsen_hint import Hints

_RACE_NS_MAX: Final = 1_000_000
_RACE_SHARE: Final = 1000

_EVENT: Final = (
    r"(?P<process>:?\w[\w.-]*)\s+:(?P<type>invoke|ok|fail|info)\s+(?P<f>:?\S+)(?P<rest>.*)"
)
_LOGGED: Final = re.compile(rf"\bjepsen\.[\w.-]+:?\s+(?:-\s+)?{_EVENT}")

_OTHERS: Final = re.compile(rf"[\s:]{_EVENT}".replace("\\s+", "\\t"))
"""Of loggers that are not Jepsen's own."""

_BARE: Final = re.compile(_EVENT.replace("\\s+", "\\t"))
_LIKE: Final = re.compile(r"\d+\s+:\w+\s+:\S")

_LIKE_LOGGED: Final = re.compile(
    r"\bjepsen\.(?:util|print):?\s+(?:-\s+)?"
    r"(?:(?:\S+\s+)?:(?:invoke|ok|fail|info)\b|\d+\s+:\w+\s+:\S)"
)
"""What seems to be an event, by itself or logged."""

_OF_2013: Final = re.compile(r"\bjepsen\.util\s+-\s")

_ENDED: Final = re.compile(
    r"\bjepsen\.\S+:?\s.*\b(Run complete, writing|Analysis complete|Everything looks good!|"
    r"Analysis invalid!)"
)
"""What a test says when its load is over."""

_HEADED: Final = re.compile(
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[,.]\d+(?:\{\w+\})?\s+[A-Z]+\s+\[|"
    r"(?:TRACE|DEBUG|INFO|WARN|ERROR)\s+(?:\[\d{4}-|jepsen\.)"
)
_PLAIN: Final = re.compile(r"[:\w.+-]+")
_WORDS: Final = re.compile(r"\[[:\w.+\-\[\] ]*\]")
_NAMED: Final = re.compile(r"[:\"a-zA-Z]")
_REMEDY: Final = "`INFO jepsen.util - process :type :f value`, by tabs or spaces"


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a Jepsen history. `time_ns` and `index` are None where the source has none;
    `told` is whether it has a value, if only null."""

    process: int | str
    type: str
    f: str
    value: Any
    time_ns: int | None
    error: str | None
    line: int
    hint: Any = None
    hints: Hints | None = None
    index: int | None = None
    has_value: bool = True
    key: Any = None
    is_tuple: bool = False
    strange: tuple[str, ...] = ()


def as_tuple(event: Event) -> Event:
    """The event, whose value is tagged as a tuple of a key and a value."""
    return replace(event, is_tuple=True)


def clients_of(events: Iterable[Event]) -> tuple[list[Event], int]:
    """Events of clients, and how many the nemesis had. Raises HistoryError for a process that is
    neither: its operations would be left out."""
    clients: list[Event] = []
    skipped = 0
    for event in events:
        if isinstance(event.process, int):
            clients.append(event)
            continue
        if "nemesis" not in event.process.lower():
            raise HistoryError(
                f"process {event.process!r} is neither an integer nor the nemesis",
                line=event.line,
                remedy="number the clients",
            )
        skipped += 1
    return clients, skipped


def _back(steps: Sequence[int | None]) -> int | None:
    """Where a known number is below one before it."""
    top = None
    for at, step in enumerate(steps):
        if step is None:
            continue
        if top is not None and step < top:
            return at
        top = step
    return None


def _raced(times: Sequence[int | None]) -> bool:
    """Do times step back only as they do where threads stamp and write at once: by a moment, which
    is nothing to the whole?"""
    known = [t for t in times if t is not None]
    top, worst = known[0], 0
    for time_ns in known:
        worst = max(worst, top - time_ns)
        top = max(top, time_ns)
    return worst <= _RACE_NS_MAX and worst <= (max(known) - min(known)) // _RACE_SHARE


def in_order(events: list[Event]) -> list[Event]:
    """The events as they happened. Raises HistoryError where the file contradicts itself."""
    known = [e.index for e in events if e.index is not None]
    if len(known) == len(events) and len(set(known)) == len(known):
        if known == sorted(known):
            return events
        return [event for _, event in sorted(zip(known, events, strict=True), key=lambda p: p[0])]
    remedy = "sort the events as they happened, or give every one its index"
    if len(known) == len(events) and _per_process(events):
        remedy = (
            "it counts per process, which says nothing of the order between them: leave it out "
            "where the file is in the order in which the events happened"
        )
    for name, steps in (
        ("index", [e.index for e in events]),
        ("time", [e.time_ns for e in events]),
    ):
        at = _back(steps)
        if at is not None and not (name == "time" and _raced(steps)):
            raise HistoryError(
                f"{name} {steps[at]} comes after a later one: which order is right is not known",
                line=events[at].line,
                remedy=remedy,
            )
    return events


def _per_process(events: list[Event]) -> bool:
    """Does the index of each process rise by itself, while several have the same?"""
    last: dict[int | str, int] = {}
    for event in events:
        if event.index is None or event.index <= last.get(event.process, event.index - 1):
            return False
        last[event.process] = event.index
    return True


def require_value(event: Event) -> None:
    """Raises HistoryError for an answer without a value: it may stand under another name."""
    if not event.has_value and event.type == "ok" and event.f in NULL_IS_RESULT | {"txn"}:
        raise HistoryError(
            f"process {event.process} completes {event.f} (:ok) without a value",
            line=event.line,
            remedy="an answer needs its value, null where nothing was there",
        )


def require_text(event: Event) -> Event:
    """The event. Raises HistoryError where a text in it is none: half of a surrogate pair."""
    try:
        json.dumps([event.value, event.f, event.hint, event.error], ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise HistoryError(
            "half of a surrogate pair is no text", line=event.line, remedy="record it again"
        ) from None
    except TypeError:
        pass  # other readers say what is wrong with it
    return event


def require_exact(events: list[Event]) -> None:
    """Raises HistoryError where an export of ours does not tell its times as it was written."""
    for event in events:
        if event.time_ns is None:
            raise HistoryError(
                "its time is absent, negative or no integer",
                line=event.line,
                remedy="export the history again",
            )
    if (at := _back([e.time_ns for e in events])) is not None:
        raise HistoryError(
            "its time contradicts the order of the events",
            line=events[at].line,
            remedy="export the history again",
        )


def timed(events: list[Event]) -> tuple[list[Event], str]:
    """Events with a time each, rising in their order, and the name of the clock."""
    times = [e.time_ns for e in events]
    known = [t for t in times if t is not None]
    if not events or len(known) < len(events) or _back(known) is not None:
        return [replace(e, time_ns=i) for i, e in enumerate(events)], "event order"
    last, stamped = -1, []
    for event, time_ns in zip(events, known, strict=True):
        last = max(time_ns, last + 1)
        stamped.append(replace(event, time_ns=last))
    return stamped, "jepsen :time"


def is_log(head: str) -> bool:
    """Is a text that begins so a log of Jepsen's, or a history.txt?"""
    lines = _lines_of(head)
    return any(_HEADED.match(line) or _LOGGED.search(line) for line in lines[:200]) or bool(
        lines and _BARE.fullmatch(next(filter(str.strip, lines), ""))
    )


def failed_cas_differed(text: str) -> bool:
    """Is it what old Jepsens print, where a cas that compared and differed is a failure without an
    error?"""
    return _OF_2013.search(text) is not None


def _lines_of(text: str) -> list[str]:
    """Its lines: of what may stand in a string no other sign ends one."""
    return [line.removesuffix("\r") for line in text.split("\n")]


def as_edn(text: str) -> str:
    """An op map for each line that is an event, an empty line for each other one. Raises
    HistoryError for a line that seems to be an event and cannot be read, for a last one that may go
    on, and for the event of another test.

    | notation | a line |
    |---|---|
    | `history.txt` | `0<tab>:invoke<tab>:read<tab>nil` |
    | `jepsen.log` | `2026-01-05 10:00:01,000{GMT}<tab>INFO<tab>[jepsen worker 0] jepsen.util: ..` |
    | what it prints | `INFO [2026-01-05 10:00:01,000] jepsen worker 0 - jepsen.util ..` |
    | of 2013 | `INFO  jepsen.util - 0 :invoke :read nil` |

    Behind the value comes the error, as it is: no notation, and perhaps of several lines. A log
    whose lines name a logger has its events there: what stands by itself is the report at its end.
    """
    lines = _lines_of(text)
    logged = any(_LOGGED.search(line) for line in lines) or any(map(_HEADED.match, lines))
    last = lines[-1]
    if _HEADED.match(last) or _LOGGED.search(last) if logged else last.strip():
        raise HistoryError(
            "the file is cut off in its last line",
            line=len(lines),
            remedy="take it whole, or end it with a newline if it is whole",
        )
    return "\n".join(_lines(lines, logged)) + "\n"


def _lines(lines: list[str], logged: bool) -> Iterator[str]:
    ended = 0
    for number, line in enumerate(lines, start=1):
        ended = ended or (number if logged and _ENDED.search(line) else 0)
        event = _LOGGED.search(line) or _OTHERS.search(line) if logged else _BARE.fullmatch(line)
        like = _LIKE_LOGGED.search(line) if logged else _LIKE.match(line)
        if event is None and like:
            raise HistoryError(f"not a Jepsen event: {line[:80]!r}", line=number, remedy=_REMEDY)
        if event and ended and event["type"] == "invoke" and event["process"].isdigit():
            raise HistoryError(
                f"the log goes on with another test: the first one has ended in line {ended}",
                line=number,
                remedy="give each test's own jepsen.log, or cut the log behind that line",
            )
        try:
            yield "" if event is None else _op_map(event)
        except HistoryError as error:
            message = error.message.partition(": ")[2]  # columns are those of the value
            raise HistoryError(message, line=number, remedy=error.remedy) from None


def _op_map(event: re.Match[str]) -> str:
    """The op map of an event. Raises HistoryError where its value is no form."""
    process, kind, f, rest = event.group("process", "type", "f", "rest")
    if not process.isdigit():
        process = json.dumps(process.removeprefix(":"))
    value, error = _parted(rest)
    late = kind in ("fail", "info") and not error and _NAMED.match(value)
    if late and value not in ("nil", "true", "false"):
        value, error = "nil", value  # the error has taken the place of the value
    told = f" :value {value}" if value else ""
    why = f" :error {json.dumps(error.removeprefix(':'), ensure_ascii=False)}" if error else ""
    return f"{{:process {process} :type :{kind} :f {f}{told}{why}}}"


def _is_list(value: str) -> bool:
    """Is it a list of plain words, as most values are?"""
    return _WORDS.fullmatch(value) is not None and value.count("[") == value.count("]")


def _parted(rest: str) -> tuple[str, str]:
    """The text of a value, and that of an error. Raises HistoryError."""
    value, _, error = rest.removeprefix("\t").rstrip().partition("\t")
    value = value.strip()
    if _PLAIN.fullmatch(value) or not value or (rest[:1] == "\t" and _is_list(value)):
        return value, error.strip()
    end = first_end(value)
    if value[end:].strip() and error:
        raise HistoryError(f"column 1: {value[:80]!r} is more than one form", remedy=_REMEDY)
    return value[:end], f"{value[end:]} {error}".strip()
