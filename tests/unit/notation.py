"""Small histories as text: a list of lines `process type[key] input -> output @begin-end`.

`?` stands for an unknown outcome, `!` for a definite failure, `!code` for one with that error;
inputs and outputs are JSON.
"""

from __future__ import annotations

import json
from typing import Any

from dstest.core import registry
from dstest.core.check import Budget, CheckResult
from dstest.core.history import Header, History
from dstest.core.op import Op


def op(line: str, number: int) -> Op:
    """One operation of the notation above; values are JSON."""
    text, times = line.rsplit("@", 1)
    begin, done = times.strip().split("-")
    left, _, right = text.partition("->")
    process, name, *asked = left.strip().split(" ", 2)
    kind, _, key = name.partition("[")
    right = right.strip()
    unknown, failed = right == "?", right.startswith("!")
    return Op(
        op_id=number,
        process_id=int(process),
        invoke_ts=int(begin),
        complete_ts=None if unknown else int(done),
        op_type=kind,
        key=key.rstrip("]") or None,
        input=json.loads(asked[0]) if asked else None,
        output=json.loads(right) if right and not unknown and not failed else None,
        error="timeout" if unknown else (right[1:] or "refused") if failed else None,
        timeout_marker=unknown,
        node_seen=f"n{process}",
    )


def check(checker: str, model: str, text: str, **options: Any) -> CheckResult:
    ops = [op(line, n) for n, line in enumerate(text.strip().splitlines())]
    ops.sort(key=lambda o: o.invoke_ts)
    history = History(header=Header(options=options), ops=ops)
    result: CheckResult = registry.load("checkers", checker).check(history, model, Budget())
    return result
