"""A run that tells how it goes while it lasts: one snapshot a second, to who watches it here and
to `live.json` for who watches from elsewhere.

Watching never ends a run: what cannot be told, drawn or written is left out. The snapshot is made
in the loop of the control process: a thread could take the interpreter's lock between the
announcing of a fault window and its edge.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from dstest.core import clock
from dstest.core.clock import RunClock
from dstest.core.evidence import LandingRecord
from dstest.core.live import (
    LIVE,
    LIVE_PARTIAL,
    RATES_MAX,
    FaultNow,
    Live,
    NextFault,
    NodeNow,
    NodeState,
    Ops,
    forget_live,
)
from dstest.core.protocols import FaultPlan
from dstest.core.run_record import RunSpec
from dstest.history.layout import RunDir
from dstest.runner.load import KINDS, LoadTraffic
from dstest.runner.nemesis_loop import NemesisLoop
from dstest.runner.screen import Progress

_EVERY_S: Final = 1.0
_NODES_S: Final = 5
"""So many looks back a node's operations count for what it is doing."""

_DETAIL_MAX: Final = 200
_UNHEALED_MAX: Final = 4
_LANDED: Final[dict[str, Literal["landed", "in doubt", "not landed"]]] = {
    "yes": "landed",
    "ambiguous": "in doubt",
    "no": "not landed",
}

Rows = dict[str, dict[str, int]]


class _Loaded(msgspec.Struct, frozen=True):
    """Where the figures of a load come from."""

    traffic: LoadTraffic
    clock: RunClock
    faults: NemesisLoop
    plans: Sequence[FaultPlan]
    limit_s: float


def state_of(since: dict[str, int], under_way: int) -> NodeState:
    """What a node is doing, by how operations of its clients ended lately (`Traffic.by_node`) and
    how many are under way."""
    if since["ok"]:
        return "answering"
    if since["fail"]:
        return "refusing"
    if since["ok_elsewhere"] or since["fail_elsewhere"]:
        return "elsewhere"
    asked = under_way or since["unknown"] or since["unknown_elsewhere"]
    return "silent" if asked else "idle"


def _under_way(row: dict[str, int]) -> int:
    ended = sum(n for kind, n in row.items() if kind != "invoked")
    return row["invoked"] - ended


