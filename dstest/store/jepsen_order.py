"""Events of a Jepsen history: whose they are, and in which order they happened.

The order is that of `:index` where every event has one, else that of the file. A file whose times
or indices step back against its order is refused: which of the two is right nobody knows. Steps of
a moment are innocent, for the threads of a recorder race.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from dstest.core.errors import HistoryError
from dstest.core.op import NULL_IS_RESULT
from dstest.store.jepsen_hint import Hints

_RACE_NS_MAX: Final = 1_000_000
_RACE_SHARE: Final = 1000


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
