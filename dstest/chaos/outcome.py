"""What a directory of a chaos run shows, and what to change, by rules; the pattern that fails most
requests first.

Everything is computed from its logs, once these fit one another and its settings, so that a run
that was killed is told as one that ended.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from dstest.chaos.conduct import Config, timetable
from dstest.chaos.figures import (
    Figures,
    JoinedLogs,
    Recovery,
    Request,
    Step,
    breaking,
    figures_of,
    join_logs,
    recoveries_of,
    steps_of,
)
from dstest.chaos.host import WaitSample, starved_seconds
from dstest.chaos.patterns import (
    Pattern,
    PatternKind,
    RaisedError,
    errors_with_cause,
    names_path,
    patterns_of,
)
from dstest.chaos.records import (
    CONFIG,
    ENTRIES,
    HOST,
    HOUR_NS,
    KINDS,
    PASSED,
    PHASES,
    SERVICE,
    SERVICE_END,
    Entry,
    PhaseBegin,
    ProxyRequest,
    ServiceEnd,
    read_lines,
    sealed_sums,
)
from dstest.chaos.settings import Settings
from dstest.core.errors import ConfigError, EvidenceError, Exit
from dstest.core.rates import interval

_BY_FAULT: Final[dict[PatternKind, str]] = {
    "hang": "give calls to {proxy} a deadline, with all of their retries, that ends before the"
    " callers have enough; retry with backoff what may be repeated",
    "unhandled error": "catch lost connections, timeouts and errors of {proxy}, and answer 503 or a"
    " fallback",
    "waits": "give calls to {proxy} a timeout, or a shorter one: a caller waits as long as it"
    " takes, and no call was seen to end by itself",
}

_BOUNDED: Final[dict[PatternKind, str]] = {
    "hang": "calls to {proxy} have a timeout already: they were seen to end after {after_s:.1f} s."
    " Give all of their tries together a deadline that ends before the callers have enough, or"
    " shorten that timeout",
    "waits": "calls to {proxy} have a timeout already: they were seen to end after {after_s:.1f} s."
    " Shorten it where callers should not wait so long",
}
"""The same, where what was observed shows that the service hangs up by itself."""

_BY_KIND: Final[dict[PatternKind, str]] = {
    "genuine failure": "mend it: no fault is needed for it",
    "unexplained failure": "run again with more requests and a longer `quiet_s`: it is a defect or"
    " a spill-over",
    "spill-over": "keep requests that need a failing part from taking the others' room: a bulkhead,"
    " pools of their own",
    "slow spill-over": "keep requests that wait for a slow part from taking the others' room: a"
    " bulkhead, pools of their own",
    "retry storm": "limit retries, with backoff and jitter, or stop asking for a while (circuit"
    " breaker)",
    "amplification": "limit retries, or stop asking for a while (circuit breaker)",
}

_NOTICED_S: Final = 0.01

_BEYOND: Final = 1.5
"""A call that stood so many times as long as the timeout had none."""

_TOGETHER_NS: Final = 50_000_000
"""What ends within so long of a caller's own end may have been ended by that."""

_NEAR = 0.03
_CALM_MIN = 10

_MOST = 0.9
"""Of the requests that were asked for; an open loop misses a few at the ends of a stretch."""

_SPREAD = 4.0
"""Standard deviations by which a drawn share may be off."""

