"""SARIF 2.1.0: a log of one run of a tool, and how its places are named.

Source: OASIS Standard, Static Analysis Results Interchange Format Version 2.1.0 (2020), 3.13 to
3.27.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

_SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)


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
