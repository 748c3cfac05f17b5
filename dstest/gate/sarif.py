"""The decision as SARIF 2.1.0, which code hosts show beside the policy that was not kept.

A result stands at the table of the policy that it is about; a risk that is accepted is a suppressed
result (SARIF 2.1.0, 3.35), so that it does not vanish.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from dstest.ci.paths import uri_of
from dstest.ci.sarif import render_log
from dstest.core.errors import Exit
from dstest.gate.decision import Decision
from dstest.gate.reader import ReadPolicy
from dstest.gate.rules import RULES, Finding

_ORDER: Final = tuple(RULES)


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
    return render_log(driver, {"executionSuccessful": True, "exitCode": decision.exit}, results)


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
            "artifactLocation": {"uri": uri_of(read.path)},
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
