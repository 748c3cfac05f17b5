"""Anomalies in their smallest form, by the names that Elle gives them.

A gadget is a few transactions on keys and processes of their own, written as events in order:

    b0 ax1 ry      process 0 begins a transaction that appends 1 to x and reads y as empty
    b1 rx12        process 1 reads x as [1 2] (as 12 in a register history)
    e0  f0  n0     process 0 ends: ok, fail, or with nobody knowing
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from dstest.core.errors import ConfigError
from dstest.core.near import meant


@dataclass(frozen=True, slots=True)
class Step:
    """One event of a gadget. `mops` are given where a transaction begins."""

    kind: str
    process: int
    mops: tuple[tuple[str, str, Any], ...] = ()


_ORDERED: Final = {
    "G1c": "b0 rx1 e0 b1 ax1 e1",
    "G-single-item": "b0 ax1 e0 b1 rx e1 b2 rx1 e2",
    "G-nonadjacent-item": "b2 ax1 az1 b3 rz1 ry b0 ay1 e0 b1 rx e1 e2 e3 b4 rx1 ry1 e4",
    "G2-item": "b2 ax1 ry b0 ay1 e0 b1 rx e1 e2 b4 rx1 ry1 e4",
}
"""Processes 0 and 1 are one after the other; nothing else orders them."""

_LIST: Final = {
    "G0": "b0 ax1 ay2 b1 ax2 ay1 e0 e1 b2 rx12 ry12 e2",
    "G1a": "b0 ax1 b1 rx1 f0 e1",
    "G1b": "b0 ax1 ax2 b1 rx1 e0 e1",
    "G1c": "b0 ax1 ry1 b1 ay1 rx1 e0 e1",
    "G-single-item": "b0 ax1 ay1 b1 rx1 ry e0 e1 b2 ry1 e2",
    "G-nonadjacent-item": "b0 ax1 b1 ay1 b2 rx1 ry b3 ry1 rx e0 e1 e2 e3",
    "G2-item": "b0 rx ay1 b1 ry ax1 e0 e1 b2 rx1 ry1 e2",
    "lost-update": "b0 rx ax1 b1 rx ax2 e0 e1 b2 rx12 e2",
    "internal": "b0 rx ax1 rx b1 rx1 e0 e1",
    "garbage-read": "b0 rx7 e0",
    "duplicate-elements": "b0 ax1 e0 b1 rx11 e1",
    "incompatible-order": "b0 ax1 b1 ax2 b2 rx12 b3 rx21 e0 e1 e2 e3",
    "dirty-update": "b0 ax1 b1 ax2 f0 e1 b2 rx12 e2",
    "future-read": "b0 rx1 ax1 e0",
    "G0-realtime": "b0 ax1 e0 b1 ax2 e1 b2 rx21 e2",
    **{f"{name}-realtime": text for name, text in _ORDERED.items()},
}

_REGISTER: Final = {
    name: text.replace("a", "w")
    for name, text in _LIST.items()
    if name not in ("G0", "G0-realtime", "duplicate-elements", "incompatible-order")
    and name not in ("dirty-update", "future-read", "internal", "lost-update")
    and not name.startswith(("G-nonadjacent-item-", "G2-item-"))
} | {
    "internal": "b0 wx1 wx2 rx1 e0",
    "G0": "b0 ry1 wx1 wy2 b1 rx1 wx2 wy1 e0 e1",
    "G0-realtime": "b0 rx2 wx1 e0 b1 wx2 e1",
    "lost-update": "b0 rx wx1 b1 rx wx2 e0 e1",
    "cyclic-versions": "b0 rx2 wx1 b1 rx1 wx2 e0 e1",
    "G-nonadjacent-item-realtime": "b2 wx1 wz1 b3 rz1 ry b0 wy1 e0 b1 rx e1 e2 e3",
    "G2-item-realtime": "b2 wx1 ry b0 wy1 e0 b1 rx e1 e2",
}


def _sessions(text: str) -> str:
    """The same with what processes 0 and 1 did done by process 0 alone."""
    return " ".join(
        word[0] + "0" if word[0] in "befn" and word[1:] == "1" else word for word in text.split()
    )


def _with_sessions(gadgets: dict[str, str]) -> dict[str, str]:
    process = {
        name.replace("-realtime", "-process"): _sessions(text)
        for name, text in gadgets.items()
        if name.endswith("-realtime")
    }
    return {**gadgets, **process}


GADGETS: Final[dict[str, dict[str, str]]] = {
    "list-append": _with_sessions(_LIST),
    "rw-register": _with_sessions(_REGISTER),
    "register": {"nonlinearizable": "b0 wx1 e0 b1 wx2 e1 b2 rx1 e2"},
}
"""Gadgets by workload; the -process ones show where a strong session model is asked."""

NEED_WFR: Final = ("G0", "G0-process", "G0-realtime", "cyclic-versions")
"""rw-register gadgets that show where a transaction's write follows its read (`wfr-keys?`)."""

_SHORT: Final = {
    "G-single": "G-single-item",
    "G2": "G2-item",
    "G-nonadjacent": "G-nonadjacent-item",
}


def _mop(word: str, lists: bool) -> tuple[str, str, Any]:
    function, key, digits = word[0], word[1], word[2:]
    if function == "r":
        value: Any = [int(d) for d in digits] if lists else int(digits) if digits else None
        return "r", key, value
    return ("append" if function == "a" else "w"), key, int(digits)


def gadget(workload: str, name: str) -> list[Step]:
    """The events of a gadget. Raises ConfigError for a name that the workload does not have."""
    known = GADGETS[workload]
    text = known.get(_SHORT.get(name, name))
    if text is None:
        raise ConfigError(
            f"{workload} has no anomaly called {name!r} to inject",
            remedy=meant(name, sorted(known)),
        )
    steps: list[Step] = []
    for word in text.split():
        if word[0] in "befn":
            steps.append(Step(word[0], int(word[1:])))
            continue
        last = steps[-1]
        steps[-1] = Step(
            last.kind, last.process, (*last.mops, _mop(word, workload == "list-append"))
        )
    return steps


def parse_injections(texts: list[str]) -> dict[str, int]:
    """`NAME:COUNT`, or `NAME` for one; several may be separated by commas."""
    counts: dict[str, int] = {}
    for text in (part for t in texts for part in t.split(",") if part):
        name, _, count = text.partition(":")
        if count and not count.isdigit():
            raise ConfigError(f"{text!r} is no injection", remedy="give NAME:COUNT, as in G1c:2")
        counts[name] = counts.get(name, 0) + int(count or 1)
    return counts
