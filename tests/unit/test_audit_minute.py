"""A run as users have it: one seed, one minute, one size."""

from __future__ import annotations

import msgspec
import pytest
from made_audit import (
    CLIENTS,
    RATE,
    S,
    but,
    history,
    limping,
    minute,
    ops,
    windows,
)

from dstest.core.check import Fields
from dstest.core.history import Recovery
from dstest.core.op import Op
from dstest.core.verdict import State
from dstest.judge.audit import measure, red_flags
from dstest.judge.decide import decide
from dstest.judge.evidence import build_evidence


def test_one_clean_minute_is_a_smoke_pass_that_says_why_not_more() -> None:
    verdict = decide(build_evidence(minute()))
    assert (verdict.verdict, verdict.rule) == (State.PASS_SMOKE, "V12b"), verdict.reason
    said = " ".join(verdict.why_not_better)
    for expected in (
        "one seed only: 3 agreeing seeds are needed for PASS-hardening",
        "cluster sizes run: 5",
        "hardening asks for 300 s",
        "20,000 operations",
    ):
        assert said.count(expected) == 1
    assert said.count("agreeing seeds") == said.count("300 s") == 1


def test_without_a_fault() -> None:
    quiet = [msgspec.structs.replace(o, fault_epoch=None) for o in minute().history.ops]
    facts = minute(history=history(tuple(quiet), windows=[]), records=[], faults_planned=0)
    evidence = build_evidence(facts)
    assert evidence.budget.met == "smoke"
    assert evidence.redflags["RF3"].status == evidence.redflags["RF4"].status == "n/a"
    verdict = decide(evidence)
    assert (verdict.verdict, verdict.rule) == (State.PASS_SMOKE, "V11"), verdict.reason


@pytest.mark.parametrize(("busy_share", "status"), [(1.0, "ok"), (0.7, "ok"), (0.3, "short")])
def test_a_closed_loop_keeps_its_clients_busy(busy_share: float, status: str) -> None:
    """How fast the system answers is not the point: a slow second with all clients waiting is."""
    gap = S * CLIENTS // RATE
    waiting = tuple(
        msgspec.structs.replace(o, complete_ts=o.invoke_ts + int(gap * busy_share))
        for o in ops()[: 60 * RATE]
    )
    facts = minute(history=history(waiting, windows=windows()[:2], rate=None))
    row = red_flags(facts, measure(facts))["RF1"]
    assert row.status == status
    assert "busy" in row.evidence


def test_who_is_busy_as_the_workload_means_it_is_no_idle_client() -> None:
    """Ten clients at seventy operations of 3 ms per second wait for a fiftieth of their time."""

    def rf1(kind: str, output: object) -> str:
        made = tuple(
            msgspec.structs.replace(op, op_type=kind, output=output) for op in ops()[: 60 * RATE]
        )
        facts = minute(
            history=history(made, windows=windows()[:2], rate=None),
            fields=Fields(busy_after=frozenset({"acquire"})),
            minimum={},
        )
        return red_flags(facts, measure(facts))["RF1"].status

    assert rf1("read", 1) == "short"
    assert rf1("acquire", {"token": 1}) == "ok"
    assert rf1("acquire", False) == "short"


def test_clients_that_hang_in_a_fault_are_not_missing_load() -> None:
    """In a majority partition every client waits for its timeout: that is the fault, not a gap."""
    kept = tuple(o for o in ops()[: 60 * RATE] if not 20 * S < o.invoke_ts < 31 * S)
    facts = minute(history=history(kept, windows=windows()[:2]))
    assert red_flags(facts, measure(facts))["RF1"].status == "ok"


def test_a_slow_recovery_is_not_missing_load() -> None:
    """Nobody is answered for fifteen seconds after a heal, or at some other time."""
    healed_ns = windows()[0].healed_ns or 0

    def mute(from_ns: int, *healed: Recovery) -> str:
        kept = tuple(
            msgspec.structs.replace(o, output=None, error="no leader")
            if from_ns <= o.invoke_ts < from_ns + 15 * S
            else o
            for o in ops()[: 60 * RATE]
        )
        facts = minute(history=history(kept, windows=windows()[:2]), recoveries=list(healed))
        return red_flags(facts, measure(facts))["RF1"].status

    recovered = Recovery(healed_ns=healed_ns, settled_ns=healed_ns + 15 * S)
    assert mute(healed_ns, recovered) == "ok"
    assert mute(healed_ns) == "short"
    assert mute(healed_ns, Recovery(healed_ns=healed_ns, settled_ns=None)) == "short"
    assert mute(4 * S, recovered) == "short"


def test_clients_that_ask_for_nothing_are_not_recovering() -> None:
    """A recovery excuses what nobody answers, not what nobody asks."""
    healed_ns = windows()[0].healed_ns or 0
    kept = tuple(o for o in ops()[: 60 * RATE] if not 35 * S < o.invoke_ts < 42 * S)
    facts = minute(
        history=history(kept, windows=windows()[:2]),
        recoveries=[Recovery(healed_ns=healed_ns, settled_ns=healed_ns + 15 * S)],
    )
    row = red_flags(facts, measure(facts))["RF1"]
    assert (row.status, "silent for" in row.evidence) == ("short", True), row.evidence


@pytest.mark.parametrize(
    ("error", "conflict_errors", "status"),
    [
        ("conflict", {"conflict"}, "ok"),
        ("conflict: key 7 has changed", {"conflict"}, "ok"),
        ("conflict", set(), "short"),
        ("no leader", {"conflict"}, "short"),
    ],
)
def test_a_lost_race_is_no_sick_server(error: str, conflict_errors: set[str], status: str) -> None:
    """Clients that waited come all at once after a heal, and their transactions meet."""
    facts = but(history=history(limping(error)), conflict_errors=frozenset(conflict_errors))
    row = red_flags(facts, measure(facts))["RF8"]
    assert row.status == status, row.evidence
    assert ("lost a race" in row.evidence) == (status == "ok")


def test_a_low_rate_is_not_short_by_chance() -> None:
    import random

    dice, at = random.Random(4), 0.0
    made: list[Op] = []
    while at < 60:
        at += dice.expovariate(10)
        made.append(
            Op(op_id=len(made), process_id=len(made) % CLIENTS, invoke_ts=int(at * S),
               complete_ts=int(at * S) + 1, op_type="read", key="k", output=1, node_seen="n1")
        )  # fmt: skip
    facts = minute(history=history(tuple(made), windows=[], rate=10.0), records=[])
    assert red_flags(facts, measure(facts))["RF1"].status == "ok"


@pytest.mark.parametrize(("members_most", "met"), [(1, "smoke"), (2, "none"), (None, "none")])
def test_of_a_system_of_one_member_no_more_are_asked(members_most: int | None, met: str) -> None:
    """A database on one node; one that could have more, and was run with one, shows less."""
    one = minute()
    header = msgspec.structs.replace(one.history.header, nodes=["n1"])
    alone = msgspec.structs.replace(one.history, header=header)
    facts = msgspec.structs.replace(one, history=alone, members_most=members_most)
    assert measure(facts).met == met
