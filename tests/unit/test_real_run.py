"""The judge on a run that was recorded on real nodes, with exactly one thing broken in it.

Each case says which rows and lints it must turn, and the verdict; nothing else may move. The
unharmed run keeps its own verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from real_run import change_events, change_facts, change_record, record_of, unpack

from dstest.core.evidence import Evidence
from dstest.core.verdict import State, Verdict
from dstest.history.layout import RunDir
from dstest.judge.decide import ALL_ROWS
from dstest.judge.session import ArmEvidence, judge_session
from dstest.runner.judgement import assess, judge

pytestmark = pytest.mark.slow

S = 1_000_000_000
SMOKE, MODEL, SURFACE = State.PASS_SMOKE, State.PARTIAL_MODEL, State.PARTIAL_SURFACE
ORACLE, FAULT = State.INCONCLUSIVE_ORACLE, State.INCONCLUSIVE_FAULT

NARROW = {"RF10", "WO6", "WO7", "WO10", "WO11"}
"""What one short run of one seed with one symmetric partition lacks."""


def shorts(evidence: Evidence) -> set[str]:
    rows = evidence.redflags | evidence.weak_audit
    return {name for name, row in rows.items() if row.status == "short"}


def lints(evidence: Evidence) -> set[str]:
    found = evidence.history_lint
    return {*found.corrupt, *found.weak}


def judged(run: RunDir) -> Verdict:
    """Without its report, which takes longer than all the rest."""
    return assess(run).verdict


def facts(**changes: Any) -> Callable[[RunDir], None]:
    return lambda run: change_facts(run, **changes)


def record(**changes: Any) -> Callable[[RunDir], None]:
    return lambda run: change_record(run, **changes)


def events(change: Callable[[list[Any]], Any]) -> Callable[[RunDir], None]:
    return lambda run: change_events(run, change)


def merged(key: str, **changes: Any) -> Callable[[RunDir], None]:
    """A fact that is a map, with some of its entries changed."""
    return lambda run: change_facts(run, **{key: {**run.read_json("run.json")[key], **changes}})


def wire(**changes: Any) -> Callable[[list[Any]], Any]:
    def change(event: list[Any]) -> Any:
        if event[0] == "note" and "wire" in event[2]:
            return [*event[:2], {"wire": {**event[2]["wire"], **changes}}]
        return event

    return change


def no_wire(event: list[Any]) -> Any:
    return None if event[0] == "note" and "wire" in event[2] else event


def nth_ok(number: int, change: Callable[[list[Any]], Any]) -> Callable[[RunDir], None]:
    """Change the answer with this number."""

    def apply(run: RunDir) -> None:
        seen = -1

        def one(event: list[Any]) -> Any:
            nonlocal seen
            seen += event[0] == "o"
            return change(event) if event[0] == "o" and seen == number else event

        change_events(run, one)

    return apply


def thinner(run: RunDir) -> None:
    """For four seconds outside the fault hardly any reads and unanswered calls were made, nor
    were any writes whose value nobody read."""
    seen: set[Any] = set()
    written: dict[Any, Any] = {}

    def look(event: list[Any]) -> Any:
        if event[0] == "o":
            seen.add(event[3])
        if event[0] == "i" and event[4] == "write":
            written[event[1]] = event[6]
        return event

    def drop(event: list[Any]) -> Any:
        if event[0] not in "iofu" or not 1620 < event[1] < 2020 or event[1] % 16 == 0:
            return event
        return event if event[1] in written and written[event[1]] in seen else None

    change_events(run, look)
    change_events(run, drop)


def no_old_reads(run: RunDir) -> None:
    """After the heal nobody reads a key that was written before the fault."""
    injected, healed = record_of(run)["injected_at"], record_of(run)["healed_at"]
    old: set[Any] = set()
    gone: set[Any] = set()

    def change(event: list[Any]) -> Any:
        if event[0] == "i":
            if event[4] == "write" and event[3] < injected:
                old.add(event[5])
            if event[4] == "read" and event[3] > healed and event[5] in old:
                gone.add(event[1])
        return None if event[0] in "iofu" and event[1] in gone else event

    change_events(run, change)


def limp(run: RunDir) -> None:
    """In the last ten seconds every second read is refused."""
    reads: set[Any] = set()

    def change(event: list[Any]) -> Any:
        if event[0] == "i" and event[4] == "read":
            reads.add(event[1])
        if event[0] == "o" and event[2] > 14 * S and event[1] in reads and event[1] % 2:
            return ["f", event[1], event[2], "unavailable", event[4], event[5]]
        return event

    change_events(run, change)


def log(node: str, line: str) -> Callable[[RunDir], None]:
    """A line more in a node's log, which was fetched like that."""

    def change(run: RunDir) -> None:
        path = run.nodes / node / "etcd.log"
        with path.open("a") as file:
            file.write(line + "\n")
        size = path.stat().st_size
        logs = run.read_json("run.json")["logs"]
        logs["files"][f"{node}/etcd.log"] = {"bytes": size, "kept": size}
        change_facts(run, logs=logs)

    return change


