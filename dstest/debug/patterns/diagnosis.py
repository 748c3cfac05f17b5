"""A failed run diagnosed in four steps (observe, hypothesise, test, verify), and the diagnosis as
text, in brief or at length, as Markdown and as an object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from dstest.core.errors import Exit
from dstest.core.op import Op, Outcome
from dstest.core.words import one_line, shell_word
from dstest.debug.logs.scene import NO_FAULT, NO_TIME, NO_WINDOWS
from dstest.debug.patterns.analysis import OF_FILES, PATTERNS, analyse
from dstest.debug.patterns.checklists import (
    WEIGHTS,
    Box,
    Hypothesis,
    fill_in,
    next_measures,
    rank,
    tests_of,
    verifications_of,
)
from dstest.debug.patterns.model import (
    STRENGTHS,
    Answer,
    Detection,
    EvidenceRow,
    Pattern,
    Settings,
)
from dstest.debug.patterns.scene import RunScene, Scene

SHOWN: Final = 5
"""Hypotheses told at length; `--json` has all."""

SIGNS: Final = 4
ROWS: Final = 3
_MARKS: Final = {"ok": "[x]", "expected": "[x]", "seen": "[!]", "open": "[ ]"}
_MECHANISMS: Final = frozenset({"consensus", "state", "partition"})
"""Families of patterns that say how it came about; the others say how it shows."""

_LOSS: Final = "lost-update"
_TELLING: Final = (
    *("promise-broken", "two-primaries", "two-leaders", "two-claims", "commits-alone"),
    *("both-sides", "commit-undone"),
)
"""Signs that say how it came about, the most telling first."""

_RECORDS: Final = frozenset({"journal", "state", "log"})
"""Sources of evidence that servers wrote themselves."""

_CAUSES: Final = 2
_SURE: Final = STRENGTHS[:2]
_BY: Final = {pattern.id: pattern for pattern in OF_FILES}
HYPOTHESES: Final = 3
BRIEF_ROWS: Final = 2
FAULTS: Final = 3
FINDINGS: Final = 5
WAYS: Final = 3
NOTES: Final = 3


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of one node; one that is not declared stands for operations that nobody
    answered."""

    node: str
    declared: bool
    lines: int
    operations: int
    served: int
    unknown: int
    faults: list[str]


class Diagnosis(msgspec.Struct, kw_only=True):
    """`path` is how it is called in a command, `begin_ns` and `end_ns` are what was looked at, in
    run time; of files that are of no run, from the first stamp on. `unclaimed` is what checkers
    found that no pattern speaks of. `tests` and `verifications` are by pattern (what, command)."""

    path: str
    of_run: bool = True
    system: str
    workload: str
    verdict: str
    begin_ns: int
    end_ns: int
    nodes: list[Node]
    faults: list[dict[str, Any]]
    findings: list[str]
    hypotheses: list[Hypothesis]
    answers: list[Answer]
    unclaimed: list[str]
    tests: dict[str, list[tuple[str, str]]]
    verifications: dict[str, list[tuple[str, str]]]
    checklists: dict[str, list[Box]]
    measures: list[str]
    notes: list[str]
    thresholds: Settings
    similar: list[str] = []
    partly: bool = False
    """Of no run: were files not read, or most lines not understood?"""

    @property
    def alarms(self) -> list[Hypothesis]:
        """Hypotheses that speak against the system."""
        return [one for one in self.hypotheses if one.alarm]

    @property
    def code(self) -> Exit:
        """1: something high or critical that nothing explains; 3: nothing could be looked for."""
        if self.alarms:
            return Exit.FAIL
        there = any(one.operations if self.of_run else one.lines for one in self.nodes)
        return Exit.PASS if there and not self.partly else Exit.NOT_PROVEN


def diagnose(path: Path, settings: Settings | None = None) -> Diagnosis:
    """Of a sealed run. Raises ConfigError, EvidenceError and HistoryError."""
    return diagnosis_of(RunScene(path, settings), PATTERNS)


