"""Logs that are held against a specification: a JSON object a line, in the order of what was done.

    {"kind": "append", "entry": 7}
    {"kind": "gap"}

A `gap` stands where what wrote the log ended and began again. A last line that was cut off is left
out: what wrote it may have ended there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dstest.core.errors import ConfigError, HistoryError
from dstest.spec.mapping import Event


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, for `object_pairs_hook`. Raises ValueError for a name that stands twice:
    which of them is meant?"""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def cut_off(path: Path) -> bool:
    """Does the last line lack its end, so that it is left out?"""
    last = path.read_bytes().rpartition(b"\n")[2]
    try:
        json.loads(last or b"{}")
    except (ValueError, RecursionError):
        return True
    return False


def read_log(path: Path, kind: str = "kind") -> Iterator[Event]:
    """`kind` is the field that says of what kind a line is.

    Raises HistoryError for a line that is no JSON object or says no kind, and for a file that
    cannot be read.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror}", remedy="name a file of lines") from None
    rows = text.split(b"\n")
    for number, row in enumerate(rows, 1):
        if not row.strip():
            continue
        try:
            line = json.loads(row, object_pairs_hook=once)
        except (ValueError, RecursionError):
            if number == len(rows):
                return
            line = None
        if not isinstance(line, dict):
            raise HistoryError(
                f"{path}, line {number}: no JSON object", remedy="one a line, whole lines only"
            )
        try:
            yield Event.of(line, kind)
        except ConfigError as error:
            raise HistoryError(f"{path}, line {number}: {error}", remedy=error.remedy) from None
