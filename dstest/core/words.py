"""How a value of a history stands in a sentence, as in the history itself, which is JSON; sentences
after one another; text of somebody else's making (of a node, a log, a history); and how a path
stands in a command that is to be copied."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any, Final


def quoted(value: Any) -> str:
    """As in the history itself: `null`, `1`, `"x"`, `["x", null]`; what JSON has no form for as
    Python shows it."""
    try:
        return json.dumps(value, ensure_ascii=False, default=repr)
    except (TypeError, ValueError):
        return repr(value)


_TIMEOUT: Final = re.compile(r"timed?[ -]?out|deadline", re.IGNORECASE)


def if_late(error: str | None) -> str:
    """What is to be said of a failed operation whose error says that it timed out; else nothing."""
    if error is None or not _TIMEOUT.search(error):
        return ""
    return ": what timed out may have had effect, and is :info in Jepsen, not :fail"


def often(times: int) -> str:
    """`never`, `once`, `2 times`."""
    return "never" if times == 0 else "once" if times == 1 else f"{times:,} times"


def shell_word(path: Path | str) -> str:
    """One word of a shell's command line, whatever is in it."""
    return shlex.quote(str(path))


def sentences(*parts: str) -> str:
    """The parts one after the other, each with the full stop that it may lack; empty ones fall
    out."""
    told = [part.strip() for part in parts if part.strip()]
    return " ".join(part if part.endswith((".", "!", "?")) else f"{part}." for part in told)


def printable(text: str) -> str:
    """Without control characters, which XML refuses and terminals obey; line ends stay."""
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)


def printable_line(text: str) -> str:
    """Printable, with blanks for ends of lines: an error string must not drive the terminal."""
    return printable(text).replace("\n", " ")


def one_line(text: str) -> str:
    """The same as one line, whatever is in it: a line of its own may be an order to who reads."""
    return printable(text.replace("\r", "\\r").replace("\n", "\\n"))


def escaped(text: str) -> str:
    """Printable, and of no other text the same: a control character is its number between U+FFFD
    and a semicolon; line ends stay."""
    return "".join(
        c if (c.isprintable() or c == "\n") and c != "\ufffd" else f"\ufffd{ord(c):x};"
        for c in text
    )
