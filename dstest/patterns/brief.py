"""A debugged run as one reads it in a minute; `told.py` has all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from dstest.core.printable import one_line
from dstest.core.words import shell_word
from dstest.patterns.catalogue import PATTERNS
from dstest.patterns.debug import Debugged
from dstest.patterns.rank import Hypothesis
from dstest.patterns.told import boxed, commands, detected, evidence, last, observed_fault

HYPOTHESES: Final = 3
ROWS: Final = 2
FAULTS: Final = 3
FINDINGS: Final = 5
WAYS: Final = 3
NOTES: Final = 3
_BY: Final = {pattern.id: pattern for pattern in PATTERNS}


def as_brief(found: Debugged) -> Iterator[str]:
    """Lines for a terminal. Names are somebody else's, and a terminal obeys what it is given."""
    return map(one_line, _lines(found))


def _lines(found: Debugged) -> Iterator[str]:
    yield "Observe"
    yield from _observed(found)
    yield ""
    yield "Hypothesise"
    yield from _hypothesised(found)
    yield ""
    yield "Test"
    yield from commands(found, found.tests, most=HYPOTHESES)
    if found.similar:
        yield ""
        yield "Seen before"
        yield from found.similar[:NOTES]
    yield ""
    yield "Checklists"
    yield from _checklists(found)
    if found.measures:
        yield ""
        yield "Measure next"
        yield from _few([_way(one) for one in found.measures], WAYS, "ways")
    yield ""
    yield f"all of it: dstest debug {shell_word(found.path)} --all"
    yield last(found)


def _few(lines: list[str], most: int, what: str) -> Iterator[str]:
    yield from lines[:most]
    if len(lines) > most:
        yield f"and {len(lines) - most} more {what}"


def _observed(found: Debugged) -> Iterator[str]:
    seconds = (found.end_ns - found.begin_ns) / 1e9
    what = " ".join(part for part in (found.system, found.workload) if part)
    yield f"{found.path}: {what}, {found.verdict}; the whole run, {seconds:.1f} s"
    members = [one for one in found.nodes if one.declared]
    lines, asked, served, unknown = (
        sum(getattr(one, name) for one in found.nodes)
        for name in ("lines", "operations", "served", "unknown")
    )
    yield (
        f"{len(members)} nodes: {lines:,} lines, {served:,} of {asked:,} operations served, "
        f"{unknown:,} unknown"
    )
    for one in members:
        if not one.lines:
            yield f"{one.node} SILENT: no line of it is there"
    yield from map(observed_fault, found.faults[:FAULTS])
    if rest := found.faults[FAULTS:]:
        not_landed = sum(one["landed"] != "yes" for one in rest)
        yield f"and {len(rest)} more faults, {not_landed} of them not proven to have landed"
    yield from _few(found.findings or ["checkers found nothing"], FINDINGS, "kinds")
    yield from (f"no pattern speaks of {line}" for line in found.unclaimed)
    yield from _few(found.notes, NOTES, "notes")


def _hypothesised(found: Debugged) -> Iterator[str]:
    odd = [one for one in found.hypotheses if not one.expected]
    if not odd:
        yield "nothing that no fault explains"
    for one in odd[:HYPOTHESES]:
        yield from _told(one)
    if weaker := [f"{one.name} ({one.total:.2f})" for one in odd[HYPOTHESES:]]:
        yield f"and weaker: {', '.join(weaker)}"
    if expected := [one.name for one in found.hypotheses if one.expected]:
        yield f"expected, as faults explain it: {', '.join(expected)}"


def _told(one: Hypothesis) -> Iterator[str]:
    """The strongest finding with its first rows, and the next one's where it has too few."""
    yield f"{one.rank}. {one.name} (#{one.number}, {one.severity}, {one.total:.2f})"
    shown = told = 0
    for detection in one.detections:
        yield f"   {detected(detection)}"
        told += 1
        for row in detection.rows[: ROWS - shown]:
            yield f"     {evidence(row)}"
            shown += 1
        if shown >= ROWS:
            break
    if rest := len(one.detections) - told:
        yield f"   and {rest} more {'findings' if rest > 1 else 'finding'}"
    yield f"   what helps: {'; '.join(_BY[one.pattern].mitigations)}"


def _checklists(found: Debugged) -> Iterator[str]:
    """Counts, and the boxes in which something is wrong."""
    for name, boxes in found.checklists.items():
        count = Counter(box.state for box in boxes)
        well = count["ok"] + count["expected"]
        yield f"{name}: {well} of {len(boxes)} well, {count['seen']} not, {count['open']} open"
        yield from (boxed(box) for box in boxes if box.state == "seen")


def _way(line: str) -> str:
    """How, and for how many patterns."""
    how, _, names = line.rpartition(": ")
    count = names.count(", ") + 1
    return f"{how}: for {count} {'patterns' if count > 1 else 'pattern'}"
