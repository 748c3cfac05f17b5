"""`atomic-view`: does a transaction see others whole, and the same each time it looks?

A `bump` adds one to every member of a group, each in one statement to which no other add is lost,
and reads them; a `look` reads members one by one, and may touch some: that changes no value.

    {"op_type": "bump", "key": "g1", "input": [0, 1], "output": [7, 7]}
    {"op_type": "look", "key": "g1", "output": [["r", 0, 7], ["touch", 1, null], ["r", 1, 8]]}

The n-th bump of a group makes all its members n, so a number says which bumps a read has seen.

| anomaly | meaning | forbidden by |
|---|---|---|
| nonmonotonic-view | after a bump was seen, a later read of the transaction does not see it | all |
| phantom | a read saw more bumps than had begun, or one that began after it | all |
| non-repeatable-read | a member had grown when it was read again (P2) | all but the weakest |
| read-skew | another member showed a later bump (A5A) | all but the weakest |
| lost-update | two bumps made one number, or one made several | all but the weakest |
| stale | not seen: what an operation that had ended before had seen or made | strict-serializable |

The weakest model is `monotonic-atomic-view`. Where bumps got lost, numbers do not say what was
seen: under that one, which allows it, such a group is not decided.

A look tests something where it read twice and a bump may have come in between: one ran at the same
time, or had begun and was not seen by its lowest read, so that it was yet to be seen. What looks
between bumps sees the same however it is isolated. A group tests something where some look has seen
a bump. Source: Bailis and others, "Highly Available Transactions" (2013), section 5.1; Berenson and
others, "A Critique of ANSI SQL Isolation Levels" (1995).
"""

from __future__ import annotations

import bisect
from typing import Any, Final, NamedTuple

from checkers._findings import Findings, Part, PerKey, Unreadable, end_of
from dstest.core.op import Op
from dstest.core.words import quoted

_STRICT: Final = "strict-serializable"
_VIEW: Final = "monotonic-atomic-view"


class _View(NamedTuple):
    """An operation and the numbers of bumps that it saw or made, by member, in order."""

    op: Op
    reads: list[tuple[Any, int]]

    @property
    def low(self) -> int:
        return min(n for _, n in self.reads)

    @property
    def high(self) -> int:
        return max(n for _, n in self.reads)


def _number(op: Op, n: Any, least: int) -> int:
    if isinstance(n, bool) or not isinstance(n, int) or n < least:
        raise Unreadable(op, f"{n!r} is not a number of bumps")
    return n


def _members(part: Part) -> list[Any]:
    """The members of the group: every bump names the same ones."""
    named: list[Any] | None = None
    for op in part.maybe("bump"):
        if not isinstance(op.input, list | tuple) or not op.input:
            raise Unreadable(op, "its input is not a list of members")
        if named is not None and list(op.input) != named:
            raise Unreadable(op, f"it bumps {op.input!r}, others of its group {named!r}")
        named = list(op.input)
    return named or []


def _bump(op: Op, members: list[Any]) -> _View:
    if not isinstance(op.output, list | tuple) or len(op.output) != len(members):
        raise Unreadable(op, "its output is not a number for each member")
    made = [_number(op, n, 1) for n in op.output]
    return _View(op, list(zip(members, made, strict=True)))


def _is_step(row: Any) -> bool:
    return isinstance(row, list | tuple) and len(row) == 3


def _look(op: Op, members: list[Any]) -> _View:
    """Raises Unreadable where it did other steps than it was asked for."""
    for steps in (op.output, op.output if op.input is None else op.input):
        if not isinstance(steps, list | tuple) or not all(map(_is_step, steps)):
            raise Unreadable(op, "its steps are not a list of lists of three items")
    if op.input is not None and [row[:2] for row in op.output] != [row[:2] for row in op.input]:
        raise Unreadable(op, "its steps are not those that were asked for")
    reads = []
    for kind, member, n in op.output:
        if kind not in ("r", "touch"):
            raise Unreadable(op, f"{kind!r} is neither a read nor a touch")
        if members and member not in members:
            raise Unreadable(op, f"no bump of the group names its member {member!r}")
        if kind == "r":
            reads.append((member, _number(op, n, 0)))
    return _View(op, reads)


def _lost(bumps: list[_View], part: Part, findings: Findings) -> bool:
    """Bumps that made one number, or several; were there any?"""
    first: dict[int, Op] = {}
    lost = False
    for seen in bumps:
        before = first.setdefault(seen.low, seen.op)
        if seen.low == seen.high and before is seen.op:
            continue
        lost = True
        if findings.model != _VIEW:
            message = f"bumps (ops {before.op_id} and {seen.op.op_id}) both made {seen.low}"
            if seen.low != seen.high:
                message = f"bump (op {seen.op.op_id}) made {seen.low} and {seen.high}"
            findings.anomaly("lost-update", part.key, [before, seen.op], message)
    return lost


