"""What was published of the versions that Debian ships, as runs that find it, and their controls.

A finding is a run that must fail in its own way; a control is one that must pass: the same system,
load and faults, with the setting that the documentation promises to be safe.
"""

from __future__ import annotations

from typing import Final

from dstest.findings.entries.finding import Finding
from dstest.findings.entries.queues import QUEUES
from dstest.findings.entries.sql import SQL
from dstest.findings.entries.stores import STORES

__all__ = ["CATALOGUE", "by_id"]

CATALOGUE: Final[tuple[Finding, ...]] = (*SQL, *STORES, *QUEUES)


def by_id(id_: str) -> Finding | None:
    """The entry of that name."""
    return next((finding for finding in CATALOGUE if finding.id == id_), None)
