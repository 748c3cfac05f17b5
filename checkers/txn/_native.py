"""The wire to the C core: columns in, findings and cycles out, with a budget and Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from checkers import _core
from checkers.columns import interruptible
from checkers.txn.columns import I64, KINDS, RepeatedError, TxnColumns, UnfitError
from dstest.core.check import Budget

STATUS: Final = ("done", "time budget spent", "memory budget spent", "stopped")
BETWEEN: Final = ("", "-process", "-realtime")
LABELS: Final = ("pass", "ww", "wr", "rw", "process", "realtime")
FINDINGS: Final = (
    "internal",
    "future-read",
    "garbage-read",
    "G1a",
    "G1b",
    "duplicate-elements",
    "incompatible-order",
    "dirty-update",
    "lost-update",
    "cyclic-versions",
)
CYCLES: Final = ("G0", "G1c", "G-single-item", "G-nonadjacent-item", "G2-item")
DETECTABLE: Final = frozenset({*FINDINGS, *(c + b for c in CYCLES for b in BETWEEN)})
"""Every anomaly that the core can report."""

SOURCES: Final = {
    "wfr-keys?": 1,
    "sequential-keys?": 2,
    "linearizable-keys?": 4,
    "transaction-order": 8,
}
"""Sources of version orders of rw-register, as Elle's options spell them."""

BEYOND_ELLE: Final = 16
"""Say more than Elle infers (csrc/txn/txn.h)."""

U32 = NDArray[np.uint32]
NO_HASHES: Final[U32] = np.empty(0, np.uint32)

_REPEATED: Final = "a value was written to its key before"
"""How the core says that (txn_index.c, iso_resolve.c)."""

SMALL: Final = 2000
"""Transactions that are judged before a thread would have begun."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Finding:
    """An anomaly that is no cycle; fields as in csrc/txn/txn.h, -1 where they mean nothing."""

    type: str
    key: int
    value: int
    txn: int
    mop: int
    txn2: int
    mop2: int
    value2: int


@dataclass(frozen=True, slots=True)
class Cycle:
    """A cycle of transactions; `labels[i]` is the edge from `txns[i]` to the next."""

    type: str
    component: int
    minimal: bool
    txns: tuple[int, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Analysis:
    """What the core found. `status` is an index into STATUS. `proved`: executed in some order that
    respects `between` as well, list-append transactions read what they say."""

    status: int
    findings: list[Finding]
    cycles: list[Cycle]
    counts: dict[str, int]
    edges: int
    components: int
    largest: int
    undecided: int
    proved: bool


def _cycles(rows: list[int]) -> Iterator[Cycle]:
    at = 0
    while at < len(rows):
        component, kind, between, minimal, length = rows[at : at + 5]
        body = rows[at + 5 : at + 5 + 2 * length]
        at += 5 + 2 * length
        yield Cycle(
            type=CYCLES[kind] + BETWEEN[between],
            component=component,
            minimal=bool(minimal),
            txns=tuple(body[::2]),
            labels=tuple(LABELS[i] for i in body[1::2]),
        )


def positions(c: TxnColumns) -> tuple[I64, I64, int]:
    """Event positions that fit in an array of a few times their number."""
    both = np.concatenate([c.invoke_pos, c.complete_pos])
    top = int(both.max(initial=-1)) + 1
    if top <= 4 * len(both) + 64:
        return c.invoke_pos, c.complete_pos, top
    names = np.unique(both[both >= 0])
    dense = np.where(both >= 0, np.searchsorted(names, both), both).astype(np.int64)
    return dense[: c.txns], dense[c.txns :], len(names)


def analyse(
    c: TxnColumns,
    workload: str,
    *,
    between: int,
    sources: int,
    order: I64,
    budget: Budget,
    value_hash: U32 = NO_HASHES,
) -> Analysis:
    """Runs the core. `value_hash` is u32[values], or empty (csrc/txn/txn_tie.c).

    Raises UnfitError for columns that break the rules of csrc/txn/txn.h.
    """
    stop = np.zeros(1, np.int32)
    invoke, complete, n_positions = positions(c)
    status, findings, cycles, counts, edges, components, largest, undecided, proved = in_core(
        lambda: _core.check_transactions(
            c.outcome, c.process, invoke, complete, c.mop_start, c.mop_kind, c.mop_key,
            c.mop_value, c.mop_known, c.elem_start, c.elem, order, value_hash, stop,
            len(c.key_names), len(c.value_names), int(c.process.max(initial=-1)) + 1,
            n_positions, KINDS[workload].code, between, sources,
            int(budget.time_s * 1e9), budget.memory_mb * 2**20,
        ),
        stop,
        small=c.txns < SMALL,
    )  # fmt: skip
    rows = np.frombuffer(findings, np.int64).reshape(-1, 8).tolist()
    return Analysis(
        status=status,
        findings=[Finding(FINDINGS[r[0]], *r[1:]) for r in rows],
        cycles=list(_cycles(np.frombuffer(cycles, np.int64).tolist())),
        counts=dict(zip(FINDINGS, np.frombuffer(counts, np.int64).tolist(), strict=True)),
        edges=edges,
        components=components,
        largest=largest,
        undecided=undecided,
        proved=bool(proved),
    )


def in_core(
    call: Callable[[], T], stop: np.ndarray[tuple[int], np.dtype[np.int32]], *, small: bool
) -> T:
    """The answer of `call`, which Ctrl-C can end. Raises UnfitError for the columns that it is
    given, RepeatedError where all that is wrong with them is a value that is written twice."""
    answers: list[T] = []
    try:
        interruptible(lambda: answers.append(call()), stop, small=small)
    except ValueError as error:
        repeated = _REPEATED in str(error)
        raise (RepeatedError if repeated else UnfitError)(str(error)) from None
    return answers[0]
