"""Progress: deadlock, livelock, starvation."""

from __future__ import annotations

from typing import Final

from dstest.patterns import elections, stuck
from dstest.patterns.judged import judged
from dstest.patterns.model import Pattern, Sign
from dstest.patterns.needs import JOURNAL, LINES, OPERATIONS, operations

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
                id="circle",
                asks="clients that wait in a circle for locks",
                needs=(operations("acquire|lock"),),
                find=stuck.waits_in_circles,
                strength="proven",
                severity="high",
                excusable=False,
            ),
            Sign(
                id="told",
                asks="lines of deadlocks",
                needs=(LINES,),
                find=stuck.deadlock_lines,
                words=True,
                strength="indicated",
                severity="medium",
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
                id="terms",
                asks="terms that follow one another without a commit, outside of faults",
                needs=(JOURNAL,),
                find=elections.unsettled_terms,
                strength="strong",
                severity="high",
            ),
            Sign(
                id="no-completions",
                asks="stretches with attempts and no success, outside of faults",
                needs=(OPERATIONS,),
                find=stuck.no_completions,
                strength="indicated",
                severity="high",
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
                id="never-served",
                asks="clients, keys and changes of keys with attempts and no success",
                needs=(OPERATIONS,),
                find=stuck.starved,
                strength="strong",
                severity="high",
            ),
            judged(("starved-group",), ("failing-group", "unsteady-group"), severity="high"),
        ),
    ),
)
