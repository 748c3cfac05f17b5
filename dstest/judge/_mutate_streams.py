"""Mutants of histories with versions, causal order or positions: sessions, causal, watch, kafka.

| mutant | what is changed | why it is a violation |
|---|---|---|
| dropped-write | an acknowledged write that was observed is taken out | it came from nowhere |
| phantom | an observation shows a value that nobody wrote | likewise |
| stale | a session sees less than it had seen before, an observer less than was told | the past |
| own-write-missed | a session sees less than it had written itself | likewise |
| read-ahead | a session writes below what it had read | likewise |
| swapped | two observations in turn, or the values of two places, change places | time |
| lost | a place is missing from the only observation that covers it | it is in the log |
| duplicate | a place stands twice in an observation | it was written once |
| reordered | two places of an observation change places | the log has one order |
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final, NamedTuple

from dstest.core.op import Op
from dstest.judge._mutate import PHANTOM, Made, acked, changed, end, in_turn, pick, without

_Opts = Mapping[str, Any]


def _sole(ops: list[Op]) -> dict[Any, Op]:
    """(key, value) that one operation alone can have written, and that one was acknowledged."""
    times = Counter((op.key, op.input) for op in ops if op.op_type == "write")
    return {(op.key, op.input): op for op in acked(ops, "write") if times[op.key, op.input] == 1}


def _version(op: Op) -> int:
    return int(op.output["version"])


class _Session(NamedTuple):
    """What one process did with one key, acknowledged, in order."""

    ops: list[Op]

    def pairs(self, first: str, second: str) -> list[tuple[Op, Op]]:
        """(an operation of the first type with a version, a later one of the second)."""
        found: list[tuple[Op, Op]] = []
        seen: list[Op] = []
        for op in self.ops:
            if op.op_type == second:
                found += [(before, op) for before in seen[:1] + seen[-1:]]
            if op.op_type == first and _version(op) > 0:
                seen.append(op)
        return found

    def between(self, kind: str, a: Op, b: Op) -> list[Op]:
        """Its operations of one type that lie between two others."""
        at, to = self.ops.index(a), self.ops.index(b)
        return [op for op in self.ops[at + 1 : to] if op.op_type == kind]


def _sessions(ops: list[Op], dice: random.Random) -> list[_Session]:
    by_process: dict[Any, list[Op]] = {}
    for op in acked(ops, "read", "write"):
        by_process.setdefault(op.process_id, []).append(op)
    names = sorted(by_process, key=str)
    return [_Session(by_process[name]) for name in dice.sample(names, len(names))]


_NOTHING: Final = {"version": 0, "value": None}


def _session_reread(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    """A session that had read a key and not written it finds nothing there any more."""
    for session in _sessions(ops, dice):
        pairs = [
            (a, b)
            for a, b in session.pairs("read", "read")
            if not any(op.op_type == "write" for op in session.ops[: session.ops.index(b)])
        ]
        if pairs:
            a, b = dice.choice(pairs)
            message = f"read {b.op_id} finds nothing, after read {a.op_id} of the same session"
            return message, changed(ops, {b.op_id: {"output": _NOTHING}})
    return None


def _session_own(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    """A session does not find what it wrote; its own reads before that are taken out."""
    for session in _sessions(ops, dice):
        pair = pick(dice, session.pairs("write", "read"))
        if pair is not None:
            a, b = pair
            earlier = [op for op in session.ops[: session.ops.index(b)] if op.op_type == "read"]
            said = f"read {b.op_id} finds nothing, after write {a.op_id} of the same session"
            return said, changed(without(ops, *earlier), {b.op_id: {"output": _NOTHING}})
    return None


def _session_swapped(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    """Two writes of one session change versions; reads that would show it otherwise are gone."""
    for session in _sessions(ops, dice):
        writes = [op for op in session.ops if op.op_type == "write"]
        pair = pick(dice, [(a, b) for a, b in pairwise(writes) if _version(a) < _version(b)])
        if pair is None:
            continue
        a, b = pair
        told = {_version(a), _version(b)}
        gone = [op for op in acked(ops, "read") if _version(op) in told]
        gone += session.between("read", a, b)
        message = f"writes {a.op_id} and {b.op_id} of one session swapped versions"
        return message, changed(
            without(ops, *gone), {a.op_id: {"output": b.output}, b.op_id: {"output": a.output}}
        )
    return None


def _session_ahead(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    """A session reads what was written later than what it writes next; its later reads are gone."""
    writes = [op for op in acked(ops, "write") if _version(op) > 0]
    newest = max(writes, key=_version, default=None)
    for session in _sessions(ops, dice):
        reads = [op for op in session.ops if op.op_type == "read"]
        pairs = [
            (a, b)
            for a in reads
            for b in session.ops[session.ops.index(a) + 1 :]
            if newest is not None and b.op_type == "write" and _version(b) < _version(newest)
        ][:50]
        if newest is None or not pairs:
            continue
        a, b = dice.choice(pairs)
        output = {"version": _version(newest), "value": newest.input}
        later = [op for op in session.ops[session.ops.index(a) + 1 :] if op.op_type == "read"]
        message = (
            f"read {a.op_id} sees {newest.op_id}, which write {b.op_id} of its session precedes"
        )
        return message, changed(without(ops, *later), {a.op_id: {"output": output}})
    return None


def _session_phantom(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    read = pick(dice, [op for op in acked(ops, "read") if "value" in op.output])
    if read is None:
        return None
    output = {**read.output, "value": PHANTOM}
    return f"read {read.op_id} returns a phantom", changed(ops, {read.op_id: {"output": output}})


def _session_dropped(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    sole = _sole(ops)
    seen = [(op.key, op.output.get("value")) for op in acked(ops, "read")]
    write = pick(dice, [sole[s] for s in seen if s in sole])
    if write is None:
        return None
    return f"write {write.op_id}, which was read, was taken out", without(ops, write)


SESSION: Final = {
    "dropped-write": _session_dropped,
    "phantom": _session_phantom,
    "stale": _session_reread,
    "own-write-missed": _session_own,
    "swapped": _session_swapped,
    "read-ahead": _session_ahead,
}


def _causal_stale(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    """A read finds nothing at a key that its own process had written or read before."""
    had: set[tuple[Any, Any]] = set()
    late = []
    for op in acked(ops, "read", "write"):
        here = (op.process_id, op.key)
        if op.op_type == "read" and here in had:
            late.append(op)
        if op.op_type == "write" or op.output is not None:
            had.add(here)
    read = pick(dice, late)
    if read is None:
        return None
    return f"read {read.op_id} finds nothing", changed(ops, {read.op_id: {"output": None}})


def _causal_swapped(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    sole = _sole(ops)
    by_key: dict[Any, list[Op]] = {}
    for op in acked(ops, "read"):
        by_key.setdefault(op.key, []).append(op)
    for key in dice.sample(sorted(by_key, key=str), len(by_key)):
        for a, b in in_turn(by_key[key], dice):
            write = sole.get((key, b.output))
            if write is not None and write.invoke_ts > end(a):
                return f"reads {a.op_id} and {b.op_id} swapped outputs", changed(
                    ops, {a.op_id: {"output": b.output}, b.op_id: {"output": a.output}}
                )
    return None


def _causal_phantom(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    read = pick(dice, acked(ops, "read"))
    if read is None:
        return None
    return f"read {read.op_id} returns a phantom", changed(ops, {read.op_id: {"output": PHANTOM}})


def _causal_dropped(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    sole = _sole(ops)
    write = pick(dice, [w for r in acked(ops, "read") if (w := sole.get((r.key, r.output)))])
    if write is None:
        return None
    return f"write {write.op_id}, which was read, was taken out", without(ops, write)


CAUSAL: Final = {
    "dropped-write": _causal_dropped,
    "phantom": _causal_phantom,
    "stale": _causal_stale,
    "swapped": _causal_swapped,
}


class _Feed:
    """How a stream is written and observed: `write` and `observe` are op types, `entries` the name
    of the list in an observation's output. An entry is [offset, value] or an event."""

    def __init__(self, write: str, observe: str, entries: str, offset: str) -> None:
        self.write, self.observe, self.entries, self.offset = write, observe, entries, offset

    def observations(self, ops: list[Op], least: int) -> list[Op]:
        return [
            op
            for op in acked(ops, self.observe)
            if isinstance(op.output, dict) and len(op.output.get(self.entries) or ()) >= least
        ]

    def place(self, entry: Any) -> Any:
        return entry[self.offset] if isinstance(entry, dict) else entry[0]

    def with_value(self, entry: Any, value: Any) -> Any:
        return {**entry, "value": value} if isinstance(entry, dict) else [entry[0], value]

    def value(self, entry: Any) -> Any:
        return entry["value"] if isinstance(entry, dict) else entry[1]

    def put(self, ops: list[Op], op: Op, entries: list[Any], description: str) -> Made:
        output = {**op.output, self.entries: entries}
        return f"{self.observe} {op.op_id}: {description}", changed(
            ops, {op.op_id: {"output": output}}
        )


