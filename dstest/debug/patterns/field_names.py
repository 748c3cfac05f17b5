"""What a hypothesis is called in the field (Adya, Jepsen, Viotti and Vukolić), by what was found,
and what helps against just that. A pattern is wider than one name: `causal-violation` is a stale
read where a read showed what had been overwritten, and a broken session guarantee where one session
saw both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from dstest.debug.patterns.anomalies import base_of
from dstest.debug.patterns.model import Detection, Pattern


class FieldName(NamedTuple):
    """`name`, and what `helps`; nothing where the pattern says it well."""

    name: str
    helps: tuple[str, ...] = ()


_STALE: Final = FieldName(
    "Stale read",
    (
        "a setting of the client or the server that lets a follower answer by itself: leave it out",
        "read at the leader, or behind the index that it has confirmed to be committed",
    ),
)
_SESSION: Final = FieldName(
    "Session guarantee broken",
    ("hand the version that a session has seen to its next read, and wait until it is applied",),
)
_LOST: Final = FieldName(
    "Lost acknowledged write",
    (
        "acknowledge after a majority has it (on disk, where power may fail)",
        "elect only who has all that was acknowledged",
    ),
)
_LOST_UPDATE: Final = FieldName(
    "Lost update",
    (
        "refuse the second of two writers that read one version: snapshot isolation or more",
        "compare-and-set by version, or SELECT ... FOR UPDATE",
    ),
)
_SKEW: Final = FieldName(
    "Write skew", ("serializable isolation, or locks on what was read and not written",)
)
_G2: Final = FieldName(
    "Anti-dependency cycle (G2: write skew, or phantoms)",
    ("serializable isolation, or locks on what was read and not written, ranges included",),
)
_DIRTY_WRITE: Final = FieldName("Dirty write")
_READ_SKEW: Final = FieldName("Read skew", ("all reads of a transaction from one snapshot",))
_LONG_FORK: Final = FieldName("Long fork", ("one order of commits that all snapshots follow",))

_SPLIT: Final = FieldName("Split brain")
_TWICE: Final = FieldName(
    "Lock held twice",
    (
        "fencing tokens that the resource itself checks",
        "a lease by a clock that a pause does not stop, asked before each use",
    ),
)
_BY_KIND: Final = {
    **dict.fromkeys(("stale", "causal-stale-read"), _STALE),
    **dict.fromkeys(
        ("own-write-missed", "nonmonotonic-read", "nonmonotonic-write", "nonmonotonic-view"),
        _SESSION,
    ),
    **dict.fromkeys(
        ("lost", "lost-write", "lost-increment", "lost-transfer", "acknowledged-without-effect"),
        _LOST,
    ),
    "lost-update": _LOST_UPDATE,
    "write-skew": _SKEW,
    "G2": _G2,
    "G0": _DIRTY_WRITE,
    **dict.fromkeys(("read-skew", "fractured-read", "G-single"), _READ_SKEW),
    "long-fork": _LONG_FORK,
    **dict.fromkeys(
        ("overlapping-holds", "fencing-token-reused", "fencing-token-regressed"), _TWICE
    ),
}

_DIVERGED: Final = FieldName(
    "Committed entries differ",
    ("commit what a majority has on disk in the leader's own term, and never take it back",),
)

_BY_SIGN: Final = {
    **dict.fromkeys(("commits-differ", "conflicting-commits"), _DIVERGED),
    **dict.fromkeys(
        ("two-leaders", "two-claims", "two-primaries", "both-sides", "told-split"), _SPLIT
    ),
    "commits-alone": FieldName(
        "Committed without a majority", ("commit and acknowledge what a majority of all has",)
    ),
    "read-behind": _STALE,
    "told-lag": FieldName(
        "Replica falls behind",
        (
            "keep what a replica still needs (slots, retention), and alarm on its lag",
            "make it anew where what it needs is gone",
        ),
    ),
    **dict.fromkeys(
        ("gone", "too-few", "transfers-gone", "promise-broken", "commit-undone"), _LOST
    ),
}

_BY_PATTERN: Final = {
    "split-brain": _SPLIT,
    "lost-update": _LOST,
}
"""Where neither kind nor sign says more."""


def _of_kind(kind: str) -> FieldName | None:
    stale = kind.startswith("G-single") and kind.endswith("-realtime")
    return _STALE if stale else _BY_KIND.get(base_of(kind))


def field_name(pattern: Pattern, detections: Sequence[Detection]) -> FieldName:
    """The name by the first of these signs that has one, else by what checkers found, and what
    helps; those that are strongest come first. That logs differ is told only where nothing says how
    that came."""
    named = [_BY_SIGN.get(one.sign) for one in detections]
    named += [_of_kind(kind) for one in detections for kind in one.kinds]
    known = sorted((one for one in named if one is not None), key=_DIVERGED.__eq__)
    found = next(iter(known), _BY_PATTERN.get(pattern.id))
    if found is None:
        return FieldName(pattern.name, tuple(pattern.mitigations))
    return FieldName(found.name, found.helps or tuple(pattern.mitigations))
