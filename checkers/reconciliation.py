"""`reconciliation`: at rest, all replicas hold the same.

    {"op_type": "dump", "key": null, "node_seen": "n2", "output": {"x": 7, "y": [1, 2]}}

Only dumps that began after the last completed write count, and a replica is at rest when its last
two such dumps are equal; otherwise the answer is unknown, because comparing before convergence
proves nothing. Writes of unknown outcome may or may not be there, but on all replicas alike.

| anomaly | meaning |
|---|---|
| divergence | two replicas at rest hold different values |

Source: discipline 5.2 section 13.
"""

from __future__ import annotations

import json
from typing import Any, Final

from checkers._findings import Findings, Part, PerKey, end_of
from dstest.core.op import Op

__all__ = ["CHECKER"]


def _plain(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=repr)


def _difference(a: Any, b: Any) -> str:
    """Where two dumps differ, at most three places."""
    if isinstance(a, dict) and isinstance(b, dict):
        names = [n for n in sorted(a.keys() | b.keys(), key=str) if a.get(n) != b.get(n)]
        said = [f"{n!r}: {a.get(n)!r} and {b.get(n)!r}" for n in names[:3]]
        return "; ".join(said) + (f"; {len(names) - 3} more" if len(names) > 3 else "")
    return f"{_plain(a)[:80]} and {_plain(b)[:80]}"


def decide(part: Part, found: Findings) -> int:
    """Differences between replicas; the number of replicas compared with the first."""
    changes = [op for op in (*part.ok, *part.failed) if op.op_type != "dump"]
    last = max((end_of(op) for op in changes), default=-1)
    dumps: dict[str, list[Op]] = {}
    for op in part.of("dump"):
        if op.invoke_ts > last and op.node_seen is not None:
            dumps.setdefault(op.node_seen, []).append(op)
    if len(dumps) < 2:
        return 0
    restless = [
        node
        for node, ops in dumps.items()
        if len(ops) < 2 or _plain(ops[-1].output) != _plain(ops[-2].output)
    ]
    if restless:
        found.undecide(part.key, f"not at rest: {', '.join(sorted(restless))}")
        return 0
    first, *others = [ops[-1] for _, ops in sorted(dumps.items())]
    for op in others:
        if _plain(op.output) != _plain(first.output):
            said = (
                f"{first.node_seen} and {op.node_seen} differ at rest: "
                f"{_difference(first.output, op.output)}"
            )
            found.anomaly("divergence", part.key, [first, op], said)
    found.count(replicas=len(dumps))
    return len(others)


CHECKER: Final = PerKey(
    "reconciliation",
    decide,
    models=("converged",),
    types=frozenset({"dump", "write", "add", "append", "enqueue", "dequeue", "inc", "delete"}),
    vacuous="fewer than two replicas were dumped at rest",
    observers=frozenset({"dump"}),
)
