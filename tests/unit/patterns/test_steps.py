"""What is proposed is what this run's system, lab and faults allow."""

from __future__ import annotations

from pathlib import Path

import msgspec
from planted_runs import op, ops_of, partition, planted

from dstest.core.run_record import RunSpec
from dstest.debug.patterns.diagnosis import Diagnosis, diagnose
from dstest.history.layout import RunDir


def refused_seen(path: Path, fault_s: float, lab: str = "lxc", system: str = "toykv") -> Diagnosis:
    """A read at 32 s shows a write that was refused; a fault begins at some time."""
    ops = ops_of(load_s=20)
    ops += [
        op(900, 30, key="x", input=1),
        op(901, 31, key="x", input=2, error="Definite: refused"),
        op(902, 32, op_type="read", key="x", output=2),
    ]
    spec = RunSpec(workload="register", system=system, nemesis="partition", lab=lab)
    records = [partition(fault_s, fault_s + 5)]
    run = planted(path, ops, records=records, spec=msgspec.to_builtins(spec), system=system)
    RunDir(run).write_json("verdict.json", {"verdict": "FAIL", "checkers": {}})
    return diagnose(run)


def asked(found: Diagnosis) -> dict[str, str]:
    return dict(found.tests["dirty-read"])


def test_what_came_before_any_fault_comes_without_faults(tmp_path: Path) -> None:
    before = asked(refused_seen(tmp_path / "before", 50))
    assert "it comes without faults: leave the nemesis out" in before
    after = asked(refused_seen(tmp_path / "after", 25))
    assert "a control: it should not come without faults" in after
    assert not any("it comes without" in one for one in after)


def test_blame_is_for_nodes_alone(tmp_path: Path) -> None:
    for lab, wanted in (("lxc", True), ("sim", False)):
        commands = asked(refused_seen(tmp_path / lab, 25, lab=lab)).values()
        assert any(one.startswith("dstest blame") for one in commands) is wanted


def test_options_are_those_of_the_system(tmp_path: Path) -> None:
    ways = {one.partition(": ")[0] for one in refused_seen(tmp_path / "toykv", 25).measures}
    assert "-o journal=yes" in ways and "leave out --no-monitor" in ways
    redis = refused_seen(tmp_path / "redis", 25, system="redis-sentinel").measures
    assert not any(one.startswith("-o journal") for one in redis)
    assert any("-o journal is none of this one's" in one for one in redis)
