"""The nemesis loop: order of injections, looks and heals; what happens when one of them fails."""

from __future__ import annotations

import asyncio
import json
import math
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dstest.core.clock import RunClock, monotonic_ns
from dstest.core.errors import ConfigError, HarnessError, LabError, RemoteError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.protocols import FaultPlan, Nemesis, NemesisContext, Timing
from dstest.runner import nemesis_loop, stand_watch
from dstest.runner.epochs import NoEpochs
from dstest.runner.load import NoTraffic
from dstest.runner.nemesis_loop import NemesisLoop

pytestmark = pytest.mark.slow

MS = 1_000_000


class Told(Nemesis):
    """A nemesis that tells what is asked of it; `broken` are faults whose heal fails."""

    name = "told"

    def __init__(self, broken: tuple[str, ...] = ()) -> None:
        self.calls: list[str] = []
        self.broken = broken

    async def inject(self, ctx: NemesisContext, plan: FaultPlan) -> LandingRecord:
        self.calls.append(f"inject {plan.fault_id}")
        now = ctx.clock.now_ns()
        return LandingRecord(
            fault_id=plan.fault_id, nemesis=plan.nemesis, targets=[], scheduled_at=plan.start_ns,
            epoch=plan.fault_id, injected_at=now, landed_at=now, landed="yes",
        )  # fmt: skip

    async def recheck(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        self.calls.append(f"look {record.fault_id}")
        return record

    async def heal(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        self.calls.append(f"heal {record.fault_id}")
        if record.fault_id in self.broken:
            raise LabError("the node is lost")
        return replace(record, heal_verified=True)

    async def teardown(self, ctx: NemesisContext) -> None:
        self.calls.append("teardown")


class Deaf:
    """A journal that keeps nothing."""

    def fault(self, record: LandingRecord) -> None:
        pass


def loop_of(nemesis: Told, **more: Any) -> NemesisLoop:
    deployment: Any = SimpleNamespace(timing=Timing())
    ctx = NemesisContext(
        nodes={}, lab=None, deployment=deployment, clock=RunClock(monotonic_ns()),  # type: ignore[arg-type]
        traffic=NoTraffic(), epochs=NoEpochs(),
    )  # fmt: skip
    return NemesisLoop(nemesis, ctx, Deaf(), lambda said: None, **more)  # type: ignore[arg-type]


def plan(name: str, start_ms: int, rank: int = 0) -> FaultPlan:
    return FaultPlan(
        fault_id=name, nemesis="told", start_ns=start_ms * MS, duration_ns=20 * MS, heal_rank=rank
    )


class Flapping(Told):
    """Says at each look what its marks say next, and lands at once."""

    def __init__(self, *marks: str) -> None:
        super().__init__()
        self.marks = iter(marks)

    async def in_force(self, ctx: NemesisContext, record: LandingRecord) -> dict[str, str]:
        return {"n1": next(self.marks, "7")}


@pytest.mark.parametrize(
    ("marks", "landed"),
    [
        (("7",) * 20, "yes"),
        (("7", "", "7", "", "7"), "ambiguous"),
        (("7", "8", "9", "10", "11"), "ambiguous"),
    ],
    ids=["stands", "gone at a look", "put back between two looks"],
)
def test_a_fault_that_flaps_between_the_looks_has_not_landed(
    marks: tuple[str, ...], landed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stand_watch, "_STOOD_EVERY_NS", 20 * MS)
    monkeypatch.setattr(stand_watch, "_CLEAR_NS", 5 * MS)
    loop = loop_of(Flapping(*marks))
    asyncio.run(loop.run([replace(plan("f1", 5), duration_ns=300 * MS)]))
    record = loop.records["f1"]
    assert record.landed == landed
    assert record.facts["stood"]["looks"] >= 4
    assert (record.facts["stood"]["share"] == 1.0) == (landed == "yes")
    assert (not record.notes) == (landed == "yes")


@pytest.mark.parametrize("answered", [0, 3])
def test_looks_that_nobody_answers_are_counted(
    answered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silent(Flapping):
        async def in_force(self, ctx: NemesisContext, record: LandingRecord) -> dict[str, str]:
            if next(self.marks, None) is None:
                raise RemoteError("n1", "nft list", 1, "")
            return {"n1": "7"}

    monkeypatch.setattr(stand_watch, "_STOOD_EVERY_NS", 20 * MS)
    monkeypatch.setattr(stand_watch, "_CLEAR_NS", 5 * MS)
    loop = loop_of(Silent(*("7",) * answered))
    asyncio.run(loop.run([replace(plan("f1", 5), duration_ns=300 * MS)]))
    stood = loop.records["f1"].facts["stood"]
    assert (stood["looks"], stood["failed"] >= 4) == (answered, True)


def test_faults_of_one_time_stand_together() -> None:
    told = Told()
    loop = loop_of(told)
    asyncio.run(loop.run([plan("f1", 5, rank=1), plan("f2", 5), plan("f3", 60)]))
    assert told.calls == [
        *("inject f1", "inject f2", "look f1", "look f2", "look f1", "look f2"),
        *("heal f2", "heal f1", "inject f3", "look f3", "look f3", "heal f3"),
    ]
    assert not loop.standing
    assert all(record.heal_verified for record in loop.records.values())


def test_a_heal_that_fails_stops_no_other() -> None:
    told = Told(broken=("f1",))
    loop = loop_of(told)
    with pytest.raises(LabError):
        asyncio.run(loop.run([plan("f1", 5), plan("f2", 5, rank=1)]))
    assert told.calls[-2:] == ["heal f1", "heal f2"]
    assert list(loop.standing) == ["f1"]
    problems = asyncio.run(loop.finish())
    assert told.calls[-2:] == ["heal f1", "teardown"]
    assert problems
    assert "lease heals it" in loop.records["f1"].notes[-1]


def test_the_next_fault_waits_for_the_cluster() -> None:
    told = Told()
    looks = iter([False, False, True])
    loop = loop_of(told, ready=lambda: next(looks))
    asyncio.run(loop.run([plan("f1", 5), plan("f2", 30)]))
    assert told.calls[-1] == "heal f2"
    assert next(looks, None) is None


class Stuck(Told):
    """Never comes back from its injection, whose epoch has begun."""

    async def inject(self, ctx: NemesisContext, plan: FaultPlan) -> LandingRecord:
        ctx.epochs.opened = LandingRecord(  # type: ignore[misc]
            fault_id=plan.fault_id, nemesis=plan.nemesis, targets=["n1"], scheduled_at=0,
            epoch=plan.fault_id, injected_at=7,
        )  # fmt: skip
        await asyncio.Event().wait()
        raise AssertionError


def test_a_step_that_never_comes_back_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nemesis_loop, "_STEP_S", 0.05)
    stuck = Stuck()
    loop = loop_of(stuck)
    with pytest.raises(HarnessError, match=r"f1: inject\(\) of told did not come back in 0.05 s"):
        asyncio.run(loop.run([plan("f1", 5)]))
    assert not asyncio.run(loop.finish())
    assert loop.records["f1"].injected_at == 7, "what was about to be done is known"


def test_a_fault_whose_heal_failed_was_injected_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nemesis_loop, "_STEP_S", 0.05)
    stuck = Stuck(broken=("f1",))
    loop = loop_of(stuck)
    with pytest.raises(HarnessError):
        asyncio.run(loop.run([plan("f1", 5)]))
    assert asyncio.run(loop.finish())
    assert loop.records["f1"].injected_at == 7


class Odd(Told):
    """Gives a figure that is none at one step, and says that all is well."""

    def __init__(self, step: str) -> None:
        super().__init__()
        self.step = step

    def made(self, step: str, record: LandingRecord) -> LandingRecord:
        before = {"n1": math.nan if step == self.step else 1.0}
        signal = Signal(signal="s", before=before, during={"n1": 2}, moved=True)
        return replace(record, victim=signal, landed="yes")

    async def inject(self, ctx: NemesisContext, plan: FaultPlan) -> LandingRecord:
        return self.made("inject", await super().inject(ctx, plan))

    async def recheck(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        return self.made("recheck", record)

    async def heal(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        return self.made("heal", await super().heal(ctx, record))


@pytest.mark.parametrize("step", ["inject", "recheck", "heal"])
def test_a_figure_that_is_none_proves_nothing(step: str) -> None:
    loop = loop_of(Odd(step))
    asyncio.run(loop.run([plan("f1", 5)]))
    record = loop.records["f1"]
    assert record.landed == "no"
    assert record.notes == [f"{step}() of told gave victim.before.n1 = nan, which proves nothing"]
    assert msgspec.json.decode(json.dumps(msgspec.to_builtins(record)))


@pytest.mark.parametrize("answer", [None, "landed", SimpleNamespace(landed="yes")])
def test_what_is_no_record_is_named(answer: Any) -> None:
    told: Any = Told()

    async def inject(*_: object) -> Any:
        return answer

    told.inject = inject
    with pytest.raises(ConfigError, match=r"Told\.inject\(\) answers .*a LandingRecord"):
        asyncio.run(loop_of(told).run([plan("f1", 5)]))


def test_an_audit_of_another_type_is_a_leak() -> None:
    told: Any = Told()

    async def audit(_: object) -> Any:
        return {"n1": [math.nan]}

    told.audit = audit
    assert "leak audit failed" in asyncio.run(loop_of(told).audit())["cluster"][0]
