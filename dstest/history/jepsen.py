"""Jepsen histories: events of processes, paired into our operations. EDN and JSON are two notations
of the same events, and logs are read as the first; `jepsen_order` tells their order.

    {:process 0, :type :invoke, :f :read, :value nil, :time 3291485317}     EDN
    {"process": 0, "type": "invoke", "f": "read", "value": null}             JSON

Of EDN only what is read has to be a value. `:ok` is ok, `:fail` a definite failure without effect,
`:info` unknown, and what is never completed is unknown with the error "unfinished". One exception,
as Porcupine reads the old logs: there `:fail :cas` without an error means compared and differed,
which is a result. Events of the nemesis are skipped and counted in `header.counters`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from math import isfinite, isnan
from typing import Any, Final

from msgspec.structs import replace as with_

from dstest.core.errors import HistoryError
from dstest.core.history import ClockSource, Header, History
from dstest.core.limits import DEPTH_MAX
from dstest.core.op import Op
from dstest.history import edn
from dstest.history.jepsen_hint import HINT, Hints, header_in, restored
from dstest.history.jepsen_order import (
    Event,
    as_edn,
    as_tuple,
    clients_of,
    in_order,
    require_exact,
    require_text,
    require_value,
    timed,
)
from dstest.history.jepsen_words import (
    UNFINISHED,
    are_tuples,
    described,
    own_ids,
    require_fields,
    split,
    strange_fields,
)
from dstest.history.jsonl import KeyTwice, plain_object

__all__ = ["Event", "from_edn", "from_json", "from_log", "is_ours", "pair"]

_TYPES = ("invoke", "ok", "fail", "info")

_VALUES = ("process", "type", "f", "time", "index")

_ECHOED = frozenset({"add", "cas", "enqueue", "write"})
"""Types of operation whose ok completion repeats what was asked for."""

_OWNING: Final = frozenset({"acquire", "release"})
"""Types of operation by which a process owns something: as another one it would not."""


def _event(fields: dict[str, Any], line: int) -> Event:
    if "valid?" in fields and fields.get("type") is None:
        raise HistoryError(
            "this is what a checker of Jepsen's found, and no history",
            line=line,
            remedy="give history.edn, which lies beside its results.edn",
        )
    for name in ("process", "type", "f"):
        if fields.get(name) is None:
            raise HistoryError(
                f"event has no {name}",
                line=line,
                remedy="every event needs process, type and f; transactions alone do without a "
                "process (--workload list-append or rw-register)",
            )
    kind = str(fields["type"]).removeprefix(":")
    if kind not in _TYPES:
        raise HistoryError(
            f"type {kind!r} is not a Jepsen event type", line=line, remedy=", ".join(_TYPES)
        )
    process = fields["process"]
    if isinstance(process, int):
        require_fields(fields, line)
    if isinstance(process, bool) or not isinstance(process, int | str):
        raise HistoryError(
            f"process {process!r} is not an integer or a name",
            line=line,
            remedy="clients have integer processes, the nemesis its name",
        )
    time_ns, error, index = fields.get("time"), fields.get("error"), fields.get("index")
    return Event(
        process=process,
        type=kind,
        f=str(fields["f"]).removeprefix(":"),
        value=fields.get("value"),
        time_ns=time_ns if type(time_ns) is int and 0 <= time_ns < 2**62 else None,
        error=error if isinstance(error, str) or error is None else json.dumps(error, default=str),
        line=line,
        hint=fields.get(HINT),
        hints=header_in(fields, line),
        index=index if type(index) is int else None,
        has_value="value" in fields,
        key=fields.get("key"),
        strange=strange_fields(fields),
    )


def _edn_maps(text: str) -> Iterator[edn.Map]:
    """Operation maps: each its own form, or inside vectors or lists."""
    for form in edn.read_all(text):
        inner = form.value if isinstance(form, edn.Tagged) else form
        for item in inner if isinstance(inner, list) else [inner]:
            value = item.value if isinstance(item, edn.Tagged) else item
            if not isinstance(value, edn.Map):
                raise HistoryError(
                    f"expected an operation map and found {str(edn.display_form(value))[:60]!r}",
                    remedy="a Jepsen history is op maps, one after another or in one vector",
                )
            yield value


class _Lines:
    """Line numbers of rising offsets, without counting from the start each time."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._line = text, 0, 1

    def of(self, offset: int) -> int:
        self._line += self._text.count("\n", self._at, offset)
        self._at = offset
        return self._line


