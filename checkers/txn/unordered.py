"""Why no order of a few transactions explains their reads.

A smallest part of the history that no order explains (`shrink`) is taken through what every order
must hold, until that is a circle:

    T9 read 3 in key x, which T4 wrote, although T7, which wrote x too, comes before T9: so T7 comes
    before T4                                                                       (ww)
    T9 read 3 in key x, which T4 wrote, and T7, which comes after T4, wrote x: so T9 comes
    before T7                                                                       (rw)

Where that is not enough, two versions of a key stand in one order or the other, and each ends in a
circle of its own. Under snapshot isolation a transaction is two moments, its snapshot and its
commit. The anomaly is called by the rw edges of its circle (Adya 1999, section 3; Elle's names).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from checkers.txn._values import name_of, shown
from checkers.txn.columns import NIL, OK, READ, TxnColumns
from dstest.core.clock import monotonic_ns

DEPTH_MAX: Final = 3
"""Of cases within cases; nobody reads more."""


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
        return shown(self.c.key_names[key])

    def told(self, r: int, key: int) -> str:
        value = self.reads[r][key]
        if value == NIL:
            return f"{self.t(r)} read the initial value of key {self.key(key)}"
        writer = self.t(self.writer[key, value])
        return (
            f"{self.t(r)} read {shown(name_of(self.c, value))} in key {self.key(key)}, which "
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
