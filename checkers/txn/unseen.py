"""Why a history violates a model that was decided.

Of a weak model: who saw a write and read an older one.

    T9 read 3 in key x, which T4 wrote, although it saw T7, which wrote x too (T9 had read 5 in key
    y, which T7 wrote): so T7 comes before T4

The cycle of such sentences comes from the smallest part of the history that still violates the
model (`shrink`).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

import numpy as np

from checkers.txn import decided, shrink
from checkers.txn._values import name_of, shown
from checkers.txn.columns import READ, WRITE, TxnColumns
from checkers.txn.decided import Isolation, Step
from checkers.txn.explain import records_of
from dstest.core.check import Anomaly, Budget

KINDS: Final[Mapping[str, str]] = {
    "monotonic-atomic-view": "non-monotonic-read",
    "read-atomic": "fractured-read",
    "causal-cerone": "causal-stale-read",
    "strong-session-monotonic-atomic-view": "non-monotonic-read-process",
    "strong-session-read-atomic": "fractured-read-process",
    "strong-session-causal": "causal-stale-read-process",
    "read-committed": "G1c",
    "strong-session-read-committed": "G1c-process",
}
"""Model that is decided -> what a violation of it is called."""

_MEANING: Final = {
    "non-monotonic-read": "A transaction saw another one and then read something older",
    "fractured-read": "A transaction saw a part of another one and missed the rest",
    "causal-stale-read": "A transaction missed what had led to something that it saw",
    "G1c": "Information flows in a circle",
}

BUDGET: Final = Budget(time_s=2.0, memory_mb=256)
"""Of one look at a part."""


class _Sentences:
    """Of steps in one history, or in a part of it."""

    def __init__(self, part: TxnColumns, names: list[int]) -> None:
        self.part, self.names = part, names

    def t(self, txn: int) -> str:
        return f"T{self.names[txn]}"

    def _key(self, key: int) -> str:
        return shown(self.part.key_names[key])

    def _value(self, mop: int) -> str:
        return shown(name_of(self.part, int(self.part.mop_value[mop])))

    def _read(self, reader: int, writer: int) -> str | None:
        """How `reader` read from `writer`."""
        c = self.part
        span = range(int(c.mop_start[writer]), int(c.mop_start[writer + 1]))
        wrote = {(int(c.mop_key[i]), int(c.mop_value[i])) for i in span if c.mop_kind[i] == WRITE}
        for i in range(int(c.mop_start[reader]), int(c.mop_start[reader + 1])):
            if c.mop_kind[i] == READ and (int(c.mop_key[i]), int(c.mop_value[i])) in wrote:
                return (
                    f"{self.t(reader)} read {self._value(i)} in key {self._key(c.mop_key[i])}, "
                    f"which {self.t(writer)} wrote"
                )
        return None

    def _session(self, first: int, then: int) -> str:
        process = self.part.process[first]
        return f"process {process} completed {self.t(first)} before it began {self.t(then)}"

    def _link(self, first: int, then: int) -> str:
        return self._read(then, first) or self._session(first, then)

    def _sight(self, step: Step) -> str:
        """How the reader saw what came first."""
        way = step.way or (step.txn, step.reader)
        return "; ".join(self._link(a, b) for a, b in pairwise(way))

    def of(self, step: Step) -> str:
        first, then, reader = self.t(step.txn), self.t(step.to), self.t(step.reader)
        if step.reason == "session":
            return self._session(step.txn, step.to)
        if step.reason == "known":
            return f"{first} wrote a key before {then} did, as what was read shows"
        if step.reason == "read":
            return self._read(step.to, step.txn) or f"{then} read from {first}"
        key, how = self._key(step.key), self._sight(step)
        seen = f"although it saw {first}, which wrote {key} too ({how})"
        if step.reason == "initial":
            return f"{reader} read the initial value of key {key}, {seen}"
        read = self._read(step.reader, step.to) or f"{reader} read {key} as {then} wrote it"
        return f"{read}, {seen}: so {first} comes before {then}"


def _anomaly(
    c: TxnColumns, part: TxnColumns, steps: list[Step], model: str, *, minimal: bool, workload: str
) -> Anomaly:
    """`part`'s op_index are transactions of `c`."""
    whole = part.op_index.tolist()
    names = [int(c.op_index[t]) for t in whole]
    say = _Sentences(part, names)
    kind = KINDS[model]
    sentences = [say.of(step) for step in steps]
    keys = {step.key for step in steps if step.key >= 0}
    edges: dict[int, dict[str, Any]] = {}
    for step, text in zip(steps, sentences, strict=True):
        key = part.key_names[step.key] if step.key >= 0 else None
        if step.to >= 0:
            edges[step.txn] = {
                "to": names[step.to], "reason": step.reason, "key": key, "text": text
            }  # fmt: skip
    text = f"{_MEANING[kind.removesuffix('-process')]}. " + "; ".join(sentences) + "."
    if len(steps) > 1 or steps[0].to >= 0:
        text += f" So {say.t(steps[0].txn)} would have to come before itself."
    return Anomaly(
        type=kind,
        key=part.key_names[keys.pop()] if len(keys) == 1 else None,
        ops=[*names],
        witness=records_of(c, workload, whole, edges),
        minimal=minimal,
        explanation=text,
    )


def _core(steps: list[Step]) -> set[int]:
    named = {t for s in steps for t in (s.txn, s.to, s.reader, *s.way)}
    return {t for t in named if t >= 0}


def anomaly_of(
    c: TxnColumns,
    found: Isolation,
    model: str,
    deadline_ns: int,
    registers: TxnColumns | None = None,
) -> Anomaly:
    """Why one of KINDS is violated, of which there is a cycle. `registers` are what was judged in
    place of lists."""
    workload, whole = ("rw-register", c) if registers is None else ("list-append", registers)

    def look(part: TxnColumns) -> Isolation:
        return decided.decide(part, [model], BUDGET)

    def shows(part: TxnColumns) -> bool:
        seen = look(part)
        return model in seen.cycles and not any(seen.counts.values())

    steps = found.cycles[model]
    core = _core(steps)
    small = shrink.shrink(whole, core, shows, deadline_ns)
    if small is None:
        mops = shrink.mops_of(whole, sorted(core))
        every = shrink.part_of(whole, mops)
        at = {txn: n for n, txn in enumerate(every.op_index.tolist())}
        keys = {key: n for n, key in enumerate(np.unique(whole.mop_key[mops]).tolist())}
        moved = [
            Step(
                at[s.txn], at.get(s.to, -1), s.reason, at.get(s.reader, -1),
                keys[s.key] if s.key >= 0 else -1, tuple(at[w] for w in s.way),
            )
            for s in steps
        ]  # fmt: skip
        return _anomaly(c, every, moved, model, minimal=False, workload=workload)
    part = shrink.part_of(whole, small.mops)
    cycle = look(part).cycles[model]
    return _anomaly(c, part, cycle, model, minimal=small.minimal, workload=workload)
