"""Stretches of time in which a fault stood, and which of them explain an alert of a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.evidence import LandingRecord
from dstest.core.protocols import NemesisTraits
from dstest.core.run_meta import RunMeta
from dstest.logs.windows import Window, Windows, windows_of_run


class FaultWindow(msgspec.Struct, frozen=True, kw_only=True):
    """From its injection until it was healed and the load went well again. Run nanoseconds; an end
    that is None never came. `proven`: it has landed. `nodes` are those that it was done to, none
    for all."""

    fault_id: str
    nemesis: str
    start_ns: int
    end_ns: int | None
    proven: bool
    nodes: list[str]


class Stood(NamedTuple):
    """A fault that stood in a stretch: has it landed, and does it explain what was found then?"""

    fault_id: str
    proven: bool
    explains: bool


class Faults:
    """The faults of a run, by the rule by which its logs are judged as well
    (`dstest.logs.windows`): one explains what is about one of its own nodes, and where no node is
    named, all."""

    def __init__(self, every: Sequence[Window] = ()) -> None:
        self._windows = [(window, Windows([window], known=True)) for window in every]

    @property
    def windows(self) -> list[FaultWindow]:
        """In order of their beginning."""
        found = [
            FaultWindow(
                fault_id=window.id,
                nemesis=window.nemesis,
                start_ns=window.start_ns or 0,
                end_ns=window.until_ns,
                proven=window.landed,
                nodes=sorted(window.nodes),
            )
            for window, _ in self._windows
        ]
        return sorted(found, key=lambda window: window.start_ns)

    @property
    def first_ns(self) -> int | None:
        """When the first one began; None where there was none."""
        return min((window.start_ns for window in self.windows), default=None)

    def stood(self, node: str, start_ns: int, end_ns: int) -> list[Stood]:
        """Those that overlap a stretch, for what was found then of a node; empty: the cluster."""
        middle_ns, half_ns = (start_ns + end_ns) // 2, (end_ns - start_ns + 1) // 2
        return [
            Stood(window.id, window.landed, alone.judged(middle_ns, half_ns, (node,)).expected)
            for window, alone in self._windows
            if window.holds(middle_ns, half_ns)
        ]

    def ended(self, node: str, start_ns: int, end_ns: int) -> list[tuple[str, int, int]]:
        """(id, from, to) of what lies in a stretch of proven faults that end this node itself, from
        their injection until they were healed."""
        found = []
        for window, _ in self._windows:
            if not window.landed or (window.nodes and node not in window.nodes):
                continue
            begin = start_ns if window.start_ns is None else max(start_ns, window.start_ns)
            end = end_ns if window.healed_ns is None else min(end_ns, window.healed_ns)
            if begin < end and _ends_nodes(window.nemesis):
                found.append((window.id, begin, end))
        return found


def _ends_nodes(nemesis: str) -> bool:
    try:
        return NemesisTraits.of(registry.load("nemeses", nemesis)).restarts_nodes
    except ConfigError:
        return False


def faults_of(
    records: Sequence[LandingRecord],
    meta: RunMeta,
    last_ns: int,
    after_heal_s: float,
    timeout_ns: int = 0,
) -> Faults:
    """Of a run's own words. `last_ns` is when its last operation ended. What was asked while a
    fault stood ends a timeout later at the latest; of a run that goes on nobody knows yet when the
    load went well again, and a fault is taken to show for `after_heal_s`."""
    settling_ns = int(after_heal_s * 1e9) if meta.recoveries is None else 0
    return Faults(
        [
            window
            if window.until_ns is None
            else msgspec.structs.replace(
                window, until_ns=window.until_ns + settling_ns + timeout_ns
            )
            for window in windows_of_run(records, meta, last_ns).every
            if window.nemesis
        ]
    )


def unwell_ns_of(records: Sequence[LandingRecord], meta: RunMeta) -> int | None:
    """When the last fault was healed, where the load never went well again; None where it did, and
    where another fault came before it could."""
    recoveries = meta.recoveries or ()
    if not recoveries or recoveries[-1].settled_ns is not None:
        return None
    healed_ns = recoveries[-1].healed_ns
    begun = [one.injected_at for one in records if one.injected_at is not None]
    return healed_ns if max(begun, default=0) <= healed_ns else None
