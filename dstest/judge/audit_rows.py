"""Audit rows that ask for more than one figure: did the checkers judge all of the run and were they
shown to bite (RF2), is every alarm in the logs and every end of a process explained by a fault
(RF7), and did the cluster come back, after each heal and at the end (RF8)?

A fault explains what its nemesis declares (`explains`), on the nodes that it was aimed at, while it
stood and shortly after; any fault explains that connections were given up. That an operation failed
at the same time explains nothing. An alarm is `certain` where it can mean nothing but a crash of
the system's own code or damage of its data: unexplained, it is a violation of the built-in checker
`no-crash`. All others make the row short alone: the host may be to blame.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from dstest.core.check import Anomaly, CheckResult
from dstest.core.evidence import AuditRow, Canary, FaultDetails, LandingRecord, PathDetails
from dstest.core.op import Op, Outcome
from dstest.judge.facts import (
    SECOND_NS,
    Alarm,
    MeasuredBaseline,
    Pace,
    ProcessEvent,
    RunFacts,
    agree,
    pace,
    windows_of,
)
from dstest.judge.lints import end_of

UNEXPLAINED: Final = "that no fault explains"
NOT_SERVING: Final = "not serving after the settle phase"
"""What rows say in words that the page of a run looks for."""

ENDED_EARLY: Final = "the run ended before its time: "
"""How the row of the load begins where it did; then the same command, run to its end, helps."""

NO_TRAFFIC: Final = (
    "carried any traffic before it: do members talk to each other? Is FullMesh, or what links()"
    " returns, true of this system?"
)
NOT_COUNTED: Final = "a client does not count its requests, which its `calls` is for"

KEYS_MIN: Final = 5
_READ: Final = frozenset({"read"})
_WRITE: Final = frozenset({"write", "cas"})
_ACCESS: Final = _READ | _WRITE
_MICRO_READS: Final = frozenset({"r", "rp"})

SETTLE_S: Final = 5.0
"""Recovery is judged from here on after the last heal, or from half the time that is left."""

TAIL_S: Final = 30.0
TAIL_OPS_MIN: Final = 20
OK_SHARE_MIN: Final = 0.95

THROUGHPUT_SHARE_MIN: Final = 0.5
"""Throughput swings on a shared machine; the share of good operations is the sharp measure."""

P99_SLACK_MS: Final = 200.0

CRASHES: Final = frozenset({"signal", "panic", "assertion", "race", "corruption", "fatal"})
"""Kinds of which a certain line that nothing explains is a violation."""

_PATTERNS: Final = (
    # Lack of memory comes first: a runtime that says so calls it fatal, too.
    ("oom", (r"out[ -]of[ -]memory|outofmemory|\boom[-_ ]?kill(?!_disable)|\bkilled process \d"
            r"|cannot allocate memory|\bbad_alloc\b|\bunable to allocate\b")),
    ("signal", (r"\bsig(?:segv|bus|abrt|ill|fpe|trap|sys)\b|segmentation (?:fault|violation)"
               r"|\bsegfault\b|core dumped|stack smashing|unexpected fault address"
               r"|double free|heap[- ]corruption|addresssanitizer|general protection")),
    ("race", r"data race"),
    ("corruption", (r"corrupt|(?:checksum|crc\d*|hash)\W+(?:\w+\W+)?(?:mismatch|error|fail|invalid)"
                   r"|(?:bad|wrong|invalid|mismatched) (?:checksum|crc|hash|magic)"
                   r"|data[- ]loss|lost (?:data|committed|acknowledged)"
                   r"|truncated,? or lost|inconsistent (?:data|state|index)")),
    ("assertion", r"\bassert(?:ion)?\b|assertionerror|invariant (?:violat|fail)|\bcheck failed\b"),
    ("panic", r"\bpanic(?:ked|king)?\b"),
    ("fatal", r"\bfatal\b"),
    ("exception", (r"traceback \(most recent call last\)|\b(?:unhandled|uncaught) exception"
                  r"|exception in thread|\b[a-z]\w*(?:\.[a-z]\w*)+(?:exception|error):")),
    ("internal", (r"internal (?:server )?error|internal inconsistency|should (?:not|never) happen"
                 r"|this is a bug|\bbug:")),
)  # fmt: skip
_RE: Final = tuple((kind, re.compile(pattern)) for kind, pattern in _PATTERNS)

DISCONNECT: Final = "disconnect"
"""An exception over a connection that the other side has given up, as clients and members do while
any fault stands."""

KINDS: Final = frozenset({kind for kind, _ in _PATTERNS}) | {"alarm", "core", DISCONNECT, "exit"}

_GONE: Final = re.compile(
    r"brokenpipe|connection_?(?:reset|aborted)|broken pipe|connection reset by peer"
)

_ANY: Final = re.compile("|".join(pattern for _, pattern in _PATTERNS))

_HINTS: Final = (
    *("memory", "oom", "killed", "alloc", "sig", "segm", "core dumped", "smashing", "fault"),
    *("double free", "corrupt", "sanitizer", "protection", "race", "checksum", "crc", "hash"),
    *("magic", "loss", "lost", "truncated", "inconsistent", "assert", "invariant", "check"),
    *("panic", "fatal", "traceback", "exception", "error", "internal", "should", "bug"),
)
"""No line is an alarm without one of these, which is found out a hundred times as fast."""

_CERTAIN: Final = {
    "signal": re.compile(
        r"\bsig(?:segv|bus|abrt|ill|fpe)\b|segmentation (?:fault|violation)|core dumped"
        r"|stack smashing|unexpected fault address|double free|heap[- ]corruption"
    ),
    "race": re.compile(r"warning: data race|\bdata race detected"),
    "corruption": re.compile(
        r"(?:is|was|are|were|been|be|data|file|database|db|wal|log|page|snapshot|store|index|entry"
        r"|record|block)s? corrupt|corrupted\b|(?:checksum|crc\d*)\W+(?:\w+\W+)?mismatch"
        r"|\bdata loss\b"
    ),
    "assertion": re.compile(r"assertion\b.*\bfail|assertion violat|assertionerror"),
    "panic": re.compile(r"^\W*panic: |\"level\": ?\"panic\"|\blevel=panic\b"),
    "fatal": re.compile(r"^fatal error: "),
}
_CALM: Final = re.compile(r"\"level\": ?\"(?:info|debug)\"|\blevel=(?:info|debug)\b")
_DENIED: Final = re.compile(r"\b(?:no|not|without|if|whether|check for|checking|passed)\b")

NO_CRASH: Final = "no-crash"

NO_CRASH_BREAKS: Final = {**dict.fromkeys(CRASHES, "operational"), "corruption": "durability"}
"""Which claim its anomalies break, by type."""

BEFORE_NS: Final = SECOND_NS // 2
"""Stamps of a log and ours are of one kernel's clock, but not of one instant."""

