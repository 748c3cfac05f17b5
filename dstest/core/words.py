"""How a value of a history stands in a sentence: as in the history itself, which is JSON. And how
a path stands in a command that is to be copied."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

__all__ = ["quoted", "shell_word"]


def quoted(value: Any) -> str:
    """`null`, `1`, `"x"`, `["x", null]`; what JSON has no form for as Python shows it."""
    try:
        return json.dumps(value, ensure_ascii=False, default=repr)
    except (TypeError, ValueError):
        return repr(value)


def shell_word(path: Path | str) -> str:
    """One word of a shell's command line, whatever is in it."""
    return shlex.quote(str(path))
