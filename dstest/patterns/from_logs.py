"""Signs that are checks of `dstest logs`: their findings, as findings of a pattern."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from dstest.logs.findings import Finding, Severity
from dstest.logs.windows import NO_TIME
from dstest.patterns.model import ROWS_MAX, Found, Need, Sign, Strength, row
from dstest.patterns.needs import EVERY
from dstest.patterns.scene import Scene

_TIMELESS: Final = "the lines have no time, and faults were done: one of them may explain it"


def _evaluated(check: str) -> Need:
    def missing(scene: Scene) -> str:
        return scene.checks[check].not_evaluated

    how = "`dstest logs RUN --check " + check + "` says what its lines lack"
    return Need("logs", f"what the check {check} looks at", how, missing)


def of_check(
    check: str,
    id_: str,
    *,
    strength: Strength,
    severity: Severity | None = None,
    only: Callable[[Finding], bool] | None = None,
    words: bool = False,
    basis: str = "",
) -> Sign:
    """Findings of one check, with the windows and severities that it has given, unless `severity`
    caps them."""

    def find(scene: Scene) -> Iterator[Found]:
        for one in scene.checks[check].findings:
            if only is None or only(one):
                timeless = one.window == NO_TIME and bool(scene.faults)
                yield Found(
                    said=f"{one.said} ({check})",
                    rows=[
                        row(
                            "operation" if line.place.startswith("history") else "log",
                            line.place,
                            line.text,
                            line.time_ns,
                        )
                        for line in one.rows[:ROWS_MAX]
                    ],
                    count=max(1, one.count),
                    nodes=one.nodes,
                    severity="medium" if timeless else severity or one.severity,
                    strength="weak" if timeless else None,
                    window=one.window,
                    expected=one.expected,
                    why=_TIMELESS if timeless else one.why,
                    at_ns=next((r.time_ns for r in one.rows if r.time_ns is not None), None),
                )

    return Sign(
        id=id_,
        asks=f"the check `{check}` of logs",
        needs=(EVERY, _evaluated(check)),
        find=find,
        strength=strength,
        severity=severity or "high",
        words=words,
        basis=basis,
    )
