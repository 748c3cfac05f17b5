"""Deadlock, livelock, starvation: work that is asked for and does not come forward."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from dstest.core.op import FINAL_IDS, Op, Outcome
from dstest.patterns.history import SECOND_NS, by_second, of_ops, quiet_seconds, runs_of
from dstest.patterns.model import Found, row
from dstest.patterns.scene import Scene, writes

_TAKES: Final = frozenset({"acquire", "lock"})
_GIVES: Final = frozenset({"release", "unlock"})
_CHANGES: Final = "changes of key"


class _Wait:
    """What one process wants: from when it asked first until it got it, gave up or did something
    else. `last` is when that was, None where the last time was never answered; `got` whether it
    has it then. Servers that refuse at once are asked again and again."""

    def __init__(self, first: Op) -> None:
        self.first = first
        self.key, self.process = first.key, first.process_id
        self.last = first.complete_ts
        self.got = False

    def again(self, op: Op) -> None:
        """How one more attempt ended."""
        self.last = op.complete_ts
        self.got = op.outcome is Outcome.OK and op.output not in (None, False)


def _waits(ops: list[Op]) -> list[_Wait]:
    """In the order in which they begin; one for all attempts of a process at a lock in a row."""
    found: list[_Wait] = []
    open_: dict[Any, _Wait] = {}
    for op in ops:
        wait = open_.get(op.process_id)
        if op.op_type not in _TAKES:
            open_.pop(op.process_id, None)
            continue
        if wait is None or wait.key != op.key or wait.got:
            wait = open_[op.process_id] = _Wait(op)
            found.append(wait)
        wait.again(op)
    return found


class _Hold:
    """Who holds each lock, and who waits for it since when."""

    def __init__(self) -> None:
        self.holder: dict[Any, Any] = {}
        self.waiting: dict[Any, _Wait] = {}

    def circle(self, start: Any) -> list[_Wait]:
        """The waits from a process back to itself; empty where there is no way back."""
        path: list[_Wait] = []
        process, seen = start, set()
        while process in self.waiting and process not in seen:
            seen.add(process)
            wait = self.waiting[process]
            path.append(wait)
            if wait.key not in self.holder:
                return []
            process = self.holder[wait.key]
        return path if path and process == start else []


def waits_in_circles(scene: Scene) -> Iterator[Found]:
    """Clients that hold a lock each and wait for the other's, for longer than a while."""
    ops = [op for op in scene.ops if op.op_type in _TAKES | _GIVES]
    events: list[tuple[int, int, _Wait | Op]] = []
    for wait in _waits(ops):
        events.append((wait.first.invoke_ts, 1, wait))
        if wait.last is not None:
            events.append((wait.last, 0, wait))
    events += [
        (op.complete_ts, 0, op)
        for op in ops
        if op.op_type in _GIVES and op.outcome is Outcome.OK and op.complete_ts is not None
    ]
    state, least_ns = _Hold(), int(scene.settings.stuck_s * 1e9)
    found: set[frozenset[Any]] = set()
    for _, begins, one in sorted(events, key=lambda event: event[:2]):
        if isinstance(one, Op):
            state.holder.pop(one.key, None)
        elif begins:
            state.waiting[one.process] = one
            circle = state.circle(one.process)
            who = frozenset(wait.process for wait in circle)
            if len(circle) > 1 and who not in found and _lasts(scene, circle, one, least_ns):
                found.add(who)
                waits = ", ".join(f"process {wait.process} for {wait.key}" for wait in circle)
                firsts = [wait.first for wait in circle]
                yield of_ops(scene, firsts, f"each waits for what the other holds: {waits}")
        else:
            state.waiting.pop(one.process, None)
            if one.got:
                state.holder[one.key] = one.process


def _lasts(scene: Scene, circle: list[_Wait], last: _Wait, least_ns: int) -> bool:
    """Do all of them wait for so long from the last wait on?"""
    end = scene.load_end_ns
    return all(
        (one.last if one.last is not None else end) - last.first.invoke_ts >= least_ns
        for one in circle
    )


def deadlock_lines(scene: Scene) -> Iterator[Found]:
    """What servers tell of deadlocks."""
    lines = [told.line for told in scene.noted.deadlocks]
    if lines:
        yield Found(
            said=f"{len(lines)} lines tell of a deadlock",
            rows=[row("log", x.place, x.record.message, x.time_ns, x.node) for x in lines[:6]],
            count=len(lines),
            nodes=sorted({x.node for x in lines}),
            at_ns=lines[0].time_ns,
        )


def no_completions(scene: Scene) -> Iterator[Found]:
    """Seconds in a row, outside of faults, in which much is begun and nothing succeeds."""
    asked = by_second(scene, lambda op: True)
    served = by_second(scene, scene.served, ended=True)
    quiet = quiet_seconds(scene)
    nothing = [a > 0 and not s and q for a, s, q in zip(asked, served, quiet, strict=True)]
    for begin, end in runs_of(nothing):
        tried = sum(asked[begin:end])
        if end - begin < scene.settings.stuck_s or tried < scene.settings.attempts_least:
            continue
        ops = scene.between(begin * SECOND_NS, end * SECOND_NS)
        yield of_ops(
            scene,
            ops,
            f"{tried} operations were begun in {end - begin} s, and none succeeded",
            window="no fault",
            expected=False,
            why="no fault stood in these seconds",
        )


def _progress(scene: Scene, by: str) -> dict[Any, tuple[list[Op], int]]:
    """By client, key or key that was changed: what was asked for outside of faults, and how much of
    it was served."""
    slots = scene.header.concurrency or 0
    groups: dict[Any, list[Op]] = defaultdict(list)
    for op in scene.load:
        if not scene.quiet(op.invoke_ts):
            continue
        process = op.process_id
        if by == "key" or (by == _CHANGES and writes(op)):
            groups[str(op.key)].append(op)
        elif by == "client" and slots and isinstance(process, int) and process < FINAL_IDS:
            groups[process % slots].append(op)
    return {who: (ops, sum(scene.served(op) for op in ops)) for who, ops in groups.items()}


def _others(scene: Scene, groups: dict[Any, tuple[list[Op], int]], but: Any) -> float:
    """Which share of the others' operations was served meanwhile."""
    begin, end = groups[but][0][0].invoke_ts, groups[but][0][-1].invoke_ts
    meanwhile = [
        op
        for who, (ops, _) in groups.items()
        if who != but
        for op in ops
        if begin <= op.invoke_ts <= end
    ]
    return sum(scene.served(op) for op in meanwhile) / max(1, len(meanwhile))


def starved(scene: Scene) -> Iterator[Found]:
    """Clients, keys, or changes of keys alone, that are never served while the others are: from
    their first attempt to their last one."""
    told: set[Any] = set()
    for by in ("client", "key", _CHANGES):
        groups = _progress(scene, by)
        for who, (ops, served) in groups.items():
            if len(ops) < scene.settings.attempts_least or served:
                continue
            took_s = (ops[-1].invoke_ts - ops[0].invoke_ts) / 1e9
            if took_s < scene.settings.stuck_s or (by == _CHANGES and who in told):
                continue
            if (others := _others(scene, groups, who)) <= 0.5:
                continue
            told.add(who)
            said = f"{by} {who} asked {len(ops)} times in {took_s:.0f} s and was never served"
            if by == _CHANGES:
                said = f"{by} {who} were asked for {len(ops)} times in {took_s:.0f} s, never served"
            yield of_ops(
                scene,
                ops,
                f"{said}, {others:.0%} of the others' were",
                window="no fault",
                expected=False,
                why="what a fault may explain does not count",
            )
