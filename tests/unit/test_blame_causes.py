"""Planted causes of a violation, through the judge of a real run: whose fault it is said to be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from made_runs import HEALED, LOAD_S, S, recorded, registers

from checkers.linearizable import Linearizable
from dstest.core import registry
from dstest.core.check import Anomaly, Budget, CheckResult
from dstest.core.evidence import BlameProbe
from dstest.core.history import History
from dstest.core.op import Op
from dstest.core.verdict import Verdict
from dstest.history.layout import RunDir
from dstest.judge.blame import HOST_EVENTS, LINTS, QUIET, SELF_TEST, SWAP, blame
from dstest.judge.host_events import HOST, HostSample
from dstest.runner.judgement import judge

pytestmark = pytest.mark.slow

GONE = BlameProbe(fired=True, said="gone in 3 of 3")
CAME_AGAIN = BlameProbe(fired=False, said="came again in 1 of 1")


def stale(ops: Sequence[Op]) -> list[Op]:
    """A read whose value was overwritten long before it began, while the fault stood."""
    factor = LOAD_S * S // max(op.complete_ts or op.invoke_ts for op in ops)
    during = [
        op
        for op in ops
        if op.op_type == "read" and op.complete_ts is not None and op.error is None
        and HEALED - 3 * S < op.invoke_ts * factor < HEALED - S
    ]  # fmt: skip
    for read in during:
        before = [
            op
            for op in ops
            if op.key == read.key and op.op_type == "write" and op.error is None
            and op.complete_ts is not None and op.complete_ts < read.invoke_ts
        ]  # fmt: skip
        if len(before) > 5:
            old = min(before, key=lambda op: op.invoke_ts).input
            return [msgspec.structs.replace(o, output=old) if o is read else o for o in ops]
    raise AssertionError("no read to break")


def malformed(ops: Sequence[Op]) -> list[Op]:
    """Every tenth operation is refused: the generator asks for what the client does not have."""
    return [
        msgspec.structs.replace(
            op, output=None, error="unsupported operation: wirte", timeout_marker=False,
            complete_ts=op.complete_ts or op.invoke_ts + 1,
        )
        if n % 10 == 0 and op.op_type == "read" else op
        for n, op in enumerate(ops)
    ]  # fmt: skip


Change = Callable[[int, dict[str, Any]], None]


def sampled(run: RunDir, change: Change = lambda second, row: None) -> None:
    """`host.jsonl` of a host that has nothing to tell, but for what `change` does to a second."""
    lines = []
    for second in range(LOAD_S + 3):
        row: dict[str, Any] = {
            "time_ns": second * S,
            "wall_minus_mono_ns": 1_700_000_000 * S,
            "steal": 1.0,
            "cpu": 2.0 * second,
            "oom_kills": 0,
            "swapped": 0,
            "stalled": {"io": 0.0},
            "throttled": {"/sys/fs/cgroup/cpu/lab": 0.0},
            "fsync_ns": 2_000_000,
            "free_bytes": 1 << 40,
        }
        change(second, row)
        lines.append(msgspec.json.encode(HostSample(**row)))
    run.write(HOST, b"\n".join(lines) + b"\n")


def judged(run: RunDir) -> Verdict:
    verdict, failure = judge(run)
    assert failure is None, failure
    assert verdict.verdict.failed, verdict.reason
    return verdict


@pytest.fixture(scope="module")
def broken() -> list[Op]:
    return stale(registers(count=900))


def test_a_bug_of_the_system(tmp_path: Path, broken: list[Op]) -> None:
    run = recorded(tmp_path / "run", broken, "register")
    sampled(run)
    verdict = judged(run)
    assert {n for n, p in verdict.evidence.probes.items() if p.fired} == set()
    assert verdict.blame is not None
    assert verdict.blame.startswith("unknown - pending: ")
    assert SWAP in verdict.blame
    assert blame(verdict.evidence, {SWAP: CAME_AGAIN}) == "SUT"
    assert verdict.bug is not None
    assert (verdict.bug.type, verdict.bug.severity) == ("partition", "P0")
    assert {"safety", "replication"} <= set(verdict.bug.tags)


def test_with_the_probes_off_nobody_is_to_blame(tmp_path: Path, broken: list[Op]) -> None:
    """No samples of the host, no second client: what is left does not make it the system's."""
    verdict = judged(recorded(tmp_path / "run", broken, "register"))
    assert verdict.blame is not None
    assert verdict.blame.startswith("unknown - pending: ")
    assert HOST_EVENTS in verdict.blame
    off = msgspec.structs.replace(verdict.evidence, probes={})
    said = blame(off)
    assert said is not None
    assert said.startswith("unknown - pending: ")
    assert all(name in said for name in (LINTS, SELF_TEST, SWAP, HOST_EVENTS))


