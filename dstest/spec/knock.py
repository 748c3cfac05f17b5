"""Which guards would have to go for a trace to be accepted: a smallest set that none may stay of.

To drop a guard never forbids what was allowed. So the guards are laid in a row, and the shortest
part of it, from the front, that is enough is found by halves; its last one is needed. That is done
again with those that are known to be needed in front, until they are enough by themselves.
Source: Junker, "QuickXplain: Preferred Explanations and Relaxations for Over-Constrained Problems"
(2004), by the binary search of Hemery et al., "Extracting MUCs from Constraint Networks" (2006).
"""

from __future__ import annotations

import msgspec

from dstest.spec.model import Model
from dstest.spec.replay import Accepts, without_guards


class Knocked(msgspec.Struct, frozen=True):
    """`guards` are by `action.label`: with all of them gone it is accepted, with one of them back
    it is not. None where it is refused without any guard. `asked` counts the models tried."""

    guards: tuple[str, ...] | None
    asked: int


def knock(model: Model, accepts: Accepts) -> Knocked:
    """`accepts` says whether a model allows what is wanted."""
    row = [f"{one.name}.{g.label}" for one in model.actions for g in one.guards]
    asked = 0

    def enough(dropped: list[str]) -> bool:
        nonlocal asked
        asked += 1
        return accepts(without_guards(model, dropped))

    needed: list[str] = []
    if enough([]):
        return Knocked((), asked)
    if not enough(row):
        return Knocked(None, asked)
    while True:
        low, high = 0, len(row)  # the first `high` are enough, the first `low` are not
        while high - low > 1:
            half = (low + high) // 2
            if enough([*needed, *row[:half]]):
                high = half
            else:
                low = half
        needed.append(row[high - 1])
        row = row[: high - 1]
        if not row or enough(needed):
            return Knocked(tuple(sorted(needed)), asked)
