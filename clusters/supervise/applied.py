"""Values as a server says that it has stored them, in the words of a client history: what systems
share that tell at the end what they have applied (`AppliedOrder`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from dstest.core.op import Op
from dstest.core.protocols import Option

_TYPES: Final[Mapping[str, frozenset[str]]] = {
    "register": frozenset({"write", "cas"}),
    "cas-register": frozenset({"write", "cas"}),
    "set": frozenset({"add"}),
}

AUDIT: Final = Option(
    type=bool,
    default=False,
    help="at the end servers tell all changes, which are held against what clients know",
)


class ValuesApplied:
    """Registers, by the value that was stored, and sets. What other workloads do is not told
    apart."""

    at_end = True
    objects: Mapping[str, str] = {"write": "register", "add": "set"}

    def types_of(self, workload: str) -> frozenset[str]:
        """The operations of a workload whose effects are told."""
        return _TYPES.get(workload, frozenset())

    def asked(self, op: Op) -> Op:
        """A compare-and-set as the write that it comes to; one that was answered with false has
        failed."""
        if op.op_type != "cas" or not isinstance(op.input, list) or len(op.input) != 2:
            return op
        error = "unequal" if op.output is False else op.error
        return msgspec.structs.replace(op, op_type="write", input=op.input[1], error=error)
