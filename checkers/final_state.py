"""`final-state`: predicates that hold once everything is at rest.

    {"op_type": "dump", "key": null, "output": {"a": 3, "b": 7}}

The option `invariants` of the run declares them, separated by commas:

    sum=10       the values add up to 10          min=0, max=9    bounds of every value
    size=2       so many entries                  unique          no value twice
    no-null      every value is there             equal           all values are the same

A number may be a product of numbers and of names of the run's options: `sum=accounts*balance`.
`equal` states that effects in several parts are all or nothing: each part holds the same. The dumps
that began after the last completed operation that changes anything are judged, and the last two of
a node must be equal, else the state was not at rest and the answer is unknown.

| anomaly | meaning |
|---|---|
| invariant-violated | a predicate does not hold in a final dump |

A final state says nothing about what clients saw before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from checkers._findings import ANY_TYPE, Findings, Part, PerKey, Unreadable, end_of, in_one
from dstest.core.op import Op
from dstest.core.protocols import Option
from dstest.core.words import quoted

_NUMERIC: Final[dict[str, Callable[[list[Any], float], bool]]] = {
    "sum": lambda values, n: bool(sum(values) == n),
    "min": lambda values, n: all(v >= n for v in values),
    "max": lambda values, n: all(v <= n for v in values),
    "size": lambda values, n: len(values) == n,
}
_PLAIN: Final[dict[str, Callable[[list[Any]], bool]]] = {
    "unique": lambda values: len({repr(v) for v in values}) == len(values),
    "no-null": lambda values: all(v is not None for v in values),
    "equal": lambda values: len({repr(v) for v in values}) <= 1,
}


def _number(text: str, options: dict[str, Any]) -> float:
    """A product; ValueError where a factor is neither a number nor the name of a numeric option."""
    product = 1.0
    for factor in text.split("*"):
        product *= float(options.get(factor.strip(), factor))
    return product


def _holds(op: Op, text: str, values: list[Any], options: dict[str, Any]) -> bool:
    name, equals, number = text.partition("=")
    try:
        if equals and name in _NUMERIC:
            expected = _number(number, options)
            return _NUMERIC[name](values, expected)
        if not equals and name in _PLAIN:
            return _PLAIN[name](values)
    except TypeError:
        return False
    except ValueError:
        pass
    raise Unreadable(op, f"no invariant {quoted(text)}: there are sum, min, max, size, unique, ...")


def decide(part: Part, findings: Findings) -> int:
    """Predicates that fail in final dumps; how many were evaluated."""
    declared = [
        t.strip() for t in str(findings.options.get("invariants", "")).split(",") if t.strip()
    ]
    changes = [op for op in (*part.ok, *part.failed) if op.op_type not in ("dump", "read")]
    last = max((end_of(op) for op in changes), default=-1)
    finals = [op for op in part.of("dump") if op.invoke_ts > last]
    by_node: dict[str | None, list[Op]] = {}
    for op in finals:
        by_node.setdefault(op.node_seen, []).append(op)
    tested = 0
    for node, ops in by_node.items():
        if len(ops) < 2 or ops[-1].output != ops[-2].output:
            findings.undecide(part.key, f"not at rest: {node}'s last two dumps are not equal")
            continue
        op = ops[-1]
        if not isinstance(op.output, dict | list):
            raise Unreadable(op, "its output is neither an object nor a list")
        values = list(op.output.values()) if isinstance(op.output, dict) else list(op.output)
        for text in declared:
            tested += 1
            if not _holds(op, text, values, findings.options):
                message = f"{text} does not hold in dump (op {op.op_id}): {quoted(values[:8])}"
                findings.anomaly("invariant-violated", part.key, [op], message)
    return tested


CHECKER: Final = PerKey(
    "final-state",
    decide,
    models=("invariant",),
    types=ANY_TYPE,
    vacuous="no invariant was declared, or nothing was dumped at rest",
    observers=frozenset({"dump", "read"}),
    options={
        "invariants": Option(
            type=str, default=None, help="final-state: what holds at rest, as in sum=100,min=0"
        ),
    },
    key_of=in_one,
    kind="final-state",
)
