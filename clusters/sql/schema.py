"""The tables of all workloads, made once before the load."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, Final

from clusters.sql.dialect import Dialect

KEYED: Final = ("registers", "lists", "counters", "elements", "members", "views", "pairs", "rows")
"""Kinds of tables of which there are several, with keys spread over them."""

READ_BY: Final[Mapping[str, str]] = {"key": "k", "index": "i", "scan": "s"}
"""Option -> the column by which registers and lists are looked up; each holds the key."""

LOOKED_UP: Final = ("registers", "lists")

_COLUMNS: Final[Mapping[str, str]] = {
    "registers": "k VARCHAR(64) PRIMARY KEY, v BIGINT",
    "lists": "k VARCHAR(64) PRIMARY KEY, v {text}",
    "counters": "k VARCHAR(64) PRIMARY KEY, v BIGINT NOT NULL",
    "elements": "k VARCHAR(64) NOT NULL, v BIGINT NOT NULL",
    "members": "k VARCHAR(64) NOT NULL, m VARCHAR(64) NOT NULL, v BIGINT, PRIMARY KEY (k, m)",
    "views": "k VARCHAR(64) PRIMARY KEY, v BIGINT NOT NULL, touched BIGINT DEFAULT 0",
    "pairs": "id BIGINT PRIMARY KEY, k VARCHAR(64) NOT NULL, v BIGINT NOT NULL",
    "rows": "g VARCHAR(64) NOT NULL, k BIGINT NOT NULL, v BIGINT NOT NULL, PRIMARY KEY (g, k)",
}


def table_of(kind: str, key: Any, tables: int) -> str:
    """The table that holds this key."""
    return f"{kind}_{zlib.crc32(str(key).encode()) % tables}"


def tables_of(options: Mapping[str, Any]) -> list[str]:
    """All tables that clients use."""
    return [f"{kind}_{i}" for kind in KEYED for i in range(options["tables"])] + ["accounts"]


def schema(dialect: Dialect, options: Mapping[str, Any]) -> list[str]:
    """Statements that make all tables, and what stands in them at the start."""
    made, indexed = [], [("elements", "k"), ("pairs", "k"), ("rows", "v")]
    column = READ_BY[options["read_by"]]
    for kind in KEYED:
        columns = _COLUMNS[kind].replace("{text}", dialect.text)
        if kind in LOOKED_UP and column not in columns.split():
            columns += f", {column} VARCHAR(64) GENERATED ALWAYS AS (k) STORED"
        made += [f"CREATE TABLE {kind}_{i} ({columns})" for i in range(options["tables"])]
    if options["read_by"] == "index":
        indexed += [(kind, column) for kind in LOOKED_UP]
    made += [
        f"CREATE INDEX {kind}_{i}_{name} ON {kind}_{i} ({name})"
        for kind, name in indexed
        for i in range(options["tables"])
    ]
    made += [dialect.sequence, "CREATE TABLE accounts (id INT PRIMARY KEY, v BIGINT NOT NULL)"]
    balance = options.get("bank_balance", 0)
    rows = [f"({account}, {balance})" for account in range(options.get("bank_accounts", 0))]
    return [*made, f"INSERT INTO accounts VALUES {', '.join(rows)}"] if rows else made
