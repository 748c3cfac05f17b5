"""`junit.xml`: a run as one test case, for CI servers.

A pass is a passed case, a violation a failure, a run that proved nothing an error. Only what was
never tried or cannot be tried here is skipped: a skip looks green on most servers.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from dstest.core.verdict import State
from dstest.report.model import RunReport

__all__ = ["kind_of", "render_junit", "xml_text"]

_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml_text(text: str) -> str:
    """Without the characters that XML 1.0 cannot hold."""
    return _ILLEGAL.sub("?", text)


def kind_of(state: State) -> str | None:
    """The element that a state puts into its test case; None for a pass."""
    if state.failed:
        return "failure"
    if state in (State.NOT_RUN, State.INCONCLUSIVE_ENV):
        return "skipped"
    return None if state.passed else "error"


def _properties(report: RunReport) -> dict[str, str]:
    """What a reader of a green row must know: how much was tested, and how to do it again."""
    return {
        "verdict": report.state.value,
        "tier": report.evidence.budget.met,
        "seed": str(report.history.header.seed),
        "nodes": str(len(report.history.header.nodes)),
        "command": report.command,
    }


def render_junit(report: RunReport) -> str:
    """The XML document as text."""
    state = report.state
    kind = kind_of(state)
    header = report.history.header
    name = "-".join(str(part) for part in (header.system, header.workload) if part) or "dstest"
    counts = {
        "tests": "1",
        "failures": str(int(kind == "failure")),
        "errors": str(int(kind == "error")),
        "skipped": str(int(kind == "skipped")),
        "time": f"{report.load_s:.3f}",
    }
    suite = ElementTree.Element("testsuite", {"name": xml_text(f"dstest.{name}"), **counts})
    case = ElementTree.SubElement(
        suite,
        "testcase",
        {"classname": xml_text(name), "name": xml_text(report.run), "time": counts["time"]},
    )
    properties = ElementTree.SubElement(case, "properties")
    for key, value in _properties(report).items():
        ElementTree.SubElement(properties, "property", {"name": key, "value": xml_text(value)})
    if kind is not None:
        message = xml_text(report.verdict.reason)
        row = ElementTree.SubElement(case, kind, {"message": message, "type": state.value})
        row.text = xml_text("\n".join(report.verdict.why_not_better))
    said = ElementTree.SubElement(case, "system-out")
    said.text = xml_text(f"{state.value} ({report.verdict.rule}): {report.verdict.reason}")
    ElementTree.indent(suite)
    text = ElementTree.tostring(suite, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'
