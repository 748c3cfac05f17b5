"""Patterns in what failed, those that no fault explains first, and the tracebacks of Python in
answers and logs, with the deepest frame of each that is the service's.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np

from dstest.chaos.figures import JoinedLogs, Lift, Request, lift_of, p95_drawn_s, p95_s, side_of
from dstest.chaos.records import Kind, ProxyRequest
from dstest.chaos.settings import Settings
from dstest.core.rates import interval

_FRAME: Final = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<where>\S+)')
_BEGIN: Final = "Traceback (most recent call last):"
_FRAMES_MAX: Final = 200

PatternKind = Literal[
    "genuine failure",
    "unexplained failure",
    "spill-over",
    "hang",
    "unhandled error",
    "waits",
    "handled",
    "survived",
    "retry storm",
    "amplification",
    "slow spill-over",
    "slow for a while",
    "caller",
]

_RANK: Final[dict[PatternKind, int]] = {
    "genuine failure": 0,
    "unexplained failure": 1,
    "spill-over": 2,
    "retry storm": 2,
    "amplification": 2,
    "hang": 3,
    "unhandled error": 3,
    "slow spill-over": 4,
    "slow for a while": 5,
    "waits": 5,
    "handled": 6,
    "survived": 7,
    "caller": 8,
}
"""The order in which they are told; those of one rank by how many requests they concern."""

DEFECTS: Final[frozenset[PatternKind]] = frozenset(
    kind for kind, rank in _RANK.items() if rank <= 4
)

_GRACEFUL: Final = frozenset((429, 502, 503, 504))
"""What a service answers that noticed that what it needs is not there."""

_SLOWER: Final = 2.0
_SLOWER_S: Final = 0.05

_ENOUGH: Final = 20
"""Requests on each side before latencies are compared."""

FEW: Final = 3
"""Fewer failures have no pattern."""

_MANY: Final = 2.3
"""Times as many requests behind the load as usual; three tries at a share of 0.7 make 2.2."""

_AT_ONCE_NS: Final = 6_000_000
"""What follows a failure so soon was not waited with."""

_ATTEMPTS: Final = 4.0
"""Requests to what the service needs, for one request of the load: from here on it is a storm."""

_DID: Final[dict[Kind, str]] = {
    "delay": "answered late",
    "error": "answered with an error",
    "reset": "reset the connection",
    "drop": "closed the connection without an answer",
    "blackhole": "never answered",
}

_WELL: Final[frozenset[PatternKind]] = frozenset(("survived", "waits", "handled"))


class RaisedError(NamedTuple):
    """An exception, and where the service's own source raised or called it. `file` is relative to
    the source's root."""

    file: str
    line: int
    function: str
    error: str


def error_in(text: str, root: Path) -> RaisedError | None:
    """Of the last traceback of a text that has a frame below `root`."""
    plain = html.unescape(text).replace("\\n", "\n").replace('\\"', '"')  # within HTML, within JSON
    found = None
    for one in errors_in_lines(plain.splitlines(), root):
        found = one
    return found


def errors_in_lines(lines: Iterable[str], root: Path) -> Iterator[RaisedError]:
    """Of each traceback, as its last line is read."""
    return (raised for raised, _ in errors_with_cause(lines, root))


def names_path(line: str, endpoint: str) -> bool:
    """Does a line of a log name the path of `METHOD /path`?"""
    path = re.escape(endpoint.partition(" ")[2])
    return len(path) > 1 and re.search(rf"(?<![\w/.-]){path}(?![\w/.-])", line) is not None


def errors_with_cause(lines: Iterable[str], root: Path) -> Iterator[tuple[RaisedError, str]]:
    """Of each traceback, as its last line is read, and the line before it."""
    frames: list[re.Match[str]] | None = None
    last = before = ""
    for line in lines:
        if _BEGIN in line:
            frames, before = [], f"{last} {line.partition(_BEGIN)[0]}"
        elif frames is not None:
            if match := _FRAME.search(line):
                if len(frames) < _FRAMES_MAX:
                    frames.append(match)
            elif line.strip() and not line.startswith((" ", "\t")):
                if told := _deepest(frames, line.strip(), root):
                    yield told, before
                frames = None
        last = line.strip() or last