class LiveRun:
    """The one place where a snapshot is made. `publish` at any time; `watch` does each second."""

    def __init__(self, run: RunDir, ui: Progress, spec: RunSpec) -> None:
        self.ui = ui
        self._run, self._spec = run, spec
        what = f"{spec.system} {spec.workload} {spec.nemesis}"
        self._title = f"{what} {spec.nodes} nodes seed {spec.seed}"
        self._began_ns = clock.monotonic_ns()
        self._loaded: _Loaded | None = None
        self._ops = Ops()
        self._nodes: list[NodeNow] = []
        self._rows: deque[tuple[int, Rows]] = deque(maxlen=_NODES_S + 1)
        self._rates: deque[float] = deque(maxlen=RATES_MAX)
        self._ended = False

    def phase(self, name: str, detail: str = "") -> None:
        """A phase begins in which nobody calls `watch`."""
        self.ui.phase(name, detail)
        self.publish()

    def say(self, text: str) -> None:
        """A line of such a phase."""
        self.ui.say(text)
        self.publish()

    def loads(
        self,
        traffic: LoadTraffic,
        run_clock: RunClock,
        faults: NemesisLoop,
        plans: Sequence[FaultPlan],
    ) -> None:
        """The load begins, and time counts from here."""
        self._began_ns = run_clock.origin_ns
        self._loaded = _Loaded(traffic, run_clock, faults, plans, self._spec.time_limit_s)
        self._rows.append((run_clock.now_ns(), traffic.by_node()))

    def unload(self) -> None:
        """The load is over, and its counters are about to go."""
        self._loaded, self._nodes = None, []
        self._rates.clear()

    async def watch(self) -> None:
        """Publish each second until cancelled."""
        while True:
            self.publish()
            await asyncio.sleep(_EVERY_S)

    def publish(self) -> None:
        """Tell how it stands."""
        if self._ended:
            return
        with contextlib.suppress(Exception):
            live = self._snapshot()
            self._write(live)
            self.ui.live(live)

    def close(self) -> None:
        """Nothing more is told, and the file is gone; it comes before a run is sealed."""
        self._ended = True
        with contextlib.suppress(OSError):
            forget_live(self._run.path)
        with contextlib.suppress(Exception):
            self.ui.live(None)

    def _write(self, live: Live) -> None:
        """Replace the file. What a full disk refuses is not there until there is space again."""
        partial = self._run.path / LIVE_PARTIAL
        try:
            partial.write_bytes(msgspec.json.encode(live))
            partial.replace(self._run.path / LIVE)
        except OSError:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)

    def _snapshot(self) -> Live:
        loaded, phases = self._loaded, self.ui.phases
        live = Live(
            pid=os.getpid(),
            phase=phases[-1] if phases else "",
            at_ns=clock.wall_ns(),
            elapsed_s=round((clock.monotonic_ns() - self._began_ns) / 1e9, 3),
            phases=list(phases),
            title=self._title,
        )
        if loaded is not None:
            now_ns = loaded.clock.now_ns()
            self._count(loaded, now_ns)
            due, left = _next(loaded, now_ns)
            loading = live.phase == "load"
            live = msgspec.structs.replace(
                live,
                left_s=round(max(0.0, loaded.limit_s - now_ns / 1e9), 3) if loading else None,
                faults=_faults(loaded, now_ns),
                unhealed=_unhealed(loaded.faults),
                next_fault=due if loading else None,
                faults_left=left if loading else 0,
            )
        return msgspec.structs.replace(
            live,
            ops=self._ops,
            nodes=self._nodes,
            rates=list(self._rates),
            rate_per_s=self._rates[-1] if self._rates else 0.0,
        )

    def _count(self, loaded: _Loaded, now_ns: int) -> None:
        """How far operations are, by the board."""
        rows = loaded.traffic.by_node()
        total = loaded.traffic.total()
        last_ns, _ = self._rows[-1]
        if now_ns - last_ns >= 0.4 * _EVERY_S * 1e9:
            ended = total["ok"] - self._ops.ok
            self._rates.append(round(ended / ((now_ns - last_ns) / 1e9), 1))
            self._rows.append((now_ns, rows))
            self._ops = Ops(**{kind: total[kind] for kind in KINDS})
        _, earlier = self._rows[0]
        self._nodes = [_node(name, row, earlier.get(name, {})) for name, row in rows.items()]


def _node(name: str, row: dict[str, int], earlier: dict[str, int]) -> NodeNow:
    since = {kind: count - earlier.get(kind, 0) for kind, count in row.items()}
    return NodeNow(
        name=name,
        ok=since["ok"],
        fail=since["fail"],
        unknown=since["unknown"],
        state=state_of(since, _under_way(row)),
    )


def _faults(loaded: _Loaded, now_ns: int) -> list[FaultNow]:
    return [_fault(loaded.faults, record, now_ns) for record in loaded.faults.standing.values()]


def _unhealed(faults: NemesisLoop) -> list[str]:
    """Faults that were taken back, which nothing has proven; the last ones of many."""
    return [
        f"{record.fault_id} {record.nemesis}"
        for record in faults.records.values()
        if record.fault_id not in faults.standing
        and record.healed_at is not None
        and not record.heal_verified
    ][-_UNHEALED_MAX:]


def _fault(faults: NemesisLoop, record: LandingRecord, now_ns: int) -> FaultNow:
    injected_ns, injector = record.injected_at, record.injector
    since_s = 0.0 if injected_ns is None else max(0.0, (now_ns - injected_ns) / 1e9)
    state: Literal["injecting", "landed", "in doubt", "not landed", "healing"]
    state = "injecting" if injected_ns is None else _LANDED[record.landed]
    return FaultNow(
        id=record.fault_id,
        nemesis=record.nemesis,
        on=list(record.targets),
        state="healing" if faults.healing == record.fault_id else state,
        since_s=round(since_s, 1),
        counter=faults.ticker.counter(record),
        detail="" if injector is None else injector.detail[:_DETAIL_MAX],
    )


def _next(loaded: _Loaded, now_ns: int) -> tuple[NextFault | None, int]:
    """The next planned fault, and how many are left."""
    begun = {*loaded.faults.records, *loaded.faults.standing}
    left = [plan for plan in loaded.plans if plan.fault_id not in begun]
    if not left:
        return None, 0
    plan = left[0]
    in_s = max(0.0, (plan.start_ns - now_ns) / 1e9)
    return NextFault(id=plan.fault_id, nemesis=plan.nemesis, in_s=round(in_s, 1)), len(left)
