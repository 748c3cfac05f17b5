"""Jepsen's notation of `kafka`: transactions that send to logs and poll whatever is assigned.

    {:f :send :value [[:send 11 641]]}        answered [[:send 11 [537 641]]], its offset first
    {:f :poll :value [[:poll]]}               answered [[:poll {11 [[537 641] [538 645]]}]]
    {:f :txn  :value [[:send 11 7] [:poll]]}  both
    {:f :assign :value [11]}                  also subscribe, crash: what a client polls from now on

Each micro-operation becomes a send to a log or a poll of one. A poll goes on where its process
stopped, but only where that is certain: who subscribed may be given other logs at any time, and
what was polled in vain is polled again. In a file in which nobody assigns or subscribes nobody is
given other logs. A send that was acknowledged without an offset may stand
anywhere. What an operation polls of a log in several polls is one poll: its offsets rise. A log is
called as the sends call it; keys of polls are texts. Source: `jepsen.tests.kafka`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from checkers._findings import Unreadable
from dstest.core.op import Key, Op, Outcome

OTHERS: Final = frozenset({"assign", "subscribe", "crash", "debug-topic-partitions"})
"""Operations that neither send nor poll."""

_MOPS: Final = ("send", "poll")


def are_micro(ops: list[Op]) -> bool:
    """Are these in Jepsen's notation?"""
    asked = next((op.input for op in ops if op.op_type in ("send", "poll", "txn")), None)
    return (
        isinstance(asked, list)
        and bool(asked)
        and all(isinstance(mop, list) and mop and mop[0] in _MOPS for mop in asked)
    )


def as_records(ops: list[Op]) -> list[Op]:
    """The same in our notation; several operations of one number where it did several things.
    Raises Unreadable for what is none of these."""
    made: list[Op] = []
    settled: set[Any] = set()
    """Processes whose next poll goes on where the last one stopped."""
    assigned: set[Any] = set()
    names, reassigned = _names(ops), any(op.op_type in OTHERS for op in ops)
    for op in ops:
        process = op.process_id
        if op.op_type in OTHERS:
            settled.discard(process)
            (assigned.add if op.op_type == "assign" else assigned.discard)(process)
            continue
        parts = list(_parts(op, names, goes_on=process in settled))
        made += parts
        polled = any(part.op_type == "poll" for part in parts)
        if op.outcome is not Outcome.OK:
            settled.discard(process)
        elif polled and (process in assigned or not reassigned):
            settled.add(process)
    return made


def _text(key: Any) -> str:
    """A key as objects have it, whose keys are texts."""
    return key if isinstance(key, str) else json.dumps(key)


def _names(ops: list[Op]) -> dict[str, Key]:
    """Logs that are sent to, by their texts; lists are called by theirs. Raises Unreadable where
    two have one text: what is polled could be of either."""
    names: dict[str, Key] = {}
    for op in ops:
        for told in (op.input, op.output):
            for mop in told if isinstance(told, list) else ():
                if not isinstance(mop, list) or len(mop) != 3 or mop[0] != "send":
                    continue
                text = _text(mop[1])
                if not isinstance(mop[1], str) and "{" in text:
                    raise Unreadable(op, f"{text} names no log: a scalar does, or a list of them")
                key = text if isinstance(mop[1], list) else mop[1]
                if type(names.setdefault(text, key)) is not type(key):
                    raise Unreadable(op, f"it sends to {key!r}, and others to {names[text]!r}")
    return names


def _parts(op: Op, names: dict[str, Key], *, goes_on: bool) -> Iterator[Op]:
    ok = op.outcome is Outcome.OK
    told = op.output if ok and op.output is not None else op.input
    if not isinstance(told, list):
        raise Unreadable(op, "it is no list of [send key value] and [poll]")
    polled: dict[Any, list[Any]] = {}
    """Of all its polls: within an operation nobody is given other logs."""
    for mop in told:
        match mop:
            case ["send", key, value]:
                yield _send(op, names[_text(key)], value, ok=ok)
            case ["poll"] | ["poll", None]:
                pass
            case ["poll", {**found}]:
                for name, records in found.items():
                    if not isinstance(records, list):
                        raise Unreadable(op, f"what it polled of {name!r} is no list")
                    polled[name] = polled.get(name, []) + records
            case _:
                raise Unreadable(op, f"{mop!r} is neither [send key value] nor [poll {{..}}]")
    for name, records in polled.items():
        yield _poll(op, names.get(name, name), records, goes_on=goes_on)


def _send(op: Op, key: Key, value: Any, *, ok: bool) -> Op:
    offset = None
    if isinstance(value, list) and len(value) == 2:
        offset, value = value
    sent = replace(op, op_type="send", key=key, input=value, output=None)
    if not ok:
        return sent
    if type(offset) is int:
        return replace(sent, output={"offset": offset})
    return replace(sent, complete_ts=None, timeout_marker=True)


def _poll(op: Op, key: Key, records: list[Any], *, goes_on: bool) -> Op:
    if not all(isinstance(one, list) and len(one) == 2 for one in records):
        raise Unreadable(op, f"what it polled of {key!r} is no list of [offset value]")
    offsets = [one[0] for one in records if type(one[0]) is int]
    known = [one for one in records if one[0] is not None]
    asked = {} if goes_on or not offsets else {"from": min(offsets)}
    return replace(op, op_type="poll", key=key, input=asked, output={"records": known})
