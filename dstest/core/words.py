"""How a value of a history stands in a sentence: as in the history itself, which is JSON."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["quoted"]


def quoted(value: Any) -> str:
    """`null`, `1`, `"x"`, `["x", null]`; what JSON has no form for as Python shows it."""
    try:
        return json.dumps(value, ensure_ascii=False, default=repr)
    except (TypeError, ValueError):
        return repr(value)