def _deepest(frames: list[re.Match[str]], error: str, root: Path) -> RaisedError | None:
    base = root.resolve()
    for frame in reversed(frames):
        path = Path(frame["file"])
        absolute = path if path.is_absolute() else base / path
        try:
            inside = absolute.resolve().relative_to(base)
        except (ValueError, OSError):
            continue
        if "site-packages" not in inside.parts:
            return RaisedError(str(inside), int(frame["line"]), frame["where"], error[:300])
    return None


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """One pattern. `count` of `of` requests show it; `low` and `high` are the 95 % interval
    (Wilson) of their share."""

    kind: PatternKind
    endpoint: str
    says: str
    count: int
    of: int
    low: float
    high: float
    proxy: str | None = None
    fault: Kind | None = None
    lift: Lift | None = None
    why: dict[str, int] = {}
    requests: tuple[int, ...] = ()
    """Numbers of some that show it, as in load-results.json."""
    raised: RaisedError | None = None

    @property
    def defect(self) -> bool:
        """Should the service be changed?"""
        return self.kind in DEFECTS


def patterns_of(found: JoinedLogs, settings: Settings) -> list[Pattern]:
    """All patterns of a run."""
    source = settings.service.source if settings.service is not None else ""
    root = Path(source) if source else None
    front = settings.front.name if settings.front is not None else None
    endpoints = sorted({one.entry.endpoint for one in found.asked})
    judged = [one for one in found.asked if not one.timed_out_starved]
    told: list[Pattern] = []
    for name in endpoints:
        own = [one for one in judged if one.entry.endpoint == name]
        told += _without_fault(name, own, root)
        told += _slow_without_fault(name, own)
        told += _under_faults(name, own, front, root, found.guessed)
        told += _storms(name, own)
    told += _amplified(judged, front)
    told += list(_storms_by_count(found)) or list(_storms_at_once(found, front))
    return sorted(told, key=lambda one: (_RANK[one.kind], -one.count, one.endpoint))


def _pattern(
    kind: PatternKind,
    endpoint: str,
    says: str,
    shown: Sequence[Request],
    of: int,
    root: Path | None = None,
    **more: object,
) -> Pattern:
    rate = interval(len(shown), of)
    raised = None
    if root is not None:
        traces = Counter(
            trace for one in shown if (trace := error_in(one.entry.body, root)) is not None
        )
        raised = traces.most_common(1)[0][0] if traces else None
    return msgspec.convert(
        {
            "kind": kind,
            "endpoint": endpoint,
            "says": says,
            "count": len(shown),
            "of": of,
            "low": rate.low,
            "high": rate.high,
            "why": dict(Counter(a.entry.why for a in shown if a.entry.why).most_common()),
            "requests": tuple(one.entry.n for one in shown[:10]),
            "raised": raised,
            **more,
        },
        Pattern,
    )


def _without_fault(name: str, own: Sequence[Request], root: Path | None) -> Iterator[Pattern]:
    """Failures that no fault hit: at any time, or only while faults stood."""
    quiet = [one for one in own if one.calm]
    stood = [one for one in own if one.share != 0 and not one.hit]
    failed_quiet = [one for one in quiet if not one.entry.ok]
    failed_stood = [one for one in stood if not one.entry.ok]
    if not failed_quiet and not failed_stood:
        return
    usual, then = side_of(quiet), side_of(stood)
    if failed_quiet and then.failed_low <= usual.failed_high:
        failed = failed_quiet + failed_stood
        yield _pattern(
            "genuine failure",
            name,
            "fails without a fault, also while none stands anywhere",
            failed,
            len(quiet) + len(stood),
            root,
        )
        return
    if failed_quiet:
        yield _pattern(
            "genuine failure",
            name,
            "fails while no fault stands anywhere",
            failed_quiet,
            len(quiet),
            root,
        )
    if len(failed_stood) < FEW or not quiet or then.failed_low <= usual.failed_high:
        yield _pattern(
            "unexplained failure",
            name,
            "failed while faults stood that had not hit it; too few to tell whether it would "
            "without them",
            failed_stood,
            len(stood),
            root,
        )
    else:
        yield _pattern(
            "spill-over",
            name,
            "fails while faults hit others, and not without them",
            failed_stood,
            len(stood),
            root,
            lift=lift_of(then, usual),
        )


