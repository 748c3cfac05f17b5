"""Rows that transactions read by key and by predicates, as they are."""

from __future__ import annotations

from typing import Any


def matches(predicate: Any, value: Any) -> bool:
    if value is None:
        return False
    if predicate is True:
        return True
    if predicate[0] == "=":
        return bool(value == predicate[1])
    return bool(value % predicate[1] == predicate[2])


def run(mops: list[list[Any]], rows: dict[Any, Any]) -> list[Any]:
    """Executes micro-ops on `rows`; what the reads return."""
    returned: list[Any] = []
    for mop in mops:
        match mop:
            case ["r", key, *_]:
                returned.append(rows.get(key))
            case ["w" | "insert", key, value]:
                rows[key] = value
            case ["delete", key]:
                rows.pop(key, None)
            case ["rp", predicate, *_]:
                returned.append({k: v for k, v in rows.items() if matches(predicate, v)})
    return returned
