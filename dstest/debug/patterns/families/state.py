"""State of replicas: do they agree, and are they complete?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from dstest.core.op import FINAL_IDS, Op, Outcome
from dstest.debug.logs.scene import Finding
from dstest.debug.patterns import elections
from dstest.debug.patterns.anomalies import of_anomalies, of_check
from dstest.debug.patterns.history import of_ops, quiet_seconds, runs_of
from dstest.debug.patterns.journal import Step
from dstest.debug.patterns.model import (
    JOURNAL,
    OPERATIONS,
    STATES,
    Match,
    Pattern,
    Sign,
    evidence_row,
)
from dstest.debug.patterns.scene import Scene
from dstest.judge.facts import SECOND_NS


def _states_differ(scene: Scene) -> Iterator[Match]:
    """Members that told different states when nobody wrote any more."""
    by: dict[str, list[str]] = {}
    for node, state in (scene.meta.replicas or {}).items():
        if state is not None:
            by.setdefault(state, []).append(node)
    if len(by) > 1:
        parts = [f"{', '.join(nodes)}: {state}" for state, nodes in by.items()]
        yield Match(
            said=f"at the end members are in {len(by)} different states",
            rows=[evidence_row("state", "run.json", part) for part in parts[:6]],
            count=len(by),
            nodes=sorted(sorted(by.values(), key=len)[0]),
        )


def _logged(finding: Finding) -> bool:
    """Does it rest on more than the states that members told at the end, which `states` reads?"""
    return any(not one.place.startswith("run.json") for one in finding.rows)


def _reached(step: Step) -> int:
    if step.kind == "apply":
        return int(step.fields.get("first") or 1) + len(step.fields.get("sums") or []) - 1
    return step.index


def _behind(scene: Scene) -> Iterator[Match]:
    """Members that are far behind at the end of the load, with no fault for long, and have not
    come nearer."""
    end = scene.protocol.silent_to(scene.load_end_ns)
    calm = max((w.until_ns if w.until_ns is not None else end for w in scene.faults), default=0)
    if end - calm < scene.settings.stuck_s * 1e9:
        return
    half = calm + (end - calm) // 2
    marks: dict[str, list[int]] = {node: [0, 0] for node in scene.nodes}
    lasts: dict[str, Step] = {}
    for step in scene.protocol.of("commit", "learn", "apply"):
        if step.time_ns is None or step.time_ns > end or step.node not in marks:
            continue
        lasts[step.node] = step
        reached = _reached(step)
        marks[step.node][1] = max(marks[step.node][1], reached)
        if step.time_ns <= half:
            marks[step.node][0] = max(marks[step.node][0], reached)
    tops = [max(mark[i] for mark in marks.values()) for i in (0, 1)]
    for node, mark in marks.items():
        lags = [tops[i] - mark[i] for i in (0, 1)]
        if lags[1] >= scene.settings.lag_least and lags[1] >= lags[0]:
            shown = [lasts[node].row()] if node in lasts else []
            yield Match(
                said=f"{node} is {lags[1]:,} entries behind at the end, and was {lags[0]:,} behind "
                f"{(end - half) / 1e9:.0f} s before",
                rows=shown,
                count=lags[1],
                nodes=[node],
                window="no fault",
                expected=False,
                why=f"no fault stood for {(end - calm) / 1e9:.0f} s",
            )


def _falling_behind(scene: Scene) -> Iterator[Match]:
    """Members that go on and are slower than the others for long, outside of faults: in each second
    they are further behind, whatever they catch up with later."""
    seconds = quiet_seconds(scene)
    reached = {node: [0] * (len(seconds) + 1) for node in scene.nodes}
    lasts: dict[tuple[str, int], Step] = {}
    for step in scene.protocol.of("commit", "learn", "apply"):
        second = -1 if step.time_ns is None else step.time_ns // SECOND_NS
        if 0 <= second < len(seconds) and step.node in reached:
            row_ = reached[step.node]
            row_[second + 1] = max(row_[second + 1], _reached(step))
            lasts[step.node, second] = step
    for row_ in reached.values():
        row_[:] = accumulate(row_, max)
    tops = [max(marks) for marks in zip(*reached.values(), strict=True)]
    least = scene.settings.lag_least
    for node, marks in reached.items():
        lags = [top - mark for top, mark in zip(tops, marks, strict=True)]
        worse = [
            calm and lags[at] < lags[at + 1] and marks[at] < marks[at + 1]
            for at, calm in enumerate(seconds)
        ]
        for begin, end in runs_of(worse):
            if end - begin < scene.settings.stuck_s or lags[end] - lags[begin] < least:
                continue
            yield Match(
                said=f"{node} fell behind for {end - begin} s, from {lags[begin]:,} entries to "
                f"{lags[end]:,}, and went on all the time",
                rows=[lasts[node, at].row() for at in (begin, end - 1)],
                count=end - begin,
                nodes=[node],
                at_ns=begin * SECOND_NS,
                window="no fault",
                expected=False,
                why="no fault stood in these seconds",
            )


def _final_reads(scene: Scene) -> Iterator[Match]:
    """A node whose last reads, when all was at rest, lack what others' have."""
    reads: dict[object, list[Op]] = {}
    for op in scene.ops:
        final = isinstance(op.process_id, int) and op.process_id >= FINAL_IDS
        if final and op.op_type == "read" and op.outcome is Outcome.OK and op.node_seen:
            reads.setdefault(op.key, []).append(op)
    lacking: dict[str, list[Op]] = {}
    for ops in reads.values():
        rows = [op for op in ops if isinstance(op.output, list)]
        union = {repr(value) for op in rows for value in op.output}
        for op in rows:
            if len({repr(value) for value in op.output}) < len(union):
                lacking.setdefault(op.node_seen or "", []).append(op)
        plain = {repr(op.output) for op in ops if not isinstance(op.output, list | dict)}
        if len(plain) > 1 and "None" in plain:
            for op in ops:
                if op.output is None:
                    lacking.setdefault(op.node_seen or "", []).append(op)
    for node, ops in lacking.items():
        said = f"{node} lacks in {len(ops)} last reads what other nodes showed"
        yield of_ops(scene, ops, said, nodes=[node])


