"""What became of the requests of the load: which fault hit which, whether each fault landed, and by
endpoint how many failed and how long they took, with a fault and without; at which share of faults
the service breaks, and how long it takes to recover.

A fault belongs to the request whose id the proxy saw. Where a service hands no id on to what it
needs, the fault belongs to each request that was in flight all the while: `by_time` says so, and
how much is due to a fault is then told too low rather than too high.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from dstest.chaos.records import Entry, Kind, PhaseBegin, ProxyRequest
from dstest.chaos.settings import Ramp
from dstest.core.rates import interval
from dstest.core.rng import stream_seed

_NOTICED_S: Final = 0.01
_SECOND_NS: Final = 1_000_000_000

_Z: Final = 1.959964

_RESAMPLES: Final = 2000

_ENOUGH = 10

_SLOW = 2.0
"""Not recovered is an endpoint whose p95 is more than so many times the usual one."""


class Request(NamedTuple):
    """A request of the load with what happened to it on its way."""

    entry: Entry
    phase: str
    share: float | None
    """Of faults in its phase: 0 where none stood."""
    faults: tuple[ProxyRequest, ...]
    calm: bool
    """No fault hit it, none stood, and those before it are over as long as a caller waits."""
    starved: bool
    """The host had no core for the service in that second, or in the one before."""
    passes: int
    """How often proxies other than the front one were asked on its behalf, where ids tell."""

    @property
    def hit(self) -> bool:
        return bool(self.faults)

    @property
    def timed_out_starved(self) -> bool:
        """It had no answer in time, and the service had no core: that says nothing of either."""
        return self.starved and self.entry.trouble == "timeout"


class Landing(NamedTuple):
    """Of one kind at one proxy."""

    proxy: str
    kind: Kind
    injected: int
    landed: int


class JoinedLogs(NamedTuple):
    asked: Sequence[Request]
    """Those that ended, by when they were due."""
    unfinished: int
    landings: Sequence[Landing]
    by_time: frozenset[str]
    """Proxies at which faults hit requests that showed no id."""
    guessed: frozenset[str]
    """Faults without an id while requests to several endpoints were in flight: any may have met
    them."""
    passes: Sequence[ProxyRequest]
    spans: Sequence[tuple[float, float]]
    """From when to when faults stood."""

    def stood(self, time_ns: int) -> bool:
        """Did faults stand then?"""
        return any(low <= time_ns < high for low, high in self.spans)


def join_logs(
    entries: Iterable[Entry],
    passes: Sequence[ProxyRequest],
    phases: Sequence[PhaseBegin],
    front: str | None,
    timeout_s: float,
    starved: Container[int] = (),
) -> JoinedLogs:
    """Put the three logs together. `front` names the proxy that the load goes through, `timeout_s`
    is how long the load waits for an answer. `starved` has the seconds in which the host had no
    core for the service."""
    listed = sorted(entries, key=lambda one: one.due_ns)
    done = [one for one in listed if one.trouble != "unfinished"]
    by_time = _without_ids(passes, front)
    faults, guessed = _faults_of(done, passes, by_time)
    counts: dict[int, int] = defaultdict(int)
    for one in passes:
        if one.request is not None and one.proxy != front:
            counts[one.request] += 1
    starts = [one.at_ns for one in phases]
    asked = []
    for entry in done:
        place = bisect_right(starts, entry.due_ns) - 1
        phase = phases[place] if place >= 0 else PhaseBegin(name="", share=0.0, at_ns=0)
        hits = tuple(faults.get(entry.n, ()))
        over = place == 0 or entry.due_ns - phase.at_ns > timeout_s * 1e9
        calm = phase.share == 0 and not hits and over
        waited = any(
            second in starved
            for second in range(entry.due_ns // _SECOND_NS, entry.end_ns // _SECOND_NS + 1)
        )
        asked.append(
            Request(entry, phase.name, phase.share, hits, calm, waited, counts.get(entry.n, 0))
        )
    ends = [*starts[1:], math.inf]  # of a run that was cut off, none
    return JoinedLogs(
        asked=asked,
        unfinished=len(listed) - len(done),
        landings=_landings(asked, passes, front),
        by_time=by_time,
        guessed=guessed,
        passes=passes,
        spans=[(one.at_ns, end) for one, end in zip(phases, ends, strict=False) if one.share != 0],
    )


def _without_ids(passes: Sequence[ProxyRequest], front: str | None) -> frozenset[str]:
    names = {one.proxy for one in passes if one.proxy != front}
    return frozenset(names & {one.proxy for one in passes if one.request is None and one.kind})


def _faults_of(
    entries: Sequence[Entry], passes: Sequence[ProxyRequest], by_time: frozenset[str]
) -> tuple[Mapping[int, list[ProxyRequest]], frozenset[str]]:
    """By request, and which of them are guesses."""
    found: dict[int, list[ProxyRequest]] = defaultdict(list)
    guessed = set()
    loose = []
    for one in passes:
        if one.kind is None:
            continue
        if one.request is not None:
            found[one.request].append(one)
        elif one.proxy in by_time:
            loose.append(one)
    known = {(one.proxy, one.request) for one in passes if one.request is not None}
    for fault in loose:
        near = [
            entry
            for entry in entries
            if entry.begin_ns <= fault.begin_ns <= entry.end_ns
            and (fault.proxy, entry.n) not in known
        ]
        for entry in near:
            found[entry.n].append(fault)
        if len({entry.endpoint for entry in near}) > 1:
            guessed.add(str(fault.id))
    return found, frozenset(guessed)


def _landings(
    asked: Sequence[Request], passes: Sequence[ProxyRequest], front: str | None
) -> Sequence[Landing]:
    by_request = {one.entry.n: one.entry for one in asked}
    hits = {fault.id for one in asked for fault in one.faults}
    table: dict[tuple[str, Kind], list[int]] = defaultdict(lambda: [0, 0])
    for one in passes:
        if one.kind is None:
            continue
        row = table[one.proxy, one.kind]
        row[0] += 1
        seen = by_request.get(one.request) if one.request is not None else None
        if one.proxy == front:
            row[1] += _met(one, seen)
        else:
            row[1] += one.id in hits and _borne(one)
    return [Landing(proxy, kind, *row) for (proxy, kind), row in sorted(table.items())]


def _borne(fault: ProxyRequest) -> bool:
    """Was the proxy's client there? One that left may have had enough of waiting for us."""
    waited_s = (fault.end_ns - fault.begin_ns) / 1e9
    return fault.ended != "client left" or waited_s >= _NOTICED_S


