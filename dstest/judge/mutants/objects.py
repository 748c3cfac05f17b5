"""Broken copies of counters, banks, locks, ids, sets, queues and replicas, and of how well clients
are served: what is of these models alone.

Numbers are moved beyond the bounds that are worked out here from the definition, one observation at
a time.
"""

from __future__ import annotations

import bisect
import itertools
import random
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from dstest.core.op import Op, Outcome
from dstest.judge.mutants.shapes import (
    PHANTOM,
    DeadLetters,
    Lists,
    Made,
    Maker,
    Part,
    Passage,
    Passing,
    acked,
    answering,
    attempts,
    began,
    changed,
    end,
    finals,
    in_turn,
    over,
    pick,
    some,
    token,
    without,
)

_FAR: Final = 1 << 62
_WINDOW: Final = 300


def first_in_first_out(a: Passage, b: Passage) -> bool:
    """Does it break a queue's order for certain if the takes change values?"""
    return over(a.put, b.put) and over(a.take, b.take)


def last_in_first_out(a: Passage, b: Passage) -> bool:
    """The same of a stack."""
    return over(a.put, b.put) and over(b.put, b.take) and over(b.take, a.take)


def least_first(a: Passage, b: Passage) -> bool:
    """The same of a priority queue."""
    early = bool(a.value < b.value) and over(a.put, a.take) and over(b.put, a.take)
    return early and over(a.take, b.take)


def planted_stale(part: Part, dice: random.Random) -> Made:
    """After all that a key saw: two writes of values of our own, then a read of the first. Nothing
    else writes these values, whatever is still open."""
    del dice
    last = max(op.complete_ts or op.invoke_ts for op in part.ops)
    values = PHANTOM, PHANTOM + 1
    steps = (("write", values[0], None), ("write", values[1], None), ("read", None, values[0]))
    made = [
        Op(
            op_id=f"canary-{at}",
            process_id="canary",
            invoke_ts=last + 2 * at + 1,
            complete_ts=last + 2 * at + 2,
            op_type=op_type,
            key=part.ops[0].key,
            input=value,
            output=output,
        )
        for at, (op_type, value, output) in enumerate(steps)
    ]
    return f"{values[0]} is read after {values[1]} was written over it", [*part.ops, *made]


Deltas = list[tuple[Op, int]]


def _bounds(deltas: Deltas, seen: Op) -> tuple[int, int]:
    """What a sum may be in `[seen.invoke, seen.complete]`."""
    low = high = 0
    for op, d in deltas:
        maybe = op.invoke_ts <= end(seen)
        certain = over(op, seen)
        low += d if (d > 0 and certain) or (d < 0 and maybe) else 0
        high += d if (d > 0 and maybe) or (d < 0 and certain) else 0
    return low, high


def _deltas(ops: list[Op]) -> Deltas:
    changes = [op for op in ops if op.op_type != "read" and op.outcome is not Outcome.FAIL]
    sizes = ((op, op.input if type(op.input) is int else 1) for op in changes)
    return [(op, -size if op.op_type == "dec" else size) for op, size in sizes]


def _count_bounds(part: Part, read: Op) -> tuple[int, int]:
    start = int(part.options.get("counter_start") or 0)
    low, high = _bounds(part.once(_deltas), read)
    return low + start, high + start


def _counting(part: Part, read: Op, value: int, ops: list[Op]) -> Made:
    said = f"read {read.op_id} returns {value}, beyond what is possible"
    return said, answering(ops, (read, value))


def too_much(part: Part, dice: random.Random) -> Made:
    """A read returns more than all changes that had begun could add to those that were over."""
    read = pick(dice, acked(part.ops, "read"))
    return read and _counting(part, read, _count_bounds(part, read)[1] + 1, part.ops)


def too_little(part: Part, dice: random.Random) -> Made:
    """A read returns less than what was over. Reads before it are taken out: it must clash with the
    increments, not with them."""
    reads = acked(part.ops, "read")
    read = pick(dice, reads)
    if read is None or not part.once(_deltas):
        return None
    ops = without(part.ops, *[op for op in reads if over(op, read)])
    return _counting(part, read, _count_bounds(part, read)[0] - 1, ops)


def beyond_all(part: Part, dice: random.Random) -> Made:
    """A read returns more than the sizes of all changes, whenever they were made."""
    read = pick(dice, acked(part.ops, "read"))
    start = abs(int(part.options.get("counter_start") or 0))
    value = start + sum(abs(d) for _, d in part.once(_deltas)) + 1
    return read and _counting(part, read, value, part.ops)


