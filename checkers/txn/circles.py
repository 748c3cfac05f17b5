"""Why a history violates a model that was decided: a circle in the smallest part of it that still
violates the model (`shrink`).

    T9 read 3 in key x, which T4 wrote, although T7, which wrote x too, comes before T9: so T7 comes
    before T4                                                                       (ww)
    T9 read 3 in key x, which T4 wrote, and T7, which comes after T4, wrote x: so T9 comes
    before T7                                                                       (rw)

Where one circle is not enough, two versions of a key stand in one order or the other, and each ends
in a circle of its own. Under snapshot isolation a transaction is two moments, its snapshot and its
commit. The anomaly is called by the rw edges of its circle (Adya 1999, section 3; Elle's names). Of
a weak model the core gives the circle: who saw a write and read an older one (`anomaly_of`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from checkers.txn import as_registers, weak_models
from checkers.txn.assignments import Assumed
from checkers.txn.columns import NIL, OK, READ, WRITE, TxnColumns, name_of, text_of
from checkers.txn.explain import records_of
from checkers.txn.weak_models import Isolation, Step
from dstest.core.check import Anomaly, Budget
from dstest.core.clock import monotonic_ns

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

DEPTH_MAX: Final = 3
"""Of cases within cases; nobody reads more."""


class _Sentences:
    """Of steps in one history, or in a part of it."""

    def __init__(self, part: TxnColumns, names: list[int]) -> None:
        self.part, self.names = part, names

    def t(self, txn: int) -> str:
        return f"T{self.names[txn]}"

    def _key(self, key: int) -> str:
        return text_of(self.part.key_names[key])

    def _value(self, mop: int) -> str:
        return text_of(name_of(self.part, int(self.part.mop_value[mop])))

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
        return weak_models.decide(part, [model], BUDGET)

    def shows(part: TxnColumns) -> bool:
        seen = look(part)
        return model in seen.cycles and not any(seen.counts.values())

    steps = found.cycles[model]
    core = _core(steps)
    small = as_registers.shrink(whole, core, shows, deadline_ns)
    if small is None:
        return _of_all(c, whole, steps, model, workload)
    part = as_registers.part_of(whole, small.mops)
    cycle = look(part).cycles[model]
    return _anomaly(c, part, cycle, model, minimal=small.minimal, workload=workload)


def _of_all(
    c: TxnColumns, whole: TxnColumns, steps: list[Step], model: str, workload: str
) -> Anomaly:
    """Of all that the transactions of a cycle did; `whole` is what was judged."""
    mops = as_registers.mops_of(whole, sorted(_core(steps)))
    every = as_registers.part_of(whole, mops)
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


def whichever(c: TxnColumns, assumed: Assumed, model: str) -> Anomaly:
    """Why one of KINDS is violated of which there is a cycle whichever writes the open reads read
    from, and another one each time."""
    one = _of_all(c, assumed.columns, assumed.cycle, model, "rw-register")
    reads = c.open.read[assumed.reads]
    writes = np.concatenate([c.open.candidates(read) for read in assumed.reads])
    txns = np.searchsorted(c.mop_start, np.concatenate([reads, writes]), side="right") - 1
    txns = np.unique(txns[~np.isin(c.op_index[txns], one.ops)])
    meaning, _, story = (one.explanation or "").partition(". ")
    return replace(
        one,
        ops=[*one.ops, *(int(c.op_index[t]) for t in txns)],
        witness=[*one.witness, *records_of(c, "rw-register", txns.tolist(), {})],
        explanation=f"{meaning}, whichever of its writers each read returned. One way: {story}",
    )


@dataclass(frozen=True)
class Edge:
    """Between transactions of the part. `label` is wr, ww, rw, process or realtime. `of_initial`:
    an rw edge from who read what the key began with, there whatever the order of writes."""

    first: int
    then: int
    label: str
    key: int
    text: str
    of_initial: bool = False


@dataclass(frozen=True)
class Case:
    """A circle of edges, and what was assumed for it."""

    assumed: tuple[str, ...]
    edges: tuple[Edge, ...]


@dataclass
class _Graph:
    """Nodes are moments: of transaction t one, or 2 t (snapshot) and 2 t + 1 (commit)."""

    out: dict[int, dict[int, Edge | None]] = field(default_factory=dict)

    def add(self, a: int, b: int, edge: Edge | None) -> bool:
        row = self.out.setdefault(a, {})
        if b in row:
            return False
        row[b] = edge
        return True

    def copy(self) -> _Graph:
        return _Graph({a: dict(row) for a, row in self.out.items()})

    def way(self, a: int, b: int) -> list[Edge] | None:
        """The edges of a shortest way of at least one edge."""
        came: dict[int, tuple[int, Edge | None]] = {}
        queue = deque([a])
        while queue:
            at = queue.popleft()
            for to, edge in self.out.get(at, {}).items():
                if to in came:
                    continue
                came[to] = (at, edge)
                if to == b:
                    return self._back(came, a, b)
                queue.append(to)
        return None

    @staticmethod
    def _back(came: dict[int, tuple[int, Edge | None]], a: int, b: int) -> list[Edge]:
        found: list[Edge] = []
        at = b
        while True:
            at, edge = came[at]
            if edge is not None:
                found.append(edge)
            if at == a:
                return found[::-1]

    def circle(self) -> list[Edge] | None:
        """A shortest one."""
        ways = [way for node in list(self.out) if (way := self.way(node, node)) is not None]
        return min(ways, key=len, default=None)


class _TooLongError(Exception):
    """Time is over."""


class _Part:
    """What the transactions of a part read of others and left."""

    def __init__(
        self, c: TxnColumns, names: list[int], deadline_ns: int, *, snapshot: bool, between: str
    ) -> None:
        self.c, self.names, self.deadline_ns = c, names, deadline_ns
        self.snapshot, self.between = snapshot, between
        self.reads: list[dict[int, int]] = []
        self.writes: list[dict[int, int]] = []
        for t in range(c.txns):
            reads: dict[int, int] = {}
            writes: dict[int, int] = {}
            for i in range(int(c.mop_start[t]), int(c.mop_start[t + 1])):
                key, value = int(c.mop_key[i]), int(c.mop_value[i])
                if c.mop_kind[i] != READ:
                    writes[key] = value
                elif c.outcome[t] == OK and c.mop_known[i] and key not in writes:
                    reads.setdefault(key, value)
            self.reads.append(reads)
            self.writes.append(writes)
        read = {(k, v) for reads in self.reads for k, v in reads.items()}
        self.there = [
            t
            for t in range(c.txns)
            if c.outcome[t] == OK or any(kv in read for kv in self.writes[t].items())
        ]
        self.writer = {kv: t for t in self.there for kv in self.writes[t].items()}

    def begin(self, t: int) -> int:
        return 2 * t if self.snapshot else t

    def commit(self, t: int) -> int:
        return 2 * t + 1 if self.snapshot else t

    def t(self, t: int) -> str:
        return f"T{self.names[t]}"

    def key(self, key: int) -> str:
        return text_of(self.c.key_names[key])

    def told(self, r: int, key: int) -> str:
        value = self.reads[r][key]
        if value == NIL:
            return f"{self.t(r)} read the initial value of key {self.key(key)}"
        writer = self.t(self.writer[key, value])
        return (
            f"{self.t(r)} read {text_of(name_of(self.c, value))} in key {self.key(key)}, which "
            f"{writer} wrote"
        )

    def readings(self) -> Iterator[tuple[int, int, int | None]]:
        """(reader, key, writer), None for the initial value."""
        for r in self.there:
            for key, value in self.reads[r].items():
                yield r, key, None if value == NIL else self.writer.get((key, value))

    def writers(self, key: int) -> list[int]:
        return [t for t in self.there if key in self.writes[t]]

    def base(self) -> _Graph:
        """What is in the history itself."""
        c, graph = self.c, _Graph()
        for t in self.there if self.snapshot else ():
            graph.add(self.begin(t), self.commit(t), None)
        for r, key, writer in self.readings():
            if writer is not None:
                edge = Edge(writer, r, "wr", key, self.told(r, key))
                graph.add(self.commit(writer), self.begin(r), edge)
        for a in self.there:
            for b in self.there:
                if c.outcome[a] != OK or c.complete_pos[a] >= c.invoke_pos[b] >= 0 or a == b:
                    continue
                if self.between != "plain" and c.process[a] == c.process[b] >= 0:
                    text = (
                        f"process {c.process[a]} completed {self.t(a)} before it began {self.t(b)}"
                    )
                    graph.add(self.commit(a), self.begin(b), Edge(a, b, "process", -1, text))
                elif self.between == "realtime" and c.invoke_pos[b] >= 0:
                    text = f"{self.t(a)} had completed before {self.t(b)} was invoked"
                    graph.add(self.commit(a), self.begin(b), Edge(a, b, "realtime", -1, text))
        return graph

    def before(self, graph: _Graph, first: int | None, then: int, key: int, why: str) -> bool:
        """`first` wrote `key` before `then` did (None: nobody had). Anything new?"""
        new = False
        for r, k, writer in self.readings():
            if k == key and writer == first and r != then:
                text = f"{self.told(r, key)}, and {self.t(then)} wrote that key, {why}"
                text += f": so {self.t(r)} comes before {self.t(then)}"
                edge = Edge(r, then, "rw", key, text, of_initial=first is None)
                new |= graph.add(self.begin(r), self.commit(then), edge)
        if first is not None:
            text = f"{self.t(first)} wrote key {self.key(key)} before {self.t(then)}: {why}"
            edge = Edge(first, then, "ww", key, text)
            new |= graph.add(self.commit(first), self.begin(then), edge)
        return new

    def grow(self, graph: _Graph) -> bool:
        """One round of what follows. Anything new?"""
        new = False
        for r, key, writer in self.readings():
            for v in self.writers(key):
                if v in (writer, r):
                    continue
                if writer is None:
                    new |= self.before(graph, None, v, key, "which comes after the initial value")
                elif graph.way(self.begin(writer), self.commit(v)) is not None:
                    why = f"which comes after {self.t(writer)}"
                    new |= self.before(graph, writer, v, key, why)
                elif graph.way(self.commit(v), self.begin(r)) is not None:
                    text = (
                        f"{self.told(r, key)}, although {self.t(v)}, which wrote that key too,"
                        f" comes before {self.t(r)}: so {self.t(v)} comes before {self.t(writer)}"
                    )
                    edge = Edge(v, writer, "ww", key, text)
                    new |= graph.add(self.commit(v), self.begin(writer), edge)
        for u, v, key in self.pairs() if self.snapshot else ():
            if graph.way(self.begin(u), self.commit(v)) is not None:
                why = f"{self.t(u)} begins before {self.t(v)} commits, and they may not overlap"
                new |= self.before(graph, u, v, key, why)
        return new

    def pairs(self) -> Iterator[tuple[int, int, int]]:
        """Two writers of a key, in both orders."""
        for key in range(len(self.c.key_names)):
            writers = self.writers(key)
            yield from ((u, v, key) for u in writers for v in writers if u != v)

    def circle(self, graph: _Graph) -> list[Edge] | None:
        while True:
            if monotonic_ns() > self.deadline_ns:
                raise _TooLongError
            if found := graph.circle():
                return found
            if not self.grow(graph):
                return None


def _cases(part: _Part, graph: _Graph, assumed: tuple[str, ...]) -> list[Case] | None:
    if found := part.circle(graph):
        return [Case(assumed, tuple(found))]
    if len(assumed) == DEPTH_MAX:
        return None
    best: list[Case] | None = None
    for u, v, key in part.pairs():
        if (
            u > v
            or graph.way(part.commit(u), part.begin(v))
            or graph.way(part.commit(v), part.begin(u))
        ):
            continue
        both: list[Case] = []
        for first, then in ((u, v), (v, u)):
            now = graph.copy()
            said = f"{part.t(first)} wrote key {part.key(key)} before {part.t(then)}"
            part.before(now, first, then, key, "as assumed")
            cases = _cases(part, now, (*assumed, said))
            if cases is None:
                break
            both += cases
        else:
            if best is None or len(both) < len(best):
                best = both
            if len(best) == 2:
                return best
    return best


def cases_of(
    c: TxnColumns, names: list[int], deadline_ns: int, *, snapshot: bool, between: str
) -> list[Case] | None:
    """The circles that rule out every order of a few transactions: one, or one for each order of
    some versions; None where that would be too long a story, or take too long. `names` are what the
    history calls them."""
    part = _Part(c, names, deadline_ns, snapshot=snapshot, between=between)
    try:
        return _cases(part, part.base(), ())
    except _TooLongError:
        return None


def kind_of(edges: tuple[Edge, ...]) -> str:
    """What a circle is called, without the suffix for sessions or real time."""
    rw = [edge.label == "rw" for edge in edges]
    if not any(rw):
        return "G0" if all(edge.label == "ww" for edge in edges) else "G1c"
    if sum(rw) == 1:
        return "G-single-item"
    adjacent = any(a and b for a, b in zip(rw, [*rw[1:], rw[0]], strict=True))
    return "G2-item" if adjacent else "G-nonadjacent-item"


def sentence(part_names: dict[int, str], case: Case) -> str:
    """What a case says."""
    start = f"If {' and '.join(case.assumed)}: " if case.assumed else ""
    edges = "; ".join(edge.text for edge in case.edges)
    return f"{start}{edges}. So {part_names[case.edges[0].first]} would have to come before itself"
