"""Many small histories at once, one JSON object per line in and out.

    {"name": "h1", "workload": "list-append", "models": ["serializable"],
     "opts": {"wfr-keys?": true}, "history": [{"type": "ok", "process": 0, ...}, ...]}
    -> {"name": "h1", "results": {"serializable": {"valid": true, ...}}}

The history is Jepsen's op maps, or our records of twelve keys. `opts` may be left out, and so may
`models` (strict-serializable then). What is wrong with a line, or with one model of it, is an
`{"error": ...}` in its place and touches nothing else; blank lines are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from checkers.txn import api, ingest
from checkers.txn.columns import TxnColumns
from dstest.core.errors import DstestError, Exit
from dstest.core.history import SCHEMA

Judge = Callable[[TxnColumns, str, list[str], dict[str, Any]], Any]
"""Columns, workload, models, options -> the answer."""

Seen = Callable[[Exit], Any]
Told = Callable[[Any], Any]
"""What a judge answered -> what is written of it; msgspec can encode it."""

_FIELD: Final = re.compile(rb'"(?:name|workload|models|opts|history)"\s*:')


def _require_once(raw: bytes) -> None:
    """Raises ValueError where the line names a field twice: nobody knows which one is meant."""
    fields = [name.rstrip(b": \t") for name in _FIELD.findall(raw)]
    if len(set(fields)) == len(fields) and b"\\" not in raw:
        return
    pairs: list[list[tuple[str, Any]]] = []

    def keep(inner: list[tuple[str, Any]]) -> dict[str, Any]:
        pairs.append(inner)
        return dict(inner)

    json.loads(raw, object_pairs_hook=keep)
    names = [name for name, _ in pairs[-1]] if pairs else []
    if twice := [name for name in _Line.__struct_fields__ if names.count(name) > 1]:
        raise ValueError(f"the line has {twice[0]!r} twice")


_FAULTS: Final = (DstestError, ValueError, KeyError, TypeError, RecursionError)
"""What a line can do to us; nothing of it concerns the lines after it."""


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """One history and what is asked of it. `history` stays as it was written."""

    workload: str
    history: msgspec.Raw
    name: Any = None
    models: list[str] = msgspec.field(default_factory=lambda: list(api.DEFAULT_MODELS))
    opts: dict[str, Any] = msgspec.field(default_factory=dict)


class _Header(msgspec.Struct):
    name: Any = None


_HEADER = msgspec.json.encode({"schema": SCHEMA}) + b"\n"


def _columns(history: msgspec.Raw) -> TxnColumns:
    """Op maps are read as they stand; records go through the reader of our files."""
    records = msgspec.json.decode(history, type=list[msgspec.Raw])
    first = msgspec.json.decode(records[0], type=dict[str, Any]) if records else {}
    if "op_type" in first and "invoke_ts" in first:
        lines = [msgspec.json.format(record, indent=-1) + b"\n" for record in records]
        return ingest.load(_HEADER + b"".join(lines), "dstest", threads=1)
    return ingest.load(bytes(history), "json", threads=1)


def _failure(error: Exception) -> dict[str, str]:
    said = error.message if isinstance(error, DstestError) else str(error)
    return {"error": said or type(error).__name__}


def _code(answer: Any) -> Exit:
    codes: dict[Any, Exit] = {True: Exit.PASS, False: Exit.FAIL}
    return codes.get(getattr(answer, "valid", None), Exit.NOT_PROVEN)


def _results(line: _Line, judge: Judge, seen: Seen, told: Told) -> dict[str, Any]:
    if not line.models:
        raise ValueError("no model is asked: leave models out, or name one")
    for name, value in line.opts.items():
        if name not in api.OPTIONS:
            raise ValueError(f"no option {name!r}; known: {', '.join(api.OPTIONS)}")
        if name.endswith("?") and not isinstance(value, bool):
            raise ValueError(f"option {name!r} is true or false")
    columns = _columns(line.history)
    results: dict[str, Any] = {}
    for model in line.models:
        try:
            answer = judge(columns, line.workload, [model], line.opts)
            results[model] = told(answer)
            seen(_code(answer))
        except _FAULTS as error:
            results[model] = _failure(error)
            seen(Exit.USAGE)
    return results


def _name_of(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text, type=_Header).name
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def run_batch(
    lines: Iterable[bytes | str],
    judge: Judge = api.check,
    seen: Seen = lambda code: None,
    told: Told = lambda answer: answer,
) -> Iterator[bytes]:
    """One line of JSON (without its newline) for each line that is not blank, in their order.

    `seen` is given the exit code that each answer would have alone; an error is Exit.USAGE.
    """
    for text in lines:
        raw = text.encode() if isinstance(text, str) else text
        if not raw.strip():
            continue
        try:
            line = msgspec.json.decode(raw, type=_Line)
            _require_once(raw)
            answer = {"name": line.name, "results": _results(line, judge, seen, told)}
        except _FAULTS as error:
            seen(Exit.USAGE)
            answer = {"name": _name_of(raw), **_failure(error)}
        yield msgspec.json.encode(answer)
