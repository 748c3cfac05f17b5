"""How a delay and a refused system call of an aimed fault show: in the server, and beside it."""

from __future__ import annotations

import asyncio
import errno
import os
import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from dstest.core.evidence import LandingRecord, ProcessDetails, Signal
from dstest.core.protocols import NemesisContext, ServerLogs, Supervised
from nemeses.base.driver import Observed, Standing, with_facts
from nemeses.base.process_evidence import Snapshots, control, gather
from nemeses.observe.processes import processes_before, running, take_two_snapshots
from nemeses.observe.servers import ask_all, probe_pairs, services_of
from nemeses.process.aimed_points import AimedDetails, problems, signal_of
from nemeses.tools import aim

_ERROR: Final = "errno:"
_NUMBERS: Final[Mapping[str, int]] = {name: number for number, name in errno.errorcode.items()}


def error_number(then: str) -> int:
    """Of the error that is answered with; 0 where it is none."""
    return _NUMBERS.get(then.removeprefix(_ERROR), 0) if then.startswith(_ERROR) else 0


async def refused(ctx: NemesisContext, record: LandingRecord) -> Observed:
    """Calls were refused by the program on the node; the server is gone by it, or its log names the
    error."""
    record, snapshots, _, others = await gather(ctx, record)
    details = AimedDetails.of(record)
    gone = [n for n in record.targets if snapshots[n][1].lost]
    alive = [n for n in record.targets if n not in gone]
    lines = await asyncio.gather(*(_said(ctx, record, n) for n in alive))
    said = dict(zip(alive, lines, strict=True))
    fates = dict.fromkeys(gone, "gone")
    fates |= {n: "told" if count else "unharmed" for n, count in said.items()}
    quiet = {n: row for n, row in ProcessDetails.of(record).quiet.items() if n in gone}
    tracers = await asyncio.gather(*(aim.traces(ctx.node(n)) for n in details.aimed_at))
    traced = {n: len(pids) for n, pids in zip(details.aimed_at, tracers, strict=True)}
    told = {"fates": fates, "said": said, "quiet": quiet, "tracers": traced}
    record = with_facts(record, told)
    victims = [await _silent(ctx, record, gone)] if gone else []
    victims += [_logged(details.then.removeprefix(_ERROR), said)] if alive else []
    return Observed(
        injector=_refusals(record),
        victim=_together(victims),
        control=others,
        facts=record.facts,
    )


def _refusals(record: LandingRecord) -> Signal:
    details = AimedDetails.of(record)
    counts = {n: row["refused"] for n, row in details.reached.items()}
    wrong = problems(record) + [f"{n}: no call was refused" for n, k in counts.items() if not k]
    told = f"{sum(counts.values()):,} answered {details.then.removeprefix(_ERROR)}"
    what = f"calls of {details.point} that were refused"
    return signal_of(details, what, counts, wrong, told)


async def _silent(ctx: NemesisContext, record: LandingRecord, gone: Sequence[str]) -> Signal:
    """That those which are gone answer nobody."""
    _, _, signal, _ = await gather(ctx, msgspec.structs.replace(record, targets=[*gone]))
    told = f"the server of {', '.join(gone)} has ended; {signal.detail}"
    return msgspec.structs.replace(signal, detail=told if signal.moved else signal.detail)


def _logged(name: str, said: Mapping[str, int]) -> Signal:
    silent = [
        f"{n} runs, and its log does not name {name}" for n, count in said.items() if not count
    ]
    return Signal(
        signal=f"lines of the server's log that name {name}",
        before={f"log of {n}": 0 for n in said},
        during={f"log of {n}": count for n, count in said.items()},
        moved=not silent,
        detail="; ".join(silent) or f"{sum(said.values())} lines of logs name it",
    )


def _together(signals: Sequence[Signal]) -> Signal:
    if len(signals) == 1:
        return signals[0]
    return Signal(
        signal="; ".join(one.signal for one in signals),
        before={path: n for one in signals for path, n in one.before.items()},
        during={path: n for one in signals for path, n in one.during.items()},
        moved=all(one.moved for one in signals),
        detail="; ".join(one.detail for one in signals),
    )


