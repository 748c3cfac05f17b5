"""Logs whose lines have one form: a pattern with a level and a message, and words of votes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from dstest.core.protocols import LogReader, LogRecord
from dstest.core.protocols.logs import Topic, Vote

_CALM: Final[frozenset[Topic]] = frozenset({"calm"})


class LineForm:
    """`pattern` has the groups `level` and `message`; `levels` say what the first one means.

    `granted` and `rejected` find votes in messages, with the group `ballot` where they say of what.
    `calm` are texts of healthy lines whose words look like trouble.
    """

    def __init__(
        self,
        form: str,
        pattern: str,
        levels: Mapping[str, str],
        *,
        granted: str = "",
        rejected: str = "",
        calm: Sequence[str] = (),
    ) -> None:
        self.form = form
        self._pattern = re.compile(pattern)
        self._levels = levels
        votes: list[tuple[Vote, str]] = [("granted", granted), ("rejected", rejected)]
        self._votes = [(vote, re.compile(text)) for vote, text in votes if text]
        self._calm = tuple(calm)

    def record_of(self, line: str) -> LogRecord | None:
        """None for a line that is not of this form."""
        found = self._pattern.match(line)
        if found is None:
            return None
        message = found["message"]
        vote, ballot = self._vote(message)
        return LogRecord(
            message=message,
            level=self._levels.get(found["level"], ""),
            vote=vote,
            ballot=ballot,
            topics=_CALM if any(text in message for text in self._calm) else frozenset(),
        )

    def _vote(self, message: str) -> tuple[Vote, str]:
        for vote, pattern in self._votes:
            if found := pattern.search(message):
                return vote, found.groupdict().get("ballot") or ""
        return "", ""


class AnyOf:
    """Of a system with several programs, whose logs have several forms."""

    def __init__(self, *readers: LogReader) -> None:
        self.form = ", ".join(reader.form for reader in readers)
        self._readers = readers

    def record_of(self, line: str) -> LogRecord | None:
        """By the first that knows it."""
        told = (reader.record_of(line) for reader in self._readers)
        return next((record for record in told if record is not None), None)