def _stream(feed: _Feed, kind: str, ops: list[Op], dice: random.Random) -> Made:
    op = pick(dice, feed.observations(ops, 2))
    if op is None:
        return None
    entries = list(op.output[feed.entries])
    at = dice.randrange(len(entries) - 1)
    if kind == "lost":
        # Not the last one: without an explicit end it would shorten the claim.
        told = {op.output[feed.offset] for op in acked(ops, feed.write)}
        if feed.place(entries[at]) not in told:
            return None
        del entries[at]
        return feed.put(ops, op, entries, f"lacks entry {at}")
    if kind == "duplicate":
        return feed.put(ops, op, [*entries[: at + 1], *entries[at:]], f"has entry {at} twice")
    if kind == "reordered":
        if feed.place(entries[at]) == feed.place(entries[at + 1]):
            return None
        entries[at], entries[at + 1] = entries[at + 1], entries[at]
        return feed.put(ops, op, entries, f"entries {at} and {at + 1} changed places")
    if kind == "phantom":
        entries[at] = feed.with_value(entries[at], PHANTOM)
        return feed.put(ops, op, entries, f"entry {at} is a phantom")
    a, b = entries[at], entries[at + 1]
    told = {op.output[feed.offset] for op in acked(ops, feed.write)}
    if not {feed.place(a), feed.place(b)} & told:
        return None
    entries[at], entries[at + 1] = (
        feed.with_value(a, feed.value(b)),
        feed.with_value(b, feed.value(a)),
    )
    return feed.put(ops, op, entries, f"entries {at} and {at + 1} swapped values")


