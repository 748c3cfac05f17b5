"""Five checklists, each box filled in from what patterns found and from figures of the run.

Source: discipline 7.2 (f): participation above 90%, p99 below 1 s, errors below 1%, decisions
within 5 s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from dstest.core.op import Op
from dstest.logs.rates import percentile
from dstest.patterns.cuts import sides_of
from dstest.patterns.model import Answer
from dstest.patterns.participation import cut_off_writes
from dstest.patterns.scene import Scene

P99_MS: Final = 1000.0
ERRORS_MOST: Final = 0.01

State = Literal["ok", "expected", "seen", "open"]


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """`expected`: it was seen, and faults explain it. `open`: nobody has looked; `why` says what it
    needs."""

    text: str
    state: State
    why: str


class Asked(msgspec.Struct, frozen=True):
    """A box is filled in from one sign of a pattern, or from all of them. It is ticked where all of
    them were looked for, or one of the `decisive` ones, which sees it whenever it is there."""

    text: str
    pattern: str
    sign: str = ""
    decisive: tuple[str, ...] = ()


class _Figure(msgspec.Struct, frozen=True):
    text: str
    of: Callable[[Scene], tuple[State, str]]


class _Told(msgspec.Struct, frozen=True):
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
    silent = [node for node in scene.nodes if not scene.noted.lines.get(node)]
    if not scene.noted.lines:
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


LISTS: Final[Mapping[str, Sequence[Asked | _Figure | _Told]]] = {
    "consensus": (
        _Figure("logs of all nodes are there", _logs),
        Asked("each member takes part in more than 90% of decisions", "silent-node", "absent"),
        Asked("each node answers", "silent-node", "dumb"),
        Asked(
            "one leader a term, and one decision an index",
            "split-brain",
            decisive=("two-leaders", "conflicting-commits"),
        ),
        Asked("leaders counted the votes that were given", "vote-manipulation", "tally"),
        Asked("one vote a term", "double-voting", decisive=("two-votes",)),
        Asked("decisions within 5 s", "consensus-timeout", decisive=("late",)),
        Asked("nothing was altered on its way", "byzantine-corruption", decisive=("altered",)),
    ),
    "ordering": (
        Asked(
            "no effect before its cause, no read behind what was confirmed",
            "causal-violation",
            decisive=("judged", "read-behind"),
        ),
        Asked("what is sent arrives", "message-loss", decisive=("never-received", "elements-lost")),
        Asked("in the order in which it was sent", "reordering", decisive=("judged", "overtaken")),
        Asked("once", "duplication", decisive=("judged", "applied-twice")),
        Asked(
            "in one order on all members",
            "total-order",
            decisive=("commits-differ", "effects-differ"),
        ),
    ),
    "state": (
        Asked("replicas agree", "state-divergence", decisive=("sums", "states")),
        Asked("replicas are complete", "incomplete-sync", decisive=("behind",)),
        Asked(
            "what was acknowledged is there", "lost-update", decisive=("judged", "gone", "too-few")
        ),
        Asked("nothing shows before it is done", "dirty-read", decisive=("judged", "taken-back")),
        Asked(
            "no writer overwrote another without knowing",
            "concurrent-update",
            decisive=("judged", "two-swaps"),
        ),
        Asked("data keep their own rules", "corruption", decisive=("judged", "lasting-total")),
    ),
    "performance": (
        _Figure("p99 below 1 s", _tail),
        _Figure("errors below 1%", _errors),
        Asked("no spike of latency", "latency-spike", decisive=("p95",)),
        Asked("the rate holds", "throughput-collapse"),
        Asked("resources do not run out", "resource-exhaustion", decisive=("slope",)),
        Asked("queues do not grow", "back-pressure"),
        Asked("nobody waits in a circle", "deadlock", decisive=("circle",)),
        Asked("work is completed", "livelock", decisive=("no-completions",)),
        Asked("everybody is served", "starvation", decisive=("never-served",)),
    ),
    "partition": (
        _Figure("faults have landed", _landed),
        Asked("they were noticed in time", "late-detection"),
        _Told("one side alone accepted writes", _one_side),
        Asked("nothing else fell after them", "cascade"),
        Asked("the load went well again", "slow-recovery"),
    ),
}


def filled(scene: Scene, answers: Sequence[Answer]) -> dict[str, list[Box]]:
    """All boxes of all lists."""
    by = {one.pattern: one for one in answers}
    return {name: [_box(scene, by, asked) for asked in asks] for name, asks in LISTS.items()}


def _box(scene: Scene, by: Mapping[str, Answer], asked: Asked | _Figure | _Told) -> Box:
    if not isinstance(asked, Asked):
        state, why = asked.of(scene) if isinstance(asked, _Figure) else asked.of(scene, by)
        return Box(text=asked.text, state=state, why=why)
    answer = by[asked.pattern]
    found = [d for d in answer.detections if not asked.sign or d.sign == asked.sign]
    odd = [d for d in found if not d.expected]
    if odd:
        return Box(text=asked.text, state="seen", why=odd[0].said)
    if found:
        return Box(text=asked.text, state="expected", why=f"{found[0].said}: {found[0].why}")
    return _unseen(answer, asked)


def _unseen(answer: Answer, asked: Asked) -> Box:
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