def diagnosis_of(scene: Scene, patterns: Sequence[Pattern]) -> Diagnosis:
    """What was looked for, found and is to be done in a scene of any kind."""
    answers = analyse(scene, patterns)
    found = rank(answers, patterns)
    by = {pattern.id: pattern for pattern in patterns}
    return Diagnosis(
        path=scene.shown,
        of_run=scene.of_run,
        system=scene.of.system,
        workload=scene.header.workload or "",
        verdict=str(scene.verdict.get("verdict", "")) or "not judged",
        begin_ns=scene.begin_ns,
        end_ns=scene.end_ns,
        nodes=_nodes(scene),
        faults=_faults(scene),
        findings=[f"{one.checker}: {one.kind}, {one.count:,} times" for one in scene.findings],
        hypotheses=found,
        answers=answers,
        unclaimed=_unclaimed(scene, answers),
        tests={one.pattern: tests_of(scene, by[one.pattern], one) for one in found},
        verifications={one.pattern: verifications_of(scene, one) for one in found},
        checklists=fill_in(scene, answers),
        measures=next_measures(answers, by),
        notes=[*scene.known, *_notes(scene)],
        partly=not scene.of_run and scene.read.partly,
        thresholds=scene.settings,
    )


class Cause(NamedTuple):
    """What lies behind a failure, in a sentence, and what helps against that."""

    said: str
    helps: tuple[str, ...]


def causes(path: Path, ops: Sequence[Op]) -> list[Cause]:
    """What the servers' own records show to lie behind a failure, what is proven first: two
    primaries at one time, members that differ, a member that never came back. `ops` are the run's.
    Raises as `diagnose`."""
    scene = RunScene(path, ops=ops, rates=False)
    patterns = [one for one in PATTERNS if one.family in _MECHANISMS or one.id == _LOSS]
    found = [
        (one, row)
        for one in rank(analyse(scene, patterns), patterns)
        if one.alarm and (row := _mechanism(one)) is not None
    ]
    found.sort(key=lambda pair: _order(pair[1]))
    return [
        Cause(one_line(f"{one.name}: {row.said}{_began(row)}."), one.helps)
        for one, row in found[:_CAUSES]
    ]


def _began(one: Detection) -> str:
    """When it began, as the end of a sentence."""
    where = f"in {one.window}" if one.in_window else one.window
    if where in NO_WINDOWS:
        return "; when is not known" if where == NO_TIME else "; no fault explains it"
    return f", {where}" if one.count < 2 else f"; it began {where}"


def _mechanism(one: Hypothesis) -> Detection | None:
    """The finding that says how it came about, by what servers wrote down; None where all of them
    say how it shows."""
    told = [
        row
        for row in one.detections
        if row.alarm
        and row.strength in _SURE
        and (row.sign in _TELLING or any(line.source in _RECORDS for line in row.rows))
    ]
    return min(told, key=_order, default=None)


def _order(row: Detection) -> int:
    return _TELLING.index(row.sign) if row.sign in _TELLING else len(_TELLING)


def _nodes(scene: Scene) -> list[Node]:
    asked, served, unknown = Counter[str](), Counter[str](), Counter[str]()
    for op in scene.ops:
        node = op.node_seen or ""
        asked[node] += 1
        served[node] += scene.served(op)
        unknown[node] += op.outcome is Outcome.UNKNOWN
    names = [*scene.nodes, *(["nobody known"] if asked[""] else [])]
    return [
        Node(
            node=name,
            declared=name in scene.nodes,
            lines=scene.notes.lines.get(name, 0),
            operations=asked[name if name in scene.nodes else ""],
            served=served[name if name in scene.nodes else ""],
            unknown=unknown[name if name in scene.nodes else ""],
            faults=[w.id for w in scene.faults if name in w.nodes],
        )
        for name in names
    ]


