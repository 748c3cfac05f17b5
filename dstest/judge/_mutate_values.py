"""Mutants of histories whose observers return values: counters, banks, registers, holds, dumps.

Only values that a single operation can have written, and only strict real time, are used; numbers
are moved beyond the bounds that are worked out here from the definition, one observation at a time.

| mutant | what is changed | why it is a violation |
|---|---|---|
| dropped-write | an acknowledged write that was observed is taken out | it came from nowhere |
| phantom, stale, swapped | a value from nowhere, from the past or from the future | time |
| wrong-total, nil, missing | a balance is off by one, null or absent | money is kept |
| overlap | a release moves behind the next acquire of another process | both surely held |
| token | two holds in turn swap their fencing tokens | tokens rise |
| fork, reversed | two reads see one write each; a read sees only the younger of two | orders |
| diverged | one replica's final dumps differ from the others' | replicas at rest are equal |
| slow, failing | a group's latencies are a thousand times as long; it fails | the thresholds |
"""

from __future__ import annotations

import bisect
import itertools
import random
from collections.abc import Iterator, Mapping
from typing import Any, Final

from dstest.core.op import Op, Outcome
from dstest.judge._mutate import (
    PHANTOM,
    Made,
    Maker,
    acked,
    attempts,
    changed,
    end,
    finals,
    in_turn,
    pick,
    without,
)

_Opts = Mapping[str, Any]
_FAR: Final = 1 << 62


def _bounds(deltas: list[tuple[Op, int]], seen: Op, sure: set[int | str]) -> tuple[int, int]:
    """What a sum may be in `[seen.invoke, seen.complete]`."""
    low = high = 0
    for op, d in deltas:
        maybe = op.invoke_ts <= end(seen)
        certain = op.op_id in sure and end(op) < seen.invoke_ts
        low += d if (d > 0 and certain) or (d < 0 and maybe) else 0
        high += d if (d > 0 and maybe) or (d < 0 and certain) else 0
    return low, high


