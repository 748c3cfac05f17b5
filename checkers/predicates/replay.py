"""Executes transactions in an order and looks at what their reads would have seen.

Under snapshot isolation a transaction sees a prefix of the commits: one that holds all that had
ended before it began (where sessions or real time count) and the last commit before its own that
wrote a key of its own (Cerone and Gotsman, "Analysing Snapshot Isolation", JACM 2018).
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence

from checkers.predicates.versions import BEGINNING, Problem
from dstest.core.op import Outcome


class Replay:
    """Of one problem. `between` is plain, session or realtime."""

    def __init__(self, problem: Problem, *, snapshot: bool, between: str) -> None:
        self.problem, self.snapshot, self.between = problem, snapshot, between
        self.looks: dict[int, list[int]] = {}
        for number, look in enumerate(problem.looks):
            self.looks.setdefault(look.txn, []).append(number)

    def wrong(self, order: Sequence[int], pinned: Mapping[int, int]) -> dict[int, int]:
        """Looks that see a version outside of their domain, by number, with its writer. Those that
        are `pinned` see theirs, which the order was made for."""
        places = {at: place for place, at in enumerate(order)}
        history: list[tuple[list[int], list[int]]] = [
            ([-1], [BEGINNING]) for _ in self.problem.names
        ]
        for place, at in enumerate(order):
            for key in self.problem.writes[at]:
                history[key][0].append(place)
                history[key][1].append(at)
        floors = self._floors(order) if self.snapshot else {}
        found: dict[int, int] = {}
        for at in order:
            if at not in self.looks:
                continue
            own = places[at]
            least = own
            if self.snapshot:
                wrote = [
                    history[key][0][bisect.bisect_left(history[key][0], own) - 1] + 1
                    for key in self.problem.writes[at]
                ]
                least = max([floors.get(at, 0), *wrote])
            found |= self._one(at, range(least, own + 1), history, pinned)
        return found

    def _floors(self, order: Sequence[int]) -> dict[int, int]:
        """How many commits each transaction must see for what had ended before it began."""
        txns = self.problem.txns
        if self.between == "plain":
            return {}
        ends: dict[int, list[tuple[int, int]]] = {}
        for place, at in enumerate(order):
            if txns[at].outcome is Outcome.OK:
                name = txns[at].process if self.between == "session" else 0
                ends.setdefault(name, []).append((txns[at].complete_pos, place + 1))
        top: dict[int, tuple[list[int], list[int]]] = {}
        for name, rows in ends.items():
            rows.sort()
            highest, most = 0, []
            for _, place in rows:
                highest = max(highest, place)
                most.append(highest)
            top[name] = [end for end, _ in rows], most
        found = {}
        for at in order:
            name = txns[at].process if self.between == "session" else 0
            if name in top:
                before = bisect.bisect_left(top[name][0], txns[at].invoke_pos)
                found[at] = top[name][1][before - 1] if before else 0
        return found

    def _one(
        self,
        at: int,
        prefixes: range,
        history: list[tuple[list[int], list[int]]],
        pinned: Mapping[int, int],
    ) -> dict[int, int]:
        """What is wrong with the reads of a transaction, in the prefix where the fewest are."""
        best: dict[int, int] | None = None
        for prefix in reversed(prefixes):
            wrong, fits = {}, True
            for number in self.looks[at]:
                look = self.problem.looks[number]
                places, writers = history[look.key]
                writer = writers[bisect.bisect_left(places, prefix) - 1]
                if number in pinned:
                    fits = fits and writer == pinned[number]
                elif writer not in look.domain:
                    wrong[number] = writer
            if fits and (best is None or len(wrong) < len(best)):
                best = wrong
                if not wrong:
                    break
        if best is None:
            raise AssertionError("the order does not give a transaction what it was pinned to")
        return best
