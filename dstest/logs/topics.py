"""What a line is about, by its words; not what a setting says, nor what is said not to be so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from dstest.core.protocols import LogRecord
from dstest.core.protocols.logs import Topic
from dstest.judge.alarm_kinds import all_kinds

_DENIED: Final = re.compile(
    r"\b(?:no|not|non|without|if|whether|when|until|check(?:ing)? for|passed|avoid(?:s|ed|ing)?"
    r"|prevent(?:s|ed|ing)?|(?<![\d.])0(?=\s)|zero|never)[\s\"'(-]+(?:\w+[\s\"'(-]+)?$"
)
"""In one clause: what stands before a comma or a colon says nothing of what follows."""

_SET: Final = re.compile(
    r"[\"']?\s*(?:s\b)?\s*(?:=|:|is|of|was|set to|after|configured(?: as| to| at)?|defaults? to)"
    r"\s*\"?\d"
)
"""`timeout: 5s` is a setting."""

_CONFIGURED: Final = re.compile(
    r"\b(?:configur\w+|using|sett?ings?|set|default)[\s\"'(-]+(?:\w+\s+)?$"
)
"""... and so is `using consensus timeout 5s`."""

_NUMBER: Final = re.compile(r"\s*\d")
_FEATURE: Final = re.compile(
    r"[ -](?:killer )?(?:is |was )?(?:resolver|resolution|protection|handling|handler|detection"
    r"|detector|prevention|strategy|policy|tests?\b|disabled|score)"
    r"|\s+\d+(?:\.\d+)?\s*(?:ns|us|ms|s|m|sec(?:ond)?s?)?\s*(?:$|[,;)])"
)
"""... and a `split-brain resolver`, or a `timeout 5s` that is all there is of it."""

_NOUGHT: Final = re.compile(r"[\"']?s?(?: \w+)?\s*[=:]\s*\"?(?:0|none|no|false|\[\])(?![\w.])")
"""`unreachable=0`, `conflicts: none`."""

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


def _has(pattern: re.Pattern[str], text: str, *, calm: bool, set_: bool = False) -> bool:
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
    text = record.message.lower()
    if _HINT.search(text) is None:
        return _NOTHING
    for one in harmless:
        text = text.replace(one.lower(), " ")
    found: set[Topic] = set()
    calm = record.level not in _TROUBLE  # an error tells of no setting
    if "consensus" in text and _has(_TIMEOUT, text, calm=calm, set_=True):
        found.add("consensus-timeout")
    if "conflict" in text and _has(_CONFLICT, text, calm=calm):
        found.add("conflict")
    if _has(_PARTITION, text, calm=calm):
        found.add("cut-off")
    if _has(_CONNECTION, text, calm=calm, set_=True):
        found.add("connection")
    if _memory(text):
        found.add("oom")
    return frozenset(found)


_FLAGS: Final = re.compile(r"-xx:\S+")
"""What a Java machine is to do when memory runs out."""

_OOM: Final = re.compile(r"\bout[ -]of[ -]memory\b|\boom\b")


def _memory(text: str) -> bool:
    text = _FLAGS.sub(" ", text)
    return _has(_OOM, text, calm=True, set_=True) or "oom" in all_kinds(text)
