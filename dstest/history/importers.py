"""Histories of any known notation, found out by looking, gzipped or not.

| format | looks like |
|---|---|
| dstest | `{"schema":"dstest.history/1",...}` and one operation per line |
| edn    | `{:process 0, :type :invoke, ...}`, one after another or in one vector |
| json   | `{"process": 0, "type": "invoke", ...}`, one per line or in one array |
| log    | `INFO  jepsen.util - 0 :invoke :read nil`, `0<tab>:invoke<tab>:read<tab>nil` |

Jepsen's words for operations that have other names here get ours (`as_ours`).
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from dstest.core.errors import ConfigError, HistoryError
from dstest.core.formats import AUTO, OPERATIONS, REMEDY, binary
from dstest.core.history import SCHEMA, History
from dstest.core.limits import UNPACKED_BYTES_MAX
from dstest.core.near import meant
from dstest.core.op import Op, Outcome
from dstest.history import jepsen
from dstest.history.jepsen_order import failed_cas_differed, is_log
from dstest.history.jepsen_words import cut_off, unfinished
from dstest.history.jsonl import read_stream

_MOVES: Final = frozenset({"inc", "dec"})

_OURS_WITHOUT_SCHEMA = r'\{\s*"(op_id|process_id|run|workload|model|counters|nodes|seed|vantage)"'

_CHUNK_BYTES = 1 << 20

_HEAD_BYTES = 1 << 16
"""Of a file, to see what it is."""


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_counter(ops: list[Op]) -> bool:
    """Only adds and reads; every number that was added is one, and so is every value read."""
    if {op.op_type for op in ops} != {"add", "read"}:
        return False
    reads = [op for op in ops if op.op_type == "read" and op.outcome is Outcome.OK]
    adds = [op for op in ops if op.op_type == "add"]
    return (
        bool(reads)
        and all(_is_number(op.output) for op in reads)
        and all(_is_number(op.input) for op in adds)
    )


def _repeats(ops: list[Op]) -> bool:
    """Do all increments and decrements complete with what they were called with?"""
    done = [op for op in ops if op.op_type in _MOVES and op.outcome is Outcome.OK]
    return all(op.output == op.input for op in done)


def as_ours(ops: list[Op]) -> list[Op]:
    """The operations with the names and outputs that our checkers know: a counter's `add` is `inc`,
    Maelstrom's `broadcast` of values is `add`; others have one name here and there.

    An `add` whose reads return collections is a set's and stays one. That it repeats what was added
    says nothing; nor do `inc` and `dec` say anything of the counter where each of them repeats by
    how much: Jepsen's clients complete an operation as it was called."""
    if {op.op_type for op in ops} == {"broadcast", "read"}:
        ops = [replace(op, op_type="add") if op.op_type == "broadcast" else op for op in ops]
    if _is_counter(ops):
        # Jepsen completes an add with what was added, which is not the value afterwards.
        return [
            replace(op, op_type="inc", output=None) if op.op_type == "add" else op for op in ops
        ]
    repeating = {"add"} | (_MOVES if _repeats(ops) else set())
    return [
        replace(op, output=None) if op.op_type in repeating and op.output == op.input else op
        for op in ops
    ]


def _bytes_of(path: Path) -> bytes | bytearray:
    try:
        raw = path.read_bytes()
    except IsADirectoryError:
        raise HistoryError(
            f"{path} is a directory", remedy=f"a run keeps its history in {path}/history.jsonl"
        ) from None
    except OSError as error:
        raise HistoryError(
            f"cannot read {path}: {error.strerror}", remedy="check the path and its permissions"
        ) from None
    if raw[:2] == b"\x1f\x8b":
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(raw)) as packed:
                text = bytearray()
                while len(text) <= UNPACKED_BYTES_MAX and (part := packed.read(_CHUNK_BYTES)):
                    text += part
        except (OSError, EOFError, zlib.error) as error:
            raise HistoryError(
                f"{path} is not whole: {error}", remedy="copy the file again"
            ) from None
        if len(text) > UNPACKED_BYTES_MAX:
            raise HistoryError(
                f"{path} unpacks to more than {UNPACKED_BYTES_MAX >> 20} MiB",
                remedy="unpack it, and judge it in parts",
            )
        return text
    return raw


def _text_of(path: Path, raw: bytes | bytearray) -> str:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise HistoryError(
            f"{path} is not text: byte {error.start} is not UTF-8", remedy=REMEDY
        ) from None
    if "\0" in text:
        raise HistoryError(f"{path} is binary", remedy=binary())
    return text


def _guess(path: Path, text: str) -> str:
    head = text.lstrip()[:4096]
    first = head.split("\n", 1)[0]
    if first.startswith("{") and re.search(r'"schema"\s*:\s*"dstest\.', first):
        return "json" if re.search(r'"dstest"\s*:\s*\{', first) else "dstest"
    if re.match(_OURS_WITHOUT_SCHEMA, first):
        raise HistoryError(
            f"{path} is a history of ours without its header, or the header names no schema",
            line=1,
            remedy=f'its first line needs "schema": "{SCHEMA}"',
        )
    if re.match(r'\[?\s*\{\s*"|\[\s*\]\s*$', head):
        return "json"
    if is_log(head):
        return "log"
    if re.match(r"[\[{(;#]", head):
        return "edn"
    raise HistoryError(f"{path} is not a history: it starts with {first[:40]!r}", remedy=REMEDY)


def load_history(
    path: Path | str,
    fmt: str = AUTO,
    *,
    independent: bool | None = None,
    weak: list[str] | None = None,
) -> History:
    """The history in a file. Raises HistoryError with a remedy where there is none.

    `independent` reads the values of a Jepsen history as `[key value]`, or does not; None leaves it
    to the history. To `weak` is added why the
    file cannot show that anything is valid.
    """
    path = Path(path)
    if fmt not in (AUTO, *OPERATIONS):
        raise ConfigError(
            f"no format of operations is called {fmt!r}",
            remedy=meant(fmt, [AUTO, *OPERATIONS]),
        )
    raw = _bytes_of(path)
    if not raw.strip():
        raise HistoryError(f"{path} is empty", remedy=REMEDY)
    head = bytes(raw[:_HEAD_BYTES]).decode("utf-8-sig", "replace")
    if "\0" in head:
        raise HistoryError(f"{path} is binary", remedy=binary())
    known_format = _guess(path, head) if fmt == AUTO else fmt
    if known_format == "dstest":
        return read_stream(io.BytesIO(raw), weak)
    text = _text_of(path, raw)
    del raw
    reader = {"edn": jepsen.from_edn, "json": jepsen.from_json, "log": jepsen.from_log}[
        known_format
    ]
    events = list(reader(text))
    if not events and text.strip() not in ("[]", "()"):
        raise HistoryError(f"{path} holds no {known_format} event", remedy=REMEDY)
    differed = known_format == "log" and failed_cas_differed(text)
    history = jepsen.pair(events, independent=independent, fail_cas_is_differ=differed)
    if jepsen.is_ours(events):
        open_ = sum(map(unfinished, history.ops))
        if open_ and weak is not None:
            weak.append(cut_off(open_))
        return history
    header = replace(history.header, source=f"{known_format}: {path.name}")
    return replace(history, header=header, ops=as_ours(history.ops))
