"""`dstest plan`: test plans: written, held to their rules, shown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dstest.cli.output import say
from dstest.core.errors import Exit

if TYPE_CHECKING:
    from dstest.plans.lint import Finding
    from dstest.plans.model import Plan, Scenario

__all__ = ["lint", "plan_app", "show"]

plan_app = typer.Typer(
    no_args_is_help=True, help="Test plans: write, check, show; what judges which claim."
)

PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="A plan, in Markdown.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]


@plan_app.command()
def lint(
    plan: PlanFile,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
    json_: Json = False,
) -> None:
    """Hold a plan to the rules L01 to L35: place, rule, remedy. Exit 2 where one of them keeps it
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
        for finding in found:
            typer.echo(_line(read, finding))
        number = len(found) - len(errors)
        typer.echo(
            f"{plan}: {_count(len(errors), 'error')}, {_count(number, 'warning')}; "
            f"{_count(len(read.scenarios), 'scenario')}, {_count(len(read.claims), 'claim')}"
        )
    raise typer.Exit(Exit.USAGE if bad else Exit.PASS)


def _line(plan: Plan, finding: Finding) -> str:
    place = f"{plan.path}:{finding.line}: {finding.severity} {finding.rule}: {finding.what}"
    return f"{place}\n  remedy: {finding.remedy}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


@plan_app.command()
def show(plan: PlanFile, json_: Json = False) -> None:
    """What a plan holds, and the command of each scenario for each budget."""
    import msgspec

    from dstest.plans.reader import read_plan

    read = read_plan(plan)
    if json_:
        rows = {f: getattr(read, f) for f in read.__struct_fields__ if f not in ("text", "empty")}
        commands = {one.id: _commands(one) for one in read.scenarios}
        say(msgspec.json.encode({**rows, "commands": commands}).decode())
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
        for tier, reason in scenario.reasons.items():
            typer.echo(f"  {scenario.id} {tier}: {reason}")


def _commands(scenario: Scenario) -> dict[str, dict[str, list[str]]]:
    """By arm and budget, the words behind `dstest`."""
    return {
        scenario.arm_id(arm): {tier: scenario.arguments(tier, arm) for tier in scenario.budgets}
        for arm in scenario.arms
    }


def _typed(words: list[str]) -> str:
    import shlex

    return shlex.join(["dstest", *words])
