"""Ids of the judge in plain words, for whoever has never heard of them.

The words are the titles of rows, lints and rules; here they are put beside the ids in a sentence.
"""

from __future__ import annotations

import re
from typing import Final

from dstest.core.evidence import TAXDC_WORDS
from dstest.core.verdict import State
from dstest.judge.audit import TITLES
from dstest.judge.blame import CLASSES
from dstest.judge.decide import RULES
from dstest.judge.lints import LINTS
from dstest.judge.symptom import SEVERITIES

_ID: Final = r"(?:RF\d{1,2}|WO\d{1,2}|H\d\d)"
_TOLD: Final = re.compile(rf"(^|: |\n)({_ID})(?=: )")
"""Where a sentence of ours tells of a row or a lint: an id before a colon, and never one that a log
or a server holds."""

_ANY: Final = re.compile(rf"\b{_ID}\b")


def words_of(id: str) -> str:
    """What must hold for a row of the audit or a lint; empty for what is neither."""
    return (TITLES | {lint.id: lint.title for lint in LINTS}).get(id, "")


def _small(words: str) -> str:
    return words[:1].lower() + words[1:]


def spelled(text: str) -> str:
    """`RF8 (should hold: the cluster recovered): n1 does not serve`."""

    def beside(found: re.Match[str]) -> str:
        words = words_of(found[2])
        return f"{found[1]}{found[2]} (should hold: {_small(words)})" if words else found[0]

    return _TOLD.sub(beside, text)


def rule_words(rule: str, state: State) -> str:
    """When a rule of the decision table holds, ids in it spelled out; empty for an unknown one."""

    def beside(found: re.Match[str]) -> str:
        words = words_of(found[0])
        return f"{found[0]} ({_small(words)})" if words else found[0]

    said = (one.title for one in RULES if (one.id, one.state) == (rule, state))
    return _ANY.sub(beside, next(said, ""))


def bug_words(word: str) -> str:
    """What a type of bug or a severity says; empty for one that is not known."""
    return TAXDC_WORDS.get(word, "") or SEVERITIES.get(word, "")


def blame_words(blame: str) -> str:
    """What is said of a violation by its blame: `SUT`, or `unknown - pending: ...`."""
    return CLASSES.get(blame.partition(" ")[0], "")
