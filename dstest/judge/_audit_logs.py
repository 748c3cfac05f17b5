"""RF7: every alarm in the logs and every end of a process is explained by a fault, or counts.

A fault explains what its nemesis declares (`explains`), on the nodes that it was aimed at, while it
stood and shortly after; any fault explains that connections were given up. That some operation
failed at the same time explains nothing: an operation fails when a server crashes, too.

A crash or damaged data that no fault explains is a violation of the built-in checker `no-crash`,
where the line can mean nothing else (`alarm_kinds`): whatever the histories say, a server that
panics in a network partition is broken. Lack of memory, an end without a word, exceptions and
errors that it calls internal make the row short and are no violation: the host may be to blame.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from dstest.core.check import Anomaly, CheckResult
from dstest.core.details import PathDetails
from dstest.core.evidence import AuditRow, LandingRecord
from dstest.judge.alarm_kinds import CRASHES, DISCONNECT, all_kinds
from dstest.judge.facts import SECOND_NS, Alarm, RunFacts
from dstest.judge.lints import end_of
from dstest.judge.process_facts import Seen
from dstest.judge.rows import UNEXPLAINED, na, ok, short

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


def _windows(facts: RunFacts, node: str, kinds: Iterable[str]) -> Iterator[tuple[int, int | None]]:
    """From when to when faults explain one of these kinds on a node; None: to the end."""
    for record in facts.records:
        if record.injected_at is None or node not in _affected(record):
            continue
        if set(kinds) & set(facts.explains.get(record.nemesis, ())):
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

    def wild(row: Seen, kind: str) -> bool:
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
            f"{len(lines)} alarms in the logs {UNEXPLAINED}, first {first} (log_harmless of the"
            " system has texts that mean no harm)"
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


def no_crash(facts: RunFacts) -> CheckResult | None:
    """The violation of `no-crash`, None where there is none that is certain."""
    anomalies: dict[str, list[Anomaly]] = {}
    for alarm in unexplained_alarms(facts):
        if alarm.certain and alarm.kind in CRASHES:
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
