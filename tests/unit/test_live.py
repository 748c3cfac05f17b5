"""What a run says while it lasts: the snapshot, its file, counters that tick, and nothing of it in
what is judged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import msgspec
import pytest
from made_runs import made, registers

from dstest.core.clock import RunClock, monotonic_ns
from dstest.core.errors import LabError
from dstest.core.evidence import LandingRecord, Signal
from dstest.core.live import LIVE, LIVE_PARTIAL, LIVE_SCHEMA, Live, read_live
from dstest.core.protocols import FaultPlan, Lab, Nemesis, NemesisContext, Ticks, Timing
from dstest.core.run_record import RunSpec
from dstest.history.layout import RunDir
from dstest.history.sums import compare_sums
from dstest.runner import live as runner_live
from dstest.runner import stand_watch
from dstest.runner.board import Board
from dstest.runner.epochs import NoEpochs
from dstest.runner.live import LiveRun, state_of
from dstest.runner.load import LoadTraffic, NoTraffic
from dstest.runner.nemesis_loop import NemesisLoop
from dstest.runner.plugins import resolve
from dstest.runner.screen import Quiet, picture
from dstest.runner.session import recover, run_session
from dstest.runner.stand_watch import Ticker

pytestmark = pytest.mark.slow

S = 1_000_000_000


class Shown(Quiet):
    """Keeps what it is to show, or fails."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[Live | None] = []
        self.broken = False

    def live(self, now: Live | None) -> None:
        if self.broken:
            raise ZeroDivisionError
        self.shown.append(now)


NOTHING = dict.fromkeys(
    ("ok", "fail", "unknown", "ok_elsewhere", "fail_elsewhere", "unknown_elsewhere"), 0
)


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    made_board = Board(tmp_path / ".board", 2, 3, create=True)
    yield made_board
    made_board.close()


@pytest.mark.parametrize(
    ("since", "under_way", "state"),
    [
        ({}, 0, "idle"),
        ({}, 1, "silent"),
        ({"unknown": 3}, 0, "silent"),
        ({"fail": 1, "unknown": 3}, 0, "refusing"),
        ({"ok_elsewhere": 5}, 1, "elsewhere"),
        ({"unknown_elsewhere": 5}, 0, "silent"),
        ({"ok": 1, "fail": 100}, 9, "answering"),
    ],
)
def test_the_state_of_a_node(since: dict[str, int], under_way: int, state: str) -> None:
    assert state_of({**NOTHING, **since}, under_way) == state


class Counting(Nemesis):
    """A nemesis whose counter goes up by seven each time it is read."""

    name = "counting"

    def __init__(self) -> None:
        self.read = 0

    async def ticks(self, ctx: NemesisContext, record: LandingRecord) -> Ticks | None:
        self.read += 1
        return Ticks("packets cut", 7 * self.read)


def context() -> NemesisContext:
    deployment: Any = SimpleNamespace(timing=Timing())
    return NemesisContext(
        nodes={}, lab=cast(Any, None), deployment=deployment, clock=RunClock(monotonic_ns()),
        traffic=NoTraffic(), epochs=NoEpochs(),
    )  # fmt: skip


def fault(name: str = "f1", **more: Any) -> LandingRecord:
    row: dict[str, Any] = {"injected_at": 5, "landed": "yes", "targets": ["n3"], **more}
    return LandingRecord(fault_id=name, nemesis="counting", scheduled_at=0, epoch=name, **row)


def loop_of(nemesis: Any) -> NemesisLoop:
    journal: Any = SimpleNamespace(fault=lambda record: None)
    return NemesisLoop(nemesis, context(), journal, lambda said: None)


def plan(name: str, start_s: float) -> FaultPlan:
    return FaultPlan(
        fault_id=name, nemesis="counting", start_ns=int(start_s * S), duration_ns=5 * S
    )


def load(board: Board, ok: int) -> None:
    """Operations of the three nodes: one answers, one refuses, one says nothing."""
    for node, outcome in enumerate(("ok", "fail", None)):
        for _ in range(ok):
            board.invoked(node % 2, node, 0)
            if outcome is not None:
                board.completed(node % 2, node, outcome, elsewhere=False)  # type: ignore[arg-type]