PATTERNS: Final = (
    Pattern(
        id="state-divergence",
        number=10,
        name="State divergence",
        family="state",
        symptoms="replicas that have applied the same entries are in different states",
        causes=("entries left out or done twice at catching up", "what is not deterministic"),
        mitigations=("compare digests by applied index all the time, and rebuild who differs",),
        measure=("-o journal=yes: sums by applied index", "-o audit=yes: every effect"),
        signs=(
            Sign("sums", "different sums at one applied index", elections.sums_differ, (JOURNAL,)),
            of_anomalies(("divergence", "applied-differently"), ("inconsistent-offsets",)),
            of_check(
                "state_divergence", "hashes", strength="proven", severity="critical", only=_logged
            ),
            Sign("states", "different states at the end", _states_differ, (STATES,), "strong"),
        ),
    ),
    Pattern(
        id="incomplete-sync",
        number=23,
        name="Incomplete synchronization",
        family="state",
        symptoms="a replica lacks what the others have, and does not catch up",
        causes=("catching up that stops early", "a snapshot without its last entries"),
        mitigations=("catch up until digests agree; report the lag and alarm when it stays",),
        measure=("-o journal=yes: how far each has applied", "a longer --time-limit after faults"),
        signs=(
            Sign(
                "behind",
                "members that stay behind",
                _behind,
                (JOURNAL,),
                "strong",
                "high",
                excusable=True,
                basis="lag",
            ),
            Sign(
                "falls-behind",
                "members that go on and fall behind more and more",
                _falling_behind,
                (JOURNAL,),
                "strong",
                "high",
                excusable=True,
                basis="lag",
            ),
            Sign(
                "final-reads",
                "nodes whose last reads lack what others show",
                _final_reads,
                (OPERATIONS,),
                "strong",
            ),
            of_anomalies(
                (),
                ("divergence", "stale", "resurrected", "missed-event", "predicate-read-miss"),
            ),
        ),
    ),
)
