"""session-log.md: an execution for people, written anew at each step (discipline 6.2)."""

from __future__ import annotations

from dstest.core.run_meta import RunMeta
from dstest.plans.execution.state import Execution, ExecutionDir, Step
from dstest.report.review.markdown import md, table


def _there(present: bool | None) -> str:
    return {True: "yes", False: "NO", None: "asked on the nodes"}[present]


def session_log(
    directory: ExecutionDir, execution: Execution, metas: dict[str, list[RunMeta]]
) -> str:
    """The page. `metas` are the run.json of each step's runs, by its id."""
    head = [
        f"# Session log: {md(execution.slug)}",
        "",
        f"- Plan: {md(execution.plan_path)}, sha256 {execution.plan_sha256[:16]}",
        f"- Directory: {md(directory.path)}",
        f"- System: {md(execution.system)}",
        f"- Commit under test: {md(execution.commit or 'not told')}",
        f"- Budget: {execution.budget}",
        f"- Started {execution.started}, ended {execution.ended or 'not yet'}",
        f"- Outcome: {execution.outcome or 'open'}",
        "",
    ]
    return "\n".join(
        [
            *head,
            "## Toolbox discovered",
            "",
            *(f"- {group}: {', '.join(names)}" for group, names in execution.toolbox.items()),
            "",
            "## Environment capability matrix",
            "",
            *table(
                ("Requirement", "Present", "Version", "Source", "Scenarios"),
                (
                    (r.needs, _there(r.present), r.version or "-", r.source, ", ".join(r.scenarios))
                    for r in execution.capabilities
                ),
            ),
            "## Preconditions",
            "",
            *_preconditions(execution, metas),
            "## Scenario timeline",
            "",
            *table(
                ("UTC", "Scenario", "Event", "Notes"),
                ((e.utc, e.step or "-", e.event, e.notes or "-") for e in execution.events),
            ),
            "## Scenario verdicts",
            "",
            *table(
                ("Arm", "Budget asked for", "Verdict", "Notes"),
                (
                    (s.id, execution.budget, s.state or "pending", s.reason or "-")
                    for s in execution.steps
                ),
            ),
            "## Artifacts",
            "",
            *(_artifact(directory, step) for step in execution.steps),
            "",
        ]
    )


def _preconditions(execution: Execution, metas: dict[str, list[RunMeta]]) -> list[str]:
    """What each run had found before its load, as it wrote that down itself."""
    rows = []
    for step in execution.steps:
        for meta in metas.get(step.id, []):
            healthy = meta.healthy or {}
            up = [name for name, well in healthy.items() if well]
            rows.append(
                (
                    step.id,
                    f"{len(up)} of {len(meta.members or meta.nodes)} members well"
                    if healthy
                    else "not recorded",
                    meta.system_version or "not told",
                    f"{meta.faults_planned} faults planned"
                    if meta.faults_planned
                    else "no fault planned",
                    "logs and processes watched" if meta.processes else "processes not watched",
                )
            )
    if not rows:
        return ["No run has begun yet.", ""]
    return table(("Step", "Cluster at the end", "Version", "Fault plane", "Observability"), rows)


def _artifact(directory: ExecutionDir, step: Step) -> str:
    log = directory.log_of(step)
    said = f", `{directory.relative(log)}`" if log.exists() else ""
    return f"- {md(step.id)}: {f'`{step.result}`' if step.result else 'nothing'}{said}"
