"""`long-fork`: members of small groups are written once each; readers see the whole group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dstest.core import rng
from dstest.core.protocols import Answer, OpDraft, Option
from workloads._workload import READ_AGAIN, FinalReads, ObjectWorkload, RotatingKeys

_OPTIONS: Final[Mapping[str, Option]] = {
    "keys": Option(
        type=int, default=3, least=1, most=100_000, help="groups live at a time, per load worker"
    ),
    "group_size": Option(
        type=int, default=6, least=2, most=10_000, help="members of a group, each written once"
    ),
    "ops_per_key": Option(
        type=int,
        default=40,
        least=1,
        most=10_000_000,
        help="operations on a group before it is retired",
    ),
}


class LongForkGenerator:
    """One worker's stream. Operation k depends on seed, worker and k alone."""

    def __init__(self, seed: int, worker: int, processes: int, options: Mapping[str, Any]) -> None:
        self._rng = rng.stream(seed, "workload", "long-fork", worker)
        self._ops_per_key = max(1, int(options["ops_per_key"]))
        self._keys = RotatingKeys(worker, int(options["keys"]), self._ops_per_key)
        self._members = max(2, int(options["group_size"]))
        self._unwritten: dict[str, list[str]] = {}
        self._finals = FinalReads(
            lambda node: [OpDraft("read", key) for key in self._keys.used] if node == 0 else []
        )

    def next(self) -> OpDraft:
        """The next operation; the stream never ends."""
        key = self._keys.pick(self._rng)
        if key not in self._unwritten:
            self._unwritten[key] = [f"m{i}" for i in range(self._members)]
        left = self._unwritten[key]
        if left and self._rng.random() < 2 * self._members / self._ops_per_key:
            return OpDraft("write", key, [left.pop(self._rng.randrange(len(left))), 1])
        again = self._rng.random() < READ_AGAIN
        return OpDraft("read", self._keys.read_again(self._rng) if again else key)

    def final(self, node: int, last: Answer | None) -> OpDraft | None:
        """Every group once more, at the first node."""
        return self._finals.next(node, last)


LONG_FORK: Final = ObjectWorkload(
    name="long-fork",
    doc="single writes to members of groups, and reads of whole groups",
    capability="group",
    model="strict-serializable",
    checkers=("long-fork", "causal-reverse"),
    op_types=frozenset({"write", "read"}),
    make=LongForkGenerator,
    options=_OPTIONS,
    minimum={"write": 100, "read": 200},
    claims=frozenset({"isolation"}),
)
