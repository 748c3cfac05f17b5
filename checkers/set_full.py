"""`set-full`: every read of a grow-only set is held to every add.

    {"op_type": "add", "key": "s", "input": 7, "output": null}
    {"op_type": "read", "key": "s", "input": null, "output": [7, 9]}

Under the model `linearizable` the decision is exact: a history of adds and whole reads is
linearizable if and only if none of these is found.

| anomaly | meaning |
|---|---|
| lost | acknowledged or read once, missing from a later read and from all that followed |
| stale | missing from a read that began after it was known, and read again later |
| causal-reverse | a read saw an add but not an older one that had ended before that add began |
| long-fork | two reads of which each misses what the other saw |
| phantom | read, though nobody ever added it |
| future-read | read before anybody had tried to add it |
| failed-but-applied | read, though its only adds failed definitely |
| duplicated | more than once in one read |

Under `eventual` reads may show late what was added: of the first four kinds only `lost` counts, as
for Jepsen's set-full and for Maelstrom's broadcast.

Elements that were acknowledged and that no later read could have seen are `never_read` in the
statistics. As in Jepsen's set-full an element is stable, lost or never read; Jepsen reports neither
duplicates nor elements that nobody added.

Exactness: reads sorted by size must be nested; then every add lies between the last read without it
and the first one with it, and an assignment of instants exists if and only if nothing that comes
earlier begins after something later has ended.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from checkers._findings import Findings, Part, PerKey, list_of
from checkers._visibility import Visibility, report_forks, report_missing, report_strangers
from checkers.columns import NEVER


def decide(part: Part, findings: Findings) -> int:
    """All anomalies of one set; the number of (element, read) pairs that were tested."""
    v = Visibility.of(
        [(op, op.input) for op in part.maybe("add")],
        [(op, op.input) for op in part.refused("add")],
        [(op, list_of(op)) for op in part.of("read")],
        findings,
    )
    real = report_strangers(v, part.key, findings)
    late = findings.model == "eventual"
    told = report_missing(v, part.key, findings, real, late=late)
    if not late:
        report_forks(v, part.key, findings, told | ~real)
    last_begin = max((r.op.invoke_ts for r in v.reads), default=-1)
    known = np.sort(v.known_ns[real])
    tested = sum(int(np.searchsorted(known, r.op.invoke_ts)) for r in v.reads)
    never_read = int(np.count_nonzero((v.acked_ns < NEVER) & (v.known_ns >= last_begin)))
    recovered = [at for at in v.witness if at not in v.acked and at in v.attempt]
    findings.count(
        attempted=len(v.attempt),
        acknowledged=len(v.acked),
        recovered=len(recovered),
        stable=int(np.count_nonzero((v.known_ns < last_begin) & real & ~told)),
        never_read=never_read,
    )
    return tested


CHECKER: Final = PerKey(
    "set-full",
    decide,
    models=("linearizable", "eventual"),
    types=frozenset({"add", "read"}),
    prefix_closed=True,
    owed=frozenset({"add"}),
    vacuous="no read began after an element was known to be there",
)
