"""What proves that the end of a member's write-ahead log was cut off: for `bit-flip`, `what=tail`.

Injector signal: where the log ended before and after the cut, by its own records; what was
preallocated behind them holds nothing, and to lose only that does not count. Victim signal: the
server says in its own log that it starts with a log which ends before an entry that it had applied,
and before the last entry that its file held. What etcd then does depends on who leads: a leader
that counts on the lost entries makes it panic, a new one feeds it anew. Both count: it has started
on the short log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dstest.core.evidence import LandingRecord, Signal
from nemeses.base.member_fault import signal
from nemeses.member.listings import Listing


def injector(record: LandingRecord, states: Mapping[str, Mapping[str, Any]]) -> Signal:
    """The file as it was, as it was left, and as it is; `states` as `flipped` says, per target."""
    problems, good = [], []
    known = {n: s for n, s in states.items() if s.get("at") is not None}
    for name in record.targets:
        state = known.get(name)
        if state is None:
            problems.append(f"{name}: nothing was cut off")
            continue
        bytes_gone, entries_gone = state["end"] - state["at"], state["last"] - state["kept"]
        if bytes_gone <= 0 or entries_gone <= 0:
            problems.append(f"{name}: what was cut off held nothing")
        if state["sha256_now"] == state["sha256"]:
            problems.append(f"{name}: its log is what it was before")
        good.append(
            f"{name}: {bytes_gone:,} of {state['end']:,} bytes of its log are gone, from "
            f"{state['at']:,} on, with {entries_gone:,} entries (sha256 "
            f"{state['cut_off_sha256'][:12]})"
        )
    return signal(
        "end of the write-ahead log, and size of its file",
        {n: [s["end"], s["size"]] for n, s in known.items()},
        {n: [s["at"], s["size_now"]] for n, s in known.items()}
        or dict.fromkeys(record.targets, "as before"),
        problems,
        "; ".join(good),
    )


def victim(record: LandingRecord, states: Mapping[str, Mapping[str, Any]]) -> Signal:
    """The last entry that each server started with, against what it had applied and stored."""
    applied, starts = record.facts["applied_before"], record.facts["starts"]
    lines = record.facts["corruption_lines"]
    problems, good = [], []
    first = {n: next(iter(starts[n]), None) for n in record.targets}
    for name in record.targets:
        start, had, held = first[name], applied.get(name), states[name].get("last")
        if start is None or had is None:
            problems.append(f"{name} has not said with which log it starts, or started")
        elif held is None:
            problems.append(
                f"{name} starts with entry {start}, had {had} applied; its log was not cut"
            )
        elif start >= min(had, held):
            problems.append(f"{name} starts with entry {start}, had {had} applied, {held} stored")
        else:
            told = "; ".join(line[:200] for line in lines[name]) or "nothing about it"
            good.append(f"{name} starts with entry {start}, had {had} applied, and says: {told}")
    return signal(
        "entry of the log that each server had applied, and the last that it starts with",
        {n: applied.get(n) for n in record.targets},
        first,
        problems,
        "; ".join(good),
    )


def not_back(name: str, state: Mapping[str, Any], listing: Listing) -> list[str]:
    """What is missing: the end of the log, or another member in the place of this one."""
    if state["put_back"]:
        same = state["sha256"] == state["sha256_now"]
        return [] if same else [f"{name}: {state['path']} is not what it was before"]
    forgetful = f"{int(state['member']):x}"
    return [
        f"{node} still lists the member of {name} that forgot"
        for node, row in listing.items()
        if forgetful in (row or {})
    ]
