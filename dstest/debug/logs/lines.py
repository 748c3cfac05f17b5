"""Where lines of logs come from, and what fields and words of an unknown system mean; which format
a line has is `formats`.

What a line is about is known by its words, but for what a setting says and what is denied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from dstest.core.errors import ConfigError, HistoryError
from dstest.core.protocols import LogRecord
from dstest.core.protocols.systems import Kind, Side, Topic, Vote
from dstest.core.words import one_line
from dstest.debug.logs.files import BROKEN, files_under, opened, why_broken, why_no_log
from dstest.judge.audit_rows import all_kinds

_LEVELS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("trace", "debug", "verbose", "finest", "fine"), "debug"),
    **dict.fromkeys(("info", "information", "notice", "note", "log"), "info"),
    **dict.fromkeys(("warn", "warning"), "warning"),
    **dict.fromkeys(("err", "error", "severe"), "error"),
    "d": "debug",
    "i": "info",
    "w": "warning",
    "e": "error",
    "f": "critical",
    **dict.fromkeys(("crit", "critical", "fatal", "panic", "dpanic", "alert", "emerg"), "critical"),
}

_VOTES: Final = re.compile(
    r"\bvot(?:es?|ed|ing)\b|\breject(?:s|ed|ing|ion)?\b.{0,200}\b(?:proposal|ballot)\b",
    re.IGNORECASE,
)
_NO_REJECTION: Final = re.compile(r"\b(?:0|no|zero) (?:vote )?reject\w*", re.IGNORECASE)
_REJECTS: Final = re.compile(r"\breject|\brefus|\bden(?:y|ied)\b|\bagainst\b", re.IGNORECASE)
_BALLOT: Final = re.compile(
    r"\b(?:term|ballot|round|epoch|view|proposal)\b[ =:#]*([A-Za-z0-9._-]+)", re.IGNORECASE
)
_ANSWERS: Final = re.compile(r"\b(?:response|responded|reply|replied|answer(?:ed)?|ack)\b", re.I)
_ASKS: Final = re.compile(r"\b(?:request(?:ed|ing)?|asks?|asking)\b", re.I)
_GETS: Final = re.compile(r"\b(?:receiv(?:e|es|ed|ing)|recv|got|deliver(?:ed|s)?)\b", re.I)
_SENDS: Final = re.compile(r"\b(?:sen[dt]|sends|sending|publish(?:ed)?|broadcast(?:s|ed)?)\b", re.I)
_MS: Final = re.compile(r"\s*(\d{1,300}(?:\.\d{1,300})?)\s*(?:(ns|us|µs|ms|s|m)\s*)?")
_TOOK: Final = re.compile(
    r"(?:\b(?:duration|elapsed|latency|took|took_time|time_taken)(?:_?ms)?[\"']?\s*(?:(?:=|:|of)\s*)?[\"']?"
    r"|\b(?:in|after)\s+)(\d+(?:\.\d+)?)\s?(ns|us|µs|ms|s|sec|secs|seconds|milliseconds)\b"
)
"""`in 2500ms`, `duration=2500ms`, `took 2.5s`, in the words of a line."""

_SLOW_ALONE: Final = re.compile(r"\s+(?:statement|execute|parse|bind|plan)\b")
"""`duration: 1312.5 ms  statement: ...`: PostgreSQL writes it of slow ones alone."""

_DONE: Final = re.compile(
    r"\b(?:complet|finish|serv|answer|handl|process(?:ed|ing)|respon|commit|execut|appl|writ|read|done|return|"
    r"request|quer|GET|PUT|POST|DELETE|HTTP)",
    re.IGNORECASE,
)
"""What takes its time; a server also begins again in 5 s."""

_UNIT_MS: Final[Mapping[str, float]] = dict(
    [("ns", 1e-6), ("us", 1e-3), ("µs", 1e-3), ("ms", 1.0), ("milliseconds", 1.0), ("m", 6e4)]
    + [(name, 1e3) for name in ("s", "sec", "secs", "seconds")]
)


_LEVEL_NAMES: Final = (
    *("level", "severity", "lvl", "log.level", "levelname", "severityText", "severity_text", "s"),
)
_OPERATION_IDS: Final = (
    *("operationId", "operation_id", "requestId", "request_id", "spanId", "span_id"),
    *("messageId", "message_id", "traceId", "trace_id"),
)
_EXCHANGES: Final = (
    *("correlationId", "correlation_id", "inReplyTo", "in_reply_to", "spanId", "span_id"),
    *("messageId", "message_id"),
)

_SET: Final = re.compile(
    r"[\"']?\s*(?:s\b\s*)?(?:=|:|is|of|was|set to|after|configured(?: as| to| at)?|defaults? to)"
    r"\s*\"?\d"
)
"""`timeout: 5s` is a setting."""

_FEATURE: Final = re.compile(
    r"[ -](?:killer )?(?:is |was )?(?:resolver|resolution|protection|handling|handler|detection"
    r"|detector|prevention|strategy|policy|tests?\b|disabled|score)"
    r"|\s+\d+(?:\.\d+)?\s*(?:(?:ns|us|ms|s|m|sec(?:ond)?s?)\s*)?(?:$|[,;)])"
)
"""... and a `split-brain resolver`, or a `timeout 5s` that is all there is of it."""

_TIMEOUT: Final = re.compile(r"\btime(?:d)?[ -]?out\b|\btimeouts?\b")
_CONFLICT: Final = re.compile(r"(?<!\bon )\bconflict(?:s|ed|ing)?\b(?!-free)")
_PARTITION: Final = re.compile(
    r"\bnetwork[ -]partition(?:ed)?\b|\bpartition(?:ed)?[ _]network\b"
    r"|\bpartitioned\b(?! (?:by|into|on|across|tables?|topics?|index\w*)\b)"
    r"|\bpartitions? (?:was |is |has been )?(?:detected|suspected|occurred|began|healed)\b"
    r"|\b(?:cluster|minority|majority|isolated) partition\b"
    r"|\bpartition (?:between|from|among|of the (?:cluster|network))\b"
    r"|\bsplit[- ]brain\b|\bunreachable\b|\bquorum (?:lost|is not active)\b|\blost quorum\b"
)
"""Partitions of data, as those of topics and tables, are assigned, received and led."""

_CONNECTION: Final = re.compile(
    r"connection (?:was )?(?:refused|reset|timed out|aborted)|\btime(?:d)?[ -]?out\b|\btimeout\b"
    r"|\bunreachable\b|no route to host|broken pipe"
)

LINE_MAX: Final = 1 << 20
"""Bytes of one line; what is longer is read up to here."""

MATCHED_MAX: Final = 4096
"""Characters of what a line says that words are looked for in."""

_COLORS: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_UNREADABLE: Final = {".zst": "zstd -d", ".xz": "xz -d", ".bz2": "bunzip2"}
_ROTATED: Final = re.compile(r"(?:\.\d+)?(?:\.gz)?$")

_OF_ONE: Final = re.compile(
    r"(?:(?P<of>.+?)[._-])??(?:(?:ssl|other_vhosts)_)?(?:access|error)(?:[._-]?logs?)?",
    re.IGNORECASE,
)
"""Logs that a web server has several of."""

SPEAKS: Final = re.compile(
    r"became (?:the )?(?:leader|primary|master)|elected (?:as )?(?:the )?(?:leader|primary|master)"
    r"|new (?:leader|primary|master)\b|promot(?:ed|ing) (?:self |itself )?to"
    r"|switch-master|step(?:s|ped|ping) down|lost (?:the )?leader(?:ship)?\b|\bLEADING\b",
    re.IGNORECASE,
)
"""What logs of any system say where the lead changes."""


_NUMBERS: Final = ("debug", "debug", "info", "warning", "error", "critical")
"""bunyan and pino count in tens: 10 is trace, 60 is fatal."""


def level_of(word: object) -> str:
    """As all checks call it; empty where it is no level."""
    if isinstance(word, int) and not isinstance(word, bool) and 10 <= word <= 69:
        return _NUMBERS[word // 10 - 1]
    return _LEVELS.get(word.strip().lower(), "") if isinstance(word, str) else ""


def first_of(fields: Mapping[str, Any], *names: str) -> Any:
    """The value of the first of these names that has one."""
    return next((fields[name] for name in names if fields.get(name) not in (None, "")), None)


def _text(fields: Mapping[str, Any], *names: str) -> str:
    found = first_of(fields, *names)
    return str(found) if isinstance(found, str | int | float) else ""


def _whole(fields: Mapping[str, Any], *names: str) -> int | None:
    found = first_of(fields, *names)
    if isinstance(found, str) and found.isdigit():
        return int(found[:18])
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _ms(number: str, unit: str) -> float | None:
    found = float(number) * _UNIT_MS[unit]
    return found if found < 1e15 else None


def _duration_ms(fields: Mapping[str, Any]) -> float | None:
    """`duration` and the like are milliseconds, unless a unit follows."""
    found = first_of(fields, "duration", "durationMs", "duration_ms", "elapsed_ms", "latency_ms")
    if isinstance(found, bool):
        return None
    if isinstance(found, int | float):
        return float(found) if 0 <= found < 1e15 else None
    if isinstance(found, str) and (match := _MS.fullmatch(found)):
        return _ms(match[1], match[2] or "ms")
    return None


def _took_ms(message: str) -> float | None:
    """As the words of a line tell it: of an operation, where it is not named as a duration."""
    found = _TOOK.search(message)
    if found is None or _SLOW_ALONE.match(message, found.end()):
        return None
    if found[0].startswith(("in", "after")) and not _DONE.search(message[: found.start()]):
        return None
    return _ms(found[1], found[2])


def _vote(fields: Mapping[str, Any], message: str) -> Vote:
    told = fields.get("vote")
    if isinstance(told, bool):
        return "granted" if told else "rejected"
    said = f"{message} {told[:MATCHED_MAX]}" if isinstance(told, str) and told else message
    if told is None and not _VOTES.search(message):
        return ""
    return "rejected" if _REJECTS.search(_NO_REJECTION.sub("", said)) else "granted"


def _kind(text: str) -> Kind:
    if _ANSWERS.search(text):
        return "response"
    return "request" if _ASKS.search(text) else ""


def _side(text: str) -> Side:
    if _GETS.search(text):
        return "received"
    return "sent" if _SENDS.search(text) else ""


def _failed(fields: Mapping[str, Any], level: str) -> bool:
    told = first_of(fields, "status", "outcome", "success", "ok")
    if isinstance(told, bool):
        return not told
    if isinstance(told, int) and not isinstance(told, bool):
        return told >= 500  # as HTTP has it
    if isinstance(told, str) and told.lower() in ("ok", "success", "succeeded", "done", "true"):
        return False
    return level in ("error", "critical") or bool(first_of(fields, "error", "err", "exception"))


def _vector(fields: Mapping[str, Any]) -> dict[str, int]:
    found = first_of(fields, "vectorClock", "vector_clock", "vclock")
    if not isinstance(found, dict):
        return {}
    rows = {str(k): v for k, v in found.items() if isinstance(v, int) and not isinstance(v, bool)}
    return rows if len(rows) == len(found) else {}


def record_of_fields(fields: Mapping[str, Any]) -> LogRecord:
    """A line that was a JSON object. The names of fields are those that are in common use."""
    message = _text(fields, "message", "msg", "event", "text", "body", "short_message")
    level = level_of(first_of(fields, *_LEVEL_NAMES))
    if error := _text(fields, "error", "err", "exception"):
        message = f"{message}: {error}" if message else error
    operation = _text(fields, "operation", "op")
    message = message[:MATCHED_MAX]
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


def record_of_text(level: str, message: str) -> LogRecord:
    """A line in words, and how its log calls its level."""
    vote = _vote({}, message)
    ballot = _BALLOT.search(message) if vote else None
    return LogRecord(
        message=message,
        level=level_of(level),
        duration_ms=_took_ms(message),
        vote=vote,
        ballot=ballot[1] if ballot else "",
    )


_DENIED: Final = re.compile(
    r"\b(?:no|not|non|without|if|whether|when|until|check(?:ing)? for|passed|avoid(?:s|ed|ing)?"
    r"|prevent(?:s|ed|ing)?|(?<![\d.])0(?=\s)|zero|never)[\s\"'(-]+(?:\w+[\s\"'(-]+)?$"
)
"""In one clause: what stands before a comma or a colon says nothing of what follows."""


_CONFIGURED: Final = re.compile(
    r"\b(?:configur\w+|using|sett?ings?|set|default)[\s\"'(-]+(?:\w+\s+)?$"
)
"""... and so is `using consensus timeout 5s`."""

_NUMBER: Final = re.compile(r"\s*\d")

_NOUGHT: Final = re.compile(r"[\"']?s?(?: \w+)?\s*[=:]\s*\"?(?:0|none|no|false|\[\])(?![\w.])")
"""`unreachable=0`, `conflicts: none`."""


def _denied(text: str, at: int) -> bool:
    """Does what stands before it say that it is not so?"""
    return _DENIED.search(text[max(0, at - 40) : at]) is not None


def _is_set(text: str, found: re.Match[str]) -> bool:
    """Is it a setting? What has timed out is none."""
    if found[0].startswith("timed"):
        return False
    before, after = text[max(0, found.start() - 40) : found.start()], found.end()
    return _SET.match(text, after) is not None or (
        _CONFIGURED.search(before) is not None and _NUMBER.match(text, after) is not None
    )


def tells(pattern: re.Pattern[str], text: str, *, calm: bool, set_: bool = False) -> bool:
    """Does a line tell of this as something that happened? One that is `calm` may tell of a feature
    of that name, and where it can be `set_` of its value."""
    return any(
        not _denied(text, found.start())
        and _NOUGHT.match(text, found.end()) is None
        and not (calm and _FEATURE.match(text, found.end()))
        and not (calm and set_ and _is_set(text, found))
        for found in pattern.finditer(text)
    )


_HINT: Final = re.compile(
    r"time[d]?[ -]?out|conflict|partition|split|unreachable|quorum|connection|no route|broken pipe"
    r"|oom|memory|alloc"
)
"""What has none of these is about nothing, and most lines are."""

_TROUBLE: Final = frozenset(("error", "critical"))
_NOTHING: Final[frozenset[Topic]] = frozenset()


def about(record: LogRecord, harmless: Sequence[str] = ()) -> frozenset[Topic]:
    """The topics of a line: by its reader, else by its words. `harmless` are texts of healthy lines
    that look like trouble."""
    if record.topics:
        return record.topics
    text = record.message[:MATCHED_MAX].lower()
    if _HINT.search(text) is None:
        return _NOTHING
    for one in harmless:
        text = text.replace(one.lower(), " ")
    found: set[Topic] = set()
    calm = record.level not in _TROUBLE  # an error tells of no setting
    if "consensus" in text and tells(_TIMEOUT, text, calm=calm, set_=True):
        found.add("consensus-timeout")
    if "conflict" in text and tells(_CONFLICT, text, calm=calm):
        found.add("conflict")
    if tells(_PARTITION, text, calm=calm):
        found.add("cut-off")
    if tells(_CONNECTION, text, calm=calm, set_=True):
        found.add("connection")
    if _memory(text):
        found.add("oom")
    return frozenset(found)


_FLAGS: Final = re.compile(r"-xx:\S+")
"""What a Java machine is to do when memory runs out."""

_OOM: Final = re.compile(r"\bout[ -]of[ -]memory\b|\boom\b")


def _memory(text: str) -> bool:
    text = _FLAGS.sub(" ", text)
    return tells(_OOM, text, calm=True, set_=True) or "oom" in all_kinds(text)


class Source(NamedTuple):
    """A file of one node's log; `shown` is how evidence names it."""

    node: str
    path: Path
    shown: str


