"""`counter-bounds`: every value of a counter lies between what must and what can be in it.

    {"op_type": "inc", "key": "c", "input": 2, "output": 9}      output: the value after, or null
    {"op_type": "read", "key": "c", "input": null, "output": 9}

A value that was seen in `[invoke, complete]` is at least the sum of the increments acknowledged
before `invoke`, plus every decrement that can have happened until `complete`; it is at most every
increment that can have happened until `complete`, plus the decrements acknowledged before `invoke`.
Unknown increments may have happened, failed ones have not. A counter starts at 0 or at the option
`counter_start`, or `initial`.

| anomaly | meaning |
|---|---|
| lost-increment | below the lower bound |
| phantom-increment | above the upper bound, or below anything that was asked for |
| nonmonotonic | smaller than a value seen before, though nothing is ever subtracted |

Bounds are necessary, not sufficient: a history within them need not be linearizable, which `--model
counter` asks for. Jepsen's
`checker/counter`, with decrements.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from checkers._findings import USUAL, Findings, Part, PerKey, Unreadable, end_of, start_of
from dstest.core.check import Budget, CheckResult
from dstest.core.errors import ConfigError
from dstest.core.history import History
from dstest.core.op import Op, Outcome
from dstest.core.protocols import Option
from dstest.core.words import quoted

MODEL: Final = "counter-bounds"
"""Not `counter`: that is linearizable, which who keeps within its bounds need not be."""

I64 = npt.NDArray[np.int64]


class Bounds:
    """Lower and upper bounds of a sum of `(operation, delta)` at any stretch of time."""

    def __init__(self, deltas: list[tuple[Op, int]]) -> None:
        self._sides = {}
        for name, mine in (
            ("up", [(op, d) for op, d in deltas if d > 0]),
            ("down", [(op, d) for op, d in deltas if d < 0]),
        ):
            sure = [(end_of(op), d) for op, d in mine if op.outcome is Outcome.OK]
            maybe = [(op.invoke_ts, d) for op, d in mine]
            self._sides[name] = (_running(sure), _running(maybe))

    def at(self, invoke: I64, complete: I64) -> tuple[I64, I64]:
        """(lower, upper) for values seen in `[invoke, complete]`."""
        (up_sure, up_maybe), (down_sure, down_maybe) = self._sides["up"], self._sides["down"]
        low = _sum_until(up_sure, invoke, "left") + _sum_until(down_maybe, complete, "right")
        high = _sum_until(up_maybe, complete, "right") + _sum_until(down_sure, invoke, "left")
        return low, high

    def least(self, complete: I64) -> I64:
        """The sum if all that can have been subtracted until `complete` was, and nothing added."""
        return _sum_until(self._sides["down"][1], complete, "right")


_Steps = tuple[I64, I64]


def _running(steps: list[tuple[int, int]]) -> _Steps:
    """Times in order, and the sum before each of them and after the last."""
    steps.sort()
    times = np.array([t for t, _ in steps], dtype=np.int64)
    sums = np.concatenate(([0], np.cumsum(np.array([d for _, d in steps], dtype=np.int64))))
    return times, sums.astype(np.int64)


def _sum_until(steps: _Steps, when: I64, side: Any) -> I64:
    times, sums = steps
    out: I64 = sums[np.searchsorted(times, when, side=side)]
    return out


def _number(op: Op, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 2**40:
        raise Unreadable(op, f"{value!r} is not an integer")
    return value


def near(ops: list[tuple[Op, int]], seen: Op, at_most: int = 7) -> list[Op]:
    """The last operations that began before `seen` ended: the likeliest culprits."""
    before = [op for op, _ in ops if op.invoke_ts <= end_of(seen)]
    return [*before[-at_most:], seen]


class Limits(NamedTuple):
    """Of a value that was seen: what it can be, and the `least` had nothing been added at all."""

    low: int
    high: int
    least: int


def _say(part: Part, findings: Findings, seen: Op, value: int, limits: Limits, ops: Any) -> None:
    if limits.least <= value < limits.low:
        kind, why = "lost-increment", f"acknowledged before it began are {limits.low} at least"
    elif value < limits.least:
        kind, why = "phantom-increment", f"begun before it ended leave {limits.least} at least"
    else:
        kind, why = "phantom-increment", f"begun before it ended are {limits.high} at most"
    said = f"{seen.op_type} (op {seen.op_id}) saw {value}, and the increments {why}"
    witness = [seen] if findings.full(kind) else near(ops, seen)
    findings.anomaly(kind, part.key, witness, said, minimal=False)


def _monotonic(part: Part, seen: list[tuple[Op, int]], findings: Findings) -> None:
    """Without decrements a later value is never smaller."""
    ended = sorted(seen, key=lambda s: end_of(s[0]))
    at, top = 0, None
    for op, value in sorted(seen, key=lambda s: s[0].invoke_ts):
        while at < len(ended) and end_of(ended[at][0]) < op.invoke_ts:
            if top is None or ended[at][1] > top[1]:
                top = ended[at]
            at += 1
        if top is not None and value < top[1]:
            message = f"op {op.op_id} saw {value} after op {top[0].op_id} had seen {top[1]}"
            findings.anomaly("nonmonotonic", part.key, [top[0], op], message)


def _begun(key: Any, findings: Findings) -> int:
    """The first value of a counter. Raises ConfigError where that is told twice, or is none."""
    told = start_of(findings.history)
    option = findings.options.get("counter_start")
    value = USUAL if told is None else told.of(key)
    if value is USUAL:
        return int(option or 0)
    if type(value) is not int or option not in (None, value):
        raise ConfigError(
            f"the initial state of the counter is {value!r}"
            + (f", and counter_start is {option!r}" if type(value) is int else ", no integer"),
            remedy="--initial N, or a JSON object with an integer by key",
        )
    return value


def decide(part: Part, findings: Findings) -> int:
    """Values outside their bounds; the number of values tested."""
    deltas = [(op, _number(op, op.input)) for op in part.maybe("inc")]
    start = _begun(part.key, findings)
    seen = [(op, _number(op, op.output), 0) for op in part.of("read")]
    seen += [
        (op, _number(op, op.output), _number(op, op.input))
        for op in part.of("inc")
        if op.output is not None
    ]
    bounds = Bounds(deltas)
    ended = np.array([end_of(op) for op, _, _ in seen], dtype=np.int64)
    low, high = bounds.at(np.array([op.invoke_ts for op, _, _ in seen], dtype=np.int64), ended)
    own = np.array([d for _, _, d in seen], dtype=np.int64)
    low, high = low + start + np.maximum(own, 0), high + start + np.minimum(own, 0)
    least = bounds.least(ended) + start
    values = np.array([value for _, value, _ in seen], dtype=np.int64)
    for i in np.flatnonzero((values < low) | (values > high)).tolist():
        findings.tick()
        limits = Limits(int(low[i]), int(high[i]), int(least[i]))
        _say(part, findings, seen[i][0], seen[i][1], limits, deltas)
    if all(d >= 0 for _, d in deltas):
        _monotonic(part, [(op, value) for op, value, _ in seen], findings)
    findings.count(increments=len(deltas), values=len(seen))
    return len(seen) if deltas else 0


def _no_count(ops: list[Op]) -> Unreadable | None:
    """What keeps the adds of a foreign history from being a counter's, as they are where every
    value is an integer."""
    for op in ops:
        value = op.input if op.op_type == "add" else op.output
        if op.op_type == "add" or (op.op_type == "read" and op.outcome is Outcome.OK):
            try:
                _number(op, value)
            except Unreadable:
                return Unreadable(op, f"{quoted(value)} is not an integer: a counter has no other")
    return None


class _Counter(PerKey):
    """Says which value keeps the adds of a history from being increments."""

    def check(self, history: History, model: str, budget: Budget) -> CheckResult:
        """As `PerKey.check`."""
        result = super().check(history, model, budget)
        excluded = {f"add: not an operation of {self.name}": "add"}
        ops = history.ops
        if not isinstance(ops, list) or not excluded.keys() & result.ops.excluded.keys():
            return result
        if result.valid is False or (why := _no_count(ops)) is None:
            return result
        left = {excluded.get(name, name): n for name, n in result.ops.excluded.items()}
        return replace(result, reason=str(why), ops=replace(result.ops, excluded=left))


CHECKER: Final = _Counter(
    "counter-bounds",
    decide,
    models=(MODEL,),
    types=frozenset({"inc", "read"}),
    prefix_closed=True,
    owed=frozenset({"inc"}),
    vacuous="no counter had both an increment and a value that was seen",
    options={"counter_start": Option(type=int, default=None, help="counter: its first value")},
    initial={MODEL: "an integer"},
)
