"""What can be asked of any SQL database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dstest.core.protocols import Option

__all__ = ["ISOLATION", "SQL_OPTIONS"]

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
    "writes": Option(
        type=str,
        default="upsert",
        choices=("upsert", "read-then-write"),
        help="how a value is put or appended: in one statement, or read first and written back",
    ),
}