def files_below(folder: Path) -> list[Path]:
    """Regular files in it, by name. Raises ConfigError where it cannot be read."""
    try:
        return sorted(p for p in folder.iterdir() if p.is_file() and not p.is_symlink())
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror}", remedy="check the path") from None


def node_sources(folder: Path, root: Path, leave_out: Sequence[str] = ()) -> list[Source]:
    """A directory per node, with its logs."""
    return [
        Source(node.name, path, path.relative_to(root).as_posix())
        for node in sorted(folder.iterdir())
        if node.is_dir() and not node.is_symlink()
        for path in files_below(node)
        if path.name not in leave_out
    ]


def sources_of(paths: Sequence[Path], skipped: list[str] | None = None) -> list[Source]:
    """Directories, with a directory or a file for each node, and files. Which files are no logs,
    and why, is added to `skipped`. Raises ConfigError where there is nothing."""
    found: list[Source] = []
    alone: list[Path] = []
    left: list[str] = [] if skipped is None else skipped
    for path in paths:
        if path.is_dir():
            found += _below(path, left)
        elif path.is_file():
            alone.append(path)
        else:
            why = "is no file" if path.exists() else "is not there"
            raise ConfigError(f"{path} {why}", remedy="check the path; -- before one like --x")
    stems = [_stem(path) for path in alone]
    for path, stem in zip(alone, stems, strict=True):
        same = stems.count(stem) > 1 and len({p.parent for p in alone}) > 1
        found.append(Source(path.resolve().parent.name if same else stem, path, str(path)))
    return _readable(found, left)