def no_log(run: RunDir) -> None:
    (run.nodes / "n4" / "etcd.log").unlink()


def process_end(run: RunDir) -> None:
    seen = run.read_json("run.json")["processes"]
    end = {"node": "n2", "what": "etcd (pid 77)", "after_ns": 15 * S, "before_ns": 16 * S}
    lives = {**seen["lives"]}
    change_facts(run, processes={**seen, "ends": [end], "lives": lives})


def bit(run: RunDir) -> None:
    path = run.segments / "worker-0.seg"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def doubled(event: list[Any]) -> Any:
    return [event, event] if event[0] == "o" and event[1] == 100 else event


def invoked_twice(event: list[Any]) -> Any:
    return [event, event] if event[0] == "i" and event[1] == 100 else event


def stale(run: RunDir) -> None:
    """A read long after many writes answers the key's first value."""
    first: dict[Any, Any] = {}
    writes: dict[Any, int] = {}
    victim: list[Any] = []
    keys: dict[Any, Any] = {}

    def change(event: list[Any]) -> Any:
        if event[0] == "i":
            keys[event[1]] = (event[5], event[4])
            if event[4] == "write":
                first.setdefault(event[5], event[6])
                writes[event[5]] = writes.get(event[5], 0) + 1
        if event[0] == "o" and not victim:
            key, kind = keys[event[1]]
            if kind == "read" and writes.get(key, 0) > 20 and event[3] != first[key]:
                victim.append(event[1])
                return ["o", event[1], event[2], first[key], event[4], event[5]]
        return event

    change_events(run, change)


def reproduced(run: RunDir) -> None:
    stale(run)
    change_facts(run, rerun={"same_seed_runs": 2, "reproduced": 1})


def without_faults(run: RunDir) -> None:
    """No fault was planned, and none stood: every stamp goes with it."""
    from raw_segments import encode_line, read_segment

    path = run.segments / "control.seg"
    header = next(iter(read_segment(path)))
    lines = [encode_line(header), encode_line(["note", 1, {"planned": []}])]
    path.write_bytes(b"".join(lines) + encode_line(["e", 2]))
    change_facts(run, records=[], faults_planned=0)
    schedule = run.read_json("schedule.json")
    run.write_json("schedule.json", {**schedule, "plans": []})
    change_events(
        run,
        lambda e: [*e[:-1], None] if e[0] in ("o", "f", "u") else e,
    )


def empty(run: RunDir) -> None:
    change_events(run, lambda e: None if e[0] in ("i", "o", "f", "u") else e)


Case = tuple[Callable[[RunDir], None], set[str], set[str], State]
"""What is broken, the rows and the lints that it turns, the verdict."""

