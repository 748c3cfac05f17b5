"""The reports of a session: report.html, session.md, junit.xml, and what the terminal shows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import msgspec

from dstest.core.spec import RunSpec
from dstest.core.verdict import State
from dstest.judge.session import ArmVerdict, SessionVerdict
from dstest.report.command import command_of
from dstest.report.html import environment, tone_of
from dstest.report.junit import kind_of, xml_text
from dstest.report.remedies import Remedy, remedies
from dstest.report.review.markdown import md
from dstest.report.terminal import colored, obstacles, wrap
from dstest.store.layout import write_file

__all__ = ["command_of_session", "session_reports", "session_text", "write_session"]

_SHOWN_MAX: Final = 8
"""Reasons why it is not better that the terminal shows; all are in the report."""


def command_of_session(spec: RunSpec, given: list[str], verdict: SessionVerdict) -> str:
    """The command that runs the same arms again."""
    plain = msgspec.to_builtins(spec)
    seeds = dict.fromkeys(arm.seed for arm in verdict.arms)
    sizes = dict.fromkeys(arm.nodes for arm in verdict.arms)
    whole = len(verdict.arms) == len(seeds) * len(sizes)
    plain["seed"] = ",".join(map(str, seeds))
    # Without --nodes a tier runs its first seed alone at its other sizes.
    plain["nodes"] = ",".join(map(str, sizes)) if whole else None
    plain["tier"] = None if verdict.tier_wanted == "smoke" else verdict.tier_wanted
    return command_of(plain, given)


def _obstacles(
    spec: RunSpec, given: list[str], verdict: SessionVerdict, links: Mapping[str, str]
) -> list[tuple[str, Remedy]]:
    """What stands in the way, with the ids of the arms of which that holds."""
    plain = msgspec.to_builtins(spec)
    by_obstacle: dict[str, tuple[list[str], Remedy]] = {}
    for arm in verdict.arms:
        lines = arm.why_not_better
        if not arm.rule:
            lines = [arm.reason]
        own = {**plain, "nodes": arm.nodes}
        for remedy in remedies(lines, own, given, links.get(arm.id) or arm.id):
            by_obstacle.setdefault(remedy.obstacle, ([], remedy))[0].append(arm.id)
    return [(", ".join(arms), remedy) for arms, remedy in by_obstacle.values()]


def session_text(
    path: Path, spec: RunSpec, given: list[str], verdict: SessionVerdict, *, color: bool = False
) -> str:
    """The terminal's summary."""
    lines = ["", colored(verdict.state, color), *wrap(verdict.reason, "  ", "  "), ""]
    for arm in verdict.arms:
        before = f"  (after {', '.join(s.value for s in arm.earlier)})" if arm.earlier else ""
        lines += wrap(f"{arm.id:12} {arm.state.value:32} {arm.rule}{before}", "  ", "    ")
    links = {arm: f"{path}/{link}" for arm, link in _links(path, verdict).items() if link}
    rows_of_obstacles = _obstacles(spec, given, verdict, links)
    if rows_of_obstacles:
        named = [
            Remedy(f"{arms}: {remedy.obstacle}", remedy.command)
            for arms, remedy in rows_of_obstacles[:_SHOWN_MAX]
        ]
        lines += ["", "why not better", *obstacles(named)]
    if len(rows_of_obstacles) > _SHOWN_MAX:
        lines.append(f"  - and {len(rows_of_obstacles) - _SHOWN_MAX} more, in the report")
    lines += [
        "",
        f"session     {verdict.outcome}",
        f"report      {path}/report.html",
        f"again       {command_of_session(spec, given, verdict)}",
    ]
    return "\n".join(lines)


def _runs(path: Path, arm: ArmVerdict) -> list[str]:
    """The run directories of an arm below the session's, oldest first."""
    runs = sorted(p.parent for p in (path / "arms" / arm.id).glob("*/segments"))
    return [run.relative_to(path).as_posix() for run in runs]


def _links(path: Path, verdict: SessionVerdict) -> dict[str, str]:
    """The newest run directory of each arm; empty where there is none."""
    return {arm.id: next(reversed(_runs(path, arm)), "") for arm in verdict.arms}


def _earlier(path: Path, arm: ArmVerdict) -> list[tuple[str, str]]:
    """State and run directory of each attempt before the one that counts."""
    runs = _runs(path, arm)[:-1]
    runs += [""] * (len(arm.earlier) - len(runs))
    return [(state.value, run) for state, run in zip(arm.earlier, runs, strict=False)]


