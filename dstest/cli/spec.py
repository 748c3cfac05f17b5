"""`dstest spec`: specifications that are executed, by themselves or against a system that has to do
what they say, and to answer as it has to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dstest.cli import spec_conform, spec_debug, spec_weaker
from dstest.cli.options import Json
from dstest.cli.output import require_writable, say, write_whole
from dstest.cli.spec_common import Adversary, Constants, Given, Out, as_json, told
from dstest.core.errors import Exit

if TYPE_CHECKING:
    from dstest.spec.against import Driven
    from dstest.spec.explore import Outcome, Violation
    from dstest.spec.model import Model
Seed = Annotated[int | None, typer.Option(help="Default: one that nobody chose.")]
Walks = Annotated[int, typer.Option(min=1, help="Walks, at most.")]
Steps = Annotated[int, typer.Option(min=1, help="Steps of a walk, at most.")]
Deadlock = Annotated[bool, typer.Option(help="Is a state without a way on an error?")]


def against(
    spec: Given,
    system: Annotated[
        str,
        typer.Argument(metavar="SYSTEM", help="FILE.py:CLASS, with take(step) and close()."),
    ],
    constants: Constants = None,
    adversary: Adversary = "all",
    seed: Seed = None,
    walks: Walks = 100,
    steps: Steps = 20,
    json_: Json = False,
) -> None:
    """Random walks of a specification, done by a system: does it answer as it has to? Clients that
    keep to no rule are actions of the specification, and can be left out.

    Exits with 0 where each answer was the one that the specification has, which proves nothing,
    with 1 for another one or an error, by the shortest walk that still ends in one, and with 3
    where an action was never taken, or no answer could have been wrong."""
    from dstest.core.rng import fresh_seed
    from dstest.spec.against import Driven, drive_against, subject_of
    from dstest.spec.compose import allowed, lacking, load
    from dstest.spec.trace import trace_data

    model = load(spec, constants or ())
    make = subject_of(system)
    chosen = fresh_seed() if seed is None else seed
    if absent := lacking(model, adversary):
        why = f"{model.name} has no action of clients that do {', '.join(absent)}"
        seen = Driven(seed=chosen, taken={}, vacuous=[why])
    else:
        model = allowed(model, adversary)
        seen = drive_against(model, make, seed=chosen, walks=walks, max_steps=steps)
    code = _code_of_driven(seen)
    if json_:
        found = seen.difference
        facts = None
        if found is not None:
            facts = {
                "walk": found.walk,
                "wanted": found.wanted,
                "got": found.got,
                "adversaries": found.adversaries,
                "full": found.full,
                "trace": trace_data(model, found.trace),
            }
        counts = {
            "walks": seen.walks,
            "steps": seen.steps,
            "taken": seen.taken,
            "compared": seen.compared,
            "vacuous": seen.vacuous,
        }
        as_json({"spec": model.name, "seed": chosen, **counts, "difference": facts})
    else:
        _print(model, seen)
    raise typer.Exit(code)


def _code_of_driven(seen: Driven) -> Exit:
    if seen.difference is not None:
        return Exit.FAIL
    return Exit.NOT_PROVEN if seen.never_taken or seen.vacuous else Exit.PASS


def _print(model: Model, seen: Driven) -> None:
    say(f"seed {seen.seed}: {seen.walks} walks, {seen.steps} steps of {model.name}")
    found = seen.difference
    if found is not None:
        told(found.trace)
        say(f"is answered {found.got}; {model.name} has {found.wanted}")
        kinds = ", ".join(found.adversaries) or "none"
        say(f"{len(found.trace.steps)} steps, of {found.full}; adversaries among them: {kinds}")
    if seen.vacuous:
        say(f"vacuous: {'; '.join(seen.vacuous)}")
    if seen.never_taken and found is None:
        say(f"never taken: {', '.join(seen.never_taken)}")
    if _code_of_driven(seen) == Exit.PASS:
        say("each answer is the one that it has to be: this proves nothing")


spec_app = typer.Typer(
    no_args_is_help=True,
    help="Specifications that are executed: all of their states, random walks, why an action "
    "cannot be taken, and real runs held to them.",
)
for _command in (
    spec_conform.conform,
    against,
    spec_debug.live,
    spec_conform.ledger,
    spec_conform.layers,
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
    from dstest.spec.compose import load, shipped_names

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
    deadlock: Deadlock = True,
    all_: Annotated[bool, typer.Option("--all", help="Go on after the first violation.")] = False,
    out: Out = None,
    json_: Json = False,
) -> None:
    """All states that a specification can reach: do its invariants hold?

    Exits with 0 where they hold in all of them, with 1 for a violation, of which the trace is a
    shortest one, and with 3 where a bound ended the search, nothing was held, or no action was ever
    taken. The verdict says how many actions were never taken: bounds may be too small for them."""
    from dstest.spec.compose import allowed, load
    from dstest.spec.explore import explore as search

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
    seed: Seed = None,
    walks: Walks = 1000,
    steps: Steps = 100,
    weight: Annotated[
        list[str] | None, typer.Option(metavar="ACTION=W", help="How often an action is taken.")
    ] = None,
    deadlock: Deadlock = True,
    out: Out = None,
    json_: Json = False,
) -> None:
    """Random walks, until the first violation. The same seed walks the same ways.

    Exits with 0 where none was met, which proves nothing, with 1 for a violation, and with 3 where
    nothing was held or no action was ever taken."""
    from dstest.core.rng import fresh_seed
    from dstest.spec.compose import allowed, load
    from dstest.spec.explore import walk

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
    deadlock: Deadlock = True,
    json_: Json = False,
) -> None:
    """Rules dropped or changed, one at a time: do the invariants notice?

    Exits with 0 where each mutant was killed, with 3 where one survived or could not be decided."""
    from dstest.spec.compose import load
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
    from dstest.spec.trace import trace_data

    return [
        {"id": one.id, "text": one.text, "trace": trace_data(model, one.trace)}
        for one in violations
    ]


def _write(model: Model, violations: list[Violation], out: Path | None) -> None:
    from dstest.spec.trace import to_bytes

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
