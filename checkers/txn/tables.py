"""The lattice of consistency models as tables; `models` says what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

MODELS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        # of one object, or of sessions
        "monotonic-reads": (),
        "monotonic-writes": (),
        "read-your-writes": (),
        "writes-follow-reads": (),
        "PRAM": ("monotonic-reads", "monotonic-writes", "read-your-writes"),
        "causal": ("PRAM", "writes-follow-reads"),
        "sequential": ("causal",),
        "linearizable": ("sequential",),
        # of transactions
        "1SR": (),
        "view-serializable": (),
        "read-uncommitted": (),
        "read-committed": ("read-uncommitted",),
        "monotonic-atomic-view": ("read-committed",),
        "read-atomic": ("monotonic-atomic-view",),
        "causal-cerone": ("read-atomic",),
        "prefix": ("causal-cerone",),
        "update-atomic": ("read-atomic",),
        "parallel-snapshot-isolation": ("causal-cerone", "update-atomic"),
        "cursor-stability": ("read-committed",),
        "monotonic-view": ("read-committed",),
        "monotonic-snapshot-read": ("read-committed",),
        "consistent-view": ("cursor-stability", "monotonic-view"),
        "forward-consistent-view": ("consistent-view",),
        "update-serializable": ("forward-consistent-view",),
        "repeatable-read": ("cursor-stability", "monotonic-atomic-view"),
        "snapshot-isolation": (
            "forward-consistent-view",
            "monotonic-snapshot-read",
            "parallel-snapshot-isolation",
            "prefix",
        ),
        "serializable": (
            "repeatable-read",
            "snapshot-isolation",
            "update-serializable",
            "view-serializable",
        ),
        # with the order of each session
        "session-serializable": ("1SR",),
        "strong-session-read-uncommitted": ("read-uncommitted",),
        "strong-session-read-committed": ("read-committed", "strong-session-read-uncommitted"),
        "strong-session-monotonic-atomic-view": (
            "monotonic-atomic-view",
            "strong-session-read-committed",
        ),
        "strong-session-read-atomic": ("read-atomic", "strong-session-monotonic-atomic-view"),
        "strong-session-causal": ("causal-cerone", "strong-session-read-atomic"),
        "strong-session-snapshot-isolation": ("snapshot-isolation", "strong-session-causal"),
        "strong-session-serializable": ("serializable", "strong-session-snapshot-isolation"),
        # with real time
        "strong-read-uncommitted": ("strong-session-read-uncommitted",),
        "strong-read-committed": ("strong-read-uncommitted", "strong-session-read-committed"),
        "strong-snapshot-isolation": (
            "strong-read-committed",
            "strong-session-snapshot-isolation",
        ),
        "strong-serializable": (
            "linearizable",
            "session-serializable",
            "strong-session-serializable",
            "strong-snapshot-isolation",
        ),
    }
)
"""Model -> the models directly below it."""

OWN: Final = frozenset(
    {
        "strong-session-monotonic-atomic-view",
        "strong-session-read-atomic",
        "strong-session-causal",
    }
)
"""Models that Elle has no name for."""

ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "PL-1": "read-uncommitted",
        "PL-2": "read-committed",
        "PL-CS": "cursor-stability",
        "PL-2L": "monotonic-view",
        "PL-MSR": "monotonic-snapshot-read",
        "PL-2+": "consistent-view",
        "PL-FCV": "forward-consistent-view",
        "PL-SI": "snapshot-isolation",
        "PL-2.99": "repeatable-read",
        "PL-3U": "update-serializable",
        "PL-3": "serializable",
        "PL-SS": "strong-serializable",
        "conflict-serializable": "serializable",
        "transactional-causal": "strong-session-causal",
        "strict-serializable": "strong-serializable",
        "strong-PL-1": "strong-read-uncommitted",
        "strong-PL-2": "strong-read-committed",
        "strong-session-PL-1": "strong-session-read-uncommitted",
        "strong-session-PL-2": "strong-session-read-committed",
    }
)
"""Other spellings of the same model."""

PROSCRIBES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "read-uncommitted": "G0 PL-1-cycle-exists cyclic-versions duplicate-elements garbage-read",
        "read-committed": "G1 PL-2-cycle-exists",
        "monotonic-view": "G-monotonic",
        "monotonic-snapshot-read": "G-MSR",
        "cursor-stability": "G-cursor lost-update",
        "monotonic-atomic-view": "non-monotonic-read",
        "read-atomic": "fractured-read internal",
        "causal-cerone": "causal-stale-read",
        "update-atomic": "lost-update",
        "consistent-view": "G-single G-single-item",
        "forward-consistent-view": "G-SIb",
        "update-serializable": "G-update",
        "repeatable-read": "G2-item PL-2.99-cycle-exists no-serial-order",
        "snapshot-isolation": "G-SI G-nonadjacent PL-SI-cycle-exists no-snapshot-order",
        "serializable": "G2 PL-3-cycle-exists predicate-read-miss",
        "strong-session-read-uncommitted": "G0-process strong-session-PL-1-cycle-exists",
        "strong-session-read-committed": "G1c-process strong-session-PL-2-cycle-exists",
        "strong-session-monotonic-atomic-view": "non-monotonic-read-process",
        "strong-session-read-atomic": "fractured-read-process",
        "strong-session-causal": "causal-stale-read-process",
        "strong-session-snapshot-isolation": (
            "G1-process G-nonadjacent-process no-snapshot-order-process"
            " strong-session-snapshot-isolation-cycle-exists"
        ),
        "strong-session-serializable": (
            "G2-process no-serial-order-process strong-session-serializable-cycle-exists"
        ),
        "strong-read-uncommitted": "G0-realtime strong-PL-1-cycle-exists",
        "strong-read-committed": "G1c-realtime strong-PL-2-cycle-exists",
        "strong-snapshot-isolation": (
            "G1-realtime G-nonadjacent-realtime no-snapshot-order-realtime"
            " strong-snapshot-isolation-cycle-exists"
        ),
        "strong-serializable": "G2-realtime PL-SS-cycle-exists no-serial-order-realtime",
    }
)
"""What a model rules out beyond the models that it implies; whatever implies one of these is
ruled out as well."""


UNTESTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "monotonic-atomic-view": "transactions that stop seeing what they saw a part of",
        "strong-session-monotonic-atomic-view": "the same along a session",
        "monotonic-view": "G-monotonic",
        "monotonic-snapshot-read": "G-MSR",
        "read-atomic": "fractured reads",
        "causal-cerone": "fractured reads and reads that forget their causes",
        "strong-session-read-atomic": "fractured reads",
        "strong-session-causal": "fractured reads and reads that forget their causes",
        "prefix": "reads that are no prefix of one order of commits",
        "update-atomic": "fractured reads",
        "parallel-snapshot-isolation": "fractured reads and reads that forget their causes",
        "forward-consistent-view": "G-SIb",
        "update-serializable": "G-update",
    }
)
"""Models whose characteristic anomalies an inference of version orders does not look for, and which
these are. What is found of their other anomalies rules them out; a clean history is unknown under
them, unless it is one of registers, of which more is decided (`exact`)."""
