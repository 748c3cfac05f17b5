"""The decision on one page of Markdown: what was decided, why in ten lines at most, by what."""

from __future__ import annotations

from typing import Final

from dstest.core.errors import Exit
from dstest.gate.decision import Decision
from dstest.gate.rules import RULES, Finding
from dstest.report.review.markdown import md

_LINES_MAX: Final = 10
_NEAR_MAX: Final = 30


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
        lines.append(f"- {row.id}: {': '.join(filter(None, (what, _code(row.command))))}")
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
