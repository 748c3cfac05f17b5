"""RF7 and `no-crash`: what the logs and the processes tell, and what a fault explains of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from made_audit import NODES, S, but, good, judged, record, records

from dstest.core import registry
from dstest.core.evidence import AuditRow
from dstest.core.op import Outcome
from dstest.core.verdict import State
from dstest.judge.audit import measure, red_flags
from dstest.judge.audit_rows import KINDS, kind_of, no_crash
from dstest.judge.evidence import build_evidence
from dstest.judge.facts import Alarm, ProcessEvent, ProcessFacts, RunFacts

pytestmark = pytest.mark.slow

KILLED = record(1, nemesis="kill")
"""It hits n2 from 45 to 52 s."""

EXPLAINS = {"kill": ["exit"], "io-error": ["exit", "fatal", "panic"], "partition": []}


def row(facts: RunFacts) -> AuditRow:
    return red_flags(facts, measure(facts))["RF7"]


def alarm(line: str, node: str = "n2", ts: int | None = 100 * S) -> Alarm:
    found = kind_of(line, (), ())
    assert found is not None, line
    return Alarm(node=node, line=line, ts=ts, kind=found[0], certain=found[1])


def seen(**changes: Any) -> ProcessFacts:
    processes = good().processes
    assert processes is not None
    return msgspec.structs.replace(processes, **changes)


def ended(node: str, at_s: float) -> ProcessFacts:
    after, before = int((at_s - 1) * S), int(at_s * S)
    return seen(ends=[ProcessEvent(node=node, what="process 7", after_ns=after, before_ns=before)])


def under(nemesis: str, **changes: Any) -> RunFacts:
    """A run whose second fault, on n2 from 45 to 52 s, was of that kind."""
    return but(records=records(1, nemesis=nemesis), explains=EXPLAINS, **changes)


@pytest.mark.parametrize(("ts_s", "until_s", "explained"), [(48, None, True), (35, 49, True),
    (35, 40, False), (35, None, False)])  # fmt: skip
def test_any_fault_explains_that_a_connection_was_given_up(
    ts_s: int, until_s: int | None, explained: bool
) -> None:
    """Wherever that was; but no exception of another kind, and not at another time."""
    broken = alarm("Traceback (most recent call last): ... BrokenPipeError: x", "n3", ts_s * S)
    broken = msgspec.structs.replace(broken, until=until_s and until_s * S)
    assert (row(under("partition", alarms=[broken])).status == "ok") is explained
    other = msgspec.structs.replace(broken, kind="exception")
    assert row(under("partition", alarms=[other])).status == "short"


B2 = {
    "Out of memory: Killed process 1234 (etcd)": ("oom", False),
    "[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x7a1]": ("signal", True),
    "fatal error: runtime: out of memory": ("oom", False),
    "database is corrupt: checksum mismatch": ("corruption", True),
}


@pytest.mark.parametrize("line", B2)
def test_lines_of_a_crash_are_no_pass(line: str) -> None:
    facts = but(alarms=[alarm(line)])
    kind, certain = B2[line]
    assert (facts.alarms[0].kind, facts.alarms[0].certain) == (kind, certain)
    assert row(facts).status == "short"
    assert line[:30] in row(facts).evidence
    wanted = State.FAIL_NONDETERMINISTIC if certain else State.PARTIAL_MODEL
    assert judged(facts)[1] is wanted


def test_that_an_operation_failed_at_the_same_time_explains_nothing() -> None:
    changed = list(good().history.ops)
    at = next(i for i, op in enumerate(changed) if op.invoke_ts >= 100 * S)
    changed[at] = msgspec.structs.replace(changed[at], output=None, error="no leader")
    assert changed[at].outcome is Outcome.FAIL
    failed = msgspec.structs.replace(good().history, ops=changed)
    facts = but(history=failed, alarms=[alarm("panic: boom", ts=changed[at].invoke_ts)])
    assert row(facts).status == "short"


@pytest.mark.parametrize(
    ("nemesis", "node", "ts", "status"),
    [
        ("io-error", "n2", 46 * S, "ok"),
        ("io-error", "n2", 56 * S, "ok"),
        ("io-error", "n2", 58 * S, "short"),
        ("io-error", "n2", 44 * S, "short"),
        ("io-error", "n3", 46 * S, "short"),
        ("kill", "n2", 46 * S, "short"),
        ("partition", "n2", 46 * S, "short"),
        ("of somebody else", "n2", 46 * S, "short"),
        ("partition", "n2", None, "short"),
        ("io-error", "n3", None, "short"),
    ],
)
def test_a_fault_explains_by_node_time_and_kind(
    nemesis: str, node: str, ts: int | None, status: str
) -> None:
    facts = under(nemesis, alarms=[alarm("panic: failed to save", node=node, ts=ts)])
    assert row(facts).status == status, row(facts)
    assert (no_crash(facts) is None) is (status == "ok")


def test_a_line_of_no_known_time_is_neither_explained_nor_a_violation_beside_such_a_fault() -> None:
    """As of a run that died, whose clocks were not compared: no pass, and nobody is accused."""
    facts = under("io-error", alarms=[alarm("panic: failed to save", node="n2", ts=None)])
    assert row(facts).status == "short"
    assert no_crash(facts) is None
    assert judged(facts)[1] is State.PARTIAL_MODEL


def test_a_fault_that_was_never_injected_explains_nothing() -> None:
    idle = records(1, nemesis="io-error", injected_at=None)
    facts = but(records=idle, explains=EXPLAINS, alarms=[alarm("panic: boom", ts=46 * S)])
    assert row(facts).status == "short"


@pytest.mark.parametrize(
    ("nemesis", "node", "at_s", "status"),
    [
        ("kill", "n2", 46, "ok"),
        ("kill", "n2", 80, "short"),
        ("kill", "n3", 46, "short"),
        ("partition", "n2", 46, "short"),
    ],
)
def test_ends_of_processes(nemesis: str, node: str, at_s: float, status: str) -> None:
    facts = under(nemesis, processes=ended(node, at_s))
    assert row(facts).status == status, row(facts)
    if status == "short":
        assert f"{node}: process 7 ended between" in row(facts).evidence
        assert judged(facts)[1] is State.PARTIAL_MODEL
    else:
        assert "no alarms, 1 end of a process (explained by a fault)" in row(facts).evidence


def test_what_is_not_there_is_not_called_explained() -> None:
    assert row(good()).evidence.endswith("; no alarms, no ends of processes")
    many = under("io-error", alarms=[alarm("panic: boom", ts=46 * S)] * 3)
    assert "3 alarms (explained by faults), no ends of processes" in row(many).evidence
    unread = row(but(log_lines=None, alarms=[]))
    assert unread.status != "ok" or "alarms" not in unread.evidence


def test_kills_for_lack_of_memory_and_core_files() -> None:
    killed = ProcessEvent(node="n1", what="1 processes killed", after_ns=60 * S, before_ns=65 * S)
    assert row(but(processes=seen(oom_kills=[killed]))).status == "short"
    assert row(but(processes=seen(cores={"n4": ["/opt/etcd/core"]}))).status == "short"
    found = under("io-error", processes=seen(cores={"n2": ["/opt/etcd/core"]}))
    assert row(found).status == "ok"


MISSING: dict[str, dict[str, Any]] = {
    "nobody looked": {"processes": None},
    "n5: 0 looks at its processes, 25 needed": {
        "processes": seen(looks={n: 90 for n in NODES if n != "n5"})
    },
    "from 60.0 s to 90.0 s": {
        "processes": seen(
            unseen=[ProcessEvent(node="n1", what="no look", after_ns=60 * S, before_ns=90 * S)]
        )
    },
    "n3: etcd.log is empty": {"log_gaps": ["n3: etcd.log is empty"]},
    "n2: no log line was read": {"log_lines": {n: 5 for n in NODES if n != "n2"}},
    "n1: no log line": {"log_lines": dict.fromkeys(NODES, 0)},
}


@pytest.mark.parametrize("said", MISSING)
def test_missing_evidence_is_short_and_never_not_applicable(said: str) -> None:
    if said == "nobody looked":
        said = "nobody watched the system's processes"
        facts = but(processes=None)
    else:
        facts = but(**MISSING[said])
    assert row(facts).status == "short"
    assert said in row(facts).evidence
    assert judged(facts)[1] is State.PARTIAL_MODEL


def test_a_system_that_offers_neither_is_not_asked() -> None:
    assert row(but(log_lines=None, processes=None)).status == "n/a"
    assert row(but(log_lines=None, processes=seen(offered=False, looks={}))).status == "ok"


def test_a_crash_is_a_violation_with_a_name_and_a_witness() -> None:
    facts = but(alarms=[alarm("panic: runtime error: index out of range", node="n4")])
    evidence = build_evidence(facts)
    assert evidence.violation
    assert evidence.violation_fingerprint == "no-crash/panic/n#/no-crash"
    found = no_crash(facts)
    assert found is not None
    (anomaly,) = found.anomalies["panic"]
    assert "n4" in anomaly.explanation
    assert "100.00 s into the run" in anomaly.explanation


def test_every_nemesis_explains_known_kinds_only() -> None:
    for name in registry.names("nemeses"):
        assert set(getattr(registry.load("nemeses", name), "explains", ())) <= KINDS, name
    for name in ("kill", "stop", "restart", "rolling", "membership", "memory", "power", "fds"):
        assert "exit" in registry.load("nemeses", name).explains, name
    for name in ("partition", "loss", "latency", "clock", "pause", "slow-disk", "bandwidth"):
        assert not getattr(registry.load("nemeses", name), "explains", ()), name
    assert "corruption" not in registry.load("nemeses", "power").explains