def _below(path: Path, skipped: list[str]) -> list[Source]:
    """A folder in it is a node, with all that it has; a file in it is one, too."""
    try:
        every = files_under(path, skipped)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", remedy="check the path") from None
    if not every and not skipped:
        raise ConfigError(
            f"{path} holds no log",
            remedy="give a run, a directory with one directory per node, or files",
        )
    every.sort(key=lambda one: not one.parts)
    return [
        Source(
            one.parts[0] if one.parts else _stem(one.path),
            one.path,
            one.path.relative_to(path).as_posix(),
        )
        for one in every
    ]


def _readable(found: Sequence[Source], skipped: list[str]) -> list[Source]:
    """Without those that are no text. Raises ConfigError for what is named as packed, and where
    nothing is left."""
    good = []
    for source in found:
        if (suffix := source.path.suffix) in _UNREADABLE:
            raise ConfigError(
                f"{source.path} is packed as {suffix}",
                remedy=f"unpack it first: {_UNREADABLE[suffix]} {source.path.name}",
            )
        if why := why_no_log(source.path):
            skipped.append(f"{source.path}: {why}")
        else:
            good.append(source)
    if not good:
        raise ConfigError(
            f"no log can be read: {one_line('; '.join(skipped[:3]))}",
            remedy="give logs as text, or as text packed with gzip",
        )
    return good


