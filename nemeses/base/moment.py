"""A moment for a fault of any nemesis: `-o NEMESIS.at=` waits for a point of the program, or for a
line of a log, when all is ready for the fault, and then it begins.

    -o partition.at=function:NAME    as `-o at=` of aimed has it, but for `any:`
    -o partition.at=log:REGEX        a line that the server logs from then on

The nemesis knows nothing of it: its driver asks `wait` when victims are chosen and leases are
armed, and `let_go` when the fault was applied. In between the thread that has come to the point
stands, and the others run, for `hold_ms` at most: a fault that begins later than that is in doubt,
since the moment was over. Of a line in a log nobody can be held. Whoever comes first decides; all
that is traced is let go when the fault has begun. What came is a fact of the record (`moment`).

Injector of the moment: what the program on the node counts, by a process of the server. A point
that nobody has come to: nothing is injected, which is not landed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

from dstest.core import clock, limits
from dstest.core.errors import ConfigError, DstestError, LabError
from dstest.core.evidence import LandingRecord
from dstest.core.protocols import (
    FaultPlan,
    LogFiles,
    Nemesis,
    NemesisContext,
    Option,
)
from nemeses.observe.processes import running
from nemeses.tools import aim
from nemeses.tools.compiled import HOME

LOG: Final = "log:"
LOOK_S: Final = 0.03
_SLACK_S: Final = 5.0
_FOLLOWER: Final = f"{HOME}/aim-log.py"
_GUARD: Final = "/run/dstest-aim-log"
"""As long as it is there, logs are followed."""

_AGENT: Final = Path(aim.__file__).parent / "agent_log.py"

OPTIONS: Final[Mapping[str, Option]] = {
    "at": Option(type=str, default="", help="the fault begins there: a point, or log:REGEX"),
    "hit": Option(type=int, default=0, least=0, most=1_000_000_000, help="at which hit; 0: first"),
    "reach_s": Option(type=float, default=10.0, least=1, most=60, help="how long it is waited for"),
    "hold_ms": Option(
        type=float, default=1000.0, least=0, most=10_000, help="the thread stands meanwhile"
    ),
    "on": Option(
        type=str,
        default="targets",
        choices=("targets", "all"),
        help="whose programs: of the fault's targets, or of all members",
    ),
}
"""Of each nemesis, as `NEMESIS.key`."""


class MomentSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is waited for, as a plan has it (`moment` of its facts)."""

    at: str
    hit: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)] = 1
    reach_s: Annotated[float, msgspec.Meta(ge=1, le=60)] = 10.0
    hold_ms: Annotated[float, msgspec.Meta(ge=0, le=10_000)] = 1000.0
    on: Literal["targets", "all"] = "targets"


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """What came: where, at which hit, by which process and thread of it; or the line that was
    logged. `hits` are those that were counted by member, whether it came or not."""

    name: str = ""
    pid: int = 0
    tid: int = 0
    file: str = ""
    line: str = ""
    hits: Mapping[str, int] = {}


class Source(ABC):
    """One way to see a moment. `names` are the members on which it is looked for, `held` says
    whether the thread that came there stands until it is let go. `armed_ns` is by member a time,
    by our clock, before which it cannot have come."""

    names: Sequence[str]
    held: bool
    armed_ns: dict[str, int]

    @abstractmethod
    async def arm(self) -> str:
        """Why it cannot be waited for; empty where it is from now on."""

    @abstractmethod
    async def look(self) -> Arrival:
        """What has come by now; without a `name` nothing has."""

    @abstractmethod
    async def release(self) -> None:
        """Let go of all, whatever has become of the nodes."""


def spec_of(values: Mapping[str, Any]) -> MomentSpec:
    """The moment that options ask for. ConfigError where it is none."""
    at = values["at"]
    if at.startswith(LOG):
        try:
            every = re.compile(at.removeprefix(LOG)).search("") is not None
        except re.error as error:
            raise ConfigError(f"{at}: {error}", remedy="a regular expression of Python") from None
        if every:
            raise ConfigError(f"{at} fits any line", remedy="log:'became leader'")
        return MomentSpec(**{**values, "hit": values["hit"] or 1})
    steps, hit = aim.parse(at)
    if steps[0].kind == "any":
        raise ConfigError(f"at={at}: of aimed alone", remedy="--nemesis aimed, or a point by name")
    return MomentSpec(**{**values, "hit": values["hit"] or hit})


def options_of(parts: Sequence[Nemesis], pairs: Sequence[str]) -> dict[str, Option]:
    """The options of moments of those nemeses for which one is asked for. ConfigError for one that
    cannot wait for any."""
    found: dict[str, Option] = {}
    for part in parts:
        own = {f"{part.name}.{key}": option for key, option in OPTIONS.items()}
        if f"{part.name}.at=" in pairs:
            raise ConfigError(
                f"-o {part.name}.at=: without a moment",
                remedy="function:NAME, syscall:NAME or log:REGEX",
            )
        if not any(pair.startswith(f"{part.name}.at=") for pair in pairs):
            continue
        if "at" in part.options or not part.injects:
            raise ConfigError(
                f"-o {part.name}.at=: {part.name} waits for no moment",
                remedy="`-o at=` of aimed, or another nemesis, as -o partition.at=function:NAME",
            )
        found |= own
    return found


