"""What a directory of a chaos run shows. Everything is computed from its logs, so that a run that
was killed is told as one that ended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from dstest.chaos.conduct import Config, timetable
from dstest.chaos.figures import Figures, figures_of
from dstest.chaos.host import Waited, starved_seconds
from dstest.chaos.joined import Asked, Joined, joined
from dstest.chaos.patterns import Pattern, patterns_of
from dstest.chaos.places import CONFIG, ENTRIES, HOST, PASSED, PHASES, SERVICE, SERVICE_END
from dstest.chaos.profile import KINDS
from dstest.chaos.proposals import Proposal, proposals_of
from dstest.chaos.ramp import Recovery, Step, breaking, recoveries_of, steps_of
from dstest.chaos.records import Began, Entry, Passed, ServiceEnd, read_lines
from dstest.chaos.sane import sane
from dstest.chaos.sealed import sealed
from dstest.chaos.timeouts import timeouts_of
from dstest.chaos.tracebacks import Raised, names_path, raised_after
from dstest.core.errors import ConfigError, EvidenceError, Exit
from dstest.core.shares import interval

_NEAR = 0.03
_CALM_MIN = 10
_MOST = 0.9
"""Of the requests that were asked for; an open loop misses a few at the ends of a stretch."""
_SPREAD = 4.0
"""Standard deviations by which a drawn share may be off."""


class Injected(msgspec.Struct, frozen=True, kw_only=True):
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
    injected: list[Injected]
    by_time: list[str]
    """Proxies that saw no id of requests: their faults are put to requests by time."""
    endpoints: list[Figures]
    patterns: list[Pattern]
    proposals: list[Proposal]
    steps: list[Step]
    recoveries: list[Recovery]
    logged: list[tuple[Raised, int]]
    """Tracebacks in the service's log, and how often each stands there."""
    service_end: ServiceEnd | None
    asked: list[Asked]

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
    passes = list(read_lines(directory / PASSED, Passed))
    phases = list(read_lines(directory / PHASES, Began))
    samples = list(read_lines(directory / HOST, Waited))
    whole = bool(sealed(directory))
    sane(settings, entries, passes)
    front = settings.front.name if settings.front is not None else None
    found = joined(
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


def _why_partial(config: Config, found: Joined, phases: Sequence[Began]) -> str:
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


def _injected(config: Config, found: Joined) -> list[Injected]:
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
                Injected(
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

    raised: Raised
    times: int
    before: str


def _logged(config: Config, directory: Path) -> list[_Logged]:
    service = config.settings.service
    if service is None or not service.source:
        return []
    counts: dict[Raised, int] = {}
    words: dict[Raised, str] = {}
    own = [Path(service.log)] if service.log else []
    for path in [directory / SERVICE, *own]:
        try:
            with path.open(encoding="utf-8", errors="replace") as lines:
                for raised, before in raised_after(lines, Path(service.source)):
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


_RAISED: Final[frozenset[str]] = frozenset(
    ("genuine failure", "unexplained failure", "spill-over", "hang", "unhandled error")
)
"""Patterns that a traceback may be of."""
