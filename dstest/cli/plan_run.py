"""`dstest plan run`, `resume`, `status`, `report`: a plan executed, and what it came to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from dstest.cli.output import say
from dstest.cli.plan import Json, PlanFile, plan_app
from dstest.cli.plan_trace import trace
from dstest.core.errors import Exit

if TYPE_CHECKING:
    from dstest.plans.execution.state import Execution
    from dstest.report.review.model import Report
    from dstest.report.review.rules import Broken

_PLACES_MAX = 3

__all__ = ["plan_app", "report", "resume", "run", "status"]

plan_app.command()(trace)

Directory = Annotated[
    Path, typer.Argument(metavar="DIR", help="The directory of a plan's execution.")
]


@plan_app.command()
def run(
    plan: PlanFile,
    budget: Annotated[
        str, typer.Option(help="Which budget of the scenarios: smoke, hardening or release.")
    ] = "smoke",
    scenario: Annotated[
        list[str] | None, typer.Option(help="This one alone; several by saying it again.")
    ] = None,
    store: Annotated[Path, typer.Option(help="Where the directory goes.")] = Path("store"),
    lab_id: Annotated[str | None, typer.Option(help="Use or make the lab of this name.")] = None,
    commit: Annotated[
        str, typer.Option(help="What is tested, where it is a build of yours: its commit.")
    ] = "",
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Leave out what needs what is not there.")
    ] = False,
    json_: Json = False,
) -> None:
    """Execute a plan: what it needs is looked for first, then its scenarios run one by one, and a
    findings report says what they came to. Exit 2, with nothing touched, where the plan is unsound
    or something is missing."""
    from dstest.plans.execution.driver import begin

    places: list[Path] = []
    code = begin(
        plan,
        budget=budget,
        only=scenario or [],
        store=store,
        lab_id=lab_id,
        allow_missing=allow_missing,
        commit=commit,
        say=_say,
        began=places.append,
    )
    _ended(places[0], code, json_)


@plan_app.command()
def resume(directory: Directory, json_: Json = False) -> None:
    """Go on with a plan that was stopped or killed, from its first step that is not done."""
    from dstest.plans.execution.driver import resume as go_on

    _ended(directory, go_on(directory, say=_say), json_)


def _ended(directory: Path, code: int, json_: bool) -> NoReturn:
    """Tell a program what came of it, and exit."""
    import msgspec

    from dstest.plans.execution.state import ExecutionDir
    from dstest.plans.review.write import REPORT

    if json_:
        opened = ExecutionDir.open(directory)
        execution, report = opened.read(), opened.path / REPORT
        rows = [
            {
                "id": step.id,
                "status": step.status,
                "verdict": step.state,
                "reason": step.reason,
                "result": str(opened.path / step.result) if step.result else None,
            }
            for step in execution.steps
        ]
        shown = {
            "directory": str(opened.path),
            "exit": code,
            "outcome": execution.outcome or None,
            "report": str(report) if report.is_file() else None,
            "steps": rows,
        }
        say(msgspec.json.encode(shown).decode())
    raise typer.Exit(code)


@plan_app.command()
def status(directory: Directory, json_: Json = False) -> None:
    """How far a plan's execution is. Exit 0 in any case: the verdict is that of `report`."""
    import msgspec

    from dstest.plans.execution.state import ExecutionDir

    execution = ExecutionDir.open(directory).read()
    if json_:
        say(msgspec.json.encode(execution).decode())
        return
    done = sum(step.status == "done" for step in execution.steps)
    typer.echo(f"{execution.slug}: {done} of {len(execution.steps)} steps, {_state(execution)}")
    for step in execution.steps:
        typer.echo(f"{step.id:12} {step.state or step.status:32} {step.reason}")


def _state(execution: Execution) -> str:
    from dstest.runner.session import process_start_time

    if execution.outcome:
        return execution.outcome
    started = process_start_time(execution.pid)
    alive = started is not None and started == execution.pid_start_time
    return f"running (pid {execution.pid})" if alive else "stopped: `dstest plan resume` goes on"


@plan_app.command()
def report(
    directory: Directory,
    again: Annotated[
        bool, typer.Option("--again", help="Write the report anew from the evidence.")
    ] = False,
    json_: Json = False,
) -> None:
    """Decide every run of a plan by its evidence, and hold the report that lies there to the
    rules R01 to R19. Exits with the code of the session, and with 3 where the report breaks one."""
    import msgspec

    from dstest.plans.execution.state import ExecutionDir
    from dstest.plans.review.write import reviewed, write_report

    opened = ExecutionDir.open(directory)
    if again:
        write_report(opened)
    truth, broken = reviewed(opened)
    code = int(Exit.NOT_PROVEN) if broken else truth.exit_code
    if json_:
        shown = {"outcome": truth.outcome, "exit": code, "broken": broken}
        rows = [{"id": row.id, "verdict": row.verdict.value} for row in truth.results]
        say(msgspec.json.encode({**shown, "results": rows}).decode())
    else:
        _print(truth)
        _print_broken(broken)
        if broken:
            typer.echo("the report does not say what the evidence gives: --again writes it anew")
    raise typer.Exit(code)


def _print(truth: Report) -> None:
    for row in truth.results:
        typer.echo(f"{row.id:12} {row.verdict.value:32} {row.scenario}")
    typer.echo(f"{truth.outcome}: {truth.headline}")


def _print_broken(broken: list[Broken]) -> None:
    """The first places of each rule."""
    by_rule: dict[str, list[str]] = {}
    for one in broken:
        by_rule.setdefault(one.rule, []).append(one.what)
    for rule, said in by_rule.items():
        for line in said[:_PLACES_MAX]:
            typer.echo(f"{rule}: {line}")
        if len(said) > _PLACES_MAX:
            typer.echo(f"{rule}: and {len(said) - _PLACES_MAX} more, in --json")


def _say(text: str) -> None:
    typer.echo(text, err=True)


@plan_app.command()
def author(
    plan: PlanFile,
    repo: Annotated[Path, typer.Option(help="Where targets lie below.")] = Path(),
    beside: Annotated[
        bool, typer.Option("--new", help="Beside a file that is there, one with .new at its end.")
    ] = False,
    json_: Json = False,
) -> None:
    """Write the skeletons of a plan where its scenarios want them, with DSTEST_AUTHOR_MODE=1 alone.
    A file that is there is never written over. Exit 0, also where some were skipped."""
    import msgspec

    from dstest.plans.authoring import author as write
    from dstest.plans.reader import read_plan

    rows = write(read_plan(plan), repo, beside=beside)
    if json_:
        say(msgspec.json.encode({"plan": str(plan), "files": rows}, enc_hook=str).decode())
        return
    for row in rows:
        why = f" ({row.why})" if row.why else ""
        typer.echo(f"{row.scenario:6} {row.what:8} {row.path}{why}")
