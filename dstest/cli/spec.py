"""`dstest spec`: specifications that are executed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dstest.cli import spec_against, spec_conform, spec_debug, spec_ledger, spec_live, spec_weaker
from dstest.cli.output import require_writable, say, write_whole
from dstest.cli.spec_common import Adversary, Constants, Given, Json, Out, as_json, told
from dstest.core.errors import Exit

if TYPE_CHECKING:
    from dstest.spec.explore import Outcome, Violation
    from dstest.spec.model import Model

spec_app = typer.Typer(
    no_args_is_help=True,
    help="Specifications that are executed: all of their states, random walks, why an action "
    "cannot be taken, and real runs held to them.",
)
for _command in (
    spec_conform.conform,
    spec_against.against,
    spec_live.live,
    spec_ledger.ledger,
    spec_debug.why,
    spec_debug.knock,
    spec_debug.drive,
    spec_debug.chart,
    spec_weaker.weaker,
    spec_debug.bisect,
    spec_debug.export,
):
    spec_app.command()(_command)


@spec_app.command("list")
def list_(json_: Json = False) -> None:
    """The specifications that come with dstest."""
    from dstest.spec.load import load, shipped_names

    models = {name: load(name) for name in shipped_names()}
    if json_:
        as_json({name: model.doc for name, model in models.items()})
        return
    for name, model in models.items():
        typer.echo(f"{name:14} {model.doc.partition(chr(10))[0]}")


@spec_app.command()
def explore(
    spec: Given,
    constants: Constants = None,
    adversary: Adversary = "all",
    max_states: Annotated[int, typer.Option(min=1, help="States, at most.")] = 1_000_000,
    max_depth: Annotated[int | None, typer.Option(min=0, help="Steps, at most.")] = None,
    deadlock: Annotated[bool, typer.Option(help="Is a state without a way on an error?")] = True,
    all_: Annotated[bool, typer.Option("--all", help="Go on after the first violation.")] = False,
    out: Out = None,
    json_: Json = False,
) -> None:
    """All states that a specification can reach: do its invariants hold?

    Exits with 0 where they hold in all of them, with 1 for a violation, of which the trace is a
    shortest one, and with 3 where a bound ended the search, nothing was held, or no action was ever
    taken. The verdict says how many actions were never taken: bounds may be too small for them."""
    from dstest.spec.adversary import allowed
    from dstest.spec.explore import explore as search
    from dstest.spec.load import load

    require_writable(out, "--out")
    model = allowed(load(spec, constants or ()), adversary)
    seen = search(
        model,
        max_states=max_states,
        max_depth=max_depth,
        deadlock=deadlock,
        all_violations=all_,
    )
    if json_:
        as_json(
            {
                "spec": model.name,
                "outcome": seen.outcome,
                "states": seen.states,
                "steps": seen.steps,
                "depth": seen.depth,
                "complete": seen.complete,
                "merged": seen.merged,
                "taken": seen.taken,
                "invariants": seen.counts,
                "violations": _violations(model, seen.violations),
            }
        )
    else:
        more = "" if seen.complete else ", and there are more"
        typer.echo(f"{seen.states} states, {seen.steps} steps, depth {seen.depth}{more}")
        if seen.merged:
            typer.echo("states stand for others by the word of canonical(), which is not proved")
        _say_rest(model, seen.counts, seen.never_taken, seen.violations, seen.outcome)
    _write(model, seen.violations, out)
    raise typer.Exit(_code(seen.outcome))


@spec_app.command()
def simulate(
    spec: Given,
    constants: Constants = None,
    adversary: Adversary = "all",
    seed: Annotated[int | None, typer.Option(help="Default: one that nobody chose.")] = None,
    walks: Annotated[int, typer.Option(min=1, help="Walks, at most.")] = 1000,
    steps: Annotated[int, typer.Option(min=1, help="Steps of a walk, at most.")] = 100,
    weight: Annotated[
        list[str] | None, typer.Option(metavar="ACTION=W", help="How often an action is taken.")
    ] = None,
    deadlock: Annotated[bool, typer.Option(help="Is a state without a way on an error?")] = True,
    out: Out = None,
    json_: Json = False,
) -> None:
    """Random walks, until the first violation. The same seed walks the same ways.

    Exits with 0 where none was met, which proves nothing, with 1 for a violation, and with 3 where
    nothing was held or no action was ever taken."""
    from dstest.core.rng import fresh_seed
    from dstest.spec.adversary import allowed
    from dstest.spec.load import load
    from dstest.spec.walk import walk

    require_writable(out, "--out")
    model = allowed(load(spec, constants or ()), adversary)
    chosen = fresh_seed() if seed is None else seed
    seen = walk(
        model,
        seed=chosen,
        walks=walks,
        max_steps=steps,
        weights=_weights(weight or []),
        deadlock=deadlock,
    )
    if json_:
        as_json(
            {
                "spec": model.name,
                "outcome": seen.outcome,
                "seed": chosen,
                "walks": seen.walks,
                "walk_of_violation": seen.walk_of_violation,
                "steps": seen.steps,
                "longest": seen.longest,
                "taken": seen.taken,
                "guards": seen.guards,
                "invariants": seen.counts,
                "violations": _violations(model, seen.violations),
            }
        )
    else:
        typer.echo(f"seed {chosen}: {seen.walks} walks, {seen.steps} steps, {seen.longest} at most")
        if seen.never_false:
            typer.echo(f"guards that were never false: {', '.join(seen.never_false)}")
        _say_rest(model, seen.counts, seen.never_taken, seen.violations, seen.outcome)
    _write(model, seen.violations, out)
    raise typer.Exit(Exit.PASS if seen.outcome == "bounded" else _code(seen.outcome))


def _weights(given: list[str]) -> dict[str, float]:
    from dstest.core.errors import ConfigError

    found = {}
    for one in given:
        name, _, text = one.partition("=")
        try:
            found[name] = float(text)
        except ValueError:
            found[name] = -1.0
        if not 0 <= found[name] < float("inf"):
            raise ConfigError(f"{one!r} is no weight", remedy="--weight ACTION=2.5, 0 for never")
    return found


@spec_app.command()
def mutate(
    spec: Given,
    constants: Constants = None,
    max_states: Annotated[int, typer.Option(min=1, help="States of a mutant, at most.")] = 100_000,
    deadlock: Annotated[bool, typer.Option(help="Is a state without a way on an error?")] = True,
    json_: Json = False,
) -> None:
    """Rules dropped or changed, one at a time: do the invariants notice?

    Exits with 0 where each mutant was killed, with 3 where one survived or could not be decided."""
    from dstest.spec.load import load
    from dstest.spec.mutate import campaign

    model = load(spec, constants or ())
    done = campaign(model, max_states=max_states, deadlock=deadlock)
    killed = sum(one.fate == "killed" for one in done)
    wrong = sum(one.fate == "error" for one in done)
    if json_:
        as_json(
            {
                "spec": model.name,
                "killed": killed,
                "errors": wrong,
                "total": len(done),
                "mutants": done,
            }
        )
    else:
        for one in done:
            if one.fate not in ("killed", "error"):
                near = f"; nearest: {', '.join(one.nearest)}" if one.nearest else ""
                near = "; the action is never taken" if one.never_taken else near
                at = f" at {one.place}" if one.place else ""
                typer.echo(f"{one.fate}: {one.operator} of {one.action}{at}: {one.what}{near}")
        also = f", {wrong} went wrong by themselves" if wrong else ""
        typer.echo(f"{killed} of {len(done)} mutants killed{also}")
    raise typer.Exit(Exit.PASS if killed and killed + wrong == len(done) else Exit.NOT_PROVEN)


def _code(outcome: Outcome) -> Exit:
    return {"holds": Exit.PASS, "violated": Exit.FAIL}.get(outcome, Exit.NOT_PROVEN)


def _violations(model: Model, violations: list[Violation]) -> list[dict[str, Any]]:
    from dstest.spec.trace_file import written

    return [
        {"id": one.id, "text": one.text, "trace": written(model, one.trace)} for one in violations
    ]


def _write(model: Model, violations: list[Violation], out: Path | None) -> None:
    from dstest.spec.trace_file import to_bytes

    if out is None:
        return
    if violations:
        write_whole(out, to_bytes(model, violations[0].trace), "--out")
    else:
        typer.echo(f"no violation, so {out} is not written", err=True)


def _say_rest(
    model: Model,
    counts: dict[str, Any],
    never_taken: list[str],
    violations: list[Violation],
    outcome: Outcome,
) -> None:
    for one in model.invariants:
        if one.id in counts:
            count = counts[one.id]
            typer.echo(f"{one.id:8} {count.passed:>9} held {count.failed:>6} not: {one.text}")
    if never_taken:
        typer.echo(f"never taken: {', '.join(never_taken)}")
    for violation in violations:
        typer.echo(f"\n{violation.id} is violated: {violation.text}")
        told(violation.trace)
    untaken, all_ = len(never_taken), len(model.actions)
    rest = f"; {untaken} of {all_} actions were never taken within these bounds" if untaken else ""
    why = "nothing was held, or some of it never"
    if untaken == all_:
        why = "nothing but the start was seen"
    say(
        {
            "holds": f"holds: in each state that can be reached{rest}",
            "violated": "violated",
            "bounded": f"no violation, and not all was seen: this proves nothing{rest}",
            "vacuous": f"vacuous: {why}{rest}",
        }[outcome]
    )
