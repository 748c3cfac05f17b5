"""The decision as SARIF 2.1.0, which code hosts show beside the policy that was not kept.

Source: OASIS Standard, Static Analysis Results Interchange Format Version 2.1.0 (2020), 3.13 to
3.27. A result stands at the table of the policy that it is about; a risk that is accepted is a
suppressed result (3.35), so that it does not vanish.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Final

from dstest.core.errors import Exit
from dstest.gate.decision import Decision
from dstest.gate.reader import ReadPolicy
from dstest.gate.rules import RULES, Finding

__all__ = ["render_sarif", "shown_path"]

_SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_ORDER: Final = tuple(RULES)


def shown_path(path: Path) -> str:
    """Relative to where the command runs, which is the root of a checkout where a code host shows
    it; absolute where it lies elsewhere."""
    relative = os.path.relpath(path)
    return str(path.resolve()) if relative.startswith("..") else Path(relative).as_posix()


def render_sarif(decision: Decision, read: ReadPolicy) -> str:
    """The log as JSON."""
    results = [_result(finding, read) for finding in decision.findings]
    for one in decision.accepted:
        because = f"{one.risk.owner}, until {one.risk.expires}: {one.risk.text}"
        suppression = {"kind": "external", "status": "accepted", "justification": because}
        results.append({**_result(one.finding, read), "suppressions": [suppression]})
    driver = {
        "name": "dstest gate",
        "version": decision.dstest,
        "rules": [_rule(id_) for id_ in _ORDER],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True, "exitCode": decision.exit}],
        "results": results,
    }
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, ensure_ascii=False) + "\n"


def _rule(id_: str) -> dict[str, Any]:
    rule = RULES[id_]
    level = "error" if rule.exit in (Exit.FAIL, Exit.NOT_PROVEN) else "none"
    return {
        "id": id_,
        "shortDescription": {"text": rule.title},
        "defaultConfiguration": {"level": level},
    }


def _result(finding: Finding, read: ReadPolicy) -> dict[str, Any]:
    place = {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(read.path)},
            "region": {"startLine": read.line_of(finding.of)},
        }
    }
    if finding.where:
        place["logicalLocations"] = [  # type: ignore[assignment]
            {"fullyQualifiedName": finding.where, "kind": "resource"}
        ]
    text = f"{finding.of}: {finding.what}" if finding.of else finding.what
    print_ = hashlib.sha256(f"{finding.rule} {finding.of} {finding.where}".encode()).hexdigest()
    return {
        "ruleId": finding.rule,
        "ruleIndex": _ORDER.index(finding.rule),
        "level": "error",
        "message": {"text": f"{text} ({finding.where})" if finding.where else text},
        "locations": [place],
        "partialFingerprints": {"dstestGate/v1": print_},
    }


def _uri(path: Path) -> str:
    shown = shown_path(path)
    return Path(shown).as_uri() if Path(shown).is_absolute() else Path(shown).as_posix()