def count_dropped(part: Part, dice: random.Random) -> Made:
    """An increment is taken out without which a read returns too much."""
    read = pick(dice, acked(part.ops, "read"))
    if read is None:
        return None
    _, high = _count_bounds(part, read)
    gone = pick(
        dice,
        [op for op, d in part.once(_deltas) if d > 0 and over(op, read) and read.output > high - d],
    )
    if gone is None:
        return None
    said = f"{gone.op_type} {gone.op_id}, which read {read.op_id} shows, was taken out"
    return said, without(part.ops, gone)


def counts_swapped(part: Part, dice: random.Random) -> Made:
    """Of two reads in turn the first returns what cannot have been there yet, or any more."""
    for a, b in itertools.islice(in_turn(acked(part.ops, "read"), dice), 12):
        low, high = _count_bounds(part, a)
        if not low <= b.output <= high:
            said = f"reads {a.op_id} and {b.op_id} swapped outputs"
            return said, answering(part.ops, (a, b.output), (b, a.output))
    return None


def of_bank(kind: str) -> Maker:
    """One account of one read is changed: money is kept, and nobody owes any. Not of the first
    read."""

    def make(part: Part, dice: random.Random) -> Made:
        reads = [op for op in acked(part.ops, "read") if isinstance(op.output, dict) and op.output]
        read = pick(dice, reads[1:])
        if read is None:
            return None
        balances = dict(read.output)
        name = dice.choice(sorted(balances))
        if kind == "nil":
            balances[name] = None
        elif kind == "wrong-total":
            balances[name] += 1
        elif kind == "negative":
            other = dice.choice(sorted(set(balances) - {name}) or [name])
            balances[other] += balances[name] + 1
            balances[name] = -1
        else:
            other = pick(dice, [r for r in reads if r.output.get(name) != balances[name]])
            if other is None:
                return None
            balances[name] = other.output.get(name)
        said = f"{kind}: account {name} in read {read.op_id}"
        return said, answering(part.ops, (read, balances))

    return make


def transfer_dropped(part: Part, dice: random.Random) -> Made:
    """A transfer whose effect a read shows: without it an account holds too much."""
    start, reads = part.options.get("bank_balance"), acked(part.ops, "read")
    if start is None:
        return None
    # Early ones first: each transfer of unknown outcome widens what an account may hold later.
    reads = [*reads[3:13], *dice.sample(reads, min(len(reads), 30)), *finals(part.ops, "read")]
    found = (_transfer_of(read, part.ops, dice, int(start)) for read in reads)
    return next((made for made in found if made is not None), None)


def _transfer_of(read: Op, ops: list[Op], dice: random.Random, start: int) -> Made:
    moves = [op for op in attempts(ops, "transfer") if op.output is not False]
    done = [op for op in moves if op.output is True and over(op, read)]
    for gone in dice.sample(done, min(8, len(done))):
        name = str(gone.input["to"])
        deltas = [
            (op, op.input["amount"] * (1 if str(op.input["to"]) == name else -1))
            for op in moves
            if name in (str(op.input["to"]), str(op.input["from"])) and op is not gone
        ]
        low, high = _bounds(deltas, read)
        if not low <= read.output.get(name, 0) - start <= high:
            said = f"transfer {gone.op_id}, which read {read.op_id} shows, was taken out"
            return said, without(ops, gone)
    return None


def tokens(ops: list[Op]) -> list[tuple[Any, Op]]:
    """Acquires whose output is a fencing token."""
    return [(op.output, op) for op in acked(ops, "acquire") if type(op.output) is int]


def named_tokens(ops: list[Op]) -> list[tuple[Any, Op]]:
    """Acquires whose output has a fencing token."""
    given = [op for op in acked(ops, "acquire") if isinstance(op.output, dict)]
    return [(op.output["token"], op) for op in given if "token" in op.output]


def offsets(ops: list[Op]) -> list[tuple[Any, Op]]:
    """Appends that were told where the entry stands."""
    return [(op.output, op) for op in acked(ops, "append") if type(op.output) is int]


def ids(ops: list[Op]) -> list[tuple[Any, Op]]:
    """Ids that were given out; those that are no numbers have no order."""
    given = acked(ops, "generate")
    if all(type(op.output) is int for op in given):
        return [(op.output, op) for op in given]
    return [(token(op.output), op) for op in given]


