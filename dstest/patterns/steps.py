"""What to do about a hypothesis: how to test it, and how to verify that it is mended."""

from __future__ import annotations

from dstest.core.lab_words import simulates
from dstest.core.words import shell_word
from dstest.patterns.model import Answer, Pattern
from dstest.patterns.rank import Hypothesis
from dstest.patterns.scene import Scene
from dstest.report.command import command_of, with_lab


def _again(scene: Scene, **changes: object) -> str:
    """The command of this run with something else in its place."""
    spec = {**with_lab(scene.meta.spec, scene.meta.lab_id), **changes}
    return command_of(spec, scene.meta.options_given)


def tests_of(scene: Scene, pattern: Pattern, found: Hypothesis) -> list[tuple[str, str]]:
    """(what it tells, command) of each test, the quickest first."""
    run = shell_word(str(scene.given))
    failed = str(scene.verdict.get("verdict", "")).startswith("FAIL")
    faults = any(w.nemesis for w in scene.windows.every)
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


def _control(scene: Scene, found: Hypothesis) -> str:
    """What a run without faults tells: that depends on whether any had begun when it came."""
    first = min((one.at_ns for one in found.detections if one.at_ns is not None), default=None)
    if first is not None and all((fault.start_ns or 0) > first for fault in scene.faults):
        return "it comes without faults: leave the nemesis out"
    return "a control: it should not come without faults"


def verifications_of(scene: Scene, found: Hypothesis) -> list[tuple[str, str]]:
    """(what it tells, command): before the change it must fail, and afterwards not."""
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