_RAISED: Final[frozenset[str]] = frozenset(
    ("genuine failure", "unexplained failure", "spill-over", "hang", "unhandled error")
)
"""Patterns that a traceback may be of."""


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A change. `file` and `line` are of the deepest frame of the service's own source in the
    tracebacks of its failures; None where there were none."""

    endpoint: str
    pattern: PatternKind
    change: str
    why: str
    weight: float
    """Share of failing requests times requests: by this they are ordered."""
    file: str | None = None
    line: int | None = None


def proposals_of(
    patterns: Sequence[Pattern], timeouts: Mapping[tuple[str, str], float]
) -> list[Proposal]:
    """Of the patterns that want a change, one for all kinds of faults that it would mend. Genuine
    failures come first, whatever their share. `timeouts` are those that the service was seen to
    have, by endpoint and proxy, in seconds: nobody is told to give what is there."""
    alike: dict[tuple[str, PatternKind, str], list[Pattern]] = {}
    for one in patterns:
        change = _BY_KIND.get(one.kind) or _BY_FAULT.get(one.kind)
        after_s = timeouts.get((one.endpoint, one.proxy or ""))
        if after_s is not None:
            change = _BOUNDED.get(one.kind, change)
        if change is not None:
            key = one.endpoint, one.kind, change.format(proxy=one.proxy, after_s=after_s)
            alike.setdefault(key, []).append(one)
    told = [_proposal(change, found) for (_, _, change), found in alike.items()]
    return sorted(told, key=lambda one: (one.pattern != "genuine failure", -one.weight))


def _proposal(change: str, found: Sequence[Pattern]) -> Proposal:
    first = max(found, key=lambda one: one.count)
    raised = first.raised
    why = f"{first.endpoint} {first.says}: {first.count} of {first.of}"
    if raised is not None:
        why += f"; {raised.error}"
    if len(found) > 1:
        others = ", ".join(one.fault or "several" for one in found if one is not first)
        why += f"; so also under {others}"
    return Proposal(
        endpoint=first.endpoint,
        pattern=first.kind,
        change=change,
        why=why,
        weight=float(sum(one.count for one in found)),
        file=raised.file if raised is not None else None,
        line=raised.line if raised is not None else None,
    )


def sane(settings: Settings, entries: Sequence[Entry], passes: Sequence[ProxyRequest]) -> None:
    """Raises EvidenceError where they contradict themselves."""
    allowed = {one.name: one.status for one in settings.endpoint}
    proxies = {one.name for one in settings.proxy}
    for entry in entries:
        where = f"request {entry.n}"
        _times(where, entry.due_ns, entry.begin_ns, entry.end_ns)
        status = allowed.get(entry.endpoint)
        if status is None:
            _refuse(f"{where} is of {entry.endpoint!r}, which the settings do not have")
        elif entry.ok and (entry.why or entry.trouble or entry.status not in status):
            _refuse(f"{where} is a success, and says {entry.why or entry.trouble or entry.status}")
        elif not entry.ok and not entry.why:
            _refuse(f"{where} is a failure, and does not say why")
    _once("request", [one.n for one in entries])
    for one in passes:
        where = f"request {one.n} of the proxy {one.proxy}"
        _times(where, one.begin_ns, one.begin_ns, one.end_ns)
        if one.proxy not in proxies:
            _refuse(f"{where}: the settings have no such proxy")
        if (one.kind is None) != (one.id is None):
            _refuse(f"{where} has half a fault")
    _once("request of a proxy", [(one.proxy, one.n) for one in passes])


def _once(what: str, names: Sequence[Any]) -> None:
    if len(set(names)) != len(names):
        _refuse(f"a {what} stands there twice")


def _times(where: str, due_ns: int, begin_ns: int, end_ns: int) -> None:
    if not 0 <= due_ns <= begin_ns <= end_ns <= due_ns + HOUR_NS:
        _refuse(f"the times of {where} are none")


def _refuse(why: str) -> None:
    raise EvidenceError(
        f"the logs of this run are no evidence: {why}",
        remedy="run `dstest chaos` again into a new directory",
    )


def timeouts_of(found: JoinedLogs) -> Mapping[tuple[str, str], float]:
    """(endpoint, proxy) -> seconds, the longest after which the service hung up by itself on what
    stands behind that proxy. Nothing is said of calls that nobody saw to end so, where it is not
    known whose they are, and where another call to the same was waited for much longer."""
    ends = sorted(one.entry.end_ns for one in found.asked if one.entry.trouble == "timeout")
    longest: dict[tuple[str, str, str], float] = {}
    waited: dict[tuple[str, str, str], float] = {}
    for one in found.asked:
        for fault in one.faults:
            key = one.entry.endpoint, fault.proxy, fault.endpoint
            took_s = (fault.end_ns - fault.begin_ns) / 1e9
            waited[key] = max(waited.get(key, 0.0), took_s)
            if fault.id in found.guessed or not _hung_up(one, fault):
                continue
            if fault.proxy in found.by_time and _near(ends, fault.end_ns):
                continue  # it may belong to another request, whose caller had enough
            longest[key] = max(longest.get(key, 0.0), took_s)
    told: dict[tuple[str, str], float] = {}
    for endpoint, proxy, _ in waited:
        routes = [key for key in waited if key[:2] == (endpoint, proxy)]
        bounded = [key for key in routes if waited[key] < _BEYOND * longest.get(key, 0.0)]
        if len(bounded) == len([key for key in routes if waited[key] >= _NOTICED_S]):
            told[endpoint, proxy] = max(longest[key] for key in bounded) if bounded else 0.0
    return {key: after_s for key, after_s in told.items() if after_s}


def _hung_up(one: Request, fault: ProxyRequest) -> bool:
    """Did the service have enough of this, before its own caller had, or long after?"""
    entry = one.entry
    if (fault.end_ns - fault.begin_ns) / 1e9 < _NOTICED_S or entry.trouble not in (None, "timeout"):
        return False
    slack_ns = _TOGETHER_NS if entry.trouble == "timeout" else 0
    if fault.ended == "held":  # this is also how it ends for who never hung up
        return fault.end_ns <= entry.end_ns - slack_ns
    return fault.ended == "client left" and abs(fault.end_ns - entry.end_ns) >= slack_ns


def _near(ends: Sequence[int], time_ns: int) -> bool:
    at = bisect_left(ends, time_ns - _TOGETHER_NS)
    return at < len(ends) and ends[at] <= time_ns + _TOGETHER_NS


class InjectedFaults(msgspec.Struct, frozen=True, kw_only=True):
    """Faults of one kind at one proxy. `asked` is the share that the profile says, of the requests
    it is for; None under a ramp, which scales it."""

    proxy: str
    kind: str
    asked: float | None
    requests: int
    injected: int
    landed: int
    low: float
    high: float
    off: bool
    """The share that was injected is not the one that was asked for."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """All that is told of a run."""

    config: Config
    data: Literal["complete", "partial"]
    why_partial: str
    requests: int
    unfinished: int
    ok: int
    seconds: float
    injected: list[InjectedFaults]
    by_time: list[str]
    """Proxies that saw no id of requests: their faults are put to requests by time."""
    endpoints: list[Figures]
    patterns: list[Pattern]
    proposals: list[Proposal]
    steps: list[Step]
    recoveries: list[Recovery]
    logged: list[tuple[RaisedError, int]]
    """Tracebacks in the service's log, and how often each stands there."""
    service_end: ServiceEnd | None
    asked: list[Request]

    @property
    def unshown(self) -> list[str]:
        """Why this run cannot show that the service holds; empty where it can."""
        why = [self.why_partial] if self.data == "partial" else []
        if not self.injected:
            why.append("no fault was asked for")
        for one in self.injected:
            if not one.landed:
                why.append(f"no {one.kind} of {one.proxy} landed")
            elif one.off:
                share = one.injected / max(1, one.requests)
                why.append(
                    f"{one.proxy}: {one.kind} for {share:.1%} of requests, "
                    f"and {one.asked or 0:.1%} were asked for"
                )
        why += [
            f"no fault hit a request in the step {step.share:g}: it says nothing"
            for step in self.steps
            if not step.hit
        ]
        why += _too_few(self)
        why += [
            f"whether {one.endpoint} has recovered after {one.after!r} is not known"
            for one in self.recoveries
            if one.after_s is None
        ]
        why += [
            f"{one.endpoint} is slower after {one.after!r} ({one.slow}), and no request failed: "
            "that may be the host"
            for one in self.recoveries
            if one.slow
        ]
        starved = sum(one.starved for one in self.asked)
        if starved * 2 > len(self.asked):
            why.append(
                f"the host had no core for the service while {starved} of {len(self.asked)} "
                "requests were asked: nothing is known of how slow it is"
            )
        why += [
            f"{one.endpoint} {one.says}, but in too few seconds to tell it from a stall of the host"
            for one in self.patterns
            if one.kind == "slow for a while"
        ]
        return why

    @property
    def defects(self) -> list[str]:
        """What the service does wrong, a line each."""
        told = [
            f"{one.endpoint} {one.says}: {one.count} of {one.of}"
            for one in self.patterns
            if one.defect
        ]
        if step := breaking(self.steps):
            told.append(f"breaks when {step.share:g} of requests meet a fault: {step.broken}")
        told += [
            f"{one.endpoint} has not recovered {one.watched_s:.1f} s after {one.after!r}: {one.why}"
            for one in self.recoveries
            if one.why
        ]
        if self.service_end is not None:
            told.insert(0, f"the service ended under load (exit {self.service_end.exit})")
        return told

    @property
    def exit(self) -> Exit:
        """1 a defect was seen; 3 none, but the run shows too little; 0 it held."""
        if self.defects:
            return Exit.FAIL
        return Exit.NOT_PROVEN if self.unshown else Exit.PASS


