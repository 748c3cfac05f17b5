"""Five models that are in books, with the number of states that each has by its own arithmetic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

from dstest.spec import Spec, action, invariant, when


def put(row: tuple[Any, ...], at: int, value: Any) -> tuple[Any, ...]:
    return (*row[:at], value, *row[at + 1 :])


@dataclass(frozen=True, slots=True)
class Jugs:
    small: int = 0
    big: int = 0


class DieHard(Spec):
    """Two jugs without marks (Lamport, TLA+ examples)."""

    small_size = 3
    big_size = 5
    wanted = 4

    def initial(self) -> Iterable[Jugs]:
        yield Jugs()

    @action()
    @when("not_full", lambda self, s: s.small < self.small_size)
    def fill_small(self, s: Jugs) -> Jugs:
        return replace(s, small=self.small_size)

    @action()
    @when("not_full", lambda self, s: s.big < self.big_size)
    def fill_big(self, s: Jugs) -> Jugs:
        return replace(s, big=self.big_size)

    @action()
    @when("not_empty", lambda s: s.small > 0)
    def empty_small(self, s: Jugs) -> Jugs:
        return replace(s, small=0)

    @action()
    @when("not_empty", lambda s: s.big > 0)
    def empty_big(self, s: Jugs) -> Jugs:
        return replace(s, big=0)

    @action()
    @when("not_empty", lambda s: s.small > 0)
    @when("room", lambda self, s: s.big < self.big_size)
    def small_to_big(self, s: Jugs) -> Jugs:
        moved = min(s.small, self.big_size - s.big)
        return Jugs(s.small - moved, s.big + moved)

    @action()
    @when("not_empty", lambda s: s.big > 0)
    @when("room", lambda self, s: s.small < self.small_size)
    def big_to_small(self, s: Jugs) -> Jugs:
        moved = min(s.big, self.small_size - s.small)
        return Jugs(s.small + moved, s.big - moved)

    @invariant("DH1", "the big jug never holds what is wanted")
    def unsolved(self, s: Jugs) -> bool:
        return s.big != self.wanted


def jugs_states(small: int, big: int) -> int:
    """One jug at least is empty or full: the border of a grid, in steps of what divides both."""
    step = gcd(small, big)
    return 2 * (small // step + big // step)


@dataclass(frozen=True, slots=True)
class Resources:
    rm: tuple[str, ...]
    tm: str
    prepared: frozenset[int]
    messages: frozenset[tuple[Any, ...]]


class TwoPhase(Spec):
    """Two-phase commit (Gray and Lamport, "Consensus on Transaction Commit", 2006)."""

    rms = 3

    def initial(self) -> Iterable[Resources]:
        yield Resources(("working",) * self.rms, "init", frozenset(), frozenset())

    def done(self, s: Resources) -> bool:
        return set(s.rm) <= {"committed", "aborted"}

    @action(r=lambda self: range(self.rms))
    @when("undecided", lambda s: s.tm == "init")
    @when("told", lambda s, r: ("prepared", r) in s.messages)
    def manager_hears(self, s: Resources, r: int) -> Resources:
        return replace(s, prepared=s.prepared | {r})

    @action()
    @when("undecided", lambda s: s.tm == "init")
    @when("all_prepared", lambda self, s: len(s.prepared) == self.rms)
    def manager_commits(self, s: Resources) -> Resources:
        return replace(s, tm="committed", messages=s.messages | {("commit",)})

    @action()
    @when("undecided", lambda s: s.tm == "init")
    def manager_aborts(self, s: Resources) -> Resources:
        return replace(s, tm="aborted", messages=s.messages | {("abort",)})

    @action(r=lambda self: range(self.rms))
    @when("working", lambda s, r: s.rm[r] == "working")
    def prepare(self, s: Resources, r: int) -> Resources:
        return replace(s, rm=put(s.rm, r, "prepared"), messages=s.messages | {("prepared", r)})

    @action(r=lambda self: range(self.rms))
    @when("working", lambda s, r: s.rm[r] == "working")
    def abort_alone(self, s: Resources, r: int) -> Resources:
        return replace(s, rm=put(s.rm, r, "aborted"))

    @action(r=lambda self: range(self.rms))
    @when("told", lambda s: ("commit",) in s.messages)
    def commit(self, s: Resources, r: int) -> Resources:
        return replace(s, rm=put(s.rm, r, "committed"))

    @action(r=lambda self: range(self.rms))
    @when("told", lambda s: ("abort",) in s.messages)
    def abort(self, s: Resources, r: int) -> Resources:
        return replace(s, rm=put(s.rm, r, "aborted"))

    @invariant("TP1", "none commits where another has aborted")
    def consistent(self, s: Resources) -> bool:
        return not {"committed", "aborted"} <= set(s.rm)

    @invariant("TP2", "all can commit", kind="sometimes")
    def can_commit(self, s: Resources) -> bool:
        return set(s.rm) == {"committed"}

    @invariant("TP3", "each can be told in the end", kind="liveness")
    def ends(self, s: Resources) -> bool:
        return set(s.rm) <= {"committed", "aborted"}

    @invariant("TP4", "what has been decided stays so", kind="action")
    def stays(self, before: Resources, step: Any, after: Resources) -> bool:
        return all(
            a == b or a in ("working", "prepared") for a, b in zip(before.rm, after.rm, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Pegs:
    at: tuple[int, ...]


class Hanoi(Spec):
    """The towers: each of `disks` lies on one of three pegs, and all ways can be reached."""

    disks = 4

    def initial(self) -> Iterable[Pegs]:
        yield Pegs((0,) * self.disks)

    @action(disk=lambda self: range(self.disks), to=(0, 1, 2))
    @when("elsewhere", lambda s, disk, to: s.at[disk] != to)
    @when("free", lambda s, disk: s.at[disk] not in s.at[:disk])
    @when("on_a_larger", lambda s, disk, to: to not in s.at[:disk])
    def move(self, s: Pegs, disk: int, to: int) -> Pegs:
        return Pegs(put(s.at, disk, to))

    @invariant("HA1", "not all lie on the last peg")
    def unsolved(self, s: Pegs) -> bool:
        return set(s.at) != {2}


@dataclass(frozen=True, slots=True)
class Table:
    forks: tuple[int, ...]
    holds: tuple[int, ...]


class Philosophers(Spec):
    """Each takes the fork on the left, then the one on the right (Dijkstra, 1971)."""

    seats = 3

    def initial(self) -> Iterable[Table]:
        yield Table((-1,) * self.seats, (0,) * self.seats)

    @action(p=lambda self: range(self.seats))
    @when("hungry", lambda s, p: s.holds[p] == 0)
    @when("free", lambda s, p: s.forks[p] == -1)
    def take_left(self, s: Table, p: int) -> Table:
        return Table(put(s.forks, p, p), put(s.holds, p, 1))

    @action(p=lambda self: range(self.seats))
    @when("has_left", lambda s, p: s.holds[p] == 1)
    @when("free", lambda self, s, p: s.forks[(p + 1) % self.seats] == -1)
    def take_right(self, s: Table, p: int) -> Table:
        return Table(put(s.forks, (p + 1) % self.seats, p), put(s.holds, p, 2))

    @action(p=lambda self: range(self.seats))
    @when("eats", lambda s, p: s.holds[p] == 2)
    def rise(self, s: Table, p: int) -> Table:
        free = put(put(s.forks, p, -1), (p + 1) % self.seats, -1)
        return Table(free, put(s.holds, p, 0))

    @invariant("DP1", "a fork is held by one who says so")
    def held(self, s: Table) -> bool:
        return all(s.holds[fork] > 0 for fork in s.forks if fork != -1)


def philosophers_states(seats: int) -> int:
    """0, 1 or 2 forks each; whoever has 2 has the left one of the next, who then has none. The
    trace of the matrix of what may stand beside what, to the power of the seats."""
    beside = [[1, 1, 1], [1, 1, 1], [1, 0, 0]]
    power = [[int(i == j) for j in range(3)] for i in range(3)]
    for _ in range(seats):
        power = [
            [sum(power[i][k] * beside[k][j] for k in range(3)) for j in range(3)] for i in range(3)
        ]
    return sum(power[i][i] for i in range(3))


@dataclass(frozen=True, slots=True)
class Two:
    pc: tuple[str, str]
    flag: tuple[bool, bool]
    turn: int


class Peterson(Spec):
    """Mutual exclusion of two (Peterson, "Myths about the Mutual Exclusion Problem", 1981)."""

    def initial(self) -> Iterable[Two]:
        for turn in (0, 1):
            yield Two(("idle", "idle"), (False, False), turn)

    @action(p=(0, 1))
    @when("idle", lambda s, p: s.pc[p] == "idle")
    def want(self, s: Two, p: int) -> Two:
        return replace(s, pc=put(s.pc, p, "wants"), flag=put(s.flag, p, True))

    @action(p=(0, 1))
    @when("wants", lambda s, p: s.pc[p] == "wants")
    def yield_turn(self, s: Two, p: int) -> Two:
        return replace(s, pc=put(s.pc, p, "waits"), turn=1 - p)

    @action(p=(0, 1))
    @when("waits", lambda s, p: s.pc[p] == "waits")
    @when("may", lambda s, p: not s.flag[1 - p] or s.turn == p)
    def enter(self, s: Two, p: int) -> Two:
        return replace(s, pc=put(s.pc, p, "inside"))

    @action(p=(0, 1))
    @when("inside", lambda s, p: s.pc[p] == "inside")
    def leave(self, s: Two, p: int) -> Two:
        return replace(s, pc=put(s.pc, p, "idle"), flag=put(s.flag, p, False))

    @invariant("PE1", "never both inside")
    def exclusion(self, s: Two) -> bool:
        return s.pc != ("inside", "inside")

    @invariant("PE2", "each may enter again and again", kind="liveness")
    def enters(self, s: Two) -> bool:
        return s.pc[0] == "inside"

    def canonical(self, s: Two) -> Two:
        """Of two that differ in who is who, one."""
        other = Two(s.pc[::-1], s.flag[::-1], 1 - s.turn)
        return min(s, other, key=lambda one: (one.pc, one.flag, one.turn))


class PetersonByName(Peterson):
    """The same, each state by itself."""

    def canonical(self, s: Two) -> Two:
        return s
