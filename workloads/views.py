"""`atomic-view`: what a transaction sees of others that change several objects at once.

A `bump` adds one to every member of a group, in one transaction; a `look` reads members one by one,
some of them twice, and may touch a member in between: it updates its row without changing its
value, which makes some databases show what they had hidden before. Source: Jepsen's `mav` and
`nonrepeatable-read` for MySQL (2023); Bailis and others, "Highly Available Transactions" (2013).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dstest.core import rng
from dstest.core.protocols import Answer, OpDraft, Option
from workloads._workload import FinalReads, ObjectWorkload, RotatingKeys

_OPTIONS: Final[Mapping[str, Option]] = {
    "keys": Option(
        type=int, default=2, least=1, most=100_000, help="groups live at a time, per load worker"
    ),
    "ops_per_key": Option(
        type=int, default=400, least=1, most=10_000_000, help="operations before one is retired"
    ),
    "group_size": Option(type=int, default=3, least=2, most=100, help="members of a group"),
    "touch_ratio": Option(
        type=float, default=0.2, least=0, most=1, help="share of a look's steps that touch"
    ),
    "write_ratio": Option(
        type=float, default=0.5, least=0, most=1, help="share of operations that bump"
    ),
}


class ViewGenerator:
    """One worker's stream. Operation k depends on seed, worker and k alone."""

    def __init__(self, seed: int, worker: int, processes: int, options: Mapping[str, Any]) -> None:
        self._rng = rng.stream(seed, "workload", "atomic-view", worker)
        self._keys = RotatingKeys(worker, int(options["keys"]), int(options["ops_per_key"]))
        self._members = list(range(max(2, int(options["group_size"]))))
        self._touches = float(options["touch_ratio"])
        self._ratio = float(options["write_ratio"])
        self._finals = FinalReads(
            lambda node: [OpDraft("look", key, self._reads()) for key in self._keys.used]
        )

    def _reads(self) -> list[list[Any]]:
        return [["r", member, None] for member in self._members]

    def _steps(self) -> list[list[Any]]:
        """Each member twice, in any order, with touches between them."""
        steps = self._reads() + self._reads()
        self._rng.shuffle(steps)
        for step in steps[1:-1]:
            if self._rng.random() < self._touches:
                step[0] = "touch"
        return steps

    def next(self) -> OpDraft:
        """The next operation; the stream never ends."""
        key = self._keys.pick(self._rng)
        if self._rng.random() < self._ratio:
            return OpDraft("bump", key, list(self._members))
        return OpDraft("look", key, self._steps())

    def final(self, node: int, last: Answer | None) -> OpDraft | None:
        """Every group once more, at every node."""
        return self._finals.next(node, last)


ATOMIC_VIEW: Final = ObjectWorkload(
    name="atomic-view",
    doc="transactions that change groups of objects, and others that read them one by one",
    capability="views",
    model="strict-serializable",
    checkers=("atomic-view",),
    op_types=frozenset({"bump", "look"}),
    make=ViewGenerator,
    options=_OPTIONS,
    minimum={"bump": 50, "look": 50},
    claims=frozenset({"isolation"}),
)
