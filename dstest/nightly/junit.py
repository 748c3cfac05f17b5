"""`junit.xml` of a night: each cell with its seed as one test case, for CI servers.

What is as it must be is a passed case, a red control that was found out as well. A violation where
there must be none, and a red control that did not show its bug or showed another one, is a failure.
What came to no verdict or was never run is an error: a skip looks green on most servers.
"""

from __future__ import annotations

import shlex
from xml.etree import ElementTree

from dstest.nightly.outcome import Shown
from dstest.nightly.state import Item, Night
from dstest.report.junit import xml_text

__all__ = ["render_junit"]


def _kind(shown: Shown) -> str | None:
    if shown == "as-it-must":
        return None
    return "error" if shown == "no-verdict" else "failure"


def _properties(item: Item) -> dict[str, str]:
    last = item.tries[-1].judged if item.tries else None
    return {
        "control": item.expected.control or "none",
        "stands": item.shown,
        "verdicts": ", ".join(one.judged.state.value for one in item.tries if one.judged),
        "seed": str(item.seed),
        "faults": "" if last is None else f"{last.landed} of {last.planned} landed",
        "command": shlex.join(["dstest", *item.argv]),
    }


def _case(suite: ElementTree.Element, name: str, item: Item) -> None:
    took_s = sum(one.took_s for one in item.tries)
    row = {"classname": xml_text(name), "name": xml_text(item.id), "time": f"{took_s:.3f}"}
    case = ElementTree.SubElement(suite, "testcase", row)
    properties = ElementTree.SubElement(case, "properties")
    for key, value in _properties(item).items():
        ElementTree.SubElement(properties, "property", {"name": key, "value": xml_text(value)})
    if kind := _kind(item.shown):
        attributes = {"message": xml_text(item.why_not), "type": item.shown}
        ElementTree.SubElement(case, kind, attributes).text = xml_text(item.why_not)


def render_junit(night: Night, word: str, sentence: str) -> str:
    """The XML document as text; `word` and `sentence` are those of the night."""
    kinds = [_kind(item.shown) for item in night.items]
    name = f"dstest.nightly.{night.name}"
    row = {
        "name": xml_text(name),
        "tests": str(len(kinds)),
        "failures": str(kinds.count("failure")),
        "errors": str(kinds.count("error")),
        "skipped": "0",
        "time": f"{night.spent_s:.3f}",
    }
    suite = ElementTree.Element("testsuite", row)
    for item in night.items:
        _case(suite, name, item)
    if night.chosen:  # such a night is no green one, whatever its cells have shown
        case = ElementTree.SubElement(suite, "testcase", {"classname": name, "name": "night"})
        ElementTree.SubElement(
            case, "error", {"message": xml_text(sentence), "type": xml_text(word)}
        )
        suite.set("tests", str(len(kinds) + 1))
        suite.set("errors", str(kinds.count("error") + 1))
    said = ElementTree.SubElement(suite, "system-out")
    said.text = xml_text(f"{word}: {sentence}")
    ElementTree.indent(suite)
    text = ElementTree.tostring(suite, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'
