"""What is said of columns under every model that needs no real time."""

from __future__ import annotations

from typing import Any

from checkers.txn import api

MODELS = (
    "read-committed", "read-atomic", "causal-cerone", "snapshot-isolation", "serializable",
    "strong-session-read-committed", "strong-session-read-atomic", "strong-session-causal",
    "strong-session-snapshot-isolation", "strong-session-serializable",
)  # fmt: skip


def verdicts(columns: Any) -> dict[str, Any]:
    return {m: api.check(columns, "rw-register", [m]).valid for m in MODELS}
