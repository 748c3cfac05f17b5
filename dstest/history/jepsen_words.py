"""What an event of a Jepsen history is about, which of its fields nobody reads, and which
operations were never completed.

| sign | key | value |
|---|---|---|
| `:key k` beside the value | k | the value |
| `--independent`, or values tagged `#jepsen.independent.tuple` | k of `[k v]` | v |
| neither | none: there is one object | the value |

A history has one of these for all events of clients, or is refused: what is about one object must
not be taken for another. Other fields by which people name an object are refused as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import count
from typing import Any, Final

from msgspec.structs import replace

from dstest.core.errors import HistoryError
from dstest.core.history import INITIAL, NOT_READ, Header
from dstest.core.op import Op
from dstest.history.jepsen_hint import HINT
from dstest.history.jepsen_order import Event

_OTHERS: Final = frozenset(
    {"account", "bucket", "db", "keys", "object", "register", "table", "topic"}
)
"""Fields by which others tell which object is meant."""

_READ: Final = frozenset({"process", "type", "f", "value", "key", "time", "index", "error", HINT})

_HARMLESS: Final = frozenset(
    {"clock-offsets", "debug", "exception", "latency", "message", "node", "op-index", "source",
     "trace", "wall-time"}
)  # fmt: skip
"""Fields that say nothing of what an operation did."""

_KNOWN: Final = _READ | _HARMLESS

UNFINISHED = "unfinished"


def require_fields(fields: dict[str, Any], line: int) -> None:
    """Raises HistoryError for an event of a client that names its object in a way of its own."""
    if beside := [name for name in _OTHERS if fields.get(name) is not None]:
        raise HistoryError(
            f"event has {' and '.join(sorted(beside))} beside its value, which dstest does not "
            "read",
            line=line,
            remedy="name its object as `key`, or write values as [key value] tuples and judge them "
            "with --independent",
        )
    key = fields.get("key")
    if isinstance(key, list | dict):
        raise HistoryError(
            f"key {key!r} is not a scalar",
            line=line,
            remedy="name keys by scalars, for example the list as one text",
        )
    if key is not None and str(fields.get("f")).removeprefix(":") == "txn":
        raise HistoryError(
            "event has a key beside its value: a transaction names the keys of its "
            "micro-operations",
            line=line,
            remedy="leave the key out, or name it in the micro-operations",
        )


def strange_fields(fields: dict[str, Any]) -> tuple[str, ...]:
    """Fields that nobody knows, and that say something."""
    if fields.keys() <= _KNOWN:
        return ()
    return tuple(sorted(name for name in fields if name not in _KNOWN and fields[name] is not None))


def are_tuples(events: list[Event], independent: bool | None) -> bool:
    """Are the values of these clients `[key value]` tuples? Raises HistoryError where they name
    their objects in several ways, or in another way than was said."""
    keyed = [event for event in events if event.key is not None]
    if keyed and len(keyed) < len(events):
        other = next(event for event in events if event.key is None)
        raise HistoryError(
            "event has no key, and others have one beside their value",
            line=other.line,
            remedy="give each event its key, or none",
        )
    tagged = [event for event in events if event.is_tuple]
    if keyed and (independent or tagged):
        raise HistoryError(
            "event has a key beside its value, and values are to be [key value] tuples",
            line=keyed[0].line,
            remedy="leave --independent out: the keys are told already",
        )
    if not tagged:
        return bool(independent)
    plain = [event for event in events if not event.is_tuple and event.value is not None]
    if plain:
        raise HistoryError(
            "its value is no tuple, and values of other events are tagged as such",
            line=plain[0].line,
            remedy="write all values as [key value] tuples, or none",
        )
    if independent is False:
        raise HistoryError(
            "values are tagged as [key value] tuples",
            line=tagged[0].line,
            remedy="leave --no-independent out",
        )
    return True


def split(event: Event, independent: bool) -> tuple[Any, Any]:
    """(key, value) of an event; with `independent` its value is `[key value]`."""
    if event.key is not None:
        return event.key, event.value
    if not independent:
        return None, event.value
    if event.value is None:
        return None, None
    if not isinstance(event.value, list) or len(event.value) != 2:
        raise HistoryError(
            f"value {event.value!r} is not a [key value] tuple",
            line=event.line,
            remedy="read this history without independent keys",
        )
    if isinstance(event.value[0], list | dict):
        raise HistoryError(
            f"key {event.value[0]!r} is not a scalar",
            line=event.line,
            remedy="name keys by scalars, for example the list as one text",
        )
    return event.value[0], event.value[1]


def _is_kv_log(events: Sequence[Event]) -> bool:
    """Is it one of Porcupine's kv logs: get, put and append by key? Its keys start as "" where all
    reads return texts. Appends alone may be of a log as well."""
    keyed = all(e.key is not None and e.f in ("get", "put", "append") for e in events)
    return keyed and any(e.f != "append" for e in events)


def described(header: Header, events: list[Event]) -> Header:
    """The header, with what the events of the clients tell besides their operations."""
    strange = Counter(name for event in events for name in event.strange)
    counters = {**header.counters, **{NOT_READ + name: n for name, n in strange.items()}}
    header = replace(header, counters=counters)
    if not events or not _is_kv_log(events):
        return header
    told = [e.value for e in events if e.f == "get" and e.type == "ok"]
    texts = bool(told) and all(isinstance(value, str) for value in told)
    options = {**header.options, **({INITIAL: ""} if texts else {})}
    return replace(header, model="kv-map", options=options)


def own_ids(ops: list[Op]) -> list[Op]:
    """Completions alone tell their ids: operations without one get such as no other has."""
    known = [op.op_id for op in ops if not unfinished(op)]
    fresh = count(max((i for i in known if isinstance(i, int)), default=-1) + 1)
    return [replace(op, op_id=next(fresh)) if unfinished(op) else op for op in ops]


def cut_off(open_: int) -> str:
    """What is said of an export of ours in which so many operations have no end."""
    some = f"{open_:,} open operation{'s' if open_ > 1 else ''}"
    return f"it ends with {some}, though an export completes each: the file is cut"


def unfinished(op: Op) -> bool:
    """Was an operation of a Jepsen history invoked and never completed, not even as unknown?"""
    return op.timeout_marker and op.complete_ts is None and op.error == UNFINISHED
