"""`junit.xml`: a run as one test case, for CI servers.

A pass is a passed case, a violation a failure, a run that proved nothing an error. Only what was
never tried or cannot be tried here is skipped: a skip looks green on most servers.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from dstest.core.verdict import State
from dstest.report.model import RunReport

__all__ = ["render_junit"]

_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _text(text: str) -> str:
    """Without the characters that XML 1.0 cannot hold."""
    return _ILLEGAL.sub("?", text)


def render_junit(report: RunReport) -> str:
    """The XML document as text."""
    state = report.state
    kind = None
    if state.failed:
        kind = "failure"
    elif state in (State.NOT_RUN, State.INCONCLUSIVE_ENV):
        kind = "skipped"
    elif not state.passed:
        kind = "error"
    header = report.history.header
    name = "-".join(str(part) for part in (header.system, header.workload) if part) or "dstest"
    counts = {
        "tests": "1",
        "failures": str(int(kind == "failure")),
        "errors": str(int(kind == "error")),
        "skipped": str(int(kind == "skipped")),
        "time": f"{report.load_s:.3f}",
    }
    suite = ElementTree.Element("testsuite", {"name": _text(f"dstest.{name}"), **counts})
    case = ElementTree.SubElement(
        suite,
        "testcase",
        {"classname": _text(name), "name": _text(report.run), "time": counts["time"]},
    )
    if kind is not None:
        message = _text(report.verdict.reason)
        row = ElementTree.SubElement(case, kind, {"message": message, "type": state.value})
        row.text = _text("\n".join(report.verdict.why_not_better))
    said = ElementTree.SubElement(case, "system-out")
    said.text = _text(f"{state.value} ({report.verdict.rule}): {report.verdict.reason}")
    ElementTree.indent(suite)
    text = ElementTree.tostring(suite, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'
