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
_DIRTY_WRITE: Final = FieldName("Dirty write")
_READ_SKEW: Final = FieldName("Read skew", ("all reads of a transaction from one snapshot",))
_LONG_FORK: Final = FieldName("Long fork", ("one order of commits that all snapshots follow",))

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
    **dict.fromkeys(("write-skew", "G2", "G2-item"), _SKEW),
    "G0": _DIRTY_WRITE,
    **dict.fromkeys(("read-skew", "fractured-read", "G-single"), _READ_SKEW),
    "long-fork": _LONG_FORK,
}

_BY_SIGN: Final = {
    "read-behind": _STALE,
    **dict.fromkeys(
        ("gone", "too-few", "transfers-gone", "promise-broken", "commit-undone"), _LOST
    ),
}

_BY_PATTERN: Final = {
    "split-brain": FieldName("Split brain"),
    "lost-update": _LOST,
}
"""Where neither kind nor sign says more."""


def field_name(pattern: Pattern, detections: Sequence[Detection]) -> FieldName:
    """The name by the first of these that has one, and what helps; those that are strongest come
    first."""
    named = [
        name
        for one in detections
        for name in (*(_BY_KIND.get(base_of(kind)) for kind in one.kinds), _BY_SIGN.get(one.sign))
    ]
    found = next((one for one in named if one is not None), _BY_PATTERN.get(pattern.id))
    if found is None:
        return FieldName(pattern.name, tuple(pattern.mitigations))
    return FieldName(found.name, found.helps or tuple(pattern.mitigations))
