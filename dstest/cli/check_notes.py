"""What `dstest check` says besides the answer: what it took for granted about a foreign history."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from msgspec.structs import replace

from dstest.core.history import INITIAL
from dstest.store.jepsen_keys import NOT_READ

if TYPE_CHECKING:
    from dstest.core.check import CheckResult
    from dstest.core.history import Header

__all__ = ["noted"]


def noted(result: CheckResult, header: Header, initial: str | None) -> CheckResult:
    """The answer, with the initial state that it holds for, and the fields that nobody read."""
    notes, stats = [], dict(result.stats)
    if INITIAL in header.options:
        stats[INITIAL] = header.options[INITIAL]
        if initial is None and header.source is not None:
            told = json.dumps(header.options[INITIAL])
            notes.append(f"every key starts as {told}, as in such logs; --initial says otherwise")
    unread = {
        name.removeprefix(NOT_READ): n
        for name, n in header.counters.items()
        if name.startswith(NOT_READ)
    }
    if unread:
        stats["fields_not_read"] = unread
        said = ", ".join(f"{name} ({n:,} events)" for name, n in sorted(unread.items()))
        notes.append(f"fields that nobody read: {said}")
    if not notes and stats == result.stats:
        return result
    reason = "; ".join(filter(None, [result.reason, *notes])) or None
    return replace(result, reason=reason, stats=stats)