def _slow_without_fault(name: str, own: Sequence[Request]) -> Iterator[Pattern]:
    quiet = [one for one in own if one.calm and not one.starved]
    stood = [one for one in own if one.share != 0 and not one.hit and not one.starved]
    if min(len(quiet), len(stood)) < _ENOUGH:
        return
    usual_s, then_s = p95_s(quiet), p95_s(stood)
    limit_s = max(_SLOWER * usual_s, usual_s + _SLOWER_S)
    if then_s < limit_s:
        return
    slow = [one for one in stood if one.entry.latency_s > limit_s]
    sure = float(np.quantile(p95_drawn_s(stood, name), 0.025)) > limit_s
    yield _pattern(
        "slow spill-over" if sure else "slow for a while",
        name,
        f"waits while faults hit others: p95 {then_s * 1e3:.0f} ms, {usual_s * 1e3:.0f} ms without",
        slow,
        len(stood),
    )


def _under_faults(
    name: str,
    own: Sequence[Request],
    front: str | None,
    root: Path | None,
    guessed: Container[str],
) -> Iterator[Pattern]:
    """What became of requests that a fault hit, by where and which it was. Of faults that are
    `guessed` nobody knows that it survived them: it may not have met them."""
    groups: dict[tuple[str, Kind | None], list[Request]] = {}
    for one in own:
        if one.hit:
            groups.setdefault(_met_by(one), []).append(one)
    not_hit = side_of([one for one in own if not one.hit])
    for (proxy, kind), hit in sorted(groups.items(), key=lambda pair: -len(pair[1])):
        lift = lift_of(side_of(hit), not_hit)
        if proxy == front:
            yield _pattern(
                "caller",
                name,
                f"{kind or 'faults'} on the way to it: what a caller has to bear",
                hit,
                len(hit),
                proxy=proxy,
                fault=kind,
                lift=lift,
            )
            continue
        did = _DID[kind] if kind is not None else "met it with several faults"
        for what, says, has in _OUTCOMES:
            shown = [one for one in hit if has(one)]
            if what in _WELL:
                shown = [one for one in shown if not _any_of(one, guessed)]
            if shown:
                yield _pattern(
                    what,
                    name,
                    f"{says} where {proxy} {did}",
                    shown,
                    len(hit),
                    root,
                    proxy=proxy,
                    fault=kind,
                    lift=lift,
                )


def _any_of(one: Request, faults: Container[str]) -> bool:
    return any(fault.id in faults for fault in one.faults)


def _met_by(one: Request) -> tuple[str, Kind | None]:
    """Proxies and kind of the faults that hit a request; no kind where there were several."""
    proxies = sorted({fault.proxy for fault in one.faults})
    kinds = {fault.kind for fault in one.faults}
    return " and ".join(proxies), kinds.pop() if len(kinds) == 1 else None


def _hangs(one: Request) -> bool:
    return one.entry.trouble == "timeout"


def graceful(one: Request) -> bool:
    """Did it fail with an answer that says that something is not there?"""
    return not one.entry.ok and one.entry.status in _GRACEFUL


def _waits(one: Request) -> bool:
    delay_s = sum(fault.delay_s for fault in one.faults)
    return one.entry.ok and delay_s >= 0.5 and one.entry.service_s >= delay_s


def _unhandled(one: Request) -> bool:
    return not one.entry.ok and not _hangs(one) and not graceful(one)


def _survived(one: Request) -> bool:
    return one.entry.ok and not _waits(one)


_OUTCOMES: Final[tuple[tuple[PatternKind, str, Callable[[Request], bool]], ...]] = (
    ("hang", "does not answer within the caller's time", _hangs),
    ("unhandled error", "fails as if it had not been thought of", _unhandled),
    ("waits", "waits as long as it takes, and then succeeds,", _waits),
    ("handled", "answers that what it needs is not there", graceful),
    ("survived", "succeeds", _survived),
)


