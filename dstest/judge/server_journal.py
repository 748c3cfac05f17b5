"""Effects of all members against what clients asked for and were told, joined by what was asked;
and the answer of the built-in judge `server-effects` about them.

Effects carry no number of an operation, so operations and effects are counted by what they ask for:
type, key, input. Where each of them is asked once, as unique values are, that is one operation and
its effect; where several are alike, they are counted together.

| client | applied | not applied | applied again |
|---|---|---|---|
| ok | as it must be | `acknowledged-without-effect` | `applied-twice` |
| fail | `failed-but-applied` | as it must be | `applied-twice` |
| unknown | it has happened | it has not happened | `applied-twice` |
| nobody asked | `effect-without-request` | | |

That an effect is missing is said only where every place of the order is known.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from checkers._spread import Spreads, epochs_met
from checkers.second.objects import agrees, object_of
from dstest.core.check import Anomaly, CheckResult, OpCount
from dstest.core.history import History
from dstest.core.op import Op, Outcome
from dstest.core.protocols import Effect, EffectLog

PROBLEMS_MAX: Final = 20

KINDS: Final = (
    "acknowledged-without-effect",
    "failed-but-applied",
    "applied-twice",
    "effect-without-request",
    "applied-differently",
)

REPLAYED: Final = "not-what-a-replay-gives"
_TELL_NOTHING: Final = frozenset({"write", "enqueue"})

NAME: Final = "server-effects"
SHOWN_MAX: Final = 16


class Effects(msgspec.Struct, frozen=True, kw_only=True):
    """`order` are the effects by index, None for an entry that no client asked for. `by_node` are
    how many lines each member has. `torn` says why not everything is known: then an effect that is
    not there proves nothing. `damaged` are lines that nobody can read, and members that did not
    tell all: another one may have their places. `apart` are (index, members) where two members
    applied different things at one place. `ended`: all have told all, after the load."""

    order: dict[int, Effect | None]
    by_node: dict[str, int]
    torn: list[str]
    damaged: list[str]
    apart: list[tuple[int, str, str]]
    ended: bool

    @property
    def whole(self) -> bool:
        """Is every effect known, up to the last one?"""
        return not self.torn

    @property
    def applied(self) -> Iterator[Effect]:
        """Those that changed something or were answered, in their order."""
        return (e for _, e in sorted(self.order.items()) if e is not None and not e.again)


def effects_of(folder: Path, members: Iterable[str], log: EffectLog) -> Effects | None:
    """Read `folder/MEMBER/FILE` of each member; None where no member has one."""
    members = list(members)
    there = [name for name in members if (folder / name / log.file).is_file()]
    if not there:
        return None
    found = [_told(name, folder / name / log.file, log) for name in there]
    order, apart = _joined(found, log)
    lacking = sorted({*members} - {one.name for one in found if one.ended})
    torn, damaged = _gaps(order, log.first), [text for one in found for text in one.damaged]
    if log.at_end:
        damaged += [f"{name} did not tell all" for name in lacking]
        torn += ["no member has told all"] if len(lacking) == len(members) else []
    return Effects(
        order=order,
        by_node={one.name: one.lines for one in found},
        torn=torn,
        damaged=damaged[:PROBLEMS_MAX],
        apart=apart,
        ended=log.at_end and not lacking,
    )


def _joined(
    found: Sequence[_Told], log: EffectLog
) -> tuple[dict[int, Effect | None], list[tuple[int, str, str]]]:
    """The order of all, and where members differ (`Effects.apart`)."""
    first: dict[int, _Told] = {}
    apart = [row for one in found for row in one.twice]
    for one in found:
        for index, effect in one.effects.items():
            other = first.setdefault(index, one)
            alike = other.rest.get(index) == one.rest.get(index)
            if not alike or _other(other.effects[index], effect):
                apart.append((index, other.name, one.name))
    if log.at_end:
        apart += [(at, first[at].name, one.name) for one in found for at in one.left_out(first)]
    return {index: one.effects[index] for index, one in first.items()}, apart


class _Told(msgspec.Struct):
    """What one member says. `rest` are lines of entries that no client asked for, where these are
    told at the end and so the same of all; `twice` as `Effects.apart`."""

    name: str
    lines: int = 0
    ended: bool = False
    effects: dict[int, Effect | None] = msgspec.field(default_factory=dict)
    rest: dict[int, str] = msgspec.field(default_factory=dict)
    damaged: list[str] = msgspec.field(default_factory=list)
    twice: list[tuple[int, str, str]] = msgspec.field(default_factory=list)

    def left_out(self, order: Iterable[int]) -> list[int]:
        """Places between its first and its last of which others speak, and it does not."""
        mine = self.effects
        low, high = min(mine, default=0), max(mine, default=0)
        return [at for at in order if low < at < high and at not in mine]


def _told(name: str, path: Path, log: EffectLog) -> _Told:
    told = _Told(name)
    for number, line in enumerate(_lines(path), 1):
        try:
            record = json.loads(line)
            if log.at_end and "end" in record:
                told.ended = True
                continue
            index, effect = log.effect_of(record)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            told.damaged.append(f"{name}, line {number}: {type(error).__name__}: {error}")
            continue
        told.lines += 1
        if index in told.effects and _other(told.effects[index], effect):
            told.twice.append((index, name, name))
        told.effects.setdefault(index, effect)
        if log.at_end and effect is None:
            told.rest[index] = line
    return told


def _lines(path: Path) -> list[str]:
    """Whole lines: the last one of a member that was killed may be torn, and another member has
    it."""
    text = path.read_text(errors="replace")
    lines = text.split("\n")
    return [line for line in lines[:-1] if line.strip()]


def _other(a: Effect | None, b: Effect | None) -> bool:
    """Did two members do different things at one place? Who had read it from disk, or knew the
    request, may say that it was so."""
    if a is None or b is None:
        return (a is None) != (b is None)
    plain = {"replayed": False, "term": None}
    return msgspec.structs.replace(a, **plain) != msgspec.structs.replace(b, **plain)


def _gaps(order: dict[int, Effect | None], first: int) -> list[str]:
    """Places that no member speaks of, from the first one of all."""
    if not order:
        return ["no member has written an effect down"]
    last = max(order)
    missing = last - first + 1 - len(order)
    if not missing:
        return []
    at = next(index for index in range(first, last) if index not in order)
    return [f"{missing:,} places between {first} and {last} are in no file, the first is {at}"]


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """One of `KINDS`, with the operations and the places that show it."""

    kind: str
    key: Any
    op_ids: list[int | str]
    places: list[int]
    said: str


class Pairing(msgspec.Struct, frozen=True, kw_only=True):
    """`happened` and `not_happened` are unknown operations of which that is known now; `operations`
    are those of the client history that were looked for, `effects` those that were found."""

    mismatches: list[Mismatch]
    operations: int
    effects: int
    happened: int
    not_happened: int
    undecided: int


class _AlikeOps(msgspec.Struct):
    """Operations and effects that are alike; among `applied` are those that were known before."""

    ok: list[Op]
    failed: list[Op]
    unknown: list[Op]
    applied: list[Effect]


def pair_effects(ops: Iterable[Op], effects: Effects, types: frozenset[str]) -> Pairing:
    """Join the two: operations whose effects are written down, and effects of these `types`."""
    asked: dict[str, _AlikeOps] = {}
    operations = 0
    for op in ops:
        operations += 1
        row = asked.setdefault(_what(op.op_type, op.key, op.input), _AlikeOps([], [], [], []))
        side = {Outcome.OK: row.ok, Outcome.FAIL: row.failed, Outcome.UNKNOWN: row.unknown}
        side[op.outcome].append(op)
    answered = [e for e in effects.order.values() if e is not None and e.op_type in types]
    applied = [effect for effect in answered if not effect.again]
    for effect in answered:
        what = _what(effect.op_type, effect.key, effect.input)
        asked.setdefault(what, _AlikeOps([], [], [], [])).applied.append(effect)
    found = [_apart(*row) for row in effects.apart]
    found += _twice(applied)
    counts: Counter[str] = Counter()
    seen_ns = sys.maxsize if effects.ended else _seen_ns(asked.values())
    for row in asked.values():
        mismatch = _judge(row, effects.whole, seen_ns)
        if mismatch is not None:
            found.append(mismatch)
        counts.update(_resolved(row, effects.whole))
    return Pairing(
        mismatches=found,
        operations=operations,
        effects=len(applied),
        happened=counts["happened"],
        not_happened=counts["not_happened"],
        undecided=counts["undecided"],
    )


def _what(op_type: str, key: Any, input: Any) -> str:
    return json.dumps([op_type, str(key), input], sort_keys=True, default=str)


def _seen_ns(rows: Iterable[_AlikeOps]) -> int:
    """Until when the servers' word reaches: one operation at least, of those with an effect of
    their own, was asked for at this time, ns of the run."""
    return max((r.ok[0].invoke_ts for r in rows if len(r.ok) == len(r.applied) == 1), default=-1)


def _judge(row: _AlikeOps, whole: bool, seen_ns: int) -> Mismatch | None:
    """Too many effects, or too few. What was answered after the last operation of which the
    servers speak, they may not have come to write down."""
    answered = [effect for effect in row.applied if not effect.refused]
    done = [effect for effect in answered if not effect.again]
    most = len(row.ok) + len(row.unknown)
    if len(answered) < len(row.ok):
        before = [op for op in row.ok if (op.complete_ts or 0) < seen_ns]
        lacking = len(before) - len(answered)
        if not whole or lacking <= 0:
            return None
        return _mismatch(
            "acknowledged-without-effect", row.ok, [], f"{lacking} of them had no effect anywhere"
        )
    if len(done) <= most:
        return None
    if row.failed and len(done) <= most + len(row.failed):
        return _mismatch("failed-but-applied", row.failed, done, "refused for certain, and applied")
    if row.ok or row.unknown or row.failed:
        return _mismatch(
            "applied-twice",
            [*row.ok, *row.unknown, *row.failed],
            done,
            f"asked for {most} times, applied {len(done)} times",
        )
    return _mismatch("effect-without-request", [], done, "no client of this run asked for it")


def _mismatch(kind: str, ops: list[Op], effects: list[Effect], said: str) -> Mismatch:
    what = ops[0] if ops else effects[0]
    asked = f"{what.op_type} {what.input!r} on key {what.key!r}"
    return Mismatch(
        kind=kind,
        key=what.key,
        op_ids=[op.op_id for op in ops[:8]],
        places=[effect.index for effect in effects[:8]],
        said=f"{asked}: {said}",
    )


def _twice(applied: Iterable[Effect]) -> list[Mismatch]:
    """Requests by a name of their own that took effect more than once."""
    by_request: dict[str, list[Effect]] = {}
    for effect in applied:
        if effect.request and not effect.refused:
            by_request.setdefault(effect.request, []).append(effect)
    return [
        _mismatch("applied-twice", [], rows, f"request {name} took effect {len(rows)} times")
        for name, rows in by_request.items()
        if len(rows) > 1
    ]


def _apart(index: int, first: str, other: str) -> Mismatch:
    return Mismatch(
        kind="applied-differently",
        key=None,
        op_ids=[],
        places=[index],
        said=(
            f"at place {index} of the order {first} and {other} did different things"
            if first != other
            else f"{first} did different things at place {index} of the order, at different times"
        ),
    )


def _resolved(row: _AlikeOps, whole: bool) -> dict[str, int]:
    """What became of the unknown ones."""
    done = sum(not effect.refused for effect in row.applied)
    there = min(len(row.unknown), max(0, done - len(row.ok)))
    rest = len(row.unknown) - there
    return {
        "happened": there,
        "not_happened": rest if whole else 0,
        "undecided": 0 if whole else rest,
    }


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """`effects` were done again on `keys`; `left_out` are others, by what they are."""

    mismatches: list[Mismatch]
    effects: int
    keys: int
    left_out: dict[str, int]


def replay_effects(effects: Iterable[Effect], objects: Mapping[str, str]) -> Replay:
    """Do them again; `objects` has by type what does it. Each key is left at the first effect that
    gives something else.

    Does each give what the servers say it gave? They are done from the state at the beginning, by
    an object in plain Python (`checkers/second/objects.py`). Types that have no such object are
    left out; a result of null, which a server need not tell, agrees with success.
    """
    states: dict[tuple[str, str], Any] = {}
    wrong: dict[tuple[str, str], Mismatch] = {}
    left_out: Counter[str] = Counter()
    number = 0
    for effect in effects:
        model = objects.get(effect.op_type)
        if model is None:
            left_out[effect.op_type] += 1
            continue
        where = (model, str(effect.key))
        if effect.refused or where in wrong:
            continue
        run, start = object_of(model)
        op = _op(effect)
        try:
            state, output = run(states.get(where, start), op)
        except (TypeError, ValueError, LookupError):
            left_out[f"{effect.op_type} of {effect.input!r}"] += 1
            continue
        number += 1
        states[where] = state
        if not _agrees(model, op, output, effect.result):
            wrong[where] = _not_as_replayed(effect, output)
    return Replay(
        mismatches=list(wrong.values()),
        effects=number,
        keys=len(states),
        left_out=dict(left_out.most_common(8)),
    )


def _not_as_replayed(effect: Effect, output: Any) -> Mismatch:
    return Mismatch(
        kind=REPLAYED,
        key=effect.key,
        op_ids=[],
        places=[effect.index],
        said=(
            f"{effect.op_type} {effect.input!r} on key {effect.key!r} at place {effect.index}"
            f" gives {output!r}, the servers say {effect.result!r}"
        ),
    )


def _op(effect: Effect) -> Op:
    return Op(
        op_id=effect.index,
        process_id=0,
        invoke_ts=effect.index,
        complete_ts=effect.index,
        op_type=effect.op_type,
        key=effect.key,
        input=effect.input,
        output=effect.result,
        error=None,
        timeout_marker=False,
        node_seen=None,
        fault_epoch=None,
    )


def _agrees(model: str, op: Op, output: Any, recorded: Any) -> bool:
    """Of what changes a value and tells nothing, there is nothing to compare."""
    return (output is None and op.op_type in _TELL_NOTHING) or agrees(model, op, output, recorded)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What `effects.json` holds; `violation` is None where nothing disagrees."""

    by_node: dict[str, int]
    whole: bool
    torn: list[str]
    damaged: list[str]
    pairing: Pairing
    replay: Replay
    violation: CheckResult | None

    @property
    def plain(self) -> dict[str, Any]:
        rows = {name: getattr(self, name) for name in self.__struct_fields__ if name != "violation"}
        plain: dict[str, Any] = msgspec.to_builtins(rows)
        return plain


