"""Faults of a simulation that ask the system: for whoever leads, and of who is a member."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clusters.systems.toykv.simulated import SimulatedAdministration, SimulatedToykv
from clusters.systems.toykv.system import Toykv
from dstest.core.errors import ConfigError, Exit, LabError
from dstest.core.protocols import LeaderView
from dstest.core.run_record import RunSpec
from dstest.core.verdict import State, Verdict
from dstest.runner.plugins import Plugins, resolve
from dstest.runner.replay import replay
from dstest.runner.screen import Progress
from dstest.runner.session import Finished, run_session
from dstest.sim.files import SimFiles
from nemeses.member.membership import SimulatedMembership

pytestmark = pytest.mark.slow

SHORT = ["fault_s=4"]
DOUBLE = ["bug=membership-double-entry", "fault_s=3", "quiet_s=1", "shape=one", "kill.scope=one"]
SEED = 1
"""Shows membership-double-entry; another one has to be looked for when the simulation changes."""


def planned(*pairs: str, **changes: Any) -> Plugins:
    spec = RunSpec(
        system="toykv", lab="sim", nodes=3, concurrency=6, time_limit_s=24.0, seed=1, rate=65.0
    )
    return resolve(msgspec.structs.replace(spec, **changes), [*pairs])


def ran(store: Path, *pairs: str, **changes: Any) -> Finished:
    return run_session(planned(*pairs, **changes), store=store, ui=Progress(io.StringIO()))


def why(done: Finished) -> str:
    verdict: Verdict = done.verdict
    return f"{verdict.verdict.value} {verdict.rule}: {verdict.reason} {verdict.why_not_better}"


def records(done: Finished) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (done.path / "faults.jsonl").read_bytes().splitlines()]


FOR_LEADER = [
    ("partition", "shape=leader"),
    ("kill", "scope=primaries"),
    ("pause", "scope=primaries"),
    ("power", "scope=primaries"),
    ("membership", "scope=primaries"),
]


@pytest.mark.parametrize(("nemesis", "whom"), FOR_LEADER, ids=[n for n, _ in FOR_LEADER])
@pytest.mark.sampled(2)
def test_whoever_leads_is_struck_and_others_follow_another(
    nemesis: str, whom: str, tmp_path: Path
) -> None:
    done = ran(tmp_path, *SHORT, whom, nemesis=nemesis, nodes=5, rate=120.0)
    assert (done.verdict.verdict, done.exit_code) == (State.PASS_SMOKE, Exit.PASS), why(done)
    found = records(done)
    assert found
    for fault in found:
        assert fault["landed"] == "yes" and fault["heal_verified"]
        assert fault["targets"] == [fault["facts"]["leader_before"]]
        assert fault["facts"]["new_term"] > fault["facts"]["term_before"]


@pytest.mark.parametrize("join", ["voter", "learner"])
def test_a_member_goes_and_another_one_comes(join: str, tmp_path: Path) -> None:
    done = ran(tmp_path, *SHORT, f"join={join}", nemesis="membership", workload="set")
    assert (done.verdict.verdict, done.exit_code) == (State.PASS_SMOKE, Exit.PASS), why(done)
    found = records(done)
    assert found
    for fault in found:
        (target,) = fault["targets"]
        assert fault["landed"] == "yes" and fault["heal_verified"]
        others = {n: row for n, row in fault["facts"]["members"].items() if n != target}
        assert {len(row) for row in others.values()} == {2}
        assert fault["facts"]["join"] == join


async def _only_killed(self: Any, ctx: Any, names: Any) -> None:
    for name in names:
        self.world.kill(name)


async def _only_delisted(self: SimulatedAdministration, name: str) -> None:
    """Its server goes on."""


@pytest.mark.parametrize(
    ("of", "step", "instead", "told"),
    [
        (SimulatedMembership, "expel", _only_killed, "still lists"),
        (SimulatedAdministration, "end", _only_delisted, "still runs"),
    ],
    ids=["killed", "delisted"],
)
def test_a_member_that_is_not_gone_proves_nothing(
    of: Any, step: str, instead: Any, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of, step, instead)
    done = ran(tmp_path, *SHORT, nemesis="membership")
    assert done.exit_code == Exit.NOT_PROVEN, why(done)
    faults = done.verdict.evidence.faults
    assert faults and all(fault.landed != "yes" for fault in faults)
    assert told in faults[0].injector["detail"]


async def _as_it_was(self: SimulatedAdministration, name: str, *, learner: bool) -> None:
    """Nobody joins."""
    raise LabError(f"{name} does not join again")


def test_a_member_that_does_not_come_back_is_no_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SimulatedAdministration, "rejoin", _as_it_was)
    done = ran(tmp_path, *SHORT, nemesis="membership")
    assert done.exit_code == Exit.NOT_PROVEN and not done.verdict.verdict.passed, why(done)
    assert not done.verdict.evidence.faults[0].heal_verified
    assert "does not run" in done.verdict.evidence.redflags["RF8"].evidence


def test_a_leader_that_stays_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All say for ever what they said first."""
    told = SimulatedAdministration.leaders
    first: list[LeaderView] = []

    async def leaders(self: SimulatedAdministration) -> list[LeaderView]:
        if not first or any(view.leader is None for view in first):
            first[:] = await told(self)
        return first

    monkeypatch.setattr(SimulatedAdministration, "leaders", leaders)
    done = ran(tmp_path, *SHORT, "shape=leader", nemesis="partition")
    assert done.verdict.verdict is State.INCONCLUSIVE_FAULT, why(done)
    assert "no new term" in done.verdict.evidence.faults[0].victim["detail"]