def _met(fault: ProxyRequest, entry: Entry | None) -> bool:
    """Did the load's client see this fault of the front proxy?"""
    if entry is None:
        return False
    match fault.kind:
        case "delay":
            return entry.service_s >= fault.delay_s or entry.trouble == "timeout"
        case "error":
            return entry.status == fault.status and entry.chaos_id == fault.id
        case "reset" | "drop":
            return entry.trouble in ("reset", "closed")
        case _:
            return entry.trouble == "timeout"


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that are alike. Latencies in seconds, None of no request."""

    requests: int
    failed: int
    failed_low: float
    failed_high: float
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None


class Lift(msgspec.Struct, frozen=True, kw_only=True):
    """P(failed | a fault hit it) / P(failed | none did), with its 95 % interval."""

    value: float
    low: float
    high: float


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    endpoint: str
    requests: int
    ok: int
    failures: dict[str, int]
    """How many failed, by why."""
    hit: Side
    not_hit: Side
    lift: Lift | None


def side_of(asked: Sequence[Request]) -> Side:
    """Figures of these requests."""
    failed = sum(not one.entry.ok for one in asked)
    rate = interval(failed, len(asked))
    times: list[float | None] = [None, None, None]
    if asked:
        found = np.quantile([one.entry.latency_s for one in asked], (0.5, 0.95, 0.99))
        times = [float(value) for value in found]
    return Side(
        requests=len(asked),
        failed=failed,
        failed_low=rate.low,
        failed_high=rate.high,
        p50_s=times[0],
        p95_s=times[1],
        p99_s=times[2],
    )


def p95_s(asked: Sequence[Request]) -> float:
    """NaN of no request."""
    return float(np.quantile([a.entry.latency_s for a in asked], 0.95)) if asked else math.nan


def lift_of(hit: Side, not_hit: Side) -> Lift | None:
    """The ratio of two shares with the interval on its logarithm (Katz et al. 1978); where nothing
    or everything failed on a side, half a request is added to each (Walter 1975). None where a side
    is empty, or nothing failed on either: that is no ratio."""
    if not hit.requests or not not_hit.requests or not (hit.failed or not_hit.failed):
        return None
    a, n, b, m = hit.failed, hit.requests, not_hit.failed, not_hit.requests
    more = 0.5 if 0 in (a, b) or a == n or b == m else 0.0
    first, second = (a + more) / (n + more), (b + more) / (m + more)
    spread = _Z * math.sqrt(
        max(0.0, 1 / (a + more) - 1 / (n + more) + 1 / (b + more) - 1 / (m + more))
    )
    value = first / second
    return Lift(value=value, low=value * math.exp(-spread), high=value * math.exp(spread))


def figures_of(asked: Sequence[Request]) -> list[Figures]:
    """Of each endpoint, by name. Requests of all phases count."""
    told = []
    for name in sorted({one.entry.endpoint for one in asked}):
        own = [one for one in asked if one.entry.endpoint == name]
        hit = side_of([one for one in own if one.hit])
        not_hit = side_of([one for one in own if not one.hit])
        failures = Counter(one.entry.why for one in own if not one.entry.ok)
        told.append(
            Figures(
                endpoint=name,
                requests=len(own),
                ok=len(own) - failures.total(),
                failures=dict(failures.most_common()),
                hit=hit,
                not_hit=not_hit,
                lift=lift_of(hit, not_hit),
            )
        )
    return told


def p95_drawn_s(asked: Sequence[Request], name: str) -> np.ndarray:
    """The 95th percentile of latency of each resample, in seconds. Raises ValueError of none.

    A stall of the host or of the service slows all requests of a second at once. So whole seconds
    are drawn again, not requests (block bootstrap, Künsch 1989)."""
    blocks: dict[int, list[float]] = {}
    for one in asked:
        blocks.setdefault(one.entry.due_ns // _SECOND_NS, []).append(one.entry.latency_s)
    if not blocks:
        raise ValueError("no request")
    listed = [np.array(block) for block in blocks.values()]
    random = np.random.default_rng(stream_seed(0, "chaos p95", name))
    picks = random.integers(0, len(listed), (_RESAMPLES, len(listed)))
    return np.array(
        [np.quantile(np.concatenate([listed[place] for place in row]), 0.95) for row in picks]
    )


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A share of faults, and what became of requests that none of them hit."""

    share: float
    injected: float
    """Share of requests that a fault hit."""
    hit: int
    requests: int
    failed: int
    failed_low: float
    failed_high: float
    p95_s: float | None
    broken: str
    """Why the service is broken at this step; empty where it holds."""


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """Of an endpoint, after a stretch with faults. `after_s` is when the last request that failed
    was due, 0 where none did; None where nobody can say: too few requests, or a host without a core
    for the service. `why`: how it still differs from what it was before any fault, in the second
    half of the `watched_s` that followed; empty where it does not. `slow`: the same of latencies,
    where no request failed: a host that is busy with others is slow as well."""

    endpoint: str
    after: str
    after_s: float | None
    watched_s: float
    why: str = ""
    slow: str = ""


