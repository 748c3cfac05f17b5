"""`dstest spec against`: a system does what its specification says, and answers as it has to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dstest.cli.output import say
from dstest.cli.spec_common import Adversary, Constants, Given, Json, as_json, told
from dstest.core.errors import Exit

if TYPE_CHECKING:
    from dstest.spec.against import Driven
    from dstest.spec.model import Model


def against(
    spec: Given,
    system: Annotated[
        str,
        typer.Argument(metavar="SYSTEM", help="FILE.py:CLASS, with take(step) and close()."),
    ],
    constants: Constants = None,
    adversary: Adversary = "all",
    seed: Annotated[int | None, typer.Option(help="Default: one that nobody chose.")] = None,
    walks: Annotated[int, typer.Option(min=1, help="Walks, at most.")] = 100,
    steps: Annotated[int, typer.Option(min=1, help="Steps of a walk, at most.")] = 20,
    json_: Json = False,
) -> None:
    """Random walks of a specification, done by a system: does it answer as it has to? Clients that
    keep to no rule are actions of the specification, and can be left out.

    Exits with 0 where each answer was the one that the specification has, which proves nothing,
    with 1 for another one or an error, by the shortest walk that still ends in one, and with 3
    where an action was never taken, or no answer could have been wrong."""
    from dstest.core.rng import fresh_seed
    from dstest.spec.adversary import allowed, lacking
    from dstest.spec.against import Driven, drive_against, subject_of
    from dstest.spec.load import load
    from dstest.spec.trace_file import written

    model = load(spec, constants or ())
    make = subject_of(system)
    chosen = fresh_seed() if seed is None else seed
    if absent := lacking(model, adversary):
        why = f"{model.name} has no action of clients that do {', '.join(absent)}"
        seen = Driven(seed=chosen, taken={}, vacuous=[why])
    else:
        model = allowed(model, adversary)
        seen = drive_against(model, make, seed=chosen, walks=walks, max_steps=steps)
    code = _code(seen)
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
                "trace": written(model, found.trace),
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


def _code(seen: Driven) -> Exit:
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
    if _code(seen) == Exit.PASS:
        say("each answer is the one that it has to be: this proves nothing")
