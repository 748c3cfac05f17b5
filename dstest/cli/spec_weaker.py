"""`dstest spec weaker`: invariants that were made weaker since a commit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dstest.cli.options import Json
from dstest.cli.output import say
from dstest.cli.spec_common import as_json
from dstest.core.errors import Exit

if TYPE_CHECKING:
    from dstest.spec.ledger import Waiver
    from dstest.spec.weaker import Weakening

    Row = tuple[Path, Weakening, bool]
    """The file, what was found in it, and whether it is approved."""


def weaker(
    files: Annotated[list[Path], typer.Argument(metavar="FILE..", help="Files with invariants.")],
    since: Annotated[str, typer.Option(metavar="COMMIT", help="As they were there.")],
    waivers: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What somebody has approved, as TOML.")
    ] = None,
    json_: Json = False,
) -> None:
    """Were invariants made weaker since a commit, or the model that they are asked of? For the CI
    of whoever has invariants.

    Exits with 0 where nothing was, or all of it is approved; with 1 for what is not approved, and
    for a waiver that approves nothing; with 3 where a file could not be compared: the commit does
    not have it, or it has no invariant."""
    from dstest.spec.ledger import approves, read_waivers
    from dstest.spec.sources import text_at, text_now
    from dstest.spec.weaker import compare

    approved = read_waivers(waivers) if waivers is not None else ()
    rows: list[Row] = []
    not_compared: dict[Path, str] = {}
    invariants = 0
    for path in dict.fromkeys(files):
        now, before = text_now(path), text_at(path, since)
        if before is None:
            not_compared[path] = f"is not in {since}"
            continue
        compared = compare(before, now)
        invariants += compared.invariants
        if not compared.invariants:
            not_compared[path] = "has no invariant, then or now"
        rows += [
            (path, one, any(approves(waiver, path, one) for waiver in approved))
            for one in compared.found
        ]
    unused = [
        waiver for waiver in approved if not any(approves(waiver, path, o) for path, o, _ in rows)
    ]
    _told(rows, unused, not_compared, invariants, json_)
    if unused or not all(is_approved for _, _, is_approved in rows):
        raise typer.Exit(Exit.FAIL)
    raise typer.Exit(Exit.NOT_PROVEN if not_compared else Exit.PASS)


def _told(
    rows: list[Row],
    unused: list[Waiver],
    not_compared: dict[Path, str],
    invariants: int,
    json_: bool,
) -> None:
    count = sum(not is_approved for _, _, is_approved in rows)
    if json_:
        import msgspec

        found = [
            {"file": str(path), "approved": is_approved, **msgspec.to_builtins(one)}
            for path, one, is_approved in rows
        ]
        as_json(
            {
                "weakenings": found,
                "open": count,
                "invariants": invariants,
                "unused_waivers": unused,
                "not_compared": {str(path): why for path, why in not_compared.items()},
            }
        )
        return
    for path, one, is_approved in rows:
        word = "approved" if is_approved else "open"
        of = f" ({', '.join(one.reaches)})" if one.reaches else ""
        say(f"{word}: {path}: {one.id}{of}: {one.how} [{one.change}]")
        say(f"  was  {one.before}\n  is   {one.after}")
    for waiver in unused:
        say(f"unused waiver: {waiver.file}: {waiver.id}: {waiver.how} [{waiver.change}]")
    for path, why in not_compared.items():
        say(f"not compared: {path} {why}")
    say(f"invariants: {invariants}, weakened: {len(rows)}, open: {count}")
