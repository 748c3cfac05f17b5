"""`ledger`: payments that are tried again under the same business key, and audits at the end.

A process whose payment did not end well tries it again, as users' clients do; now and then it sends
one again that did end well, or one that another process is sending. However often: it must take
effect once. After the load an audit of each account lists all that took effect there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from dstest.core import rng
from dstest.core.check import Fields
from dstest.core.protocols import Answer, OpDraft, Option
from workloads._workload import FinalReads, ObjectWorkload, RotatingKeys

_EVERYWHERE: Final = 8
"""The youngest accounts are audited at each node at the end, the others at the first one."""

_RECENT: Final = 64
"""Payments that may be sent again: those of the last tenths of a second, and some under way."""

_AMOUNT_MAX: Final = 9

_OPTIONS: Final[Mapping[str, Option]] = {
    "keys": Option(
        type=int, default=3, least=1, most=100_000, help="accounts live at a time, per load worker"
    ),
    "ops_per_key": Option(
        type=int,
        default=300,
        least=1,
        most=10_000_000,
        help="payments to an account before it is retired",
    ),
    "resend_ratio": Option(
        type=float,
        default=0.2,
        least=0,
        most=1,
        help="share of payments that some process has sent already",
    ),
}


class LedgerGenerator:
    """One worker's processes."""

    def __init__(self, seed: int, worker: int, processes: int, options: Mapping[str, Any]) -> None:
        self._rng = rng.stream(seed, "workload", "ledger", worker)
        self._worker = worker
        self._keys = RotatingKeys(worker, int(options["keys"]), int(options["ops_per_key"]))
        self._ratio = float(options["resend_ratio"])
        self._count = 0
        self._recent: deque[OpDraft] = deque(maxlen=_RECENT)
        self._finals = FinalReads(self._audits)

    def next(self) -> OpDraft:
        """A new payment, or a recent one again."""
        if self._recent and self._rng.random() < self._ratio:
            return self._recent[self._rng.randrange(len(self._recent))]
        self._count += 1
        paid = {"id": f"p{self._worker}-{self._count}", "amount": self._rng.randint(1, _AMOUNT_MAX)}
        draft = OpDraft("credit", self._keys.pick(self._rng), paid)
        self._recent.append(draft)
        return draft

    def next_for(self, slot: int, last: Answer | None) -> OpDraft:
        """What did not end well is tried again."""
        if last is not None and last.kind != "ok":
            return last.draft
        return self.next()

    def _audits(self, node: int) -> list[OpDraft]:
        used = self._keys.used
        return [OpDraft("audit", key) for key in (used if node == 0 else used[-_EVERYWHERE:])]

    def final(self, node: int, last: Answer | None) -> OpDraft | None:
        """All that took effect, account by account."""
        return self._finals.next(node, last)


LEDGER: Final = ObjectWorkload(
    name="ledger",
    doc="payments under business keys, sent more than once; audits of all effects",
    capability="ledger",
    model="ledger",
    checkers=("exactly-once",),
    op_types=frozenset({"credit", "audit"}),
    make=LedgerGenerator,
    options=_OPTIONS,
    minimum={"credit": 100},
    claims=frozenset({"idempotency"}),
    fields=Fields(family="ledger", idempotency_field="id"),
)
