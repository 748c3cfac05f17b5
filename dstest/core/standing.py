"""How cells of nights stand by their tries, as shares between which the true one lies, and for how
long a seed that failed is asked again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

Standing = Literal["as-it-must", "failed", "missed", "no-verdict"]
"""Against what a cell has to come to: `failed` is a violation where there must be none, or another
one than is known; `missed` a red control that did not show what it has to; all else proves nothing.
"""

Mark = tuple[str, int]
"""A seed of a cell: (key of the cell, seed)."""


class PreviousNight(NamedTuple):
    """What of a night the next one's seeds follow from: how each seed that it asked stood, and
    whether it asked some cells alone."""

    seeds: Sequence[tuple[Mark, Standing]]
    of_some: bool


def of_tries(tries: Collection[tuple[Standing, bool]]) -> Standing:
    """How a cell stands by its tries, each given as (how it stands, does its evidence hold).

    1. One failed: the cell failed.
    2. Else the evidence of one does not hold: the cell is no better than that try. It may have seen
       what no other try can disprove.
    3. Else the best try counts.
    """
    standings = [standing for standing, _ in tries]
    lost = [standing for standing, holds in tries if not holds]
    telling: tuple[Standing, ...] = ("failed", "as-it-must", "missed")
    if "failed" not in standings and lost:
        return "missed" if "missed" in lost else "no-verdict"
    return next((one for one in telling if one in standings), "no-verdict")


def owed_after(nights: Iterable[PreviousNight], passes: int) -> Mapping[Mark, int]:
    """Seeds that failed, or missed what a control has to show, and in how many nights in a row each
    still has to be as it must be. A night that asked such a seed and got no verdict, or did not ask
    it, begins the row of `passes` anew; one of some cells says nothing of the seeds that it did not
    ask. Nights from old to new."""
    owed: dict[Mark, int] = {}
    for night in nights:
        passed = {mark for mark, standing in night.seeds if standing == "as-it-must"}
        owed |= {mark: passes for mark, stood in night.seeds if stood in ("failed", "missed")}
        asked = {mark for mark, _ in night.seeds}
        left = {
            mark: old - 1
            if mark in passed
            else old
            if night.of_some and mark not in asked
            else passes
            for mark, old in owed.items()
        }
        owed = {mark: nights_left for mark, nights_left in left.items() if nights_left > 0}
    return owed