def _faults(scene: Scene) -> list[dict[str, Any]]:
    return [
        {
            "id": record.fault_id,
            "nemesis": record.nemesis,
            "targets": [str(one) for one in record.targets],
            "landed": record.landed,
            "injected_ns": record.injected_at,
            "landed_ns": record.landed_at,
            "healed_ns": record.healed_at,
            "heal_verified": record.heal_verified,
        }
        for record in scene.records
    ]


def _unclaimed(scene: Scene, answers: list[Answer]) -> list[str]:
    """Kinds of anomalies that stand in no detection."""
    claimed = {kind for a in answers for one in a.detections for kind in one.kinds}
    return [f"{one.checker}: {one.kind}" for one in scene.findings if one.kind not in claimed]


def _notes(scene: Scene) -> list[str]:
    """What was there and is not whole."""
    journal = scene.journal
    notes = [] if isinstance(journal, str) else [f"journal: {one}" for one in journal.lost]
    notes += [one for one in scene.gaps() if f"journal: {one}" not in notes]
    if scene.series_lost:
        notes.append(f"samples: {scene.series_lost}")
    if scene.notes.lost:
        notes.append(f"{scene.notes.lost:,} lines beyond what is remembered of logs")
    return notes


def as_object(found: Diagnosis) -> dict[str, Any]:
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


