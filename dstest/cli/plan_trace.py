"""`dstest plan trace`: from what is required to what was shown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dstest.cli.output import say
from dstest.cli.plan import Json, PlanFile

if TYPE_CHECKING:
    from dstest.plans.execution.state import ExecutionDir
    from dstest.plans.model import Plan
    from dstest.plans.trace.matrix import Row, Traced


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
        say(msgspec.json.encode({**shown, **rows, "exit": int(found.exit_code)}).decode())
    else:
        _print(found)
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


def _print(found: Traced) -> None:
    for row in found.rows:
        say(_line(row))
    for text in found.violations:
        say(f"violated: {text}")
    for text in found.holes:
        say(f"hole: {text}")
    holes = f"{len(found.holes)} hole{'' if len(found.holes) == 1 else 's'}"
    say(f"{len(found.rows)} chains, {holes}, {len(found.violations)} violated")


def _line(row: Row) -> str:
    ids = f"{row.requirement:4} -> {row.claim:4} -> {row.invariant:4} -> {row.scenario:4}"
    return f"{ids} -> {row.evidence}"
