"""What signs may need of a run: what it is, whether it is there, how the next run keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dstest.patterns.model import Need

if TYPE_CHECKING:
    from dstest.patterns.scene import Scene


def _always(scene: Scene) -> str:
    return ""


def _operations(scene: Scene) -> str:
    return "" if scene.ops else "the history has no operation"


def _faults(scene: Scene) -> str:
    if scene.faults:
        return ""
    return "no fault is proven to have landed" if scene.records else "no fault was done"


def _lines(scene: Scene) -> str:
    return "" if scene.noted.lines else "no line of any log is there"


def _votes(scene: Scene) -> str:
    return "" if scene.noted.votes else "no line tells of a vote"


def _roles(scene: Scene) -> str:
    return "" if scene.noted.reigns.all else "no line tells what its server is"


def _both_sides(scene: Scene) -> str:
    sides = {said.side for said in scene.noted.messages}
    return "" if {"sent", "received"} <= sides else "lines tell of one side of messages alone"


def _digests(scene: Scene) -> str:
    there = any(said.digest for said in scene.noted.messages)
    return "" if there else "no line has a digest of a message that was received"


def _journal(scene: Scene) -> str:
    found = scene.journal
    return found if isinstance(found, str) else ""


def _journal_lost(scene: Scene) -> str:
    found = scene.journal
    return "" if isinstance(found, str) else "; ".join(found.lost[:1])


def _lines_lost(scene: Scene) -> str:
    kept = scene.traits.records
    return "; ".join(scene.gaps(lambda name: name not in kept)[:1])


def _stamped_lost(scene: Scene) -> str:
    return _journal_lost(scene) or _lines_lost(scene)


def _records_lost(scene: Scene) -> str:
    return "; ".join(scene.gaps(lambda name: name in scene.traits.records)[:1])


def _samples_lost(scene: Scene) -> str:
    return scene.series_lost


def _spans(scene: Scene) -> str:
    return scene.spans_missing


def _effects(scene: Scene) -> str:
    return "" if scene.effects else "servers wrote down no effects"


def _states(scene: Scene) -> str:
    there = [state for state in (scene.meta.replicas or {}).values() if state]
    return "" if len(there) > 1 else "fewer than two members told their state at the end"


def _judged(scene: Scene) -> str:
    return "" if scene.judged else "no checker has judged it"


def _stamped(scene: Scene) -> str:
    if not isinstance(scene.journal, str):
        return ""
    told = [one.line for one in scene.noted.cuts]
    told += [one.line for one in scene.noted.claims]
    there = any(line.time_ns is not None for line in told)
    return "" if there else "no line with a time tells of members that are cut off or lead"


def _settled(scene: Scene) -> str:
    return "" if scene.meta.recoveries else "no recovery was watched: no fault was healed"


EVERY: Final = Need("run", "a sealed run", "dstest recover RUN", _always)
OPERATIONS: Final = Need("history", "the operations", "dstest recover RUN", _operations)
FAULTS: Final = Need("faults", "faults with proof", "--nemesis partition", _faults)
LINES: Final = Need(
    "logs",
    "lines of servers' logs",
    "logs that are fetched at the end",
    _lines,
    lost=_lines_lost,
)
VOTES: Final = Need(
    "votes",
    "lines that tell of votes",
    "a `log_reader` of the system that knows votes",
    _votes,
    lost=_lines_lost,
)
ROLES: Final = Need(
    "roles",
    "lines that tell whether a server is a primary",
    "a `log_reader` of the system that knows roles",
    _roles,
    lost=_lines_lost,
)
BOTH_SIDES: Final = Need(
    "both sides",
    "ids of messages as sent and as received",
    "log each at both ends",
    _both_sides,
    lost=_lines_lost,
)
DIGESTS: Final = Need(
    "digests", "digests of messages", "log a hash of what was got", _digests, lost=_lines_lost
)
JOURNAL: Final = Need(
    "journal",
    "what servers wrote of their protocol",
    "-o journal=yes",
    _journal,
    "journal",
    _journal_lost,
)
SPANS: Final = Need("spans", "spans of servers", "-o spans=yes", _spans, "spans", _records_lost)
EFFECTS: Final = Need(
    "effects",
    "what servers wrote of their effects",
    "-o audit=yes",
    _effects,
    "audit",
    _records_lost,
)
STATES: Final = Need(
    "states",
    "states of the members at the end",
    "a system that tells the digest of its state",
    _states,
)
STAMPED: Final = Need(
    "times",
    "times at which servers noticed something",
    "-o journal=yes",
    _stamped,
    "journal",
    _stamped_lost,
)
JUDGED: Final = Need("verdict", "what checkers found", "dstest recover RUN", _judged)
SETTLED: Final = Need("recoveries", "recoveries that were watched", "--nemesis kill", _settled)


def operations(*types: str) -> Need:
    """Operations of all of these types; of some that mean the same as `a|b`."""

    def missing(scene: Scene) -> str:
        lacks = [one for one in types if not scene.types & set(one.split("|"))]
        return f"no operation is of type {' or '.join(lacks[0].split('|'))}" if lacks else ""

    what = " and ".join(one.partition("|")[0] for one in types)
    return Need("history", f"operations {what}", "a workload that has them", missing)


def metric(*names: str) -> Need:
    """Samples of one of these figures."""

    def missing(scene: Scene) -> str:
        there = any(one.name in names for one in scene.series)
        if there:
            return ""
        return scene.series_lost or f"no samples of {' or '.join(names)}"

    how = "leave out --no-monitor"
    what = f"samples of {' or '.join(names)}"
    return Need("metrics", what, how, missing, lost=_samples_lost)
