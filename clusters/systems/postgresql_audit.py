"""What PostgreSQL has committed, in that order (`-o audit=yes`): changes of rows as logical
decoding tells them from the write-ahead log (PostgreSQL 15, chapter 49; the plug-in test_decoding,
F.43), from before the load on.

    {"at": 1, "table": "registers_0", "change": "INSERT", "row": {"k": "0-1", "v": 3}}
    {"at": 2, "changes": 2}                            of several rows, or a deletion
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from clusters.supervise.applied import ValuesApplied
from dstest.core.protocols import Effect

_SLOT: Final = "dstest_audit"
BEGIN: Final = f"SELECT pg_create_logical_replication_slot('{_SLOT}', 'test_decoding')"
_MANY: Final = 20_000
"""At least so many rows at once: transactions are told whole."""

NEXT: Final = (
    f"SELECT data FROM pg_logical_slot_get_changes('{_SLOT}', NULL, {_MANY}, 'include-xids', 'off')"
)

_CHANGE: Final = re.compile(
    r"table public\.(\w+): (INSERT|UPDATE|DELETE|TRUNCATE): (.*)", re.DOTALL
)
_COLUMN: Final = re.compile(r"(\w+)\[(?:[^\[\]]|\[\])*\]:('(?:[^']|'')*'|\S+)")
_INTEGER: Final = re.compile(r"-?\d+")
_KINDS: Final[Mapping[str, str]] = {"registers": "write", "elements": "add"}
_OURS: Final = frozenset({"health"})
"""Tables in which we ask whether the server writes."""


class PostgresqlEffects(ValuesApplied):
    """Rows of registers and of sets."""

    file = "commits.jsonl"
    first = 1

    def effect_of(self, record: dict[str, Any]) -> tuple[int, Effect | None]:
        """A line: the number of its commit, and the row."""
        index, row = int(record["at"]), record.get("row", {})
        op_type = _KINDS.get(record.get("table", "").rpartition("_")[0])
        if op_type is None or "v" not in row:
            return index, None
        return index, Effect(
            index=index, op_type=op_type, key=row["k"], input=row["v"], result=None
        )


def lines(rows: Sequence[str], number: int) -> tuple[list[bytes], int]:
    """Of what test_decoding tells: a line for each commit that changed a row of a client's table;
    the number of the last one. `number` is that of the commit before."""
    told, changes = [], list[dict[str, Any]]()
    for text in rows:
        if text == "BEGIN":
            changes = []
        elif text != "COMMIT":
            changes += _change(text)
        elif changes:
            number += 1
            whole = len(changes) == 1 and changes[0]["change"] in ("INSERT", "UPDATE")
            line = {"at": number, **(changes[0] if whole else {"changes": len(changes)})}
            told.append(msgspec.json.encode(line) + b"\n")
    return told, number


def _change(text: str) -> list[dict[str, Any]]:
    """None of a table of ours."""
    if (found := _CHANGE.match(text)) is None or found[1] in _OURS:
        return []
    row = {name: _value(given) for name, given in _COLUMN.findall(found[3]) if name in ("k", "v")}
    return [{"table": found[1], "change": found[2], "row": row}]


def _value(text: str) -> Any:
    if text.startswith("'"):
        return text[1:-1].replace("''", "'")
    return None if text == "null" else int(text) if _INTEGER.fullmatch(text) else text
