"""Values of a history in sentences, and sentences after one another."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["quoted", "sentences"]


def quoted(value: Any) -> str:
    """As in the history itself: `null`, `1`, `"x"`, `["x", null]`; what JSON has no form for as
    Python shows it."""
    try:
        return json.dumps(value, ensure_ascii=False, default=repr)
    except (TypeError, ValueError):
        return repr(value)


def sentences(*parts: str) -> str:
    """The parts one after the other, each with the full stop that it may lack; empty ones fall
    out."""
    told = [part.strip() for part in parts if part.strip()]
    return " ".join(part if part.endswith((".", "!", "?")) else f"{part}." for part in told)
