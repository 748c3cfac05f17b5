"""Tenants' keys, slowly: what `checkers.boundary` reports must be wrong by this as well.

`orders_fit` tries every order of a small history: it shares no line with the checker, and knows
nothing of intervals. `who_may_see` looks at each answer alone, and at nothing but names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dstest.core.op import Op, Outcome

State = frozenset[tuple[str, str, str]]
"""(tenant, key, value) of all that is there."""


def _done(op: Op, state: State) -> State:
    if op.op_type == "drop":
        return frozenset(row for row in state if row[0] != op.key)
    if op.op_type != "put":
        return state
    tenant, name = str(op.key), op.input["name"]
    kept = [row for row in state if row[:2] != (tenant, name)]
    return frozenset([*kept, (tenant, name, op.input["value"])])


def _answer(op: Op, state: State) -> Any:
    mine = sorted((name, value) for tenant, name, value in state if tenant == op.key)
    if op.op_type in ("get", "probe"):
        return next((value for name, value in mine if name == op.input["name"]), None)
    if op.op_type in ("count", "probe_count"):
        return len(mine)
    return mine


def _given(op: Op) -> Any:
    if op.op_type in ("list", "probe_list"):
        return sorted(tuple(row) for row in op.output or ())
    return op.output


def _next(left: tuple[Op, ...]) -> Iterator[Op]:
    """Those before which no other one had ended."""
    for op in left:
        if not any(
            one.complete_ts is not None and one.complete_ts < op.invoke_ts
            for one in left
            if one is not op
        ):
            yield op


def orders_fit(ops: list[Op]) -> bool:
    """Is there an order, by real time, in which one store gives all these answers?"""
    asked = ("put", "drop")
    left = tuple(
        op
        for op in ops
        if op.outcome is Outcome.OK or (op.outcome is Outcome.UNKNOWN and op.op_type in asked)
    )
    tried: set[tuple[tuple[Any, ...], State]] = set()

    def fits(left: tuple[Op, ...], state: State) -> bool:
        if all(op.outcome is Outcome.UNKNOWN for op in left):
            return True
        mark = (tuple(op.op_id for op in left), state)
        if mark in tried:
            return False
        tried.add(mark)
        for op in _next(left):
            rest = tuple(one for one in left if one is not op)
            answers = op.op_type not in asked
            if answers and _answer(op, state) != _given(op):
                continue
            if fits(rest, _done(op, state)):
                return True
        return False

    return fits(left, frozenset())


def who_may_see(ops: list[Op]) -> bool:
    """Was each value that anybody was shown put there, for this tenant, in time and not refused?"""
    for op in ops:
        if op.outcome is not Outcome.OK or op.op_type in ("put", "drop"):
            continue
        puts = [
            one
            for one in ops
            if one.op_type == "put"
            and one.outcome is not Outcome.FAIL
            and one.key == op.key
            and one.invoke_ts < (op.complete_ts or 0)
        ]
        if op.op_type in ("count", "probe_count"):
            if op.output > len({one.input["name"] for one in puts}):
                return False
            continue
        rows = op.output or []
        if op.op_type in ("get", "probe"):
            rows = [] if op.output is None else [(op.input["name"], op.output)]
        there = [(one.input["name"], one.input["value"]) for one in puts]
        if any(tuple(row) not in there for row in rows):
            return False
        if len({name for name, _ in rows}) < len(rows):
            return False
    return True
