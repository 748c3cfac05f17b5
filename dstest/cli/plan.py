"""`dstest plan`: test plans: written, held to their rules, shown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dstest.cli.output import say
from dstest.core.errors import Exit

if TYPE_CHECKING:
    from dstest.plans.draft.diff import Change
    from dstest.plans.draft.new import Written
    from dstest.plans.lint import Finding
    from dstest.plans.model import Plan, Scenario
    from dstest.plans.toolbox import Missing, Tool

plan_app = typer.Typer(
    no_args_is_help=True, help="Test plans: write, check, show; what judges which claim."
)

PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="A plan, in Markdown.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]


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
    from dstest.core.plugin_files import named_in
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
    from dstest.plans.draft.diff import changed_by_diff, changed_by_git

    if change is not None and diff is not None:
        raise ConfigError("--change and --diff both say what has changed", remedy="one of them")
    if repo is not None and not repo.is_dir():
        raise ConfigError(f"--repo {repo}: no directory", remedy="the root of a repository")
    if change is not None:
        return changed_by_git(repo or Path(), change)
    return None if diff is None else changed_by_diff(diff)


def _told(written: Written | None, why: str, json_: bool) -> None:
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

    from dstest.core.claims import CATEGORIES
    from dstest.core.errors import ConfigError
    from dstest.core.near import meant
    from dstest.core.plugin_files import named_in
    from dstest.plans.toolbox import toolbox as toolbox_of

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
