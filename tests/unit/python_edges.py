"""What Python means otherwise than other languages do: numbers below 0 divided, places counted from
the end, parts that go beyond, what is empty taken for false."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dstest.spec import Spec, action, invariant, when


@dataclass(frozen=True, slots=True)
class Edge:
    n: int = 0
    half: int = 0
    rest: int = 0
    row: tuple[int, ...] = ()
    part: tuple[int, ...] = ()
    said: bool = False


class PythonEdges(Spec):
    """All of it in small bounds."""

    ends = (-3, -1, 1, 4)

    def initial(self) -> Iterable[Edge]:
        yield Edge()

    @action()
    @when("more", lambda s: s.n > -5 and not s.row and not s.said)
    def down(self, s: Edge) -> Edge:
        return replace(s, n=s.n - 1, half=(s.n - 1) // 2, rest=(s.n - 1) % 3)

    @action(low=ends, high=ends)
    @when("some", lambda s: bool(s.row))
    @when("first", lambda s: s.n == 0 and s.part == ())
    def cut(self, s: Edge, low: int, high: int) -> Edge:
        return replace(s, part=s.row[low:high])

    @action()
    @when("some", lambda s: s.n == 0 and not s.part)
    def cut_fixed(self, s: Edge) -> Edge:
        return replace(s, part=(*s.row[:-1], *s.row[:5], *s.row[2:], *s.row[-2:], *s.row[1:-1]))

    @action(at=(-1, 0))
    @when("first", lambda s: s.n == 0 and s.part == ())
    @when("some", lambda s: len(s.row) > 0)
    def look(self, s: Edge, at: int) -> Edge:
        return replace(s, part=(s.row[at], s.row[-1], s.row[0]))

    @action()
    @when("room", lambda s: len(s.row) < 3 and s.n == 0)
    def grow(self, s: Edge) -> Edge:
        return replace(s, row=(*s.row, len(s.row)), said=not s.row or not s.n)

    @action()
    @when("first", lambda s: not s.n)
    def swap(self, s: Edge) -> Edge:
        return replace(s, part=s.part if s.part else s.row, said=bool(s.row and s.part))

    @invariant("PE1", "the rest is one of a divisor above 0")
    def rests(self, s: Edge) -> bool:
        return 0 <= s.rest < 3
