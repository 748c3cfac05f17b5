"""`my-workload`: clients write and read a few registers.

What to change:

- `capability`: what the clients can do. `dstest list` names the capability of each workload; the
  client of a capability says which operations it takes (clusters/systems/etcd/clients/).
- `Operations.next`: the operations. They may depend on the seed, the worker and how many came
  before, on nothing else: the same seed must give the same run. Some reads have to go back to keys
  written long before, else a system that forgot everything would pass.
- `op_types`, `checkers`, `model`: what is done, who judges it, and by which model
  (`dstest list` and `dstest models`).
- `claims`: what the run is about, of `dstest.core.check`; `minimum`: how many good operations of
  each type a run needs to prove anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dstest.core import rng
from dstest.core.check import Fields
from dstest.core.protocols import OpDraft, Option, Workload


class Operations:
    """The operations of one load worker, whose clients are spread over all nodes."""

    def __init__(self, seed: int, worker: int, options: Mapping[str, Any]) -> None:
        self._dice = rng.stream(seed, "workload", "my-workload", worker)
        # No key belongs to two workers, so a value written once per key is unique.
        self._keys = [f"{worker}-{number}" for number in range(options["registers"])]
        self._write_ratio = options["write_ratio"]
        self._written = 0

    def next(self) -> OpDraft:
        """The next operation; the stream never ends."""
        key = self._dice.choice(self._keys)
        if self._dice.random() >= self._write_ratio:
            return OpDraft("read", key)
        self._written += 1
        return OpDraft("write", key, self._written)


class MyWorkload(Workload):
    """What the generator's operations are, and what they have to satisfy."""

    name = "my-workload"
    doc = "reads and unique writes of a few registers"
    capability = "register"
    op_types = frozenset({"read", "write"})
    checkers: tuple[str, ...] = ("linearizable",)
    model = "register"
    claims = frozenset({"safety"})
    fields = Fields()
    minimum: Mapping[str, int] = {"read": 30, "write": 30}
    options: Mapping[str, Option] = {
        "registers": Option(type=int, default=20, least=1, most=1000, help="per load worker"),
        "write_ratio": Option(type=float, default=0.4, least=0, most=1, help="share of writes"),
    }

    def generator(
        self, seed: int, worker: int, processes: int, options: Mapping[str, Any]
    ) -> Operations:
        return Operations(seed, worker, options)


WORKLOAD = MyWorkload()
