"""Canaries for transactional histories: broken copies that an isolation checker must reject. Each
kind holds certain anomalies (Adya's, with Elle's names), and is made where the demanded model
forbids one of them; kinds that the models next below allow tell which model the checker judged.

Kinds in `_LOCAL` hold one key's micro-ops only: leaving other keys out never makes a clean history
unclean. Those in `_OWN` change one transaction, which is reduced to the read that lacks something.
All others are planted (`Plant`): transactions that nobody sent, on keys and at a moment of the run.
Only what they hold is wrong, and a plant forbids itself whatever stands around it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from dstest.core import rng
from dstest.core.history import History
from dstest.core.op import Op, Outcome
from dstest.judge.mutants.shapes import (
    PHANTOM,
    Made,
    Maker,
    Mutant,
    Part,
    acked,
    answering,
    began,
    changed,
    copies,
    pick,
    some,
    token,
)

_FAR: Final = 1 << 62
_TRIES: Final = 60
_ROOM_NS: Final = 1_000
_VALUE: Final = 2_000_001_000

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

_LOCAL: Final = {
    "phantom-element": frozenset({"garbage-read"}),
    "twice": frozenset({"duplicate-elements"}),
    "reordered": frozenset({"incompatible-order"}),
    "aborted-read": frozenset({"G1a"}),
}
"""Kind -> its anomalies, of what is done to one key. An aborted read is one whose writer is
recorded as failed."""

_OWN: Final = {
    "stale-read": frozenset({"G-single-item-realtime"}),
    "session-stale-read": frozenset({"G-single-item-process"}),
}
"""A read lacks what had been acknowledged before it began, or what its own session had written. A
stale one is moved to a client of its own, so that no session is broken."""

KINDS: Final = tuple(_LOCAL)
"""Kinds that hold one key's micro-ops only."""

CYCLELESS: Final = frozenset(
    {"garbage-read", "duplicate-elements", "incompatible-order", "G1a", "G1b", "internal"}
    | {"lost-update"}
)
"""Anomalies of the kinds made here that show without any cycle."""

_KEYS_MAX: Final = 32
"""Of which copies that hold one key are made."""

OPS_MAX: Final = 20_000
"""Transactions of a copy that holds the run: of longer runs some keys are left out."""


class Plant(NamedTuple):
    """A kind of planted anomaly. `anomalies` are all that the plant holds, by Elle's names;
    `unread` says that nobody may read its keys afterwards. `steps` are events in order:

        b0 ax1 ry     a client begins a transaction that appends 1 to x and reads y as it was before
        b1 rx12       another one reads x with 1 and 2 on top of what was there
        e0  f0        the first one ends: ok, or definitely failed
    """

    kind: str
    anomalies: frozenset[str]
    steps: str
    unread: bool = False


def _plant(kind: str, anomalies: str, steps: str, *, unread: bool = False) -> Plant:
    return Plant(kind, frozenset(anomalies.split()), steps, unread)


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


class _Spot(NamedTuple):
    keys: dict[str, Any]
    begin: int
    end: int


def _spot(view: View, names: Iterable[str], room: int, dice: random.Random, last: bool) -> _Spot:
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
    return _Spot(keys, begin, min(end, max(view.last, begin) + 4 * room))


class _Writer:
    """Writes the transactions of a plant."""

    def __init__(self, view: View, spot: _Spot) -> None:
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


def plant(part: Part, dice: random.Random, *, what: Plant, last: bool) -> Made:
    """A copy with a plant in it. `last`: after all that touched the keys, so that a run that reads
    old states gets no second cycle by way of the plant.

    Its keys are lists of the run of which every append is known and was read, in a gap in which
    nobody touched them; later reads of the run see what it left. Of registers only the order after
    null is known: it takes one that the run has not touched yet. Where there is none, our own."""
    view = part.once(View)
    names = sorted({w[1] for w in what.steps.split() if w[0] not in "bef"})
    room = _ROOM_NS * len(what.steps.split())
    spot = _spot(view, names, room, dice, last or what.unread)
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
    return message, sorted([*kept, *planted], key=began)


def anomalies_of(lists: bool) -> dict[str, frozenset[str]]:
    """Kind of mutant -> every anomaly that it holds."""
    planted = {p.kind: p.anomalies for p in PLANTS[lists]}
    return {**_LOCAL, **_OWN, **planted}


