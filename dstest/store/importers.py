"""Histories of any known notation, found out by looking.

| format | looks like |
|---|---|
| dstest | `{"schema":"dstest.history/1",...}` and one operation per line |
| edn    | `{:process 0, :type :invoke, ...}`, one after another or in one vector |
| json   | `{"process": 0, "type": "invoke", ...}`, one per line or in one array |
| log    | `INFO  jepsen.util - 0 :invoke :read nil`, `0<tab>:invoke<tab>:read<tab>nil` |

Any of them may be gzipped.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from pathlib import Path

from msgspec.structs import replace

from dstest.core.errors import ConfigError, HistoryError
from dstest.core.formats import AUTO, OPERATIONS, REMEDY, binary
from dstest.core.history import SCHEMA, History
from dstest.core.limits import UNPACKED_BYTES_MAX
from dstest.core.near import meant
from dstest.store import jepsen
from dstest.store.jepsen_log import failed_cas_differed, is_log
from dstest.store.jepsen_open import cut_off, unfinished
from dstest.store.jepsen_shapes import as_ours
from dstest.store.jsonl import read_stream

_OURS_WITHOUT_SCHEMA = r'\{\s*"(op_id|process_id|run|workload|model|counters|nodes|seed|vantage)"'

_CHUNK_BYTES = 1 << 20
_HEAD_BYTES = 1 << 16
"""Of a file, to see what it is."""


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
