"""The report of a chaos run, and the files beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from dstest.chaos.figures import Figures, Recovery, Side
from dstest.chaos.outcome import Outcome
from dstest.chaos.records import CONFIG, ENTRIES, PASSED, PATTERNS, PROPOSALS, REPORT, RESULTS
from dstest.core.errors import Exit


def write_files(outcome: Outcome, directory: Path) -> None:
    """Write the four files that are made of the logs; `chaos-config.json` lies there already."""
    results = {
        "data": outcome.data,
        "why_partial": outcome.why_partial,
        "requests": outcome.requests,
        "unfinished": outcome.unfinished,
        "ok": outcome.ok,
        "seconds": round(outcome.seconds, 3),
        "endpoints": outcome.endpoints,
        "entries": [
            {
                "n": one.entry.n,
                "endpoint": one.entry.endpoint,
                "phase": one.phase,
                "latency_s": round(one.entry.latency_s, 6),
                "status": one.entry.status,
                "trouble": one.entry.trouble,
                "ok": one.entry.ok,
                "why": one.entry.why,
                "chaos_id": one.faults[0].id if one.faults else None,
                "chaos_ids": [fault.id for fault in one.faults],
            }
            for one in outcome.asked
        ],
    }
    patterns = {
        "patterns": outcome.patterns,
        "injected": outcome.injected,
        "steps": outcome.steps,
        "recoveries": outcome.recoveries,
        "by_time": outcome.by_time,
    }
    for name, told in (
        (RESULTS, results),
        (PATTERNS, patterns),
        (PROPOSALS, {"proposals": outcome.proposals}),
    ):
        (directory / name).write_bytes(msgspec.json.format(msgspec.json.encode(told)) + b"\n")
    (directory / REPORT).write_text(page_of(outcome), encoding="utf-8")


def page_of(outcome: Outcome) -> str:
    """`chaos-test-report.md`."""
    settings = outcome.config.settings
    parts = [
        f"# Chaos: {settings.target}",
        _headline(outcome),
        *_guessed(outcome),
        *_list("What it does wrong", outcome.defects[:3], _of_all(len(outcome.defects))),
        *_list("Why it proves no more", outcome.unshown),
        "## Faults",
        *_injected(outcome),
        "## Load",
        f"{outcome.requests} requests in {outcome.seconds:.1f} s, {outcome.ok} of them succeeded "
        f"({_share(outcome.ok, outcome.requests)}). Data: {outcome.data}"
        + (f" ({outcome.why_partial})." if outcome.why_partial else ".")
        + " Latency counts from when a request was due.",
        *_endpoints(outcome.endpoints),
        *_ramp(outcome),
        "## Patterns",
        *_patterns(outcome),
        "## What to change",
        *_proposals(outcome),
        "## Again",
        _again(settings.seed),
    ]
    return "\n\n".join(parts) + "\n"


def _again(seed: int) -> str:
    return (
        f"Settings, seed {seed} and ports: `{CONFIG}`. Each request: `{ENTRIES}`; what came to "
        f"each proxy: `{PASSED}`. After a change, the same settings into a new directory, then "
        "`dstest chaos diff BEFORE AFTER`."
    )


def _headline(outcome: Outcome) -> str:
    defects = len(outcome.defects)
    if outcome.exit == Exit.FAIL:
        return f"**{defects} defect{'s' if defects > 1 else ''}**, the first of them below."
    if outcome.exit == Exit.NOT_PROVEN:
        return "**Nothing is shown.** No defect was seen, in a run that could not show one."
    return (
        "**It held.** No defect was seen under this load and these faults; others were not tried."
    )


def _guessed(outcome: Outcome) -> Iterator[str]:
    if outcome.by_time:
        yield (
            f"**Hand on `X-Request-Id` (or `traceparent`) to {', '.join(outcome.by_time)}**, and "
            "run it again. The service hands on neither: which request met which fault there is "
            "not known, so that faults count for all requests in flight. What is said below of "
            "endpoints and faults is a guess, and lifts are too low."
        )


def _of_all(count: int) -> str:
    return f"The first three of {count}; all are below, as patterns." if count > 3 else ""


def _list(title: str, lines: Sequence[str], note: str = "") -> Iterator[str]:
    if lines:
        yield f"## {title}"
        if note:
            yield note
        yield "\n".join(f"{n}. {line}" for n, line in enumerate(lines, 1))


def _share(count: int, of: int) -> str:
    return f"{count / of:.1%}" if of else "of none"


def _injected(outcome: Outcome) -> Iterator[str]:
    if not outcome.injected:
        yield "None was asked for."
        return
    rows = [
        "| proxy | fault | asked for | injected | of requests | landed |",
        "|---|---|---|---|---|---|",
    ]
    for one in outcome.injected:
        asked = f"{one.asked:.1%}" if one.asked is not None else "ramp"
        rows.append(
            f"| {one.proxy} | {one.kind} | {asked} | {_share(one.injected, one.requests)} "
            f"({one.low:.1%} to {one.high:.1%}) | {one.requests} | "
            f"{one.landed} of {one.injected} |"
        )
    yield "\n".join(rows)
    yield (
        "Landed: of the proxy in front, what the load saw (a later answer, the injected status "
        "with its id, a lost connection, none in time); of others, that their "
        "client was still there."
    )


def _endpoints(endpoints: Sequence[Figures]) -> Iterator[str]:
    rows = [
        "| endpoint | | requests | failed | p50 ms | p95 ms | p99 ms |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in endpoints:
        rows.append(_side(one.endpoint, "no fault", one.not_hit))
        rows.append(_side("", "hit by one", one.hit))
    yield "\n".join(rows)
    lifts = [
        f"{one.endpoint}: a fault makes failure {one.lift.value:.1f} times as likely "
        f"({one.lift.low:.1f} to {one.lift.high:.1f})."
        for one in endpoints
        if one.lift is not None
    ]
    if lifts:
        yield "\n".join(f"- {line}" for line in lifts)


def _side(name: str, what: str, side: Side) -> str:
    times = [
        f"{v * 1e3:.0f}" if v is not None else "" for v in (side.p50_s, side.p95_s, side.p99_s)
    ]
    failed = f"{side.failed} ({_share(side.failed, side.requests)})" if side.requests else ""
    return f"| {name} | {what} | {side.requests} | {failed} | {' | '.join(times)} |"


def _ramp(outcome: Outcome) -> Iterator[str]:
    if outcome.steps:
        yield "## Ramp"
        rows = [
            "| faults | requests without one | of them failed | p95 ms | |",
            "|---|---|---|---|---|",
        ]
        for step in outcome.steps:
            holds = "holds" if step.hit else "says nothing: no fault hit a request"
            p95 = f"{step.p95_s * 1e3:.0f}" if step.p95_s is not None else ""
            rows.append(
                f"| {step.share:g} | {step.requests} | {_share(step.failed, step.requests)} "
                f"({step.failed_low:.1%} to {step.failed_high:.1%}) | {p95} | "
                f"{step.broken or holds} |"
            )
        yield "\n".join(rows)
    if outcome.recoveries:
        yield "\n".join(f"- {line}" for line in map(_recovered, outcome.recoveries))


def _recovered(one: Recovery) -> str:
    head = f"{one.endpoint}, after {one.after!r}: "
    if one.why:
        return head + f"not recovered within {one.watched_s:.1f} s: {one.why}"
    if one.after_s is None:
        return head + "unknown, too few requests or no core for the service"
    return head + ("no failure" if not one.after_s else f"last failure after {one.after_s:.2f} s")


def _patterns(outcome: Outcome) -> Iterator[str]:
    if not outcome.patterns:
        yield "None: no request failed, and no fault changed what one got."
        return
    lines = []
    for n, one in enumerate(outcome.patterns, 1):
        mark = "**" if one.defect else ""
        line = f"{n}. {mark}{one.kind}{mark}: {one.endpoint} {one.says}: {one.count} of {one.of}"
        line += f" ({one.low:.0%} to {one.high:.0%})"
        if one.why:
            line += "; " + ", ".join(f"{why} ({count})" for why, count in one.why.items())
        if one.raised:
            line += f"; {one.raised.file}:{one.raised.line} in {one.raised.function}: "
            line += one.raised.error
        numbers = ", ".join(map(str, one.requests[:5]))
        lines.append(f"{line}. Requests {numbers}.")
    yield "\n".join(lines)
    if outcome.logged:
        yield "Tracebacks in the service's log:"
        yield "\n".join(
            f"- {raised.file}:{raised.line} in {raised.function}: {raised.error} ({count})"
            for raised, count in outcome.logged[:10]
        )


def _proposals(outcome: Outcome) -> Iterator[str]:
    if not outcome.proposals:
        yield "Nothing, by what was seen."
        return
    yield "\n".join(
        f"{n}. {one.endpoint}: {one.change}."
        + (f" `{one.file}:{one.line}`." if one.file else "")
        + f" Why: {one.why}."
        for n, one in enumerate(outcome.proposals, 1)
    )