def _only(op: Op, keys: set[str]) -> Op | None:
    """A transaction with its micro-ops on these keys alone."""
    asked = [m for m in op.input or () if token(m[1]) in keys]
    if not asked:
        return None
    answered = None if op.output is None else [m for m in op.output if token(m[1]) in keys]
    return msgspec.structs.replace(op, input=asked, output=answered)


def _by_key(history: History, dice: random.Random) -> list[Part]:
    """Per key, of some, the transactions that touch it, with its micro-ops alone."""
    touching: dict[str, list[Op]] = {}
    for op in history.ops:
        for name in {token(m[1]) for m in op.input or ()}:
            touching.setdefault(name, []).append(op)
    return [
        Part([kept for op in touching[name] if (kept := _only(op, {name}))], {}, f"key {name}: ")
        for name in some(dice, list(touching))[:_KEYS_MAX]
    ]


def _trimmed(history: History, dice: random.Random) -> list[Op]:
    """The run's transactions; of a long run those on some keys, about `OPS_MAX` of them."""
    ops = [op for op in history.ops if op.op_type == "txn"]
    if len(ops) <= OPS_MAX:
        return ops
    touching: dict[str, list[int]] = {}
    for at, op in enumerate(ops):
        for m in op.input or ():
            touching.setdefault(token(m[1]), []).append(at)
    keys: set[str] = set()
    chosen: set[int] = set()
    for key in dice.sample(sorted(touching), len(touching)):
        if len(chosen) >= OPS_MAX:
            break
        keys.add(key)
        chosen.update(touching[key])
    return [kept for at in sorted(chosen) if (kept := _only(ops[at], keys)) is not None]


def _reads(ops: list[Op], least: int) -> list[tuple[int, int]]:
    """(operation, micro-op) of ok reads that returned at least `least` elements.

    A transaction's own writes stay out: a changed read must clash with others, not with itself.
    """
    reads = []
    for at, op in enumerate(ops):
        if op.outcome is not Outcome.OK or any(m[0] != "r" for m in op.input):
            continue
        for i, (_, _, value) in enumerate(op.output or ()):
            size = len(value) if isinstance(value, list) else int(value is not None)
            if size >= least:
                reads.append((at, i))
    return reads


def _showing(part: Part, read: tuple[int, int], value: Any) -> Made:
    at, i = read
    op = part.ops[at]
    rows = [[*m[:2], value] if n == i else m for n, m in enumerate(op.output)]
    said = f"{op.op_id} reads {str(value)[:40]}"
    return said, answering(part.ops, (op, rows))


def _phantom(part: Part, dice: random.Random) -> Made:
    read = pick(dice, _reads(part.ops, 1))
    if read is None:
        return None
    value = part.ops[read[0]].output[read[1]][2]
    return _showing(part, read, [*value, PHANTOM] if isinstance(value, list) else PHANTOM)


def _listed(part: Part, least: int) -> list[tuple[int, tuple[int, int], list[Any]]]:
    """Reads of lists with their values, the shortest first."""
    reads = ((r, part.ops[r[0]].output[r[1]][2]) for r in _reads(part.ops, least))
    return sorted((len(value), r, value) for r, value in reads if isinstance(value, list))


def _twice(part: Part, dice: random.Random) -> Made:
    """The longest: all others stay its beginning, so that nothing but the doubling is wrong."""
    del dice
    for _, read, value in _listed(part, 1)[-1:]:
        return _showing(part, read, [*value, value[-1]])
    return None


def _reordered(part: Part, dice: random.Random) -> Made:
    """The shortest of several reads: the others keep its elements in the old order."""
    del dice
    reads = _listed(part, 2)
    if len(reads) < 2:
        return None
    _, read, (first, second, *others) = reads[0]
    return _showing(part, read, [second, first, *others])


def _aborted(part: Part, dice: random.Random) -> Made:
    seen: set[Any] = set()
    for at, i in _reads(part.ops, 1):
        value = part.ops[at].output[i][2]
        seen |= set(value) if isinstance(value, list) else {value}
    writes = (op for op in acked(part.ops, "txn") if all(m[0] != "r" for m in op.input))
    writer = pick(dice, [op for op in writes if any(m[2] in seen for m in op.input)])
    if writer is None:
        return None
    failed = {"output": None, "error": "aborted"}
    return f"{writer.op_id} failed", changed(part.ops, {writer.op_id: failed})


