"""Isolation and values: conflicts, dirty reads, lost updates, corruption."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, Final

from dstest.core.op import Op, Outcome
from dstest.debug.logs.scene import Explanation
from dstest.debug.patterns import order
from dstest.debug.patterns.anomalies import (
    base_of,
    commits_undone,
    match_of,
    of_anomalies,
    of_check,
    promises_broken,
)
from dstest.debug.patterns.journal import CORRUPTION, NotedLine
from dstest.debug.patterns.model import (
    JOURNAL,
    JUDGED,
    LINES,
    Match,
    Pattern,
    Sign,
    evidence_row,
    operations,
)
from dstest.debug.patterns.scene import CheckerFinding, Scene


def _both_swapped(scene: Scene) -> Iterator[Match]:
    """Two compare-and-sets succeeded from one value that was written once."""
    swapped: dict[tuple[str, str], list[Op]] = defaultdict(list)
    written: Counter[tuple[str, str]] = Counter()
    for op in scene.ops:
        if op.outcome is Outcome.FAIL:
            continue
        if op.op_type == "cas" and isinstance(op.input, list) and len(op.input) == 2:
            if op.output is not False:
                written[str(op.key), repr(op.input[1])] += 1
            if op.outcome is Outcome.OK and op.output is not False:
                swapped[str(op.key), repr(op.input[0])].append(op)
        elif op.op_type in ("write", "put"):
            written[str(op.key), repr(op.input)] += 1
    for (key, value), ops in swapped.items():
        if len(ops) > 1 and written[key, value] == 1:
            yield _of_ops(scene, ops, f"{len(ops)} swaps of key {key} succeeded from {value}")


def _of_ops(scene: Scene, ops: list[Op], said: str, **more: Any) -> Match:
    rows = [
        evidence_row(
            "operation",
            scene.lines_of_ops[op.op_id],
            f"op {op.op_id} {op.op_type} {op.key}: {op.input!r} -> {op.output!r}",
            op.invoke_ts,
            op.node_seen or "",
            [op.op_id],
        )
        for op in ops[:6]
    ]
    more.setdefault("nodes", sorted({op.node_seen for op in ops if op.node_seen}))
    more.setdefault("at_ns", ops[-1].invoke_ts)
    return Match(said=said, rows=rows, count=len(ops), **more)


def _refused_seen(scene: Scene) -> Iterator[Match]:
    """A read of a register shows a value whose only write was refused."""
    wrote: dict[tuple[Any, str], list[Op]] = defaultdict(list)
    for op in scene.ops:
        if op.op_type in ("write", "put") and op.key is not None:
            wrote[op.key, repr(op.input)].append(op)
    if not wrote:
        return
    bad: list[Op] = []
    for op in scene.ops:
        if op.op_type not in ("read", "get") or op.outcome is not Outcome.OK or op.output is None:
            continue
        by = wrote.get((op.key, repr(op.output)))
        if by and all(one.outcome is Outcome.FAIL for one in by):
            bad += [by[0], op]
    if bad:
        yield _of_ops(scene, bad, f"{len(bad) // 2} reads show writes that had been refused")


def _totals(scene: Scene) -> Iterator[tuple[CheckerFinding, bool]]:
    """Wrong totals, and whether right ones were read again after the first of them."""
    for one in scene.findings:
        if base_of(one.kind) != "wrong-total":
            continue
        wrong = {op for anomaly in one.anomalies for op in anomaly.ops}
        reads = [op for op in scene.ops if op.op_type == "read" and isinstance(op.output, dict)]
        first = min((op.invoke_ts for op in reads if op.op_id in wrong), default=0)
        sums = Counter(_sum(op.output) for op in reads if op.outcome is Outcome.OK)
        usual = sums.most_common(1)[0][0] if sums else None
        later = [op for op in reads if op.invoke_ts > first and op.outcome is Outcome.OK]
        right = sum(_sum(op.output) == usual for op in later)
        yield one, 2 * right > len(later) > 0


def _sum(balances: dict[str, Any]) -> Any:
    return sum(v for v in balances.values() if isinstance(v, int | float))


def _passing_totals(scene: Scene) -> Iterator[Match]:
    for one, passes in _totals(scene):
        if passes:
            yield match_of(scene, one)


def _lasting_totals(scene: Scene) -> Iterator[Match]:
    for one, passes in _totals(scene):
        yield match_of(scene, one, strength="indicated" if passes else None)


def _transfers(scene: Scene) -> Iterator[Match]:
    """Transfers that were acknowledged and not shown. Where totals are wrong for moments alone, a
    read may have shown half of one that is not lost."""
    passing = any(passes for _, passes in _totals(scene))
    for one in scene.findings:
        if one.kind == "lost-transfer":
            yield match_of(scene, one, lost=True, strength="indicated" if passing else None)


def _gone(scene: Scene) -> Iterator[Match]:
    """Elements that were acknowledged and are in no later read of all."""
    added: dict[Any, dict[Any, Op]] = defaultdict(dict)
    reads: dict[Any, Op] = {}
    removed: set[Any] = set()
    for op in scene.ops:
        if op.op_type == "add" and op.outcome is Outcome.OK and _plain(op.input):
            added[op.key][op.input] = op
        elif op.op_type == "remove":
            removed.add(op.key)
        elif op.op_type == "read" and op.outcome is Outcome.OK and isinstance(op.output, list):
            reads[op.key] = op
    lost: list[Op] = []
    for key, elements in added.items():
        last = reads.get(key)
        if last is None or key in removed:
            continue
        seen = set(map(repr, last.output))
        lost += [
            op
            for value, op in elements.items()
            if op.complete_ts is not None
            and op.complete_ts < last.invoke_ts
            and repr(value) not in seen
        ]
    if lost:
        lost.sort(key=lambda op: op.last_ns)
        said = f"{len(lost)} acknowledged elements are in no last read"
        yield _of_ops(scene, lost, said, at_ns=lost[0].last_ns, acknowledged=True)


def _plain(value: Any) -> bool:
    return isinstance(value, int | str)


def _too_few(scene: Scene) -> Iterator[Match]:
    """A counter reads less than the increments that were acknowledged before it, none of which was
    below nothing."""
    acked: dict[Any, list[Op]] = defaultdict(list)
    for op in scene.ops:
        if op.op_type in ("inc", "increment") and op.outcome is not Outcome.FAIL:
            acked[op.key].append(op)
    for key, ops in acked.items():
        steps = [op.input if isinstance(op.input, int) else 1 for op in ops]
        if any(step < 0 for step in steps):
            continue
        reads = [
            op
            for op in scene.ops
            if op.op_type == "read" and op.key == key and op.outcome is Outcome.OK
        ]
        for read in reads[-1:]:
            due = sum(
                op.input if isinstance(op.input, int) else 1
                for op in ops
                if op.outcome is Outcome.OK and (op.complete_ts or 0) < read.invoke_ts
            )
            if isinstance(read.output, int) and read.output < due:
                said = f"counter {key} reads {read.output}, {due} were acknowledged before"
                yield _of_ops(scene, [*ops[-3:], read], said)


def _damage(scene: Scene) -> Iterator[Match]:
    """Lines that tell of damaged data, apart those of what a fault has damaged."""
    groups: dict[tuple[str, bool], tuple[Explanation, list[NotedLine]]] = {}
    for one in scene.notes.alarms:
        if one.what == CORRUPTION:
            said = scene.why(one.line.time_ns, [one.line.node], CORRUPTION)
            by_fault = said.expected and said.by_fault
            groups.setdefault((said.window, by_fault), (said, []))[1].append(one)
    for (window, by_fault), (said, told) in groups.items():
        rows = [
            evidence_row("log", t.line.place, t.line.record.message, t.line.time_ns, t.line.node)
            for t in told[:6]
        ]
        yield Match(
            said=f"{len(told)} lines tell of damaged data",
            rows=rows,
            count=len(told),
            nodes=sorted({one.line.node for one in told}),
            at_ns=told[0].line.time_ns,
            window=window,
            expected=by_fault,
            why=said.why if by_fault else "no fault that damages data stood there",
        )


_SWAPS: Final = Sign(
    "two-swaps",
    "two compare-and-sets that succeeded from one value",
    _both_swapped,
    (operations("cas"),),
)

PATTERNS: Final = (
    Pattern(
        id="concurrent-update",
        number=8,
        name="Concurrent update conflict",
        family="values",
        symptoms="two writers both succeed, and the work of one is gone or mixed with the other's",
        causes=("read, change and write without a lock or a version", "last writer wins by clocks"),
        mitigations=(
            "compare-and-set by version, or a transaction that is serializable",
            "merge what is concurrent by a rule (CRDT), and tell the client of the loser",
        ),
        measure=("versions in answers, so that a history tells who knew of whom",),
        signs=(
            of_anomalies(
                ("G0", "G2", "write-skew", "G-cursor", "version-conflict"),
                ("lost-update", "G-SI", "G-single", "G-nonadjacent", "no-serial-order", "PL-3"),
            ),
            _SWAPS,
            of_check(
                "state_conflicts",
                "conflict-words",
                strength="indicated",
                severity="medium",
                words=True,
            ),
        ),
    ),
    Pattern(
        id="dirty-read",
        number=9,
        name="Dirty read",
        family="values",
        symptoms="a read shows what was refused, taken back or not finished",
        causes=("reads beside the lock or the log", "effects shown before the commit"),
        mitigations=("read from a snapshot or behind the lock that writers hold",),
        measure=("the same load with --nemesis none: dirty reads want no fault",),
        signs=(
            of_anomalies(
                ("G1a", "G1b", "G1", "dirty-update", "failed-but-applied"),
                ("fractured-read", "read-skew", "PL-2"),
            ),
            Sign(
                "refused-seen",
                "a read of a value whose write was refused",
                _refused_seen,
                (operations("read|get", "write|put"),),
            ),
            Sign(
                "taken-back",
                "values that were shown, never acknowledged, and gone again",
                order.taken_back,
                (operations("read|get", "write|put"),),
            ),
            Sign(
                "passing-total",
                "totals that are wrong for a moment and right again",
                _passing_totals,
                (JUDGED, operations("transfer")),
            ),
        ),
    ),
    Pattern(
        id="lost-update",
        number=21,
        name="Lost update",
        family="values",
        symptoms="what was acknowledged is gone, and nothing has overwritten it",
        causes=(
            "acknowledged before it was on enough members or on disk",
            "a leader that lacks what was committed",
            "read, change and write without a version",
        ),
        mitigations=(
            "acknowledge after a majority has it on disk",
            "vote for a candidate only whose log is as complete as one's own",
        ),
        measure=("-o journal=yes: who had the entry when it was acknowledged",),
        signs=(
            of_anomalies(
                (
                    *("lost", "lost-update", "lost-write", "lost-increment"),
                    *("acknowledged-without-effect", "lost-to-confusion"),
                ),
                ("nonlinearizable", "missing-account"),
                lost=True,
            ),
            Sign(
                "transfers-gone",
                "transfers that were acknowledged and that no read shows",
                _transfers,
                (JUDGED, operations("transfer")),
            ),
            Sign(
                "gone",
                "acknowledged elements that no last read shows",
                _gone,
                (operations("add", "read"),),
            ),
            Sign(
                "too-few",
                "a counter below what was acknowledged",
                _too_few,
                (operations("inc|increment", "read"),),
            ),
            Sign(
                "promise-broken",
                "entries that a server had acknowledged and lacks when it starts again",
                promises_broken,
                (JOURNAL,),
            ),
            Sign(
                "commit-undone",
                "committed entries that others replaced",
                commits_undone,
                (JOURNAL,),
            ),
        ),
    ),
    Pattern(
        id="corruption",
        number=22,
        name="State corruption (partial update)",
        family="values",
        symptoms="data break a rule of their own: half of a change, a wrong sum, values of nobody",
        causes=(
            "a change of several parts that a crash cuts in two",
            "a disk or a codec that lies",
        ),
        mitigations=("write changes as one record with a checksum", "check invariants at start"),
        measure=("final reads of all keys (--workload bank), and logs for checksums",),
        signs=(
            of_anomalies(
                (
                    *("corruption", "invariant-violated", "garbage-read", "thin-air-read"),
                    *("missing-account", "nil-balance", "unexpected-account"),
                    *("not-what-a-replay-gives", "phantom-key", "wrong-key", "listed-twice"),
                ),
                (
                    *("fractured-read", "read-skew", "phantom", "phantom-increment", "unexpected"),
                    *("negative-value", "phantom-transfer", "leak", "count-off"),
                    *("panic", "signal", "assertion", "race", "fatal", "internal"),
                ),
            ),
            Sign(
                "lasting-total",
                "totals that stay wrong",
                _lasting_totals,
                (JUDGED, operations("transfer")),
            ),
            Sign(
                "damage-told",
                "lines that tell of damaged data",
                _damage,
                (LINES,),
                "strong",
                words=True,
            ),
        ),
    ),
)
