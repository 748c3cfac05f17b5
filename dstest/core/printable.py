"""Text that may be of somebody else's making: of a node, a log, a history."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str) -> str:
    """Without control characters, which XML refuses and terminals obey; line ends stay."""
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)