def _fields(found: edn.Map, values: edn.Plain, keys: edn.Plain) -> dict[str, Any]:
    """What an op map says, in JSON's terms; of what nobody reads whether it is there."""
    if isinstance(found.twice, str) and found.twice in (*_VALUES, "value", "key", "error", HINT):
        values.value(found)  # which raises
    fields: dict[str, Any] = {
        k: None if v is None else True for k, v in found.items() if isinstance(k, str)
    }
    for name in _VALUES:
        if (value := found.get(name)) is not None:
            fields[name] = value if type(value) is int else edn.display_form(value)
    if isinstance(fields.get("process"), str):
        return {**fields, "value": None, "key": None, "error": None}
    for name, read in (("value", values.value), ("key", keys.value), ("error", edn.display_form)):
        if (value := found.get(name)) is not None:
            fields[name] = read(value)
    if HINT in fields:
        fields[HINT] = edn.plain(found[HINT])
    return fields


def _events(text: str, values: edn.Plain, keys: edn.Plain) -> Iterator[Event]:
    lines, escapes = _Lines(text), "\\u" in text
    for found in _edn_maps(text):
        event = _event(_fields(found, values, keys), lines.of(found.offset))
        if isinstance(value := found.get("value"), edn.Tagged) and "independent" in value.tag:
            event = as_tuple(event)
        yield require_text(event) if escapes else event


def from_edn(text: str) -> list[Event]:
    """Events of an EDN history."""
    values, keys = edn.Plain(text), edn.Plain(text)
    events = list(_events(text, values, keys))
    if values.settle() | keys.settle():
        events = list(_events(text, values, keys))
    return events


class _NoNumber(ValueError):
    """What JSON has no number for, or no double; the argument is how it is written."""