def _stem(path: Path) -> str:
    """`n1` of n1.log, n1.log.1 and n1.log.2.gz, and of n1.access.log; of access.log and error.log,
    which one server writes, the name of their folder."""
    name = _ROTATED.sub("", path.name)
    stem = name.rsplit(".", 1)[0] if "." in name.lstrip(".") else name or path.name
    kind = _OF_ONE.fullmatch(stem)
    if kind is None:
        return stem
    return kind["of"] or path.resolve().parent.name or stem


def _whole_line(file: IO[bytes]) -> bytes:
    """The next line up to `LINE_MAX`; what follows in it is passed over."""
    data = part = file.readline(LINE_MAX)
    while len(part) == LINE_MAX and not part.endswith(b"\n"):
        part = file.readline(LINE_MAX)
    return data


def each_line(source: Source) -> Iterator[tuple[int, str]]:
    """(number from 1, text) of each line that is not empty, as it is read. Raises HistoryError
    where the file cannot be read to its end."""
    number = 0
    try:
        with opened(source.path) as file:
            while data := _whole_line(file):
                number += 1
                text = data.decode("utf-8", "replace").replace("\x00", "")
                if "\x1b" in text:
                    text = _COLORS.sub("", text)
                if text := text.rstrip():
                    yield number, text
    except BROKEN as error:
        why = one_line(why_broken(error))
        raise HistoryError(
            f"{source.path}: {why}", line=number + 1, remedy="fetch the log again: it is cut off"
        ) from None