def numbers(ops: list[Op]) -> list[tuple[Any, Op]]:
    """Ids that are numbers."""
    return [(op.output, op) for op in acked(ops, "generate") if type(op.output) is int]


class _Hold(NamedTuple):
    """From a process's first acquire to its last release; nothing of it is unknown. `least`: the
    fewest permits that it had in between."""

    first: Op
    last: Op
    least: int


def _permits(op: Op) -> int:
    return op.input if type(op.input) is int else 1


def _holds(ops: list[Op]) -> list[_Hold]:
    """In order of their last release; none where a process gives back what it does not hold."""
    depth: dict[Any, int] = {}
    first: dict[Any, Op] = {}
    least: dict[Any, int] = {}
    holds = []
    for op in ops:
        process = op.process_id
        if op.outcome is Outcome.FAIL or op.output is False:
            continue
        if op.op_type == "acquire":
            if not depth.get(process):
                first[process], least[process] = op, _permits(op)
            depth[process] = depth.get(process, 0) + _permits(op)
            continue
        depth[process] = depth.get(process, 0) - _permits(op)
        if depth[process] < 0:
            return []
        if depth[process] > 0:
            least[process] = min(least[process], depth[process])
        elif op.outcome is Outcome.OK and first[process].outcome is Outcome.OK:
            holds.append(_Hold(first[process], op, least[process]))
    return holds


def crowded(permits: Callable[[Part], Any]) -> Maker:
    """A refused acquire succeeds, though others' holds that last throughout leave too little."""

    def make(part: Part, dice: random.Random) -> Made:
        total, holds = permits(part), part.once(_holds)
        given = [number for number, _ in part.once(tokens)]
        refused = [op for op in acked(part.ops, "acquire") if op.output is False]
        for op in some(dice, refused if type(total) is int else []):
            later = bisect.bisect_right(holds, end(op), key=lambda hold: hold.last.invoke_ts)
            held = sum(
                hold.least
                for hold in holds[later : later + _WINDOW]
                if hold.first.process_id != op.process_id and over(hold.first, op)
            )
            if held + _permits(op) > total:
                said = f"acquire {op.op_id} succeeds while {held} of {total} are held"
                return said, answering(part.ops, (op, max(given) + 1 if given else True))
        return None

    return make


def too_many(part: Part, dice: random.Random) -> Made:
    """An acquire of a semaphore gets more permits than there are."""
    total = part.options.get("permits")
    op = pick(dice, [op for op in acked(part.ops, "acquire") if op.output is not False])
    if op is None or type(total) is not int:
        return None
    said = f"acquire {op.op_id} got {total + 1} of {total} permits"
    return said, changed(part.ops, {op.op_id: {"input": total + 1}})


def _by_process(ops: list[Op]) -> dict[Any, list[Op]]:
    found: dict[Any, list[Op]] = {}
    for op in sorted(ops, key=began):
        found.setdefault(op.process_id, []).append(op)
    return found


def release_lost(part: Part, dice: random.Random) -> Made:
    """A release is taken out that the next holder waited for. Its process has no other one in time,
    and nothing of it is unknown."""
    holds, by = part.once(_holds), part.once(_by_process)
    for hold, after in some(dice, list(itertools.pairwise(holds))):
        mine, taken = by[hold.first.process_id], end(after.first)
        later = (
            op for op in mine if op.op_type == "release" and op.invoke_ts > hold.last.invoke_ts
        )
        again = next(later, None)
        if (
            after.first.process_id == hold.first.process_id
            or after.first.invoke_ts < end(hold.last)
            or any(op.outcome is Outcome.UNKNOWN and op.invoke_ts <= taken for op in mine)
            or (again is not None and again.invoke_ts <= taken)
        ):
            continue
        said = f"release {hold.last.op_id} was taken out, {after.first.op_id} acquired after it"
        return said, without(part.ops, hold.last)
    return None


def _ttl(op: Op) -> int | None:
    return op.input.get("ttl_ns") if isinstance(op.input, dict) else None