def steps_of(asked: Sequence[Request], phases: Sequence[PhaseBegin], ramp: Ramp) -> list[Step]:
    """Each step of a ramp that was begun."""
    if not phases:
        return []
    quiet = [one for one in asked if one.phase == phases[0].name and not one.starved]
    if not quiet:
        return []
    usual_s = p95_s(quiet)
    told = []
    for phase in phases:
        if not phase.name.startswith("step ") or phase.share is None:
            continue
        own = [one for one in asked if one.phase == phase.name]
        spared = [one for one in own if not one.hit and not one.timed_out_starved]
        side = side_of(spared)
        fed_s = p95_s([one for one in spared if not one.starved])
        broken = ""
        if side.failed_low > ramp.failures:
            broken = f"{side.failed} of {side.requests} requests that no fault hit failed"
        elif fed_s > ramp.slower * usual_s:
            broken = (
                f"p95 of requests that no fault hit is {fed_s * 1e3:.0f} ms, "
                f"{fed_s / usual_s:.1f} times the usual {usual_s * 1e3:.0f} ms"
            )
        told.append(
            Step(
                share=phase.share,
                hit=sum(one.hit for one in own),
                injected=sum(one.hit for one in own) / len(own) if own else 0.0,
                requests=side.requests,
                failed=side.failed,
                failed_low=side.failed_low,
                failed_high=side.failed_high,
                p95_s=side.p95_s,
                broken=broken,
            )
        )
    return told


