"""`boundary`: tenants whose names, and whose keys, are easily taken for one another.

Live cells of confusable names (`_confusables.py`), each of one of nine classes, are put to, read,
listed, counted and dropped, and each is retired for one of the next class after so many operations.
Retired ones are read again now and then. Negative controls ask for what nobody has ever put, by
every way to ask: `probe` for a key, `probe_list` and `probe_count` for all of a tenant that nobody
is. Each input names its class and its cell; each value is a token of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dstest.core import rng
from dstest.core.check import Fields
from dstest.core.protocols import OpDraft, Option
from workloads._confusables import SPELLERS, Cell, cell_of
from workloads._workload import RETIRED_MAX, ObjectWorkload, revisit_ratio

CONTROLS: Final = frozenset({"probe", "probe_list", "probe_count"})

_SHARES: Final = {
    "put": 36,
    "get": 22,
    "list": 10,
    "count": 10,
    "drop": 4,
    "probe": 9,
    "probe_list": 4,
    "probe_count": 5,
}
"""Of a hundred operations."""

_RECYCLED: Final = {**_SHARES, "put": 30, "drop": 10}
"""Of those on cells whose tenants come and go."""

_AGAIN: Final = ("get", "list", "count")


class BoundaryGenerator:
    """One worker's stream. Operation k depends on seed, worker and k alone."""

    def __init__(self, seed: int, worker: int, processes: int, options: Mapping[str, Any]) -> None:
        del processes
        self._dice = rng.stream(seed, "workload", "boundary", worker)
        self._worker = worker
        self._ops_per_cell = max(1, int(options["ops_per_cell"]))
        self._revisit = float(options["revisit_ratio"])
        self._made = self._values = 0
        self._kinds: list[str] = []
        self._retired: list[Cell] = []
        live = max(1, int(options["cells"]))
        # Staggered ages keep the live cells from retiring all at once.
        self._live = [(self._fresh(), at * self._ops_per_cell // live) for at in range(live)]

    def _fresh(self) -> Cell:
        """Of a class whose turn it is: all nine have one before any has another."""
        if not self._kinds:
            self._kinds = self._dice.sample(sorted(SPELLERS), len(SPELLERS))
        self._made += 1
        return cell_of(self._kinds.pop(), self._worker, self._made - 1, self._dice)

    def _pick(self) -> Cell:
        at = self._dice.randrange(len(self._live))
        cell, age = self._live[at]
        self._live[at] = (cell, age + 1)
        if age + 1 >= self._ops_per_cell:
            self._live[at] = (self._fresh(), 0)
            self._retired = [*self._retired, cell][-RETIRED_MAX:]
        return cell

    def next(self) -> OpDraft:
        """The next operation; the stream never ends."""
        dice = self._dice
        if self._retired and dice.random() < self._revisit:
            return self._of(dice.choice(self._retired), dice.choice(_AGAIN))
        cell = self._pick()
        shares = _RECYCLED if cell.kind == "recycled" else _SHARES
        return self._of(cell, dice.choices(list(shares), list(shares.values()))[0])

    def _of(self, cell: Cell, op_type: str) -> OpDraft:
        about: dict[str, Any] = {"class": cell.kind, "cell": cell.id}
        if op_type in ("put", "get", "probe"):
            among = cell.absent if op_type == "probe" else cell.places
            tenant, name = self._dice.choice(among)
            if op_type == "put":
                about = {"value": self._value(), **about}
            return OpDraft(op_type, tenant, {"name": name, **about})
        among_tenants = cell.strangers if op_type in CONTROLS else cell.tenants
        return OpDraft(op_type, self._dice.choice(among_tenants), about)

    def _value(self) -> str:
        self._values += 1
        return f"secret-{self._worker}-{self._values}-{self._dice.getrandbits(32):08x}"


BOUNDARY: Final = ObjectWorkload(
    name="boundary",
    doc="tenants with names that are easily confused, each of which sees its own keys alone",
    capability="tenants",
    model="isolated",
    checkers=("boundary",),
    op_types=frozenset(_SHARES),
    make=BoundaryGenerator,
    options={
        "cells": Option(
            type=int, default=9, least=1, most=1_000, help="live cells of names, per load worker"
        ),
        "ops_per_cell": Option(
            type=int, default=80, least=1, most=1_000_000, help="operations before one is retired"
        ),
        "revisit_ratio": revisit_ratio("operations"),
    },
    minimum={"put": 100, "get": 50, "list": 25, "count": 25, **dict.fromkeys(CONTROLS, 10)},
    claims=frozenset({"safety", "boundary"}),
    fields=Fields(
        surfaces={
            "keys": frozenset({"get", "probe"}),
            "lists": frozenset({"list", "probe_list"}),
            "counts": frozenset({"count", "probe_count"}),
        },
        negative_controls=CONTROLS,
        asking_controls=CONTROLS,
        nothing={"probe": "null", "probe_list": "list", "probe_count": "count"},
    ),
)
