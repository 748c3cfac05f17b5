"""A good run with one thing broken: the audit flags that row, and the verdict is the mapped one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest
from made_audit import (
    CLIENTS,
    FAULT,
    FAULTS,
    NODES,
    ORACLE,
    RATE,
    READ,
    SMOKE,
    WRITE,
    P,
    S,
    boundary,
    but,
    clocks,
    good,
    history,
    judged,
    left_behind,
    limping,
    ops,
    records,
    result,
    shorts,
    thin,
    unanswered,
    wire,
    with_facts,
)

from dstest.core.check import NOTHINGS, KeyCount
from dstest.core.evidence import AuditRow, Canary
from dstest.core.history import ClockSource, Header, History, Recovery
from dstest.core.verdict import State
from dstest.judge.audit import TITLES, measure, red_flags, too_good, weak_items
from dstest.judge.decide import ALL_ROWS, decide
from dstest.judge.evidence import build_evidence
from dstest.judge.facts import Alarm, Gap, ProcessFacts, RunFacts

pytestmark = pytest.mark.slow

BROKEN: dict[str, tuple[Callable[[], RunFacts], set[str], State]] = {
    "RF1 thin load": (lambda: but(history=history(thin())), {"RF1", "RF6"}, ORACLE),
    "RF1 left out": (lambda: but(options={"without": "read"}), {"RF1"}, ORACLE),
    "RF1 gap": (
        lambda: but(generator_gaps=[Gap(worker="0", start_ns=2 * S, end_ns=8 * S)]),
        {"RF1"},
        ORACLE,
    ),
    "RF1 idle client": (
        lambda: but(history=history(concurrency=CLIENTS + 1)),
        {"RF1"},
        ORACLE,
    ),
    "RF2 keys": (
        lambda: but(results={"linearizable": result(keys=KeyCount(total=214, decided=213))}),
        {"RF2"},
        P,
    ),
    "RF2 canary": (
        lambda: but(canary=Canary(killed=0, total=8)),
        {"RF2"},
        State.PARTIAL_SURFACE,
    ),
    "RF2 one survivor": (
        lambda: but(
            canary=Canary(
                killed=7,
                total=8,
                details=[{"checker": "linearizable", "kind": "stale-read", "valid": True}],
            )
        ),
        {"RF2"},
        P,
    ),
    "RF2 no canary": (lambda: but(canary=Canary()), {"RF2"}, State.PARTIAL_SURFACE),
    "RF3 not landed": (lambda: but(records=records(0, landed="ambiguous")), {"RF3", "RF6"}, FAULT),
    "RF3 no record": (lambda: but(faults_planned=FAULTS + 1), {"RF3", "RF4"}, FAULT),
    "RF4 vanished": (
        lambda: but(records=with_facts(3, rechecks=[{"at_ns": 1, "present": False}] * 2)),
        {"RF4"},
        FAULT,
    ),
    "RF4 one look": (
        lambda: but(records=with_facts(3, rechecks=[{"at_ns": 1, "present": True}])),
        {"RF4"},
        FAULT,
    ),
    "RF4 idle path": (
        lambda: but(records=with_facts(3, baseline_packets={"n1->n2": 0, "n2->n1": 9})),
        {"RF4"},
        FAULT,
    ),
    "RF4 stranger": (lambda: but(records=records(3, targets=[])), {"RF4"}, FAULT),
    "RF4 path never watched": (
        lambda: but(records=with_facts(3, baseline_packets={"n1->n2": 5})),
        {"RF4"},
        FAULT,
    ),
    "RF4 no member": (
        lambda: but(members_at={**(good().members_at or {}), "f4": ["n1", "n2", "n5"]}),
        {"RF4"},
        FAULT,
    ),
    "RF4 nobody told": (
        lambda: but(members_at={f"f{i + 1}": NODES for i in range(9)}),
        {"RF4"},
        FAULT,
    ),
    "RF5 step": (lambda: but(clocks=clocks(-60_000_000)), {"RF5"}, ORACLE),
    "RF5 step of a node": (lambda: but(clocks=clocks(60_000_000, "n3")), {"RF5"}, ORACLE),
    "RF5 node not measured": (lambda: but(clocks=clocks(0)[:-1]), {"RF5"}, ORACLE),
    "RF1 unanswered": (lambda: but(history=history(unanswered())), {"RF1"}, ORACLE),
    "RF5 not measured": (lambda: but(clocks=[]), {"RF5"}, ORACLE),
    "RF6 nine faults": (
        lambda: but(records=good().records[:9], faults_planned=9),
        {"RF6"},
        SMOKE,
    ),
    "RF7 panic": (
        lambda: but(alarms=[Alarm(node="n2", line="panic: boom", ts=100 * S)]),
        {"RF7"},
        P,
    ),
    "RF2 nothing read again": (lambda: but(history=history(left_behind())), {"RF2"}, P),
    "RF7 unread": (lambda: but(log_lines={"n1": 5}), {"RF7"}, P),
    "RF8 sick": (lambda: but(healthy={**good().healthy, "n4": False}), {"RF8"}, P),
    "RF8 leak": (
        lambda: but(residue={**good().residue, "n1": ["table inet dstest"]}),
        {"RF8"},
        P,
    ),
    "RF8 not looked": (lambda: but(residue={"n1": []}), {"RF8"}, P),
    "RF8 clean-up": (lambda: but(problems=["logs: KeyError"]), {"RF8"}, P),
    "RF7 looks": (
        lambda: but(
            processes=ProcessFacts(looks=dict.fromkeys(NODES, 2), lives=dict.fromkeys(NODES, 1))
        ),
        {"RF7"},
        P,
    ),
    "WO8 a worker without a tap": (lambda: but(workers=2), {"WO8"}, P),
    "RF8 heal": (lambda: but(records=records(9, heal_verified=False)), {"RF8"}, P),
    "RF8 replicas differ": (
        lambda: but(replicas={**(good().replicas or {}), "n3": "abd@1"}),
        {"RF8"},
        P,
    ),
    "RF8 a replica is silent": (
        lambda: but(replicas={**(good().replicas or {}), "n3": None}),
        {"RF8"},
        P,
    ),
    "RF8 no replica told": (lambda: but(replicas={}), {"RF8"}, P),
    "RF8 one heal of many": (
        lambda: but(
            recoveries=[*good().recoveries[:4], Recovery(healed_ns=127 * S, settled_ns=None)]
        ),
        {"RF8"},
        P,
    ),
    "RF8 limping": (lambda: but(history=history(limping())), {"RF8"}, P),
    "RF1 ended": (lambda: but(ended_by="n2 is lost"), {"RF1"}, ORACLE),
    "RF10 and WO11": (lambda: but(seeds_agreeing=1), {"RF6", "RF10", "WO11"}, SMOKE),
    "WO1 final state": (
        lambda: but(checker_kinds={"linearizable": "final-state"}),
        {"WO1", "WO5"},
        State.PARTIAL_SURFACE,
    ),
    "WO2 logs": (
        lambda: but(checker_kinds={"linearizable": "logs"}),
        {"WO1", "WO2", "WO5"},
        State.PARTIAL_SURFACE,
    ),
    "WO3 health": (
        lambda: but(checker_kinds={"linearizable": "health"}),
        {"WO1", "WO3", "WO5"},
        State.PARTIAL_SURFACE,
    ),
    "WO4 failover": (
        lambda: but(
            checker_kinds={"linearizable": "final-state"},
            records=with_facts(2, shape="leader", term_before=2, new_term=3),
        ),
        {"WO1", "WO4", "WO5"},
        State.PARTIAL_SURFACE,
    ),
    "WO6 short": (
        lambda: but(history=history(ops()[: 295 * RATE])),
        {"WO6", "RF6"},
        SMOKE,
    ),
    "WO7 symmetric": (
        lambda: but(
            records=[
                msgspec.structs.replace(r, facts=r.facts | {"direction": "both"})
                for r in good().records
            ]
        ),
        {"WO7"},
        SMOKE,
    ),
    "WO8 no tap": (lambda: but(wire=[]), {"WO8"}, P),
    "WO8 mute tap": (lambda: but(wire=[wire(), wire(requests=0)]), {"WO8"}, P),
    "WO8 unreadable": (lambda: but(wire=[wire(known=False)]), {"WO8"}, P),
    "WO8 uncounted": (lambda: but(wire=[wire(), wire(calls=0)]), {"WO8"}, ORACLE),
    "WO8 retries": (lambda: but(wire=[wire(requests=901)]), {"WO8"}, ORACLE),
    "WO9 and RF5 wall clock": (
        lambda: but(history=history(clock=ClockSource(name="REALTIME", host="control"))),
        {"WO9", "RF5"},
        ORACLE,
    ),
    "WO10 one size": (lambda: but(node_counts_run=[5]), {"WO10"}, SMOKE),
    "WO12 surface": (lambda: boundary(surfaces={"read": READ, "write": WRITE}), {"WO12"}, P),
    "WO12 not run": (
        lambda: boundary(surfaces={"read": READ, "write": WRITE, "backup": frozenset({"dump"})}),
        {"WO12"},
        P,
    ),
    "WO13 not run": (lambda: boundary(negative_controls=frozenset({"enter"})), {"WO13"}, P),
    "WO13 not refused": (lambda: boundary(negative_controls=READ), {"WO12", "WO13"}, P),
    "WO13 one type not run": (
        lambda: boundary(negative_controls=frozenset({"intrude", "enter"})),
        {"WO13"},
        P,
    ),
    "WO13 nothing is no refusal of a write": (
        lambda: boundary(negative_controls=WRITE, asking_controls=READ),
        {"WO12", "WO13"},
        P,
    ),
    "WO13 asked and shown something": (
        lambda: boundary(negative_controls=READ, asking_controls=READ),
        {"WO12", "WO13"},
        P,
    ),
    "WO14 no judge": (lambda: but(claims=frozenset({"safety", "fairness"})), {"WO14"}, P),
    "WO14 groups": (
        lambda: but(
            claims=frozenset({"safety", "fairness"}),
            options={"fairness_by": "node"},
            node_of_process=dict.fromkeys(range(CLIENTS), "n1"),
            checkers_declared=["linearizable", "fairness"],
            results={"linearizable": result(), "fairness": result(checker="fairness")},
            checker_kinds={"linearizable": "history", "fairness": "history"},
        ),
        # With one node alone the windows were idle at all others.
        {"RF3", "RF6", "WO7", "WO14"},
        FAULT,
    ),
}


def test_the_untouched_run_is_a_pass_hardening() -> None:
    evidence = build_evidence(good(), op_types=frozenset({"read", "write"}))
    assert evidence.history_lint == msgspec.convert({}, type(evidence.history_lint))
    verdict = decide(evidence)
    assert (verdict.verdict, verdict.rule) == (State.PASS_HARDENING, "V15"), verdict.reason
    assert shorts(evidence) == set()
    assert too_good(evidence.redflags | evidence.weak_audit) is not None


@pytest.mark.parametrize("name", BROKEN)
def test_one_broken_thing(name: str) -> None:
    make, expected, state = BROKEN[name]
    found, verdict = judged(make())
    assert (found, verdict) == (expected, state)


def test_every_row_is_broken_somewhere() -> None:
    broken = set().union(*(expected for _, expected, _ in BROKEN.values()))
    # RF9 compares arms: test_session_judge breaks it.
    assert broken == ALL_ROWS - {"RF9"}
    assert set(TITLES) == ALL_ROWS


def test_every_row_is_there_and_speaks_with_numbers() -> None:
    facts = good()
    rows = red_flags(facts, measure(facts)) | weak_items(facts)
    assert set(rows) == ALL_ROWS
    for name, row in rows.items():
        assert row.evidence, name
        if row.status != "n/a" and name not in ("WO8", "WO9"):
            assert any(c.isdigit() for c in row.evidence), (name, row.evidence)


@pytest.mark.parametrize("facts", [RunFacts(history=History(header=Header(), ops=[]))])
def test_an_empty_run_has_every_row_and_no_pass(facts: RunFacts) -> None:
    evidence = build_evidence(facts)
    assert set(evidence.redflags) | set(evidence.weak_audit) == ALL_ROWS
    assert not decide(evidence).verdict.passed


def test_a_run_that_ended_early_does_not_say_that_nobody_serves() -> None:
    told = build_evidence(but(healthy={})).redflags["RF8"]
    assert told.status == "short"
    assert "the run ended before anybody asked who serves: n1; n2" in told.evidence
    assert "not serving" not in told.evidence


def test_the_lead_that_moved_from_term_0_is_a_new_term() -> None:
    """As sentinels count: the page has the change, and so has the audit."""
    moved = {"leader_before": "n1", "term_before": 0, "new_leader": "n5", "new_term": 1}
    one = with_facts(1, shape="leader", **moved)
    said = weak_items(but(records=one))["WO4"].evidence
    assert said.startswith(
        "1 fault aimed at a leader; the faults saw 1 change of the lead and 1 new term; "
    )
    still = with_facts(1, shape="leader", leader_before="n1", term_before=0)
    said = weak_items(but(records=still))["WO4"].evidence
    assert "the faults saw 0 changes of the lead and 0 new terms" in said


def test_partitions_that_did_not_land_are_no_part_of_those_that_cut_one_way() -> None:
    made = [
        msgspec.structs.replace(r, landed="ambiguous", facts=r.facts | {"direction": "out"})
        for r in good().records
    ]
    row = weak_items(but(records=made))["WO7"]
    assert row.status == "short"
    assert row.evidence.startswith(
        f"0 of 0 landed partitions cut one direction only; {len(made)} that did are not proven"
    )


ANSWERS: Final[list[tuple[Any, tuple[str, ...]]]] = [
    (None, ("", "null", "list")),
    ([], ("", "list")),
    (0, ("", "count")),
    (False, ("flag",)),
    *((shown, ()) for shown in ("", "v", 1, True, {"k": "v"}, [0], [None])),
]
SHOWN: Final = [
    (answer, kind, kind in kinds) for answer, kinds in ANSWERS for kind in ("", *NOTHINGS)
]


def controlled(kind: str, **changes: Any) -> dict[str, AuditRow]:
    """Of a run with a negative control that asks, and was answered so."""
    facts = boundary(asking_controls=frozenset({"intrude"}), nothing={"intrude": kind})
    if not kind:
        facts = boundary(asking_controls=frozenset({"intrude"}))
    asked = msgspec.structs.replace(ops()[0], **{"op_type": "intrude", "output": None} | changes)
    return weak_items(msgspec.structs.replace(facts, history=history((asked, *ops()[1:]))))


@pytest.mark.parametrize(("output", "kind", "fine"), SHOWN)
def test_nothing_is_what_the_type_of_a_control_says(output: Any, kind: str, fine: bool) -> None:
    row = controlled(kind, output=output)["WO13"]
    assert row.status == ("ok" if fine else "short"), row.evidence


@pytest.mark.parametrize(
    "changes", [{"error": "no-leader"}, {"complete_ts": None, "timeout_marker": True}]
)
def test_a_control_that_asks_and_has_no_answer_was_shown_nothing_by_nobody(
    changes: dict[str, Any],
) -> None:
    row = controlled("null", **changes)["WO13"]
    assert row.status == "short" and row.evidence.startswith("0 negative controls were refused")


def test_a_control_that_was_answered_is_no_surface() -> None:
    asked = frozenset({"intrude"})
    for lists, status in ((asked, "short"), (asked | READ, "ok")):
        surfaces = {"read": READ, "write": WRITE, "lists": lists}
        facts = boundary(surfaces=surfaces, asking_controls=asked)
        row = weak_items(but_answered(facts))["WO12"]
        assert row.status == status, row.evidence


def but_answered(facts: RunFacts) -> RunFacts:
    first = msgspec.structs.replace(facts.history.ops[0], error=None)
    return msgspec.structs.replace(facts, history=history((first, *ops()[1:])))
