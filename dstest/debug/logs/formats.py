"""How a line of any log is read: one reader for each format, all into the record that the logs of
runs become. The time of a line is read by `dstest.core.log_lines`, whatever its format.

| format | such as | source |
|---|---|---|
| json | zap, logrus, bunyan, pino, structlog, ECS, OpenTelemetry | their documentation |
| logfmt | `level=info msg="..." k=v` | logrus, slog |
| syslog | `<34>1 2024-...`, `Mar  5 10:15:30 host app[7]: ...` | RFC 5424, RFC 3164 |
| klog | `I0305 10:15:30.000000 1 server.go:12] ...` | klog, glog |
| stamped | `2024-03-05T10:15:30Z [INFO]: ...` | |
| leveled | a stamp, words in brackets, a level: log4j, logback, Python, PostgreSQL | |
| pattern | what a pattern of the user's own says | |
| access | `10.0.0.1 - - [05/Mar/2024:10:15:30 +0000] "GET / HTTP/1.1" 200 12` | common, combined |
| plain | anything else | |
"""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.protocols import LogRecord
from dstest.core.protocols.systems import Topic
from dstest.debug.logs.lines import MATCHED_MAX, level_of, record_of_fields, record_of_text

_DEPTH_MAX: Final = 2
"""What a line of syslog holds may be of another format."""

_decode: Final[Callable[[str], Any]] = msgspec.json.Decoder().decode

_PRIORITY: Final = re.compile(r"\s*<(\d{1,3})>")
_SEVERITIES: Final = (
    *("critical", "critical", "critical", "error", "warning", "info", "info", "debug"),
)
"""By the last three bits of what syslog begins a line with (RFC 5424, 6.2.1)."""

_SYSLOG_NEW: Final = re.compile(
    r"\s*<\d{1,3}>1 \S+ \S+ \S+ \S+ \S+ "
    r"(?:-|(?:\[(?:\"(?:[^\"\\]|\\.)*\"|[^\]\"])*\])+) ?(?P<message>.*)",
    re.DOTALL,
)
_SYSLOG_OLD: Final = re.compile(
    r"\s*(?:<\d{1,3}>)?(?:[A-Z][a-z]{2} {1,2}\d{1,2} [\d:.]+ [\w.-]+ [\w./@-]+(?:\[\d+\])?"
    r"|\d{4}-\d\d-\d\dT[\d:.+Z-]+ [\w.-]+ [\w./@-]+\[\d+\]): (?P<message>.*)",
    re.DOTALL,
)
"""With a stamp of ISO 8601, as rsyslog writes it, only where a process stands behind the name."""

_KLOG: Final = re.compile(
    r"(?P<level>[DIWEF])(?:\d\d)?\d{4} \d\d:\d\d:\d\d\.\d+\s+\d+ "
    r"(?:[^\]\s]+\]|[^\s:]+:\d+ ⋮?) ?(?P<message>.*)",
    re.DOTALL,
)
_STAMP: Final = (
    r"\s*\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?"
    r"\s?(?:Z|[+-]\d\d:?\d\d|[A-Z]{3,4})?\]?"
)
_STAMPED: Final = re.compile(
    rf"{_STAMP}\s*\[(?P<level>[A-Za-z]+) *\]\s*(?::\s*)?(?P<message>.*)", re.DOTALL
)
_LEVEL_FIRST: Final = re.compile(
    rf"(?P<level>TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL) +\[[^\]]*\]{_STAMP}"
    r"\s+(?:[\w.$-]+:\d+ - )?(?P<message>.*)",
    re.DOTALL,
)
"""As Cassandra has it: `ERROR [Native-1] 2024-03-05 10:15:14,523 File.java:121 - ...`."""
_LEVELED: Final = re.compile(
    rf"{_STAMP}\s*(?:-\s*)?(?:\[[^\]]*\]\s*(?:-\s*)?)*"
    r"(?P<level>[A-Za-z]{3,9}|DETAIL\d?)\b(?::\s+|\s+-\s+|\s+)(?P<message>.*)",
    re.DOTALL,
)
_LOGGER_BEHIND: Final = re.compile(r"\s\(([A-Za-z_][\w$]*(?:\.[\w$]+)+)\)\s*$")
_LOGGER_BEFORE: Final = re.compile(
    r"^(?:\[[^\]]*\]\s+-\s+|(?:\[[^\]]*\]\s*)?[A-Za-z_][\w$]*(?:\.[\w$]+)+(?::\d+)?\s+[-:]\s+)"
)
"""`(kafka.server.KafkaServer)` and `o.a.zookeeper.Server - `: who writes is not what is written."""

