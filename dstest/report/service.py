"""How a run served: stretches in which nothing succeeded, of the whole system, one type of
operation, or one node, each named in a sentence with the fault that it goes with; and the most
frequent texts that clients were told where operations went wrong as no fault explains."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from dstest.core.history import FaultWindow, History
from dstest.core.op import Op, Outcome
from dstest.core.protocols import NOT_LISTED, code_of
from dstest.report.numbers import tenths

LEAST_NS: Final = 1_000_000_000
"""What is shorter than a second is no outage on a machine that others use as well."""

_GAPS: Final = 20
_TRIED: Final = 8
"""A slow load pauses by itself: a stretch lasts this many usual gaps between successes at least, or
so many operations were asked for in it."""

_NEAR_NS: Final = 1_000_000_000
_AT_ONCE_NS: Final = 50_000_000
SHOWN_MAX: Final = 5
"""Stretches that are shown at once."""

ALL_MAX: Final = 200
"""Stretches that a page has at all."""

UNKNOWN_SHARE_MAX: Final = 0.05
"""Of the operations of a type, while no fault stands."""

UNSUPPORTED: Final = "unsupported operation"
"""How a client begins its answer to a type of operation for which it has no method."""

REASONS_MAX: Final = 20
"""Reasons that have a row of their own."""

_SHOWN_MAX: Final = 3
_WIDTH_MAX: Final = 160
_DIGITS: Final = re.compile(r"\d+")


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


def _after(time_ns: int, since_ns: int, what: str) -> str:
    away = time_ns - since_ns
    return f"as {what}" if away < _AT_ONCE_NS else f"{tenths(away)} after {what}"


def instant_text(time_ns: int, faults: Sequence[FaultWindow], *, near_ns: int = _NEAR_NS) -> str:
    """Where an instant lies among the faults: `2.1 s after f1 (partition) was healed`."""
    inside = [f for f in faults if _within(time_ns, f)]
    if inside:
        return " and ".join(
            _after(time_ns, f.start_ns, f"{f.name} was injected") for f in inside[-2:]
        )
    soon = [f for f in faults if 0 <= f.start_ns - time_ns <= near_ns]
    if soon:
        first = min(soon, key=lambda f: f.start_ns)
        away = first.start_ns - time_ns
        what = f"{first.name} was injected"
        return f"as {what}" if away < _AT_ONCE_NS else f"{tenths(away)} before {what}"
    healed = [f for f in faults if f.healed_ns is not None and f.healed_ns <= time_ns]
    if healed:
        last = max(healed, key=lambda f: f.healed_ns or 0)
        return _after(time_ns, last.healed_ns or 0, f"{last.name} {last.ended}")
    return "before the first fault" if faults else ""


def _within(time_ns: int, fault: FaultWindow) -> bool:
    return fault.start_ns <= time_ns and (fault.healed_ns is None or time_ns < fault.healed_ns)


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
    what: str,
    ops: Sequence[Op],
    span: tuple[int, int],
    faults: Sequence[FaultWindow],
    least: int = 1,
) -> list[Stretch]:
    """`ops` by invocation: each is looked at for the one stretch that it was asked for in. What
    fewer than `least` were asked for in is none."""
    found = []
    for start, end, open_end in _silent(ops, *span):
        tried = ops[bisect_left(ops, start, key=_asked) : bisect_left(ops, end, key=_asked)]
        if len(tried) < least or end - tried[0].invoke_ts < LEAST_NS:
            continue  # nobody asked, or hardly anybody: a pause of the load is no outage
        if tried[0].invoke_ts - start > LEAST_NS:
            start = tried[0].invoke_ts
        failed = sum(1 for op in tried if op.outcome is Outcome.FAIL)
        unknown = sum(1 for op in tried if op.outcome is Outcome.UNKNOWN)
        where = instant_text(start, faults)
        until = "to the end of the load" if open_end else f"to {tenths(end)}"
        began = "from the start" if start == span[0] else f"from {tenths(start)}"
        said = f"{what} {began} {until} ({tenths(end - start)})"
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


def _told_once(rows: Sequence[Stretch], faults: Sequence[FaultWindow]) -> list[Stretch]:
    """What stops again and again while the same faults stand, in one sentence."""
    groups: dict[tuple[str, tuple[str, ...]], list[Stretch]] = {}
    for n, row in enumerate(rows):
        inside = tuple(f.name for f in faults if _within(row.start_ns, f))
        groups.setdefault((row.what, inside or (f"{n}",)), []).append(row)
    return [_together(group, inside) for (_, inside), group in groups.items()]


def _together(group: Sequence[Stretch], inside: Sequence[str]) -> Stretch:
    first, last = group[0], group[-1]
    if len(group) == 1:
        return first
    lasted = [row.lasted_ns for row in group]
    tried = sum(row.tried for row in group)
    said = (
        f"{first.what} {len(group)} times from {tenths(first.start_ns)} to {tenths(last.end_ns)}, "
        f"while {' and '.join(inside)} stood: {tenths(sum(lasted))} in all, "
        f"{tenths(max(lasted))} the longest; {tried:,} asked for meanwhile."
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
    ops: Sequence[Op], faults: Sequence[FaultWindow], end_ns: int | None = None
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
            # Clients may have gone to another, as to who leads; where all hang each asks once.
            least = min(_TRIED, len({op.process_id for op in group}))
            rows = _named(f"{name} answered nothing with success", group, span, faults, least)
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


class ErrorText(msgspec.Struct, frozen=True, kw_only=True):
    """An error and how often it came; texts that differ in digits alone are one."""

    text: str
    outcome: str
    count: int


class ErrorRow(msgspec.Struct, frozen=True, kw_only=True):
    """One type of operation that went wrong, and what it was told, the most frequent first."""

    op_type: str
    message: str
    texts: list[ErrorText]


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Why operations of one type did not succeed, `during` of them while a fault stood. Without
    an `op_type`: all others, of which there are `text`."""

    outcome: str
    op_type: str
    text: str
    count: int
    during: int


