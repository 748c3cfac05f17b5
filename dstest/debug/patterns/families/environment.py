"""Causes around a cluster, and what servers say of known patterns in words alone: looked for in
logs that are of no run. A run has proof of the faults that stood, and a history of what came of
them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from dstest.debug.logs.scene import Line, Severity
from dstest.debug.patterns.model import (
    LINES,
    ROWS_MAX,
    Match,
    Pattern,
    Sign,
    Strength,
    evidence_row,
)
from dstest.debug.patterns.scene import Scene
from dstest.debug.patterns.told import Said, What


def _match(lines: Sequence[Line], said: str, **more: object) -> Match:
    rows = [
        evidence_row("log", x.place, x.record.message, x.time_ns, x.node) for x in lines[:ROWS_MAX]
    ]
    nodes = sorted({x.node for x in lines})
    times = [x.time_ns for x in lines if x.time_ns is not None]
    told: dict[str, object] = {"nodes": nodes, "at_ns": min(times, default=None), **more}
    return Match(said=said, rows=rows, count=len(lines), **told)  # type: ignore[arg-type]


def _told(scene: Scene, what: What) -> list[Said]:
    return scene.told.said.get(what, [])


def _enough(told: Sequence[Said]) -> bool:
    """As many as the rarest phrase among them asks for."""
    return any(
        sum(one.least <= least for one in told) >= least for least in {t.least for t in told}
    )


def _of_words(what: What, said: str) -> Callable[[Scene], Iterator[Match]]:
    """Lines of this kind; one that no healthy server writes is strong, several are indicated."""

    def find(scene: Scene) -> Iterator[Match]:
        told = _told(scene, what)
        if _enough(told):
            sure = any(one.least == 1 for one in told)
            lines = [one.line for one in sorted(told, key=lambda one: one.least)]
            strength: Strength = "strong" if sure else "indicated"
            yield _match(lines, f"{len(lines)} lines {said}", strength=strength)

    return find


def _seconds(lines: Sequence[Line]) -> float:
    times = [line.time_ns for line in lines if line.time_ns is not None]
    return (max(times) - min(times)) / 1e9 if times else 0.0


def _partition(scene: Scene) -> Iterator[Match]:
    """Members that do not reach others for long, while all go on writing: connections to a process
    that is gone are refused, and a machine that is gone writes nothing."""
    told = _told(scene, "unreached")
    lines = [one.line for one in told]
    if not _enough(told) or _seconds(lines) < scene.settings.stuck_s:
        return
    refused = [one.line for one in _told(scene, "refused")]
    if len(refused) > len(lines):
        return
    names = {line.node for line in lines}
    begin = min(line.time_ns for line in lines if line.time_ns is not None)
    gone = [node for node, (_, last) in scene.told.times.items() if last < begin]
    severity: Severity = "high" if gone or len(names) < 2 else "critical"
    strength: Strength = "indicated" if gone or len(names) < 2 else "strong"
    rest = f"; {', '.join(gone)} had stopped writing before" if gone else "; all went on writing"
    said = (
        f"{len(lines)} lines of {len(names)} nodes in {_seconds(lines):.0f} s do not reach others"
    )
    yield _match(lines, said + rest, severity=severity, strength=strength)


def _refused(scene: Scene) -> Iterator[Match]:
    """Members whose machine answers and whose process does not, for long."""
    told = _told(scene, "refused")
    lines = [one.line for one in told]
    if _enough(told) and _seconds(lines) >= scene.settings.stuck_s:
        yield _match(
            lines, f"connections were refused {len(lines)} times, in {_seconds(lines):.0f} s"
        )


def _clock_back(scene: Scene) -> Iterator[Match]:
    """Stamps of one file that go back."""
    if lines := [one.line for one in _told(scene, "clock went back")]:
        yield _match(lines, f"stamps of a log go back by more than two seconds, {len(lines)} times")


def _two_lead(scene: Scene) -> Iterator[Match]:
    """Two say in turn that they lead the one cluster, more than once each."""
    lines = sorted(
        (x for x in scene.told.leads if x.time_ns is not None), key=lambda x: x.time_ns or 0
    )
    turns = [b for a, b in pairwise(lines) if a.node != b.node]
    if len(turns) > 2:
        names = " and ".join(sorted({line.node for line in turns}))
        yield _match(turns, f"{names} say in turn that they lead, {len(turns)} times")


def _sign(
    id_: str,
    title: str,
    find: Callable[[Scene], Iterator[Match]],
    severity: Severity = "high",
    strength: Strength = "indicated",
) -> Sign:
    return Sign(id_, title, find, (LINES,), strength, severity, words=True)


TOLD: Final[Mapping[str, Sequence[Sign]]] = {
    "split-brain": (
        _sign(
            "told-split",
            "lines of two that lead",
            _of_words("split", "tell of two that led at once"),
            "critical",
        ),
        _sign("lead-in-turn", "two that lead in turn", _two_lead, "critical", "strong"),
    ),
    "lost-update": (
        _sign(
            "told-loss",
            "lines of what was acknowledged and lost",
            _of_words("lost", "tell of records or writes that were lost"),
            "critical",
        ),
    ),
    "incomplete-sync": (
        _sign(
            "told-lag",
            "lines of replicas that fall behind",
            _of_words("behind", "tell of a replica that falls behind"),
        ),
    ),
}
"""Further signs of patterns of the catalogue."""

ENVIRONMENT: Final = (
    Pattern(
        id="network-partition",
        number=28,
        name="Network partition",
        family="environment",
        symptoms="members do not reach one another for long, and each goes on by itself",
        causes=("a switch, a firewall, a route or an address that changed", "one-way loss"),
        mitigations=("repair the link; a majority on one side has to stay",),
        measure=("counters of both ends of the link; a ping from each member to each",),
        signs=(
            _sign("unreached", "members that are not reached", _partition),
            _sign(
                "told-partition",
                "lines of a partition",
                _of_words("partition", "tell of a partition of the network"),
                "critical",
            ),
        ),
    ),
    Pattern(
        id="slow-storage",
        number=29,
        name="Slow disk (fsync)",
        family="environment",
        symptoms="what has to be on disk is late, and leaders miss their heartbeats",
        causes=("a disk that is shared, throttled or failing", "a log beside other writers"),
        mitigations=("a disk of its own for the log; time-outs above the p99 of a sync",),
        measure=("--metrics with the latency of fsync, by node",),
        signs=(
            _sign("told-disk", "lines of slow disks", _of_words("disk", "tell of a slow disk")),
        ),
    ),
    Pattern(
        id="clock-jump",
        number=30,
        name="Clock jump or skew",
        family="environment",
        symptoms="clocks of members differ, or one has jumped: leases and order by time are wrong",
        causes=("a clock that was set by hand", "no synchronization", "a machine that was paused"),
        mitigations=("synchronize by slewing; no lease and no order by clocks of machines",),
        measure=("the offset of each clock (chronyc tracking), by node",),
        signs=(
            _sign(
                "told-clock", "lines of clocks", _of_words("clock", "tell of clocks that differ")
            ),
            _sign("stamps", "stamps that go back", _clock_back, "medium"),
        ),
    ),
    Pattern(
        id="member-down",
        number=31,
        name="Member down or crashed",
        family="environment",
        symptoms="a process has ended, and others are refused by its machine",
        causes=("a crash", "the kernel killed it", "a start that fails again and again"),
        mitigations=("what its last lines say; a supervisor that waits longer each time",),
        measure=("logs of the supervisor and the kernel of that machine",),
        signs=(
            _sign("refused", "connections that are refused", _refused),
            _sign(
                "told-crash", "lines of a crash", _of_words("crash", "tell of a crash"), "critical"
            ),
        ),
    ),
)