_PAIR: Final = re.compile(r"(?:^|\s)([A-Za-z_][\w.@-]*)=(\"(?:[^\"\\]|\\.)*\"|[^\s\"]*)")
_LOGFMT: Final = re.compile(r"(?:^|\s)(?:msg|message|level|lvl|severity)=\S")
_ESCAPED: Final = re.compile(r"\\(.)")
_QUOTED: Final = frozenset({"STATEMENT", "QUERY", "CONTEXT", "DETAIL", "HINT", "LOCATION"})
"""What PostgreSQL writes under a line: its details, and words of its users."""


def _json(line: str, depth: int) -> LogRecord | None:
    if not line.lstrip().startswith("{"):
        return None
    try:
        fields = _decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    return record_of_fields(fields) if isinstance(fields, dict) else None


def _logfmt(line: str, depth: int) -> LogRecord | None:
    if "=" not in line or _LOGFMT.search(line) is None:
        return None
    fields: dict[str, str] = {}
    for name, value in _PAIR.findall(line):
        told = _ESCAPED.sub(r"\1", value[1:-1]) if value.startswith('"') else value
        fields.setdefault(name, told)
    if len(fields) < 2 or not (fields.keys() & {"msg", "message"}):
        return None
    return record_of_fields(fields)


def _syslog(line: str, depth: int) -> LogRecord | None:
    """A level of the line inside goes before that of its priority."""
    priority = _PRIORITY.match(line)
    match = (_SYSLOG_NEW.fullmatch(line) if priority else None) or _SYSLOG_OLD.fullmatch(line)
    if match is None:
        return None
    inner, _ = plain_record(match["message"], depth + 1)
    if inner.level or priority is None:
        return inner
    return msgspec.structs.replace(inner, level=_SEVERITIES[int(priority[1]) & 7])


def _klog(line: str, depth: int) -> LogRecord | None:
    match = _KLOG.match(line)
    if match is None:
        return None
    level = {"D": "debug", "I": "info", "W": "warning", "E": "error", "F": "fatal"}[match["level"]]
    return record_of_text(level, match["message"])


def _stamped(line: str, depth: int) -> LogRecord | None:
    match = _STAMPED.fullmatch(line) or _LEVEL_FIRST.fullmatch(line)
    if match is None or not level_of(match["level"]):
        return None
    return record_of_text(match["level"], match["message"])


def _leveled(line: str, depth: int) -> LogRecord | None:
    match = _LEVELED.fullmatch(line)
    if match is None:
        return None
    if match["level"] in _QUOTED:
        return LogRecord(message=match["message"], level="debug", topics=frozenset({"calm"}))
    if not level_of(match["level"]) or match["level"].islower():
        return None  # a sentence that begins with such a word
    message = _LOGGER_BEHIND.sub("", match["message"])
    return record_of_text(match["level"], _LOGGER_BEFORE.sub("", message))


_ASKED: Final = (
    r"\s*(?:[\w.:*-]+ )?[\w.:*\[\]-]+ \S+ .{0,200}?"
    r"\[\d\d/[A-Z][a-z]{2}/\d{4}:[\d:]{8} [+-]\d{4}\] \""
)
"""With the name of the host before it, or not."""

_ACCESS: Final = re.compile(
    _ASKED + r"(?:[^\"\\]|\\.)*\" (?P<status>[1-5]\d\d) (?:\d+|-)(?:\s|$)",
    re.DOTALL,
)
_ACCESS_CUT: Final = re.compile(_ASKED, re.DOTALL)
_CALM: Final[frozenset[Topic]] = frozenset({"calm"})

_OF_CLIENT: Final = re.compile(
    r", (?:request|referrer): \"(?:[^\"\\]|\\.)*(?:\"|$)|, referer: \S*$", re.DOTALL
)
"""What logs of errors of web servers repeat of a request."""


def _access(line: str, depth: int) -> LogRecord | None:
    """By its status and nothing else: the rest is what somebody else wrote."""
    match = _ACCESS.match(line)
    if match is None:
        if _ACCESS_CUT.match(line) is None:
            return None
        return LogRecord(message="a request", level="info", topics=_CALM)
    status = int(match["status"])
    level = "error" if status >= 500 else "info"
    return LogRecord(message=f"a request: status {status}", level=level, topics=_CALM)