def judge_effects(history: History, effects: Effects, log: EffectLog) -> Answer:
    """Join and replay."""
    types = log.types_of(history.header.workload or "")
    ops = [log.asked(op) for op in history.ops if op.op_type in types]
    pairing = pair_effects(ops, _of_ours(effects, ops) if log.at_end else effects, types)
    replay = replay_effects(effects.applied, log.objects)
    found = [*pairing.mismatches, *replay.mismatches]
    return Answer(
        by_node=effects.by_node,
        whole=effects.whole,
        torn=effects.torn,
        damaged=effects.damaged,
        pairing=_short(pairing),
        replay=msgspec.structs.replace(replay, mismatches=replay.mismatches[:SHOWN_MAX]),
        violation=_violation(history, pairing, found) if found else None,
    )


def _of_ours(effects: Effects, ops: Iterable[Op]) -> Effects:
    """Without what others do to keys of theirs, which none of these operations name."""
    keys = {str(op.key) for op in ops}
    order = {
        index: effect if effect is not None and str(effect.key) in keys else None
        for index, effect in effects.order.items()
    }
    return msgspec.structs.replace(effects, order=order)


def _short(pairing: Pairing) -> Pairing:
    return msgspec.structs.replace(pairing, mismatches=pairing.mismatches[:SHOWN_MAX])


