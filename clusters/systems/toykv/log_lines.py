"""What a line of a toykv server's log says, and a message between its servers."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from dstest.core.protocols import LogReader, LogRecord

__all__ = ["READER", "ToyLines"]

_PREFIX: Final = "toykv: "
_LEADS: Final = re.compile(r"leads in term (\d+), elected by \d+ of \d+")
_BAD: Final = ("the disk refuses", "had been applied")


class ToyLines:
    """A vote is asked for by whoever has given itself its own, so that asking is one."""

    form = "toykv's own"

    def record_of(self, line: str) -> LogRecord | None:
        if line.startswith(_PREFIX):
            return self._said(line.removeprefix(_PREFIX))
        if line.startswith('{"'):
            return self._message(line)
        return None

    def _said(self, text: str) -> LogRecord:
        level = "error" if any(word in text for word in _BAD) else "info"
        led = _LEADS.match(text)
        late = text.startswith("leads no longer") and "most members do not answer" in text
        return LogRecord(
            message=text,
            level=level,
            ballot=led[1] if led else "",
            vote="granted" if led else "",
            topics=frozenset({"consensus-timeout"} if late else {"calm"}),
        )

    def _message(self, line: str) -> LogRecord | None:
        try:
            message: dict[str, Any] = json.loads(line)
        except ValueError:
            return None  # of several messages, or cut
        if message.get("t") == "vote":
            term = str(message.get("term", ""))
            return LogRecord(
                message=f"asks to be elected in term {term}",
                level="info",
                vote="granted",
                ballot=term,
                topics=frozenset({"calm"}),
            )
        if "granted" in message:
            given, term = bool(message["granted"]), str(message.get("term", ""))
            return LogRecord(
                message=f"{'grants' if given else 'refuses'} its vote in term {term}",
                level="info",
                vote="granted" if given else "rejected",
                ballot=term,
                topics=frozenset({"calm"}),
            )
        return None


READER: Final[LogReader] = ToyLines()