def session_reports(
    path: Path, spec: RunSpec, given: list[str], verdict: SessionVerdict
) -> dict[str, str]:
    """All reports of a judged session by file name."""
    links = _links(path, verdict)
    rows_of_obstacles = _obstacles(spec, given, verdict, links)
    command = command_of_session(spec, given, verdict)
    name = f"{path.parent.name}/{path.name}"
    template = environment().get_template("session.html.j2")
    page: str = template.render(
        v=verdict,
        name=name,
        tone=tone_of(verdict.state),
        links=links,
        earlier={arm.id: _earlier(path, arm) for arm in verdict.arms},
        remedies=rows_of_obstacles,
        command=command,
    )
    return {
        "report.html": page,
        "session.md": _markdown(name, verdict, rows_of_obstacles, command),
        "junit.xml": _junit(spec, verdict, command),
    }


def write_session(path: Path, spec: RunSpec, given: list[str], verdict: SessionVerdict) -> None:
    """Write all reports of a session that has just been judged."""
    for name, text in session_reports(path, spec, given, verdict).items():
        write_file(path, name, text.encode(errors="replace"))


def _markdown(
    name: str, verdict: SessionVerdict, found: list[tuple[str, Remedy]], command: str
) -> str:
    lines = [
        f"# Session {md(name)}",
        "",
        f"Session {verdict.outcome}: {verdict.state.value}. {md(verdict.reason)}",
        "",
        f"- Budget met: {verdict.tier_met}, asked for: {verdict.tier_wanted}",
        f"- Agreeing seeds: {verdict.seeds_agreeing}",
        f"- Cluster sizes: {', '.join(map(str, verdict.sizes)) or 'none'}",
        "",
        "| Arm | Nodes | Seed | Verdict | Rule | Attempts before | Why |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {arm.id} | {arm.nodes} | {arm.seed} | {arm.state.value} | {arm.rule or '-'} |"
        f" {', '.join(s.value for s in arm.earlier) or 'none'} | {md(arm.reason)} |"
        for arm in verdict.arms
    ]
    lines += ["", "## Why not better", ""]
    for arm_id, remedy in found:
        lines.append(f"- {arm_id}: {md(remedy.obstacle)}")
        if remedy.command:
            lines.append(f"  Supplied by: `{remedy.command}`")
    if not found:
        lines.append("Nothing: no stronger verdict exists.")
    return "\n".join([*lines, "", "## Run it again", "", f"    {command}", ""])


def _junit(spec: RunSpec, verdict: SessionVerdict, command: str) -> str:
    """A test case per arm, and one for the session: what was asked for may not have been met."""
    name = f"{spec.system}-{spec.workload}"
    suite = ElementTree.Element("testsuite", {"name": xml_text(f"dstest.{name}")})
    kinds = [_case(suite, name, arm.id, arm.state, arm.reason, arm) for arm in verdict.arms]
    whole = ElementTree.SubElement(suite, "testcase", {"classname": name, "name": "session"})
    _properties(whole, {"tier": verdict.tier_met, "command": command})
    kind = kind_of(verdict.state)
    if kind is None and verdict.exit_code != 0:
        kind = "error"
    if kind is not None:
        row = {"message": xml_text(verdict.reason), "type": verdict.state.value}
        ElementTree.SubElement(whole, kind, row)
    kinds.append(kind)
    suite.set("tests", str(len(kinds)))
    for attribute, wanted in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(sum(1 for k in kinds if k == wanted)))
    ElementTree.indent(suite)
    text = ElementTree.tostring(suite, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _case(
    suite: ElementTree.Element,
    name: str,
    case_name: str,
    state: State,
    reason: str,
    arm: ArmVerdict,
) -> str | None:
    case = ElementTree.SubElement(suite, "testcase", {"classname": name, "name": case_name})
    facts = {"verdict": state.value, "rule": arm.rule, "seed": arm.seed, "nodes": arm.nodes}
    _properties(case, facts)
    kind = kind_of(state)
    if kind is not None:
        row = {"message": xml_text(reason), "type": state.value}
        ElementTree.SubElement(case, kind, row).text = xml_text("\n".join(arm.why_not_better))
    return kind


def _properties(case: ElementTree.Element, values: Mapping[str, Any]) -> None:
    rows = ElementTree.SubElement(case, "properties")
    for key, value in values.items():
        ElementTree.SubElement(rows, "property", {"name": key, "value": xml_text(str(value))})
