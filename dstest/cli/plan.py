"""`dstest plan`: test plans, written, held to their rules and shown, traced from what is required
to what was shown, executed (`run`, `resume`, `status`), and reported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from dstest.cli.options import Json, LabId
from dstest.cli.output import say
from dstest.core.errors import Exit

if TYPE_CHECKING:
    from dstest.plans.choice import Missing, Tool
    from dstest.plans.draft.new import NewPlan
    from dstest.plans.draft.sources import Change
    from dstest.plans.execution.state import Execution, ExecutionDir
    from dstest.plans.lint import Finding
    from dstest.plans.model import Plan, Scenario
    from dstest.plans.trace.matrix import MatrixRow, TraceMatrix
    from dstest.report.review.model import Report
    from dstest.report.review.rules import Broken

__all__ = [
    "plan_app",
    "report",
    "resume",
    "run",
    "status",
]


plan_app = typer.Typer(
    no_args_is_help=True, help="Test plans: write, check, show; what judges which claim."
)

PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="A plan, in Markdown.")]


@plan_app.command()
def new(
    system: Annotated[str, typer.Option(help="What is to be tested: a name, or a file.")],
    repo: Annotated[
        Path | None,
        typer.Option(help="Its repository: claims are looked for in there.", file_okay=False),
    ] = None,
    change: Annotated[
        str | None, typer.Option(help="Only what OLD..NEW (or one commit) of --repo has changed.")
    ] = None,
    diff: Annotated[
        Path | None, typer.Option(help="Only what this `git diff` has changed, applied to --repo.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Where it goes; default below docs/testing-plans.")
    ] = None,
    slug: Annotated[str, typer.Option(help="What it is called.", show_default=False)] = "",
    author: Annotated[str, typer.Option(help="Who answers for it.", show_default=False)] = "",
    json_: Json = False,
) -> None:
    """Write a plan: of all claims that can be tested of a system, or of those that a change
    touches. What only a person knows is marked `<fill: ...>`. A change without behaviour gets no
    plan."""
    from dstest.core.registry import named_in
    from dstest.plans.draft.new import Request, too_small, write

    found = _changed(repo, change, diff)
    if found is not None and (why := too_small(found)):
        _told(None, f"{why}; no plan is needed, and none was written", json_)
        return
    named = named_in("systems", system)
    root = repo or (None if found is None else Path())
    written = write(
        Request(system=named, repo=root, change=found, output=output, slug=slug, author=author)
    )
    _told(written, "", json_)


def _changed(repo: Path | None, change: str | None, diff: Path | None) -> Change | None:
    """What --change or --diff says; None for the whole of a system."""
    from dstest.core.errors import ConfigError
    from dstest.plans.draft.sources import change_from_diff, change_from_git

    if change is not None and diff is not None:
        raise ConfigError("--change and --diff both say what has changed", remedy="one of them")
    if repo is not None and not repo.is_dir():
        raise ConfigError(f"--repo {repo}: no directory", remedy="the root of a repository")
    if change is not None:
        return change_from_git(repo or Path(), change)
    return None if diff is None else change_from_diff(diff)


def _told(written: NewPlan | None, why: str, json_: bool) -> None:
    """What was written, or why nothing was."""
    import msgspec

    if json_:
        made = {"path": None} if written is None else msgspec.to_builtins(written, enc_hook=str)
        say(msgspec.json.encode({**made, "why_not": why or None}).decode())
        return
    if written is None:
        typer.echo(why)
        return
    typer.echo(
        f"written: {written.path}; {_count(written.claims, 'claim')}, "
        f"{_count(written.hypotheses, 'hypothesis', 'hypotheses')}, "
        f"{_count(written.scenarios, 'scenario')}"
    )
    if written.left_out:
        typer.echo(f"left out: {written.left_out} more sentences that may be claims")
    typer.echo(f"next:\n  dstest plan lint {written.path}")


@plan_app.command()
def lint(
    plan: PlanFile,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
    json_: Json = False,
) -> None:
    """Hold a plan to the rules L01 to L37: place, rule, remedy. Exit 2 where one of them keeps it
    from being run."""
    import msgspec

    from dstest.plans.lint import lint as lint_plan
    from dstest.plans.reader import read_plan

    read = read_plan(plan)
    found = lint_plan(read)
    errors = [finding for finding in found if finding.severity == "error"]
    bad = bool(found if strict else errors)
    if json_:
        shown = {"plan": read.path, "sha256": read.sha256, "sound": not errors, "clean": not found}
        say(msgspec.json.encode({**shown, "findings": found}).decode())
    else:
        told: set[str] = set()
        for finding in found:
            typer.echo(_line(read, finding, again=finding.rule in told))
            told.add(finding.rule)
        number = len(found) - len(errors)
        typer.echo(
            f"{plan}: {_count(len(errors), 'error')}, {_count(number, 'warning')}; "
            f"{_count(len(read.scenarios), 'scenario')}, {_count(len(read.claims), 'claim')}"
        )
    raise typer.Exit(Exit.USAGE if bad else Exit.PASS)


def _line(plan: Plan, finding: Finding, *, again: bool) -> str:
    """With what to do about it, once for each rule."""
    place = f"{plan.path}:{finding.line}: {finding.severity} {finding.rule}: {finding.what}"
    return place if again else f"{place}\n  remedy: {finding.remedy}"


def _count(number: int, word: str, several: str = "") -> str:
    return f"{number} {word if number == 1 else several or word + 's'}"


@plan_app.command()
def show(plan: PlanFile, json_: Json = False) -> None:
    """What a plan holds, and the command of each scenario for each budget."""
    import msgspec

    from dstest.plans.reader import read_plan

    read = read_plan(plan)
    if json_:
        rows = {f: getattr(read, f) for f in read.__struct_fields__ if f not in ("text", "empty")}
        commands = {one.id: _commands(one) for one in read.scenarios}
        red = {one.id: _red_commands(one) for one in read.scenarios}
        say(msgspec.json.encode({**rows, "commands": commands, "red": red}).decode())
        return
    front = read.front
    typer.echo(f"{front.slug} ({front.mode}, {front.status}, {front.date}): {front.sut}")
    for claim in read.claims:
        typer.echo(f"{claim.id:4} {claim.category:16} {claim.text}")
    for hypothesis in read.hypotheses:
        typer.echo(
            f"{hypothesis.id:4} against {', '.join(hypothesis.claims)}: {hypothesis.statement}"
        )
    for scenario in read.scenarios:
        typer.echo(f"\n{scenario.id:4} {scenario.name}: falsifies {', '.join(scenario.falsifies)}")
        for arm, tiers in _commands(scenario).items():
            for tier, words in tiers.items():
                typer.echo(f"  {arm} {tier}: {_typed(words)}")
        for arm, words in _red_commands(scenario).items():
            typer.echo(f"  {arm} red: {_typed(words)}")
        for tier, reason in scenario.reasons.items():
            typer.echo(f"  {scenario.id} {tier}: {reason}")


def _commands(scenario: Scenario) -> dict[str, dict[str, list[str]]]:
    """By arm and budget, the words behind `dstest`."""
    return {
        scenario.arm_id(arm): {tier: scenario.arguments(tier, arm) for tier in scenario.budgets}
        for arm in scenario.arms
    }


def _red_commands(scenario: Scenario) -> dict[str, list[str]]:
    """By arm, those of builds with a known bug, under which it has to be red first."""
    return {
        scenario.arm_id(arm): words
        for arm in scenario.arms
        if (words := scenario.red_arguments(arm))
    }


def _typed(words: list[str]) -> str:
    import shlex

    return shlex.join(["dstest", *words])


@plan_app.command()
def toolbox(
    system: Annotated[str, typer.Option(help="What is to be tested: a name, or a file.")],
    category: Annotated[
        str | None, typer.Option(help="Only claims of this category.", show_default=False)
    ] = None,
    json_: Json = False,
) -> None:
    """For each kind of claim: which checkers, workloads and nemeses fit the system, what is
    missing, and the command that writes a beginning of it."""
    import msgspec

    from dstest.core.check import CATEGORIES
    from dstest.core.errors import ConfigError
    from dstest.core.near import meant
    from dstest.core.registry import named_in
    from dstest.plans.choice import toolbox as toolbox_of

    if category is not None and category not in CATEGORIES:
        raise ConfigError(
            f"--category {category!r}: no such category",
            remedy=meant(category, sorted(CATEGORIES)),
        )
    box = toolbox_of(named_in("systems", system))
    tools = [tool for tool in box.tools if category in (None, tool.category)]
    untested = [one for one in box.untested if category is None or category in one.what]
    box = msgspec.structs.replace(box, tools=tools, untested=untested)
    if json_:
        say(msgspec.json.encode(box).decode())
        return
    for tool in sorted(tools, key=lambda tool: tool.category):
        _print_tool(tool)
    for one in untested:
        _print_missing(one)
    if box.refused and category is None:
        typer.echo("\nnemeses that do not fit:")
        for why in box.refused.values():
            typer.echo(f"  {why}")


def _print_tool(tool: Tool) -> None:
    typer.echo(f"\n{tool.category}, {tool.model}: {tool.kind}")
    checkers = ", ".join(f"--checker {name}" if tool.besides else name for name in tool.checkers)
    for word, names in (
        ("checkers", checkers),
        ("workloads", ", ".join(tool.workloads)),
        ("nemeses", ", ".join(tool.nemeses)),
    ):
        typer.echo(f"  {word:10} {names or 'nothing'}")
    for one in tool.missing:
        _print_missing(one)


def _print_missing(one: Missing) -> None:
    typer.echo(f"  missing    {one.what}{f': {one.command}' if one.command else ''}")


def trace(
    plan: PlanFile,
    execution: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Of `dstest plan run`; default: the newest of this plan in --store."
        ),
    ] = None,
    store: Annotated[Path, typer.Option(help="Where executions are looked for.")] = Path("store"),
    json_: Json = False,
) -> None:
    """Requirement, claim, invariant, scenario, evidence: each chain of a plan, and its holes.

    Evidence is read from the runs, and invariants are counted in them. Exits with 0 where all
    chains are whole, with 1 where something was shown false, and with 3 where there is a hole."""
    import msgspec

    from dstest.plans.reader import read_plan
    from dstest.plans.trace.matrix import trace as traced_of

    read = read_plan(plan)
    directory = _execution(read, execution, store)
    found = traced_of(read, directory)
    if json_:
        where = None if directory is None else str(directory.path)
        shown = {"plan": read.path, "sha256": read.sha256, "execution": where}
        rows = {"rows": found.rows, "holes": found.holes, "violations": found.violations}
        rows["unsaid"] = found.unsaid
        say(msgspec.json.encode({**shown, **rows, "exit": int(found.exit_code)}).decode())
    else:
        _say_chains(found)
    raise typer.Exit(found.exit_code)


def _execution(plan: Plan, given: Path | None, store: Path) -> ExecutionDir | None:
    from dstest.core.errors import DstestError
    from dstest.plans.execution.state import ExecutionDir

    if given is not None:
        return ExecutionDir.open(given)
    found = []
    for file in (store / plan.slug).glob("*/execution.json"):
        try:
            directory = ExecutionDir.open(file.parent)
            if directory.read().plan_sha256 == plan.sha256:
                found.append(directory)
        except DstestError:
            continue  # one that cannot be read is none of this plan
    return max(found, key=lambda one: one.path.name, default=None)


def _say_chains(found: TraceMatrix) -> None:
    for row in found.rows:
        say(_chain(row))
    for text in found.violations:
        say(f"violated: {text}")
    for text in found.holes:
        say(f"hole: {text}")
    for text in found.unsaid:
        say(f"in no claim of {text}")
    holes = f"{len(found.holes)} hole{'' if len(found.holes) == 1 else 's'}"
    say(f"{len(found.rows)} chains, {holes}, {len(found.violations)} violated")


def _chain(row: MatrixRow) -> str:
    ids = f"{row.requirement:4} -> {row.claim:4} -> {row.invariant:4} -> {row.scenario:4}"
    return f"{ids} -> {row.evidence}"


_PLACES_MAX = 3


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
    lab_id: LabId = None,
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
    from dstest.plans.review.gather import REPORT

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
    from dstest.plans.review.gather import review_again, write_report

    opened = ExecutionDir.open(directory)
    if again:
        write_report(opened)
    truth, broken = review_again(opened)
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