BROKEN: dict[str, Case] = {
    "RF1 ended early": (facts(ended_by="n2 is lost"), {"RF1"}, set(), ORACLE),
    "RF1 thin": (thinner, {"RF1"}, set(), ORACLE),
    "RF2 not read again": (no_old_reads, {"RF2"}, set(), MODEL),
    "RF3 not landed": (record(landed="ambiguous"), {"RF3", "RF6"}, set(), FAULT),
    "RF3 idle": (record(landed="no"), {"RF3", "RF6"}, set(), FAULT),
    "RF4 gone": (
        record(facts={"rechecks": [{"at_ns": 6 * S, "present": False}] * 2}),
        {"RF4"},
        set(),
        FAULT,
    ),
    "RF4 not looked at": (record(facts={"rechecks": []}), {"RF4"}, set(), FAULT),
    "RF4 idle path": (record(facts={"baseline_packets": {}}), {"RF4"}, set(), FAULT),
    "RF4 no member": (merged("members_at", f1=["n1", "n2"]), {"RF4"}, set(), FAULT),
    "RF5 control": (facts(clock_end_ns=0), {"RF5"}, set(), ORACLE),
    "RF5 node": (merged("node_clocks_end_ns", n2=0), {"RF5"}, set(), ORACLE),
    "RF5 not measured": (facts(node_clocks_end_ns={}), {"RF5"}, set(), ORACLE),
    "RF6": (facts(tier_wanted="hardening"), {"RF6"}, set(), SMOKE),
    "RF7 out of memory": (
        log("n1", "Out of memory: Killed process 1234 (etcd)"),
        {"RF7"},
        set(),
        MODEL,
    ),
    "RF7 missing": (no_log, {"RF7"}, set(), MODEL),
    "RF7 process": (process_end, {"RF7"}, set(), MODEL),
    "RF8 sick": (merged("healthy", n3=False), {"RF8"}, set(), MODEL),
    "RF8 leak": (merged("residue", n1=["table inet dstest_fault"]), {"RF8"}, set(), MODEL),
    "RF8 heal": (record(heal_verified=False), {"RF8"}, set(), MODEL),
    "RF8 replicas": (merged("replicas", n5="00000000@1"), {"RF8"}, set(), MODEL),
    "RF8 silent replica": (merged("replicas", n5=None), {"RF8"}, set(), MODEL),
    "RF8 never again": (
        facts(recoveries=[{"healed_ns": 11 * S, "settled_ns": None}]),
        {"RF8"},
        set(),
        MODEL,
    ),
    "RF8 no replicas kept": (facts(replicas=...), {"RF8"}, set(), MODEL),
    "RF8 no recoveries kept": (
        facts(recoveries=..., settled_ns=...),
        {"RF8"},
        {"H14"},
        ORACLE,
    ),
    "RF4 no members kept": (facts(members_at=...), {"RF4"}, set(), FAULT),
    "RF8 clean-up": (
        facts(clean_up_problems=["compare replicas: KeyError: 5"]),
        {"RF8"},
        set(),
        MODEL,
    ),
    "RF8 limping": (limp, {"RF8"}, set(), MODEL),
    "WO8 no tap": (events(no_wire), {"WO8"}, set(), MODEL),
    "WO8 mute tap": (events(wire(requests=0)), {"WO8"}, set(), MODEL),
    "WO8 and H16": (events(wire(requests=10**6)), {"WO8"}, {"H16"}, ORACLE),
    "WO9": (
        merged("clock", name="CLOCK_REALTIME"),
        {"WO9", "RF5"},
        set(),
        ORACLE,
    ),
    "H02": (events(invoked_twice), set(), {"H02", "H09", "H14"}, ORACLE),
    "H06": (nth_ok(50, lambda e: [e[0], e[1], 1, *e[3:]]), {"RF2", "RF5"}, {"H06"}, ORACLE),
    "H08": (nth_ok(50, lambda e: [*e[:5], "f7"]), set(), {"H08"}, ORACLE),
    "H10": (nth_ok(50, lambda e: [*e[:4], None, e[5]]), set(), {"H10"}, ORACLE),
    "H14 bit": (bit, set(), {"H09", "H14"}, ORACLE),
    "H14 twice": (events(doubled), set(), {"H14"}, ORACLE),
    "H14 model": (facts(model="strict-with-cheese"), set(), {"H14"}, ORACLE),
    "H14 claims": (facts(claims=["liveness"]), set(), {"H14"}, ORACLE),
    "H14 nodes": (facts(nodes=["n2", "n3", "n4", "n5"]), set(), {"H14"}, ORACLE),
    "H14 plan": (facts(faults_planned=2), {"RF3", "RF4"}, {"H14"}, ORACLE),
    "V01 nothing": (empty, set(), set(), State.NOT_RUN),
    "V02 lacking": (
        facts(missing_capability=["no NFQUEUE"]),
        set(),
        set(),
        State.INCONCLUSIVE_ENV,
    ),
    "V03 again": (reproduced, set(), set(), State.FAIL_REPRODUCIBLE),
    "V04 violation": (stale, set(), set(), State.FAIL_NONDETERMINISTIC),
    "V11 no fault": (without_faults, set(), set(), SMOKE),
}
ELSEWHERE = {"V01 nothing", "V11 no fault"}
"""Too much of the run is gone for its rows to be compared."""


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return unpack(tmp_path)