AFTER_NS: Final = 5 * SECOND_NS
"""A server that was brought back tells of what it found for some seconds after the heal."""

LOOKS_APART_S: Final = 12.0
"""Seconds, on average, that looks at processes may lie apart."""

TOLD_MAX: Final = 3
ANOMALIES_MAX: Final = 20


def ok(evidence: str) -> AuditRow:
    """The row holds; `evidence` says so with numbers."""
    return AuditRow(status="ok", evidence=evidence)


def short(evidence: str) -> AuditRow:
    """The row does not hold, or nobody measured it."""
    return AuditRow(status="short", evidence=evidence)


def na(evidence: str) -> AuditRow:
    """The row does not apply; `evidence` says why."""
    return AuditRow(status="n/a", evidence=evidence)


def _keys_of(op: Op) -> Iterator[tuple[Any, bool]]:
    """(key, was it read) of each access, groups of keys as a whole; nothing for operations that are
    no reads or writes."""
    if op.op_type in _ACCESS:
        yield op.key, op.op_type in _READ
    elif op.op_type == "watch" and isinstance(op.output, dict):
        for event in op.output.get("events") or ():
            yield event.get("key"), True
    elif op.op_type == "txn":
        for function, key, *_ in op.input or ():
            yield key if op.key is None else op.key, function in _MICRO_READS


