"""The decision as JUnit XML: a case for each claim, control and plan, and one for the evidence."""

from __future__ import annotations

from collections.abc import Sequence

from dstest.ci.junit import Case, Kind, render_suite
from dstest.core.errors import Exit
from dstest.gate.decision import Decision
from dstest.gate.rules import RULES, Finding


def render_junit(decision: Decision) -> str:
    """The XML document. A violation is a failure; evidence that is not enough is an error."""
    known = {row.id for row in decision.rows}
    cases = [_case("evidence", "", [f for f in decision.findings if f.of not in known])]
    cases += [
        _case(row.id, row.said, [f for f in decision.findings if f.of == row.id] or row.missing)
        for row in decision.rows
    ]
    return render_suite(f"dstest.gate {decision.policy}", cases)


def _case(name: str, said: str, found: Sequence[Finding]) -> Case:
    if not found:
        return Case(classname="dstest.gate", name=name, said=said)
    first = found[0]
    return Case(
        classname="dstest.gate",
        name=name,
        kind=_kind(found),
        message=f"{first.rule}: {first.what}",
        type=first.rule,
        text="\n".join(f"{f.rule}: {f.what} ({f.where})" for f in found),
        said=said,
    )


def _kind(found: Sequence[Finding]) -> Kind:
    return "failure" if any(RULES[f.rule].exit is Exit.FAIL for f in found) else "error"
