"""Small things that everything rests on: options, seeds, verdict guards, exit codes, the board."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.remote.agent_exec import TimedOut, run_program
from dstest.core import registry, rng
from dstest.core.errors import ConfigError, Exit, RemoteError
from dstest.core.evidence import Budgets, CheckerEvidence, Evidence, FaultEvidence
from dstest.core.op import Outcome
from dstest.core.protocols import Option
from dstest.core.run_record import RunSpec
from dstest.core.verdict import State, Verdict, exit_code
from dstest.runner.board import Board
from dstest.runner.plugins import resolve
from workloads.register import CAS_REGISTER, REGISTER

OPTIONS = {
    "keys": Option(type=int, default=3, help="live keys"),
    "reads": Option(type=str, default="a", choices=("a", "b"), help="which"),
    "fast": Option(type=bool, default=False, help="faster"),
}


def test_options_are_typed() -> None:
    assert registry.parse_options([], OPTIONS) == {"keys": 3, "reads": "a", "fast": False}
    found = registry.parse_options(["keys=5", "reads=b", "fast=yes"], OPTIONS)
    assert found == {"keys": 5, "reads": "b", "fast": True}


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("keys", "key=value"),
        ("keys=x", "not a int"),
        ("reads=c", "one of: a, b"),
        ("kees=1", "did you mean keys"),
        ("fast=perhaps", "not a bool"),
    ],
)
def test_bad_options_name_the_remedy(pair: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        registry.parse_options([pair], OPTIONS)


def test_unknown_plugins_name_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean register"):
        registry.load("workloads", "regster")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": 0}, "--nodes"),
        ({"concurrency": 2}, "without a client"),
        ({"rate": -1.0}, "--rate"),
        ({"time_limit_s": 3.0}, "no room"),
        ({"model": "queue"}, "--model queue"),
        ({"nemesis": "partitoin"}, "did you mean partition"),
        ({"nodes": 2}, "three nodes"),
    ],
)
def test_bad_specs_are_refused_before_anything_starts(
    changes: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(RunSpec(**changes), [])  # type: ignore[arg-type]


def test_streams_are_independent_of_one_another() -> None:
    assert rng.stream(1, "a").random() == rng.stream(1, "a").random()
    assert rng.stream(1, "a").random() != rng.stream(1, "b").random()
    assert rng.stream(1, "a").random() != rng.stream(2, "a").random()


@pytest.mark.parametrize("workload", [REGISTER, CAS_REGISTER])
def test_the_same_seed_gives_the_same_operations(workload: object) -> None:
    options = {key: option.default for key, option in REGISTER.options.items()}
    streams = [workload.generator(5, 0, 10, options) for _ in range(2)]  # type: ignore[attr-defined]
    ops = [[g.next() for _ in range(2000)] for g in streams]
    assert ops[0] == ops[1]
    assert {op.op_type for op in ops[0]} == workload.op_types  # type: ignore[attr-defined]
    per_key: dict[object, int] = {}
    for op in ops[0]:
        per_key[op.key] = per_key.get(op.key, 0) + (op.op_type != "read")
    assert max(per_key.values()) <= options["ops_per_key"]
    assert len(per_key) > 10


def test_retired_keys_are_read_again() -> None:
    options = {key: option.default for key, option in REGISTER.options.items()}
    generator = REGISTER.generator(5, 0, 10, options)
    ops = [generator.next() for _ in range(5000)]
    last_write = {op.key: i for i, op in enumerate(ops) if op.op_type == "write"}
    late = {
        op.key for i, op in enumerate(ops) if op.op_type == "read" and i > last_write[op.key] + 500
    }
    assert len(late) > 10


def test_register_writes_are_unique_per_key() -> None:
    options = {key: option.default for key, option in REGISTER.options.items()}
    generator = REGISTER.generator(5, 1, 10, options)
    ops = [generator.next() for _ in range(5000)]
    writes = [(op.key, op.input) for op in ops if op.op_type == "write"]
    assert len(set(writes)) == len(writes)


def clean(**changes: object) -> Evidence:
    checker = CheckerEvidence(
        declared=["linearizable"],
        ran=["linearizable"],
        result="clean",
        ops_eligible=9,
        ops_consumed=9,
        keys_total=1,
        keys_decided=1,
    )
    budget = Budgets(met="smoke")
    return Evidence(**{"attempted": True, "checker": checker, "budget": budget, **changes})  # type: ignore[arg-type]


def test_a_pass_cannot_be_built_without_its_evidence() -> None:
    fault = FaultEvidence(id="f1", nemesis="partition", landed="ambiguous", heal_verified=True)
    bad = [
        clean(checker=CheckerEvidence()),
        clean(violation=True),
        clean(budget=Budgets()),
        clean(fault_planned=True, faults_planned=1),
        clean(fault_planned=True, faults_planned=1, faults=[fault]),
    ]
    for evidence in bad:
        with pytest.raises(ValueError, match="PASS"):
            Verdict(verdict=State.PASS_SMOKE, rule="V11", reason="x", evidence=evidence)
    with pytest.raises(ValueError, match="hardening"):
        Verdict(verdict=State.PASS_HARDENING, rule="V15", reason="x", evidence=clean())
    Verdict(verdict=State.PASS_SMOKE, rule="V11", reason="x", evidence=clean())


def test_only_passes_exit_zero() -> None:
    codes = {state: exit_code(state) for state in State}
    assert {s for s, c in codes.items() if c == Exit.PASS} == {s for s in State if s.passed}
    assert {s for s, c in codes.items() if c == Exit.FAIL} == {s for s in State if s.failed}


def test_the_board_is_shared(tmp_path: Path) -> None:
    ours = Board(tmp_path / "board", 2, 3, create=True)
    theirs = Board(tmp_path / "board", 2, 3, create=False)
    ours.state = 1
    assert theirs.state == 1
    assert theirs.first_window(0, 10) is None
    first = ours.open_window(100)
    assert theirs.first_window(50, 99) is None
    assert theirs.first_window(50, 100) == first
    assert theirs.first_window(10**15, 10**16) == first
    ours.close_window(first, 200)
    second = ours.open_window(300)
    assert theirs.first_window(201, 299) is None
    assert theirs.first_window(150, 400) == first
    assert theirs.first_window(250, 400) == second
    theirs.forget_before(200)
    assert theirs.first_window(150, 400) == first, "one that ended then may be asked about"
    theirs.forget_before(10**15)
    assert theirs.first_window(150, 400) == second, "one that is open is never forgotten"
    theirs.invoked(1, 2, 5_000_000)
    theirs.completed(1, 2, Outcome.OK, elsewhere=False)
    theirs.completed(1, 2, Outcome.OK, elsewhere=True)
    theirs.completed(1, 2, Outcome.UNKNOWN, elsewhere=True)
    assert ours.by_node()[2] == {
        "invoked": 1,
        "ok": 1,
        "fail": 0,
        "unknown": 0,
        "ok_elsewhere": 1,
        "fail_elsewhere": 0,
        "unknown_elsewhere": 1,
    }
    assert ours.by_node()[1]["unknown_elsewhere"] == 0
    assert ours.lateness()["late"] == 1
    ours.close()
    theirs.close()


@given(st.dictionaries(st.text(), st.one_of(st.text(), st.booleans(), st.integers(-9, 9))))
def test_a_spec_is_read_as_it_was_written(options: dict[str, Any]) -> None:
    spec = RunSpec(options={**options, "pause.scope": "minority"})
    assert msgspec.json.decode(msgspec.json.encode(spec), type=RunSpec) == spec


def test_a_long_script_does_not_fill_a_message() -> None:
    script = f"sleep 5; {'echo x; ' * 200}"
    with pytest.raises(TimedOut) as late:
        run_program(["sh", "-c", script], timeout_s=0.1)
    failed = RemoteError("n1", script, 1, "no")
    assert failed.command == script
    for error in (late.value, failed):
        assert len(str(error)) < 400
        assert "sleep 5;" in str(error)