def keys(parts: Sequence[Nemesis]) -> set[str]:
    """Names of the options of moments that its faults may wait for."""
    return {f"{part.name}.{key}" for part in parts for key in OPTIONS}


def with_moments(
    plans: list[FaultPlan], parts: Sequence[Nemesis], options: Mapping[str, Any]
) -> list[FaultPlan]:
    """The plans, with the moments that their faults wait for. ConfigError where one is none."""
    wanted = {}
    for part in parts:
        values = {key: options.get(f"{part.name}.{key}") for key in OPTIONS}
        if values["at"]:
            wanted[part.name] = msgspec.to_builtins(spec_of(values))
    if not wanted:
        return plans
    return [
        msgspec.structs.replace(plan, facts={**plan.facts, "moment": wanted[plan.nemesis]})
        if plan.nemesis in wanted
        else plan
        for plan in plans
    ]


def spec_in(plan: FaultPlan) -> MomentSpec | None:
    """What this fault is to wait for; None where it begins when it is due. ConfigError where a
    schedule says what is none."""
    wanted = plan.facts.get("moment")
    if wanted is None:
        return None
    try:
        found = msgspec.convert(wanted, MomentSpec)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{plan.fault_id}: moment: {error}", remedy="-o NEMESIS.at=") from None
    return spec_of(msgspec.to_builtins(found))


def moment_of(ctx: NemesisContext, plan: FaultPlan) -> Moment | None:
    """What this fault waits for in this run; None where it begins when it is due."""
    wanted = spec_in(plan)
    return None if wanted is None else Moment(ctx, wanted)


class Moment:
    """The moment of one fault."""

    def __init__(self, ctx: NemesisContext, wanted: MomentSpec) -> None:
        self._ctx, self._wanted = ctx, wanted
        self._source: Source | None = None
        self._unmet_ns = 0
        """When it had not come yet, by our clock."""
        self._came = ""

    async def wait(self, record: LandingRecord) -> LandingRecord:
        """Wait for it. The record with what came, or with a note that nothing was injected."""
        names = record.targets if self._wanted.on == "targets" else list(self._ctx.nodes)
        kind: type[_LogLine | _Point] = _LogLine if self._wanted.at.startswith(LOG) else _Point
        source: Source = kind(self._ctx, self._wanted, names or list(self._ctx.nodes))
        self._source = source
        lease = f"{record.fault_id}-at"
        nodes = [self._ctx.node(name) for name in source.names]
        off = [["sh", "-c", f"rm -f {_GUARD}; [ ! -x {aim.OFF} ] || {aim.OFF}"]]
        for node in nodes:
            await node.arm_lease(lease, off, ttl_s=limits.LEASE_TTL_S)
        try:
            why = await source.arm()
            came = Arrival() if why else await self._waited(source)
        except LabError as error:
            why, came = error.message, Arrival()
        if came.name:
            self._came = came.name
            return _with(record, self._wanted, came)
        await self._over(record)
        why = why or _never(self._wanted, came)
        return msgspec.structs.replace(
            _with(record, self._wanted, came), notes=[f"nothing was injected: {why}"]
        )

    async def _waited(self, source: Source) -> Arrival:
        until_ns = clock.monotonic_ns() + int(self._wanted.reach_s * 1e9)
        while True:
            asked_ns = clock.monotonic_ns()
            came = await source.look()
            if came.name or asked_ns > until_ns:
                return came
            self._unmet_ns = asked_ns
            await asyncio.sleep(LOOK_S)

    async def let_go(self, record: LandingRecord) -> tuple[LandingRecord, str]:
        """The fault was applied: let all go. (The record with how long that took at most, why that
        was too late or empty.)"""
        assert self._source is not None
        since_ns = max(self._unmet_ns, self._source.armed_ns[self._came])
        late_ms = round((clock.monotonic_ns() - since_ns) / 1e6, 1)
        await self._over(record)
        held = self._source.held and late_ms <= self._wanted.hold_ms
        told = {**record.facts["moment"], "begun_within_ms": late_ms, "held": held}
        record = msgspec.structs.replace(record, facts={**record.facts, "moment": told})
        if not self._source.held or held:
            return record, ""
        stood = f"the thread that came to {self._wanted.at} stood for {self._wanted.hold_ms:g} ms"
        return record, f"{stood}, and the fault had begun {late_ms:g} ms after it at the latest"

    async def _over(self, record: LandingRecord) -> None:
        assert self._source is not None
        await self._source.release()
        for name in self._source.names:
            with contextlib.suppress(DstestError):  # the fault may have taken the node
                await self._ctx.node(name).release_lease(f"{record.fault_id}-at")


def _with(record: LandingRecord, wanted: MomentSpec, came: Arrival) -> LandingRecord:
    told = {**msgspec.to_builtins(wanted), **msgspec.to_builtins(came)}
    return msgspec.structs.replace(record, facts={**record.facts, "moment": told})


