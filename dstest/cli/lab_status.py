"""`dstest lab status` and `lab list`: what labs there are, who uses them, what dead runs left."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from dstest.cli.lab_common import Json, Kind, every_lab, kind_of, lab_of_kind, say, show, way_out
from dstest.core.errors import Exit, LabError
from dstest.core.node import Inspects
from dstest.core.residue import GUARD_LEASES

DEFAULT = "default"

_PROMISES = {
    f"lease {lease_id}": promise
    for lease_id, promise in zip(
        GUARD_LEASES,
        (
            ", which takes away what the run has laid, once the leases of its faults are done",
            ", which starts the servers that had to stop for that",
        ),
        strict=True,
    )
}
"""What a lease of a run as a whole will do."""

_CLEAN_HELP = "Exit 3 where a dead run left what still disturbs, or nobody could look."


class LabLook(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of one lab. `left` is what was found on the nodes, by node; `not_looked` says
    why nobody looked. `state`: running, in use (a run has taken nodes down), starting, broken,
    absent."""

    lab_id: str
    kind: str
    state: str
    lacks: list[str]
    lab: Any
    used_by: list[Any]
    left: dict[str, list[Any]]
    not_looked: str | None

    @property
    def clean(self) -> bool:
        """Was everything looked at, and nothing found but servers that are whole again?"""
        found = [thing for row in self.left.values() for thing in row]
        return self.not_looked is None and all(thing.kept for thing in found)


def _state(made: Any, lab_id: str, info: Any, used: bool) -> str:
    if info is not None:
        return "running"
    if lab_id not in made.list():
        return "absent"
    if isinstance(made, Inspects) and made.starting(lab_id):
        return "starting"
    return "in use" if used else "broken"


def look_at(kind: str, lab_id: str, *, nodes: bool = True) -> LabLook:
    """One lab as it is now; with `nodes`, what lies on its nodes, unless a run uses them."""
    from dstest.runner.lab_use import users_of

    made = lab_of_kind(kind)
    info = made.status(lab_id)
    users = users_of(made, lab_id)
    state = _state(made, lab_id, info, bool(users))
    left, trouble = _left_on_nodes(info) if nodes and info is not None else ({}, None)
    return LabLook(
        lab_id=lab_id,
        kind=kind,
        state=state,
        lacks=made.examine(lab_id) if info is None and isinstance(made, Inspects) else [],
        lab=info,
        used_by=users,
        left=left,
        not_looked=trouble,
    )


def _left_on_nodes(info: Any) -> tuple[dict[str, Any], str | None]:
    """What earlier runs left on each node, and why nobody looked, if so.

    Whoever only owns the lab, to take it down in the end, is not in the way.
    """
    from dstest.core.errors import DstestError
    from dstest.runner.lab_lock import in_use
    from dstest.runner.residues import left_on

    if in_use(info):
        return {}, "a run uses the lab now, its nodes were not looked at"
    try:
        return left_on(info), None
    except DstestError as error:
        return {}, error.message


def status(
    lab_id: Annotated[
        str | None, typer.Option("--lab-id", help="Only this one; default: all that exist.")
    ] = None,
    lab: Kind = None,
    as_json: Json = False,
    clean: Annotated[bool, typer.Option("--clean", help=_CLEAN_HELP)] = False,
) -> None:
    """Tell which labs run, who uses them, what they lack, what dead runs left on their nodes.

    Exit 4 unless there is a lab and all of each runs; then, with --clean, 3 unless nothing is left.
    """
    named = every_lab(lab) if lab_id is None else [(kind_of(lab_id, lab), lab_id)]
    seen = [look_at(kind, name) for kind, name in named]
    if as_json:
        show(_one_object(kind_of(DEFAULT, lab), lab_id, seen))
    elif not seen:
        typer.echo("there is no lab")
    else:
        for look in seen:
            typer.echo("\n".join(text_of(look)))
    if not seen:
        say("remedy: dstest lab up brings one up; dstest run makes its own")
    for look in seen:
        if remedy := _remedy(look):
            say(f"remedy: {remedy}")
    if not seen or any(look.state != "running" for look in seen):
        raise typer.Exit(Exit.HARNESS)
    raise typer.Exit(Exit.NOT_PROVEN if clean and not all(s.clean for s in seen) else Exit.PASS)


def _one_object(kind: str, lab_id: str | None, seen: list[LabLook]) -> dict[str, Any]:
    """The lab that was asked for; without a name the default one, and all labs as `labs`."""
    if lab_id is not None:
        return msgspec.structs.asdict(seen[0])
    default = next((s for s in seen if s.lab_id == DEFAULT), None) or look_at(kind, DEFAULT)
    return {**msgspec.structs.asdict(default), "labs": seen}


def _remedy(look: LabLook) -> str | None:
    return {
        "broken": way_out(look.lab_id),
        "absent": f"dstest lab up --lab-id {look.lab_id} brings it up; dstest lab list names those "
        "that exist",
    }.get(look.state)


def text_of(look: LabLook) -> list[str]:
    """The lines about one lab."""
    lines = [f"lab {look.lab_id}: {look.state}"]
    lines += [f"  used by {use.describe()}" for use in look.used_by]
    lines += [f"  {lack}" for lack in look.lacks]
    for node in look.lab.nodes if look.lab is not None else []:
        name = look.lab.shown(node.name)
        lines.append(f"  {name}  {node.address}  {node.address6 or ''}".rstrip())
    if look.not_looked:
        lines.append(f"  {look.not_looked}")
    for name, row in look.left.items():
        whole = all(found.kept for found in row)
        for found in row:
            message = "healed, kept" if whole else "left by a run" if found.ours else "not ours"
            lines.append(f"  {name}: {found.what}{_PROMISES.get(found.what, '')} ({message})")
    if any(found.ours for row in look.left.values() for found in row):
        lines.append("  what runs have left is removed when the next one begins")
    return lines


def list_labs(lab: Kind = None, as_json: Json = False) -> None:
    """Labs that have anything on this host."""
    seen = []
    for kind, name in every_lab(lab):
        try:
            seen.append(look_at(kind, name, nodes=False))
        except LabError as error:  # of one whose record cannot be read; the others are told
            say(str(error))
    if as_json:
        show([{"lab_id": s.lab_id, "kind": s.kind, "state": s.state} for s in seen])
        return
    for look in seen:
        names = [look.lab.named(node.name) for node in look.lab.nodes] if look.lab else []
        called = f"  {', '.join(names)}" if look.lab is not None and look.lab.adopted else ""
        typer.echo(f"{look.lab_id}  {look.state}  ({look.kind}){called}")
