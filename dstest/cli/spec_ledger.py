"""`dstest spec ledger`: what was tried against a mismatch, and whether it came again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dstest.cli.output import say
from dstest.cli.spec_common import Json, as_json
from dstest.core.errors import ConfigError, Exit

if TYPE_CHECKING:
    from dstest.spec.conformed import Conformed
    from dstest.spec.ledger import Circle, Mismatch
    from dstest.spec.model import Model


def noted(path: Path, model: Model, said: Conformed, commit: str | None) -> list[str]:
    """Enter a rejection into a ledger; what is to be said of that."""
    from dstest.spec.ledger import circles, mismatch_of, read, record
    from dstest.spec.versions import head_of

    if said.verdict != "reject":
        return []
    read(path)  # a damaged one is not added to
    seen = mismatch_of(model, said, commit or head_of(Path.cwd()))
    record(path, seen)
    circle = [one for one in circles(read(path)) if one.fingerprint == seen.fingerprint]
    return [f"mismatch {seen.fingerprint} under {seen.commit}, in {path}", *map(_circle, circle)]


def ledger(
    path: Annotated[
        Path, typer.Argument(metavar="LEDGER", help="As `dstest spec conform --ledger` writes it.")
    ],
    fix: Annotated[
        str | None,
        typer.Option(metavar="MISMATCH", help="Note what was done about it, by its 12 digits."),
    ] = None,
    commit: Annotated[
        str | None, typer.Option(help="Of --fix: by which commit. Default: git's HEAD here.")
    ] = None,
    what: Annotated[str, typer.Option(metavar="TEXT", help="Of --fix: what was done.")] = "",
    json_: Json = False,
) -> None:
    """Mismatches between a specification and a system, what was done about each, and whether it
    came again: the same one under three commits is going in circles.

    Exits with 0 where nothing goes in circles, with 1 where something does."""
    from dstest.spec.ledger import circles, fixed, forgiven, read, record
    from dstest.spec.versions import head_of

    if not path.is_file():
        raise ConfigError(
            f"there is no ledger {path}", remedy=f"dstest spec conform .. --ledger {path}"
        )
    if fix is None and (commit or what):
        raise ConfigError("--commit and --what are of --fix", remedy="--fix MISMATCH")
    if fix is not None:
        if not what:
            raise ConfigError("nothing is said of what was done", remedy="--what TEXT")
        record(path, fixed(read(path), fix, commit or head_of(Path.cwd()), what))
    rows = read(path)
    going = circles(rows)
    if json_:
        as_json({"mismatches": _by_fingerprint(rows), "circles": going, "forgiven": forgiven(rows)})
    else:
        _print(rows, going, forgiven(rows))
    raise typer.Exit(Exit.FAIL if going else Exit.PASS)


def _by_fingerprint(rows: list[Mismatch]) -> dict[str, list[Mismatch]]:
    found: dict[str, list[Mismatch]] = {}
    for one in rows:
        found.setdefault(one.fingerprint, []).append(one)
    return found


def _print(rows: list[Mismatch], going: list[Circle], grew: list[tuple[str, float]]) -> None:
    for fingerprint, lines in _by_fingerprint(rows).items():
        first = lines[0]
        by = ", ".join(f"{name} ({level})" for name, level in first.guards)
        say(f"{fingerprint}  {first.action}: {by}")
        for one in lines:
            say(f"  {one.commit:12.12}  {'seen' if one.fix is None else f'fix: {one.fix}'}")
    if grew and grew[-1][1] > grew[0][1]:
        say(f"the comparison forgives more than it did: {grew[0][1]:g}, now {grew[-1][1]:g}")
    for circle in going:
        say(_circle(circle))
    if not rows:
        say("nothing was seen")


def _circle(one: Circle) -> str:
    action = one.action.partition(",")[0]
    return (
        f"going in circles: {one.fingerprint} came again under {len(one.commits)} commits; "
        f"do not mend it once more, ask first: dstest spec drive, dstest spec why SPEC {action}"
    )
