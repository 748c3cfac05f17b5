"""The formats of CI servers: workflow commands of GitHub Actions, JUnit XML as a suite of cases,
and SARIF 2.1.0 as a log of one run of a tool; and how each names a file.

Sources: GitHub Docs, Workflow commands for GitHub Actions, "Setting an error message"; OASIS
Standard, Static Analysis Results Interchange Format Version 2.1.0 (2020), 3.13 to 3.27.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal
from xml.etree import ElementTree

import msgspec

from dstest.core.words import printable

Level = Literal["notice", "warning", "error"]


def _data(text: str) -> str:
    return printable(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def command(
    level: Level, title: str, message: str, *, file: str | None = None, line: int | None = None
) -> str:
    """One line, whatever is in the texts. `file` is relative to the root of the checkout.

    `::error file=...,line=...,title=...::message`: a line break or a percent sign in what a run
    says would end a command or begin another, so they are escaped.
    """
    place = [] if file is None else [f"file={_property(file)}"]
    place += [] if line is None else [f"line={line}"]
    return f"::{level} {','.join([*place, f'title={_property(title)}'])}::{_data(message)}"


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


def numbered(cases: Iterable[Case]) -> list[Case]:
    """The second case of a name is `... (2)`: without what is drawn anew each time in them, names
    are the same in the next night."""
    seen = Counter[tuple[str, str]]()
    found = []
    for case in cases:
        seen[case.classname, case.name] += 1
        count = seen[case.classname, case.name]
        again = f" ({count})" if count > 1 else ""
        found.append(msgspec.structs.replace(case, name=f"{case.name}{again}"))
    return found


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


def shown_path(path: Path) -> str:
    """Relative to where the command runs, which is the root of a checkout where a code host shows
    it; absolute where it lies elsewhere."""
    relative = os.path.relpath(path)
    return str(path.resolve()) if relative.startswith("..") else Path(relative).as_posix()


def uri_of(path: Path) -> str:
    """The same as a URI reference (RFC 3986)."""
    from urllib.parse import quote

    shown = shown_path(path)
    return Path(shown).as_uri() if Path(shown).is_absolute() else quote(shown)


_SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)


def render_log(
    driver: dict[str, Any], invocation: dict[str, Any], results: Sequence[dict[str, Any]]
) -> str:
    """The log as JSON."""
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [invocation],
        "results": list(results),
    }
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, ensure_ascii=False) + "\n"
