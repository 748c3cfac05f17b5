"""Second judges of what `linearizable` and the checkers of transactions find.

Each looks at what the found violation is about: the whole object, or all transactions on the keys
of its witness. A part of a right history is right, so that what is wrong there is wrong in the
whole. Only where nothing is found there, brute force has a look as well; and only where that, too,
finds all in order is the answer that there is no violation. All bounds are counts, so that the
answer is the same on any host.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from checkers.second import brute
from checkers.second.objects import MODELS, Run, effective, object_of, outcomes, tokens_of
from dstest.core.check import Anomaly
from dstest.core.history import INITIAL, History
from dstest.core.op import Op, Outcome
from dstest.core.protocols import SecondAnswer

OK, FAIL = "ok", "fail"

ORDERS: Final = {
    "strong-serializable": (False, "realtime"),
    "strong-session-serializable": (False, "session"),
    "serializable": (False, "plain"),
    "strong-snapshot-isolation": (True, "realtime"),
    "strong-session-snapshot-isolation": (True, "session"),
    "snapshot-isolation": (True, "plain"),
}


def executable(
    history: list[dict[str, Any]],
    model: str,
    outside: Callable[..., Any] | None = None,
    after: Callable[[Any, Any], Any] = lambda old, new: new,
) -> bool:
    """Can a store execute these op maps one step after the other, and give the same answers? Every
    order of steps is tried: a transaction takes its snapshot, later it commits, both at once where
    the model is no snapshot isolation; one whose outcome is not known may be left out. `outside`
    tells what a transaction found and left, `after` what a key holds after it.

    Every order of steps is tried, so that it is for minimal histories.
    """
    snapshot, between = ORDERS[model]
    invoked: dict[Any, dict[str, Any]] = {}
    rows: list[tuple[Any, int, float, str, list[list[Any]]]] = []
    for at, event in enumerate(history):
        if event["type"] == "invoke":
            invoked[event["process"]] = {**event, "at": at}
            continue
        begun = invoked.pop(event["process"])
        end = float(at) if event["type"] == OK else float("inf")
        mops = event["value"] if event["type"] == OK else begun["value"]
        if event["type"] != FAIL:
            rows.append((event["process"], begun["at"], end, event["type"], mops))
    asked = [(outside or _outside)(mops, kind) for _, _, _, kind, mops in rows]
    if any(a is None for a in asked):
        return False
    needs = [
        {
            a
            for a, one in enumerate(rows)
            if (between == "realtime" and one[2] < row[1])
            or (between == "session" and one[0] == row[0] and one[2] < row[1])
        }
        for row in rows
    ]
    must = {n for n, row in enumerate(rows) if row[3] == OK}
    free = [n for n in range(len(rows)) if n not in must]
    return any(
        _runs(asked, needs, must | set(some), snapshot, after)
        for size in range(len(free) + 1)
        for some in itertools.combinations(free, size)
    )


def _outside(mops: list[list[Any]], kind: str) -> tuple[dict[Any, Any], dict[Any, Any]] | None:
    """What a transaction read of others and what it left; None where its reads contradict."""
    reads: dict[Any, Any] = {}
    writes: dict[Any, Any] = {}
    for f, k, v in mops:
        if f == "w":
            writes[k] = v
        elif kind == OK and (writes if k in writes else reads).setdefault(k, v) != v:
            return None
    return reads, writes


def _runs(
    asked: list[Any],
    needs: list[set[int]],
    chosen: set[int],
    snapshot: bool,
    after: Callable[[Any, Any], Any],
) -> bool:
    seen: set[Any] = set()

    def stored(now: dict[Any, Any], writes: dict[Any, Any]) -> frozenset[Any]:
        return frozenset({**now, **{k: after(now.get(k), v) for k, v in writes.items()}}.items())

    def go(begun: frozenset[int], done: frozenset[int], store: Any, since: Any) -> bool:
        """`since`: of those that have begun, keys written by others meanwhile."""
        if done == chosen:
            return True
        state = (begun, done, store, since)
        if state in seen:
            return False
        seen.add(state)
        now, dirty = dict(store), dict(since)
        for t in chosen - begun:
            if not needs[t] & chosen <= done:
                continue
            reads, writes = asked[t]
            if any(now.get(k) != v for k, v in reads.items()):
                continue
            if snapshot:
                if go(begun | {t}, done, store, frozenset({**dirty, t: frozenset()}.items())):
                    return True
            elif go(begun | {t}, done | {t}, stored(now, writes), since):
                return True
        for t in begun - done if snapshot else ():
            writes = asked[t][1]
            if dirty[t] & writes.keys():
                continue
            left = {o: frozenset({*d, *writes}) for o, d in dirty.items() if o != t}
            if go(begun, done | {t}, stored(now, writes), frozenset(left.items())):
                return True
        return False

    return go(frozenset(), frozenset(), frozenset(), frozenset())


def in_an_order(history: list[dict[str, Any]], model: str) -> bool:
    """Can a store of lists execute these op maps one step after the other, every order of steps
    tried? See `executable`."""
    return executable(history, model, _of_lists, lambda old, new: (old or ()) + new)


def _of_lists(mops: list[list[Any]], kind: str) -> tuple[dict[Any, Any], dict[Any, Any]] | None:
    """The lists that a transaction found, and its appends; None where it contradicts itself."""
    found: dict[Any, Any] = {}
    appended: dict[Any, tuple[int, ...]] = {}
    for f, k, v in mops:
        if f == "append":
            appended[k] = (*appended.get(k, ()), v)
        elif kind == OK:
            own, told = appended.get(k, ()), tuple(v)
            if told[len(told) - len(own) :] != own:
                return None
            if found.setdefault(k, told[: len(told) - len(own)] or None) != (
                told[: len(told) - len(own)] or None
            ):
                return None
    return found, appended


@dataclass(eq=False, slots=True)
class _Entry:
    """A call (`back` is its return, None where it never came) or a return (`call` is False)."""

    at: int
    call: bool
    back: _Entry | None = None
    before: _Entry | None = None
    after: _Entry | None = None


def _entries(ops: list[Op]) -> _Entry:
    """The list, behind a head that is no entry. At one instant calls come before returns: what
    touches overlaps."""
    placed: list[tuple[int, bool, int, _Entry]] = []
    for at, op in enumerate(ops):
        call = _Entry(at, call=True)
        placed.append((op.invoke_ts, False, at, call))
        if not op.timeout_marker and op.complete_ts is not None:
            call.back = _Entry(at, call=False)
            placed.append((op.complete_ts, True, at, call.back))
    head = last = _Entry(-1, call=False)
    for *_, entry in sorted(placed, key=lambda row: row[:3]):
        last.after, entry.before = entry, last
        last = entry
    return head


def _take(entry: _Entry) -> None:
    for one in (entry, entry.back):
        if one is not None and one.before is not None:
            one.before.after = one.after
            if one.after is not None:
                one.after.before = one.before


def _put_back(entry: _Entry) -> None:
    for one in (entry.back, entry):
        if one is not None and one.before is not None:
            one.before.after = one
            if one.after is not None:
                one.after.before = one


class _Object:
    """The states that it may be in; each is written down once."""

    def __init__(self, model: str, run: Run, ops: list[Op]) -> None:
        self._model, self._run = model, run
        self._tokens = tokens_of(ops)

    def step(self, states: dict[str, Any], op: Op) -> dict[str, Any]:
        """By how they are written; empty where no state allows the operation."""
        return {
            repr(after): after
            for state in states.values()
            for after in outcomes(self._model, self._run, state, op, self._tokens)
        }


def linearizable(model: str, ops: list[Op], *, permits: int = 0, steps_max: int) -> bool | None:
    """Is there a linearization of the operations of one object? None after `steps_max` steps. An
    operation of unknown outcome need not be in it.

    The algorithm is that of Wing and Gong as Lowe and Porcupine have it. Calls and returns stand in
    one list in order of time. The first call that the object allows is linearized and taken out,
    with its return; where a return comes first whose call was not, the last choice is undone. What
    was linearized together with the state that it led to is remembered, so that nothing is tried
    twice (Lowe, "Testing for linearizability", Concurrency and Computation 29(4), 2017; Athalye's
    Porcupine).
    """
    run, first = object_of(model, permits)
    ops = effective(ops)
    thing, states = _Object(model, run, ops), {repr(first): first}
    head = _entries(ops)
    left = sum(not op.timeout_marker and op.complete_ts is not None for op in ops)
    taken: list[tuple[_Entry, dict[str, Any]]] = []
    done = steps = 0
    known: set[tuple[int, frozenset[str]]] = set()
    entry = head.after
    while left:
        if entry is not None and entry.call:
            steps += 1
            if steps > steps_max:
                return None
            after = thing.step(states, ops[entry.at])
            mark = (done | 1 << entry.at, frozenset(after))
            if after and mark not in known:
                known.add(mark)
                taken.append((entry, states))
                states, done = after, mark[0]
                left -= entry.back is not None
                _take(entry)
                entry = head.after
            else:
                entry = entry.after
            continue
        if not taken:
            return False
        entry, states = taken.pop()
        done &= ~(1 << entry.at)
        left += entry.back is not None
        _put_back(entry)
        entry = entry.after
    return True


STRICT: Final = "strict-serializable"
"""What is asked where nobody names a model."""

TXNS_MAX: Final = 300
"""Real time is compared pair by pair."""

BRUTE_TXNS_MAX: Final = 8


def _unknown(why: str) -> SecondAnswer:
    return SecondAnswer(valid="unknown", said=why)


def _agrees(how: str) -> SecondAnswer:
    return SecondAnswer(valid=False, said=f"{how} finds it, too")


def _by_key(ops: Sequence[Op], key: Any) -> list[Op]:
    named = repr(key)
    return [op for op in ops if repr(op.key) == named]


def _same(ops: Sequence[Op], ids: Sequence[int | str]) -> list[Op]:
    wanted = set(ids)
    return [op for op in ops if op.op_id in wanted]


class OfObjects:
    """Porcupine's algorithm on the object, brute force on the witness."""

    name = "Porcupine's algorithm"

    def look(self, history: History, model: str, anomaly: Anomaly, steps_max: int) -> SecondAnswer:
        """`steps_max` counts steps of the object."""
        options = history.header.options
        if model not in MODELS:
            return _unknown(f"{self.name} has no object {model}")
        if INITIAL in options:
            return _unknown("the objects do not start as usual")
        permits = int(options.get("permits") or 0)
        key = _key_of(anomaly, history.ops)
        ops = _by_key(history.ops, key)
        if not ops:
            return _unknown("it is not known which object it is about")
        how = f"{self.name} on {len(ops):,} operations of key {key}"
        found = linearizable(model, ops, permits=permits, steps_max=steps_max)
        if found is None:
            return _unknown(f"{how}: not decided within {steps_max:,} steps")
        if not found:
            return _agrees(how)
        tried = brute.explains(model, ops, permits=permits, steps_max=steps_max)
        if tried:
            return SecondAnswer(valid=True, said=f"{how} finds an order, and so does brute force")
        what = "does not" if tried is False else "comes to no end"
        return _unknown(f"{how} finds an order, and brute force {what}")


