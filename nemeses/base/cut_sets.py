"""Who may not hear whom: the shapes of a partition as sets of cut paths.

A path `(source, destination)` is cut where the destination drops what the source sends. Shapes are
named as in Jepsen's nemesis; the N numbers are those of the fault catalogue.

    halves            N05  the smaller half and the larger half (holding the majority) part
    one               N10  one node alone
    majority          N11  each node of a majority alone: nobody has a quorum
    majorities-ring        every node sees a majority, no two see the same one
    bridge                 two halves that only one node can talk to
    leader            N12  the current leader alone

One-way forms (N06) cut only what goes `in` to the targets, or only what comes `out` of them. Paths
that the user names one by one are of the shape `paths`; `named` reads them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from nemeses.observe.probes import Path

__all__ = ["DIRECTIONS", "SHAPES", "TARGETED", "CutSet", "Direction", "Path", "cuts_for", "named"]

Direction = Literal["both", "in", "out"]

SHAPES: Final = ("halves", "one", "majority", "majorities-ring", "bridge", "leader")
TARGETED: Final = ("one", "halves", "majority")
"""Of them those whose targets can be named."""

DIRECTIONS: Final = ("both", "in", "out")


class CutSet(NamedTuple):
    """`cuts` are the paths to cut; `targets` the nodes that the fault is about."""

    targets: list[str]
    cuts: list[Path]


def _between(targets: Sequence[str], others: Sequence[str], direction: Direction) -> list[Path]:
    into = [(o, t) for t in targets for o in others] if direction != "out" else []
    out_of = [(t, o) for t in targets for o in others] if direction != "in" else []
    return into + out_of


def _groups(groups: Sequence[Sequence[str]]) -> list[Path]:
    """All paths between different groups."""
    return [(a, b) for g in groups for h in groups if g is not h for a in g for b in h]


def _ring(order: Sequence[str]) -> list[Path]:
    n = len(order)
    reach = n // 2 // 2 + (n // 2) % 2
    return [
        (order[i], order[j])
        for i in range(n)
        for j in range(n)
        if i != j and min((i - j) % n, (j - i) % n) > reach
    ]


def named(text: str, nodes: Sequence[str]) -> list[Path]:
    """The paths of `n1->n2,n3->n4`; `:` is as good as `->`, which a shell wants quoted.

    Raises ValueError for what is no path between two of the nodes.
    """
    found = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        source, arrow, destination = part.replace("->", ":").partition(":")
        path = (source.strip(), destination.strip())
        if not arrow or path[0] == path[1] or not set(path) <= set(nodes):
            raise ValueError(f"{part!r} is no path between two of {', '.join(nodes)}")
        found.append(path)
    return list(dict.fromkeys(found))


def cuts_for(
    shape: str,
    direction: Direction,
    nodes: Sequence[str],
    rng: random.Random,
    *,
    leader: str | None = None,
    targets: Sequence[str] = (),
) -> CutSet:
    """The cut paths of a shape over `nodes` (at least three).

    `leader` is needed for the shape of that name. `targets`, where given, are taken instead of a
    random choice for those of `TARGETED`. Raises ValueError where a shape cannot be made.
    """
    order = list(nodes)
    rng.shuffle(order)
    n = len(order)
    if n < 3:
        raise ValueError(f"a partition needs at least three nodes, not {n}")
    small = n - (n // 2 + 1)
    if targets and shape in TARGETED:
        chosen = list(targets)
    elif shape == "leader":
        if leader is None:
            raise ValueError("no leader is known")
        chosen = [leader]
    elif shape == "one":
        chosen = order[:1]
    elif shape == "halves":
        chosen = order[:small]
    elif shape == "majority":
        chosen = order[: n // 2 + 1]
    elif shape in ("majorities-ring", "bridge"):
        chosen = order
    else:
        raise ValueError(f"unknown shape {shape!r}; one of {', '.join(SHAPES)}")
    others = [name for name in order if name not in chosen]
    if shape == "majority":
        rest = {a: [b for b in order if b != a] for a in chosen}
        one_way = [path for a in chosen for path in _between([a], rest[a], direction)]
        cuts = _groups([others, *([a] for a in chosen)]) if direction == "both" else one_way
        return CutSet(chosen, list(dict.fromkeys(cuts)))
    if shape == "majorities-ring":
        ring = _ring(order)
        if not ring:
            raise ValueError(f"a majorities-ring needs more than {n} nodes")
        return CutSet(order, ring)
    if shape == "bridge":
        left, right = order[:small], order[small + 1 :]
        return CutSet(order, _between(left, right, direction))
    return CutSet(chosen, _between(chosen, others, direction))
