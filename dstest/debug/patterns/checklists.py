"""Checklists filled in from a run and what patterns found in it, and hypotheses: what was found of
each pattern, the likeliest cause first, with how to test it and how to verify that it is mended.

A system is well with participation above 90 %, a p99 below 1 s, errors below 1 % and decisions
within 5 s. A hypothesis has four scores from 0 to 1, each with its reason, and stands by their
weighted sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from dstest.core.op import Op
from dstest.core.run_words import command_of, simulates, with_lab
from dstest.core.words import shell_word
from dstest.debug.logs.rates import percentile
from dstest.debug.logs.scene import Severity
from dstest.debug.patterns.field_names import field_name
from dstest.debug.patterns.model import (
    AT_STAKE,
    STRENGTHS,
    Answer,
    Detection,
    Family,
    Pattern,
    Strength,
)
from dstest.debug.patterns.participation import cut_off_writes, sides_of
from dstest.debug.patterns.scene import Scene

P99_MS: Final = 1000.0
ERRORS_MOST: Final = 0.01
State = Literal["ok", "expected", "seen", "open"]

WEIGHTS: Final[Mapping[str, float]] = {
    "evidence": 0.5,
    "likelihood": 0.25,
    "impact": 0.15,
    "testability": 0.1,
}
"""What is there weighs as much as all else: a grave cause without evidence is a worry. Whether it
fits comes next, then how bad it would be, then how soon one would know."""

EVIDENCE: Final[Mapping[Strength, float]] = {
    "proven": 1.0,
    "strong": 0.7,
    "indicated": 0.4,
    "weak": 0.15,
}
"""Of the strongest sign. Several of a lesser strength do not reach the next one: each further sign
closes a quarter of what is missing to it."""

_STEP: Final = 0.25

LINES: Final = frozenset({"log", "journal", "anomaly", "operation", "span"})
"""Sources of rows that are lines of files, or stand for one."""

IMPACT: Final[Mapping[Severity, float]] = {"critical": 1.0, "high": 0.7, "medium": 0.4, "low": 0.1}


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """`expected`: it was seen, and faults explain it. `open`: nobody has looked; `why` says what it
    needs."""

    text: str
    state: State
    why: str


class _SignItem(msgspec.Struct, frozen=True):
    """A box is filled in from one sign of a pattern, or from all of them. It is ticked where all of
    them were looked for, or one of the `decisive` ones, which sees it whenever it is there."""

    text: str
    pattern: str
    sign: str = ""
    decisive: tuple[str, ...] = ()


class _FigureItem(msgspec.Struct, frozen=True):
    """`of_files`: files that are of no run can fill it in, too."""

    text: str
    of: Callable[[Scene], tuple[State, str]]
    of_files: bool = False


class _RunItem(msgspec.Struct, frozen=True):
    """A box that is filled in from the run and from what was found in it."""

    text: str
    of: Callable[[Scene, Mapping[str, Answer]], tuple[State, str]]


def _calm(scene: Scene) -> list[Op]:
    return [op for op in scene.load if scene.quiet(op.invoke_ts)]


def _tail(scene: Scene) -> tuple[State, str]:
    took = [(op.complete_ts - op.invoke_ts) / 1e6 for op in _calm(scene) if op.complete_ts]
    if len(took) < 100:
        return "open", f"p99 wants a hundred operations outside of faults, there are {len(took)}"
    p99 = percentile(took, 0.99)
    return ("ok" if p99 < P99_MS else "seen"), f"p99 is {p99:.1f} ms outside of faults"


def _errors(scene: Scene) -> tuple[State, str]:
    ops = _calm(scene)
    if not ops:
        return "open", "no operation outside of faults"
    share = sum(not scene.served(op) for op in ops) / len(ops)
    return (
        "ok" if share < ERRORS_MOST else "seen"
    ), f"{share:.2%} of {len(ops):,} outside of faults"


def _landed(scene: Scene) -> tuple[State, str]:
    if not scene.records:
        return "open", "no fault was done: --nemesis"
    proven = sum(one.landed == "yes" for one in scene.records)
    told = f"{proven} of {len(scene.records)} faults are proven to have landed"
    return ("ok" if proven == len(scene.records) else "seen"), told


def _logs(scene: Scene) -> tuple[State, str]:
    silent = [node for node in scene.nodes if not scene.notes.lines.get(node)]
    if not scene.notes.lines:
        return "open", "no log was kept"
    if gaps := scene.gaps():
        return "seen", gaps[0]
    return ("seen", f"nothing of {', '.join(silent)}") if silent else ("ok", "of all nodes")


def _one_side(scene: Scene, by: Mapping[str, Answer]) -> tuple[State, str]:
    """Did members that a partition had cut off from the most acknowledge writes meanwhile?"""
    proven = [d for d in by["split-brain"].detections if d.strength == "proven"]
    if proven:
        return "seen", proven[0].said
    cut = [record for record in scene.records if len(sides_of(record, scene.nodes)) > 1]
    if not cut:
        return "open", "no partition that cuts members off has landed: --nemesis partition"
    for record in cut:
        if took := cut_off_writes(scene, record):
            names = ", ".join(sorted({op.node_seen or "" for op in took}))
            said = f"{names} acknowledged {len(took):,} writes while {record.fault_id} cut it off"
            return "seen", f"{said} from the most"
    return "ok", f"members that {len(cut)} partitions cut off from the most acknowledged nothing"


LISTS: Final[Mapping[str, Sequence[_SignItem | _FigureItem | _RunItem]]] = {
    "consensus": (
        _FigureItem("logs of all nodes are there", _logs, of_files=True),
        _SignItem("each member takes part in more than 90% of decisions", "silent-node", "absent"),
        _SignItem("each node answers", "silent-node", "dumb"),
        _SignItem(
            "one leader a term, and one decision an index",
            "split-brain",
            decisive=("two-leaders", "conflicting-commits"),
        ),
        _SignItem("leaders counted the votes that were given", "vote-manipulation", "tally"),
        _SignItem("one vote a term", "double-voting", decisive=("two-votes",)),
        _SignItem("decisions within 5 s", "consensus-timeout", decisive=("late",)),
        _SignItem("nothing was altered on its way", "byzantine-corruption", decisive=("altered",)),
    ),
    "ordering": (
        _SignItem(
            "no effect before its cause, no read behind what was confirmed",
            "causal-violation",
            decisive=("judged", "read-behind"),
        ),
        _SignItem(
            "what is sent arrives", "message-loss", decisive=("never-received", "elements-lost")
        ),
        _SignItem(
            "in the order in which it was sent", "reordering", decisive=("judged", "overtaken")
        ),
        _SignItem("once", "duplication", decisive=("judged", "applied-twice")),
        _SignItem(
            "in one order on all members",
            "total-order",
            decisive=("commits-differ", "effects-differ"),
        ),
    ),
    "state": (
        _SignItem("replicas agree", "state-divergence", decisive=("sums", "states")),
        _SignItem("replicas are complete", "incomplete-sync", decisive=("behind",)),
        _SignItem(
            "what was acknowledged is there", "lost-update", decisive=("judged", "gone", "too-few")
        ),
        _SignItem(
            "nothing shows before it is done", "dirty-read", decisive=("judged", "taken-back")
        ),
        _SignItem(
            "no writer overwrote another without knowing",
            "concurrent-update",
            decisive=("judged", "two-swaps"),
        ),
        _SignItem("data keep their own rules", "corruption", decisive=("judged", "lasting-total")),
    ),
    "performance": (
        _FigureItem("p99 below 1 s", _tail),
        _FigureItem("errors below 1%", _errors),
        _SignItem("no spike of latency", "latency-spike", decisive=("p95",)),
        _SignItem("the rate holds", "throughput-collapse"),
        _SignItem("resources do not run out", "resource-exhaustion", decisive=("slope",)),
        _SignItem("queues do not grow", "back-pressure"),
        _SignItem("nobody waits in a circle", "deadlock", decisive=("circle",)),
        _SignItem("work is completed", "livelock", decisive=("no-completions",)),
        _SignItem("everybody is served", "starvation", decisive=("never-served",)),
    ),
    "partition": (
        _FigureItem("faults have landed", _landed),
        _SignItem("they were noticed in time", "late-detection"),
        _RunItem("one side alone accepted writes", _one_side),
        _SignItem("nothing else fell after them", "cascade"),
        _SignItem("the load went well again", "slow-recovery"),
    ),
}


def fill_in(scene: Scene, answers: Sequence[Answer]) -> dict[str, list[Box]]:
    """All boxes of all lists."""
    by = {one.pattern: one for one in answers}
    return {name: [_box(scene, by, asked) for asked in asks] for name, asks in LISTS.items()}


def _box(scene: Scene, by: Mapping[str, Answer], asked: _SignItem | _FigureItem | _RunItem) -> Box:
    if not isinstance(asked, _SignItem):
        if not scene.of_run and not (isinstance(asked, _FigureItem) and asked.of_files):
            return Box(text=asked.text, state="open", why="needs a history")
        state, why = asked.of(scene) if isinstance(asked, _FigureItem) else asked.of(scene, by)
        return Box(text=asked.text, state=state, why=why)
    answer = by[asked.pattern]
    found = [d for d in answer.detections if not asked.sign or d.sign == asked.sign]
    odd = [d for d in found if not d.expected]
    if odd:
        return Box(text=asked.text, state="seen", why=odd[0].said)
    if found:
        return Box(text=asked.text, state="expected", why=f"{found[0].said}: {found[0].why}")
    return _unseen(answer, asked)


def _unseen(answer: Answer, asked: _SignItem) -> Box:
    """Nothing was found: is it because nothing is there, or because nobody looked, or not at all of
    it?"""
    unseen = {**answer.missing, **answer.partly}
    if asked.sign in unseen:
        return Box(text=asked.text, state="open", why=unseen[asked.sign])
    missing = {} if asked.sign else unseen
    looked = [one for one in answer.looked if one not in answer.partly]
    by = [one for one in asked.decisive if one in looked]
    if looked and not missing:
        return Box(text=asked.text, state="ok", why="")
    rest = f"not looked for: {', '.join(missing)}"
    if by:
        return Box(text=asked.text, state="ok", why=f"by {', '.join(by)}; {rest}")
    lacks = next(
        (missing[one] for one in (*asked.decisive, *missing) if one in missing),
        "nothing measures it",
    )
    words = "servers do not speak of it, and " if answer.words and not answer.looked else ""
    return Box(text=asked.text, state="open", why=f"{words}{lacks}")


class Score(msgspec.Struct, frozen=True):
    """From 0 to 1, and why."""

    value: float
    why: str


class Hypothesis(msgspec.Struct, frozen=True, kw_only=True):
    """`expected`: faults explain all of it. `total` is the weighted sum of the scores. `name` is
    what the field calls it by what was found, and `helps` goes with that."""

    rank: int
    pattern: str
    number: int
    name: str
    severity: Severity
    expected: bool
    total: float
    scores: dict[str, Score]
    detections: list[Detection]
    helps: tuple[str, ...] = ()

    @property
    def alarm(self) -> bool:
        return any(one.alarm for one in self.detections)


def rank(answers: Sequence[Answer], patterns: Sequence[Pattern]) -> list[Hypothesis]:
    """Those that nothing explains first. Of those that stand alike the one is first that shows the
    effect: that what is gone had been acknowledged."""
    by = {pattern.id: pattern for pattern in patterns}
    found = [answer for answer in answers if answer.detections]
    rows = [_hypothesis(by[one.pattern], one, found) for one in found]
    rows.sort(key=lambda h: (h.expected, -h.total, not _acknowledged(h), h.number))
    return [msgspec.structs.replace(one, rank=at) for at, one in enumerate(rows, 1)]


def _acknowledged(one: Hypothesis) -> bool:
    return any(detection.acknowledged for detection in one.detections)


def _hypothesis(pattern: Pattern, answer: Answer, others: Sequence[Answer]) -> Hypothesis:
    expected = all(one.expected for one in answer.detections)
    counted = [one for one in answer.detections if expected or not one.expected]
    worst = min((one.severity for one in counted), key=list(IMPACT).index)
    scores = {
        "evidence": evidence(counted),
        "likelihood": likelihood(counted, others),
        "impact": impact(worst, pattern.family),
        "testability": testability(counted),
    }
    total = sum(WEIGHTS[name] * score.value for name, score in scores.items())
    detections = sorted(counted, key=lambda one: STRENGTHS.index(one.strength))
    called = field_name(pattern, detections)
    return Hypothesis(
        rank=0,
        pattern=pattern.id,
        number=pattern.number,
        name=called.name,
        helps=called.helps,
        severity=worst,
        expected=expected,
        total=round(total, 3),
        scores=scores,
        detections=detections,
    )


def evidence(found: Sequence[Detection]) -> Score:
    """By the strongest sign, and by how many others agree that were read from other records."""
    signs: dict[str, Strength] = {}
    for one in found:
        best = signs.get(one.basis, one.strength)
        signs[one.basis] = min(best, one.strength, key=STRENGTHS.index)
    strengths = sorted(signs.values(), key=STRENGTHS.index)
    best = strengths[0]
    at = STRENGTHS.index(best)
    room = (EVIDENCE[STRENGTHS[at - 1]] if at else 1.0) - EVIDENCE[best]
    more = sum(room * _STEP * (1 - _STEP) ** n for n in range(len(strengths) - 1))
    others = f", with {len(strengths) - 1} more" if len(strengths) > 1 else ""
    return Score(round(EVIDENCE[best] + more, 3), f"the strongest sign is {best}{others}")


def likelihood(found: Sequence[Detection], others: Sequence[Answer]) -> Score:
    """Does it explain the rest? Causes come before what follows from them: what began first, what
    servers wrote themselves (a mechanism, and not a symptom), and what many signs share."""
    firsts = [one.at_ns for one in found if one.at_ns is not None]
    mechanism = any(row.source in ("journal", "state", "log") for one in found for row in one.rows)
    strongest = min((one.strength for one in found), key=STRENGTHS.index)
    every = [
        one.at_ns
        for answer in others
        for one in answer.detections
        if one.at_ns is not None and not one.expected
    ]
    value, why = 0.3, []
    if mechanism and strongest in ("proven", "strong"):
        value += 0.4
        why.append("servers wrote down the step that went wrong")
    if firsts and every and min(firsts) <= min(every):
        value += 0.15
        why.append("nothing else began before it")
    if sum(one.count for one in found) > 1:
        value += 0.15
        why.append("it came more than once")
    return Score(round(value, 3), ", ".join(why) or "it came once, and shows as a symptom alone")


def impact(severity: Severity, family: Family) -> Score:
    """By severity alone; the words are those of the pattern."""
    return Score(IMPACT[severity], f"{severity} for {AT_STAKE[family]}")


def testability(found: Sequence[Detection]) -> Score:
    """Is there something to run again for: operations, a window, a node?"""
    if any(row.ops for one in found for row in one.rows):
        return Score(1.0, "operations show it: replay and shrink ask whether it comes again")
    if any(row.source in LINES for one in found for row in one.rows):
        return Score(0.7, "lines show it: the same seed tells whether they come again")
    if any(one.in_window for one in found):
        return Score(0.5, "it has a window: the same fault by itself is a test")
    return Score(0.3, "figures alone: a longer run, measured more often")


def _again(scene: Scene, **changes: object) -> str:
    """The command of this run with something else in its place."""
    spec = {**with_lab(scene.meta.spec, scene.meta.lab_id), **changes}
    return command_of(spec, scene.meta.options_given)


def tests_of(scene: Scene, pattern: Pattern, found: Hypothesis) -> list[tuple[str, str]]:
    """(what it tells, command) of each test, the quickest first."""
    if not scene.of_run:
        return _tests_of_files(scene, pattern)
    run = shell_word(str(scene.given))
    failed = str(scene.verdict.get("verdict", "")).startswith("FAIL")
    faults = bool(scene.windows.faults)
    rows: list[tuple[str, str]] = []
    if any(row.source == "journal" for one in found.detections for row in one.rows):
        rows.append(
            ("the first step that the protocol does not allow", f"dstest spec conform raft {run}")
        )
    if any(row.source == "span" for one in found.detections for row in one.rows):
        rows.append(("where the time went", f"dstest trace {run}"))
    if any(row.source == "log" for one in found.detections for row in one.rows):
        rows.append(("the lines around it, of all nodes", f"dstest logs {run}"))
    rows.append(("does it come again?", f"dstest replay {run} --times 3"))
    if failed and not simulates(scene.meta.spec.get("lab")):
        rows.append(("is it the system, or are we?", f"dstest blame {run}"))
    if faults and (control := _again(scene, nemesis="none", schedule=None)):
        rows.append((_control(scene, found), control))
    if found.pattern in ("slow-recovery", "incomplete-sync", "late-detection") and faults:
        longer = float(scene.meta.spec.get("time_limit_s") or 0) * 3
        rows.append(("does it end by itself, later?", _again(scene, time_limit_s=longer)))
    if failed:
        rows.append(("the least that shows it", f"dstest shrink {run}"))
    return rows


def _tests_of_files(scene: Scene, pattern: Pattern) -> list[tuple[str, str]]:
    """Where no run can be done again: what else is to be looked at."""
    rows = [("the lines around it, of all nodes", f"dstest logs {shell_word(str(scene.given))}")]
    rows += [("what tells more", said) for said in pattern.measure[:1]]
    rows.append(("does it come of a fault that is known, with a history?", _KNOWN_FAULT))
    return rows


_KNOWN_FAULT: Final = "dstest run --system SYSTEM --nemesis NAME"


def _control(scene: Scene, found: Hypothesis) -> str:
    """What a run without faults tells: that depends on whether any had begun when it came."""
    first = min((one.at_ns for one in found.detections if one.at_ns is not None), default=None)
    if first is not None and all(fault.start_ns > first for fault in scene.faults):
        return "it comes without faults: leave the nemesis out"
    return "a control: it should not come without faults"


def verifications_of(scene: Scene, found: Hypothesis) -> list[tuple[str, str]]:
    """(what it tells, command): before the change it must fail, and afterwards not."""
    if not scene.of_run:
        return [
            ("after the change: the same files of a later day", f"dstest explain {scene.shown}"),
            ("remember it, and what mended it", "dstest kb note --help"),
        ]
    run = shell_word(str(scene.given))
    store = shell_word(str(scene.given.parent))
    rows = [
        ("before the change: it still fails", f"dstest replay {run} --times 3"),
        ("after it: the same seed passes", f"dstest replay {run} --times 3"),
        ("and other seeds", _again(scene, seed=None) + " --seeds 5"),
        ("remember it, and what mended it", f"dstest kb learn {store}"),
    ]
    if found.pattern == "latency-spike" or found.severity == "medium":
        rows.append(("against the run before", f"dstest compare {run} RUN"))
    return rows


def next_measures(answers: list[Answer], patterns: dict[str, Pattern]) -> list[str]:
    """What would let more be looked for: each way once, with how many patterns it would serve."""
    ways: dict[str, list[str]] = {}
    for answer in answers:
        for how in answer.hows.values():
            ways.setdefault(how, [])
            name = patterns[answer.pattern].name
            if name not in ways[how]:
                ways[how].append(name)
    rows = sorted(ways.items(), key=lambda one: -len(one[1]))
    return [f"{how}: {', '.join(names)}" for how, names in rows]
