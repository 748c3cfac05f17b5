"""All anomalies of a kind together: how many, from when to when, at which nodes, on which keys.

Of a kind with thousands of anomalies only the first have a witness of their own; what is counted
here is of all of them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from dstest.core.check import FirstOf, Sightings, Spread
from dstest.core.history import FaultWindow, epochs_of
from dstest.core.op import Op, last_ns
from dstest.core.words import quoted

KEYS_MAX: Final = 8
"""Keys that are named, those with most anomalies."""

_OUTSIDE: Final = "none"


def epochs_met(ops: Iterable[Op], windows: list[FaultWindow], end_ns: int) -> list[str]:
    """The fault epochs that these operations overlap, each once; where no window tells, those that
    they are stamped with. `end_ns` is the end of the run."""
    found: dict[str, None] = {}
    for op in ops:
        stamped = [] if op.fault_epoch is None else [op.fault_epoch]
        found.update(dict.fromkeys(epochs_of(op, windows, end_ns) or stamped))
    return list(found)


class _Heals:
    """After the heal of which fault a moment comes, by the last one, while its effects last."""

    def __init__(self, windows: Iterable[FaultWindow]) -> None:
        healed = [w for w in windows if w.healed_ns is not None and w.landed != "no"]
        healed.sort(key=lambda w: (w.healed_ns or 0, w.epoch))
        self._heals = [w.healed_ns or 0 for w in healed]
        self._rest = [(w.until_ns, w.epoch) for w in healed]

    def __bool__(self) -> bool:
        return bool(self._heals)

    def before(self, at_ns: int) -> str | None:
        place = bisect_right(self._heals, at_ns)
        if not place:
            return None
        until, epoch = self._rest[place - 1]
        return epoch if until is None or at_ns <= until else None


class _Answers:
    """Answers, one of each anomaly."""

    def __init__(self, heals: _Heals) -> None:
        self._heals = heals
        self.after: dict[str, int] = {}
        self.times = array("q")
        self.outside = 0
        self.nodes: dict[str, int] = {}
        self.epochs: dict[str, int] = {}

    def add(self, op: Op, at: int) -> None:
        self.times.append(at)
        epoch, node = op.fault_epoch, op.node_seen
        if epoch:
            self.epochs[epoch] = self.epochs.get(epoch, 0) + 1
        else:
            self.outside += 1
            if (last := self._heals.before(at)) is not None:
                self.after[last] = self.after.get(last, 0) + 1
        if node is not None:
            self.nodes[node] = self.nodes.get(node, 0) + 1

    def told(self) -> Sightings | None:
        if not self.times:
            return None
        return Sightings(
            first_ns=min(self.times),
            last_ns=max(self.times),
            nodes=dict(self.nodes),
            epochs=dict(self.epochs),
            outside=self.outside,
            after=dict(self.after) if self._heals else msgspec.UNSET,
            over_time=Sightings.parts_of(self.times),
        )


class _Kind:
    def __init__(self, heals: _Heals) -> None:
        self.told, self.known = _Answers(heals), _Answers(heals)
        self.nowhere = 0
        self.keys: Counter[str | tuple[str]] = Counter()
        self.names: dict[str | tuple[str], Any] = {}


class Spreads:
    """What a checker has found so far, by kind of anomaly."""

    def __init__(self, windows: Iterable[FaultWindow] = ()) -> None:
        self._heals = _Heals(windows)
        self.counts: Counter[str] = Counter()
        self._kinds: dict[str, _Kind] = {}

    def add(self, kind: str, key: Any, witness: Sequence[Op], telling: Op | None) -> None:
        """One more; `telling` is the operation of its witness whose answer gave it away."""
        self.counts[kind] += 1
        row = self._kinds.get(kind)
        if row is None:
            row = self._kinds[kind] = _Kind(self._heals)
        if key is not None:
            name = key if type(key) is str else (quoted(key),)
            row.keys[name] += 1
            row.names.setdefault(name, key)
        if telling is None:
            row.nowhere += 1
            return
        at = last_ns(telling)
        row.told.add(telling, at)
        first: Op | None = None
        for op in witness:
            end = op.complete_ts
            # As `op.outcome is Outcome.OK`, which is too slow for hundreds of thousands.
            ok = end is not None and op.error is None and not op.timeout_marker
            if ok and op is not telling and end is not None and end <= at:
                first, at = op, end
        if first is not None:
            row.known.add(first, at)

    @property
    def stats(self) -> dict[str, Any]:
        """Counts by kind, and by kind and fault epoch of the answer that gave it away; empty where
        nothing was found."""
        if not self.counts:
            return {}
        by_epoch: dict[str, dict[str, int]] = {}
        for kind, row in self._kinds.items():
            outside = row.told.outside + row.nowhere
            by_epoch[kind] = {**row.told.epochs, **({_OUTSIDE: outside} if outside else {})}
        return {"anomalies": dict(self.counts), "anomalies_by_epoch": by_epoch}

    def by_kind(
        self, first_of: Callable[[str], FirstOf] = lambda kind: ""
    ) -> dict[str, Spread] | msgspec.UnsetType:
        """Of each kind; UNSET where nothing was found. `first_of` is asked by kind."""
        if not self.counts:
            return msgspec.UNSET
        return {
            kind: Spread(
                count=self.counts[kind],
                first_of=first_of(kind),
                told=row.told.told(),
                known=row.known.told(),
                keys=[(row.names[name], n) for name, n in row.keys.most_common(KEYS_MAX)],
                keys_total=len(row.keys),
            )
            for kind, row in sorted(self._kinds.items())
        }
