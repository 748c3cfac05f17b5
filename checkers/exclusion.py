"""`exclusion`: a lock or lease is never surely held by two at once.

    {"op_type": "acquire", "key": "l", "process_id": 3, "input": {"ttl_ns": 5000000000},
     "output": {"token": 17}}
    {"op_type": "renew",   "key": "l", "process_id": 3, "input": {"ttl_ns": 5000000000}, ...}
    {"op_type": "release", "key": "l", "process_id": 3, ...}

Only time in which a hold is *certain* counts, so that no overlap is made up:

    acquire ok       from its completion, for a lease until its invocation plus the time to live
    renew ok         from its completion until its invocation plus the time to live
    renew fail       the hold is over from its invocation on
    release ok       the hold is over from its invocation on, as from that of an unknown one
    release fail     nothing was released: the hold goes on, but with the code `not-held`, by
                     which there is none to go on: it is over from the invocation on
    acquire unknown  no certain hold

`ttl_ns` is absent for a lock, whose hold lasts until it is released; `input` may be null. An
acquire that is ok with output `false` did not get the lock. A `token` is a fencing token: it must
rise from hold to hold in real time.

Tested is an acquire that a server without exclusion would have answered so that holds overlap:

    ok with output `false`, while another process surely held the lock, or was given it just then
    ok, after a wait in which another process surely held the lock for as long as the fastest
    acquire of this lock took

Who asks for a lock that is free is let in by any server, and fencing tokens that only rise from one
such holder to the next do not make that a test of the lock.

A server that has forgotten a lock which does not expire has broken it: what a client says then is
not `not-held`, so that the next holder overlaps.

| anomaly | meaning |
|---|---|
| overlapping-holds | two processes surely held the same lock at the same time |
| fencing-token-regressed | a later hold got a token that is not above an earlier one's |
| fencing-token-reused | two holds got the same token |

Source: Kleppmann, "How to do distributed locking" (2016), for fencing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from checkers._findings import Findings, Part, PerKey, Unreadable, end_of, regressions
from checkers.columns import NEVER
from dstest.core.op import Op, Outcome
from dstest.core.protocols import NOT_HELD, code_of
from dstest.core.words import quoted


@dataclass(slots=True)
class Hold:
    """A stretch `[start, end)` in which `by` surely held the lock; `until` is what ended it."""

    by: int | str
    start: int
    end: int
    acquire: Op
    source: Op
    until: Op | None = None


def _ttl_ns(op: Op) -> int | None:
    value = op.input.get("ttl_ns") if isinstance(op.input, dict) else None
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise Unreadable(op, f"ttl_ns {quoted(value)} is not a positive number of ns")
    return value


def _ends(op: Op) -> bool:
    """Is the hold of its process over from its invocation on?"""
    refused = op.outcome is Outcome.FAIL
    if op.op_type == "release":
        return not refused or code_of(op.error) == NOT_HELD
    return op.op_type == "renew" and refused


def holds(part: Part) -> list[Hold]:
    """All certain holds of one lock. What ends a hold ends all that its process has."""
    spans: list[Hold] = []
    current: dict[int | str, Op] = {}
    live: dict[int | str, list[Hold]] = {}
    everything = (*part.ok, *part.unknown, *part.failed)
    for op in sorted(everything, key=lambda op: op.invoke_ts):
        ok, who = op.outcome is Outcome.OK, op.process_id
        if op.op_type == "acquire" and ok and op.output is not False:
            current[who] = op
        elif _ends(op):
            for hold in live.pop(who, ()):
                if op.invoke_ts < hold.end:
                    hold.end, hold.until = op.invoke_ts, op
            current.pop(who, None)
            continue
        elif not (op.op_type == "renew" and ok and who in current):
            continue
        ttl = _ttl_ns(op)
        end = NEVER if ttl is None else op.invoke_ts + ttl
        hold = Hold(who, end_of(op), end, current[who], op)
        live.setdefault(who, []).append(hold)
        spans.append(hold)
    return [hold for hold in spans if hold.start < hold.end]


def _in_vain(part: Part, hold: Hold, until: int) -> list[Op]:
    """The last release of this hold that was refused before `until`, and that did not end it."""
    refused = [
        op
        for op in part.refused("release")
        if op.process_id == hold.by
        and not _ends(op)
        and end_of(hold.acquire) <= op.invoke_ts < until
    ]
    return refused[-1:]


def _latest_two(holding: list[Hold], hold: Hold) -> list[Hold]:
    """Of these and one more, the two that end last, of different processes: all that whoever comes
    later can meet."""
    found = sorted([*holding, hold], key=lambda h: h.end, reverse=True)
    return found[:1] + [h for h in found[1:] if h.by != found[0].by][:1]


def _overlaps(part: Part, findings: Findings, stretches: list[Hold]) -> None:
    """Two certain holds by different processes at the same time."""
    latest: list[Hold] = []
    told: set[tuple[int, int]] = set()
    for hold in sorted(stretches, key=lambda h: h.start):
        for other in latest:
            if other.by == hold.by:
                continue
            pair = (id(other.acquire), id(hold.acquire))
            if other.end > hold.start and pair not in told:
                told.add(pair)
                end_ns = min(other.end, hold.end)
                both_ns = end_ns - hold.start
                for_good = both_ns > NEVER // 2
                message = f"processes {other.by} and {hold.by} both surely held the lock " + (
                    "from then on" if for_good else f"for {both_ns / 1e6:.3f} ms"
                )
                ops = [other.acquire, other.source, hold.acquire, hold.source]
                ops += [h.until for h in (other, hold) if h.until is not None]
                if not findings.full("overlapping-holds"):
                    ops += [r for h in (other, hold) for r in _in_vain(part, h, hold.start)]
                # The acquire that was wrong goes last.
                ops = [*(op for op in ops if op is not hold.acquire), hold.acquire]
                lasts = (hold.start, None if for_good else end_ns)
                findings.anomaly("overlapping-holds", part.key, ops, message, overlap_ns=lasts)
        latest = _latest_two(latest, hold)


def _met(asked: list[tuple[int, int, int | str]], spans: list[tuple[int, Hold]]) -> int:
    """How many of (before, after, process) meet a hold of another process that is there `before`
    one time and ends `after` another; with each hold goes the time from which on it is there."""
    latest: list[Hold] = []
    left = sorted(spans, key=lambda span: span[0], reverse=True)
    found = 0
    for before, after, by in sorted(asked, key=lambda row: row[0]):
        while left and left[-1][0] < before:
            latest = _latest_two(latest, left.pop()[1])
        found += any(h.by != by and h.end > after for h in latest)
    return found


def _contended(part: Part, stretches: list[Hold]) -> int:
    """Acquires that test the lock, as the top of this file says."""
    acquires = part.of("acquire")
    fastest = min((end_of(op) - op.invoke_ts for op in acquires), default=0)
    refused = [(end_of(op), end_of(op), op.process_id) for op in acquires if op.output is False]
    waited = [
        (end_of(op) - fastest + 1, op.invoke_ts + fastest - 1, op.process_id)
        for op in acquires
        if op.output is not False
    ]
    long = [(hold.start, hold) for hold in stretches if hold.end - hold.start >= fastest]
    return _met(refused, [(h.source.invoke_ts, h) for h in stretches]) + _met(waited, long)


def _token(op: Op) -> Any:
    return op.output.get("token") if isinstance(op.output, dict) else None


def _tokens(part: Part, findings: Findings) -> None:
    """Fencing tokens rise in real time and are given once."""
    given = [op for op in part.of("acquire") if _token(op) is not None]
    for op in given:
        if isinstance(_token(op), bool) or not isinstance(_token(op), int | float):
            message = (
                f"op {op.op_id} (acquire): its token {quoted(_token(op))} is no number, "
                f"so has no order"
            )
            findings.undecide(part.key, message)
            return
    first: dict[Any, Op] = {}
    for op in given:
        before = first.setdefault(_token(op), op)
        if before is not op:
            who = f"acquires (ops {before.op_id} and {op.op_id})"
            message = f"{who} both got the token {_token(op)}"
            findings.anomaly("fencing-token-reused", part.key, [before, op], message)
    for top, op in regressions(given, _token):
        message = f"token {_token(op)} came after {_token(top)}, so it fences nothing off"
        findings.anomaly("fencing-token-regressed", part.key, [top, op], message)


def decide(part: Part, findings: Findings) -> int:
    """Overlaps and tokens of one lock; how many acquires were contended."""
    stretches = holds(part)
    _overlaps(part, findings, stretches)
    _tokens(part, findings)
    contended = _contended(part, stretches)
    acquired = len({id(h.acquire) for h in stretches})
    findings.count(holds=len(stretches), acquired=acquired, contended=contended)
    return contended


CHECKER: Final = PerKey(
    "exclusion",
    decide,
    models=("lock", "lease"),
    types=frozenset({"acquire", "renew", "release"}),
    prefix_closed=True,
    vacuous="no acquire was refused, or had to wait, while another process surely held the lock",
    observers=frozenset(),
)
