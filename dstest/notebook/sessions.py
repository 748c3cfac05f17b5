"""Other tools' sessions of transactions as operations, for who wants to look at them.

Such a file has no times. An operation is given its place in its session instead, so that the order
within a session is right; between sessions the places say nothing. Where a file does not tell the
place of a transaction, as of aborted ones, its process is -1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from checkers.txn.columns import FAIL, OK, WRITE
from checkers.txn.sessions.formats import READERS
from dstest.core.history import Header
from dstest.core.limits import UNPACKED_BYTES_MAX
from dstest.core.op import Op


def _plain(values: Any) -> list[Any]:
    return list(values.tolist() if hasattr(values, "tolist") else values)


def read_sessions(path: Path, fmt: str) -> tuple[Header, list[Op]]:
    """A header and a `txn` per transaction. Raises HistoryError."""
    found, _ = READERS[fmt].load(path, UNPACKED_BYTES_MAX)
    outcomes, sessions = _plain(found.outcome), _plain(found.session)
    asked: list[list[Any]] = [[] for _ in outcomes]
    answered: list[list[Any]] = [[] for _ in outcomes]
    rows = zip(
        _plain(found.kind), _plain(found.key), _plain(found.value), _plain(found.txn),
        _plain(found.null), strict=True,
    )  # fmt: skip
    for kind, key, value, txn, null in rows:
        writes = kind == WRITE
        asked[txn].append(["w", key, value] if writes else ["r", key, None])
        seen = value if writes or (outcomes[txn] == OK and not null) else None
        answered[txn].append(["w" if writes else "r", key, seen])
    places: dict[int, int] = {}
    ops = []
    for txn, (session, outcome, name) in enumerate(
        zip(sessions, outcomes, _plain(found.name), strict=True)
    ):
        place = places[session] = places.get(session, -1) + 1
        ops.append(
            Op(
                op_id=name,
                process_id=session,
                invoke_ts=place,
                complete_ts=place if outcome in (OK, FAIL) else None,
                op_type="txn",
                input=asked[txn],
                output=answered[txn] if outcome == OK else None,
                error="aborted" if outcome == FAIL else None,
                timeout_marker=outcome not in (OK, FAIL),
            )
        )
    return Header(workload="rw-register", source=f"{fmt}: {path}"), ops
