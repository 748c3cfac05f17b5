"""How the formats of CI servers name a file."""

from __future__ import annotations

import os
from pathlib import Path


def shown_path(path: Path) -> str:
    """Relative to where the command runs, which is the root of a checkout where a code host shows
    it; absolute where it lies elsewhere."""
    relative = os.path.relpath(path)
    return str(path.resolve()) if relative.startswith("..") else Path(relative).as_posix()


def uri_of(path: Path) -> str:
    """The same as a URI reference (RFC 3986)."""
    from urllib.parse import quote

    shown = shown_path(path)
    return Path(shown).as_uri() if Path(shown).is_absolute() else quote(shown)
