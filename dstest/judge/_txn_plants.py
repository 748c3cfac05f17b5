"""Planted anomalies: a few transactions of our own among those of the run.

A copy of the run's history gets a handful of transactions that nobody sent. They work on keys of
the run and at a moment of the run, and only what they hold is wrong: without them the history is
as clean as it was. That is fair to the checker, for it sees nothing but a history in which these
clients ran too, and it is certain, for a plant forbids itself whatever stands around it.

    b0 ax1 ry      a client begins a transaction that appends 1 to x and reads y as it was before
    b1 rx12        another one reads x with 1 and 2 on top of what was there
    e0  f0         the first one ends: ok, or definitely failed

How it fits in. *Lists*: a key of the run of which every append is known and was read; the plant
stands in a gap in which nobody touched the key, after its last append, and later reads of the run
see what the plant left. *Registers*: a key that the run has not touched yet, since of registers
only the order after null is known. Where the run has no such key, one of our own. Without real time
in the model a plant comes after all that touched its keys: a run that reads old states must
not get a second cycle by way of the plant.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from dstest.core.op import Op, Outcome
from dstest.judge.canary import token

_FAR: Final = 1 << 62
_TRIES: Final = 60
_ROOM_NS: Final = 1_000
_VALUE: Final = 2_000_001_000


class Plant(NamedTuple):
    """A kind of planted anomaly. `anomalies` are all that the plant holds, by Elle's names;
    `unread` says that nobody may read its keys afterwards."""

    kind: str
    anomalies: frozenset[str]
    steps: str
    unread: bool = False


def _plant(kind: str, anomalies: str, steps: str, *, unread: bool = False) -> Plant:
    return Plant(kind, frozenset(anomalies.split()), steps, unread)


_ONE_AFTER_THE_OTHER: Final = {
    "information-flow": ("G1c", "b0 rx1 e0 b1 ax1 e1"),
    "stale-state": ("G-single-item", "b0 ax1 e0 b1 rx e1 b2 rx1 e2"),
    "long-fork": (
        "G-nonadjacent-item",
        "b2 ax1 az1 b3 rz1 ry b0 ay1 e0 b1 rx e1 e2 e3 b4 rx1 ry1 e4",
    ),
    "write-skew": ("G2-item", "b2 ax1 ry b0 ay1 e0 b1 rx e1 e2 b4 rx1 ry1 e4"),
}
"""Clients 0 and 1 are one after the other; nothing else orders them."""


def _ordered(swapped: tuple[str, str] | None) -> list[Plant]:
    """In real time, and with one client in place of 0 and 1: in the order of a session."""
    plants = []
    for kind, (anomaly, steps) in {
        **({} if swapped is None else {"swapped-writes": swapped}),
        **_ONE_AFTER_THE_OTHER,
    }.items():
        alone = " ".join(w[0] + "0" if w in ("b1", "e1") else w for w in steps.split())
        plants += [
            _plant(f"{kind}-realtime", f"{anomaly}-realtime", steps),
            _plant(f"{kind}-process", f"{anomaly}-process", alone),
        ]
    return plants


_BOTH: Final = (
    _plant("circular-information", "G1c", "b0 ax1 ry1 b1 ay1 rx1 e0 e1"),
    _plant("lost-update", "lost-update G2-item", "b0 rx ax1 b1 rx ax2 e0 e1", unread=True),
    _plant("read-skew", "G-single-item", "b0 ax1 ay1 b1 rx1 ry e0 e1 b2 rx1 ry1 e2"),
    _plant("long-fork", "G-nonadjacent-item", "b0 ax1 b1 ay1 b2 rx1 ry b3 ry1 rx e0 e1 e2 e3"),
    _plant("write-skew", "G2-item", "b0 rx ay1 b1 ry ax1 e0 e1 b2 rx1 ry1 e2"),
)

PLANTS: Final[dict[bool, tuple[Plant, ...]]] = {
    True: (
        _plant("circular-writes", "G0", "b0 ax1 ay2 b1 ax2 ay1 e0 e1 b2 rx12 ry12 e2"),
        # Whoever read the middle of a list also missed its end.
        _plant("intermediate-read", "G1b G-single-item", "b0 ax1 ax2 b1 rx1 e0 e1 b2 rx12 e2"),
        _plant("own-write-missed", "internal", "b0 rx ax1 rx e0 b1 rx1 e1"),
        *_BOTH,
        *_ordered(("G0", "b0 ax1 e0 b1 ax2 e1 b2 rx21 e2")),
    ),
    False: (
        _plant("intermediate-read", "G1b", "b0 ax1 ax2 b1 rx1 e0 e1"),
        _plant("own-write-missed", "internal", "b0 ax1 ax2 rx1 e0"),
        *_BOTH,
        *_ordered(None),
    ),
}
"""By whether values are lists. In those of registers `a` writes, and a read names the last write
alone."""


class _Uses(NamedTuple):
    """What a run did with one key: acknowledged touches as [begin, end], and its values."""

    spans: list[tuple[int, int]]
    reads: list[tuple[Op, Any]]
    written: list[tuple[Op, Any]]
    certain: bool


class View:
    """A history of transactions by key."""

    def __init__(self, ops: list[Op]) -> None:
        self.ops = ops
        self.lists = any(m[0] == "append" for op in ops for m in op.input or ())
        self.null = any(
            m[0] == "r" and m[2] is None for op in ops for m in op.output or ()
        ) or not any(op.output for op in ops)
        times = [t for op in ops for t in (op.invoke_ts, op.complete_ts) if t is not None]
        self.first, self.last = min(times, default=0), max(times, default=0)
        self.uses: dict[Any, _Uses] = {}
        self._read(ops)
        self._free = [key for key, uses in self.uses.items() if self._base(uses) is not None]

    def _read(self, ops: list[Op]) -> None:
        for op in ops:
            if op.outcome is Outcome.FAIL:
                continue
            ok = op.outcome is Outcome.OK
            rows = op.output if ok and op.output is not None else op.input
            for f, key, value in rows or ():
                uses = self.uses.setdefault(key, _Uses([], [], [], certain=True))
                if f != "r":
                    uses.written.append((op, value))
                elif ok:
                    uses.reads.append((op, value))
                if ok and op.complete_ts is not None:
                    uses.spans.append((op.invoke_ts, op.complete_ts))
                elif f != "r":
                    uses.spans.append((op.invoke_ts, op.invoke_ts))
                    self.uses[key] = uses._replace(certain=False)

    def keys(self, dice: random.Random) -> list[Any]:
        """Some keys that a plant may work on, in random order."""
        return dice.sample(self._free, min(len(self._free), _TRIES))

    def _base(self, uses: _Uses) -> Any:
        """What a plant finds there: the whole list, or [] for a register. None: not to be used."""
        if not self.lists:
            return None if any(value is None for _, value in uses.reads) else []
        longest = max((value or [] for _, value in uses.reads), key=len, default=[])
        if not uses.certain or sorted(map(token, longest)) != sorted(
            token(value) for _, value in uses.written
        ):
            return None
        return longest

    def base(self, key: Any) -> Any:
        """What a plant finds at a key."""
        uses = self.uses.get(key)
        return [] if uses is None else self._base(uses)

    def gaps(self, key: Any, *, last: bool) -> list[tuple[int, int]]:
        """When nobody was at work on the key and a plant may be; `last` = after everything."""
        uses = self.uses[key]
        if not self.lists:
            return [(max(0, self.first - _ROOM_NS), min(begin for begin, _ in uses.spans))]
        whole = len(self.base(key))
        free = max((op.complete_ts or 0 for op, _ in uses.written), default=0)
        gaps: list[tuple[int, int]] = []
        for begin, end in sorted(uses.spans):
            if begin > free:
                gaps.append((free, begin))
            free = max(free, end)
        gaps.append((free, _FAR))
        short = [op.invoke_ts for op, value in uses.reads if len(value or []) < whole]
        # A run that reads old states: only after the last of those.
        late = max(short, default=-1)
        return gaps[-1:] if last else [gap for gap in gaps if gap[0] >= late]


class _Place(NamedTuple):
    keys: dict[str, Any]
    begin: int
    end: int


def _place(view: View, names: Iterable[str], room: int, dice: random.Random, last: bool) -> _Place:
    """Keys for x, y, z and a time at which nobody else is at work on them."""
    begin, end = 0, _FAR
    keys: dict[str, Any] = {}
    wanted = list(names)
    for key in view.keys(dice):
        fits = [
            (max(begin, a), min(end, b))
            for a, b in view.gaps(key, last=last)
            if min(end, b) - max(begin, a) > room
        ]
        if fits:
            begin, end = dice.choice(fits)
            keys[wanted[len(keys)]] = key
            if len(keys) == len(wanted):
                break
    if not keys:
        begin = dice.randint(view.first, max(view.first, view.last - room))
    numbers = [key for key in view.uses if type(key) is int]
    for more, name in enumerate(wanted[len(keys) :], start=1):
        # A key like the others where those are numbers.
        keys[name] = max(numbers) + more if numbers else f"canary-{name}"
    return _Place(keys, begin, min(end, max(view.last, begin) + 4 * room))


class _Writer:
    """Writes the transactions of a plant."""

    def __init__(self, view: View, spot: _Place) -> None:
        self.view, self.spot = view, spot
        processes = [op.process_id for op in view.ops]
        ints = all(type(p) is int for p in processes)
        self.process = max((int(p) for p in processes), default=0) + 1 if ints else None
        self.bases = {name: view.base(key) for name, key in spot.keys.items()}

    def value(self, digit: str) -> int:
        return _VALUE + int(digit)

    def mop(self, word: str) -> list[Any]:
        f, name, digits = word[0], word[1], word[2:]
        key = self.spot.keys[name]
        if f != "r":
            return ["append" if self.view.lists else "w", key, self.value(digits)]
        if not self.view.lists:
            return ["r", key, self.value(digits[-1]) if digits else None]
        seen = [*self.bases[name], *map(self.value, digits)]
        return ["r", key, seen or (None if self.view.null else [])]

    def ops(self, steps: str) -> list[Op]:
        words = steps.split()
        events = [w for w in words if w[0] in "bef"]
        begin, end = self.spot.begin, self.spot.end
        times = iter(
            begin + (end - begin) * (i + 1) // (len(events) + 1) for i in range(len(events))
        )
        opened: dict[str, Op] = {}
        done: list[Op] = []
        at = ""
        for word in words:
            if word[0] == "b":
                at = word[1:]
                who = f"canary-{at}" if self.process is None else self.process + int(at)
                opened[at] = Op(
                    op_id=f"canary-{at}-{len(opened) + len(done)}",
                    process_id=who,
                    invoke_ts=next(times),
                    op_type="txn",
                    input=[],
                    output=[],
                )
            elif word[0] in "ef":
                op = replace(opened.pop(word[1:]), complete_ts=next(times))
                done.append(op if word[0] == "e" else replace(op, output=None, error="aborted"))
            else:
                f, key, value = self.mop(word)
                opened[at].input.append([f, key, None if f == "r" else value])
                opened[at].output.append([f, key, value])
        return done

    def left(self, steps: str) -> dict[Any, list[int]]:
        """What the plant leaves behind on top of each list, in its order."""
        found: dict[Any, list[int]] = {}
        for name, key in self.spot.keys.items():
            words = [w for w in steps.split() if w[1:2] == name]
            order = max((w[2:] for w in words if w[0] == "r"), key=len, default="")
            order += "".join(w[2:] for w in words if w[0] == "a" and w[2:] not in order)
            found[token(key)] = [self.value(digit) for digit in order]
        return found


def _seeing(op: Op, left: dict[Any, list[int]], end: int) -> Op:
    """A later transaction of the run that sees what the plant left."""
    if op.invoke_ts < end or op.outcome is not Outcome.OK or op.output is None:
        return op
    rows = [
        [f, key, [*(value or []), *left[token(key)]]] if f == "r" and token(key) in left
        else [f, key, value]
        for f, key, value in op.output
    ]  # fmt: skip
    return replace(op, output=rows)


def plant(view: View, what: Plant, dice: random.Random, *, last: bool) -> tuple[str, list[Op]]:
    """(what was done, the copy). `last`: after all that touched the keys."""
    names = sorted({w[1] for w in what.steps.split() if w[0] not in "bef"})
    room = _ROOM_NS * len(what.steps.split())
    spot = _place(view, names, room, dice, last or what.unread)
    writer = _Writer(view, spot)
    planted = writer.ops(what.steps)
    kept = view.ops
    if view.lists:
        left = writer.left(what.steps)
        kept = [_seeing(op, left, spot.end) for op in kept]
    own = sum(1 for key in spot.keys.values() if key in view.uses)
    keys = ", ".join(repr(key) for key in spot.keys.values())
    message = (
        f"{len(planted)} transactions on {keys} ({own} of {len(spot.keys)} the run's own) between "
        f"{planted[0].invoke_ts / 1e9:.3f} and {(planted[-1].complete_ts or 0) / 1e9:.3f} s"
    )
    return message, sorted([*kept, *planted], key=lambda op: op.invoke_ts)
