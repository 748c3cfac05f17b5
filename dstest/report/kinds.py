"""All anomalies of one kind in a sentence or two: how many, who found them, from when to when, at
which nodes, on which keys, inside which fault windows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from dstest.core.check import CheckResult, Sightings, Spread
from dstest.core.op import Op
from dstest.core.words import quoted
from dstest.report.meanings import meaning_of
from dstest.report.model import FaultView, RunReport
from dstest.report.moments import Moment
from dstest.report.numbers import number
from dstest.report.places import LOST, last_ns, touches

_NAMED_MAX: Final = 3
"""Nodes, keys and fault windows that are named, those with most."""

_KEY_MAX: Final = 40


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """`many` is `count` in words: where several checkers counted, there may be more. `said` follows
    the name of the kind. `first` is the number of its first anomaly."""

    type: str
    count: int
    many: str
    said: str
    first: int


class _Whole(NamedTuple):
    """All of a kind that one checker has found; times and places are known of `placed` of them."""

    spread: Spread
    placed: int


def others(found: Sequence[Moment], together: Sequence[Kind]) -> list[tuple[str, str]]:
    """(kind, how many) of each kind but that of the first anomaly."""
    counts = Counter(moment.anomaly.type for moment in found)
    many = {name: number(count) for name, count in counts.items()}
    many |= {kind.type: kind.many for kind in together}
    first = found[0].anomaly.type if found else None
    return [(name, said) for name, said in many.items() if name != first]


def _sightings(ops: Sequence[Op], faults: Sequence[FaultView]) -> Sightings | None:
    if not ops:
        return None
    ends = [last_ns(op) for op in ops]
    met = [next((f.epoch for f in faults if touches(op, f)), None) for op in ops]
    return Sightings(
        first_ns=min(ends),
        last_ns=max(ends),
        nodes=dict(Counter(op.node_seen for op in ops if op.node_seen is not None)),
        epochs=dict(Counter(epoch for epoch in met if epoch is not None)),
        outside=met.count(None),
    )


def _of_witnesses(found: Sequence[Moment], count: int, faults: Sequence[FaultView]) -> _Whole:
    """What the anomalies with a witness tell, where their checker has counted no more than them."""
    places = [m.place for m in found if m.place is not None]
    keys = Counter(quoted(m.anomaly.key) for m in found if m.anomaly.key is not None)
    names = {quoted(m.anomaly.key): m.anomaly.key for m in found}
    spread = Spread(
        count=count,
        told=_sightings([place.told for place in places], faults),
        known=_sightings([p.by for p in places if p.by is not p.told], faults),
        keys=[(names[key], n) for key, n in keys.most_common(_NAMED_MAX)],
        keys_total=len(keys),
    )
    return _Whole(spread, len(places))


def _whole(
    result: CheckResult, kind: str, found: Sequence[Moment], faults: Sequence[FaultView]
) -> _Whole:
    spread = (result.spreads or {}).get(kind)
    if spread is None or spread.told is None:
        return _of_witnesses(found, result.counted.get(kind, 0), faults)
    return _Whole(spread, sum(spread.told.epochs.values()) + spread.told.outside)


def _largest(counts: Iterable[tuple[str, int]], more: str) -> str:
    """`n1 (200), n2 (100) and 3 more`; a single one without its number."""
    rows = sorted(counts, key=lambda row: -row[1])
    if len(rows) == 1:
        return rows[0][0]
    named = [f"{name} ({number(n)})" for name, n in rows[:_NAMED_MAX]]
    rest = rows[_NAMED_MAX:]
    if rest:
        named.append(f"{len(rest)} more {more if len(rest) > 1 else more.removesuffix('s')}")
    return f"{', '.join(named[:-1])} and {named[-1]}"


def _key(key: Any) -> str:
    text = key if isinstance(key, str) else quoted(key)
    return text if len(text) <= _KEY_MAX else text[: _KEY_MAX - 1] + "…"


def _on_keys(spread: Spread) -> str:
    rows = [(_key(key), n) for key, n in spread.keys]
    if not rows:
        return ""
    if spread.keys_total == 1:
        return f" All are on key {rows[0][0]}."
    most = _largest(rows[:_NAMED_MAX], "keys")
    which = f", most on {most}" if rows[0][1] > 1 else f", {', '.join(k for k, _ in rows[:3])}"
    which += "" if rows[0][1] > 1 or spread.keys_total <= _NAMED_MAX else " and others"
    return f" They are on {number(spread.keys_total)} keys{which}."


def _windows(sightings: Sightings, faults: Sequence[FaultView]) -> str:
    """`87 inside f2 (kill), 3 inside 2 more fault windows and 257 outside every fault window`."""
    if not any(f.start_ns is not None for f in faults):
        return ""
    names = {f.epoch: f.name for f in faults}
    rows = sorted(sightings.epochs.items(), key=lambda row: -row[1])
    known = sightings.after is not UNSET
    after = sightings.after or {}
    outside = sightings.outside - sum(after.values())
    if not rows and not after:
        return "all outside every fault window"
    if not rows and len(after) == 1 and not outside:
        return f"all after the heal of {names.get(*[*after] * 2)}"
    if len(rows) == 1 and not outside and not after:
        return f"all inside fault window {names.get(rows[0][0], rows[0][0])}"
    parts = [f"{number(n)} inside {names.get(epoch, epoch)}" for epoch, n in rows[:_NAMED_MAX]]
    if rest := rows[_NAMED_MAX:]:
        inside = number(sum(n for _, n in rest))
        parts.append(f"{inside} inside {len(rest)} more fault window{'s' * (len(rest) > 1)}")
    healed = sorted(after.items(), key=lambda row: -row[1])
    parts += [
        f"{number(n)} after the heal of {names.get(epoch, epoch)}"
        for epoch, n in healed[:_NAMED_MAX]
    ]
    if more := healed[_NAMED_MAX:]:
        parts.append(f"{number(sum(n for _, n in more))} after the heals of {len(more)} more")
    if outside:
        where = "before any heal" if known else "outside every fault window"
        parts.append(f"{number(outside)} {where}")
    elif not after:
        parts.append("none outside every fault window")
    if len(parts) == 1:
        return parts[0]
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _seen(sightings: Sightings, faults: Sequence[FaultView]) -> str:
    """`from 1.20 s to 3.40 s by n1 (3) and n2 (1), all outside every fault window`."""
    first, last = f"{sightings.first_ns / 1e9:.2f} s", f"{sightings.last_ns / 1e9:.2f} s"
    said = f"at {first}" if first == last else f"from {first} to {last}"
    if sightings.nodes:
        said += f" by {_largest(sightings.nodes.items(), 'nodes')}"
    where = _windows(sightings, faults)
    return f"{said}, {where}" if where else said


def _said(whole: _Whole, shape: str, faults: Sequence[FaultView]) -> str:
    spread = whole.spread
    if spread.told is None:
        return " No operation of this history is named for them."
    few = whole.placed < spread.count
    lead = f" Of the {whole.placed} with a witness: " if few else " "
    if shape == LOST and spread.known is not None:
        what = f"acknowledged or first read {_seen(spread.known, faults)}; seen to be missing"
    else:
        what = "answers that gave them away came"
    what = what if few else what[:1].upper() + what[1:]
    return f"{lead}{what} {_seen(spread.told, faults)}.{_on_keys(spread)}"


def kinds(report: RunReport, found: Sequence[Moment]) -> list[Kind]:
    """A row for each kind of which there is more than one anomaly, in the order of the page. Where
    several checkers found it, times and places are those of the one that counted most."""
    groups: dict[str, dict[str, list[Moment]]] = {}
    for moment in found:
        groups.setdefault(moment.anomaly.type, {}).setdefault(moment.checker, []).append(moment)
    rows = []
    for kind, by_checker in groups.items():
        wholes = {
            checker: _whole(report.results[checker], kind, group, report.faults)
            for checker, group in by_checker.items()
        }
        main = max(wholes, key=lambda checker: wholes[checker].spread.count)
        whole = wholes[main]
        if whole.spread.count < 2:
            continue
        counts = [(checker, one.spread.count) for checker, one in wholes.items()]
        shown = len(by_checker[main])
        least = f", {shown} of them with a witness" if shown < whole.spread.count else ""
        said = f"found by {_largest(counts, 'checkers')}{least}."
        said += _said(whole, meaning_of(main, kind).shape, report.faults)
        first = min(group[0].number for group in by_checker.values())
        many = f"{'at least ' if len(counts) > 1 else ''}{number(whole.spread.count)}"
        rows.append(Kind(type=kind, count=whole.spread.count, many=many, said=said, first=first))
    return rows
