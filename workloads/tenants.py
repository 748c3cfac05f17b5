"""`tenants`: reads and unique writes of tenants' registers, all tenants served alike.

Each tenant has one key; every process serves all tenants of its worker, so that a fault hits all of
them and none may be served much worse than the others. The thresholds are options, declared before
the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dstest.core import rng
from dstest.core.protocols import OpDraft, Option
from workloads._workload import ObjectWorkload

_OPTIONS: Final[Mapping[str, Option]] = {
    "tenants": Option(type=int, default=5, least=1, most=10_000, help="tenants, per load worker"),
    "write_ratio": Option(
        type=float, default=0.5, least=0, most=1, help="share of operations that write"
    ),
    "fairness_by": Option(
        type=str,
        default="key",
        help="what makes a group",
        choices=("key", "node", "process", "op_type"),
    ),
    "fairness_p99_ratio": Option(
        type=float,
        default=3.0,
        least=1,
        most=1_000_000,
        help="worst group's p99 latency / p99 of all, at most",
    ),
    "fairness_ok_per_s": Option(
        type=float,
        default=5.0,
        least=0,
        most=1_000_000_000,
        help="good operations per second of each group, at least",
    ),
    "fairness_error_rate": Option(
        type=float,
        default=0.5,
        least=0,
        most=1,
        help="share of operations that end badly, per group, at most",
    ),
    "fairness_spread": Option(
        type=float,
        default=0.9,
        least=0,
        most=1,
        help="fall of a group's throughput between thirds, at most",
    ),
}


class TenantsGenerator:
    """One worker's stream. Operation k depends on seed, worker and k alone."""

    def __init__(self, seed: int, worker: int, processes: int, options: Mapping[str, Any]) -> None:
        self._rng = rng.stream(seed, "workload", "tenants", worker)
        self._tenants = [f"t{worker}-{n}" for n in range(max(1, int(options["tenants"])))]
        self._ratio = float(options["write_ratio"])
        self._value = 0

    def next(self) -> OpDraft:
        """The next operation; the stream never ends."""
        tenant = self._rng.choice(self._tenants)
        if self._rng.random() >= self._ratio:
            return OpDraft("read", tenant)
        self._value += 1
        return OpDraft("write", tenant, self._value)


TENANTS: Final = ObjectWorkload(
    name="tenants",
    doc="registers of several tenants, none served much worse than the others",
    capability="register",
    model="register",
    checkers=("linearizable", "fairness"),
    op_types=frozenset({"read", "write"}),
    make=TenantsGenerator,
    options=_OPTIONS,
    minimum={"read": 100, "write": 100},
    claims=frozenset({"safety", "fairness"}),
)
