"""Where the book of findings is."""

from __future__ import annotations

import os
from pathlib import Path


def book_file(given: Path | None = None) -> Path:
    """What was given, else `DSTEST_KB`, else a file of the user's own."""
    if given is not None:
        return given
    if named := os.environ.get("DSTEST_KB"):
        return Path(named)
    home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return Path(home) / "dstest" / "kb.sqlite"
