"""What can be asked of any SQL database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from clusters.sql.schema import READ_BY
from dstest.core.protocols import Option

ISOLATION: Final[Mapping[str, str]] = {
    "serializable": "SERIALIZABLE",
    "repeatable-read": "REPEATABLE READ",
    "read-committed": "READ COMMITTED",
    "read-uncommitted": "READ UNCOMMITTED",
}
"""Option -> the standard's name."""

SQL_OPTIONS: Final[Mapping[str, Option]] = {
    "isolation": Option(
        type=str,
        default="serializable",
        choices=tuple(ISOLATION),
        help="level of all transactions; `--model` says what it is held to",
    ),
    "tables": Option(
        type=int, default=3, least=1, most=50, help="tables over which keys are spread"
    ),
    "read_by": Option(
        type=str,
        default="key",
        choices=tuple(READ_BY),
        help="how registers and lists are looked up: by primary key, by a second index, by a scan",
    ),
    "writes": Option(
        type=str,
        default="upsert",
        choices=("upsert", "read-then-write"),
        help="how a value is put or appended: in one statement, or read first and written back",
    ),
}