def _key_of(anomaly: Anomaly, ops: Sequence[Op]) -> Any:
    """The key that it names, or else the one that its operations are all on."""
    keys = {repr(op.key): op.key for op in _same(ops, anomaly.ops)}
    return anomaly.key if len(keys) != 1 else next(iter(keys.values()))


class OfTransactions:
    """Elle's inference on the transactions of the witness' keys, brute force on the witness."""

    name = "Elle's inference"

    def __init__(self, workload: str) -> None:
        self._workload = workload

    def look(self, history: History, model: str, anomaly: Anomaly, steps_max: int) -> SecondAnswer:
        """`steps_max` bounds the pairs of transactions that are compared."""
        if INITIAL in history.header.options:
            return _unknown("the keys do not start as usual")
        witness = [op for op in _same(history.ops, anomaly.ops) if op.op_type == "txn"]
        keys = {repr(mop[1]) for op in witness for mop in _mops(op)}
        if not keys:
            return _unknown("the witness names no transaction")
        ops = [op for op in history.ops if any(repr(m[1]) in keys for m in _mops(op))]
        most = min(TXNS_MAX, int(steps_max**0.5))
        if len(ops) > most:
            return _unknown(f"{len(ops):,} transactions are on its keys, and {most} is the limit")
        how = f"{self.name} on {len(ops)} transactions of its keys"
        from checkers.second import elle  # dear, and only for what was found

        asked = None if model == STRICT else [model]
        try:
            answer = elle.check(_events(ops, keys), self._workload, asked)
        except KeyError:
            return _unknown(f"{self.name} has no model {model}")
        if answer["valid"] is False:
            return _agrees(f"{how} ({', '.join(answer['anomaly_types'])})")
        return self._by_force(witness, keys, model, how)

    def finds(self, history: History, model: str) -> bool:
        """Does Elle's inference find something in a small history that the model forbids? KeyError
        for a model that it does not know."""
        from checkers.second import elle

        keys = {repr(mop[1]) for op in history.ops for mop in _mops(op)}
        asked = None if model == STRICT else [model]
        return elle.check(_events(history.ops, keys), self._workload, asked)["valid"] is False

    def _by_force(self, witness: list[Op], keys: set[str], model: str, how: str) -> SecondAnswer:
        order = "strong-serializable" if model == STRICT else model
        if order not in ORDERS:
            return _unknown(f"{how} finds nothing, and brute force has no {model}")
        if len(witness) > BRUTE_TXNS_MAX:
            return _unknown(f"{how} finds nothing; {len(witness)} are too many for brute force")
        lists = any(mop[0] == "append" for op in witness for mop in _mops(op))
        run = in_an_order if lists else executable
        if run(_events(witness, keys, () if lists else None), order):
            said = f"{how} finds nothing, and brute force executes its witness"
            return SecondAnswer(valid=True, said=said)
        return _agrees(f"brute force on {len(witness)} transactions")


