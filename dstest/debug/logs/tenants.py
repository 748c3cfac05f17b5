"""Log check of the workload `boundary`: values of tenants that stand in logs of servers.

Its values are tokens that occur nowhere else. A log is read by those who run a system, and some
systems write what they store into it: that is told, and is no violation. A line that names another
tenant besides is told first: who is shown a log of one tenant reads there what is another one's.
"""

from __future__ import annotations

import re
from typing import Final

from dstest.core.op import Op
from dstest.debug.logs.scene import (
    CheckOutcome,
    Explanation,
    Line,
    LogRow,
    Rule,
    Scene,
    Tally,
    Watch,
)

VALUE: Final = re.compile(r"\bsecret-\d+-\d+-[0-9a-f]{8}\b")
"""As `workloads/boundary.py` makes them."""

LINES_MAX: Final = 50_000
"""Lines with such tokens that are remembered."""

_TODO: Final = "who reads these logs? leave values out, or write a digest of them"


class TenantValues(Watch):
    """Lines are kept until it is known which tokens were put, and by whom."""

    takes_operations = True

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._lines = self._left_out = 0
        self._kept: list[tuple[str, Explanation, LogRow, str]] = []
        self._owner: dict[str, str] = {}

    def line(self, line: Line) -> None:
        self._lines += 1
        text = line.record.message
        if VALUE.search(text) is None:
            return
        if len(self._kept) >= LINES_MAX:
            self._left_out += 1
            return
        self._kept.append((line.node, self.scene.explain(line), line.row, text))

    def op(self, op: Op, number: int) -> None:
        if op.op_type == "put" and isinstance(op.input, dict):
            self._owner[str(op.input.get("value"))] = str(op.key)

    def end(self) -> CheckOutcome:
        """Told by node; with the name of another tenant apart from without."""
        if not self._owner:
            return CheckOutcome(not_evaluated="no operation puts a value of a tenant")
        if not self._lines:
            return CheckOutcome(not_evaluated="no line was read")
        mixed, alone = Tally(), Tally()
        tenants = {*self._owner.values()}
        for node, said, row, text in self._kept:
            owners = {self._owner[value] for value in VALUE.findall(text) if value in self._owner}
            if owners:
                named = {word for word in re.findall(r"[\w-]+", text) if word in tenants}
                (mixed if named - owners or len(owners) > 1 else alone).add((node,), said, row)
        notes = [f"{self._left_out:,} more lines have such values"] if self._left_out else []
        read = f"{self._lines:,} lines"
        return CheckOutcome(
            findings=[
                *mixed.findings("medium", "a value of one tenant beside another tenant", _TODO),
                *alone.findings("low", "a value of a tenant stands in a log", _TODO),
            ],
            looked=f"{len(self._owner):,} values of {len(tenants):,} tenants in {read}",
            notes=[*mixed.notes, *alone.notes, *notes],
        )


TENANT_VALUES: Final = Rule(
    "tenant_values", "values of tenants in logs", TenantValues.end, "boundary", TenantValues
)
