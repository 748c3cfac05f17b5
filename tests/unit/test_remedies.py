"""What keeps a verdict from the next better one, and the command that would supply it."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from test_audit import but, good

from dstest.core.evidence import Rerun
from dstest.judge.decide import decide
from dstest.judge.evidence import build_evidence
from dstest.report.command import command_of
from dstest.report.remedies import remedies

SPEC: dict[str, Any] = {
    "system": "etcd",
    "workload": "register",
    "nemesis": "partition",
    "lab": "lxc",
    "nodes": 5,
    "time_limit_s": 30.0,
    "concurrency": 20,
    "seed": 7,
    "options": {"fault_s": 6.0, "quiet_s": 4.0},
}


def supplied(**changes: Any) -> dict[str, str]:
    """Command by obstacle for a run of one seed and one size with these facts changed."""
    facts = but(seeds_agreeing=1, node_counts_run=[5], **changes)
    evidence = build_evidence(facts, op_types=frozenset({"read", "write"}))
    lines = decide(evidence).why_not_better
    return dict(remedies(lines, SPEC, ["keys=5"], "store/run"))


def words(found: dict[str, str], start: str) -> list[str]:
    (command,) = [command for line, command in found.items() if line.startswith(start)]
    return shlex.split(command)


def test_breadth_is_supplied_by_a_tier() -> None:
    found = supplied()
    for row in ("WO10", "WO11"):
        command = words(found, row)
        assert command[command.index("--tier") + 1] == "hardening"
        assert "--seed" not in command
        assert "--nodes" not in command
        assert command[-2:] == ["-o", "keys=5"]


def test_a_direction_that_was_not_cut() -> None:
    both = [r.facts | {"direction": "both"} for r in good().records]
    records = [
        type(r)(**{**{f: getattr(r, f) for f in r.__struct_fields__}, "facts": facts})
        for r, facts in zip(good().records, both, strict=True)
    ]
    assert words(supplied(records=records), "WO7")[-2:] == ["-o", "direction=in"]


def test_a_violation_is_replayed_and_no_fault_is_one_flag() -> None:
    import msgspec

    bad = msgspec.structs.replace(good().results["linearizable"], valid=False)
    found = supplied(results={"linearizable": bad}, rerun=Rerun())
    assert words(found, "A violation")[:3] == ["dstest", "replay", "store/run"]
    found = supplied(records=[], faults_planned=0)
    assert "--nemesis" in words(found, "No fault was planned")


def test_nothing_can_be_supplied_to_a_foreign_history() -> None:
    assert remedies(["WO6: short"], {}, None, ".")[0].command == ""


@pytest.mark.parametrize("rate", [12345.67, 0.1, 400.0, 1e6])
def test_the_command_asks_for_the_same_numbers(rate: float) -> None:
    command = shlex.split(command_of({**SPEC, "rate": rate, "stop_on_violation": True}))
    assert float(command[command.index("--rate") + 1]) == rate
    assert "--stop-on-violation" in command
