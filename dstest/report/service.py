"""Stretches of a run in which nothing succeeded: of the whole system, one type of operation, or one
node; each named in a sentence with the fault that it goes with."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from dstest.core.op import Op, Outcome
from dstest.report.model import FaultView

LEAST_NS: Final = 1_000_000_000
"""What is shorter than a second is no outage on a machine that others use as well."""

_GAPS: Final = 20
_TRIED: Final = 8
"""A slow load pauses by itself: a stretch lasts this many usual gaps between successes at least, or
so many operations were asked for in it."""

_NEAR_NS: Final = 1_000_000_000
_AT_ONCE_NS: Final = 50_000_000
SHOWN_MAX: Final = 12
"""Stretches that are shown at once."""

ALL_MAX: Final = 200
"""Stretches that a page has at all."""


class Stretch(NamedTuple):
    """Nothing of `what` succeeded from `start_ns` to `end_ns`; `tried` operations were asked for
    meanwhile. `open_end`: nothing succeeded after it either. `whole`: it is of the whole system.
    `times`: so many stretches are told in one, from the first to the last."""

    what: str
    start_ns: int
    end_ns: int
    tried: int
    open_end: bool
    said: str
    whole: bool = False
    times: int = 1

    @property
    def lasted_ns(self) -> int:
        return self.end_ns - self.start_ns


def _s(time_ns: int) -> str:
    return f"{time_ns / 1e9:.1f} s"


def _after(time_ns: int, since_ns: int, what: str) -> str:
    away = time_ns - since_ns
    return f"as {what}" if away < _AT_ONCE_NS else f"{_s(away)} after {what}"


def placed(time_ns: int, faults: Sequence[FaultView], *, near_ns: int = _NEAR_NS) -> str:
    """Where an instant lies among the faults: `2.1 s after f1 (partition) was healed`."""
    inside = [f for f in faults if f.start_ns is not None and _within(time_ns, f)]
    if inside:
        return " and ".join(
            _after(time_ns, f.start_ns or 0, f"{f.name} was injected") for f in inside[-2:]
        )
    soon = [f for f in faults if f.start_ns is not None and 0 <= f.start_ns - time_ns <= near_ns]
    if soon:
        first = min(soon, key=lambda f: f.start_ns or 0)
        away = (first.start_ns or 0) - time_ns
        what = f"{first.name} was injected"
        return f"as {what}" if away < _AT_ONCE_NS else f"{_s(away)} before {what}"
    healed = [f for f in faults if f.end_ns is not None and f.end_ns <= time_ns]
    if healed:
        last = max(healed, key=lambda f: f.end_ns or 0)
        return _after(time_ns, last.end_ns or 0, f"{last.name} {last.ended}")
    return "before the first fault" if any(f.start_ns is not None for f in faults) else ""


def _within(time_ns: int, fault: FaultView) -> bool:
    return (fault.start_ns or 0) <= time_ns and (fault.end_ns is None or time_ns < fault.end_ns)


def _silent(ops: Sequence[Op], begin_ns: int, end_ns: int) -> Iterable[tuple[int, int, bool]]:
    """(start, end, does it last to the end?) of each stretch without a success that is long
    enough."""
    done = sorted(
        op.complete_ts for op in ops if op.outcome is Outcome.OK and op.complete_ts is not None
    )
    gaps = sorted(b - a for a, b in pairwise(done))
    usual_ns = _GAPS * (gaps[len(gaps) // 2] if gaps else 0)
    asked = [op.invoke_ts for op in ops]
    last_ns = done[-1] if done else -1
    for start, end in pairwise([begin_ns, *(t for t in done if begin_ns < t < end_ns), end_ns]):
        tried = bisect_left(asked, end) - bisect_left(asked, start)
        if end - start >= LEAST_NS and (end - start >= usual_ns or tried >= _TRIED):
            yield start, end, last_ns <= start


def least_ns(ops: Sequence[Op]) -> int:
    """What is shorter than this may be left out of `stretches` though nothing succeeded in it."""
    asked = sorted(op.invoke_ts for op in ops)
    gaps = sorted(b - a for a, b in pairwise(asked))
    return max(LEAST_NS, (_TRIED + 1) * (gaps[-1 - len(gaps) // 20] if gaps else 0))


def _asked(op: Op) -> int:
    return op.invoke_ts


def _named(
    what: str, ops: Sequence[Op], span: tuple[int, int], faults: Sequence[FaultView]
) -> list[Stretch]:
    """`ops` by invocation: each is looked at for the one stretch that it was asked for in."""
    found = []
    for start, end, open_end in _silent(ops, *span):
        tried = ops[bisect_left(ops, start, key=_asked) : bisect_left(ops, end, key=_asked)]
        if not tried or end - tried[0].invoke_ts < LEAST_NS:
            continue  # nobody asked: a pause of the load is no outage
        if tried[0].invoke_ts - start > LEAST_NS:
            start = tried[0].invoke_ts
        failed = sum(1 for op in tried if op.outcome is Outcome.FAIL)
        unknown = sum(1 for op in tried if op.outcome is Outcome.UNKNOWN)
        where = placed(start, faults)
        until = "to the end of the load" if open_end else f"to {_s(end)}"
        began = "from the start" if start == span[0] else f"from {_s(start)}"
        said = f"{what} {began} {until} ({_s(end - start)})"
        said += f": it began {where}" if where and start != span[0] else ""
        said += f"; {len(tried):,} asked for meanwhile"
        if failed or unknown:
            said += f", of which {failed:,} failed and {unknown:,} ended unknown"
        found.append(Stretch(what, start, end, len(tried), open_end, said + "."))
    return found


def _beyond(rows: Sequence[Stretch], known: Sequence[Stretch]) -> list[Stretch]:
    """Those of `rows` that say more than `known`: by a second or by a fifth."""
    more = []
    for row in rows:
        shared = sum(
            max(0, min(row.end_ns, k.end_ns) - max(row.start_ns, k.start_ns)) for k in known
        )
        if row.lasted_ns - shared >= max(LEAST_NS, row.lasted_ns // 5):
            more.append(row)
    return more


def _told_once(rows: Sequence[Stretch], faults: Sequence[FaultView]) -> list[Stretch]:
    """What stops again and again while the same faults stand, in one sentence."""
    groups: dict[tuple[str, tuple[str, ...]], list[Stretch]] = {}
    for n, row in enumerate(rows):
        inside = tuple(
            f.name for f in faults if f.start_ns is not None and _within(row.start_ns, f)
        )
        groups.setdefault((row.what, inside or (f"{n}",)), []).append(row)
    return [_together(group, inside) for (_, inside), group in groups.items()]


def _together(group: Sequence[Stretch], inside: Sequence[str]) -> Stretch:
    first, last = group[0], group[-1]
    if len(group) == 1:
        return first
    lasted = [row.lasted_ns for row in group]
    tried = sum(row.tried for row in group)
    said = (
        f"{first.what} {len(group)} times from {_s(first.start_ns)} to {_s(last.end_ns)}, while "
        f"{' and '.join(inside)} stood: {_s(sum(lasted))} in all, {_s(max(lasted))} the longest; "
        f"{tried:,} asked for meanwhile."
    )
    return Stretch(
        first.what, first.start_ns, last.end_ns, tried, last.open_end, said, times=len(group)
    )


def _by_type(ops: Sequence[Op]) -> Mapping[str, list[Op]]:
    groups: dict[str, list[Op]] = {}
    for op in ops:
        groups.setdefault(op.op_type, []).append(op)
    return groups


def _by_node(ops: Sequence[Op]) -> Mapping[str, list[Op]]:
    """By who answered; what nobody answered belongs to the node that answers its process, where
    that is always the same one."""
    seen: dict[int | str, set[str]] = {}
    for op in ops:
        if op.node_seen:
            seen.setdefault(op.process_id, set()).add(op.node_seen)
    groups: dict[str, list[Op]] = {}
    for op in ops:
        usual = seen.get(op.process_id, set())
        node = op.node_seen or (next(iter(usual)) if len(usual) == 1 else None)
        if node:
            groups.setdefault(node, []).append(op)
    return groups


def stretches(
    ops: Sequence[Op], faults: Sequence[FaultView], end_ns: int | None = None
) -> list[Stretch]:
    """All stretches without service, by start. `end_ns` is the end of the load where it is known:
    what was asked for until then and never answered was missed until then, and what follows is no
    load."""
    load = sorted((op for op in ops if end_ns is None or op.invoke_ts <= end_ns), key=_asked)
    if not load:
        return []
    ended = [op.invoke_ts if op.complete_ts is None else op.complete_ts for op in load]
    span = (load[0].invoke_ts, max(ended) if end_ns is None else end_ns)
    named = _named("No operation succeeded", load, span, faults)
    whole = [row._replace(whole=True) for row in named]
    more: list[Stretch] = []
    types = _by_type(load)
    if len(types) > 1:
        for name, group in sorted(types.items()):
            rows = _named(f"No {name} succeeded", group, span, faults)
            more += _told_once(_beyond(rows, whole), faults)
    nodes = _by_node(load)
    if len(nodes) > 1:
        for name, group in sorted(nodes.items()):
            rows = _named(f"{name} answered nothing with success", group, span, faults)
            more += _told_once(_beyond(rows, whole), faults)
    return sorted([*whole, *more], key=lambda row: (row.start_ns, row.what))


Numbered = list[tuple[int, Stretch]]


def first_shown(rows: Sequence[Stretch]) -> tuple[Numbered, Numbered]:
    """(those to show at once, the others), each with its number from 1 on and by start: first those
    of the whole system, then the longest."""
    numbered = list(enumerate(rows, 1))
    ranked = sorted(numbered, key=lambda one: (not one[1].whole, -one[1].lasted_ns))
    kept = {n for n, _ in ranked[:SHOWN_MAX]}
    return (
        [one for one in numbered if one[0] in kept],
        [one for one in numbered if one[0] not in kept],
    )