def reasons(history: History) -> list[Reason]:
    """All reasons of the run, the most frequent first; those beyond the first are one row."""
    counts: Counter[tuple[str, str, str]] = Counter()
    during: Counter[tuple[str, str, str]] = Counter()
    first: dict[tuple[str, str, str], str] = {}
    for op in history.ops:
        if op.outcome is Outcome.OK:
            continue
        text = op.error or "no answer was recorded"
        kind = (op.outcome.value, op.op_type, _DIGITS.sub("#", text))
        counts[kind] += 1
        during[kind] += op.fault_epoch is not None
        first.setdefault(kind, text[:_WIDTH_MAX])
    ranked = sorted(counts, key=lambda kind: (-counts[kind], kind))
    rows = [
        Reason(outcome=k[0], op_type=k[1], text=first[k], count=counts[k], during=during[k])
        for k in ranked[:REASONS_MAX]
    ]
    if rest := ranked[REASONS_MAX:]:
        rows.append(
            Reason(
                outcome="", op_type="", text=f"{len(rest):,} other reasons",
                count=sum(counts[k] for k in rest), during=sum(during[k] for k in rest),
            )
        )  # fmt: skip
    return rows


def unusual(history: History) -> list[ErrorRow]:
    """The types of operation that are out of the ordinary, by name.

    That is a type none of which succeeded, and one of which more than a twentieth ended unknown
    while no fault stood; in a run without any fault, one of which any did; and one of which any
    failed for certain by a code that the system does not list.
    """
    groups: dict[str, list[Op]] = {}
    for op in history.ops:
        groups.setdefault(op.op_type, []).append(op)
    calm = not history.header.windows and all(op.fault_epoch is None for op in history.ops)
    rows = [
        (name, "; ".join(filter(None, [_message(ops, calm), _unlisted(ops)])), ops)
        for name, ops in sorted(groups.items())
    ]
    return [
        ErrorRow(op_type=name, message=message, texts=_texts(ops))
        for name, message, ops in rows
        if message
    ]


def _message(ops: list[Op], calm: bool) -> str:
    """What is out of the ordinary with these; empty where nothing is. `calm`: no fault stood in the
    whole run."""
    if not any(op.outcome is Outcome.OK for op in ops):
        return f"none of {len(ops):,} operations succeeded"
    quiet = [op for op in ops if op.fault_epoch is None]
    unknown = sum(1 for op in quiet if op.outcome is Outcome.UNKNOWN)
    if unknown <= (0 if calm else UNKNOWN_SHARE_MAX * len(quiet)):
        return ""
    return f"{unknown:,} of {len(quiet):,} operations ended unknown while no fault stood"


def _unlisted(ops: list[Op]) -> str:
    """Codes that clients call definite and the system does not; empty where there are none."""
    errors = (op.error or "" for op in ops)
    codes = Counter(
        code_of(e.removeprefix(NOT_LISTED)) or "no code" for e in errors if e.startswith(NOT_LISTED)
    )
    told = ", ".join(f"{count:,} x {code}" for code, count in codes.most_common(_SHOWN_MAX))
    return told and f"{told} not listed in definite_errors: counted as unknown"


def _texts(ops: list[Op]) -> list[ErrorText]:
    counts: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], str] = {}
    for op in ops:
        if op.outcome is Outcome.OK:
            continue
        text = op.error or "no answer was recorded"
        kind = (op.outcome.value, _DIGITS.sub("#", text))
        counts[kind] += 1
        first.setdefault(kind, text[:_WIDTH_MAX])
    return [
        ErrorText(text=first[kind], outcome=kind[0], count=count)
        for kind, count in counts.most_common(_SHOWN_MAX)
    ]
