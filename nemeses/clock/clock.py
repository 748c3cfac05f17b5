"""`clock`: server processes whose clock is wrong, by an offset or a rate, one process at a time.

Nodes that share a kernel share its clock, so nothing is set: what the vDSO answers to the processes
of the server is shifted, to all of them. What a shifted process forks is shifted as well. The host,
other processes and other nodes keep the right time.

Injector signal: the shift in force, read back from each process, and how often they have read the
shifted clock since. Victim signal: the time in the server's own answers, minus ours. Control: the
other servers and another process on each node tell the right time. It has healed when the vDSO of
each process is as the kernel made it and the server tells the right time again. A rate is proven by
its slope over half a minute, a strobe by answers that tell now one time, now the other. `monotonic`
shifts that clock as well, and is proven on who leads by the time that a lease has left.

Catalogue: N23 (offset), N24 (rate).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from dstest.core import clock
from dstest.core.errors import ConfigError, DstestError, LabError
from dstest.core.evidence import LandingRecord, ProcessDetails, Signal
from dstest.core.node import Node
from dstest.core.protocols import (
    Clocked,
    Leadership,
    NemesisContext,
    Option,
    Process,
    When,
)
from dstest.core.residue import Residue
from nemeses.base.driver import (
    SHOWS_IN_ITS_OWN_TRAFFIC,
    Facts,
    Healing,
    Observed,
    Proven,
    Reverted,
    Standing,
    nodes_of,
)
from nemeses.base.leadership import lead
from nemeses.base.process_fault import SERVICE_OPTION, ProcessFault, process_standing
from nemeses.clock import clock_evidence
from nemeses.clock.clock_evidence import expected_s, tolerance_s
from nemeses.observe.processes import processes_before, running
from nemeses.observe.servers import health_of, skews_of
from nemeses.tools.clock_tool import RESIDUE as SHIFTED
from nemeses.tools.clock_tool import TOOL, Patch, build, shift
from nemeses.tools.compiled import TOOLS


@runtime_checkable
class MonotonicTimer(Protocol):
    """Keeps time for leases by the monotonic clock of who leads."""

    async def grant_lease(self, ttl_s: int) -> int:
        """A lease that no client uses; its id. LabError where nobody grants one."""
        ...

    async def lease_left(self, name: str, lease: int) -> int | None:
        """Whole seconds that a lease has left by the word of this member; -1 where it has ended,
        None = no answer."""
        ...

    async def revoke_lease(self, lease: int) -> None:
        """End a lease; one that has ended already is no error."""
        ...


TTL_S: Final = 3600
"""Longer than any shift and any fault."""

POLL_S: Final = 0.04
WATCH_S: Final = 1.3
ANSWER_MAX_S: Final = 0.5


class End(msgspec.Struct, frozen=True):
    """When a lease will end on our clock, as `leader` of `term` has it, and how far off that is.

    No answer of a server carries its monotonic clock. But leases end by it, and who leads says how
    many whole seconds one has left: asked until the figure falls, it tells when the lease will end.
    A monotonic clock that was set forward by half a minute ends it half a minute earlier. Members
    that do not lead keep no such time, and a new leader gives each lease its whole time again: only
    one leader, and only while it leads, can be compared with itself.
    """

    leader: str
    term: int
    ends_s: float
    doubt_s: float


async def _end(ctx: NemesisContext, lease: int) -> End | None:
    timer = ctx.need(MonotonicTimer)
    led = await lead(ctx)
    leader, term = led.leader, led.epoch
    if leader is None or term is None:
        return None
    found: End | None = None
    last: int | None = None
    last_ns = 0
    deadline_ns = clock.monotonic_ns() + int(WATCH_S * 1e9)
    while clock.monotonic_ns() < deadline_ns:
        asked_ns = clock.monotonic_ns()
        left = await timer.lease_left(leader, lease)
        answered_ns = clock.monotonic_ns()
        if left is None or left < 0:
            return None
        if left + 1 == last and answered_ns - last_ns < ANSWER_MAX_S * 1e9:
            doubt_s = _half_s(last_ns, answered_ns)
            found = End(leader, term, _at_s(last_ns, answered_ns, left + 1), doubt_s)
            break
        # What is cut off is half a second, give or take as much.
        doubt_s = 0.5 + _half_s(asked_ns, answered_ns)
        found = End(leader, term, _at_s(asked_ns, answered_ns, left + 0.5), doubt_s)
        last, last_ns = left, asked_ns
        await asyncio.sleep(POLL_S)
    return found if await lead(ctx) == led else None


def _at_s(asked_ns: int, answered_ns: int, left_s: float) -> float:
    return (asked_ns + answered_ns) / 2e9 + left_s


def _half_s(asked_ns: int, answered_ns: int) -> float:
    return (answered_ns - asked_ns) / 2e9


async def grant(ctx: NemesisContext) -> dict[str, Any]:
    """What the record keeps of a lease of ours before the fault; {} where none can be had."""
    timer = ctx.need(MonotonicTimer)
    try:
        lease = await timer.grant_lease(TTL_S)
    except DstestError:
        return {}
    return {"id": lease, "before": msgspec.to_builtins(await _end(ctx, lease))}


async def observe(ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
    """The record with what the lease tells now; what it has once proven stays."""
    lease = record.facts["lease"]
    if not lease or lease.get("proof"):
        return record
    at_ns = ctx.clock.now_ns()
    found = await _end(ctx, lease["id"])
    proof, why = lease_ahead(record, found, at_ns)
    row = {**lease, "now": msgspec.to_builtins(found), "proof": proof, "why": why}
    return msgspec.structs.replace(record, facts={**record.facts, "lease": row})


def lease_ahead(
    record: LandingRecord, found: End | None, at_ns: int
) -> tuple[Mapping[str, Any] | None, str]:
    """(node and by how much its lease ran ahead, "") where that shows, else (None, why not)."""
    before = record.facts["lease"]["before"]
    if before is None:
        return None, "no lease time was told before"
    was = msgspec.convert(before, End)
    if was.leader not in record.targets:
        return None, f"{was.leader} leads, whose clock is right: leases go by it"
    if found is None:
        return None, "no lease time is told"
    if (found.leader, found.term) != (was.leader, was.term):
        return None, f"{found.leader} leads by now, and gives leases their whole time again"
    ahead_s, wanted_s = was.ends_s - found.ends_s, expected_s(record, at_ns)
    doubt_s = was.doubt_s + found.doubt_s
    if abs(ahead_s - wanted_s) > tolerance_s(wanted_s) + doubt_s:
        return None, f"lease time of {was.leader} is {ahead_s:+.2f} s off, {wanted_s:+.2f} s wanted"
    if abs(ahead_s) <= 2 * tolerance_s(0) + doubt_s:
        return None, f"lease time of {was.leader} is only {ahead_s:+.2f} s off as yet"
    return {"node": was.leader, "ahead_s": round(ahead_s, 3), "doubt_s": round(doubt_s, 3)}, ""


def with_lease(record: LandingRecord, victim: Signal) -> Signal:
    """The victim signal of a monotonic shift: the lease has to have shown it as well."""
    lease = record.facts["lease"]
    proof = lease.get("proof")
    if proof:
        shown = f"lease time of {proof['node']} off by {proof['ahead_s']:+.2f} s"
        return msgspec.structs.replace(victim, detail=f"{victim.detail}; {shown}")
    shown = lease.get("why") or "the system tells no lease times"
    return msgspec.structs.replace(
        victim, moved=False, detail=f"monotonic: {shown}; {victim.detail}"
    )


async def drop(ctx: NemesisContext, record: LandingRecord) -> None:
    """End the lease; one that cannot be ended now ends by itself."""
    lease = record.facts.get("lease")
    if lease:
        try:
            await ctx.need(MonotonicTimer).revoke_lease(lease["id"])
        except DstestError:
            return


OFFSETS_S: Final = (30.0, -5.0, 300.0, -90.0)
SKEW_MIN_S: Final = 1.0
RATE_MIN: Final = 0.02
STROBE_MIN_MS: Final = 20
ROUNDS: Final = 5
"""Each finds what was forked while the one before was under way."""


class Clock(ProcessFault):
    """The `clock` nemesis."""

    name = "clock"
    taxdc = "timing"
    doc = "shifts the clock of server processes by an offset or a rate, and nobody else's"
    faults: tuple[str, ...] = ("N23", "N24")
    overlap = SHOWS_IN_ITS_OWN_TRAFFIC
    requires: tuple[type, ...] = (*ProcessFault.requires, Clocked)
    needs: tuple[str, ...] = ("ptrace", "x86-64")
    requires_when = (
        *ProcessFault.requires_when,
        When("monotonic", True, (MonotonicTimer, Leadership)),
    )
    residues: tuple[Residue, ...] = (SHIFTED, TOOLS)
    options: Mapping[str, Option] = {
        "skew_s": Option(
            type=float,
            default=0.0,
            least=-31_536_000,
            most=31_536_000,
            help="offset in seconds; 0 = drawn, or none with a rate",
        ),
        "rate": Option(
            type=float,
            default=1.0,
            least=0.1,
            most=10,
            help="speed of the clock; needs fault_s of 32 or more",
        ),
        "strobe_ms": Option(
            type=int,
            default=0,
            least=0,
            most=60_000,
            help="the offset comes and goes at this pace; 0 = it stays",
        ),
        "monotonic": Option(
            type=bool,
            default=False,
            help="shift CLOCK_MONOTONIC as well: of the leader's, its lease times show it",
        ),
        **ProcessFault.options,
        **SERVICE_OPTION,
    }

    def check_options(self, options: Mapping[str, Any], nodes: Sequence[str]) -> None:
        skew_s, rate = float(options["skew_s"]), float(options["rate"])
        if skew_s and abs(skew_s) < SKEW_MIN_S:
            raise ConfigError(
                f"-o skew_s={skew_s:g}: at least a second, to be told from noise",
                remedy="-o skew_s=5, or 0 for one that is drawn",
            )
        if rate != 1.0 and not RATE_MIN <= abs(rate - 1.0) <= 1.0:
            raise ConfigError(
                f"-o rate={rate:g}: from 0 to 2, and 0.02 or more away from 1",
                remedy="-o rate=1.05, or 1 for none",
            )
        strobe_ms = int(options["strobe_ms"])
        if strobe_ms and (rate != 1.0 or strobe_ms < STROBE_MIN_MS or 0 < abs(skew_s) < 5):
            raise ConfigError(
                f"-o strobe_ms={strobe_ms}: {STROBE_MIN_MS} or more, with an offset of 5 s or more"
                " and no rate",
                remedy="leave -o strobe_ms out, or -o rate",
            )
        if rate != 1.0 and options["fault_s"] < clock_evidence.RATE_WINDOW_S + 2:
            raise ConfigError(
                f"-o rate={rate:g}: its slope shows in faults of half a minute only",
                remedy=f"-o fault_s={clock_evidence.RATE_WINDOW_S + 2:g} and a longer --time-limit",
            )
        if options["monotonic"] and strobe_ms:
            raise ConfigError(
                f"-o strobe_ms={strobe_ms} -o monotonic=true: no time that a lease has left"
                " tells them apart",
                remedy="one of the two",
            )

    def plan_options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Only who leads has a monotonic clock that shows."""
        led = options["monotonic"] and options["scope"] == "random"
        return {**options, "scope": "primaries"} if led else options

    def draw_params(self, rng: random.Random, options: Mapping[str, Any]) -> Facts:
        """Offset and rate."""
        skew_s, rate = float(options["skew_s"]), float(options["rate"])
        drawn = rng.choice(OFFSETS_S) if rate == 1.0 else 0.0
        return {
            "skew_s": skew_s or drawn,
            "rate": rate,
            "strobe_ms": int(options["strobe_ms"]),
            "monotonic": bool(options["monotonic"]),
        }

    async def ready(self, ctx: NemesisContext) -> None:
        """Put the program on the nodes."""
        data = await build()
        await asyncio.gather(*(node.put(TOOL, data, mode=0o755) for node in nodes_of(ctx)))

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        facts = record.facts
        words = [
            "set",
            round(facts["skew_s"] * 1e9),
            round((facts["rate"] - 1.0) * 1e6),
            int(facts["monotonic"]),
            facts["strobe_ms"] * 1_000_000,
        ]
        await asyncio.gather(*(self.shift(ctx, record, n, words) for n in record.targets))

    async def shift(
        self, ctx: NemesisContext, record: LandingRecord, name: str, words: Sequence[str | int]
    ) -> None:
        """Shift all processes of a member; again for what they have forked meanwhile."""
        done: set[Process] = set()
        for _ in range(ROUNDS):
            now = await running(ctx, ProcessDetails.of(record).service)
            more = [p for p in now.get(name, ()) if p not in done]
            if not more:
                return
            await asyncio.gather(*(_ask(ctx, name, p, words) for p in more))
            done.update(more)

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> Reverted:
        """Nothing of a member keeps the shift: neither it nor what it has forked since. The record
        says how long that took."""
        began_ns = ctx.clock.now_ns()

        async def one(name: str) -> None:
            for _ in range(ROUNDS):
                patches = await _patches(ctx, name)
                shifted = [p for p, patch in patches.items() if patch and patch.patched]
                if not shifted:
                    return
                await asyncio.gather(*(_ask(ctx, name, p, ["off"]) for p in shifted))

        await asyncio.gather(*map(one, record.targets))
        return Reverted(facts={"undone_ms": round((ctx.clock.now_ns() - began_ns) / 1e6, 1)})

    def heal_commands(
        self, ctx: NemesisContext, record: LandingRecord, name: str
    ) -> list[list[str]]:
        return [["sh", "-c", SHIFTED.remove]]

    def patience_s(self, record: LandingRecord) -> float:
        """Until a rate has become an offset that shows."""
        away = abs(record.facts["rate"] - 1.0)
        return 5 * clock_evidence.tolerance_s(0) / away if away else 0.0

    async def before(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        skews = await skews_of(ctx, record.targets)
        return {
            "lease": await grant(ctx) if record.facts["monotonic"] else {},
            "skew_before_s": {n: clock_evidence.number(s) for n, s in skews.items()},
        }

    async def observe(self, ctx: NemesisContext, record: LandingRecord) -> Observed:
        if record.facts["monotonic"]:
            record = await observe(ctx, record)
        hosts = dict(
            zip(
                ctx.nodes,
                await asyncio.gather(*map(clock_evidence.host_skew, nodes_of(ctx))),
                strict=True,
            )
        )
        at_ns = ctx.clock.now_ns()
        strobing = bool(record.facts["strobe_ms"])
        told = [n for n in ctx.nodes if not (strobing and n in record.targets)]
        skews = await skews_of(ctx, told)
        took_ns = ctx.clock.now_ns() - at_ns
        service = ProcessDetails.of(record).service
        found = await asyncio.gather(*(_patches(ctx, n, service) for n in record.targets))
        patches = dict(zip(record.targets, found, strict=True))
        middle_ns = at_ns + took_ns // 2
        seen = list(record.facts.get("skew_seen_s", []))
        injector = clock_evidence.injector(record, patches)
        if strobing:
            victim = clock_evidence.strobing(
                record, await clock_evidence.watch_strobes(ctx, record)
            )
        else:
            seen.append([middle_ns, *clock_evidence.row(record, skews)])
            victim = clock_evidence.victim(record, skews, middle_ns)
        if record.facts["monotonic"]:
            victim = with_lease(record, victim)
        control = clock_evidence.control(record, skews, hosts)
        hits = {n: clock_evidence.hits(rows) for n, rows in patches.items()}
        return Observed(
            injector=injector,
            victim=victim,
            control=control,
            facts={**record.facts, "hits": hits, "skew_seen_s": seen},
        )

    async def in_force(self, ctx: NemesisContext, record: LandingRecord) -> Mapping[str, str]:
        service = ProcessDetails.of(record).service
        found = await asyncio.gather(*(_patches(ctx, n, service) for n in record.targets))
        shifted = [bool(rows) and clock_evidence.as_asked_for(record, rows) for rows in found]
        marks = ("stands" if one else "" for one in shifted)
        return dict(zip(record.targets, marks, strict=True))

    def stands(self, earlier: LandingRecord, record: LandingRecord) -> Standing:
        """As for any process fault; at the end a rate must have had its slope."""
        standing = process_standing(earlier, record)
        if record.facts["rate"] == 1.0 or not record.facts["rechecks"]:
            return standing
        wrong, slopes = clock_evidence.slopes(record)
        doubts = [*standing.doubts, *([wrong] if wrong else [])]
        return msgspec.structs.replace(standing, doubts=doubts, facts={"slopes": slopes})

    async def after_heal(self, ctx: NemesisContext, record: LandingRecord) -> Facts:
        """The lease that told the monotonic clock goes."""
        await drop(ctx, record)
        return {}

    async def prove(self, ctx: NemesisContext, record: LandingRecord, healing: Healing) -> Proven:
        """Nothing patched, the right time, and the servers serve."""
        missing: list[str] = []
        left: dict[str, int] = {}
        for name in record.targets:
            patches = await _patches(ctx, name)
            shifted = [p.pid for p, patch in patches.items() if patch and patch.patched]
            left[name] = len(shifted)
            if not {p for p in processes_before(record, name) if p.main} <= {*patches}:
                missing.append(f"{name}: its server is not the one it was")
            missing += [f"{name}: the clock of process {pid} is still shifted" for pid in shifted]
        skews = await skews_of(ctx, record.targets)
        for name, skew in skews.items():
            if skew is None or abs(skew.seconds) > clock_evidence.tolerance_s(0) + skew.doubt_s:
                missing.append(f"{name}: its clock is wrong by {clock_evidence.number(skew)} s")
        healthy = await health_of(ctx)
        missing += [f"{n} does not serve" for n in record.targets if not healthy.get(n)]
        shown = {n: clock_evidence.number(s) or 0.0 for n, s in skews.items()}
        return Proven(missing, left, shown)

    async def extra_leaks(
        self, ctx: NemesisContext, node: Node, now: Sequence[Process]
    ) -> list[str]:
        """A clock that is still shifted."""
        patches = await asyncio.gather(*(_ask(ctx, node.name, p, ["read"]) for p in now))
        shifted = [p.pid for p, patch in zip(now, patches, strict=True) if patch and patch.patched]
        return [f"the clock of its server is shifted, of process {pid}" for pid in shifted]


async def _ask(
    ctx: NemesisContext, name: str, process: Process, words: Sequence[str | int]
) -> Patch | None:
    return await shift(ctx.node(name), process.pid, process.start_time, words)


async def _patches(
    ctx: NemesisContext, name: str, service: str = ""
) -> dict[Process, Patch | None]:
    """What is in force in each process of a member that runs; None of one that cannot be read."""

    async def read(process: Process) -> Patch | None:
        try:
            return await _ask(ctx, name, process, ["read"])
        except LabError:
            return None

    rows = (await running(ctx, service)).get(name, [])
    found = dict(zip(rows, await asyncio.gather(*map(read, rows)), strict=True))
    if None not in found.values():
        return found
    # A server that forks has children which end while they are asked.
    still = {*(await running(ctx, service)).get(name, [])}
    return {one: patch for one, patch in found.items() if patch is not None or one in still}


NEMESIS = Clock()