def overlap(part: Part, dice: random.Random) -> Made:
    """A holds, releases; then another process acquires. The release moves behind that acquire, so
    that both surely held it."""
    got = [op for op in acked(part.ops, "acquire") if op.output is not False]
    holds, mine = sorted(got, key=began), part.once(_by_process)

    def after(op: Op) -> Iterator[Op]:
        rows = mine[op.process_id]
        return itertools.islice(rows, bisect.bisect_right(rows, end(op), key=began), None)

    for a in dice.sample(holds, len(holds)):
        # A renewal that was refused ends what its process has; what else is in between does not.
        mine_next = (o for o in after(a) if o.op_type != "renew" or o.outcome is Outcome.FAIL)
        release, again = next(mine_next, None), next(mine_next, None)
        if release is None or release.op_type != "release" or release.outcome is Outcome.FAIL:
            continue
        at = bisect.bisect_left(holds, release.invoke_ts, key=began)
        behind = itertools.islice(holds, at, None)
        b = next((hold for hold in behind if hold.process_id != a.process_id), None)
        if b is None:
            continue
        # What either process does next with this lock may end what it has of it.
        ends = [op.invoke_ts for op in (again, next(after(b), None)) if op is not None]
        ends += [op.invoke_ts + ttl for op in (a, b) if (ttl := _ttl(op))]
        if min(ends, default=_FAR) > end(b) + 2:
            times = {"invoke_ts": end(b) + 1, "complete_ts": end(b) + 2, "timeout_marker": False}
            said = f"release {release.op_id} moved behind acquire {b.op_id} of another process"
            return said, changed(part.ops, {release.op_id: times})
    return None


def _certain(op: Op, changes: list[Op]) -> bool | None:
    """What a lookup must find: None where a change may have run beside it or decides otherwise."""
    past = [c for c in changes if c.invoke_ts <= end(op)]
    if not past:
        return False
    last = max(past, key=began)
    if not over(last, op) or any(not over(c, last) for c in past if c is not last):
        return None
    return last.op_type == "add"


def wrong_lookup(part: Part, dice: random.Random) -> Made:
    """A lookup is answered wrongly, of an element whose changes are all known and not running."""
    groups: dict[str, list[Op]] = {}
    for op in part.ops:
        if op.outcome is not Outcome.FAIL and op.op_type != "read":
            groups.setdefault(token(op.input), []).append(op)
    for name in some(dice, sorted(groups))[:60]:
        looks = acked(groups[name], "contains")
        changes = [op for op in groups[name] if op.op_type != "contains"]
        if any(c.complete_ts is None for c in changes):
            continue
        for op in some(dice, looks)[:60]:
            near = [c for c in changes if c.invoke_ts <= end(op)][-_WINDOW:]
            if len(near) < _WINDOW and _certain(op, near) is op.output:
                said = f"contains {op.op_id} of {op.input!r} answers {not op.output}"
                return said, answering(part.ops, (op, not op.output))
    return None


def hidden_entry(part: Part, dice: random.Random) -> Made:
    """A read of a log finds nothing where it showed an entry whose append had ended before."""
    by = dict(part.once(offsets))
    reads = [op for op in acked(part.ops, "read") if op.output and op.input is not None]
    for op in some(dice, reads):
        append = by.get(op.output[0][0])
        if append is not None and over(append, op):
            said = f"read {op.op_id} finds nothing at offset {op.input}, appended before"
            return said, answering(part.ops, (op, []))
    return None


def final_swapped(every: Lists, shape: Lists) -> Maker:
    """An early one of all reads lacks what a final one has; the two change outputs."""

    def make(part: Part, dice: random.Random) -> Made:
        lone = {token(w.value) for writes in part.once(shape.lone).values() for w in writes}
        for last in part.once(shape.observers):
            told = lone & set(map(token, last.output))
            for early in some(dice, part.once(every.observers)):
                if not told <= set(map(token, early.output)):
                    said = f"reads {early.op_id} and {last.op_id} swapped outputs"
                    return said, answering(part.ops, (early, last.output), (last, early.output))
        return None

    return make


def delivered_again(shape: Passing) -> Maker:
    """A take that found nothing gets what had come out before. Nothing else is touched; better not
    the last look, which says that nothing is left."""

    def make(part: Part, dice: random.Random) -> Made:
        looks = [op for op in part.once(shape.observers) if op.output is None]
        for idle in some(dice, looks[:-1] or looks):
            first = pick(dice, [p for p in part.once(shape.passages) if over(p.take, idle)])
            if first is not None:
                said = f"{idle.op_type} {idle.op_id} got what {first.take.op_id} had got"
                return said, answering(part.ops, (idle, first.value))
        return None

    return make


