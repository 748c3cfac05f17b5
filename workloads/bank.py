"""`bank` and `bank-replicas`: money moves between a few accounts, and all of them are read at once.

After the load each node is read once more; with `bank-replicas` it then tells twice what it holds
itself: replicas at rest must be equal, and no money may be missing in any of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from dstest.core import rng
from dstest.core.protocols import Answer, OpDraft, Option
from workloads._workload import FinalReads, ObjectWorkload

_OPTIONS: Final[Mapping[str, Option]] = {
    "bank_accounts": Option(type=int, default=8, least=2, most=100_000, help="accounts"),
    "bank_balance": Option(
        type=int,
        default=20,
        least=0,
        most=1_000_000_000,
        help="balance of each account at the start",
    ),
    "bank_max": Option(
        type=int, default=5, least=1, most=1_000_000_000, help="a transfer moves at most so much"
    ),
    "write_ratio": Option(
        type=float, default=0.6, least=0, most=1, help="share of operations that transfer"
    ),
}


class BankGenerator:
    """One worker's stream. Operation k depends on seed, worker and k alone."""

    def __init__(
        self,
        seed: int,
        worker: int,
        processes: int,
        options: Mapping[str, Any],
        finals: Sequence[str] = ("read",),
    ) -> None:
        self._rng = rng.stream(seed, "workload", "bank", worker)
        self._accounts = range(max(2, int(options["bank_accounts"])))
        self._amount_max = int(options["bank_max"])
        self._ratio = float(options["write_ratio"])
        self._finals = FinalReads(lambda node: [OpDraft(kind, None) for kind in finals])

    def next(self) -> OpDraft:
        """The next operation; the stream never ends."""
        if self._rng.random() >= self._ratio:
            return OpDraft("read", None)
        a, b = self._rng.sample(self._accounts, 2)
        amount = self._rng.randint(1, self._amount_max)
        return OpDraft("transfer", None, {"from": a, "to": b, "amount": amount})

    def final(self, node: int, last: Answer | None) -> OpDraft | None:
        """All accounts once more, at every node."""
        return self._finals.next(node, last)


BANK: Final = ObjectWorkload(
    name="bank",
    doc="transfers between accounts, and reads of all of them",
    capability="bank",
    model="strict-serializable",
    checkers=("bank",),
    op_types=frozenset({"transfer", "read"}),
    make=BankGenerator,
    options=_OPTIONS,
    minimum={"transfer": 50, "read": 50},
    claims=frozenset({"isolation"}),
)

BANK_REPLICAS: Final = ObjectWorkload(
    name="bank-replicas",
    doc="as bank; at the end each replica is asked what it holds, and they are compared",
    capability="bank",
    model="strict-serializable",
    checkers=("bank", "reconciliation", "final-state"),
    op_types=frozenset({"transfer", "read", "dump"}),
    make=partial(BankGenerator, finals=("read", "dump", "dump")),
    options={
        **_OPTIONS,
        "invariants": Option(
            type=str,
            default="sum=bank_accounts*bank_balance,min=0,size=bank_accounts",
            help="what must hold in each replica at the end; numbers, or products of options",
        ),
    },
    minimum={"transfer": 50, "read": 50},
    claims=frozenset({"isolation"}),
)
