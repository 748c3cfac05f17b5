"""How a value of a history stands in a sentence, as in the history itself, which is JSON; sentences
after one another; and how a path stands in a command that is to be copied."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

__all__ = ["often", "quoted", "sentences", "shell_word"]


def quoted(value: Any) -> str:
    """As in the history itself: `null`, `1`, `"x"`, `["x", null]`; what JSON has no form for as
    Python shows it."""
    try:
        return json.dumps(value, ensure_ascii=False, default=repr)
    except (TypeError, ValueError):
        return repr(value)


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
