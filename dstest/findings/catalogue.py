"""What was published of the versions that Debian ships, as runs that find it, and their controls.

A finding is a run that must fail in its own way. Its control is the same run but for one thing, and
must pass: with the setting that the documentation promises to be safe; where none is promised,
without the fault, or on the system that it was built from.
"""

from __future__ import annotations

from typing import Final

from dstest.findings.entries.finding import Finding
from dstest.findings.entries.queues import QUEUES
from dstest.findings.entries.sql import SQL
from dstest.findings.entries.stores import STORES

CATALOGUE: Final[tuple[Finding, ...]] = (*SQL, *STORES, *QUEUES)


def by_id(id_: str) -> Finding | None:
    """The entry of that name."""
    return next((finding for finding in CATALOGUE if finding.id == id_), None)
