"""An order of transactions, executed one by one: does it prove a model?

It knows nothing of how the order was found, and asks by definition:

- Serializability (Papadimitriou 1979): each transaction reads what the ones before it have left.
- Snapshot isolation (Berenson et al. 1995; Adya 1999, section 4.3): each one reads what had been
  committed at one moment before its own commit, and nobody else has committed a write of what it
  writes since that moment.
- Strong session forms: it reads what its session has committed. Strong (strict) forms: it reads
  what was committed before it was invoked.

An unknown transaction may stand in the order or be left out of it. A register's value may be
written more than once: a read is right while any write of what it returned is the last one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from checkers.txn.columns import FAIL, I64, NIL, OK, READ, WRITE, TxnColumns

REALTIME: Final = "realtime"
SESSIONS: Final = "sessions"
NOTHING: Final = "nothing"

PROVABLE: Final = {
    "strong-serializable": (False, REALTIME),
    "strong-session-serializable": (False, SESSIONS),
    "serializable": (False, NOTHING),
    "strong-snapshot-isolation": (True, REALTIME),
    "strong-session-snapshot-isolation": (True, SESSIONS),
    "snapshot-isolation": (True, NOTHING),
}
"""By model: are reads of a snapshot, and what relates transactions besides what they read."""


_Span = tuple[int, int]

NEVER: Final = 2**62
"""More commits than there are."""


class _Refutation(Exception):
    """Why the order proves nothing."""


@dataclass(slots=True)
class _Key:
    """What was written to a key: `values` one after the other; of version i the first `lengths[i]`
    of them are there, or it is the last of these alone, since the commit at `places[i]`."""

    values: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=lambda: [0])
    places: list[int] = field(default_factory=lambda: [-1])

    def version(self, length: int) -> int | None:
        """The number of the version that ends there."""
        at = bisect_left(self.lengths, length)
        return at if at < len(self.lengths) and self.lengths[at] == length else None

    def span(self, version: int) -> _Span:
        """From how many commits to how many it is the last one."""
        later = version + 1
        return (
            self.places[version] + 1,
            self.places[later] if later < len(self.places) else NEVER,
        )


class _Replay:
    def __init__(self, c: TxnColumns, lists: bool, order: Sequence[int]) -> None:
        self.c, self.lists, self.order = c, lists, order
        self.place = np.full(c.txns, -1, np.int64)
        self.start: list[int] = c.mop_start.tolist()
        self.kind: list[int] = c.mop_kind.tolist()
        self.key: list[int] = c.mop_key.tolist()
        self.value: list[int] = c.mop_value.tolist()
        self.keys: dict[int, _Key] = defaultdict(_Key)
        self.at: dict[tuple[int, int], list[int]] = {}
        """Of a value of a key how many were there with it, each time that it was written."""
        self.spans: dict[tuple[int, int], list[_Span]] = {}
        """Of a value of a key when it is there, as far as that was asked."""

    def named(self, txn: int) -> str:
        return f"transaction {self.c.op_index[txn]}"

    def require_whole(self) -> None:
        """Each acknowledged transaction once, and no failed one."""
        c, order = self.c, np.asarray(self.order, np.int64)
        if len(order) and not 0 <= int(order.min()) <= int(order.max()) < c.txns:
            raise _Refutation("it names transactions that are not in the history")
        counts = np.bincount(order, minlength=c.txns)
        for wrong, what in (
            (counts > 1, "is in it twice"),
            ((counts > 0) & (c.outcome == FAIL), "failed, and is in it"),
            ((counts == 0) & (c.outcome == OK), "was acknowledged, and is not in it"),
        ):
            if wrong.any():
                raise _Refutation(f"{self.named(int(np.argmax(wrong)))} {what}")
        self.place[order] = np.arange(len(order))

    def write(self) -> None:
        """Executes the writes."""
        for place, txn in enumerate(self.order):
            touched = set()
            for i in range(self.start[txn], self.start[txn + 1]):
                if self.kind[i] != WRITE:
                    continue
                key, value = self.key[i], self.value[i]
                if (self.lists and (key, value) in self.at) or value == NIL:
                    said = "null" if value == NIL else self.c.value_names[value]
                    raise _Refutation(
                        f"{self.named(txn)} writes {said!r} to {self.c.key_names[key]!r}: reads do "
                        "not tell who wrote it"
                    )
                here = self.keys[key]
                here.values.append(value)
                self.at.setdefault((key, value), []).append(len(here.values))
                touched.add(key)
            for key in touched:
                self.keys[key].lengths.append(len(self.keys[key].values))
                self.keys[key].places.append(place)

    def since(self, snapshot: bool, between: str) -> I64:
        """By transaction how many commits it has to see at least."""
        c = self.c
        least = np.zeros(c.txns, np.int64) if snapshot else np.maximum(self.place, 0)
        if between == NOTHING:
            return least
        done = (c.outcome == OK) & (c.complete_pos >= 0)
        if between == REALTIME:
            if (mute := (self.place >= 0) & (c.invoke_pos < 0)).any():
                raise _Refutation(f"of {self.named(int(np.argmax(mute)))} no invocation is known")
            ends = np.flatnonzero(done)
            ends = ends[np.argsort(c.complete_pos[ends], kind="stable")]
            latest = np.append(0, np.maximum.accumulate(self.place[ends] + 1))
            before: I64 = latest[np.searchsorted(c.complete_pos[ends], c.invoke_pos)]
            return np.maximum(least, before)
        mine = np.flatnonzero((c.process >= 0) & (self.place >= 0))
        mine = mine[np.argsort(c.process[mine], kind="stable")]
        for session in np.split(mine, np.flatnonzero(np.diff(c.process[mine])) + 1):
            if len(session) > 1:
                self._session(session, least)
        return least

    def _session(self, mine: np.ndarray, least: np.ndarray) -> None:
        """Each one sees what its session had committed when it began."""
        c = self.c
        if (c.invoke_pos[mine] < 0).any():
            raise _Refutation(f"of {self.named(int(mine[0]))} no invocation is known")
        mine = mine[np.argsort(c.invoke_pos[mine], kind="stable")]
        over, sees = -1, 0
        for txn in mine.tolist():
            if c.invoke_pos[txn] < over:
                raise _Refutation(f"{self.named(txn)} began before its session's last was over")
            least[txn] = max(int(least[txn]), sees)
            if c.outcome[txn] == OK:
                over, sees = int(c.complete_pos[txn]), max(sees, int(self.place[txn]) + 1)

    def look(self, txn: int, low: int, snapshot: bool) -> None:
        """Is there a moment from which on all that the transaction read is as it was told?"""
        place = int(self.place[txn])
        high, told = place, self.c.outcome[txn] == OK
        own: dict[int, list[int]] = {}
        several: list[list[_Span]] = []
        for i in range(self.start[txn], self.start[txn + 1]):
            key = self.key[i]
            if self.kind[i] == WRITE:
                if snapshot and key not in own:
                    low = max(low, self._written_before(key, place) + 1)
                own.setdefault(key, []).append(self.value[i])
            elif self.kind[i] == READ and told and self.c.mop_known[i]:
                spans = self._spans(txn, i, own.get(key, []))
                if len(spans) == 1:
                    low, high = max(low, spans[0][0]), min(high, spans[0][1])
                elif spans:
                    several.append(spans)
                    low = _common(several, low)
            if low > high:
                raise _Refutation(
                    f"{self.named(txn)} cannot have seen one state: of the order it needs the "
                    f"first {low} commits and no more than {high} (it is at place {place}, key "
                    f"{self.c.key_names[key]!r})"
                )
        if (low := _common(several, low)) > high:
            raise _Refutation(
                f"{self.named(txn)} is at place {place}, and {low} commits must come before it"
            )

    def _written_before(self, key: int, place: int) -> int:
        """The place of the last commit before that has written the key, -1 where none has."""
        places = self.keys[key].places
        return places[bisect_left(places, place) - 1]

    def _spans(self, txn: int, read: int, own: list[int]) -> list[_Span]:
        """When the versions are there that a read may show; none where it shows what its own
        transaction wrote, alone."""
        key, value = self.key[read], self.value[read]
        here = self.keys.get(key) or _Key()
        if self.lists:
            c = self.c
            seen = c.elem[c.elem_start[read] : c.elem_start[read + 1]].tolist()
            ours = seen[len(seen) - len(own) :] if own else []
            length = len(seen) - len(own)
            whole = ours == own and length >= 0 and seen[:length] == here.values[:length]
            found = here.version(length) if whole else None
        elif own:
            if self.value[read] != own[-1]:
                raise _Refutation(f"{self.named(txn)} does not read what it has just written")
            return []
        elif len(lengths := self.at.get((key, value), [])) > 1:
            spans = self.spans.get((key, value))
            if spans is None:
                versions = [here.version(length) for length in lengths]
                spans = [here.span(v) for v in versions if v is not None]
                self.spans[key, value] = spans
            if spans:
                return spans
            found = None
        else:
            found = here.version(0 if value == NIL else lengths[0] if lengths else -1)
        if found is None:
            raise _Refutation(
                f"{self.named(txn)} reads of {self.c.key_names[key]!r} what no commit has left"
            )
        return [here.span(found)]


def _common(several: list[list[_Span]], low: int) -> int:
    """The first number of commits from `low` on that lies in a span of each; NEVER where
    none does."""
    at = -1
    while at != low:
        at = low
        for spans in several:
            n = bisect_left(spans, low, key=lambda span: span[1])
            low = max(low, spans[n][0]) if n < len(spans) else NEVER
    return low


def refutation(c: TxnColumns, lists: bool, model: str, order: Sequence[int]) -> str | None:
    """Why an order of commits does not prove that a history satisfies a model of PROVABLE; None
    where it does. `order` has positions in the columns; `lists` says that writes append.

    Pure Python: some six seconds for a million transactions of three micro-operations.
    """
    snapshot, between = PROVABLE[model]
    replay = _Replay(c, lists, order)
    try:
        replay.require_whole()
        replay.write()
        least = replay.since(snapshot, between).tolist()
        for txn in order:
            replay.look(int(txn), least[txn], snapshot)
    except _Refutation as why:
        return str(why)
    return None