def test_a_malformed_generator(tmp_path: Path, broken: list[Op]) -> None:
    run = recorded(tmp_path / "run", malformed(broken), "register")
    sampled(run)
    verdict = judged(run)
    assert verdict.blame == "harness"
    assert "refused as malformed" in verdict.evidence.probes[LINTS].said


def test_a_generator_without_which_it_is_gone(tmp_path: Path, broken: list[Op]) -> None:
    run = recorded(tmp_path / "run", broken, "register")
    sampled(run)
    assert blame(judged(run).evidence, {SWAP: GONE}) == "harness"


class Paranoid(Linearizable):
    """Flags the last read of whatever it is given."""

    name = "paranoid"

    def check(self, history: History, model: str, budget: Budget) -> CheckResult:
        read = next(op for op in reversed(history.ops) if op.op_type == "read")
        return CheckResult(
            checker=self.name,
            valid=False,
            model=model,
            anomaly_types=["stale-read"],
            not_=[model],
            anomalies={"stale-read": [Anomaly(type="stale-read", key=read.key, ops=[read.op_id])]},
        )


def test_a_wrong_checker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = recorded(tmp_path / "run", registers(count=900), "register")
    sampled(run)
    load, names = registry.load, registry.names

    def other(group: str, name: str) -> Any:
        if group == "checkers" and name == "paranoid":
            return Paranoid()
        return load(group, name)

    monkeypatch.setattr(registry, "load", other)
    monkeypatch.setattr(
        registry, "names",
        lambda group, **how: [*names(group, **how), *(["paranoid"] if group == "checkers" else [])],
    )  # fmt: skip
    run.write_json("run.json", {**run.read_json("run.json"), "checkers": ["paranoid"]})
    verdict = judged(run)
    assert verdict.blame == "checker"
    probes = verdict.evidence.probes
    assert "a right history is flagged" in probes[SELF_TEST].said
    assert probes["independent checker"].fired is True


def throttled(second: int, row: dict[str, Any]) -> None:
    row["throttled"] = {"/sys/fs/cgroup/cpu/lab": 0.7 * max(0, min(second, 12) - 8)}


def stepped(second: int, row: dict[str, Any]) -> None:
    row["wall_minus_mono_ns"] += 3 * S if second >= 10 else 0


@pytest.mark.parametrize(
    ("change", "kind"), [(throttled, "throttled"), (stepped, "clock-set")]
)  # fmt: skip
def test_a_disturbed_host(tmp_path: Path, broken: list[Op], change: Change, kind: str) -> None:
    run = recorded(tmp_path / "run", broken, "register")
    sampled(run, change)
    verdict = judged(run)
    assert verdict.evidence.probes[HOST_EVENTS].fired is True
    assert kind in verdict.evidence.probes[HOST_EVENTS].said
    assert verdict.blame is not None
    assert QUIET in verdict.blame
    evidence = verdict.evidence
    assert blame(evidence, {QUIET: GONE}) == "environment"
    assert blame(evidence, {SWAP: CAME_AGAIN}) != "SUT"
    assert blame(evidence, {QUIET: CAME_AGAIN, SWAP: CAME_AGAIN}) == "SUT"


def test_a_host_that_was_disturbed_at_another_time(tmp_path: Path, broken: list[Op]) -> None:
    def late(second: int, row: dict[str, Any]) -> None:
        row["oom_kills"] = int(second > LOAD_S - 2)

    run = recorded(tmp_path / "run", broken, "register")
    sampled(run, late)
    assert judged(run).evidence.probes[HOST_EVENTS].fired is False


def test_a_run_judged_again_says_the_same(tmp_path: Path, broken: list[Op]) -> None:
    from dstest.runner.integrity import verify_run

    run = recorded(tmp_path / "run", broken, "register")
    sampled(run, throttled)
    first = judged(run)
    run.write_sums()
    run.write_status(f"verdict: {first.verdict.value}")
    again = verify_run(RunDir.open(run.path)).verdict
    assert (again.blame, again.bug, again.evidence.probes) == (
        first.blame, first.bug, first.evidence.probes,
    )  # fmt: skip
