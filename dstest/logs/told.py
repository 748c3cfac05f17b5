"""What a look at logs came to, as text for people and as an object."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from dstest.core.errors import Exit
from dstest.core.printable import one_line
from dstest.logs.clocks import Clocks
from dstest.logs.findings import Finding, Outcome
from dstest.logs.look import Look
from dstest.logs.scene import Scene

FINDINGS_MAX: Final = 40
"""Findings told at length to people; `--json` has all."""

PAIRS_MAX: Final = 12


def code_of(look: Look) -> Exit:
    """1: something of high or critical severity that nothing explains; 3: nothing was evaluated."""
    if look.bad:
        return Exit.FAIL
    return Exit.PASS if look.evaluated and look.lines else Exit.NOT_PROVEN


def _time(time_ns: int | None, *, run: bool) -> str:
    if time_ns is None:
        return ""
    return f" {time_ns / 1e9:+.3f} s" if run else ""


def _shown(finding: Finding, *, run: bool) -> Iterator[str]:
    about = (" -> " if len(finding.nodes) == 2 else ", ").join(finding.nodes) or "all nodes"
    when = finding.window if finding.window.startswith("no ") else f"in {finding.window}"
    times = f", {finding.count:,} times" if finding.count > 1 else ""
    yield f"{finding.severity} {finding.check}: {finding.said}"
    yield f"  {about}, {when}{times}: {finding.why}"
    for row in finding.rows:
        yield f"  {row.place}{_time(row.time_ns, run=run)}  {row.text}"
    if not finding.expected and finding.todo:
        yield f"  to do: {finding.todo}"


def _explained(findings: Sequence[Finding]) -> Iterator[str]:
    """What faults explain: a line for each check and window."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for one in findings:
        if one.expected:
            groups.setdefault((one.check, one.window, one.why), []).append(one)
    for (check, window, why), rows in groups.items():
        count = sum(row.count for row in rows)
        first = next((row.place for one in rows for row in one.rows), "")
        where = f", first {first}" if first else ""
        yield f"expected {check} in {window}: {count:,} times{where}; {why}"


def _matrix(outcome: Outcome) -> Iterator[str]:
    """Who has failed to reach whom."""
    rows = [row for row in outcome.facts.get("reachability", []) if row["to"]]
    if not rows:
        return
    rows.sort(key=lambda row: (row["expected"], -row["failures"]))
    yield "who failed to reach whom (failures, most within a minute):"
    for row in rows[:PAIRS_MAX]:
        mark = "expected" if row["expected"] else "unexpected"
        counts = f"{row['failures']:,}, {row['most_a_minute']:,}"
        yield f"  {row['from']} -> {row['to']}  {row['window']}  {counts}  {mark}"
    if len(rows) > PAIRS_MAX:
        yield f"  and {len(rows) - PAIRS_MAX} more, with --json"


def _by_check(look: Look) -> Iterator[str]:
    for outcome in look.outcomes:
        if outcome.not_evaluated:
            yield f"not evaluated  {outcome.check}: {outcome.not_evaluated}"
            continue
        bad = sum(not one.expected for one in outcome.findings)
        explained = len(outcome.findings) - bad
        told = f"{bad} unexpected" if bad else "clean"
        told += f", {explained} explained" if explained else ""
        yield f"{told}  {outcome.check}: {outcome.looked}"
        yield from (f"    of this: {note}" for note in outcome.notes)


def as_text(name: str, look: Look, scene: Scene, clocks: Clocks, reader_note: str) -> Iterator[str]:
    """Lines for people: what was read, what was found, and what each check looked at. Names are
    somebody else's, and a terminal obeys what it is given."""
    return map(one_line, _lines(name, look, scene, clocks, reader_note))


def _lines(name: str, look: Look, scene: Scene, clocks: Clocks, reader_note: str) -> Iterator[str]:
    run = scene.windows.known
    forms = ", ".join(f"{count:,} {form}" for form, count in look.forms.items())
    faults = [w for w in scene.windows.every if w.nemesis]
    told = f"faults {len(faults)}" if run else "of no run: no fault is known"
    much = f"lines {look.lines:,}, nodes {len(scene.declared)}, files {look.files}"
    yield f"{name}: {much}, {told}"
    yield f"read as: {forms or 'nothing'}; {reader_note}"
    if look.stampless:
        yield f"{look.stampless:,} lines have no time: no fault can explain what they say"
    if look.unbounded:
        yield f"--since and --until left {look.unbounded:,} lines in: they have no time to go by"
    yield "clocks: " + "; ".join(clocks.said(scene.declared))
    yield ""
    findings = look.findings
    odd = [finding for finding in findings if not finding.expected]
    for finding in odd[:FINDINGS_MAX]:
        yield from _shown(finding, run=run)
    if len(odd) > FINDINGS_MAX:
        yield f"and {len(odd) - FINDINGS_MAX} more findings, with --json"
    yield from _explained(findings)
    for outcome in look.outcomes:
        yield from _matrix(outcome)
    if findings:
        yield ""
    yield from _by_check(look)
    yield ""
    yield _last(look)


def _last(look: Look) -> str:
    missing = len(look.outcomes) - len(look.evaluated)
    rest = f"; {missing} of {len(look.outcomes)} checks had nothing to look at" if missing else ""
    if look.bad:
        return f"{len(look.bad)} findings that nothing explains, high or critical{rest}"
    if not look.evaluated or not look.lines:
        return f"nothing was evaluated{rest}"
    return f"nothing high or critical that nothing explains{rest}"


def as_object(
    name: str, look: Look, scene: Scene, clocks: Clocks, system: str, notes: Sequence[str]
) -> dict[str, Any]:
    """For `--json`."""
    return {
        "path": name,
        "exit": int(code_of(look)),
        "system": system or None,
        "nodes": scene.declared,
        "lines": look.lines,
        "files": look.files,
        "forms": look.forms,
        "stampless": look.stampless,
        "unbounded": look.unbounded,
        "notes": list(notes),
        "clocks": {
            "said": clocks.said(scene.declared),
            "offsets": msgspec.to_builtins(clocks.offsets),
        },
        "windows": [msgspec.to_builtins(w) for w in scene.windows.every],
        "findings": [msgspec.to_builtins(one) for one in look.findings],
        "checks": [
            {
                "check": o.check,
                "evaluated": not o.not_evaluated,
                "why_not": o.not_evaluated or None,
                "looked": o.looked,
                "findings": len(o.findings),
                "unexpected": sum(not one.expected for one in o.findings),
                "notes": o.notes,
                "facts": o.facts,
            }
            for o in look.outcomes
        ],
    }