def _within(seen: _View, part: Part, findings: Findings) -> None:
    """What one look saw, against itself."""
    op, earlier = seen.op, dict[Any, int]()
    last, top = seen.reads[0]
    for member, n in seen.reads:
        again = member in earlier
        before, row = (earlier[member], member) if again and n > top else (top, last)
        message = (
            f"look (op {op.op_id}) read {before} in row {quoted(row)}, then {n} in row "
            f"{quoted(member)}"
        )
        if n < top:
            findings.anomaly("nonmonotonic-view", part.key, [op], message)
            return
        if n > top and findings.model != _VIEW:
            kind = "non-repeatable-read" if again else "read-skew"
            findings.anomaly(kind, part.key, [op], message)
            return
        last, top = member, n
        earlier[member] = n


def _phantoms(every: list[_View], part: Part, findings: Findings) -> None:
    """What nobody can have seen yet, whatever the order."""
    began = sorted(op.invoke_ts for op in part.maybe("bump"))
    maker = {seen.low: seen.op for seen in every if seen.op.op_type == "bump"}
    for op, reads in every:
        most = bisect.bisect_right(began, end_of(op))
        for _, n in reads:
            late = maker.get(n)
            if n > most:
                message = f"{op.op_type} (op {op.op_id}) saw {n}, and {most} bumps had begun"
            elif late is not None and late.invoke_ts > end_of(op):
                what = f"which bump (op {late.op_id}) made later"
                message = f"{op.op_type} (op {op.op_id}) saw {n}, {what}"
            else:
                continue
            witness = [op] if late is None or late is op else [late, op]
            findings.anomaly("phantom", part.key, witness, message)
            break


def _stale(every: list[_View], part: Part, findings: Findings) -> None:
    """Each operation against the highest number of those that had ended before it began, and
    against how many bumps had: a look is not below them, a bump is above."""
    ended = sorted(every, key=lambda seen: end_of(seen.op))
    bumps = sorted(end_of(seen.op) for seen in every if seen.op.op_type == "bump")
    at, top = 0, None
    for seen in sorted(every, key=lambda seen: seen.op.invoke_ts):
        while at < len(ended) and end_of(ended[at].op) < seen.op.invoke_ts:
            if top is None or ended[at].high > top.high:
                top = ended[at]
            at += 1
        own = 1 if seen.op.op_type == "bump" else 0
        known = 0 if top is None else top.high
        count = bisect.bisect_left(bumps, seen.op.invoke_ts)
        if seen.low >= max(known, count) + own:
            continue
        what = f"{count} bumps had ended before it"
        witness = [seen.op]
        if top is not None and known >= count:
            what = f"{top.op.op_type} (op {top.op.op_id}) had {known} before it began"
            witness = [top.op, seen.op]
        message = f"{seen.op.op_type} (op {seen.op.op_id}) has {seen.low}, and {what}"
        findings.anomaly("stale", part.key, witness, message)


class _Between:
    """May a bump have come between the reads of a look?"""

    def __init__(self, part: Part) -> None:
        done = part.of("bump")
        self._began = [op.invoke_ts for op in done]
        self._ended = sorted(map(end_of, done))
        self._unknown = [op.invoke_ts for op in part.unknown if op.op_type == "bump"]

    def may(self, look: _View) -> bool:
        begin, end = look.op.invoke_ts, end_of(look.op)
        done = bisect.bisect_right(self._began, end)
        unknown = bisect.bisect_right(self._unknown, end)
        if look.low < done + unknown:
            return True
        # It has seen them all throughout: of those that ran meanwhile each may have been seen late.
        before = bisect.bisect_left(self._ended, begin)
        return done > before or unknown > bisect.bisect_left(self._unknown, begin)


def decide(part: Part, findings: Findings) -> int:
    """One group; how many looks read twice or more while a bump may have come in between."""
    members = _members(part)
    bumps = [_bump(op, members) for op in part.of("bump")]
    looks = [seen for seen in (_look(op, members) for op in part.of("look")) if seen.reads]
    lost = _lost(bumps, part, findings)
    if lost and findings.model == _VIEW:
        findings.undecide(part.key, "bumps got lost, so numbers do not say what was seen")
        return 0
    every = [*bumps, *looks]
    if not lost:
        _phantoms(every, part, findings)
        if findings.model == _STRICT:
            _stale(every, part, findings)
    tested = 0
    between = _Between(part)
    for seen in looks:
        findings.tick()
        _within(seen, part, findings)
        tested += len(seen.reads) > 1 and between.may(seen)
    findings.count(looks=tested, bumps=len(bumps))
    return tested if any(seen.high for seen in looks) else 0


CHECKER: Final = PerKey(
    "atomic-view",
    decide,
    models=(_STRICT, "serializable", "snapshot-isolation", "repeatable-read", _VIEW),
    types=frozenset({"bump", "look"}),
    prefix_closed=True,
    vacuous="no group was read twice in a transaction while a bump may have come in between",
    observers=frozenset(),
)
