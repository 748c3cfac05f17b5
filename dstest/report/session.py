"""The reports of a session: report.html, session.md, junit.xml, and what the terminal shows."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import UNSET

from dstest.core.errors import DstestError
from dstest.core.run_record import RunSpec
from dstest.core.run_words import case_name, command_of
from dstest.core.words import one_line
from dstest.history.layout import RunDir, write_file
from dstest.judge.session import ArmVerdict, SessionVerdict
from dstest.judge.words import spelled
from dstest.report.ci_formats import Case, numbered, render_suite
from dstest.report.html import templates, tone_of
from dstest.report.model import load_brief, load_report
from dstest.report.remedies import Remedy, after_failure, remedies
from dstest.report.review.model import md
from dstest.report.summarize import headline_of
from dstest.report.terminal import colored, obstacles, wrap
from dstest.report.write import kind_of

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
    lines += _after(spec, given, verdict, links)
    lines += [
        "",
        f"session     {verdict.outcome}",
        one_line(f"report      {path}/report.html"),
        one_line(f"again       {command_of_session(spec, given, verdict)}"),
    ]
    return "\n".join(lines)


def _after(
    spec: RunSpec, given: list[str], verdict: SessionVerdict, links: Mapping[str, str]
) -> list[str]:
    """What to do after a failure, with the first arm that has failed."""
    arm = next((arm.id for arm in verdict.arms if arm.state.failed and links.get(arm.id)), None)
    if arm is None:
        return []
    steps = after_failure(msgspec.to_builtins(spec), links[arm], given=given)
    said = [Remedy(f"{arm}: {step.asks}", step.command) for step in steps]
    return ["", "what next", *obstacles(said)]


def headline_of_session(path: Path, verdict: SessionVerdict) -> str:
    """What the database did wrong, as the page begins of the first run that shows it; the reason of
    the verdict where none does, or what it left cannot be read any more."""
    for arm in verdict.arms:
        for run in reversed(_runs(path, arm)) if _ever_failed(arm) else ():
            with contextlib.suppress(DstestError):
                report = load_report(path / run)
                if report.state.failed:
                    return headline_of(report)
    return spelled(verdict.reason)


def _ever_failed(arm: ArmVerdict) -> bool:
    return any(state.failed for state in (arm.state, *arm.earlier))


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
    template = templates().get_template("session.html.j2")
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
        "junit.xml": _junit(path, spec, given, verdict, command),
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


def session_name(spec: RunSpec, given: list[str], verdict: SessionVerdict) -> str:
    """What was asked of a session, as the name of its test case: the same each time it is asked,
    whatever its seeds are."""
    tier = [] if verdict.tier_wanted == "smoke" else [verdict.tier_wanted]
    sizes = ",".join(map(str, dict.fromkeys(arm.nodes for arm in verdict.arms)))
    asked = {**msgspec.to_builtins(spec), "nodes": sizes or spec.nodes}
    return " ".join(["session", *tier, case_name(asked, given)])


def load_of_session(path: Path, verdict: SessionVerdict) -> float:
    """Seconds of load of all its runs, those that do not count included."""
    return sum(_load_s(path, arm) for arm in verdict.arms)


def _load_s(path: Path, arm: ArmVerdict) -> float:
    return sum(_load_of_run(path / run) for run in _runs(path, arm))


def _load_of_run(run: Path) -> float:
    """As its own case has it; of one without a verdict what its record says."""
    with contextlib.suppress(DstestError):
        kept = load_brief(run).summary
        if kept is not UNSET:
            return kept.load_s
    meta = RunDir(run).read_meta()
    return 0.0 if meta is None else meta.load_s or 0.0


def _junit(
    path: Path, spec: RunSpec, given: list[str], verdict: SessionVerdict, command: str
) -> str:
    """A test case per arm, and one for the session: what was asked for may not have been met."""
    name, plain = f"{spec.system}-{spec.workload}", msgspec.to_builtins(spec)
    arms = [
        _case(name, case_name({**plain, "nodes": arm.nodes}, given), arm, _load_s(path, arm))
        for arm in verdict.arms
    ]
    load_s = load_of_session(path, verdict)
    whole = _whole(name, session_name(spec, given, verdict), verdict, command, load_s)
    return render_suite(f"dstest.{name}", [*numbered(arms), whole], time_s=load_s)


def _whole(classname: str, name: str, verdict: SessionVerdict, command: str, load_s: float) -> Case:
    kind = kind_of(verdict.state)
    if kind is None and verdict.exit_code != 0:
        kind = "error"
    return Case(
        classname=classname,
        name=name,
        kind=kind,
        message=verdict.reason,
        type=verdict.state.value,
        time_s=load_s,
        properties={
            "verdict": verdict.state.value,
            "tier": verdict.tier_met,
            "tier_wanted": verdict.tier_wanted,
            "command": command,
        },
    )


def _case(classname: str, name: str, arm: ArmVerdict, load_s: float) -> Case:
    facts = {"verdict": arm.state.value, "rule": arm.rule, "seed": arm.seed, "nodes": arm.nodes}
    return Case(
        classname=classname,
        name=name,
        kind=kind_of(arm.state),
        message=arm.reason,
        type=arm.state.value,
        text="\n".join(arm.why_not_better),
        time_s=load_s,
        properties={**facts, "arm": arm.id},
    )
