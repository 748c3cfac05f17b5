"""The decision as JUnit XML: a case for each claim, control and plan, and one for the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from dstest.core.errors import Exit
from dstest.gate.decision import Decision
from dstest.gate.rules import RULES, Finding
from dstest.report.junit import xml_text

__all__ = ["render_junit"]


def render_junit(decision: Decision) -> str:
    """The XML document. A violation is a failure; evidence that is not enough is an error, since
    most servers show what is skipped as green."""
    known = {row.id for row in decision.rows}
    cases = [("evidence", "", [f for f in decision.findings if f.of not in known])]
    cases += [
        (row.id, row.said, [f for f in decision.findings if f.of == row.id])
        for row in decision.rows
    ]
    kinds = [kind for _, _, found in cases if (kind := _kind(found)) is not None]
    suite = ElementTree.Element(
        "testsuite",
        {
            "name": xml_text(f"dstest.gate {decision.policy}"),
            "tests": str(len(cases)),
            "failures": str(kinds.count("failure")),
            "errors": str(kinds.count("error")),
            "skipped": "0",
        },
    )
    for name, said, found in cases:
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": "dstest.gate", "name": xml_text(name)}
        )
        kind = _kind(found)
        if kind is not None:
            first = found[0]
            attributes = {"message": xml_text(f"{first.rule}: {first.what}"), "type": first.rule}
            row = ElementTree.SubElement(case, kind, attributes)
            row.text = xml_text("\n".join(f"{f.rule}: {f.what} ({f.where})" for f in found))
        ElementTree.SubElement(case, "system-out").text = xml_text(said)
    ElementTree.indent(suite)
    text = ElementTree.tostring(suite, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _kind(found: Sequence[Finding]) -> str | None:
    if not found:
        return None
    return "failure" if any(RULES[f.rule].exit is Exit.FAIL for f in found) else "error"