def _too_few(outcome: Outcome) -> list[str]:
    """Endpoints of which too little is known of how they are without faults."""
    calm: dict[str, int] = {one.name: 0 for one in outcome.config.settings.endpoint}
    for one in outcome.asked:
        calm[one.entry.endpoint] = calm.get(one.entry.endpoint, 0) + one.calm
    return [
        f"{name} was asked {count} times without faults: what is usual is not known (`quiet_s`, "
        "`rate`)"
        for name, count in calm.items()
        if count < _CALM_MIN
    ]


def outcome_of(directory: Path) -> Outcome:
    """Read and judge a directory. Raises ConfigError where it holds no chaos run, EvidenceError
    where its logs cannot be read."""
    config = _config(directory)
    settings = config.settings
    entries = list(read_lines(directory / ENTRIES, Entry))
    passes = list(read_lines(directory / PASSED, ProxyRequest))
    phases = list(read_lines(directory / PHASES, PhaseBegin))
    samples = list(read_lines(directory / HOST, WaitSample))
    whole = bool(sealed_sums(directory))
    sane(settings, entries, passes)
    front = settings.front.name if settings.front is not None else None
    found = join_logs(
        entries, passes, phases, front, settings.load.timeout_s, starved_seconds(samples)
    )
    logged = _logged(config, directory)
    patterns = _placed(patterns_of(found, settings), logged)
    why = _why_partial(config, found, phases)
    if not why and not whole:
        why = "the run did not come to its end: its logs are not summed up"
    times = [one.entry.due_ns for one in found.asked]
    return Outcome(
        config=config,
        data="partial" if why else "complete",
        why_partial=why,
        requests=len(found.asked),
        unfinished=found.unfinished,
        ok=sum(one.entry.ok for one in found.asked),
        seconds=(max(times) - min(times)) / 1e9 if times else 0.0,
        injected=_injected(config, found),
        by_time=sorted(found.by_time),
        endpoints=figures_of(found.asked),
        patterns=patterns,
        proposals=proposals_of(patterns, timeouts_of(found)),
        steps=steps_of(found.asked, phases, settings.ramp),
        recoveries=recoveries_of(found.asked, phases),
        logged=[(one.raised, one.times) for one in logged],
        service_end=_service_end(directory),
        asked=list(found.asked),
    )