_MAKERS: Final[dict[str, Maker]] = dict(
    zip(KINDS, (_phantom, _twice, _reordered, _aborted), strict=True)
)


class _Missed(NamedTuple):
    """A read, what it is to return, and the acknowledged transaction that it misses then."""

    read: Op
    key: Any
    value: Any
    write: Op


def _before(view: View, value: Any, writers: dict[Any, Op]) -> tuple[Any, Op] | None:
    """A list before its last transaction, and that transaction. None where it is not certain."""
    op = writers.get(value[-1]) if value else None
    if op is None or op.outcome is not Outcome.OK:
        return None
    kept = list(value)
    while kept and writers.get(kept[-1]) is op:
        kept.pop()
    return kept or (None if view.null else []), op


def _earlier(view: View, key: Any, read: Op, value: Any) -> Iterator[tuple[Any, Op]]:
    """States of a key that the read could have returned, and what it would have missed then."""
    written = view.uses[key].written
    if not view.lists:
        # Of registers only the order after null is known.
        yield from ((None, op) for op, _ in written if op.outcome is Outcome.OK)
        return
    writers = {value: op for op, value in written}
    writer = _before(view, value, writers)
    while writer is not None:
        yield writer
        writer = _before(view, writer[0], writers)


def _missed(view: View, dice: random.Random, *, session: bool) -> _Missed | None:
    """A read that began after a write was acknowledged; of the same process if `session`."""
    for key in dice.sample(list(view.uses), len(view.uses)):
        reads = view.uses[key].reads
        for read, value in dice.sample(reads, min(len(reads), 20)):
            if value is None or any(m[0] != "r" for m in read.input):
                continue
            for state, write in _earlier(view, key, read, value):
                over = (write.complete_ts or 0) < read.invoke_ts
                if over and (not session or write.process_id == read.process_id):
                    return _Missed(read, key, state, write)
    return None


def _own(part: Part, dice: random.Random, *, session: bool) -> Made:
    view = part.once(View)
    mutation = _missed(view, dice, session=session)
    if mutation is None:
        return None
    processes = [op.process_id for op in view.ops]
    ints = all(type(p) is int for p in processes)
    stranger: int | str = max(int(p) for p in processes) + 1 if ints else "canary"
    read = mutation.read
    miss = {
        "process_id": read.process_id if session else stranger,
        "input": [["r", mutation.key, None]],
        "output": [["r", mutation.key, mutation.value]],
    }
    said = f"read {read.op_id} of {mutation.key!r} misses what {mutation.write.op_id} wrote before"
    return said, changed(part.ops, {read.op_id: miss})


def _whole(lists: bool, forbidden: frozenset[str]) -> dict[str, Maker]:
    """Makers of the copies that hold the whole run. What breaks a session breaks real time too."""
    timely = any(name.endswith("-realtime") for name in forbidden)
    kinds: dict[str, Maker] = {}
    for kind, anomalies in _OWN.items():
        session = kind == "session-stale-read"
        if anomalies & forbidden and not (timely and session):
            kinds[kind] = partial(_own, session=session)
    for what in PLANTS[lists]:
        if what.anomalies & forbidden and not (timely and what.kind.endswith("-process")):
            kinds[what.kind] = partial(plant, what=what, last=not timely)
    return kinds


def txn_mutants(
    history: History, seed: int, count: int = 8, *, forbidden: frozenset[str] | None = None
) -> Iterator[Mutant]:
    """Mutants that hold an anomaly of `forbidden`, by default of any model: up to `count` that
    hold one key, the kinds in turn, then each kind that holds the whole run."""
    dice = rng.stream(seed, "canary-txn")
    if forbidden is None:
        forbidden = frozenset().union(*anomalies_of(True).values(), *anomalies_of(False).values())
    local = {kind: make for kind, make in _MAKERS.items() if _LOCAL[kind] & forbidden}
    if count and local:
        yield from copies(local, _by_key(history, dice), history, dice, count, once=True)
    whole = Part(_trimmed(history, dice), history.header.options)
    if any(op.input for op in whole.ops):
        kinds = _whole(whole.once(View).lists, forbidden)
        yield from copies(kinds, [whole], history, dice, 0, once=True)