def _storms(name: str, own: Sequence[Request]) -> Iterator[Pattern]:
    """Many requests to what the service needs for one of the load that a fault hit."""
    calm = [one.passes for one in own if not one.hit and one.passes]
    usual = sum(calm) / len(calm) if calm else 1.0
    hit = [one for one in own if one.hit and one.passes]
    shown = [one for one in hit if one.passes >= _ATTEMPTS * usual]
    if shown:
        most = max(one.passes for one in shown)
        yield _pattern(
            "retry storm",
            name,
            f"asks again and again: up to {most} requests behind it for one, {usual:.1f} usually",
            shown,
            len(hit),
        )


def _amplified(asked: Sequence[Request], front: str | None) -> Iterator[Pattern]:
    """More failures than faults."""
    stood = [one for one in asked if one.share != 0]
    quiet = side_of([one for one in asked if one.calm])
    faults = {fault.id for one in stood for fault in one.faults if fault.proxy != front}
    failed = [
        one
        for one in stood
        if not one.entry.ok and not any(fault.proxy == front for fault in one.faults)
    ]
    if not faults or not quiet.requests:
        return
    beyond = interval(len(failed), len(stood)).low * len(stood) - quiet.failed_high * len(stood)
    if beyond > len(faults):
        yield _pattern(
            "amplification",
            "all endpoints",
            f"{len(faults)} faults, and {len(failed)} failures: one fault fails more than one",
            failed,
            len(stood),
        )


def _storms_at_once(found: JoinedLogs, front: str | None) -> Iterator[Pattern]:
    """Where no ids tell which request is behind which: the same is asked for again as soon as it
    has failed, several times in a row, more often than by chance."""
    for proxy in sorted(found.by_time - {front}):
        own = [one for one in found.passes if one.proxy == proxy]
        for route in sorted({one.endpoint for one in own}):
            passes = sorted(
                (one for one in own if one.endpoint == route), key=lambda one: one.begin_ns
            )
            rows = [row for row in _rows_of(passes) if row >= _ATTEMPTS]
            if len(rows) >= FEW:
                hit = [one for one in found.asked if one.hit]
                yield _pattern(
                    "retry storm",
                    "all endpoints",
                    f"ask {proxy} for {route} again at once, up to {max(rows)} times in a row:"
                    f" {len(rows)} times, in requests that may be these",
                    hit,
                    len(found.asked),
                    proxy=proxy,
                )


def _rows_of(passes: Sequence[ProxyRequest]) -> Iterator[int]:
    """How many requests follow one another, each at once where the one before had failed."""
    begins = [one.begin_ns for one in passes]
    follows: dict[int, int] = {}
    for at, one in enumerate(passes):
        if one.kind is not None and one.ended != "held":
            after = bisect_left(begins, one.end_ns)
            if after < len(passes) and begins[after] - one.end_ns <= _AT_ONCE_NS:
                follows[at] = after
    firsts = follows.keys() - set(follows.values())
    for first in sorted(firsts):
        at, count = first, 1
        while at in follows:
            at, count = follows[at], count + 1
        yield count


def _storms_by_count(found: JoinedLogs) -> Iterator[Pattern]:
    """Where no ids tell which request is behind which: many more requests to what the service
    needs, for each of the load, than without faults."""
    calm = [one for one in found.asked if one.calm]
    stood = [one for one in found.asked if one.share != 0]
    if not calm or not stood:
        return
    begin_ns = min(one.entry.due_ns for one in stood)
    before = [one for one in calm if one.entry.due_ns < begin_ns]
    for proxy in sorted(found.by_time):
        times = [one.begin_ns for one in found.passes if one.proxy == proxy]
        usual = sum(time_ns < begin_ns for time_ns in times) / max(1, len(before))
        now = sum(map(found.stood, times)) / len(stood)
        if usual and now >= _MANY * usual:
            hit = [one for one in stood if one.hit]
            yield _pattern(
                "retry storm",
                "all endpoints",
                f"ask {proxy} {now:.1f} times for one request while faults stand, {usual:.1f} times"
                " without",
                hit,
                len(stood),
                proxy=proxy,
            )