def _config(directory: Path) -> Config:
    path = directory / CONFIG
    try:
        return msgspec.json.decode(path.read_bytes(), type=Config)
    except FileNotFoundError:
        raise ConfigError(
            f"{directory} holds no chaos run: there is no {CONFIG}",
            remedy="the directory that `dstest chaos run` wrote",
        ) from None
    except (OSError, msgspec.DecodeError) as error:
        raise EvidenceError(f"{path} cannot be read: {error}", remedy="run it again") from None


def _why_partial(config: Config, found: JoinedLogs, phases: Sequence[PhaseBegin]) -> str:
    load = config.settings.load
    if len(found.asked) < load.min_entries:
        return (
            f"{len(found.asked)} requests ended, and {load.min_entries} are wanted (`min_entries`)"
        )
    if not phases or phases[-1].name != "end":
        return "the run was cut off: its last phase has no end"
    planned = [one.name for one in timetable(config.settings)]
    begun = [one.name for one in phases[:-1]]
    if begun != planned:
        missing = next((name for name in planned if name not in begun), planned[-1])
        return f"the run was cut off: {missing!r} was not begun"
    if not config.settings.ramp.steps:
        wanted = load.requests * len(config.settings.endpoint)
        stood = sum(one.share != 0 for one in found.asked)
        if stood < _MOST * wanted:
            return f"{stood} of {wanted} requests were asked while faults stood (`deadline_s`)"
    last = found.asked[-1].entry.due_ns
    if phases[-1].at_ns - last > 2e9 + 2e9 / load.rate:
        return "the load ended before its time"
    if found.unfinished:
        return f"{found.unfinished} requests were in flight when the load was ended"
    return ""