def breaking(steps: Sequence[Step]) -> Step | None:
    """The first step at which it is broken."""
    return next((step for step in steps if step.broken), None)


def recoveries_of(asked: Sequence[Request], phases: Sequence[PhaseBegin]) -> list[Recovery]:
    """After each stretch with faults, of each endpoint."""
    told = []
    for before, phase, end in zip(phases, phases[1:], phases[2:], strict=False):
        if before.share == 0 or phase.share != 0 or phase.name == "end":
            continue
        for name in sorted({one.entry.endpoint for one in asked}):
            own = [one for one in asked if one.entry.endpoint == name]
            quiet = [one for one in own if one.phase == phases[0].name]
            then = [one for one in own if one.phase == phase.name and not one.hit]
            told.append(_recovery(name, before.name, quiet, then, phase.at_ns, end.at_ns))
    return told


def _recovery(
    name: str,
    after: str,
    quiet: Sequence[Request],
    then: Sequence[Request],
    from_ns: int,
    to_ns: int,
) -> Recovery:
    middle_ns = (from_ns + to_ns) // 2
    late = [one for one in then if one.entry.due_ns >= middle_ns and not one.timed_out_starved]
    failed_s = [(one.entry.due_ns - from_ns) / 1e9 for one in then if not one.entry.ok]
    watched_s = (to_ns - from_ns) / 1e9
    if not late or not quiet:
        return Recovery(endpoint=name, after=after, after_s=None, watched_s=watched_s)
    usual, now = side_of(quiet), side_of(late)
    why = ""
    every = now.failed == now.requests and usual.failed < usual.requests
    if now.failed and (every or now.failed_low > usual.failed_high):
        why = f"{now.failed} of its last {now.requests} requests failed"
    fed = [one for one in late if not one.starved]
    usual_s = p95_s([one for one in quiet if not one.starved])
    slow = ""
    if not why and len(fed) >= _ENOUGH and p95_s(fed) > max(_SLOW * usual_s, usual_s + 0.05):
        slow = f"p95 is {p95_s(fed) * 1e3:.0f} ms, {usual_s * 1e3:.0f} ms before"
    if now.failed:
        why, slow = why or slow, ""
    known = why or (fed and not math.isnan(usual_s))
    last_s = max(failed_s, default=0.0) if known else None
    return Recovery(
        endpoint=name, after=after, after_s=last_s, watched_s=watched_s, why=why, slow=slow
    )