def reject_dropped(shape: DeadLetters) -> Maker:
    """Rejects of collected letters are taken out, more than unknown ones could stand in for."""

    def make(part: Part, dice: random.Random) -> Made:
        seen = part.once(shape.observers)
        dead = {token(op.output) for op in acked(seen, "collect")}
        rejects = [op for op in acked(seen, "reject") if token(op.output) in dead]
        unknown = (op for op in attempts(part.ops, "reject") if op.outcome is Outcome.UNKNOWN)
        need = sum(1 for _ in unknown) + 1
        values = sorted({token(op.output) for op in rejects})
        if len(values) < need:
            return None
        gone = set(dice.sample(values, need))
        lost = [op for op in rejects if token(op.output) in gone]
        return f"rejects of {need} collected elements were taken out", without(part.ops, *lost)

    return make


def _dumps(ops: list[Op]) -> list[Op]:
    found = finals(ops, "dump", "read")
    return [op for op in found if isinstance(op.output, dict) and op.output]


def diverged(part: Part, dice: random.Random) -> Made:
    """One replica's final dumps, and no others, hold something else."""
    last = part.once(_dumps)
    node = pick(dice, sorted({str(op.node_seen) for op in last}))
    if node is None:
        return None
    mine = [op for op in last if str(op.node_seen) == node]
    name = dice.choice(sorted(mine[-1].output, key=str))
    copy = answering(part.ops, *((op, {**op.output, name: PHANTOM}) for op in mine))
    return f"{node} holds something else at {name!r}", copy


def entry_gone(part: Part, dice: random.Random) -> Made:
    """An entry is in none of the final dumps, and an invariant counts them or adds them up."""
    declared, last = str(part.options.get("invariants", "")), part.once(_dumps)
    if not last or not ("size=" in declared or "sum=" in declared):
        return None
    name = dice.choice(sorted(last[-1].output, key=str))
    if "size=" not in declared and not last[-1].output.get(name):
        return None
    kept = ((op, {k: v for k, v in op.output.items() if k != name}) for op in last)
    return f"{name!r} is gone from all final dumps", answering(part.ops, *kept)


def _group(part: Part, dice: random.Random) -> list[Op]:
    """What was answered to a group of clients, as `fairness` makes them; none with one group."""
    by = part.options.get("fairness_by", "node")
    field = {"node": "node_seen", "process": "process_id"}.get(str(by), str(by))
    groups: dict[str, list[Op]] = {}
    for op in part.ops:
        inside = op.input.get("group") if isinstance(op.input, dict) else None
        name = inside if by == "group" else getattr(op, field, None)
        if name is not None:
            groups.setdefault(repr(name), []).append(op)
    chosen = pick(dice, list(groups.values()) if len(groups) > 1 else []) or []
    return [op for op in chosen if op.outcome is Outcome.OK]


def slow(part: Part, dice: random.Random) -> Made:
    """Some of a group take a thousand times as long: few enough to leave the percentile of all
    where it is, enough to be the group's own."""
    mine = _group(part, dice)
    if not mine:
        return None
    late = {
        op.op_id: {"complete_ts": op.invoke_ts + 1000 * max(1, end(op) - op.invoke_ts)}
        for op in mine[: max(1, len(mine) // 60)]
    }
    said = f"{len(late)} of {len(mine)} operations of one group took a thousand times as long"
    return said, changed(part.ops, late)


def failing(part: Part, dice: random.Random) -> Made:
    """A group gets no good answer."""
    mine = _group(part, dice)
    if not mine or float(part.options.get("fairness_error_rate", 1)) >= 1:
        return None
    refused = {"output": None, "error": "refused"}
    said = f"all {len(mine)} good operations of one group failed"
    return said, changed(part.ops, {op.op_id: refused for op in mine})


_MET_BY_NOBODY: Final = re.compile(
    r"\s*(p\d+_ms\s*<|max_ms\s*<|gap_s\s*<|ok_per_s\s*>|ok_ratio\s*>)=?\s*(?P<limit>[0-9.]+)"
)
"""Service levels that a system which answers nobody does not keep, if the limit is above zero."""


def unanswered(part: Part, dice: random.Random) -> Made:
    """Nobody gets an answer."""
    del dice
    declared = str(part.options.get("slo") or "").split(",")
    found = [m for text in declared if (m := _MET_BY_NOBODY.match(text))]
    mine = [op for op in part.ops if op.outcome is Outcome.OK]
    if not mine or not any("gap_s" not in m[1] and float(m["limit"]) > 0 for m in found):
        return None
    lost = {"complete_ts": None, "output": None, "timeout_marker": True}
    said = f"all {len(mine)} good operations got no answer"
    return said, changed(part.ops, {op.op_id: lost for op in mine})
