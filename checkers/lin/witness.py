"""Small witnesses for any model, and their explanation in words.

A witness must be sound: what is left out must not be able to resolve the contradiction. Two ways of
leaving out are:

* All operations on some values of a container may go, whole holds of a lock (`holds`), and
  operations that change nothing: a linearization stays one without them. The witness contradicts
  itself from the start. Takes of unknown outcome stay, those that began before its last completion:
  each could have taken any of the values.
* Any completed operation may be *loosened*: it may take effect later than it did, or not at all,
  with the result that it had. That allows more than what happened. Loosened operations are not
  named. From an instant at which no completed operation was running, and the states then possible,
  only what comes later counts.

Which operations go is found by delta debugging with halving chunks (Zeller and Hildebrandt, TSE
28(2), 2002), with a limit on checks and on time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from checkers._witness import RECENT, Explanation, phrase
from checkers.columns import I64, ILLEGAL, NEVER, OK, Limits
from checkers.lin.monitor import LOOK, MAYBE, NOTHING, TAKE, Parts, some
from checkers.lin.search import Coded, only, search
from dstest.core.clock import monotonic_ns
from dstest.core.history import History
from dstest.core.op import Op

REFUSED: Final = -1

TAIL_MAX: Final = 256
"""Operations after the last quiet instant that are looked at one by one."""

SMALL: Final = 8
"""A witness of more operations than this explains little."""

CHECKS_MAX: Final = 2_000
STEPS_MAX: Final = 2_000_000
STATES_SHOWN_MAX: Final = 8

CROWD_STEPS: Final = 200_000
"""Of a search among named operations of unknown outcome, which a monitor has settled before: it
grows with the sets of those."""


def holds(coded: Coded, ops: list[Op]) -> I64 | None:
    """The number of each operation's hold, REFUSED for those that were refused; `coded` has one
    key. None where a process gives back what it does not hold, or works on several things at
    once.

    From the moment a process begins to hold until it holds nothing again nobody else is helped by
    it: without all of that a linearization stays one, as long as no refusal needs the lock to be
    taken. (Of a semaphore this is so because nobody there gives back what others hold.) So a whole
    hold may go, and so may an acquire of unknown outcome that no release follows. Where permits are
    not counted an acquire and the release that undoes it may go from within a hold, or from around
    one: what is left is held no longer than before.
    """
    unit = np.empty(len(coded.classes), np.int64)
    held: dict[Any, list[tuple[int, int]]] = {}  # of each process: hold and permits
    ends: dict[Any, int] = {}
    for row in range(len(unit)):
        call = coded.calls[coded.classes[row]]
        process = ops[int(coded.position[row])].process_id
        if call.known and call.output is False:
            unit[row] = REFUSED
            continue
        if ends.get(process, -NEVER) >= coded.invoke[row]:
            return None
        ends[process] = int(coded.complete[row])
        mine = held.setdefault(process, [])
        if call.op_type == "acquire":
            if call.input is None or not mine:
                mine.append((row, call.input or 1))
            else:
                mine[-1] = (mine[-1][0], mine[-1][1] + call.input)
            unit[row] = mine[-1][0]
            continue
        left = mine[-1][1] - (call.input or 1) if mine else -1
        if left < 0:
            return None
        unit[row] = mine[-1][0]
        mine[-1:] = [(mine[-1][0], left)] if left else []
    return unit


@dataclass(frozen=True, slots=True)
class Witness:
    """`coded` holds the operations that count, loosened ones included; `named` marks the others,
    which are the witness. `begin` = the states it starts from where that is not the first one,
    after `before` operations."""

    coded: Coded
    named: npt.NDArray[np.bool_]
    begin: list[Any] | None
    before: int
    minimal: bool

    @property
    def crowded(self) -> bool:
        """Does it name operations of unknown outcome?"""
        return bool((self.named & (self.coded.complete == NEVER)).any())


def halving(units: I64, illegal: Callable[[I64], bool], deadline: int) -> tuple[I64, bool]:
    """The units that must stay, and whether each of them must."""
    checks, chunk = 0, max(1, len(units) // 2)
    while True:
        before, at = len(units), 0
        while at < len(units):
            if checks >= CHECKS_MAX or monotonic_ns() >= deadline:
                return units, False
            checks += 1
            candidate = np.concatenate([units[:at], units[at + chunk :]])
            if illegal(candidate):
                units = candidate
            else:
                at += chunk
        if chunk == 1 and len(units) == before:
            return units, True
        chunk = max(1, chunk // 2)


def marks_of(unit: I64, units: I64) -> npt.NDArray[np.bool_]:
    """Which operations belong to these units? Negative units never do."""
    marks = np.zeros(max(int(unit.max(initial=0)), int(units.max(initial=0))) + 2, np.bool_)
    marks[units] = True
    found: npt.NDArray[np.bool_] = marks[unit] & (unit >= 0)
    return found


def of_values(
    coded: Coded, parts: Parts, key: int, deadline: int, memory_bytes: int
) -> Witness | None:
    """A witness in the words of values, for what the monitor rejected; None where it does not
    stand up to the search."""
    where = coded.of_key(key)
    rows = np.arange(where.start, where.stop)[parts.kind[where] != LOOK]
    part, own = only(coded, rows, key), parts.of(rows)
    unit = np.where(own.kind == NOTHING, own.n_values + np.arange(len(rows)), own.value)
    unit = np.where(own.kind == MAYBE, -1, unit).astype(np.int64)

    def illegal(units: I64) -> bool:
        nonlocal part, own, unit
        keep = marks_of(unit, units) | (own.kind == MAYBE)
        if some(part, own, keep, memory_bytes)[0] != ILLEGAL:
            return False
        kept = np.flatnonzero(keep)
        part, own, unit = only(part, kept), own.of(kept), unit[keep]
        return True

    if (own.kind == MAYBE).any():
        taken = np.isin(own.value, own.value[own.kind == TAKE])
        settled = np.flatnonzero((own.kind == NOTHING) | ((own.kind != MAYBE) & taken))
        alone = only(part, settled), own.of(settled)
        if some(*alone, np.ones(len(settled), np.bool_), memory_bytes)[0] == ILLEGAL:
            part, own, unit = *alone, unit[settled]
    units, minimal = halving(np.unique(unit[unit >= 0]), illegal, deadline)
    keep = marks_of(unit, units)
    end = part.complete[keep & (part.complete != NEVER)].max(initial=-NEVER)
    small = only(part, np.flatnonzero(keep | ((own.kind == MAYBE) & (part.invoke <= end))))
    named = np.ones(len(small.classes), np.bool_)
    if len(small.classes) <= TAIL_MAX:
        left = max(1, deadline - monotonic_ns())
        steps = CROWD_STEPS if (small.complete == NEVER).any() else STEPS_MAX
        if search(small, Limits(left, memory_bytes, steps)).verdict[0] == OK:
            return None
    return Witness(small, named, None, 0, minimal)


def _quiet(coded: Coded, bad: int) -> list[int]:
    """Rows at whose invocation no completed operation before them is running, the last first."""
    known = np.where(coded.complete == NEVER, -NEVER, coded.complete)
    ends = np.maximum.accumulate(known)
    rows = np.flatnonzero(ends[:-1] < coded.invoke[1:]) + 1
    return [int(r) for r in rows[rows <= bad][::-1]]


def _cut(coded: Coded, key: int, bad: int) -> tuple[Coded, int]:
    """The key until `bad` completes: what completes later is loosened. Also where `bad` is then."""
    where = coded.of_key(key)
    rows = np.arange(where.start, where.stop)
    end = coded.complete[bad]
    late = coded.complete[rows] > end
    keep = (coded.invoke[rows] <= end) & ~(late & (coded.pure[coded.classes[rows]] == 1))
    part = only(coded, rows[keep], key)
    complete = np.where(part.complete > end, NEVER, part.complete)
    return replace(part, complete=complete), int(np.flatnonzero(rows[keep] == bad)[0])


def of_holds(
    coded: Coded, key: int, bad: int, ops: list[Op], deadline: int, memory_bytes: int
) -> Witness | None:
    """A witness in the words of holds of a lock, for what the search rejected at row `bad`; None
    where its rules do not hold."""
    part, _ = _cut(coded, key, bad)
    numbers = holds(part, ops)
    if numbers is None:
        return None
    unit: I64 = numbers

    def illegal(units: I64) -> bool:
        nonlocal part, unit
        keep = marks_of(unit, units)
        candidate = only(part, np.flatnonzero(keep))
        left = max(1, deadline - monotonic_ns())
        if search(candidate, Limits(left, memory_bytes)).verdict[0] != ILLEGAL:
            return False
        part, unit = candidate, unit[keep]
        return True

    units = np.unique(unit[unit != REFUSED])
    if not illegal(units):
        return None
    for last in RECENT:
        if last < len(units) and illegal(units[-last:]):
            units = units[-last:]
            break
    units, minimal = halving(units, illegal, deadline)
    small = only(part, np.flatnonzero(marks_of(unit, units)))
    return Witness(small, np.ones(len(small.classes), np.bool_), None, 0, minimal)


def _tails(
    part: Coded, bad: int, deadline: int, memory_bytes: int
) -> Iterator[tuple[Coded, list[Any] | None, int]]:
    """The operations that may hold a small witness, the states they start from (None = the first)
    and how many come before: all, where they are few, then those since a quiet instant whose
    states are known. Operations of unknown outcome stay."""
    if len(part.classes) <= TAIL_MAX // 4:
        yield part, None, 0
    for start in [s for s in _quiet(part, bad) if bad - s < TAIL_MAX][:2]:
        head = only(part, np.arange(start))
        left = max(1, deadline - monotonic_ns())
        result = search(head, Limits(left, memory_bytes))
        states = result.states[0]
        if result.verdict[0] != OK or states is None:
            continue
        stay = np.flatnonzero((np.arange(len(part.classes)) >= start) | (part.complete == NEVER))
        yield only(part, stay), states, int((head.complete != NEVER).sum())


def _loosen(
    tail: Coded,
    begin: list[Any] | None,
    before: int,
    deadline: int,
    memory_bytes: int,
    steps_max: int,
) -> Witness:
    """The operations that contradict each other whenever the others took effect."""
    certain = np.flatnonzero(tail.complete != NEVER)

    def loose(units: I64) -> Coded:
        complete = np.full(len(tail.complete), NEVER, np.int64)
        complete[units] = tail.complete[units]
        stays = (complete != NEVER) | (tail.pure[tail.classes] == 0)
        return replace(only(tail, np.flatnonzero(stays)), complete=complete[stays])

    def illegal(units: I64) -> bool:
        left = max(1, deadline - monotonic_ns())
        limits = Limits(left, memory_bytes, min(steps_max, STEPS_MAX))
        return bool(search(loose(units), limits, begin).verdict[0] == ILLEGAL)

    units, minimal = halving(certain, illegal, deadline)
    small = loose(units)
    return Witness(small, small.complete != NEVER, begin, before, minimal)


def of_failure(
    coded: Coded, key: int, bad: int, deadline: int, memory_bytes: int, steps_max: int = STEPS_MAX
) -> Witness:
    """A witness for what the search rejected at row `bad`, with so many steps for each check at
    most. Where none is small it is the operation
    that could not be placed and those that were running then."""
    part, at = _cut(coded, key, bad)
    for tail, begin, before in _tails(part, at, deadline, memory_bytes):
        made = _loosen(tail, begin, before, deadline, memory_bytes, steps_max)
        if made.named.sum() <= SMALL:
            return made
    named = np.zeros(len(part.classes), np.bool_)
    ends = np.flatnonzero(part.complete == NEVER)
    named[ends[::-1][: SMALL - 1]] = True
    named[at] = True
    return Witness(part, named, None, 0, minimal=False)


def _states(coded: Coded, states: list[Any]) -> str:
    shown = [coded.model.show(s) for s in states[:STATES_SHOWN_MAX]]
    more = len(states) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more > 0 else "")


EXPLAINED_NS: Final = 10 * 10**9
"""At most, of one witness."""


def explain(
    witness: Witness, history: History, memory_bytes: int, time_ns: int = EXPLAINED_NS
) -> Explanation:
    """The longest linearizable prefix, the states possible there, and why no next step exists;
    as far as that is found in time."""
    coded, named = witness.coded, witness.named
    ops = [history.ops[int(p)] for p in coded.position]
    count = int(named.sum())
    lead = f"No order explains the {count} operation{'s' if count != 1 else ''} of the witness"
    if witness.begin is not None:
        states = _states(coded, witness.begin)
        lead += (
            f", after the {witness.before} completed operations before them, which leave the "
            f"{coded.model.name} in: {states}"
        )
    elif (others := int(((coded.complete != NEVER) & ~named).sum())) > 0:
        lead += f" after the {others} other operations that completed by then"
    limits = Limits(min(time_ns, EXPLAINED_NS), memory_bytes, CROWD_STEPS if witness.crowded else 0)
    result = search(coded, limits, witness.begin)
    if result.verdict[0] != ILLEGAL:
        doubt = ", whatever those of unknown outcome did" if witness.crowded else ""
        return Explanation(f"{lead}{doubt}.")
    stuck = int(result.bad[0])
    by_end = np.argsort(coded.complete, kind="stable")
    order = by_end[(coded.complete[by_end] != NEVER) & (by_end != stuck)].tolist()
    earlier = order[: int(result.prefix[0])]
    placed = set(earlier)
    prefix = (
        f"Longest linearizable prefix: up to the completion of {phrase(ops[earlier[-1]])}."
        if earlier
        else "Not even the first completion can be placed."
    )
    end = coded.complete[stuck]
    beside = [
        phrase(op)
        for row, op in enumerate(ops)
        if row != stuck and row not in placed and coded.invoke[row] <= end
    ]
    running = "No other operation is running then."
    if beside:
        more = f" and {len(beside) - 4} more" if len(beside) > 4 else ""
        running = (
            f"Running then, or of unknown outcome: {', '.join(beside[:4])}{more}; "
            "none of them can make it fit."
        )
    states = _states(coded, result.states[0] or [])
    text = (
        f"{lead}. {prefix} There the {coded.model.name} can be: {states}. Next completes "
        f"{phrase(ops[stuck])}, which is possible in none of these. {running}"
    )
    return Explanation(text, ops[stuck].op_id)


def ops_of(witness: Witness) -> I64:
    """Positions of the witness's operations in the history, in order of invocation."""
    return witness.coded.position[witness.named]
