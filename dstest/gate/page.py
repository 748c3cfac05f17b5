"""The decision, shown: to people on one page of Markdown (what was decided, why in ten lines at
most, by what) or as a file of HTML that asks for nothing else; to others as workflow commands of
GitHub Actions, as JUnit XML with a case for each claim, control and plan, and one for the evidence,
and as SARIF 2.1.0."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from dstest.core.errors import Exit
from dstest.gate.decision import Decision
from dstest.gate.policy import Finding, ReadPolicy
from dstest.gate.table import RULES
from dstest.report.ci_formats import (
    Case,
    Kind,
    Level,
    command,
    render_log,
    render_suite,
    shown_path,
    uri_of,
)
from dstest.report.html import templates
from dstest.report.review.model import md

_LINES_MAX: Final = 10
_NEAR_MAX: Final = 30
_ORDER: Final = tuple(RULES)


def why(decision: Decision) -> list[str]:
    """Ten lines at most: what stopped it, violations first, or what let it through."""
    if decision.exit == Exit.PASS:
        lines = [f"{row.id} {row.text}: {row.said}" for row in decision.rows]
    else:
        first = sorted(decision.findings, key=lambda f: RULES[f.rule].exit != Exit.FAIL)
        lines = [_line(finding) for finding in first]
    lines += [f"accepted until {one.risk.expires} by {one.risk.owner}: {one.risk.text}"
              for one in decision.accepted]  # fmt: skip
    if len(lines) > _LINES_MAX:
        lines = [*lines[: _LINES_MAX - 1], f"and {len(lines) - _LINES_MAX + 1} more, below"]
    return lines


def _line(finding: Finding) -> str:
    about = f" {finding.of}" if finding.of else ""
    where = f" ({finding.where})" if finding.where else ""
    return f"{finding.rule}{about}: {finding.what}{where}"


def render_page(decision: Decision) -> str:
    """The page."""
    told = (
        f"{md(decision.policy)}. Decided {decision.decided} by dstest {decision.dstest}, exit"
        f" {decision.exit}."
    )
    lines = [
        f"# Release gate: {decision.outcome}",
        "",
        told,
        "",
        "## Why",
        "",
        *(f"- {md(line)}" for line in why(decision)),
        "",
        "## What was asked for",
        "",
        "| | asked | there is | kept |",
        "|---|---|---|---|",
        *(
            f"| {row.id} | {md(row.text)} | {md(row.said)} | {'yes' if row.kept else 'NO'} |"
            for row in decision.rows
        ),
    ]
    lines += _numbers(decision)
    if decision.findings:
        lines += [
            "",
            "## What stands against it",
            "",
            "| rule | of | what | where |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| {f.rule} {RULES[f.rule].title} | {f.of} | {md(f.what)} | {md(f.where)} |"
            for f in decision.findings
        ]
    if decision.accepted:
        lines += [
            "",
            "## Accepted risks",
            "",
            "| risk | of | what is short | why it is accepted | owner | until |",
            "|---|---|---|---|---|---|",
        ]
        lines += [
            f"| {one.risk.id} | {one.risk.of} | {one.finding.rule}: {md(one.finding.what)} | "
            f"{md(one.risk.text)} | {md(one.risk.owner)} | {one.risk.expires} |"
            for one in decision.accepted
        ]
    lines += [*_missing(decision), *_near(decision), "", "## By what", ""]
    lines += [f"- Policy {md(decision.policy_file)}, sha256 {decision.policy_sha256}"]
    lines += [f"- Store {md(store)}" for store in decision.stores]
    lines += [f"- {md(note)}" for note in decision.notes]
    lines += [
        f"- {row.id} leaves out {md(said)}" for row in decision.rows for said in row.not_counted
    ]
    lines += ["", "Runs that count, each with the sha256 of its check sums:", ""]
    lines += [f"- {md(run)} {digest}" for run, digest in decision.evidence.items()]
    return "\n".join(lines) + "\n"


def _numbers(decision: Decision) -> list[str]:
    """What each row asks for, and what there is."""
    rows = [
        f"| {row.id} | {md(count.name)} | {md(count.asked)} | {md(count.there)} |"
        for row in decision.rows
        for count in row.counts
    ]
    return ["", "| | | asked for | there |", "|---|---|---|---|", *rows] if rows else []


def _missing(decision: Decision) -> list[str]:
    """What is missing and goes without saying, and the commands that make it."""
    rows = [row for row in decision.rows if not row.kept and (row.command or row.missing)]
    lines = ["", "## How to get what is missing", ""] if rows else []
    for row in rows:
        what = "; ".join(md(f"{f.rule} {f.what}") for f in row.missing)
        how = "; or ".join(filter(None, (_code(row.command), row.in_night)))
        lines.append(f"- {row.id}: {': '.join(filter(None, (what, how)))}")
    return lines


def _code(command: str) -> str:
    if not command:
        return ""
    return md(command) if "`" in command else f"`{command}`"


def _near(decision: Decision) -> list[str]:
    """Runs that nearly fit."""
    rows = [
        f"| {row.id} | {finding.rule} | it is {md(finding.what)} | {md(finding.where)} |"
        for row in decision.rows
        for finding in row.near
    ]
    if not rows:
        return []
    shown = rows[:_NEAR_MAX]
    more = [f"\n{len(rows) - _NEAR_MAX} more are in decision.json."] if rows[_NEAR_MAX:] else []
    head = ["", "## Runs that nearly fit", "", "| of | rule | why not | run |", "|---|---|---|---|"]
    return [*head, *shown, *more]


_TONES: Final = {int(Exit.PASS): "pass", int(Exit.FAIL): "fail"}


def render_html(decision: Decision) -> str:
    """The page."""
    template = templates().get_template("decision.html.j2")
    page: str = template.render(
        d=decision,
        tone=_TONES.get(decision.exit, "open"),
        why=why(decision),
        rules=RULES,
    )
    return page


def annotation_lines(decision: Decision, read: ReadPolicy) -> Iterator[str]:
    """A line for each finding; a warning for each accepted risk."""
    for finding in decision.findings:
        yield _annotation("error", finding, finding.what, read)
    for one in decision.accepted:
        said = f"accepted by {one.risk.owner} until {one.risk.expires}: {one.finding.what}"
        yield _annotation("warning", one.finding, said, read)


def _annotation(level: Level, finding: Finding, said: str, read: ReadPolicy) -> str:
    title = f"{finding.rule} {RULES[finding.rule].title}"
    about = f"{finding.of}: " if finding.of else ""
    where = f" ({finding.where})" if finding.where else ""
    file, line = shown_path(read.path), read.line_of(finding.of)
    return command(level, title, about + said + where, file=file, line=line)


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
        text="\n".join(f"{f.rule}: {f.what}{f' ({f.where})' if f.where else ''}" for f in found),
        said=said,
    )


def _kind(found: Sequence[Finding]) -> Kind:
    return "failure" if any(RULES[f.rule].exit is Exit.FAIL for f in found) else "error"


def render_sarif(decision: Decision, read: ReadPolicy) -> str:
    """The log as JSON.

    Code hosts show it beside the policy that was not kept. A result stands at the table of the
    policy that it is about; a risk that is accepted is a suppressed result (SARIF 2.1.0, 3.35), so
    that it does not vanish.
    """
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