def not_read_again(facts: RunFacts) -> list[str]:
    """Ids of landed faults of which fewer than `KEYS_MIN` keys tell what they left behind.

    Empty where the workload's operations are not reads and writes of keys.

    A workload that leaves its keys behind passes whatever becomes of them: a cluster that forgot
    all that it had acknowledged would serve new keys without fault. So for each fault that landed
    some keys must have an acknowledged write from before it and a completed read from after its
    heal.
    """
    landed = [r for r in facts.records if r.landed == "yes" and r.healed_at is not None]
    written: dict[Any, int] = {}
    read: dict[Any, int] = {}
    for op in facts.history.ops:
        if op.outcome is not Outcome.OK or op.complete_ts is None:
            continue
        for key, was_read in _keys_of(op):
            if was_read:
                read[key] = max(read.get(key, 0), op.invoke_ts)
            else:
                written[key] = min(written.get(key, op.complete_ts), op.complete_ts)
    if not written:
        return []
    return [
        r.fault_id
        for r in landed
        if sum(
            first < (r.injected_at or 0) and read.get(key, 0) > (r.healed_at or 0)
            for key, first in written.items()
        )
        < min(KEYS_MIN, len(written))
    ]


def _not_judged(facts: RunFacts) -> str | None:
    """What the checkers did not judge, None where they judged everything."""
    absent = [name for name in facts.checkers_declared if name not in facts.results]
    if absent or not facts.checkers_declared:
        return f"checkers without a result: {', '.join(absent) or 'none was declared'}"
    for name, result in facts.results.items():
        if result.ops.consumed == 0:
            return f"{name} judged none of {result.ops.total} operations"
        if result.keys.decided < result.keys.total:
            return f"{name} decided {result.keys.decided} of {result.keys.total} keys"
    return None


def _bite(canary: Canary, declared: list[str]) -> str | None:
    """Why the checkers were not shown to bite, None where they were."""
    if canary.total == 0:
        return "no mutant of this history could be made, so the checker was not shown to bite"
    if canary.killed == 0:
        return f"the checker accepted all {canary.total} broken copies of this history"
    missed = [
        row for row in canary.details if row.get("sure", True) and row.get("valid") is not False
    ]
    if missed:
        row = missed[0]
        message = "accepted" if row.get("valid") is True else "left undecided"
        first = f"{row.get('checker')} {message} {row.get('kind')}: {row.get('mutant')}"
        return f"{len(missed)} of {canary.total} broken copies were not rejected; {first}"
    for row in canary.undistinguished:
        kinds = " or ".join(row["kinds"])
        return (
            f"{row['checker']} under {row['model']} cannot be told from {row['weaker']}: this"
            f" history offers nothing to make {kinds} of"
        )
    killers = {row["checker"] for row in canary.details if row.get("valid") is False}
    untried = [name for name in declared if canary.details and name not in killers]
    if untried:
        return f"{', '.join(untried)} rejected no broken copy of this history"
    return None


def oracle(facts: RunFacts) -> AuditRow:
    """The row RF2.

    A checker bites when it rejects every broken copy of this very history, and when among those
    copies there is, for each weaker judge, one that this judge would have accepted: else nobody
    knows by which model it judged. And what a fault could have destroyed must have been looked at
    again.
    """
    weak = _not_judged(facts) or _bite(facts.canary, facts.checkers_declared)
    if weak is not None:
        return short(weak)
    if unread := not_read_again(facts):
        return short(
            f"{', '.join(unread)}: fewer than {KEYS_MIN} keys written before it were read after"
            " it, so that what it destroyed would not show"
        )
    consumed = sum(r.ops.consumed for r in facts.results.values())
    killed, total = facts.canary.killed, facts.canary.total
    return ok(f"{consumed:,} operations judged; {killed} of {total} broken copies were rejected")


