"""Small witnesses of a register by the rule as `checkers._witness.Rule` has it in numpy: what the C
core makes must be the same."""

from __future__ import annotations

import numpy as np

from checkers._witness import RECENT, Rule, illegal
from checkers.columns import I64, Columns

__all__ = ["reduced"]

_TIME_NS = 10**10
_MEMORY = 2**28


def reduced(columns: Columns) -> I64:
    """The rows that stay."""
    rows: I64 = np.arange(len(columns.kind), dtype=np.int64)
    rule = Rule(columns)
    for last in RECENT:
        candidate = rule.without(rows, np.arange(len(rows)) < len(rows) - last)
        if len(candidate) < len(rows) // 2 and illegal(columns, candidate, _TIME_NS, _MEMORY):
            rows = candidate
            break
    chunk = max(1, len(rows) // 2)
    while True:
        before, at = len(rows), 0
        while at < len(rows):
            drop = np.zeros(len(rows), np.bool_)
            drop[at : at + chunk] = True
            candidate = rule.without(rows, drop)
            if len(candidate) < len(rows) and illegal(columns, candidate, _TIME_NS, _MEMORY):
                rows = candidate
            else:
                at += chunk
        if chunk == 1 and len(rows) == before:
            return rows
        chunk = max(1, chunk // 2)