def _stream_dropped(feed: _Feed, ops: list[Op], dice: random.Random) -> Made:
    op = pick(dice, feed.observations(ops, 1))
    if op is None:
        return None
    place = feed.place(dice.choice(op.output[feed.entries]))
    write = pick(dice, [w for w in acked(ops, feed.write) if w.output[feed.offset] == place])
    if write is None or sum(1 for w in ops if w.input == write.input and w.key == write.key) > 1:
        return None
    return f"{feed.write} {write.op_id}, which was observed, was taken out", without(ops, write)


def _makers(feed: _Feed) -> dict[str, Any]:
    kinds = ("lost", "duplicate", "reordered", "phantom", "swapped")
    return {
        "dropped-write": lambda ops, dice, o: _stream_dropped(feed, ops, dice),
        **{kind: _maker(feed, kind) for kind in kinds},
    }


def _maker(feed: _Feed, kind: str) -> Any:
    return lambda ops, dice, o: _stream(feed, kind, ops, dice)


WATCH: Final = _makers(_Feed("write", "watch", "events", "revision"))


def _poll_stale(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    """A poll ends before a record that had been acknowledged when it began. It is the last of its
    process, so that nothing was passed over either."""
    polls = [op for op in acked(ops, "poll") if isinstance(op.input, dict) and "from" in op.input]
    for op in dice.sample(polls, len(polls)):
        start = op.input["from"]
        told = [
            w for w in acked(ops, "send") if end(w) < op.invoke_ts and w.output["offset"] >= start
        ]
        if told:
            later = [
                p for p in polls if p.process_id == op.process_id and p.invoke_ts > op.invoke_ts
            ]
            message = f"poll {op.op_id} finds nothing, though send {told[0].op_id} was acknowledged"
            output = {"records": [], "to": start - 1, "more": False}
            return message, changed(without(ops, *later), {op.op_id: {"output": output}})
    return None


KAFKA: Final = {
    **_makers(_Feed("send", "poll", "records", "offset")),
    "stale": _poll_stale,
}