def _mops(op: Op) -> list[Any]:
    known = op.output if op.outcome is Outcome.OK and op.output is not None else op.input
    return [m for m in known or () if isinstance(m, list | tuple) and len(m) >= 2]


_TYPES: Final = {Outcome.OK: "ok", Outcome.FAIL: "fail", Outcome.UNKNOWN: "info"}


def _events(ops: Sequence[Op], keys: set[str], nil: Any = None) -> list[dict[str, Any]]:
    """Jepsen's op maps of what the transactions did to these keys, in order of time; at one
    instant, who begins does so before others end. `nil` is what a read of nothing returned."""
    processes: dict[Any, int] = {}
    rows: list[tuple[int, int, int, dict[str, Any]]] = []
    for at, op in enumerate(ops):
        process = processes.setdefault(op.process_id, len(processes))
        known = op.outcome is Outcome.OK and op.output is not None
        asked = [[f, k, None if f == "r" else v] for f, k, v in _three(op, keys)]
        told = [[f, k, nil if v is None else v] for f, k, v in _three(op, keys)] if known else asked
        base = {"process": process, "f": "txn"}
        rows.append((op.invoke_ts, 0, at, {**base, "type": "invoke", "value": asked}))
        if op.complete_ts is not None and not op.timeout_marker:
            kind = _TYPES[op.outcome]
            rows.append((op.complete_ts, 1, at, {**base, "type": kind, "value": told}))
    ordered = [row for *_, row in sorted(rows, key=lambda row: row[:3])]
    return [{**event, "index": n, "time": n} for n, event in enumerate(ordered)]


def _three(op: Op, keys: set[str]) -> list[tuple[Any, Any, Any]]:
    rows = [(*mop, None)[:3] for mop in _mops(op)]
    return [(f, _plain(k), _plain(v)) for f, k, v in rows if repr(k) in keys]


def _plain(value: Any) -> Any:
    """As something that can be looked up; the elements of a list stay in their order."""
    if isinstance(value, list):
        return tuple(_plain(one) for one in value)
    return msgspec.json.encode(value).decode() if isinstance(value, dict) else value


OBJECTS: Final = OfObjects()