def _differing(facts: RunFacts) -> str | None:
    """How the replicas differ once nobody writes any more; None where they agree."""
    replicas = facts.replicas
    nodes = facts.history.header.nodes
    if replicas is None or (agree(replicas) and {*nodes} <= replicas.keys()):
        return None
    silent = [name for name in {*nodes, *replicas} if not replicas.get(name)]
    if silent or not replicas:
        who = ", ".join(sorted(silent)) or "no member"
        return f"replicas not compared: {who} did not tell its state"
    return "replicas differ once nobody writes: " + ", ".join(
        f"{name} {state}" for name, state in sorted(replicas.items())
    )


def _never_again(facts: RunFacts) -> str | None:
    """The first heal after which the load did not go well again before the next fault."""
    if (
        facts.settled_ns is None
        and not facts.recoveries
        and any(r.healed_at for r in facts.records)
    ):
        return "whether the load went well again after a heal was not recorded"
    for healed in facts.recoveries:
        if healed.settled_ns is None:
            return (
                f"the load did not go well again after the heal at {healed.healed_ns / 1e9:.1f} s"
            )
    return None


def _recoveries(facts: RunFacts) -> str:
    found = [
        max(0.0, (h.settled_ns - h.healed_ns) / 1e9)
        for h in facts.recoveries
        if h.settled_ns is not None
    ]
    if not found:
        return ""
    return f"; steady {max(found):.1f} s after a heal at the latest ({len(found)} heals)"


def _left_wrong(facts: RunFacts) -> list[str]:
    """What was still wrong with the nodes at the end."""
    nodes = facts.history.header.nodes
    sick = [n for n in nodes if facts.healthy.get(n) is False]
    unasked = [n for n in nodes if n not in facts.healthy]
    unseen = [n for n in nodes if n not in facts.residue and "cluster" not in facts.residue]
    leaks = [f"{node}: {', '.join(found)}" for node, found in facts.residue.items() if found]
    leaks += [f"{r.fault_id}: {', '.join(r.residue)}" for r in facts.records if r.residue]
    standing = [r.fault_id for r in facts.records if not r.heal_verified]
    rows = {
        NOT_SERVING: sick if nodes else ["no node known"],
        "the run ended before anybody asked who serves": unasked,
        "nobody looked for leftovers on": unseen,
        "left behind": leaks,
        "heal not verified": standing,
        "clean-up failed": facts.problems,
    }
    return [f"{what}: {'; '.join(found)}" for what, found in rows.items() if found]


def recovered_row(facts: RunFacts) -> AuditRow:
    """The row."""
    nodes = facts.history.header.nodes
    wrong = [*_left_wrong(facts), _differing(facts), _never_again(facts)]
    if told := [message for message in wrong if message]:
        return short("; ".join(told))
    alike = f"; {len(facts.replicas)} replicas agree" if facts.replicas else ""
    if not facts.records:
        return ok(f"no fault to recover from; all {len(nodes)} nodes serve{alike}")
    row = _tail(facts, len(nodes))
    message = f"{row.evidence}{_recoveries(facts)}{alike}"
    return ok(message) if row.status == "ok" else short(message)