def _never(wanted: MomentSpec, came: Arrival) -> str:
    hits = sum(came.hits.values())
    of = f"{hits} of {wanted.hit} hits" if hits else "never reached"
    where = ", ".join(came.hits)
    return f"{wanted.at}: {of} in {wanted.reach_s:g} s" + (f" on {where}" if where else "")


def sentence(moment: Mapping[str, Any]) -> str:
    """What came, for the record's injector signal."""
    if not moment.get("name"):
        return ""
    who = f"process {moment['pid']}" if moment["pid"] else f"a line {moment['line'][:80]!r}"
    if moment["pid"]:
        who = f"thread {moment['tid']} of {who}"
    when = f"the fault began within {moment.get('begun_within_ms', 0):g} ms"
    stood = "while it stood" if moment.get("held") else "which nothing held"
    return f"at its moment: {moment['name']}: {who} came to {moment['at']}, {when}, {stood}"


class _Point(Source):
    """A point of the server's program."""

    def __init__(self, ctx: NemesisContext, wanted: MomentSpec, names: Sequence[str]) -> None:
        self._ctx, self._wanted, self.names = ctx, wanted, names
        self.held, self.armed_ns = wanted.hold_ms > 0, {}
        self._pids: dict[str, list[int]] = {}

    async def arm(self) -> str:
        steps, _ = aim.parse(self._wanted.at)
        self._pids = {n: [p.pid for p in rows] for n, rows in (await running(self._ctx)).items()}
        lacking = [name for name in self.names if not self._pids.get(name)]
        if lacking:
            return f"no server runs on {', '.join(lacking)}"
        await aim.install("a moment", [self._ctx.node(name) for name in self.names])
        then = f"delay {int(self._wanted.hold_ms * 1000)}" if self.held else "count"
        found = await asyncio.gather(*(self._arm(name, steps, then) for name in self.names))
        return "; ".join(filter(None, found))

    async def _arm(self, name: str, steps: Sequence[aim.Step], then: str) -> str:
        """Why it is not armed there. An error is no exception: who is armed meanwhile on another
        member would not be waited for, and would not be let go."""
        node = self._ctx.node(name)
        try:
            seen = await aim.sight(node, self._pids[name], steps)
            if isinstance(seen, str):
                return f"{name}: {seen}"
            spec = aim.spec_of(seen, steps, hit=self._wanted.hit, times=1, then=then)
            self.armed_ns[name] = clock.monotonic_ns()
            await aim.start(node, spec)
        except LabError as error:
            return error.message
        return ""

    async def look(self) -> Arrival:
        rows = await asyncio.gather(*(aim.status_of(self._ctx.node(n)) for n in self.names))
        hits = {n: row.hits for n, row in zip(self.names, rows, strict=True)}
        for name, row in zip(self.names, rows, strict=True):
            if row.fired and row.root in self._pids[name] and not row.lost:
                return Arrival(name=name, pid=row.pid, tid=row.tid, file=row.file, hits=hits)
        return Arrival(hits=hits)

    async def release(self) -> None:
        async def one(name: str) -> None:
            with contextlib.suppress(DstestError):
                await aim.stop(self._ctx.node(name))

        await asyncio.gather(*map(one, self.names))


class _LogLine(Source):
    """A line of a server's log, by an agent on the node that follows it."""

    held = False

    def __init__(self, ctx: NemesisContext, wanted: MomentSpec, names: Sequence[str]) -> None:
        self._ctx, self._wanted = ctx, wanted
        logs = ctx.offered(LogFiles)
        self._files = {} if logs is None else logs.log_files()
        self.names = [name for name in names if self._files.get(name)]
        self.armed_ns = {}
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    async def arm(self) -> str:
        if not self.names:
            return "no member that it could be on keeps a log"
        for name in self.names:
            node = self._ctx.node(name)
            await node.put(_FOLLOWER, _AGENT.read_bytes())
            await node.put(_GUARD, b"")
            self.armed_ns[name] = clock.monotonic_ns()
            self._tasks[name] = asyncio.create_task(self._follow(name))
        return ""

    async def _follow(self, name: str) -> str:
        """The line, empty where none came."""
        pattern, reach_s = self._wanted.at.removeprefix(LOG), self._wanted.reach_s
        words = ["python3", _FOLLOWER, _GUARD, str(reach_s), str(self._wanted.hit), pattern]
        argv = [*words, *self._files[name]]
        done = await self._ctx.node(name).run(argv, timeout_s=reach_s + _SLACK_S)
        return str(json.loads(done.stdout or '""'))

    async def look(self) -> Arrival:
        for name, task in self._tasks.items():
            if task.done() and (line := task.result()):
                return Arrival(name=name, line=line)
        return Arrival()

    async def release(self) -> None:
        """Followers end when their guard is gone."""

        async def one(name: str) -> None:
            with contextlib.suppress(DstestError):
                await self._ctx.node(name).run(["rm", "-f", _GUARD], timeout_s=5.0, check=False)
            with contextlib.suppress(DstestError, ValueError):
                await self._tasks[name]

        await asyncio.gather(*map(one, self._tasks))