class _Unasked(SimulatedToykv):
    """Nobody can ask it anything."""

    administration = None  # type: ignore[assignment]


class _Leaderless(SimulatedToykv):
    """It says who is a member, and not who leads."""

    class Administration(SimulatedAdministration):
        leaders = None  # type: ignore[assignment]

    administration = Administration


@pytest.mark.parametrize(
    ("simulable", "nemesis", "pairs", "said"),
    [
        (_Unasked, "membership", [], "membership cannot be simulated: .* lacks ReplacesMembers"),
        (_Unasked, "partition", ["shape=leader"], "shape=leader cannot be simulated: .*Leadership"),
        (_Leaderless, "kill", ["scope=primaries"], "scope=primaries cannot be simulated: .*leader"),
        (_Leaderless, "membership", ["scope=primaries"], "scope=primaries cannot be simulated"),
    ],
)
def test_what_a_simulation_cannot_be_asked_is_refused(
    simulable: Any, nemesis: str, pairs: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Toykv, "simulable", simulable())
    with pytest.raises(ConfigError, match=said) as refused:
        planned(*pairs, nemesis=nemesis)
    assert "a lab with nodes" in (refused.value.remedy or "")
    assert planned(nemesis="kill").plans, "what asks nobody goes on"


def test_nobody_is_asked_for_a_fault_that_is_for_no_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a seed has shown before there were questions it shows still."""

    async def never(self: SimulatedAdministration, *_: Any, **__: Any) -> Any:
        raise AssertionError("asked")

    monkeypatch.setattr(SimulatedAdministration, "asked", never)
    done = ran(
        tmp_path, *SHORT, nemesis="partition,kill,pause,power", time_limit_s=45.0, rate=120.0
    )
    assert done.verdict.verdict is State.PASS_SMOKE, why(done)


MUCH: dict[str, Any] = {
    "nemesis": "membership,kill,partition", "workload": "set", "time_limit_s": 30.0, "seed": SEED,
    "concurrency": 20, "rate": None,
}  # fmt: skip


def test_a_double_entry_is_found(tmp_path: Path) -> None:
    done = ran(tmp_path, *DOUBLE, **MUCH)
    assert done.exit_code == Exit.FAIL, why(done)
    assert "set-full" in str(done.verdict.evidence.violation_fingerprint), why(done)
    assert any(fault.nemesis == "membership" for fault in done.verdict.evidence.faults)


def test_without_the_bug_it_is_clean(tmp_path: Path) -> None:
    sound = [pair for pair in DOUBLE if not pair.startswith("bug=")]
    done = ran(tmp_path, *sound, **MUCH)
    assert done.verdict.verdict is State.PASS_SMOKE, why(done)


@pytest.mark.long
def test_a_double_entry_comes_again_byte_for_byte(tmp_path: Path) -> None:
    done = ran(tmp_path, *DOUBLE, **MUCH)
    again, original = replay(done.path, 1, store=tmp_path / "again", ui=Progress(io.StringIO()))
    assert original.verdict.evidence.rerun.identical == 1
    for name in ("segments/worker-0.seg", "segments/control.seg", "simulation.log"):
        assert len({(run.path / name).read_bytes() for run in (done, again)}) == 1


def test_files_of_a_host_that_is_wiped_are_gone() -> None:
    files = SimFiles(random.Random(1))
    files.replace("meta", b"1")
    files.open("log").write(b"2")
    files.wipe()
    assert not files.exists("meta") and files.written() == {}