def naming(then: str) -> re.Pattern[str]:
    """What names the error of such a fault in a line: its text, or its name, as words."""
    number = error_number(then)
    words = "|".join(map(re.escape, (os.strerror(number), errno.errorcode[number])))
    return re.compile(rf"(?<![A-Za-z0-9_])(?:{words})(?![A-Za-z0-9_])", re.IGNORECASE)


async def _said(ctx: NemesisContext, record: LandingRecord, name: str) -> int:
    """Lines of a member's log since the fault that name the error, by its text or its name."""
    details, logs = AimedDetails.of(record), ctx.offered(ServerLogs)
    if logs is None or name not in details.log_sizes:
        return 0
    named = naming(details.then)
    service = ProcessDetails.of(record).service
    text = await logs.log_since(name, details.log_sizes[name], service)
    return sum(named.search(line) is not None for line in text.splitlines())


def refused_standing(before: AimedDetails, now: AimedDetails) -> Standing:
    """Of a server that runs: was it refused more, or would it be if it asked, since it is traced?
    One that is gone stays so."""
    if now.times:
        return Standing()
    over = [
        name
        for name, row in now.reached.items()
        if now.fates.get(name) != "gone"
        and not now.tracers.get(name)
        and row["refused"] <= before.reached.get(name, {}).get("refused", 0)
    ]
    doubts = [f"no call of {', '.join(over)} would be refused any more"] if over else []
    return Standing(present=not over, doubts=doubts)


async def kill_stuck(ctx: NemesisContext, record: LandingRecord) -> list[str]:
    """End those servers that run on after a refused call and will not serve again by themselves
    (`Service.stuck_after`)."""
    details, service = AimedDetails.of(record), ProcessDetails.of(record).service
    if not error_number(details.then) or not details.fired:
        return []
    there = await running(ctx, service)
    stuck = [
        n
        for n in details.fired
        if any(s.stuck_after for s in services_of(ctx, n, service))
        and any(process.main for process in there.get(n, ()))
    ]
    if stuck:
        await ctx.need(Supervised).kill(stuck, service)
    return stuck


async def delayed(ctx: NemesisContext, record: LandingRecord) -> Observed:
    """One thread stands and the others run: seen from beside, whoever makes it stand."""
    details, service = AimedDetails.of(record), ProcessDetails.of(record).service
    names = list(ctx.nodes)
    was = {n: processes_before(record, n) for n in ProcessDetails.of(record).processes}

    async def asleep(name: str) -> int:
        pids = [str(p.pid) for p in was[name]]
        return int(await aim.ask(ctx.node(name), "asleep", "1", *pids))

    asked, snapshots, found = await asyncio.gather(
        ask_all(ctx, probe_pairs(names, record.targets), service=service, retry_for=names),
        take_two_snapshots(ctx, was, service),
        asyncio.gather(*map(asleep, record.targets)),
    )
    before = details.asleep
    now = {n: before.get(n, 0) + k for n, k in zip(record.targets, found, strict=True)}
    silent = [f"{n}: no thread was seen to stand while others ran" for n, k in now.items() if not k]
    others: Snapshots = {n: pair for n, pair in snapshots.items() if n not in record.targets}
    what = f"hits of {details.point} at which a thread was held"
    counts = {n: row["delayed"] for n, row in details.reached.items()}
    told = f"held for {details.delay_ms:g} ms, {sum(counts.values())} times"
    return Observed(
        injector=signal_of(details, what, counts, problems(record), told),
        victim=Signal(
            signal="samples in which one thread of the server stood and others ran",
            before=dict.fromkeys(record.targets, 0),
            during=now,
            moved=bool(now) and not silent,
            detail="; ".join(silent) or f"seen in {sum(now.values())} samples",
        ),
        control=control(record, asked, others),
        facts={**record.facts, "asleep": now},
    )
