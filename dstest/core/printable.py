"""Text that may be of somebody else's making: of a node, a log, a history."""

from __future__ import annotations


def printable(text: str) -> str:
    """Without control characters, which XML refuses and terminals obey; line ends stay."""
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)


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