def test_the_unharmed_run_keeps_its_verdict(run: RunDir) -> None:
    verdict, failure = judge(run)
    assert failure is None
    assert (verdict.verdict, verdict.rule) == (SMOKE, "V12b"), verdict.reason
    assert shorts(verdict.evidence) == NARROW
    assert lints(verdict.evidence) == set()


@pytest.mark.parametrize("name", BROKEN)
def test_one_broken_thing_turns_its_row(name: str, run: RunDir) -> None:
    change, rows, wrong, state = BROKEN[name]
    change(run)
    verdict = judged(run)
    assert verdict.verdict is state, verdict.reason
    if name not in ELSEWHERE:
        assert shorts(verdict.evidence) == NARROW | rows
        assert lints(verdict.evidence) == wrong


def test_the_narrow_rows_are_widened_by_a_session(run: RunDir) -> None:
    """Alone they are short; among arms of other seeds, sizes and directions they are not."""
    one = judged(run).evidence
    cut = one.weak_audit["WO7"]
    wide = msgspec.structs.replace(
        one, weak_audit={**one.weak_audit, "WO7": msgspec.structs.replace(cut, status="ok")}
    )
    like = dict.fromkeys(
        ("dstest", "python", "kernel", "cpus", "system_version", "options", "plugin_files"), 1
    )
    arms = [
        ArmEvidence(id=f"n{n}-s{s}", seed=s, nodes=n, alone=SMOKE, evidence=e, conditions=like)
        for n, s, e in ((5, 1, one), (5, 2, wide), (5, 3, one), (3, 1, one))
    ]
    found = judge_session(arms, "hardening")
    # What is left is what only longer runs supply.
    assert found.state is SMOKE
    assert all("WO6" in " ".join(arm.why_not_better) for arm in found.arms)
    said = " ".join(line for arm in found.arms for line in arm.why_not_better)
    assert not [row for row in ("WO7", "WO10", "WO11", "RF10") if row in said]


def test_which_rows_a_run_of_one_register_can_turn() -> None:
    turned = set().union(*(rows for _, rows, _, _ in BROKEN.values())) | NARROW
    # Kinds of oracle, other claims and comparisons of runs: test_real_run_plugins.py.
    others = {"RF9", "WO1", "WO2", "WO3", "WO4", "WO5", "WO12", "WO13", "WO14"}
    assert turned | others == ALL_ROWS