def test_one_snapshot_for_all_who_watch(tmp_path: Path, board: Board) -> None:
    run, ui = RunDir(tmp_path), Shown()
    shown = ui.shown
    told = LiveRun(run, ui, RunSpec(system="[red]db[/red]", seed=7, time_limit_s=60))
    told.phase("lab")
    assert read_live(tmp_path) == shown[-1]
    assert shown[-1] is not None
    assert (shown[-1].phase, shown[-1].left_s, shown[-1].nodes) == ("lab", None, [])

    loop = loop_of(Counting())
    loop.standing["f1"] = fault()
    loop.records["f1"] = loop.standing["f1"]
    asyncio.run(loop.ticker.until(loop._ctx.clock.now_ns() + 2 * S, loop.standing))
    clock = RunClock(monotonic_ns() - 10 * S)
    told.loads(
        LoadTraffic(board, ["n1", "n2", "n3"], ["n1", "n2", "n3"]),
        clock,
        loop,
        [plan("f1", 1), plan("f2", 30), plan("f3", 50)],
    )
    load(board, 20)
    ui.phase("load")
    asyncio.run(asyncio.sleep(0.5))
    told.publish()
    now = shown[-1]
    assert now is not None
    assert read_live(tmp_path) == now
    assert (now.ops.invoked, now.ops.ok, now.ops.fail) == (60, 20, 20)
    assert now.rate_per_s == now.rates[-1] > 0
    assert [(n.name, n.state) for n in now.nodes] == [
        ("n1", "answering"), ("n2", "refusing"), ("n3", "silent"),
    ]  # fmt: skip
    assert 49 < (now.left_s or 0) < 50
    (row,) = now.faults
    assert (row.id, row.on, row.state) == ("f1", ["n3"], "landed")
    assert row.counter is not None
    assert (row.counter.name, row.counter.before, row.counter.now) == ("packets cut", 0, 7)
    assert now.next_fault is not None
    assert now.next_fault.id == "f2"
    assert now.faults_left == 2
    plain = msgspec.json.decode((tmp_path / LIVE).read_bytes())
    assert plain["schema"] == "dstest.live/1"
    assert set(plain["faults"][0]["counter"]) >= {"name", "before", "now"}

    told.unload()
    told.publish()
    assert shown[-1] is not None
    assert (shown[-1].ops.ok, shown[-1].nodes, shown[-1].rate_per_s) == (20, [], 0.0)
    assert shown[-1].elapsed_s >= now.elapsed_s > 10, "time counts from the load, to the end"
    told.close()
    told.publish()
    assert shown[-1] is None
    assert not list(tmp_path.glob("*live*"))
    assert not list(tmp_path.glob(".live*"))


@pytest.mark.parametrize("proven", [True, False])
def test_a_heal_that_is_not_proven_stays_in_view(
    tmp_path: Path, board: Board, proven: bool
) -> None:
    ui = Shown()
    told = LiveRun(RunDir(tmp_path), ui, RunSpec(system="db", seed=7, time_limit_s=60))
    loop = loop_of(Counting())
    loop.records["f1"] = fault(healed_at=9, heal_verified=proven)
    clock = RunClock(monotonic_ns() - 10 * S)
    told.loads(
        LoadTraffic(board, ["n1", "n2", "n3"], ["n1", "n2", "n3"]), clock, loop, [plan("f1", 1)]
    )
    ui.phase("load")
    told.publish()
    now = ui.shown[-1]
    assert now is not None
    assert (now.faults, now.unhealed) == ([], [] if proven else ["f1 counting"])
    words = "\n".join(line.plain for line in picture(now))
    assert ("none stands" in words) == proven
    assert ("f1 counting: its heal is not proven" in words) != proven
    assert "whole" not in words
    told.close()


def test_what_cannot_be_written_or_drawn_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / LIVE).mkdir()  # cannot be replaced by a file
    ui = Shown()
    told = LiveRun(RunDir(tmp_path), ui, RunSpec())
    told.publish()
    assert len(ui.shown) == 1
    assert not (tmp_path / LIVE_PARTIAL).exists()

    ui.broken = True
    told.publish()

    async def a_moment() -> None:
        monkeypatch.setattr(runner_live, "_EVERY_S", 0.01)
        watch = asyncio.create_task(told.watch())
        await asyncio.sleep(0.1)
        assert not watch.done()
        watch.cancel()

    asyncio.run(a_moment())


class Broken(Counting):
    async def ticks(self, ctx: NemesisContext, record: LandingRecord) -> Ticks | None:
        self.read += 1
        if self.read == 1:
            return Ticks("packets cut", 3)
        if record.fault_id == "quits":
            raise SystemExit(0)
        raise LabError("the node does not answer")


