"""SARIF 2.1.0: a log of one run of a tool, and how its places are named.

Source: OASIS Standard, Static Analysis Results Interchange Format Version 2.1.0 (2020), 3.13 to
3.27.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

__all__ = ["render_log", "shown_path", "uri_of"]

_SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)


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


def render_log(
    driver: dict[str, Any], invocation: dict[str, Any], results: Sequence[dict[str, Any]]
) -> str:
    """The log as JSON."""
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [invocation],
        "results": list(results),
    }
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, ensure_ascii=False) + "\n"