def _tail(facts: RunFacts, nodes: int) -> AuditRow:
    """The last seconds of load against the seconds before the first fault."""
    ops = facts.load
    windows = windows_of(facts, end_of(facts.history))
    times = [op.invoke_ts for op in ops]
    if not windows or not times:
        return ok(f"no fault was injected; all {nodes} nodes serve")
    first, last = min(times), max(times)
    healed = max(end for _, end in windows)
    settle_ns = min(int(SETTLE_S * SECOND_NS), max(0, last - healed) // 2)
    start = max(healed + settle_ns, last - int(TAIL_S * SECOND_NS), facts.settled_ns or 0)
    base = pace(ops, first, windows[0][0], facts.conflict_errors)
    tail = pace(ops, start, last + 1, facts.conflict_errors)
    for name, part in (("before the first fault", base), ("after the last heal", tail)):
        if part.ops < TAIL_OPS_MIN:
            return short(f"{part.ops} operations {name}, {TAIL_OPS_MIN} needed to compare")
    return _beside(_compared(base, tail, nodes), facts.measured, tail)


def _beside(row: AuditRow, measured: MeasuredBaseline | None, tail: Pace) -> AuditRow:
    """The same against the baseline that was measured, where there is one that held still: what was
    short stays short."""
    if measured is None or tail.p99_ms is None:
        return row
    message = (
        f"{row.evidence}; measured baseline: {measured.ok_per_s:,.0f}/s, p99 "
        f"{measured.p99_ms:,.0f} ms, {measured.said}"
    )
    slow = tail.p99_ms > max(2 * measured.p99_ms, measured.p99_ms + P99_SLACK_MS)
    thin = tail.ok_per_s < THROUGHPUT_SHARE_MIN * measured.ok_per_s
    fine = row.status == "ok" and not (measured.accepted and (slow or thin))
    return ok(message) if fine else short(message)


def _compared(base: Pace, tail: Pace, nodes: int) -> AuditRow:
    served, served_before = (part.ok_share + part.raced_share for part in (tail, base))
    noise = 3 * math.sqrt(max(0.0, served_before * (1 - served_before)) / tail.ops)
    message = (
        f"{tail.ok_share:.1%} of the last {tail.ops:,} operations succeeded ({base.ok_share:.1%} "
        f"before the first fault), {tail.ok_per_s:,.0f}/s ({base.ok_per_s:,.0f}/s)"
    )
    if base.raced or tail.raced:
        message += f", {tail.raced_share:.1%} lost a race with another one ({base.raced_share:.1%})"
    if base.p99_ms is None or tail.p99_ms is None:
        return short(f"{message}; no operation succeeded to compare with")
    message += (
        f", p99 {tail.p99_ms:,.0f} ms ({base.p99_ms:,.0f} ms); {nodes} of {nodes} nodes serve"
    )
    slow = tail.p99_ms > max(2 * base.p99_ms, base.p99_ms + P99_SLACK_MS)
    fewer = served < OK_SHARE_MIN * served_before - noise
    thin = tail.ok_per_s < THROUGHPUT_SHARE_MIN * base.ok_per_s
    return short(message) if slow or fewer or thin else ok(message)


def kind_of(line: str, own: Sequence[str], harmless: Sequence[str]) -> tuple[str, bool] | None:
    """(kind, is it certain?) of a line, None for one that is no alarm.

    `own` are texts that the system's authors call alarms, `harmless` texts of healthy lines that
    would look like one; these are taken out before the rest is read.

    A kind says what a fault would have to explain. What a system itself marks as an alarm, and
    nothing here knows, is of kind `alarm`.
    """
    lower = line.lower()
    if not any(hint in lower for hint in _HINTS) or _ANY.search(lower) is None:
        return ("alarm", False) if any(text in line for text in own) else None
    for text in harmless:
        lower = lower.replace(text.lower(), " ")
    kinds = _kinds(lower)
    if kinds:
        # A runtime that lacks memory calls that fatal, and the host may be to blame.
        able = [kind for kind in kinds if not (kind == "fatal" and "oom" in kinds)]
        sure = next(((kind, True) for kind in able if _certain(kind, lower)), None)
        gone = kinds == ["exception"] and _GONE.search(lower)
        return sure or (DISCONNECT if gone else kinds[0], False)
    return ("alarm", False) if any(text in line for text in own) else None


def all_kinds(line: str) -> list[str]:
    """Every kind of alarm that a line tells of: a panic over a checksum is both."""
    return _kinds(line.lower())


def _kinds(lower: str) -> list[str]:
    return [kind for kind, pattern in _RE if pattern.search(lower)]


def _certain(kind: str, lower: str) -> bool:
    sure = _CERTAIN.get(kind)
    if sure is None or _CALM.search(lower):
        return False
    # "no data loss", "if the file is corrupted": said, not happened.
    return any(
        _DENIED.search(lower[max(0, found.start() - 40) : found.start()]) is None
        for found in sure.finditer(lower)
    )


def _windows(facts: RunFacts, node: str, kinds: Iterable[str]) -> Iterator[tuple[int, int | None]]:
    """From when to when faults explain one of these kinds on a node; None: to the end."""
    for record in facts.records:
        if record.injected_at is None or node not in _affected(record):
            continue
        own = FaultDetails.of(record).explains
        if set(kinds) & {*facts.explains.get(record.nemesis, ()), *own}:
            end = record.healed_at
            yield record.injected_at - BEFORE_NS, None if end is None else end + AFTER_NS


def _affected(record: LandingRecord) -> set[str]:
    """The nodes that a fault was done to."""
    return {*record.targets, *PathDetails.of(record).affected}


def _explained(facts: RunFacts, node: str, kinds: Iterable[str], first: int, last: int) -> bool:
    return any(
        last >= start and (end is None or first <= end)
        for start, end in _windows(facts, node, kinds)
    )


def _given_up(facts: RunFacts, alarm: Alarm) -> bool:
    """Is it about a connection that the other side has given up, while any fault stood anywhere? A
    client that waits for what a fault holds up goes, and so may a member."""
    if alarm.kind != DISCONNECT or alarm.ts is None:
        return False
    last = alarm.ts if alarm.until is None else alarm.until
    return any(
        last >= record.injected_at - BEFORE_NS
        and (record.healed_at is None or alarm.ts <= record.healed_at + AFTER_NS)
        for record in facts.records
        if record.injected_at is not None
    )


def _kinds_of(alarm: Alarm) -> set[str]:
    """All that the line tells of: a fault explains it that explains any of that."""
    return {alarm.kind, *all_kinds(alarm.line)}


def unexplained_alarms(facts: RunFacts) -> list[Alarm]:
    """Lines of the logs, in order. One without any time is explained by nothing."""
    return [
        a
        for a in facts.alarms
        if not a.expected
        and (a.ts is None or not _explained(facts, a.node, _kinds_of(a), a.ts, a.ts))
        and not _given_up(facts, a)
    ]


def unexplained_ends(facts: RunFacts) -> list[str]:
    """Ends of processes, kills for lack of memory and core files, as sentences."""
    seen = facts.processes
    if seen is None:
        return []

    def wild(row: ProcessEvent, kind: str) -> bool:
        return not _explained(facts, row.node, (kind,), row.after_ns, row.before_ns)

    problems = [
        f"{e.node}: {e.what} ended between {e.after_ns / 1e9:.1f} and {e.before_ns / 1e9:.1f} s"
        for e in seen.ends
        if wild(e, "exit")
    ]
    problems += [f"{e.node}: {e.what}" for e in seen.oom_kills if wild(e, "oom")]
    for node, paths in seen.cores.items():
        if not any(True for _ in _windows(facts, node, ("core", "signal", "panic"))):
            problems.append(f"{node}: core files {', '.join(paths)}")
    return problems


def _missing(facts: RunFacts) -> list[str]:
    """Evidence that is not there."""
    nodes, lines = facts.history.header.nodes, facts.log_lines or {}
    telling = [n for n in nodes if n not in facts.logless]
    silent = [n for n in telling if not lines.get(n)] if facts.log_lines is not None else []
    told = {gap.partition(":")[0] for gap in facts.log_gaps}
    problems = [*facts.log_gaps, *(f"{n}: no log line was read" for n in silent if n not in told)]
    seen = facts.processes
    if seen is None:
        return [*problems, "nobody watched the system's processes"]
    if not seen.offered:
        return problems
    least = max(1, int(end_of(facts.history) / 1e9 / LOOKS_APART_S))
    problems += [
        f"{n}: {seen.looks.get(n, 0)} looks at its processes, {least} needed"
        for n in nodes
        if seen.looks.get(n, 0) < least
    ]
    problems += seen.untaken
    problems += [
        f"{row.node}: nobody looked at its processes from {row.after_ns / 1e9:.1f} s"
        f" to {row.before_ns / 1e9:.1f} s"
        for row in seen.unseen
        if not _explained(facts, row.node, ("exit",), row.after_ns, row.before_ns)
    ]
    return problems


def alarms(facts: RunFacts) -> AuditRow:
    """The row."""
    if facts.failures is not None:
        return _of_simulation(facts.failures)
    if facts.log_lines is None and facts.processes is None:
        return na("the system offers neither logs nor processes to look at")
    missing, lines, ends = _missing(facts), unexplained_alarms(facts), unexplained_ends(facts)
    problems = []
    if lines:
        first = f"{lines[0].node}: {lines[0].line.strip()[:120]}"
        problems.append(
            f"{len(lines)} alarms in the logs {UNEXPLAINED}, first {first} (`harmless` in"
            " the system's `logs` has texts that mean no harm)"
        )
    if ends:
        problems.append(f"{len(ends)} ends of processes {UNEXPLAINED}: {_some(ends)}")
    if missing:
        problems.append(f"evidence is missing: {_some(missing)}")
    if problems:
        return short("; ".join(problems))
    read = sum((facts.log_lines or {}).values())
    seen = facts.processes
    ended = len(seen.ends) + len(seen.oom_kills) if seen is not None else 0
    looks = sum(seen.looks.values()) if seen is not None else 0
    piped = seen.cores_elsewhere if seen is not None else []
    cores = "; core files go to a program of the host, and were not looked for" if piped else ""
    logs = f"{read:,} log lines scanned" if facts.log_lines is not None else "no logs are offered"
    found = [] if facts.log_lines is None else [_count(len(facts.alarms), "alarm", "alarms")]
    found.append(_count(ended, "end of a process", "ends of processes"))
    return ok(f"{logs}, {looks:,} looks at processes; {', '.join(found)}{cores}")


def _of_simulation(failures: list[str]) -> AuditRow:
    """Nodes that are simulated have no logs: what became of their servers is all known."""
    if failures:
        return short(f"{len(failures)} failures {UNEXPLAINED}: {_some(failures)}")
    return ok(
        "no server ended, and nothing failed in one or in a client, that no fault had asked for;"
        " logs of nodes do not apply to a simulation"
    )


def _count(count: int, one: str, many: str) -> str:
    """Of what is there all is explained; of what is not, nothing has to be."""
    if not count:
        return f"no {many}"
    by = f"1 {one} (explained by a fault)"
    return by if count == 1 else f"{count} {many} (explained by faults)"


def _some(lines: list[str]) -> str:
    more = f" and {len(lines) - TOLD_MAX} more" if len(lines) > TOLD_MAX else ""
    return "; ".join(lines[:TOLD_MAX]) + more


def _may_be_explained(facts: RunFacts, alarm: Alarm) -> bool:
    """Was there such a fault on its node, and nobody knows when the line was written? As of a run
    that died, whose clocks were not compared. It is no pass by that (RF7), and no violation."""
    windows = _windows(facts, alarm.node, _kinds_of(alarm))
    return alarm.ts is None and next(windows, None) is not None


def no_crash(facts: RunFacts) -> CheckResult | None:
    """The violation of `no-crash`, None where there is none that is certain."""
    anomalies: dict[str, list[Anomaly]] = {}
    for alarm in unexplained_alarms(facts):
        if alarm.certain and alarm.kind in CRASHES and not _may_be_explained(facts, alarm):
            row = anomalies.setdefault(alarm.kind, [])
            if len(row) < ANOMALIES_MAX:
                row.append(_anomaly(alarm))
    if not anomalies:
        return None
    return CheckResult(
        checker=NO_CRASH,
        valid=False,
        workload=facts.history.header.workload,
        model=NO_CRASH,
        anomaly_types=sorted(anomalies),
        not_=[NO_CRASH],
        anomalies=dict(sorted(anomalies.items())),
        reason=f"{sum(map(len, anomalies.values()))} lines of the logs tell of a crash or of "
        "damaged data, and no fault explains them",
    )


def _anomaly(alarm: Alarm) -> Anomaly:
    when = "at no known time" if alarm.ts is None else f"{alarm.ts / 1e9:.2f} s into the run"
    return Anomaly(
        type=alarm.kind,
        key=alarm.node,
        explanation=f"The log of {alarm.node} says, {when}, and no fault that was made there "
        f"explains it: {alarm.line}",
    )
