"""One line of a log whose system nobody knows: JSON, `ISO8601Z [LEVEL]: message`, or plain text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from dstest.core.protocols import LogRecord
from dstest.core.protocols.logs import Kind, Side, Vote

FORMS: Final = ("json", "stamped", "plain")
"""How a line was read; the order is that in which it is tried."""

_LEVELS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("trace", "debug", "verbose", "finest", "fine"), "debug"),
    **dict.fromkeys(("info", "information", "notice", "note", "log"), "info"),
    **dict.fromkeys(("warn", "warning"), "warning"),
    **dict.fromkeys(("err", "error", "severe"), "error"),
    **dict.fromkeys(("crit", "critical", "fatal", "panic", "dpanic", "alert", "emerg"), "critical"),
}

_STAMPED: Final = re.compile(
    r"\s*\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\s*"
    r"\[(?P<level>[A-Za-z]+)\]\s*:?\s*(?P<message>.*)",
    re.DOTALL,
)

_VOTES: Final = re.compile(
    r"\bvot(?:es?|ed|ing)\b|\breject(?:s|ed|ing|ion)?\b.*\b(?:proposal|ballot)\b", re.IGNORECASE
)
_REJECTS: Final = re.compile(r"\breject|\brefus|\bden(?:y|ied)\b|\bagainst\b", re.IGNORECASE)
_BALLOT: Final = re.compile(
    r"\b(?:term|ballot|round|epoch|view|proposal)\b[ =:#]*([A-Za-z0-9._-]+)", re.IGNORECASE
)
_ANSWERS: Final = re.compile(r"\b(?:response|responded|reply|replied|answer(?:ed)?|ack)\b", re.I)
_ASKS: Final = re.compile(r"\b(?:request(?:ed|ing)?|asks?|asking)\b", re.I)
_GETS: Final = re.compile(r"\b(?:receiv(?:e|es|ed|ing)|recv|got|deliver(?:ed|s)?)\b", re.I)
_SENDS: Final = re.compile(r"\b(?:sen[dt]|sends|sending|publish(?:ed)?|broadcast(?:s|ed)?)\b", re.I)
_MS: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|m)?\s*")
_TOOK: Final = re.compile(
    r"(?:\b(?:duration|elapsed|latency|took|took_time|time_taken)(?:_?ms)?[\"']?\s*(?:=|:|of)?\s*[\"']?"
    r"|\b(?:in|after|within)\s+)(\d+(?:\.\d+)?)\s?(ns|us|µs|ms|s|sec|secs|seconds|milliseconds)\b"
)
"""`in 2500ms`, `duration=2500ms`, `took 2.5s`, in the words of a line."""

_DONE: Final = re.compile(
    r"\b(?:complet|finish|serv|answer|handl|process|respon|commit|execut|appl|writ|read|done|return|"
    r"request|quer|GET|PUT|POST|DELETE|HTTP)",
    re.IGNORECASE,
)
"""What takes its time; a server also begins again in 5 s."""

_UNIT_MS: Final[Mapping[str, float]] = dict(
    [("ns", 1e-6), ("us", 1e-3), ("µs", 1e-3), ("ms", 1.0), ("milliseconds", 1.0), ("m", 6e4)]
    + [(name, 1e3) for name in ("s", "sec", "secs", "seconds")]
)


_OPERATION_IDS: Final = (
    *("operationId", "operation_id", "requestId", "request_id", "spanId", "span_id"),
    *("messageId", "message_id", "traceId", "trace_id"),
)
_EXCHANGES: Final = (
    *("correlationId", "correlation_id", "inReplyTo", "in_reply_to", "spanId", "span_id"),
    *("messageId", "message_id"),
)

_PRIORITY: Final = re.compile(r"\s*<(\d{1,3})>")
_SEVERITIES: Final = (
    *("critical", "critical", "critical", "error", "warning", "info", "info", "debug"),
)
"""By the last three bits of what syslog begins a line with (RFC 5424, 6.2.1)."""


def level_of(word: object) -> str:
    """As all checks call it; empty where it is no level."""
    return _LEVELS.get(word.strip().lower(), "") if isinstance(word, str) else ""


def _first(fields: Mapping[str, Any], *names: str) -> Any:
    return next((fields[name] for name in names if fields.get(name) not in (None, "")), None)


def _text(fields: Mapping[str, Any], *names: str) -> str:
    found = _first(fields, *names)
    return str(found) if isinstance(found, str | int | float) else ""


def _whole(fields: Mapping[str, Any], *names: str) -> int | None:
    found = _first(fields, *names)
    if isinstance(found, str) and found.isdigit():
        return int(found[:18])
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _duration_ms(fields: Mapping[str, Any]) -> float | None:
    """`duration` and the like are milliseconds, unless a unit follows."""
    found = _first(fields, "duration", "durationMs", "duration_ms", "elapsed_ms", "latency_ms")
    if isinstance(found, bool):
        return None
    if isinstance(found, int | float):
        return float(found) if 0 <= found < 1e15 else None
    if isinstance(found, str) and (match := _MS.fullmatch(found)):
        return float(match[1]) * _UNIT_MS[match[2] or "ms"]
    return None


def _took_ms(message: str) -> float | None:
    """As the words of a line tell it: of an operation, where it is not named as a duration."""
    found = _TOOK.search(message)
    if found is None:
        return None
    if found[0].startswith(("in", "after", "within")) and not _DONE.search(
        message[: found.start()]
    ):
        return None
    return float(found[1]) * _UNIT_MS[found[2]]


def _vote(fields: Mapping[str, Any], message: str) -> Vote:
    told = fields.get("vote")
    if isinstance(told, bool):
        return "granted" if told else "rejected"
    said = f"{message} {told}" if isinstance(told, str) and told else message
    if told is None and not _VOTES.search(message):
        return ""
    return "rejected" if _REJECTS.search(said) else "granted"


def _kind(text: str) -> Kind:
    if _ANSWERS.search(text):
        return "response"
    return "request" if _ASKS.search(text) else ""


def _side(text: str) -> Side:
    if _GETS.search(text):
        return "received"
    return "sent" if _SENDS.search(text) else ""


def _failed(fields: Mapping[str, Any], level: str) -> bool:
    told = _first(fields, "status", "outcome", "success", "ok")
    if isinstance(told, bool):
        return not told
    if isinstance(told, int) and not isinstance(told, bool):
        return told >= 500  # as HTTP has it
    if isinstance(told, str) and told.lower() in ("ok", "success", "succeeded", "done", "true"):
        return False
    return level in ("error", "critical") or bool(_first(fields, "error", "err", "exception"))


def _vector(fields: Mapping[str, Any]) -> dict[str, int]:
    found = _first(fields, "vectorClock", "vector_clock", "vclock")
    if not isinstance(found, dict):
        return {}
    rows = {str(k): v for k, v in found.items() if isinstance(v, int) and not isinstance(v, bool)}
    return rows if len(rows) == len(found) else {}


def record_of_fields(fields: Mapping[str, Any]) -> LogRecord:
    """A line that was a JSON object. The names of fields are those that are in common use."""
    message = _text(fields, "message", "msg", "event", "text")
    level = level_of(_first(fields, "level", "severity", "lvl"))
    if error := _text(fields, "error", "err", "exception"):
        message = f"{message}: {error}" if message else error
    operation = _text(fields, "operation", "op")
    called = f"{_text(fields, 'type', 'kind')} {_text(fields, 'direction', 'side')} {message}"
    vote = _vote(fields, message)
    found = _BALLOT.search(message)
    told = _text(fields, "term", "ballot", "round", "epoch", "proposalId", "proposal")
    return LogRecord(
        message=message,
        level=level,
        node=_text(fields, "nodeId", "agentId", "node", "node_id"),
        peer=_text(fields, "peer", "peerId", "to", "remote", "target"),
        operation=operation,
        operation_id=_text(fields, *_OPERATION_IDS),
        failed=_failed(fields, level) if operation else None,
        duration_ms=_took_ms(message) if (told_ms := _duration_ms(fields)) is None else told_ms,
        vote=vote,
        voter=_text(fields, "voter"),
        ballot=told or (found[1] if vote and found else ""),
        message_id=_text(fields, "messageId", "message_id"),
        exchange=_text(fields, *_EXCHANGES),
        kind=_kind(called),
        side=_side(called),
        applied=_whole(fields, "appliedIndex", "applied_index", "applied"),
        state=_text(fields, "stateHash", "state_hash", "stateDigest"),
        vector=_vector(fields),
    )


def _of_text(level: str, message: str) -> LogRecord:
    vote = _vote({}, message)
    ballot = _BALLOT.search(message) if vote else None
    return LogRecord(
        message=message,
        level=level_of(level),
        duration_ms=_took_ms(message),
        vote=vote,
        ballot=ballot[1] if ballot else "",
    )


_decode: Final[Callable[[str], Any]] = msgspec.json.Decoder().decode


def plain_record(line: str) -> tuple[LogRecord, str]:
    """What it says, and by which of `FORMS` it was read."""
    if line.lstrip().startswith("{"):
        try:
            fields = _decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            fields = None
        if isinstance(fields, dict):
            return record_of_fields(fields), "json"
    match = _STAMPED.fullmatch(line)
    if match is not None and level_of(match["level"]):
        return _of_text(match["level"], match["message"]), "stamped"
    priority = _PRIORITY.match(line)
    return _of_text(_SEVERITIES[int(priority[1]) & 7] if priority else "", line), "plain"
