"""Which lines of a log are alarms, and of what kind: for any system, in any case, stamped or not.

A kind says what a fault would have to explain (`explains` of a nemesis). A line is `certain` where
it can mean nothing but a crash of the system's own code or damage of its data; the others may be
talk about one. What a system itself marks as an alarm, and nothing here knows, is of kind `alarm`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

CRASHES: Final = frozenset({"signal", "panic", "assertion", "race", "corruption", "fatal"})
"""Kinds of which a certain line that nothing explains is a violation."""

_PATTERNS: Final = (
    # Lack of memory comes first: a runtime that says so calls it fatal, too.
    ("oom", (r"out[ -]of[ -]memory|outofmemory|\boom[-_ ]?kill(?!_disable)|\bkilled process \d"
            r"|cannot allocate memory|\bbad_alloc\b|\bunable to allocate\b")),
    ("signal", (r"\bsig(?:segv|bus|abrt|ill|fpe|trap|sys)\b|segmentation (?:fault|violation)"
               r"|\bsegfault\b|core dumped|stack smashing|unexpected fault address"
               r"|double free|heap[- ]corruption|addresssanitizer|general protection")),
    ("race", r"data race"),
    ("corruption", (r"corrupt|(?:checksum|crc\d*|hash)\W+(?:\w+\W+)?(?:mismatch|error|fail|invalid)"
                   r"|(?:bad|wrong|invalid|mismatched) (?:checksum|crc|hash|magic)"
                   r"|data[- ]loss|lost (?:data|committed|acknowledged)"
                   r"|truncated,? or lost|inconsistent (?:data|state|index)")),
    ("assertion", r"\bassert(?:ion)?\b|assertionerror|invariant (?:violat|fail)|\bcheck failed\b"),
    ("panic", r"\bpanic(?:ked|king)?\b"),
    ("fatal", r"\bfatal\b"),
    ("exception", (r"traceback \(most recent call last\)|\b(?:unhandled|uncaught) exception"
                  r"|exception in thread|\b[a-z]\w*(?:\.[a-z]\w*)+(?:exception|error):")),
    ("internal", (r"internal (?:server )?error|internal inconsistency|should (?:not|never) happen"
                 r"|this is a bug|\bbug:")),
)  # fmt: skip
_RE: Final = tuple((kind, re.compile(pattern)) for kind, pattern in _PATTERNS)

DISCONNECT: Final = "disconnect"
"""An exception over a connection that the other side has given up, as clients and members do while
any fault stands."""

KINDS: Final = frozenset({kind for kind, _ in _PATTERNS}) | {"alarm", "core", DISCONNECT, "exit"}

_GONE: Final = re.compile(
    r"brokenpipe|connection_?(?:reset|aborted)|broken pipe|connection reset by peer"
)

_ANY: Final = re.compile("|".join(pattern for _, pattern in _PATTERNS))

_HINTS: Final = (
    *("memory", "oom", "killed", "alloc", "sig", "segm", "core dumped", "smashing", "fault"),
    *("double free", "corrupt", "sanitizer", "protection", "race", "checksum", "crc", "hash"),
    *("magic", "loss", "lost", "truncated", "inconsistent", "assert", "invariant", "check"),
    *("panic", "fatal", "traceback", "exception", "error", "internal", "should", "bug"),
)
"""No line is an alarm without one of these, which is found out a hundred times as fast."""

_CERTAIN: Final = {
    "signal": re.compile(
        r"\bsig(?:segv|bus|abrt|ill|fpe)\b|segmentation (?:fault|violation)|core dumped"
        r"|stack smashing|unexpected fault address|double free|heap[- ]corruption"
    ),
    "race": re.compile(r"warning: data race|\bdata race detected"),
    "corruption": re.compile(
        r"(?:is|was|are|were|been|be|data|file|database|db|wal|log|page|snapshot|store|index|entry"
        r"|record|block)s? corrupt|corrupted\b|(?:checksum|crc\d*)\W+(?:\w+\W+)?mismatch"
        r"|\bdata loss\b"
    ),
    "assertion": re.compile(r"assertion\b.*\bfail|assertion violat|assertionerror"),
    "panic": re.compile(r"^\W*panic: |\"level\": ?\"panic\"|\blevel=panic\b"),
    "fatal": re.compile(r"^fatal error: "),
}
_CALM: Final = re.compile(r"\"level\": ?\"(?:info|debug)\"|\blevel=(?:info|debug)\b")
_DENIED: Final = re.compile(r"\b(?:no|not|without|if|whether|check for|checking|passed)\b")


def kind_of(line: str, own: Sequence[str], harmless: Sequence[str]) -> tuple[str, bool] | None:
    """(kind, is it certain?) of a line, None for one that is no alarm.

    `own` are texts that the system's authors call alarms, `harmless` texts of healthy lines that
    would look like one; these are taken out before the rest is read.
    """
    lower = line.lower()
    if not any(hint in lower for hint in _HINTS) or _ANY.search(lower) is None:
        return ("alarm", False) if any(text in line for text in own) else None
    for text in harmless:
        lower = lower.replace(text.lower(), " ")
    kinds = _kinds(lower)
    if kinds:
        # A runtime that lacks memory calls that fatal, and the host may be to blame.
        able = [kind for kind in kinds if not (kind == "fatal" and "oom" in kinds)]
        sure = next(((kind, True) for kind in able if _certain(kind, lower)), None)
        gone = kinds == ["exception"] and _GONE.search(lower)
        return sure or (DISCONNECT if gone else kinds[0], False)
    return ("alarm", False) if any(text in line for text in own) else None


def all_kinds(line: str) -> list[str]:
    """Every kind of alarm that a line tells of: a panic over a checksum is both."""
    return _kinds(line.lower())


def _kinds(lower: str) -> list[str]:
    return [kind for kind, pattern in _RE if pattern.search(lower)]


def _certain(kind: str, lower: str) -> bool:
    sure = _CERTAIN.get(kind)
    if sure is None or _CALM.search(lower):
        return False
    # "no data loss", "if the file is corrupted": said, not happened.
    return any(
        _DENIED.search(lower[max(0, found.start() - 40) : found.start()]) is None
        for found in sure.finditer(lower)
    )
