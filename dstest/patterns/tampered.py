"""Lines of logs that contradict one another: two leaders of one term, one message of two
contents."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from dstest.patterns.model import Found, row
from dstest.patterns.noted import Claim, Said
from dstest.patterns.scene import Scene

_MINE: Final = re.compile(
    r"became leader|(?:^|: )leads in term|i am (?:now )?(?:the )?leader|elected (?:as )?leader"
    r"|switch(?:ing|ed)? to leader|promot(?:ed|ing) (?:self |itself )?to (?:leader|primary|master)",
    re.IGNORECASE,
)
"""What a member says of itself: of another one, all may say that it leads."""


def two_claims(scene: Scene) -> Iterator[Found]:
    """Two members say of themselves that they lead in one term."""
    by: dict[str, dict[str, Claim]] = defaultdict(dict)
    for claim in scene.noted.claims:
        record = claim.line.record
        if claim.term and (record.role == "primary" or _MINE.search(record.message)):
            by[claim.term].setdefault(claim.node, claim)
    for term, claims in by.items():
        if len(claims) > 1:
            names = sorted(claims)
            lines = [one.line for one in claims.values()]
            yield Found(
                said=f"{' and '.join(names)} both say that they lead in term {term}",
                rows=[row("log", x.place, x.record.message, x.time_ns, x.node) for x in lines],
                nodes=names,
                at_ns=lines[-1].time_ns,
            )


def differing_digests(scene: Scene) -> Iterator[Found]:
    """Two members got one message of one source, with different contents."""
    got: dict[tuple[str, str], Said] = {}
    for said in scene.noted.messages:
        if not said.digest or said.side != "received":
            continue
        before = got.setdefault((said.id, said.peer), said)
        if before.digest != said.digest:
            source = said.peer or "one source"
            yield Found(
                said=f"{before.node} and {said.node} got message {said.id} of {source} with "
                "different contents",
                rows=[
                    row("log", x.line.place, f"{x.id}: {x.digest}", x.time_ns, x.node)
                    for x in (before, said)
                ],
                nodes=sorted({before.node, said.node, said.peer} - {""}),
                at_ns=said.time_ns,
            )
