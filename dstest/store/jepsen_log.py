"""Jepsen's logs and its history.txt, line by line as the op maps that they tell of.

| notation | a line |
|---|---|
| `history.txt` | `0<tab>:invoke<tab>:read<tab>nil` |
| `jepsen.log` | `2026-01-05 10:00:01,000{GMT}<tab>INFO<tab>[jepsen worker 0] jepsen.util: ..` |
| what it prints | `INFO [2026-01-05 10:00:01,000] jepsen worker 0 - jepsen.util ..` |
| of 2013 | `INFO  jepsen.util - 0 :invoke :read nil` |

Behind the value comes the error, as it is: no notation, and perhaps of several lines. A log whose
lines name a logger has its events there: what stands by itself in it is the report at its end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from dstest.core.errors import HistoryError
from dstest.store.edn import first_end

_EVENT: Final = (
    r"(?P<process>:?\w[\w.-]*)\s+:(?P<type>invoke|ok|fail|info)\s+(?P<f>:?\S+)(?P<rest>.*)"
)
_LOGGED: Final = re.compile(rf"\bjepsen\.[\w.-]+:?\s+(?:-\s+)?{_EVENT}")
_OTHERS: Final = re.compile(rf"[\s:]{_EVENT}".replace("\\s+", "\\t"))
"""Of loggers that are not Jepsen's own."""

_BARE: Final = re.compile(_EVENT.replace("\\s+", "\\t"))
_LIKE: Final = re.compile(r"\d+\s+:\w+\s+:\S")
_LIKE_LOGGED: Final = re.compile(
    r"\bjepsen\.(?:util|print):?\s+(?:-\s+)?"
    r"(?:(?:\S+\s+)?:(?:invoke|ok|fail|info)\b|\d+\s+:\w+\s+:\S)"
)
"""What seems to be an event, by itself or logged."""

_OF_2013: Final = re.compile(r"\bjepsen\.util\s+-\s")
_ENDED: Final = re.compile(
    r"\bjepsen\.\S+:?\s.*\b(Run complete, writing|Analysis complete|Everything looks good!|"
    r"Analysis invalid!)"
)
"""What a test says when its load is over."""

_HEADED: Final = re.compile(
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[,.]\d+(?:\{\w+\})?\s+[A-Z]+\s+\[|"
    r"(?:TRACE|DEBUG|INFO|WARN|ERROR)\s+(?:\[\d{4}-|jepsen\.)"
)
_PLAIN: Final = re.compile(r"[:\w.+-]+")
_WORDS: Final = re.compile(r"\[[:\w.+\-\[\] ]*\]")
_NAMED: Final = re.compile(r"[:\"a-zA-Z]")
_REMEDY: Final = "`INFO jepsen.util - process :type :f value`, by tabs or spaces"


def is_log(head: str) -> bool:
    """Is a text that begins so a log of Jepsen's, or a history.txt?"""
    lines = _lines_of(head)
    return any(_HEADED.match(line) or _LOGGED.search(line) for line in lines[:200]) or bool(
        lines and _BARE.fullmatch(next(filter(str.strip, lines), ""))
    )


def failed_cas_differed(text: str) -> bool:
    """Is it what old Jepsens print, where a cas that compared and differed is a failure without an
    error?"""
    return _OF_2013.search(text) is not None


def _lines_of(text: str) -> list[str]:
    """Its lines: of what may stand in a string no other sign ends one."""
    return [line.removesuffix("\r") for line in text.split("\n")]


def as_edn(text: str) -> str:
    """An op map for each line that is an event, an empty line for each other one. Raises
    HistoryError for a line that seems to be an event and cannot be read, for a last one that may go
    on, and for the event of another test."""
    lines = _lines_of(text)
    logged = any(_LOGGED.search(line) for line in lines) or any(map(_HEADED.match, lines))
    last = lines[-1]
    if _HEADED.match(last) or _LOGGED.search(last) if logged else last.strip():
        raise HistoryError(
            "the file is cut off in its last line",
            line=len(lines),
            remedy="take it whole, or end it with a newline if it is whole",
        )
    return "\n".join(_lines(lines, logged)) + "\n"


def _lines(lines: list[str], logged: bool) -> Iterator[str]:
    ended = 0
    for number, line in enumerate(lines, start=1):
        ended = ended or (number if logged and _ENDED.search(line) else 0)
        event = _LOGGED.search(line) or _OTHERS.search(line) if logged else _BARE.fullmatch(line)
        like = _LIKE_LOGGED.search(line) if logged else _LIKE.match(line)
        if event is None and like:
            raise HistoryError(f"not a Jepsen event: {line[:80]!r}", line=number, remedy=_REMEDY)
        if event and ended and event["type"] == "invoke" and event["process"].isdigit():
            raise HistoryError(
                f"the log goes on with another test: the first one has ended in line {ended}",
                line=number,
                remedy="give each test's own jepsen.log, or cut the log behind that line",
            )
        try:
            yield "" if event is None else _op_map(event)
        except HistoryError as error:
            message = error.message.partition(": ")[2]  # columns are those of the value
            raise HistoryError(message, line=number, remedy=error.remedy) from None


def _op_map(event: re.Match[str]) -> str:
    """The op map of an event. Raises HistoryError where its value is no form."""
    process, kind, f, rest = event.group("process", "type", "f", "rest")
    if not process.isdigit():
        process = json.dumps(process.removeprefix(":"))
    value, error = _parted(rest)
    late = kind in ("fail", "info") and not error and _NAMED.match(value)
    if late and value not in ("nil", "true", "false"):
        value, error = "nil", value  # the error has taken the place of the value
    told = f" :value {value}" if value else ""
    why = f" :error {json.dumps(error.removeprefix(':'), ensure_ascii=False)}" if error else ""
    return f"{{:process {process} :type :{kind} :f {f}{told}{why}}}"


def _is_list(value: str) -> bool:
    """Is it a list of plain words, as most values are?"""
    return _WORDS.fullmatch(value) is not None and value.count("[") == value.count("]")


def _parted(rest: str) -> tuple[str, str]:
    """The text of a value, and that of an error. Raises HistoryError."""
    value, _, error = rest.removeprefix("\t").rstrip().partition("\t")
    value = value.strip()
    if _PLAIN.fullmatch(value) or not value or (rest[:1] == "\t" and _is_list(value)):
        return value, error.strip()
    end = first_end(value)
    if value[end:].strip() and error:
        raise HistoryError(f"column 1: {value[:80]!r} is more than one form", remedy=_REMEDY)
    return value[:end], f"{value[end:]} {error}".strip()
