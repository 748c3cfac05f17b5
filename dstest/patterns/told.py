"""All of a debugged run as text for people, as Markdown, and as an object."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from dstest.core.printable import one_line
from dstest.logs.windows import NO_FAULT
from dstest.patterns.catalogue import PATTERNS
from dstest.patterns.checklists import Box
from dstest.patterns.debug import Debugged
from dstest.patterns.model import Answer, Detection, Row
from dstest.patterns.rank import WEIGHTS, Hypothesis

SHOWN: Final = 5
"""Hypotheses told at length; `--json` has all."""

SIGNS: Final = 4
ROWS: Final = 3

_MARKS: Final = {"ok": "[x]", "expected": "[x]", "seen": "[!]", "open": "[ ]"}
_BY: Final = {pattern.id: pattern for pattern in PATTERNS}


def as_object(found: Debugged) -> dict[str, Any]:
    """For `--json`."""
    return {
        "path": found.path,
        "exit": int(found.code),
        "system": found.system or None,
        "workload": found.workload or None,
        "verdict": found.verdict,
        "observed": {
            "begin_ns": found.begin_ns,
            "end_ns": found.end_ns,
            "nodes": msgspec.to_builtins(found.nodes),
            "silent": [one.node for one in found.nodes if one.declared and not one.lines],
            "faults": found.faults,
            "findings": found.findings,
            "notes": found.notes,
        },
        "hypotheses": [_hypothesis(found, one) for one in found.hypotheses],
        "patterns": [_answer(one) for one in found.answers],
        "unclaimed": found.unclaimed,
        "checklists": msgspec.to_builtins(found.checklists),
        "measures": found.measures,
        "similar": found.similar,
        "thresholds": msgspec.to_builtins(found.thresholds),
    }


def _hypothesis(found: Debugged, one: Hypothesis) -> dict[str, Any]:
    pattern = _BY[one.pattern]
    return {
        **msgspec.to_builtins(one),
        "alarm": one.alarm,
        "symptoms": pattern.symptoms,
        "causes": list(pattern.causes),
        "mitigations": list(pattern.mitigations),
        "measure": list(pattern.measure),
        "tests": [{"asks": asks, "command": words} for asks, words in found.tests[one.pattern]],
        "verifications": [
            {"asks": asks, "command": words} for asks, words in found.verifications[one.pattern]
        ],
    }


def _answer(one: Answer) -> dict[str, Any]:
    pattern = _BY[one.pattern]
    return {
        "pattern": one.pattern,
        "number": pattern.number,
        "name": pattern.name,
        "family": pattern.family,
        "state": one.state,
        "looked": one.looked,
        "words": one.words,
        "missing": one.missing,
        "inputs": pattern.inputs,
        "detections": len(one.detections),
    }


def as_text(found: Debugged) -> Iterator[str]:
    """Lines for a terminal. Names are somebody else's, and a terminal obeys what it is given."""
    return map(one_line, _lines(found, "", ""))


def as_markdown(found: Debugged) -> str:
    """The same as a page."""
    lines = [f"# {one_line(found.path)}", ""]
    lines += [one_line(line) for line in _lines(found, "## ", "- ")]
    return "\n".join(lines) + "\n"


def _lines(found: Debugged, head: str, item: str) -> Iterator[str]:
    yield from _observed(found, head, item)
    yield ""
    yield from _hypothesised(found, head, item)
    yield ""
    yield f"{head}Test"
    yield from commands(found, found.tests, item)
    yield ""
    yield f"{head}Verify"
    yield from commands(found, found.verifications, item, most=1)
    if found.similar:
        yield ""
        yield f"{head}Seen before"
        yield from (f"{item}{line}" for line in found.similar)
    yield ""
    yield f"{head}Checklists"
    for name, boxes in found.checklists.items():
        yield f"{item}{name}"
        yield from (boxed(box) for box in boxes)
    if found.measures:
        yield ""
        yield f"{head}Measure next"
        yield from (f"{item}{line}" for line in found.measures)
    yield ""
    yield last(found)


def _observed(found: Debugged, head: str, item: str) -> Iterator[str]:
    yield f"{head}Observe"
    seconds = (found.end_ns - found.begin_ns) / 1e9
    what = " ".join(part for part in (found.system, found.workload) if part)
    yield f"{item}{found.path}: {what}, {found.verdict}; the whole run, {seconds:.1f} s"
    for node in found.nodes:
        if not node.declared:
            yield f"{item}{node.unknown:,} operations that nobody is known to have answered"
            continue
        hit = f", hit by {', '.join(node.faults)}" if node.faults else ""
        silent = " SILENT: no line of it is there" if node.declared and not node.lines else ""
        yield (
            f"{item}{node.node}: {node.lines:,} lines, {node.served:,} of {node.operations:,} "
            f"operations served, {node.unknown:,} unknown{hit}{silent}"
        )
    for fault in found.faults:
        yield f"{item}{observed_fault(fault)}"
    for line in found.findings or ["checkers found nothing"]:
        yield f"{item}{line}"
    yield from (f"{item}no pattern speaks of {line}" for line in found.unclaimed)
    yield from (f"{item}{line}" for line in found.notes)


