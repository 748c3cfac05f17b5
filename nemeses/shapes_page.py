"""The shapes of a partition over five nodes, path by path, as `docs/nemeses.md` shows them."""

from __future__ import annotations

import random
from collections.abc import MutableSequence
from typing import Any, Final

from nemeses.base.cut_sets import SHAPES, Direction, Path, cuts_for

_WAYS: Final[tuple[Direction, ...]] = ("both", "in", "out")
_NODES: Final = ("n1", "n2", "n3", "n4", "n5")


class _InOrder(random.Random):
    """Chooses nodes in their order, where a run draws them from its seed."""

    def shuffle(self, x: MutableSequence[Any]) -> None:
        return None


def _deaf(cuts: list[Path]) -> str:
    """`n1 from n3 n4`: what each node no longer hears."""
    by = {node: [a for a in _NODES if (a, node) in cuts] for node in _NODES}
    return "; ".join(f"{node} from {' '.join(row)}" for node, row in by.items() if row)


def shapes() -> list[str]:
    """Lines of Markdown."""
    lines = [
        "## Shapes of a partition",
        "",
        "What each of five nodes no longer hears, and from whom, if nodes were chosen in their",
        "order (a run draws them from its seed) and n1 led. `in` cuts what goes to the chosen",
        "nodes, `out` what comes from them, `both` either.",
        "",
        "| shape | direction | chosen | cut | paths |",
        "|---|---|---|---|---|",
    ]
    for shape in SHAPES:
        made = {d: cuts_for(shape, d, _NODES, _InOrder(), leader="n1") for d in _WAYS}
        same = len({tuple(found.cuts) for found in made.values()}) == 1
        for way, found in [("any", made["both"])] if same else made.items():
            chosen = "all" if len(found.targets) == len(_NODES) else " ".join(found.targets)
            cells = (f"`{shape}`", f"`{way}`", chosen, _deaf(found.cuts), str(len(found.cuts)))
            lines.append(f"| {' | '.join(cells)} |")
    return [
        *lines,
        "",
        "In `bridge` n1 and n2 are one side, n4 and n5 the other, n3 hears all and all hear it:",
        "`in` and `out` are the first side's. In `majorities-ring` each node hears two",
        "neighbours, so that it sees a majority, and no two see the same one.",
    ]
