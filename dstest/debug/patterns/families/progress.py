"""Progress: deadlock, livelock, starvation."""

from __future__ import annotations

from typing import Final

from dstest.debug.patterns import elections, order
from dstest.debug.patterns.anomalies import of_anomalies
from dstest.debug.patterns.model import JOURNAL, LINES, OPERATIONS, Pattern, Sign, operations

PATTERNS: Final = (
    Pattern(
        id="deadlock",
        number=16,
        name="Distributed deadlock",
        family="progress",
        symptoms="several wait for one another, and none comes forward",
        causes=("locks that are taken in different orders", "a lock that is held over a call"),
        mitigations=("one order of locks for all; leases instead of locks without an end",),
        measure=("--workload lock: who holds and who waits",),
        signs=(
            Sign(
                "circle",
                "clients that wait in a circle for locks",
                order.waits_in_circles,
                (operations("acquire|lock"),),
                "proven",
                "high",
            ),
            Sign(
                "told",
                "lines of deadlocks",
                order.deadlock_lines,
                (LINES,),
                "indicated",
                "medium",
                excusable=True,
                words=True,
            ),
        ),
    ),
    Pattern(
        id="livelock",
        number=17,
        name="Livelock",
        family="progress",
        symptoms="all are busy, terms or retries go on, and nothing is completed",
        causes=("candidates that meet again and again", "retries at once after a conflict"),
        mitigations=("random time-outs, back-off with jitter, a vote asked for before the term",),
        measure=("-o journal=yes: terms and what was committed in each",),
        signs=(
            Sign(
                "terms",
                "terms that follow one another without a commit, outside of faults",
                elections.unsettled_terms,
                (JOURNAL,),
                "strong",
                "high",
                excusable=True,
            ),
            Sign(
                "no-completions",
                "stretches with attempts and no success, outside of faults",
                order.no_completions,
                (OPERATIONS,),
                "indicated",
                "high",
                excusable=True,
            ),
        ),
    ),
    Pattern(
        id="starvation",
        number=26,
        name="Proposal starvation",
        family="progress",
        symptoms="one client or key is never served while the others are",
        causes=("a queue without fairness", "a hot key that blocks its neighbours"),
        mitigations=("serve in order of arrival; bound what one client has in flight",),
        measure=("`groups` of the workload: fairness by group",),
        signs=(
            Sign(
                "never-served",
                "clients, keys and changes of keys with attempts and no success",
                order.starvation,
                (OPERATIONS,),
                "strong",
                "high",
                excusable=True,
            ),
            of_anomalies(("starved-group",), ("failing-group", "unsteady-group"), severity="high"),
        ),
    ),
)
