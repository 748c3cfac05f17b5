"""What a check came to: findings with their evidence, or why there was nothing to look at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from dstest.core.printable import one_line
from dstest.logs.windows import Expected

Severity = Literal["critical", "high", "medium", "low"]
SEVERITIES: Final[tuple[Severity, ...]] = ("critical", "high", "medium", "low")

ROWS_MAX: Final = 5
"""Lines shown as the evidence of one finding; all are counted."""

GROUPS_MAX: Final = 2000
"""Findings of one check; what would be more is counted in the last of them."""

_WIDTH: Final = 200


class Row(msgspec.Struct, frozen=True):
    """A line that shows it. `time_ns` is run time, or nanoseconds since 1970 where there is no run;
    None: unknown."""

    place: str
    time_ns: int | None
    text: str


def row_of(place: str, time_ns: int | None, text: str) -> Row:
    """With the text on one line, and no longer than can be shown."""
    said = one_line(text.strip())
    return Row(place, time_ns, said if len(said) <= _WIDTH else said[: _WIDTH - 1] + "…")


class Finding(msgspec.Struct, kw_only=True):
    """`nodes` are those that it is about; of a pair, who says it comes first."""

    check: str
    severity: Severity
    nodes: list[str]
    window: str
    expected: bool
    why: str
    said: str
    count: int
    rows: list[Row] = msgspec.field(default_factory=list)
    todo: str = ""

    @property
    def bad(self) -> bool:
        """Does it speak against the system?"""
        return not self.expected and self.severity in ("critical", "high")


class Outcome(msgspec.Struct, kw_only=True):
    """Of one check. `not_evaluated` says why nothing was looked at; empty: something was. `looked`
    says what at, `notes` what of it was not. `facts` are figures beside the findings."""

    check: str
    findings: list[Finding] = msgspec.field(default_factory=list)
    not_evaluated: str = ""
    looked: str = ""
    notes: list[str] = msgspec.field(default_factory=list)
    facts: dict[str, Any] = msgspec.field(default_factory=dict)


class Tally:
    """Counts what belongs to one finding, and keeps the first lines of it."""

    def __init__(self) -> None:
        self._groups: dict[tuple[tuple[str, ...], str, bool], _Group] = {}
        self.left_out = 0

    def add(self, nodes: Iterable[str], said: Expected, row: Row) -> None:
        """One line."""
        key = (tuple(node for node in nodes if node), said.window, said.expected)
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) >= GROUPS_MAX:
                self.left_out += 1
                return
            group = self._groups[key] = _Group(said.why)
        group.count += 1
        if len(group.rows) < ROWS_MAX:
            group.rows.append(row)

    def findings(self, check: str, severity: Severity, said: str, todo: str) -> list[Finding]:
        """One for each group, `said` with its count."""
        return [
            Finding(
                check=check,
                severity=severity,
                nodes=list(nodes),
                window=window,
                expected=expected,
                why=group.why,
                said=said,
                count=group.count,
                rows=group.rows,
                todo=todo,
            )
            for (nodes, window, expected), group in self._groups.items()
        ]

    @property
    def notes(self) -> list[str]:
        """What was too much."""
        return [f"{self.left_out} lines of further groups"] if self.left_out else []


class _Group:
    def __init__(self, why: str) -> None:
        self.why = why
        self.count = 0
        self.rows: list[Row] = []
