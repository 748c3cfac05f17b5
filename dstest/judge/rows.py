"""Audit rows: how they are made, and that a row whose program breaks is short, never absent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from dstest.core.evidence import AuditRow
from dstest.judge.facts import RunFacts

UNEXPLAINED: Final = "that no fault explains"
NOT_SERVING: Final = "not serving after the settle phase"
"""What rows say in words that the page of a run looks for."""


def ok(evidence: str) -> AuditRow:
    """The row holds; `evidence` says so with numbers."""
    return AuditRow(status="ok", evidence=evidence)


def short(evidence: str) -> AuditRow:
    """The row does not hold, or nobody measured it."""
    return AuditRow(status="short", evidence=evidence)


def na(evidence: str) -> AuditRow:
    """The row does not apply; `evidence` says why."""
    return AuditRow(status="n/a", evidence=evidence)


def rows_of(
    programs: Mapping[str, Callable[[RunFacts], AuditRow]], facts: RunFacts
) -> dict[str, AuditRow]:
    """Each program's row."""
    return {name: program(facts) for name, program in programs.items()}