def observed_fault(fault: dict[str, Any]) -> str:
    """A fault in a line."""
    begun, landed, healed = fault["injected_ns"], fault["landed_ns"], fault["healed_ns"]
    when = f" from {begun / 1e9:.1f} s" if begun is not None else ""
    when += f" to {healed / 1e9:.1f} s" if healed is not None else ""
    targets = ", ".join(fault["targets"]) or "all"
    proven = f" (proven at {landed / 1e9:.1f} s)" if landed is not None else ""
    what = f"{fault['nemesis']} on {targets}{when}"
    return f"fault {fault['id']}: {what}, landed: {fault['landed']}{proven}"


def _hypothesised(found: Debugged, head: str, item: str) -> Iterator[str]:
    yield f"{head}Hypothesise"
    odd = [one for one in found.hypotheses if not one.expected]
    if not odd:
        yield f"{item}nothing that no fault explains"
    for one in odd[:SHOWN]:
        yield from _told(one, item)
    if len(odd) > SHOWN:
        rest = ", ".join(f"{one.name} ({one.total:.2f})" for one in odd[SHOWN:])
        yield f"{item}and weaker: {rest}"
    explained = [one for one in found.hypotheses if one.expected]
    for one in explained:
        first = one.detections[0]
        count = sum(d.count for d in one.detections)
        yield f"{item}expected: {one.name}, {count:,} times, first in {first.window}: {first.why}"
    names = [_BY[a.pattern].name for a in found.answers if a.state == "not looked for"]
    if names:
        yield f"{item}not looked for: {', '.join(names)}"


def _told(one: Hypothesis, item: str) -> Iterator[str]:
    pattern = _BY[one.pattern]
    yield f"{item}{one.rank}. {one.name} (#{one.number}, {one.severity}, {one.total:.2f})"
    scores = ", ".join(f"{name} {one.scores[name].value:.2f}" for name in WEIGHTS)
    yield f"   {scores}"
    yield f"   {'; '.join(score.why for score in one.scores.values())}"
    for detection in one.detections[:SIGNS]:
        yield from _detection(detection)
    if len(one.detections) > SIGNS:
        yield f"   and {len(one.detections) - SIGNS} more findings, with --json"
    yield f"   it shows as: {pattern.symptoms}"
    yield f"   usual causes: {'; '.join(pattern.causes)}"
    yield f"   what helps: {'; '.join(pattern.mitigations)}"


def detected(one: Detection) -> str:
    """A finding in a sentence."""
    where = f" at {', '.join(one.nodes)}" if one.nodes else ""
    return f"{one.strength}: {one.said}{where}, {_window(one)}"


def _detection(one: Detection) -> Iterator[str]:
    yield f"   {detected(one)}"
    yield from (f"     {evidence(row)}" for row in one.rows[:ROWS])


def _window(one: Detection) -> str:
    return f"in {one.window}" if one.in_window else one.window or NO_FAULT


def evidence(row: Row) -> str:
    """Where it stands, when and where it was, and what it says."""
    at = "" if row.time_ns is None else f" {row.time_ns / 1e9:+.3f} s"
    node = f" {row.node}" if row.node else ""
    ops = f" ops {', '.join(map(str, row.ops[:6]))}" if row.ops else ""
    return f"{row.place}{at}{node}{ops}  {row.text}"


def commands(
    found: Debugged, of: dict[str, list[tuple[str, str]]], item: str = "", most: int = SHOWN
) -> Iterator[str]:
    """Each command once, under the first hypothesis that wants it."""
    said: set[str] = set()
    odd = [one for one in found.hypotheses if not one.expected][:most]
    for one in odd:
        fresh = [row for row in of[one.pattern] if said.isdisjoint(row)]
        if fresh:
            yield f"{item}{one.name}:"
        for asks, words in fresh:
            said.update((asks, words))
            yield f"   {asks}: {words}"
    if not odd:
        yield f"{item}nothing to do: no hypothesis that no fault explains"


def boxed(box: Box) -> str:
    """A box of a checklist, with what it rests on."""
    why = f": {box.why}" if box.why else ""
    expected = " (expected)" if box.state == "expected" else ""
    return f"   {_MARKS[box.state]} {box.text}{expected}{why}"


def last(found: Debugged) -> str:
    """What it came to, in a line."""
    states = [one.state for one in found.answers]
    looked = len(states) - states.count("not looked for")
    rest = f"{looked} of {len(states)} patterns were looked for"
    alarms: Sequence[Hypothesis] = found.alarms
    if alarms:
        first = alarms[0]
        return f"likeliest: {first.name}; {len(alarms)} high or critical, unexplained; {rest}"
    return f"nothing high or critical that no fault explains; {rest}"
