"""Slow judges of small histories, each written from the definition alone.

`linearizable(ops, step, state)` searches all orders. The others restate a checker's definition with
loops over all pairs. They share nothing with `checkers/`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from itertools import product
from typing import Any

from dstest.core.op import Op, Outcome

INFINITY = 1 << 62
Step = Callable[[Any, Op], Iterable[Hashable]]
"""(state, operation) -> states afterwards; none where its output contradicts the state."""


def end(op: Op) -> int:
    return INFINITY if op.outcome is Outcome.UNKNOWN else op.complete_ts or 0


def linearizable(ops: list[Op], step: Step, state: Hashable) -> bool:
    """Is there an order that respects time and explains every ok output?"""
    ops = [op for op in ops if op.outcome is not Outcome.FAIL]
    must = frozenset(i for i, op in enumerate(ops) if op.outcome is Outcome.OK)
    dead: set[Any] = set()

    def search(done: frozenset[int], state: Any) -> bool:
        if must <= done:
            return True
        if (done, state) in dead:
            return False
        limit = min(end(ops[i]) for i in must - done)
        for i, op in enumerate(ops):
            if i not in done and op.invoke_ts <= limit:
                for after in step(state, op):
                    if search(done | {i}, after):
                        return True
        dead.add((done, state))
        return False

    return search(frozenset(), state)


def known(op: Op) -> bool:
    return op.outcome is Outcome.OK


def set_step(state: frozenset[Any], op: Op) -> Iterable[Hashable]:
    if op.op_type == "add":
        return [state | {op.input}]
    if not known(op):
        return [state]
    return [state] if sorted(op.output) == sorted(state) else []


def log_step(state: tuple[Any, ...], op: Op) -> Iterable[Hashable]:
    if op.op_type == "append":
        return [(*state, op.input)]
    return [state] if not known(op) or tuple(op.output) == state else []


def queue_step(state: tuple[Any, ...], op: Op) -> Iterable[Hashable]:
    if op.op_type == "enqueue":
        return [(*state, op.input)]
    head, rest = (state[0], state[1:]) if state else (None, ())
    return [rest] if not known(op) or op.output == head else []


def bag_step(state: tuple[Any, ...], op: Op) -> list[tuple[Any, ...]]:
    if op.op_type == "enqueue":
        return [tuple(sorted((*state, op.input)))]
    if not known(op):
        return [state, *(_less(state, v) for v in set(state))]
    if op.output is None:
        return [] if state else [state]
    return [_less(state, op.output)] if op.output in state else []


def dead_step(state: tuple[Any, Any], op: Op) -> Iterable[Hashable]:
    """A queue and its dead letters, each in any order."""
    queue, dead = state
    if op.op_type == "collect":
        return [(queue, after) for after in bag_step(dead, op)]
    if op.op_type != "reject":
        return [(after, dead) for after in bag_step(queue, op)]
    return [
        (after, tuple(sorted([*dead, *(Counter(queue) - Counter(after)).elements()])))
        for after in bag_step(queue, op)
    ]


def _less(state: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    at = state.index(value)
    return state[:at] + state[at + 1 :]


def counter_step(state: int, op: Op) -> Iterable[Hashable]:
    if op.op_type == "inc":
        after = state + op.input
        return [after] if not known(op) or op.output in (None, after) else []
    return [state] if not known(op) or op.output == state else []


def mutex_step(state: Any, op: Op) -> Iterable[Hashable]:
    """State: who holds it. `false` found it held; a release by another changes nothing."""
    if op.op_type == "acquire":
        if known(op) and op.output is False:
            return [] if state is None else [state]
        return [op.process_id] if state is None else []
    return [None] if state == op.process_id else [state]


def version_step(state: tuple[int, Any], op: Op) -> Iterable[Hashable]:
    """One register with versions."""
    if op.op_type == "write":
        after = (state[0] + 1, op.input)
        return [after] if not known(op) or op.output["version"] == after[0] else []
    if not known(op):
        return [state]
    return [state] if (op.output["version"], op.output["value"]) == state else []


def register_step(state: tuple[tuple[str, Any], ...], op: Op) -> Iterable[Hashable]:
    """Registers by key."""
    now: dict[Any, Any] = dict(state)
    if op.op_type == "write":
        now[op.key] = op.input
        return [tuple(sorted(now.items()))]
    return [state] if not known(op) or op.output == now.get(op.key) else []


# --- definitions over pairs -----------------------------------------------------------------


def final_state_holds_acks(ops: list[Op], *, unique: bool) -> bool | None:
    """set, no-lost-ack; None without a final read or without anything acknowledged."""
    writes = [op for op in ops if op.op_type == "add"]
    finals = [
        r
        for r in ops
        if r.op_type == "read"
        and known(r)
        and all(w.complete_ts is None or w.complete_ts < r.invoke_ts for w in writes)
    ]
    acked = {w.input for w in writes if known(w)}
    possible = {w.input for w in writes if w.outcome is not Outcome.FAIL}
    for read in finals:
        if not acked <= set(read.output) or not set(read.output) <= possible:
            return False
        if unique and len(set(read.output)) < len(read.output):
            return False
    return True if finals and acked else None


def fifo_pairs(ops: list[Op]) -> bool:
    """No pair of elements is out in the wrong order; none stays behind a younger one."""
    enq = {op.input: op for op in ops if op.op_type == "enqueue" and op.outcome is not Outcome.FAIL}
    deq = {op.output: op for op in ops if op.op_type == "dequeue" and known(op)}
    deq.pop(None, None)
    spare = sum(1 for o in ops if o.op_type == "dequeue" and o.outcome is Outcome.UNKNOWN)
    stayed = set()
    for a, b in product(enq, enq):
        in_by = min(end(enq[a]), end(deq[a]) if a in deq else INFINITY)
        if a == b or b not in deq or in_by >= enq[b].invoke_ts:
            continue
        if a in deq and deq[a].invoke_ts > end(deq[b]):
            return False
        if a not in deq and known(enq[a]):
            stayed.add(a)
    return len(stayed) <= spare


def causal_bad_patterns(ops: list[Op]) -> bool:
    """Causally consistent? By the transitive closure of process order and reads-from."""
    ops = [o for o in ops if known(o) or (o.op_type == "write" and o.outcome is not Outcome.FAIL)]
    source = {(o.key, o.input): i for i, o in enumerate(ops) if o.op_type == "write"}
    n = len(ops)
    before = [[False] * n for _ in range(n)]
    for i, j in product(range(n), range(n)):
        a, b = ops[i], ops[j]
        if i != j and a.process_id == b.process_id and a.invoke_ts < b.invoke_ts:
            before[i][j] = True
    reads = [i for i, o in enumerate(ops) if o.op_type == "read"]
    for i in reads:
        if ops[i].output is not None:
            at = source.get((ops[i].key, ops[i].output))
            if at is None or ops[at].invoke_ts > end(ops[i]):
                return False
            before[at][i] = True
    for k, i, j in product(range(n), range(n), range(n)):
        if before[i][k] and before[k][j]:
            before[i][j] = True
    if any(before[i][i] for i in range(n)):
        return False
    for r in reads:
        for w in range(n):
            if ops[w].op_type != "write" or ops[w].key != ops[r].key or not before[w][r]:
                continue
            if ops[r].output is None:
                return False
            at = source[ops[r].key, ops[r].output]
            if at != w and before[at][w]:
                return False
    return True


def session_guarantees(ops: list[Op]) -> bool:
    """All four guarantees and one value per version, over all pairs of one key."""
    done = [op for op in ops if known(op)]
    held: dict[int, Any] = {}
    written = {op.input for op in ops if op.op_type == "write" and op.outcome is not Outcome.FAIL}
    for op in done:
        value = op.output["value"] if op.op_type == "read" else op.input
        if held.setdefault(op.output["version"], value) != value:
            return False
        if value is not None and value not in written:
            return False
    for a, b in product(done, done):
        if a.process_id != b.process_id or a.invoke_ts >= b.invoke_ts:
            continue
        old, new = a.output["version"], b.output["version"]
        if new < old or (new == old and b.op_type == "write"):
            return False
    return True


def holds_overlap(ops: list[Op]) -> bool:
    """Do two processes surely hold one lock at one instant? All instants that matter are tried."""
    spans = []
    for a in ops:
        if a.op_type not in ("acquire", "renew") or not known(a) or a.output is False:
            continue
        mine = [o for o in ops if o.process_id == a.process_id and o.invoke_ts <= a.invoke_ts]
        got = [o for o in mine if o.op_type == "acquire" and known(o) and o.output is not False]
        if a.op_type == "renew":
            over = [o for o in mine if _ends(o) and got and o.invoke_ts > got[-1].invoke_ts]
            if not got or over:
                continue
        later = [
            o.invoke_ts
            for o in ops
            if o.process_id == a.process_id and o.invoke_ts > a.invoke_ts and _ends(o)
        ]
        ttl = (a.input or {}).get("ttl_ns", INFINITY)
        spans.append((a.process_id, end(a), min([a.invoke_ts + ttl, *later])))
    return any(p != q and max(s, t) < min(e, f) for (p, s, e), (q, t, f) in product(spans, spans))


def _ends(op: Op) -> bool:
    refused = op.outcome is Outcome.FAIL
    held = refused and not str(op.error).startswith("not-held")
    return (op.op_type == "release" and not held) or (op.op_type == "renew" and refused)


def offsets_hold(ops: list[Op]) -> bool:
    """kafka under `linearizable`, for polls with `from` and `to`."""
    sends = [op for op in ops if op.op_type == "send"]
    acked = {op.output["offset"]: op for op in sends if known(op)}
    if len(acked) < sum(1 for op in sends if known(op)):
        return False
    value_at = {offset: op.input for offset, op in acked.items()}
    tries = Counter(op.input for op in sends if op.outcome is not Outcome.FAIL)
    polls = [op for op in ops if op.op_type == "poll" and known(op)]
    for poll in polls:
        offsets = [record[0] for record in poll.output["records"]]
        if offsets != sorted(set(offsets)) or any(o < poll.input["from"] for o in offsets):
            return False
        for offset, value in poll.output["records"]:
            if value_at.setdefault(offset, value) != value or not tries[value]:
                return False
    if any(n > tries[v] for v, n in Counter(value_at.values()).items()):
        return False
    for poll in polls:
        span = range(poll.input["from"], poll.output["to"] + 1)
        if {o for o in value_at if o in span} - {r[0] for r in poll.output["records"]}:
            return False
        if any(end(op) < poll.invoke_ts and o > poll.output["to"] for o, op in acked.items()):
            return False
    return not any(
        end(a) < b.invoke_ts and o > p for (o, a), (p, b) in product(acked.items(), acked.items())
    )