def _is_deep(text: str) -> bool:
    """Is this JSON nested deeper than the notations allow?"""
    if text.count("[") + text.count("{") <= DEPTH_MAX:
        return False
    depth = 0
    for bracket in re.findall(r'"(?:[^"\\]|\\.)*"|[\[{\]}]', text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(bracket, 0)
        if depth > DEPTH_MAX:
            return True
    return False


def _no_number(word: str) -> Any:
    """Raises _NoNumber: whether two such are equal nobody knows."""
    raise _NoNumber(word)


def _float(digits: str) -> float:
    """Raises _NoNumber where no double holds it."""
    value = float(digits)
    return value if isfinite(value) else _no_number(digits)


def from_json(text: str) -> Iterator[Event]:
    """Events of a JSON history: objects one after another, or in one array."""
    decoder = json.JSONDecoder(
        object_pairs_hook=plain_object, parse_float=_float, parse_constant=_no_number
    )
    lines, escapes = _Lines(text), "\\u" in text
    gap = re.compile(r"[\s,]*")
    start = len(text) - len(text.lstrip())
    array = text.startswith("[", start)
    at = gap.match(text, start + array).end()  # type: ignore[union-attr]
    while at < len(text) and not (array and text[at] == "]"):
        line = lines.of(at)
        try:
            fields, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            where = edn.where(text, error.pos)
            raise HistoryError(
                error.msg,
                line=where[0],
                column=where[1],
                remedy="the history must be well-formed JSON",
            ) from None
        except RecursionError:
            raise HistoryError("nested too deeply", line=line) from None
        except _NoNumber as strange:
            raise HistoryError(
                f"{strange.args[0]} is no number that can be compared",
                line=line,
                remedy="write it as a string",
            ) from None
        except KeyTwice as twice:
            raise HistoryError(
                f"an object has the key {twice.args[0]!r} twice",
                line=line,
                remedy="record it again",
            ) from None
        if _is_deep(text[at:end]):
            raise HistoryError(f"nested deeper than {DEPTH_MAX}", line=line)
        if not isinstance(fields, dict):
            raise HistoryError(
                f"expected an operation object and found {text[at : at + 40]!r}",
                line=line,
                remedy="a Jepsen history is one object per event",
            )
        event = _event(fields, line)
        yield require_text(event) if escapes else event
        at = gap.match(text, end).end()  # type: ignore[union-attr]
    if array and (at >= len(text) or text[at + 1 :].strip()):
        line, column = edn.where(text, min(at, len(text)))
        raise HistoryError(
            "the array does not end here" if at < len(text) else "the array is never closed",
            line=line,
            column=column,
            remedy="the history must be one JSON array",
        )


def sorted_lines(text: str) -> bytes:
    """The op maps of a Jepsen history as JSON, a line each, in the order of their index. Raises
    HistoryError where that is none, or where there is no event."""
    events = (from_json if re.match(r'\[?\s*\{\s*"', text.lstrip()) else from_edn)(text)
    ordered = in_order(clients_of(events)[0])
    return "".join(map(_line, ordered)).encode()


def _line(event: Event) -> str:
    """An op map in JSON."""
    fields: dict[str, Any] = {
        "process": event.process, "type": event.type, "f": event.f, "index": event.index,
    }  # fmt: skip
    fields |= dict.fromkeys(event.strange, True)
    if event.has_value:
        fields["value"] = event.value
    if event.key is not None:
        fields["key"] = event.key
    return json.dumps(fields) + "\n"


def from_log(text: str) -> list[Event]:
    """Events of Jepsen's log or history.txt; lines of others are passed over, broken ones are an
    error."""
    try:
        return from_edn(as_edn(text))
    except HistoryError as error:
        if error.column is None:
            raise
        message = error.message.partition(": ")[2]  # columns are those of the op map
        raise HistoryError(message, line=error.line, remedy=error.remedy) from None


def _is_result(op: Op, value: Any) -> bool:
    """Does a completion say that it went well, or that a cas differed, instead of repeating? What
    `false` says of anything but a cas nobody knows."""
    if isinstance(value, bool):
        return not isinstance(op.input, bool) and (value or op.op_type == "cas")
    return value in ("OK", "ok") and not isinstance(op.input, str)


def _completed(op: Op, event: Event, independent: bool, fail_is_differ: bool) -> Op:
    """The operation with its outcome, by the rules of this module."""
    key, value = split(event, independent)
    if (event.value is not None or event.key is not None) and key != op.key:
        raise HistoryError(
            f"process {event.process} was answered for key {key!r}, but asked for {op.key!r}",
            line=event.line,
            remedy="the history is mixed up; record it again",
        )
    echoed = event.type == "ok" and op.op_type in _ECHOED and event.value is not None
    if echoed and isinstance(value, float) and isnan(value):
        raise HistoryError(
            "##NaN is no number that can be compared: it equals nothing, not even itself",
            line=event.line,
            remedy="write it as a string or a keyword",
        )
    result = echoed and _is_result(op, value)
    if echoed and value is not None and value != op.input and not result:
        raise HistoryError(
            f"process {event.process} was answered for {op.op_type} {value!r}, but asked for "
            f"{op.input!r}",
            line=event.line,
            remedy="a completion repeats what was asked for, or says true or OK: leave out what "
            "else it tells (a version, the value before); where it answers another operation, the "
            "history is mixed up, so record it again",
        )
    if event.type == "info":
        return with_(op, error=event.error)
    done = with_(op, complete_ts=event.time_ns, error=None, timeout_marker=False)
    if event.type == "fail":
        if op.op_type == "cas" and fail_is_differ and event.error is None:
            return with_(done, output=False)
        return with_(done, error=event.error or "fail")
    if op.op_type == "cas":
        return with_(done, output=value is not False)
    return with_(done, output=None if op.op_type == "write" or result else value)


def pair(
    events: Iterable[Event], *, independent: bool | None = None, fail_cas_is_differ: bool = False
) -> History:
    """Operations of a history's events. Raises HistoryError where they do not pair up.

    `independent`: values are `[key value]` tuples of `jepsen.independent`, or are not; None leaves
    it to the events. `fail_cas_is_differ`: a
    failed cas compared and differed, as in Jepsen's logs of 2013.
    """
    clients, skipped = clients_of(events)
    hints = clients[0].hints if clients else None
    clients = in_order(clients)
    if hints is not None:
        return _read_back(clients, hints)
    stamped, clock = timed(clients)
    ops = _paired(stamped, are_tuples(clients, independent), fail_cas_is_differ)
    counters = {"skipped-other-processes": skipped} if skipped else {}
    header = Header(clock=ClockSource(name=clock), counters=counters)
    return History(header=described(header, clients), ops=ops)


def _first(events: Iterable[Event]) -> Event | None:
    return next((e for e in events if isinstance(e.process, int)), None)


def is_ours(events: Iterable[Event]) -> bool:
    """Had this history been exported by us?"""
    first = _first(events)
    return first is not None and first.hints is not None


def _read_back(clients: list[Event], hints: Hints) -> History:
    """A history of ours that had been exported, as it was."""
    require_exact(clients)
    ops = _paired(clients, hints.keyed, False, exact=True)
    return History(header=hints.header, ops=own_ids(ops))


def _paired(
    events: list[Event], independent: bool, fail_cas_is_differ: bool, *, exact: bool = False
) -> list[Op]:
    """Operations of events with a time each. `exact`: what a read asked for is kept. A process that
    goes on after an unknown operation, which may still take effect, is another one from then on."""
    ops: list[Op] = []
    open_: dict[int | str, tuple[int, int]] = {}
    gone: dict[int | str, int] = {}
    lives: Counter[int | str] = Counter()
    held = exact or any(event.f in _OWNING for event in events)
    for event in events:
        process = event.process
        if event.type == "invoke":
            if (process in gone and held) or process in open_:
                earlier = gone.get(process) or open_[process][1]
                state = "unknown" if process in gone else "open"
                raise HistoryError(
                    f"process {process} invokes {event.f} while its operation of line {earlier} "
                    f"is {state}",
                    line=event.line,
                    remedy="a process has one operation at a time and ends with an unknown one",
                )
            lives[process] += gone.pop(process, 0) > 0
            open_[process] = (len(ops), event.line)
            made = _invoked(event, len(ops), independent, exact)
            life = lives[process]
            ops.append(with_(made, process_id=f"{process}.{life + 1}") if life else made)
            continue
        if process not in open_:
            raise HistoryError(
                f"process {process} completes {event.f} (:{event.type}) without an invocation",
                line=event.line,
                remedy="the history is cut or mixed up; record it again",
            )
        index, line = open_.pop(process)
        if ops[index].op_type != event.f:
            raise HistoryError(
                f"process {process} completes {event.f}, but invoked {ops[index].op_type} in "
                f"line {line}",
                line=event.line,
                remedy="the history is mixed up; record it again",
            )
        if event.type == "info":
            gone[process] = event.line
        require_value(event)
        ops[index] = _completed(ops[index], event, independent, fail_cas_is_differ)
        if event.hint is not None:
            ops[index] = restored(ops[index], event.hint, event.line, event.type)
    return ops


def _invoked(event: Event, op_id: int, independent: bool, exact: bool) -> Op:
    """An operation that nobody has completed yet."""
    key, value = split(event, independent)
    return Op(
        op_id=op_id,
        process_id=event.process,
        invoke_ts=event.time_ns or 0,
        op_type=event.f,
        key=key,
        input=None if event.f == "read" and not exact else value,
        error=UNFINISHED,
        timeout_marker=True,
    )