def _plain(line: str, depth: int) -> LogRecord | None:
    priority = _PRIORITY.match(line)
    return record_of_text(_SEVERITIES[int(priority[1]) & 7] if priority else "", line)


_READERS: Final[Mapping[str, Callable[[str, int], LogRecord | None]]] = {
    "json": _json,
    "access": _access,
    "klog": _klog,
    "syslog": _syslog,
    "stamped": _stamped,
    "logfmt": _logfmt,
    "leveled": _leveled,
    "plain": _plain,
}
"""In the order in which they are tried. What has a stamp and no format of its own is `plain`."""

FORMS: Final = tuple(_READERS)
_WHOLE: Final = ("json", "syslog")
"""What holds another line, or ends where its last brace does."""


def plain_record(line: str, depth: int = 0) -> tuple[LogRecord, str]:
    """What a line says, and by which of `FORMS` it was read. `depth` counts the lines around it.
    Of words the first `MATCHED_MAX` characters alone are read."""
    begin = line[:MATCHED_MAX]
    if ", re" in begin:
        begin = _OF_CLIENT.sub("", begin)
    for form, read in _READERS.items():
        if depth >= _DEPTH_MAX and form == "syslog":
            continue
        if (record := read(line if form in _WHOLE else begin, depth)) is not None:
            return record, form
    raise AssertionError("plain reads any line")


_GROUPS: Final = frozenset(
    {"time", "level", "message", "peer", "operation", "duration", "status", "term", "error"}
)


_LINES_TIMED: Final = 100
_SECONDS_MOST: Final = 5.0
"""Of a processor, for so many lines: usual patterns take a thousandth of it."""


class _TooLong(Exception):
    """An expression has not come to its end in time."""


def _too_long(number: int, frame: object) -> None:
    raise _TooLong


@contextmanager
def _for(seconds: float) -> Iterator[None]:
    """Raises _TooLong where what is done takes longer, by the clock of the processor. Elsewhere
    than in the main thread nothing can be interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGVTALRM, _too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, max(seconds, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


class PatternReader:
    """Reads lines by a regular expression whose groups are named: `message` and others of
    `level`, `time`, `peer`, `operation`, `duration` (as `12ms`), `status`, `term`, `error`. The
    time is found where it stands; its group is for the reader of the expression."""

    form = "pattern"

    def __init__(self, pattern: str) -> None:
        """Raises ConfigError for what is no regular expression, or names no or unknown groups."""
        example = r"--pattern '(?P<time>\S+) (?P<level>\w+) (?P<message>.*)'"
        try:
            self._pattern = re.compile(pattern, re.DOTALL)
        except (re.error, RecursionError, OverflowError) as error:
            raise ConfigError(
                f"--pattern is no regular expression: {error}", remedy=example
            ) from None
        self._lines = 0
        self._left_s = _SECONDS_MOST
        names = set(self._pattern.groupindex)
        if "message" not in names or names - _GROUPS:
            odd = ", ".join(sorted(names - _GROUPS))
            why = f"it names {odd}" if odd else "it has no group `message`"
            raise ConfigError(
                f"--pattern: {why}; groups are {', '.join(sorted(_GROUPS))}", remedy=example
            )

    def record_of(self, line: str) -> LogRecord | None:
        """None where the line does not match from its begin to its end, or to the end of what is
        matched of it. Raises ConfigError where that takes too long."""
        if self._lines % _LINES_TIMED == 0:
            self._left_s = _SECONDS_MOST
        self._lines += 1
        began = time.thread_time()
        try:
            with _for(self._left_s):
                match = self._pattern.fullmatch(line[:MATCHED_MAX])
        except _TooLong:
            raise self._too_slow() from None
        self._left_s -= time.thread_time() - began
        if self._left_s <= 0:
            raise self._too_slow()
        if match is None:
            return None
        return record_of_fields({k: v for k, v in match.groupdict().items() if v is not None})

    def _too_slow(self) -> ConfigError:
        many = (self._lines - 1) % _LINES_TIMED + 1
        return ConfigError(
            f"--pattern took more than {_SECONDS_MOST:g} s for {many} "
            f"{'line' if many == 1 else 'lines'}",
            remedy="a pattern in which no text can be divided in several ways, as by (a+)+ or .*.*",
        )