def _counter(kind: str, ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    incs = [(op, op.input) for op in attempts(ops, "inc")]
    sure = {op.op_id for op in acked(ops, "inc")}
    start = int(options.get("counter_start", 0))
    read = pick(dice, acked(ops, "read"))
    if read is None or not incs:
        return None
    low, high = (b + start for b in _bounds(incs, read, sure))
    if kind == "stale":
        # Reads before it are taken out: it must clash with the increments, not with them.
        ops = without(ops, *[op for op in acked(ops, "read") if end(op) < read.invoke_ts])
        output = low - 1
    elif kind == "phantom":
        output = high + 1
    else:
        victims = [op for op in acked(ops, "inc") if end(op) < read.invoke_ts and op.input > 0]
        gone = pick(dice, [op for op in victims if read.output > high - op.input])
        if gone is None:
            return None
        message = f"inc {gone.op_id}, which read {read.op_id} shows, was taken out"
        return message, without(ops, gone)
    message = f"read {read.op_id} returns {output}; [{low}, {high}] is possible"
    return message, changed(ops, {read.op_id: {"output": output}})


def _counter_swapped(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    incs = [(op, op.input) for op in attempts(ops, "inc")]
    sure = {op.op_id for op in acked(ops, "inc")}
    start = int(options.get("counter_start", 0))
    for a, b in in_turn(acked(ops, "read"), dice)[:12]:
        low, high = (x + start for x in _bounds(incs, a, sure))
        if not low <= b.output <= high:
            return f"reads {a.op_id} and {b.op_id} swapped outputs", changed(
                ops, {a.op_id: {"output": b.output}, b.op_id: {"output": a.output}}
            )
    return None


COUNTER: Final = {
    "dropped-write": lambda ops, dice, o: _counter("dropped-write", ops, dice, o),
    "stale": lambda ops, dice, o: _counter("stale", ops, dice, o),
    "phantom": lambda ops, dice, o: _counter("phantom", ops, dice, o),
    "swapped": _counter_swapped,
}


def _bank(kind: str, ops: list[Op], dice: random.Random) -> Made:
    reads = [op for op in acked(ops, "read") if isinstance(op.output, dict) and op.output]
    if len(reads) < 2:
        return None
    read = dice.choice(reads[1:])
    balances = dict(read.output)
    name = dice.choice(sorted(balances))
    if kind == "missing":
        del balances[name]
    elif kind == "nil":
        balances[name] = None
    elif kind == "wrong-total":
        balances[name] += 1
    elif kind == "negative":
        other = dice.choice(sorted(set(balances) - {name}) or [name])
        balances[other] += balances[name] + 1
        balances[name] = -1
    else:
        others = [r for r in reads if r.output.get(name) != balances[name]]
        other_read = pick(dice, others)
        if other_read is None:
            return None
        balances[name] = other_read.output.get(name)
    return f"{kind}: account {name} in read {read.op_id}", changed(
        ops, {read.op_id: {"output": balances}}
    )


def _bank_dropped(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    """A transfer whose effect a read shows: without it an account holds too much."""
    start = options.get("bank_balance")
    reads = acked(ops, "read")
    if start is None:
        return None
    # Early ones first: each transfer of unknown outcome widens what an account may hold later.
    reads = [*reads[3:13], *dice.sample(reads, min(len(reads), 30)), *finals(ops, "read")]
    found = (_bank_dropped_by(read, ops, dice, int(start)) for read in reads)
    return next((made for made in found if made is not None), None)


def _bank_dropped_by(read: Op, ops: list[Op], dice: random.Random, start: int) -> Made:
    sure = {op.op_id for op in acked(ops, "transfer")}
    moves = [op for op in attempts(ops, "transfer") if op.output is not False]
    done = [op for op in moves if op.output is True and end(op) < read.invoke_ts]
    for gone in dice.sample(done, min(8, len(done))):
        name = str(gone.input["to"])
        deltas = [
            (op, op.input["amount"] * (1 if str(op.input["to"]) == name else -1))
            for op in moves
            if name in (str(op.input["to"]), str(op.input["from"])) and op is not gone
        ]
        low, high = _bounds(deltas, read, sure)
        if not low <= read.output.get(name, 0) - start <= high:
            message = f"transfer {gone.op_id}, which read {read.op_id} shows, was taken out"
            return message, without(ops, gone)
    return None


def _bank_maker(kind: str) -> Maker:
    return lambda ops, dice, o: _bank(kind, ops, dice)


BANK: Final[dict[str, Maker]] = {
    **{kind: _bank_maker(kind) for kind in ("wrong-total", "nil", "negative", "skewed")},
    "dropped-write": _bank_dropped,
}


def _ttl(op: Op) -> int | None:
    return op.input.get("ttl_ns") if isinstance(op.input, dict) else None


def _got(ops: list[Op]) -> list[Op]:
    return [op for op in acked(ops, "acquire") if op.output is not False]


def _overlap(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    """A holds, releases; then another process acquires. The release moves behind that acquire."""
    holds = sorted(_got(ops), key=_invoked)
    mine: dict[int | str, list[Op]] = {}
    for op in sorted(ops, key=_invoked):
        mine.setdefault(op.process_id, []).append(op)

    def after(op: Op) -> Iterator[Op]:
        rows = mine[op.process_id]
        return itertools.islice(rows, bisect.bisect_right(rows, end(op), key=_invoked), None)

    for a in dice.sample(holds, len(holds)):
        # A renewal that was refused ends what its process has; what else is in between does not.
        mine_next = (o for o in after(a) if o.op_type != "renew" or o.outcome is Outcome.FAIL)
        release, again = next(mine_next, None), next(mine_next, None)
        if release is None or release.op_type != "release" or release.outcome is Outcome.FAIL:
            continue
        at = bisect.bisect_left(holds, release.invoke_ts, key=_invoked)
        behind = itertools.islice(holds, at, None)
        b = next((hold for hold in behind if hold.process_id != a.process_id), None)
        if b is None:
            continue
        # What either process does next with this lock may end what it has of it.
        ends = [op.invoke_ts for op in (again, next(after(b), None)) if op is not None]
        ends += [op.invoke_ts + ttl for op in (a, b) if (ttl := _ttl(op))]
        if min(ends, default=_FAR) > end(b) + 2:
            times = {"invoke_ts": end(b) + 1, "complete_ts": end(b) + 2, "timeout_marker": False}
            message = f"release {release.op_id} moved behind acquire {b.op_id} of another process"
            return message, changed(ops, {release.op_id: times})
    return None


def _invoked(op: Op) -> int:
    return op.invoke_ts


def _token_swap(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    given = [op for op in _got(ops) if isinstance(op.output, dict) and "token" in op.output]
    for a, b in in_turn(given, dice):
        if a.output["token"] < b.output["token"]:
            return f"acquires {a.op_id} and {b.op_id} swapped tokens", changed(
                ops, {a.op_id: {"output": b.output}, b.op_id: {"output": a.output}}
            )
    return None


def _token_reuse(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    given = [op for op in _got(ops) if isinstance(op.output, dict) and "token" in op.output]
    if len(given) < 2:
        return None
    a, b = dice.sample(given, 2)
    return f"acquires {a.op_id} and {b.op_id} got one token", changed(
        ops, {b.op_id: {"output": a.output}}
    )


EXCLUSION: Final = {"overlap": _overlap, "swapped": _token_swap, "duplicate": _token_reuse}


def _fork(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    writes, reads = acked(ops, "write"), acked(ops, "read")
    if len(writes) < 2 or len(reads) < 2:
        return None
    a, b = dice.sample(writes, 2)
    late = [r for r in reads if end(r) > max(a.invoke_ts, b.invoke_ts)]
    if len(late) < 2:
        return None
    x, y = dice.sample(late, 2)
    return f"read {x.op_id} saw only {a.op_id}, read {y.op_id} only {b.op_id}", changed(
        ops, {x.op_id: {"output": [list(a.input)]}, y.op_id: {"output": [list(b.input)]}}
    )


def _reversed(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    for a, b in in_turn(acked(ops, "write"), dice):
        read = pick(dice, [r for r in acked(ops, "read") if end(r) > b.invoke_ts])
        if read is not None:
            said = f"read {read.op_id} saw {b.op_id} and not {a.op_id}, which had ended before"
            return said, changed(ops, {read.op_id: {"output": [list(b.input)]}})
    return None


def _member_phantom(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    read = pick(dice, acked(ops, "read"))
    if read is None:
        return None
    output = [*(read.output or []), ["phantom", PHANTOM]]
    return f"read {read.op_id} holds a phantom", changed(ops, {read.op_id: {"output": output}})


def _member_dropped(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    seen = {str(m) for r in acked(ops, "read") for m, v in r.output or () if v is not None}
    write = pick(dice, [op for op in acked(ops, "write") if str(op.input[0]) in seen])
    if write is None:
        return None
    return f"write {write.op_id}, which was read, was taken out", without(ops, write)


def _sees_nothing(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    """Nothing at all: that is a prefix of everything, but too old."""
    reads = acked(ops, "read")
    for read in dice.sample(reads, len(reads)):
        over = [op for op in acked(ops, "write") if end(op) < read.invoke_ts]
        if over and read.output:
            said = f"read {read.op_id} sees nothing, though {over[0].op_id} had ended before"
            empty = [[pair[0], None] for pair in read.output]
            return said, changed(ops, {read.op_id: {"output": empty}})
    return None


FORK: Final = {
    "fork": _fork,
    "stale": _sees_nothing,
    "phantom": _member_phantom,
    "dropped-write": _member_dropped,
}
REVERSE: Final = {
    "reversed": _reversed,
    "phantom": _member_phantom,
    "dropped-write": _member_dropped,
}


def _diverged(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    last = [op for op in finals(ops, "dump", "read") if isinstance(op.output, dict) and op.output]
    node = pick(dice, sorted({str(op.node_seen) for op in last}))
    if node is None:
        return None
    mine = [op for op in last if op.node_seen == node]
    name = dice.choice(sorted(mine[-1].output, key=str))
    return f"{node} holds something else at {name!r}", changed(
        ops, {op.op_id: {"output": {**op.output, name: PHANTOM}} for op in mine}
    )


DUMPS: Final = {"diverged": _diverged}


def _gone_entry(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    declared = str(options.get("invariants", ""))
    last = [op for op in finals(ops, "dump", "read") if isinstance(op.output, dict) and op.output]
    if not last or not ("size=" in declared or "sum=" in declared):
        return None
    name = dice.choice(sorted(last[-1].output, key=str))
    if "size=" not in declared and not last[-1].output.get(name):
        return None
    return f"{name!r} is gone from all final dumps", changed(
        ops,
        {op.op_id: {"output": {k: v for k, v in op.output.items() if k != name}} for op in last},
    )


INVARIANT: Final = {"lost": _gone_entry}
