"""The types of anomalies that checkers of this distribution find, for whoever names one."""

from __future__ import annotations

from typing import Final

from checkers.sessions import GUARANTEES
from checkers.txn.models import ANOMALIES

__all__ = ["KINDS"]

_HISTORIES: Final = """
causal-reverse divergence duplicate duplicated failed-but-applied fencing-token-regressed
fencing-token-reused future-read incompatible-order invariant-violated long-fork lost lost-update
negative-value nonlinearizable nonmonotonic nonmonotonic-send nonmonotonic-view overlapping-holds
phantom reordered skipped slo-missed stale starved-group thin-air-read unexpected unrejected
version-conflict write-co-init-read write-co-read
lost-increment non-repeatable-read phantom-increment read-skew
lost-transfer missing-account nil-balance phantom-transfer unexpected-account wrong-total
duplicated-event event-conflict missed-event phantom-event resumed-too-early unordered-event
early-poll garbage-read inconsistent-offsets int-duplicate lost-write nonmonotonic-poll poll-skip
"""
_TRANSACTIONS: Final = "empty-transaction-graph"
_LOGS: Final = "assertion corruption fatal panic race signal"

KINDS: Final = frozenset(
    [*f"{_HISTORIES} {_TRANSACTIONS} {_LOGS}".split(), *ANOMALIES, *GUARANTEES.values()]
)
