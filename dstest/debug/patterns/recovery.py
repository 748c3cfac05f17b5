"""Signs of what faults leave behind: how late they were noticed, which members fell next, how long
it took to recover.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from dstest.core.evidence import LandingRecord
from dstest.core.history import FaultWindow
from dstest.core.op import Op, Outcome
from dstest.debug.patterns.history import by_second, of_ops, runs_of
from dstest.debug.patterns.journal import Journal
from dstest.debug.patterns.model import EvidenceRow, Match, evidence_row
from dstest.debug.patterns.participation import cuts_of, sides_of
from dstest.debug.patterns.scene import Scene
from dstest.judge.facts import SECOND_NS


def noticed_late(scene: Scene) -> Iterator[Match]:
    """Partitions of which no server said or did anything for long after they had landed."""
    limit_ns = int(scene.settings.detection_s * 1e9)
    for record in scene.records:
        landed, ended = record.landed_at, record.heal_start
        if not cuts_of(record) or landed is None or ended is None:
            continue
        if len(sides_of(record, scene.nodes)) < 2 or ended - landed < limit_ns:
            continue
        first = _first_word(scene, landed, ended)
        if first is not None and first[0] - landed <= limit_ns:
            continue
        if isinstance(scene.journal, Journal) and scene.journal.silent_to(ended) < ended:
            continue  # who noticed it may have written so where lines are missing
        waited = _waiting(scene, landed, ended)
        after = (first[0] if first is not None else ended) - landed
        told = f"first after {after / 1e9:.1f} s" if first is not None else "by nobody"
        yield Match(
            said=f"{record.fault_id} cut members off and was noticed {told}; {len(waited)} "
            "operations had no answer meanwhile",
            rows=[
                evidence_row("fault", "faults.jsonl", f"{record.fault_id} landed", landed),
                *([first[1]] if first is not None else []),
            ],
            nodes=[str(one) for one in record.targets],
            at_ns=landed,
            severity="high" if waited else "medium",
            window=record.fault_id,
            expected=False,
            why="a fault explains that members are cut off, and not that they do not notice",
        )


def _first_word(scene: Scene, begin: int, end: int) -> tuple[int, EvidenceRow] | None:
    """The first time that a server suspects, campaigns or steps down."""
    lines = [(told.line, told.line.node) for told in scene.notes.cuts]
    lines += [(claim.line, claim.node) for claim in scene.notes.claims]
    found: list[tuple[int, EvidenceRow]] = []
    for line, node in lines:  # of one log after the other
        at = line.time_ns
        if at is not None and begin <= at <= end:
            found.append((at, evidence_row("log", line.place, line.record.message, at, node)))
    if isinstance(scene.journal, Journal):
        for step in scene.journal.of("campaign", "resign"):
            if step.time_ns is not None and begin <= step.time_ns <= end:
                found.append((step.time_ns, step.row()))
                break
    return min(found, key=lambda one: one[0], default=None)


def _waiting(scene: Scene, begin: int, end: int) -> list[Op]:
    return [op for op in scene.between(begin, end) if op.outcome is Outcome.UNKNOWN]


def _before(scene: Scene) -> tuple[int, int, int]:
    """Operations before the first fault: how many, how many of them bad, and until when."""
    first = min((w.start_ns for w in scene.faults), default=0)
    ops = [op for op in scene.load if op.invoke_ts < first]
    return len(ops), sum(not scene.served(op) for op in ops), first


def cascades(scene: Scene) -> Iterator[Match]:
    """Members that a fault was not done to, and that begin to fail one after the other once it was
    healed and the load had gone well again, or should have."""
    total, bad, _ = _before(scene)
    if total < scene.settings.attempts_least:
        return
    usual = bad / total
    limit = max(scene.settings.cascade_errors, scene.settings.cascade_times * usual)
    faults = scene.faults
    for number, window in enumerate(faults):
        if window.healed_ns is None:
            continue
        later = faults[number + 1 :]
        end = min([scene.load_end_ns, *(w.start_ns for w in later)])
        onsets = _in_turn(_onsets(scene, window, end, limit))
        if len(onsets) > 1 and onsets[0].at_ns < onsets[-1].at_ns:
            names = [one.node for one in onsets]
            when = ", ".join(f"{one.node} at {one.at_ns / 1e9:.0f} s" for one in onsets)
            bad_ops = [op for one in onsets for op in one.ops[:2]]
            yield of_ops(
                scene,
                bad_ops,
                f"after {window.id} was healed at {window.healed_ns / 1e9:.0f} s others began to "
                f"fail: {when}",
                nodes=names,
                at_ns=onsets[0].at_ns,
                window=window.id,
                expected=False,
                why=f"{window.nemesis} was healed, and was about {', '.join(sorted(window.nodes))}",
            )


class _Onset(NamedTuple):
    """`node` fails from then to then; `ops` failed in the first second."""

    at_ns: int
    node: str
    end_ns: int
    ops: list[Op]


def _in_turn(onsets: list[_Onset]) -> list[_Onset]:
    """The longest row of them in which each begins while one before it still fails."""
    best: list[_Onset] = []
    row_: list[_Onset] = []
    for one in onsets:
        if row_ and one.at_ns >= max(before.end_ns for before in row_):
            row_ = []
        row_.append(one)
        best = max(best, list(row_), key=len)
    return best


def _onsets(scene: Scene, window: FaultWindow, end: int, limit: float) -> list[_Onset]:
    """By time: since when a node that was not a target fails, for seconds up to the end of the
    stretch or for long."""
    begin = window.healed_ns or 0
    found = []
    for node in scene.nodes:
        if node in window.nodes:
            continue
        ops = [op for op in scene.between(begin, end) if op.node_seen == node]
        shares: dict[int, list[Op]] = defaultdict(list)
        for op in ops:
            shares[op.invoke_ts // SECOND_NS].append(op)
        seconds = sorted(shares)
        failing = [
            sum(not scene.served(op) for op in shares[s]) > limit * len(shares[s]) for s in seconds
        ]
        for first, last in runs_of(failing):
            to_the_end = last == len(failing) and last - first >= 3
            took_s = seconds[last - 1] + 1 - seconds[first]
            if all(failing) or not (to_the_end or took_s >= scene.settings.stuck_s):
                continue
            at = seconds[first]
            failed = [op for op in shares[at] if not scene.served(op)]
            until = end if to_the_end else (seconds[last - 1] + 1) * SECOND_NS
            found.append(_Onset(at * SECOND_NS, node, until, failed))
            break
    return sorted(found, key=lambda one: one[:2])


def slow_to_recover(scene: Scene) -> Iterator[Match]:
    """Heals after which it took long until the load went well, or never did."""
    limit_ns = int(scene.settings.recovery_s * 1e9)
    starts = sorted(w.start_ns for w in scene.faults)
    served = by_second(scene, scene.served, ended=True)
    for one in scene.meta.recoveries or ():
        end = min([scene.load_end_ns, *(s for s in starts if s > one.healed_ns)])
        took = (one.settled_ns if one.settled_ns is not None else end) - one.healed_ns
        if took <= limit_ns:
            continue
        record = _healed(scene, one.healed_ns)
        never = one.settled_ns is None
        seconds = range(one.healed_ns // SECOND_NS, min(end // SECOND_NS, len(served)))
        yield Match(
            said=f"after the heal at {one.healed_ns / 1e9:.1f} s the load "
            + ("did not go well again" if never else f"went well after {took / 1e9:.1f} s"),
            rows=[
                evidence_row("fault", "run.json", "healed", one.healed_ns),
                *(
                    evidence_row("sample", "history.jsonl", f"{served[s]} served in second {s}",
                        s * SECOND_NS)
                    for s in list(seconds)[:: max(1, len(seconds) // 4)][:4]
                ),
            ],
            nodes=[str(n) for n in record.targets] if record is not None else [],
            at_ns=one.healed_ns,
            window=record.fault_id if record is not None else "",
            expected=False,
            why="it was healed: a fault explains what is wrong while it stands",
        )  # fmt: skip


def _healed(scene: Scene, at: int) -> LandingRecord | None:
    before = [r for r in scene.records if r.healed_at is not None and r.healed_at <= at]
    return max(before, key=lambda r: r.healed_at or 0, default=None)