def _hypothesis(found: Diagnosis, one: Hypothesis) -> dict[str, Any]:
    pattern = _BY[one.pattern]
    return {
        **msgspec.to_builtins(one),
        "alarm": one.alarm,
        "symptoms": pattern.symptoms,
        "causes": list(pattern.causes),
        "mitigations": list(one.helps),
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


def as_query(found: Diagnosis) -> str:
    """Words by which notes on the same are found: the first hypotheses and what shows them."""
    odd = [one for one in found.hypotheses if not one.expected][:HYPOTHESES]
    rows = [row.text for one in odd for row in one.detections[0].rows[:BRIEF_ROWS]]
    names = [f"{one.name} {one.pattern.replace('-', ' ')}" for one in odd]
    return " ".join([*names, *rows, found.system]) if odd else ""


def as_text(found: Diagnosis) -> Iterator[str]:
    """Lines for a terminal. Names are somebody else's, and a terminal obeys what it is given."""
    return map(one_line, _lines(found, "", ""))


def as_markdown(found: Diagnosis) -> str:
    """The same as a page."""
    lines = [f"# {one_line(found.path)}", ""]
    lines += [one_line(line) for line in _lines(found, "## ", "- ")]
    return "\n".join(lines) + "\n"


def _lines(found: Diagnosis, head: str, item: str) -> Iterator[str]:
    yield from _observation_lines(found, head, item)
    yield ""
    yield from _hypotheses_lines(found, head, item)
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
        yield from (box_line(box) for box in boxes)
    if found.measures:
        yield ""
        yield f"{head}Measure next"
        yield from (f"{item}{line}" for line in found.measures)
    yield ""
    yield last_line(found)


def _observation_lines(found: Diagnosis, head: str, item: str) -> Iterator[str]:
    yield f"{head}Observe"
    if not found.of_run:
        yield from (f"{item}{line}" for line in _of_files(found))
        return
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
        yield f"{item}{fault_line(fault)}"
    for line in found.findings or ["checkers found nothing"]:
        yield f"{item}{line}"
    yield from (f"{item}no pattern speaks of {line}" for line in found.unclaimed)
    yield from (f"{item}{line}" for line in found.notes)


def fault_line(fault: dict[str, Any]) -> str:
    """A fault in a line."""
    begun, landed, healed = fault["injected_ns"], fault["landed_ns"], fault["healed_ns"]
    when = f" from {begun / 1e9:.1f} s" if begun is not None else ""
    when += f" to {healed / 1e9:.1f} s" if healed is not None else ""
    targets = ", ".join(fault["targets"]) or "all"
    proven = f" (proven at {landed / 1e9:.1f} s)" if landed is not None else ""
    what = f"{fault['nemesis']} on {targets}{when}"
    return f"fault {fault['id']}: {what}, landed: {fault['landed']}{proven}"


def _hypotheses_lines(found: Diagnosis, head: str, item: str) -> Iterator[str]:
    yield f"{head}Hypothesise"
    odd = [one for one in found.hypotheses if not one.expected]
    if not odd:
        yield f"{item}nothing that no fault explains"
    for one in odd[:SHOWN]:
        yield from _hypothesis_lines(one, item)
    if len(odd) > SHOWN:
        rest = ", ".join(f"{one.name} ({one.total:.2f})" for one in odd[SHOWN:])
        yield f"{item}and weaker: {rest}"
    explained = [one for one in found.hypotheses if one.expected]
    for one in explained:
        first = one.detections[0]
        count = sum(d.count for d in one.detections)
        yield f"{item}expected: {one.name}, {count:,} times, first in {first.window}: {first.why}"
    unseen = [one for one in found.answers if one.state == "not looked for"]
    spoken = [_BY[one.pattern].name for one in unseen if one.words and not found.of_run]
    if spoken:
        yield f"{item}servers do not speak of: {', '.join(spoken)}"
    if names := [name for one in unseen if (name := _BY[one.pattern].name) not in spoken]:
        yield f"{item}not looked for: {', '.join(names)}"


def _hypothesis_lines(one: Hypothesis, item: str) -> Iterator[str]:
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
    yield f"   what helps: {'; '.join(one.helps)}"


def detection_line(one: Detection) -> str:
    """A finding in a sentence."""
    where = f" at {', '.join(one.nodes)}" if one.nodes else ""
    return f"{one.strength}: {one.said}{where}, {_window(one)}"


def _detection(one: Detection) -> Iterator[str]:
    yield f"   {detection_line(one)}"
    yield from (f"     {evidence_line(row)}" for row in one.rows[:ROWS])


def _window(one: Detection) -> str:
    where = f"in {one.window}" if one.in_window else one.window or NO_FAULT
    # Of several the window is that of the first.
    return where if one.count < 2 else f"first: {where}"


def evidence_line(row: EvidenceRow) -> str:
    """Where it stands, when and where it was, and what it says."""
    at = "" if row.time_ns is None else f" {row.time_ns / 1e9:+.3f} s"
    node = f" {row.node}" if row.node else ""
    ops = f" ops {', '.join(map(str, row.ops[:6]))}" if row.ops else ""
    return f"{row.place}{at}{node}{ops}  {row.text}"


def commands(
    found: Diagnosis, of: dict[str, list[tuple[str, str]]], item: str = "", most: int = SHOWN
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


def box_line(box: Box) -> str:
    """A box of a checklist, with what it rests on."""
    why = f": {box.why}" if box.why else ""
    expected = " (expected)" if box.state == "expected" else ""
    return f"   {_MARKS[box.state]} {box.text}{expected}{why}"


def last_line(found: Diagnosis) -> str:
    """What it came to, in a line."""
    states = [one.state for one in found.answers]
    looked = len(states) - states.count("not looked for")
    rest = f"{looked} of {len(states)} patterns were looked for"
    if not found.of_run:
        spoken = sum(bool(one.words) and not one.looked for one in found.answers)
        rest += f", {spoken} more in the words of servers alone"
    alarms: Sequence[Hypothesis] = found.alarms
    if alarms:
        first = alarms[0]
        return f"likeliest: {first.name}; {len(alarms)} high or critical, unexplained; {rest}"
    if found.partly:
        return f"nothing high or critical in what was read, and much was not; {rest}"
    return f"nothing high or critical that no fault explains; {rest}"


def as_brief(found: Diagnosis) -> Iterator[str]:
    """Lines for a terminal. Names are somebody else's, and a terminal obeys what it is given."""
    return map(one_line, _brief_lines(found))


def _brief_lines(found: Diagnosis) -> Iterator[str]:
    yield "Observe"
    yield from _brief_observations(found)
    yield ""
    yield "Hypothesise"
    yield from _brief_hypotheses(found)
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
    what = f"debug {shell_word(found.path)}" if found.of_run else f"explain {found.path}"
    yield f"all of it: dstest {what} --all"
    yield last_line(found)


def _few(lines: list[str], most: int, what: str) -> Iterator[str]:
    yield from lines[:most]
    if len(lines) > most:
        yield f"and {len(lines) - most} more {what}"


def _of_files(found: Diagnosis) -> Iterator[str]:
    """What was seen of files that are of no run."""
    seconds = (found.end_ns - found.begin_ns) / 1e9
    yield f"{found.path}: of no run; {seconds:.1f} s"
    for node in found.nodes:
        yield f"{node.node}: {node.lines:,} lines" + ("" if node.lines else " SILENT")
    yield from found.notes


def _brief_observations(found: Diagnosis) -> Iterator[str]:
    if not found.of_run:
        yield from _of_files(found)
        return
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
    yield from map(fault_line, found.faults[:FAULTS])
    if rest := found.faults[FAULTS:]:
        not_landed = sum(one["landed"] != "yes" for one in rest)
        yield f"and {len(rest)} more faults, {not_landed} of them not proven to have landed"
    yield from _few(found.findings or ["checkers found nothing"], FINDINGS, "kinds")
    yield from (f"no pattern speaks of {line}" for line in found.unclaimed)
    yield from _few(found.notes, NOTES, "notes")


def likeliest(found: Diagnosis) -> Iterator[str]:
    """The first hypotheses, each with what speaks for it, and the names of the others."""
    return map(one_line, _brief_hypotheses(found))


def _brief_hypotheses(found: Diagnosis) -> Iterator[str]:
    odd = [one for one in found.hypotheses if not one.expected]
    if not odd:
        yield "nothing that no fault explains"
    for one in odd[:HYPOTHESES]:
        yield from _brief_hypothesis(one)
    if weaker := [f"{one.name} ({one.total:.2f})" for one in odd[HYPOTHESES:]]:
        yield f"and weaker: {', '.join(weaker)}"
    if expected := [one.name for one in found.hypotheses if one.expected]:
        yield f"expected, as faults explain it: {', '.join(expected)}"


def _brief_hypothesis(one: Hypothesis) -> Iterator[str]:
    """The strongest finding with its first rows, and the next one's where it has too few."""
    yield f"{one.rank}. {one.name} (#{one.number}, {one.severity}, {one.total:.2f})"
    shown = told = 0
    for detection in one.detections:
        yield f"   {detection_line(detection)}"
        told += 1
        for row in detection.rows[: BRIEF_ROWS - shown]:
            yield f"     {evidence_line(row)}"
            shown += 1
        if shown >= BRIEF_ROWS:
            break
    if rest := len(one.detections) - told:
        yield f"   and {rest} more {'findings' if rest > 1 else 'finding'}"
    yield f"   what helps: {'; '.join(one.helps)}"


def _checklists(found: Diagnosis) -> Iterator[str]:
    """Counts, and the boxes in which something is wrong."""
    for name, boxes in found.checklists.items():
        count = Counter(box.state for box in boxes)
        well = count["ok"] + count["expected"]
        yield f"{name}: {well} of {len(boxes)} well, {count['seen']} not, {count['open']} open"
        yield from (box_line(box) for box in boxes if box.state == "seen")


def _way(line: str) -> str:
    """How, and for how many patterns."""
    how, _, names = line.rpartition(": ")
    count = names.count(", ") + 1
    return f"{how}: for {count} {'patterns' if count > 1 else 'pattern'}"
