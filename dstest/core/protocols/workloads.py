"""Workloads and their generators: what clients do, and which checkers judge it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec

from dstest.core.claims import Fields
from dstest.core.protocols.clients import OpDraft
from dstest.core.protocols.options import Option


class Answer(msgspec.Struct, frozen=True):
    """How a process's last operation ended: `kind` is `ok`, `fail` or `unknown`."""

    draft: OpDraft
    kind: str
    output: Any = None


class Generator(Protocol):
    """A worker's seeded stream of operations; the same seed gives the same stream."""

    def next(self) -> OpDraft: ...


@runtime_checkable
class Reactive(Protocol):
    """A generator whose next operation depends on how the process's last one ended.

    `slot` stays with a logical client through its changes of process id; `last` is None for its
    first operation. A lock is released by who holds it, a stream goes on where it stopped.
    """

    def next_for(self, slot: int, last: Answer | None) -> OpDraft: ...


@runtime_checkable
class Finishing(Protocol):
    """A generator that reads the final state once the cluster has recovered and the load is over.

    `final(node, last)` gives the next operation for the node with this index, None when it is done
    there. `last` is how the one before ended at this node, None at first. A draft's `after_ns` is
    waited for, and counts to the time that the final phase has.
    """

    def final(self, node: int, last: Answer | None) -> OpDraft | None: ...


class Workload(Protocol):
    """What clients do, which capability they need, and which checkers judge it.

    `claims` are categories of `dstest.core.claims`. `fields` says what the lints ask of its
    operations. Each of `op_types` must be asked for at least once; `minimum` is how
    many good operations of a type prove anything.
    """

    name: str
    doc: str
    capability: str
    model: str
    op_types: frozenset[str]
    checkers: tuple[str, ...]
    claims: frozenset[str]
    fields: Fields
    minimum: Mapping[str, int]
    options: Mapping[str, Option]

    def generator(
        self, seed: int, worker: int, processes: int, options: Mapping[str, Any]
    ) -> Generator: ...
