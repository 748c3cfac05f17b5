"""`reconciliation`: at rest, all replicas hold the same.

    {"op_type": "dump", "key": null, "node_seen": "n2", "output": {"x": 7, "y": [1, 2]}}

A dump with a key is one of that key's object, a dump without of everything. Only dumps that began
after the last completed write there count, and a replica is at rest when its last
two such dumps are equal; otherwise the answer is unknown, because comparing before convergence
proves nothing. Writes of unknown outcome may or may not be there, but on all replicas alike.

| anomaly | meaning |
|---|---|
| divergence | two replicas at rest hold different values |
"""

from __future__ import annotations

import json
from typing import Any, Final

from checkers._findings import ANY_TYPE, Findings, Part, PerKey, end_of, in_one
from checkers.columns import Interner
from dstest.core.op import Op
from dstest.core.words import quoted


def _plain(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=repr)


def _difference(a: Any, b: Any) -> str:
    """Where two dumps differ, at most three places."""
    if isinstance(a, dict) and isinstance(b, dict):
        names = [n for n in sorted(a.keys() | b.keys(), key=str) if a.get(n) != b.get(n)]
        said = [f"{quoted(n)}: {quoted(a.get(n))} and {quoted(b.get(n))}" for n in names[:3]]
        return "; ".join(said) + (f"; {len(names) - 3} more" if len(names) > 3 else "")
    return f"{_plain(a)[:80]} and {_plain(b)[:80]}"


def _named(key: Any) -> str:
    return "" if key is None else f"{quoted(key)}: "


def decide(part: Part, findings: Findings) -> int:
    """Differences between replicas; the number of replicas compared with the first."""
    ended: dict[Any, int] = {}
    keys = Interner()
    for op in (*part.ok, *part.failed):
        if op.op_type not in ("dump", "read"):
            key = keys.id_of(op.key)
            ended[key] = max(ended.get(key, -1), end_of(op))
    last = max(ended.values(), default=-1)
    compared = 0
    by_key: dict[int, tuple[Any, dict[str, list[Op]]]] = {}
    for op in part.of("dump"):
        key = keys.id_of(op.key)
        at_rest = op.invoke_ts > (last if op.key is None else ended.get(key, -1))
        if at_rest and op.node_seen is not None:
            by_key.setdefault(key, (op.key, {}))[1].setdefault(op.node_seen, []).append(op)
    for key, dumps in by_key.values():
        compared += _compare(key, dumps, part, findings)
    return compared


def _compare(key: Any, dumps: dict[str, list[Op]], part: Part, findings: Findings) -> int:
    """Differences between the replicas' final dumps of one key, or of everything."""
    if len(dumps) < 2:
        return 0
    restless = [
        node
        for node, ops in dumps.items()
        if len(ops) < 2 or _plain(ops[-1].output) != _plain(ops[-2].output)
    ]
    if restless:
        findings.undecide(part.key, f"{_named(key)}not at rest: {', '.join(sorted(restless))}")
        return 0
    first, *others = [ops[-1] for _, ops in sorted(dumps.items())]
    for op in others:
        if _plain(op.output) != _plain(first.output):
            message = (
                f"{_named(key)}{first.node_seen} and {op.node_seen} differ at rest: "
                f"{_difference(first.output, op.output)}"
            )
            findings.anomaly("divergence", key, [first, op], message)
    findings.count(replicas=len(dumps))
    return len(others)


CHECKER: Final = PerKey(
    "reconciliation",
    decide,
    models=("converged",),
    types=ANY_TYPE,
    vacuous="fewer than two replicas were dumped at rest",
    observers=frozenset({"dump", "read"}),
    key_of=in_one,
)