def _violation(history: History, pairing: Pairing, found: list[Mismatch]) -> CheckResult:
    spreads = Spreads()
    by_id = {op.op_id: op for op in history.ops}
    anomalies: dict[str, list[Anomaly]] = {}
    for one in found:
        ops = [by_id[id] for id in one.op_ids if id in by_id]
        last = max(ops, key=lambda op: op.complete_ts or op.invoke_ts, default=None)
        spreads.add(one.kind, one.key, ops, last)
        rows = anomalies.setdefault(one.kind, [])
        if len(rows) < SHOWN_MAX:
            rows.append(_anomaly(history, one, ops))
    counts = spreads.counts
    return CheckResult(
        checker=NAME,
        valid=False,
        workload=history.header.workload,
        model=NAME,
        anomaly_types=sorted(counts),
        not_=[NAME],
        anomalies=dict(sorted(anomalies.items())),
        ops=OpCount(total=len(history.ops), consumed=pairing.operations, excluded={}),
        reason=", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())),
        stats={"effects": pairing.effects, "anomalies": dict(counts)},
        spreads=spreads.by_kind(),
    )


def _anomaly(history: History, one: Mismatch, ops: list[Op]) -> Anomaly:
    end = max((max(op.invoke_ts, op.complete_ts or 0) for op in history.ops), default=0)
    return Anomaly(
        type=one.kind,
        key=one.key,
        ops=[op.op_id for op in ops],
        witness=[msgspec.to_builtins(op) for op in ops],
        epochs=epochs_met(ops, history.header.windows, end),
        explanation=one.said,
    )
