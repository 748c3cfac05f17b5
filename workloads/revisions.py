"""`revisions`: keys that come and go, and a history that is dropped in small parts.

A store that numbers its changes gives each change a number above all that it has given before, also
where the changes that had the highest ones are gone: whoever follows changes goes on from the last
one. A key lives for one operation, so that half of the time the newest change is a deletion; one in
`compact_every` operations deletes and drops the history up to that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dstest.core.protocols import OpDraft, Option
from workloads._workload import ObjectWorkload

_OPTIONS: Final[Mapping[str, Option]] = {
    "compact_every": Option(
        type=int,
        default=10,
        least=1,
        most=1_000_000,
        help="one in so many operations compacts (even)",
    ),
}


class RevisionGenerator:
    """One worker's stream: a key is created, the next operation deletes it."""

    def __init__(self, seed: int, worker: int, processes: int, options: Mapping[str, Any]) -> None:
        self._worker = worker
        self._every = int(options["compact_every"])
        self._count = 0

    def next(self) -> OpDraft:
        """Operation k depends on worker and k alone."""
        self._count += 1
        key = f"{self._worker}-{(self._count + 1) // 2}"
        if self._count % 2:
            return OpDraft("generate", None, {"put": key})
        if self._count % self._every:
            return OpDraft("generate", None, {"delete": key})
        return OpDraft("generate", None, {"delete": key, "compact": True})


REVISIONS: Final = ObjectWorkload(
    name="revisions",
    doc="the numbers of changes, while keys come and go and history is dropped",
    capability="revisions",
    model="increasing",
    checkers=("unique-ids",),
    op_types=frozenset({"generate"}),
    make=RevisionGenerator,
    options=_OPTIONS,
    minimum={"generate": 100},
    claims=frozenset({"safety", "ordering"}),
)