@pytest.mark.parametrize("name", ["f1", "quits"])
def test_a_counter_that_cannot_be_read_stands_with_its_age(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stand_watch, "_EVERY_NS", S // 10)
    monkeypatch.setattr(stand_watch, "_STOOD_EVERY_NS", S // 10)
    monkeypatch.setattr(stand_watch, "_CLEAR_NS", S // 5)
    nemesis, ctx = Broken(), context()
    ticker = Ticker(cast(Any, nemesis), ctx)
    record = fault(name)
    assert ticker.counter(record) is None
    asyncio.run(ticker.until(ctx.clock.now_ns() + S, {name: record}))
    counter = ticker.counter(record)
    assert counter is not None
    assert counter.now == 3
    assert counter.age_s >= 0.8
    assert 2 <= nemesis.read <= 5, "asked less and less often"


def test_no_reading_is_under_way_when_the_next_look_is_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Slow(Counting):
        began: list[int] = []
        ended: list[int] = []

        async def ticks(self, ctx: NemesisContext, record: LandingRecord) -> Ticks | None:
            self.began.append(ctx.clock.now_ns())
            try:
                await asyncio.sleep(30)
            finally:
                self.ended.append(ctx.clock.now_ns())
            return None

    monkeypatch.setattr(stand_watch, "_LIMIT_S", 0.1)
    monkeypatch.setattr(stand_watch, "_CLEAR_NS", S // 5)
    monkeypatch.setattr(stand_watch, "_EVERY_NS", S // 20)
    ctx, slow = context(), Slow()
    due_ns = ctx.clock.now_ns() + S
    asyncio.run(Ticker(cast(Any, slow), ctx).until(due_ns, {"f1": fault()}))
    assert slow.began
    assert max(slow.ended) < due_ns <= ctx.clock.now_ns()


def test_nothing_is_read_of_a_fault_that_is_not_there_yet_or_has_no_counter() -> None:
    nemesis, ctx = Counting(), context()
    later_ns = ctx.clock.now_ns() + 2 * S
    early = fault(injected_at=None, landed="no")
    asyncio.run(Ticker(cast(Any, nemesis), ctx).until(later_ns, {"f1": early}))
    assert nemesis.read == 0
    silent = Ticker(cast(Any, SimpleNamespace(name="bare")), ctx)
    asyncio.run(silent.until(ctx.clock.now_ns() + S // 10, {"f1": fault()}))
    assert silent.counter(fault()) is None


def test_what_a_dead_run_left_is_in_no_sum_and_recover_removes_it(tmp_path: Path) -> None:
    run, _ = made(tmp_path / "run", registers(count=700), "register")
    kept = (run.path / "sha256sums").read_text()
    (run.path / LIVE).write_bytes(b'{"schema": "dstest.live/1", "phase": "load"')
    (run.path / LIVE_PARTIAL).write_bytes(b"{")
    assert not any(compare_sums(run.path)), "a finished run is not harmed by it"
    assert read_live(run.path) is None
    (run.path / "sha256sums").unlink()
    (run.path / "verdict.json").unlink()
    run.write_status("running")
    recover(run.path)
    assert not (run.path / LIVE).exists()
    assert not (run.path / LIVE_PARTIAL).exists()
    assert not any(compare_sums(run.path))
    assert LIVE not in (run.path / "sha256sums").read_text() + kept


def test_the_detail_of_a_fault_without_a_counter() -> None:
    loop = loop_of(SimpleNamespace(name="bare"))
    seen = Signal(signal="pid", before={"n3": 1}, during={"n3": 2}, moved=True, detail="n3: gone")
    record = fault(injector=seen, landed="ambiguous")
    row = runner_live._fault(loop, record, 3 * S)
    assert (row.counter, row.detail, row.state) == (None, "n3: gone", "in doubt")
    loop.healing = "f1"
    assert runner_live._fault(loop, record, 3 * S).state == "healing"
    assert LIVE_SCHEMA == "dstest.live/1"


class NoLab(Lab):
    """A lab that does not come up; what the run says of itself meanwhile is kept."""

    name = "lxc"

    def __init__(self, store: Path) -> None:
        self._store = store
        self.seen: Live | None = None

    def missing(self) -> dict[str, str]:
        return {}

    def status(self, lab_id: str) -> None:
        return None

    def up(self, lab_id: str, nodes: int, **given: Any) -> NoReturn:
        given["progress"]("starting nodes")
        (run,) = self._store.glob("*/2*")
        self.seen = read_live(run)
        raise LabError("there is no bridge", remedy="make one")


def test_a_run_tells_from_its_first_phase_and_leaves_nothing(tmp_path: Path) -> None:
    plugins = resolve(RunSpec(seed=3, time_limit_s=30), [])
    lab = NoLab(tmp_path)
    ui = Shown()
    with pytest.raises(LabError):
        run_session(msgspec.structs.replace(plugins, lab=lab), store=tmp_path, ui=ui)
    assert lab.seen is not None
    assert (lab.seen.phase, lab.seen.left_s) == ("lab", None)
    assert lab.seen in ui.shown
    assert ui.shown[-1] is None
    (run,) = tmp_path.glob("*/2*")
    assert (run / "status").read_text() == "error: there is no bridge\n"
    assert not [path.name for path in run.iterdir() if "live" in path.name]
