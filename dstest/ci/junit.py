"""JUnit XML: a suite of cases, each with what a reader has to know of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from xml.etree import ElementTree

import msgspec

_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

Kind = Literal["failure", "error"] | None
"""The element that makes a case red; None for a green one. There is no `skipped`: most servers show
that as green."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One row. `message`, `type` and `text` are of the element that makes it red; `said` is shown
    in any case."""

    classname: str
    name: str
    kind: Kind = None
    message: str = ""
    type: str = ""
    text: str = ""
    said: str = ""
    time_s: float | None = None
    properties: Mapping[str, Any] = msgspec.field(default_factory=dict)


def xml_text(text: str) -> str:
    """Without the characters that XML 1.0 cannot hold."""
    return _ILLEGAL.sub("?", text)


def _case(suite: ElementTree.Element, case: Case) -> None:
    row = {"classname": xml_text(case.classname), "name": xml_text(case.name)}
    if case.time_s is not None:
        row["time"] = f"{case.time_s:.3f}"
    made = ElementTree.SubElement(suite, "testcase", row)
    if case.properties:
        properties = ElementTree.SubElement(made, "properties")
        for key, value in case.properties.items():
            about = {"name": xml_text(key), "value": xml_text(str(value))}
            ElementTree.SubElement(properties, "property", about)
    if case.kind is not None:
        red = {"message": xml_text(case.message), "type": xml_text(case.type)}
        ElementTree.SubElement(made, case.kind, red).text = xml_text(case.text)
    if case.said:
        ElementTree.SubElement(made, "system-out").text = xml_text(case.said)


def render_suite(
    name: str, cases: Sequence[Case], *, time_s: float | None = None, said: str = ""
) -> str:
    """The XML document as text."""
    kinds = [case.kind for case in cases]
    row = {
        "name": xml_text(name),
        "tests": str(len(cases)),
        "failures": str(kinds.count("failure")),
        "errors": str(kinds.count("error")),
        "skipped": "0",
    }
    if time_s is not None:
        row["time"] = f"{time_s:.3f}"
    suite = ElementTree.Element("testsuite", row)
    for case in cases:
        _case(suite, case)
    if said:
        ElementTree.SubElement(suite, "system-out").text = xml_text(said)
    ElementTree.indent(suite)
    text = ElementTree.tostring(suite, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'
