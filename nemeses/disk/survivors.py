"""Servers that survive a disk that refuses: they run on, and their clients pay for it.

A server may be *refusing*: far more of its clients' operations end badly than before the fault; or
*waiting*: a thread of it is inside the refused call most of the time, and more operations end badly
than before. Clients of some workloads fail now and then on a healthy server (a compare-and-set that
does not match), so that one that fails proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from typing import Any, Final, Literal

from dstest.core.evidence import LandingRecord, Signal
from dstest.core.protocols import NemesisContext
from nemeses.base.process_evidence import BAD_OUTCOMES
from nemeses.observe.processes import processes_before

BAD: Final = BAD_OUTCOMES

BASELINE_S: Final = 2.0
"""How long clients are watched before the fault."""

WINDOW_NS: Final = 2_000_000_000
"""Operations this recent count: a server may notice late, and go on serving until then."""

BAD_MIN: Final = 3
RISE_MIN: Final = 0.25
"""Of the share of operations that ended well before, what must end badly now."""

SIGMAS: Final = 3.0
WAITING_MIN: Final = 0.5
"""Share of samples with a thread inside the refused call; one that returns at once is hardly seen
there."""

Fate = Literal["gone", "closed", "refusing", "waiting", "unharmed"]
"""`closed`: it runs and listens no more, as PostgreSQL does for the seconds in which it ends."""

Counts = Sequence[int]
"""[operations that ended well, operations that ended badly]."""


def pids_of(record: LandingRecord, name: str) -> list[int]:
    """The processes of the server at a node before the fault, the main one first."""
    return [process.pid for process in processes_before(record, name)]


def client_counts(
    ctx: NemesisContext, names: Sequence[str], own: Container[str]
) -> dict[str, list[int]]:
    """Operations of clients of each node since the run began.

    Of a node that does not answer its `own` clients itself: those of all clients.
    """
    rows = ctx.traffic.by_node()
    everywhere = [
        sum(row[kind] + row[f"{kind}_elsewhere"] for row in rows.values() for kind in kinds)
        for kinds in (("ok",), BAD)
    ]
    return {
        n: [rows[n]["ok"], sum(rows[n][kind] for kind in BAD)] if n in own else everywhere
        for n in names
    }


def difference(now: Mapping[str, Counts], before: Mapping[str, Counts]) -> dict[str, list[int]]:
    """What has been counted in between."""
    return {n: [a - b for a, b in zip(now[n], before[n], strict=True)] for n in now}


def with_counts(
    known: Sequence[Sequence[Any]], now_ns: int, counts: Mapping[str, Counts]
) -> list[list[Any]]:
    """Rows of (time, counts) up to now: none older than the newest one that spans the window."""
    rows = [*map(list, known), [now_ns, dict(counts)]]
    spanning = [i for i, row in enumerate(rows) if now_ns - row[0] >= WINDOW_NS]
    return rows[spanning[-1] if spanning else 0 :]


def counts_since(rows: Sequence[Sequence[Any]]) -> dict[str, list[int]]:
    """What the rows span."""
    return difference(rows[-1][1], rows[0][1])


def _share(counts: Counts) -> float:
    return counts[1] / sum(counts) if sum(counts) else 0.0


def is_worse(before: Counts, since: Counts) -> bool:
    """Do far more operations end badly than before, by no accident?"""
    if not before[0] or since[1] < BAD_MIN:
        return False
    was, now = _share(before), _share(since)
    pooled = (before[1] + since[1]) / (sum(before) + sum(since))
    error = math.sqrt(pooled * (1 - pooled) * (1 / sum(before) + 1 / sum(since)))
    return now - was >= max(RISE_MIN * (1 - was), SIGMAS * error)


def fate_of(before: Counts, since: Counts, inside: float, *, own: bool = True) -> Fate:
    """Of a server that runs; `inside`: the share of samples with a thread in the refused call.

    `own` is false where others are hit beside it whose clients cannot be told from its own: that
    operations end badly says then that some server refuses, and not which.
    """
    if own and is_worse(before, since):
        return "refusing"
    more = before[0] > 0 and since[1] > 0 and _share(since) > _share(before)
    return "waiting" if inside >= WAITING_MIN and more else "unharmed"


def _ended(record: LandingRecord, name: str) -> str:
    before, since = record.facts["clients_before"][name], record.facts["clients_since"][name]
    return (
        f"{since[1]} of {sum(since)} operations ended badly, "
        f"{before[1]} of {sum(before)} before the fault"
    )


def told(record: LandingRecord, name: str) -> str:
    """A survivor's fate in a few words."""
    if record.facts["fates"][name] == "waiting":
        share = f"{record.facts['inside'][name]:.0%}"
        return f"{name} runs, in {share} of samples with a thread in the call"
    if record.facts["fates"][name] == "closed":
        return f"{name} runs and has closed its port"
    return f"{name} runs and refuses its clients"


def victim(record: LandingRecord, names: Sequence[str]) -> Signal:
    """What clients of the survivors `names` see."""
    facts = record.facts
    unharmed = [n for n in names if facts["fates"][n] == "unharmed"]
    problems = [f"{n} runs, and its clients fare as before: {_ended(record, n)}" for n in unharmed]
    return Signal(
        signal="operations of clients of a server that runs which ended badly",
        before={f"clients->{n}": facts["clients_before"][n][1] for n in names},
        during={f"clients->{n}": facts["clients_since"][n][1] for n in names},
        moved=bool(names) and not problems,
        detail="; ".join(problems)
        or "; ".join(f"clients of {n}: {_ended(record, n)}" for n in names),
    )