def _injected(config: Config, found: JoinedLogs) -> list[InjectedFaults]:
    landed = {(one.proxy, one.kind): one for one in found.landings}
    told = []
    for proxy in config.settings.proxy:
        profile = proxy.faults
        stood = [
            one for one in found.passes if one.proxy == proxy.name and found.stood(one.begin_ns)
        ]
        eligible = [one for one in stood if not profile.only or one.endpoint in profile.only]
        for kind in KINDS:
            share = getattr(profile, kind)
            if not share:
                continue
            row = landed.get((proxy.name, kind))
            injected = row.injected if row else 0
            rate = interval(injected, len(eligible))
            spread = math.sqrt(share * (1 - share) / len(eligible)) if eligible else 0.0
            ramped = bool(config.settings.ramp.steps)
            drawn = injected / len(eligible) if eligible else 0.0
            told.append(
                InjectedFaults(
                    proxy=proxy.name,
                    kind=kind,
                    asked=None if ramped else share,
                    requests=len(eligible),
                    injected=injected,
                    landed=row.landed if row else 0,
                    low=rate.low,
                    high=rate.high,
                    off=not ramped and abs(drawn - share) > max(_NEAR, _SPREAD * spread),
                )
            )
    return told


def _service_end(directory: Path) -> ServiceEnd | None:
    try:
        return msgspec.json.decode((directory / SERVICE_END).read_bytes(), type=ServiceEnd)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise EvidenceError(
            f"{SERVICE_END} cannot be read: {error}", remedy="run it again"
        ) from None


class _Logged(NamedTuple):
    """A traceback, how often it stands in a log, and what the lines before it say."""

    raised: RaisedError
    times: int
    before: str


def _logged(config: Config, directory: Path) -> list[_Logged]:
    service = config.settings.service
    if service is None or not service.source:
        return []
    counts: dict[RaisedError, int] = {}
    words: dict[RaisedError, str] = {}
    own = [Path(service.log)] if service.log else []
    for path in [directory / SERVICE, *own]:
        try:
            with path.open(encoding="utf-8", errors="replace") as lines:
                for raised, before in errors_with_cause(lines, Path(service.source)):
                    counts[raised] = counts.get(raised, 0) + 1
                    words.setdefault(raised, before)
        except OSError:
            continue
    rows = [_Logged(raised, count, words[raised]) for raised, count in counts.items()]
    return sorted(rows, key=lambda row: -row.times)


def _placed(patterns: Sequence[Pattern], logged: Sequence[_Logged]) -> list[Pattern]:
    """With the place in the source that the log knows: that of a traceback whose line before names
    the endpoint, or else of the only one that stands there as often as the endpoint failed so."""
    failed: dict[tuple[str, str], int] = {}
    for one in patterns:
        if one.defect:
            key = one.endpoint, one.kind
            failed[key] = failed.get(key, 0) + one.count
    told = []
    for one in patterns:
        found = one.raised
        if found is None and one.kind in _RAISED:
            named = [row for row in logged if names_path(row.before, one.endpoint)]
            often = failed[one.endpoint, one.kind]
            alike = [row for row in logged if row.times == often]
            alone = len(alike) == 1 and list(failed.values()).count(often) == 1
            rows = named or (alike if alone else [])
            found = rows[0].raised if rows else None
        told.append(msgspec.structs.replace(one, raised=found))
    return told
