"""`dstest lab`: bring nodes up, log in, take them down; what labs there are (`status`, `list`), who
uses them, and what dead runs left."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from dstest.cli.lab_adopt import adopt, release
from dstest.cli.lab_chores import CHORE, OursFirst, exec_, get, logs, put, shell, ssh
from dstest.cli.lab_common import (
    Kind,
    LabId,
    SystemVersion,
    every_lab,
    fetched_for,
    kind_of,
    kind_of_run,
    lab_of_kind,
    say,
    show,
    way_out,
)
from dstest.cli.options import Json
from dstest.core.errors import ConfigError, Exit, LabError
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
    from dstest.runner.adoption import users_of

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
    from dstest.runner.adoption import in_use, left_on

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


Packages = Annotated[
    list[str] | None,
    typer.Option(help="Debian packages on the nodes; default: those of the systems."),
]
Systems = Annotated[
    list[str] | None,
    typer.Option(help="What is to run there: a name, or a file; default: what shares an image."),
]

lab_app = typer.Typer(no_args_is_help=True, help="Nodes: bring up, look at, log in, take down.")


@lab_app.command()
def up(
    lab_id: LabId = "default",
    nodes: Annotated[int, typer.Option(help="How many.", min=1, max=99)] = 5,
    lab: Kind = None,
    packages: Packages = None,
    system: Systems = None,
    system_version: SystemVersion = None,
    as_json: Json = False,
) -> None:
    """Bring a lab up that stays until `dstest lab down`. A running one is used as it is."""
    from dstest.core import clock
    from dstest.core.builds import builds_of

    wanted = (*_packages(system, packages), *builds_of(fetched_for(system, system_version)))
    started_ns = clock.monotonic_ns()
    made = lab_of_kind(kind_of(lab_id, lab))
    if made.transport != "network":
        raise ConfigError(
            f"nodes of a {made.name} lab come and go with their run",
            remedy=f"dstest run --lab {made.name}",
        )
    info = made.up(lab_id, nodes, packages=wanted, progress=say, persistent=True)
    say(f"lab {lab_id} is up after {(clock.monotonic_ns() - started_ns) / 1e9:.1f} s")
    if as_json:
        show(info)
        return
    for node in info.nodes:
        typer.echo(f"{node.name}  {node.address}  {node.address6 or ''}")


@lab_app.command()
def image(
    lab: Kind = None,
    packages: Packages = None,
    system: Systems = None,
    system_version: SystemVersion = None,
    plugin: Annotated[
        list[Path] | None, typer.Option(metavar="FILE.py", help="A file of yours with the system.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make the image that the nodes of a lab begin from, so that no run has to wait for it."""
    from dstest.core import registry
    from dstest.core.builds import builds_of
    from dstest.core.node import Prepares

    registry.use(map(str, plugin or []))
    kind = kind_of_run(None, lab)
    made = lab_of_kind(kind)
    prepares = isinstance(made, Prepares)
    wanted = (
        (*_packages(system, packages), *builds_of(fetched_for(system, system_version)))
        if prepares
        else ()
    )
    if isinstance(made, Prepares):
        made.prepare(wanted, progress=say)
        say("the image is there")
    else:
        say(f"nodes of a {kind} lab begin from no image: nothing was made")
    if as_json:
        show({"lab": kind, "image": prepares, "packages": wanted})


def _packages(systems: list[str] | None, packages: list[str] | None) -> tuple[str, ...]:
    """Those that are named, and those of the systems that are; of the shared image without."""
    from clusters.labs.image import packages_for, shared_packages
    from dstest.core import registry
    from dstest.core.registry import named_in

    if systems is None:
        return shared_packages() if packages is None else _split(packages)
    names = _split([named_in("systems", given) for given in systems])
    needed = packages_for([registry.load("systems", name) for name in names])
    return tuple(sorted({*needed, *_split(packages or [])}))


def _split(packages: list[str]) -> tuple[str, ...]:
    return tuple(sorted({name for text in packages for name in text.split(",") if name}))


@lab_app.command()
def down(
    lab_id: LabId = "default",
    everything: Annotated[bool, typer.Option("--all", help="All labs, or all of --lab.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Even one that is used right now.")
    ] = False,
    lab: Kind = None,
    as_json: Json = False,
) -> None:
    """Remove a lab: containers, links, routes, keys. Says what was removed.

    A lab that a run uses, or that is being brought up, stays, and the exit code is 2.
    """
    named = every_lab(lab) if everything else [(kind_of(lab_id, lab), lab_id)]
    kept: list[str] = []
    adopted: list[str] = []
    removed: dict[str, list[str]] = {}
    for kind, name in named:
        try:
            there = _down(lab_of_kind(kind), name, force, tell=not as_json)
            if there is None:
                kept.append(name)
            else:
                removed[name] = there
        except ConfigError as error:  # machines of the user's are among all labs, and stay
            if not everything:
                raise
            say(str(error))
            adopted.append(name)
    if as_json:
        show({"removed": removed, "kept": [*kept, *adopted]})
    if kept:
        say("  remedy: wait for its end, or stop it; --force removes the lab all the same")
        raise typer.Exit(int(Exit.USAGE))


def _down(made: Any, name: str, force: bool, *, tell: bool) -> list[str] | None:
    """Remove one lab, unless somebody uses it: what was removed, None where it stays."""
    from dstest.runner.adoption import users_of

    users = [] if force else users_of(made, name)
    if users:
        say(f"dstest: lab {name} is in use by {'; '.join(use.describe() for use in users)}")
        return None
    removed: list[str] = made.down(name)
    for what in removed if tell else ():
        typer.echo(f"removed {what}")
    say(f"lab {name} is gone" if removed else f"there was nothing of lab {name}")
    return removed


@lab_app.command()
def gc(
    images: Annotated[
        bool, typer.Option("--images", help="Also base images without a lab.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Remove what dead labs left behind. Labs that are in use, or made by `up`, stay."""
    from dstest.cli.lab_common import collected
    from dstest.core import registry

    if (code := collected(images, as_json)) is not None:
        raise typer.Exit(code)
    removed: list[str] = []
    for kind in registry.names("labs"):
        made = registry.load("labs", kind)
        if hasattr(made, "gc"):
            removed += made.gc(images=images)
    if as_json:
        show({"removed": removed})
        return
    for what in removed:
        typer.echo(f"removed {what}")
    say("nothing to remove" if not removed else f"{len(removed)} things removed")


lab_app.command("adopt", no_args_is_help=True)(adopt)
lab_app.command("release")(release)
lab_app.command(
    "exec",
    no_args_is_help=True,
    context_settings=CHORE,
    epilog="Examples: dstest lab exec uptime;  dstest lab exec --node n1 -- df -h /opt",
)(exec_)
lab_app.command("put", no_args_is_help=True)(put)
lab_app.command("get", no_args_is_help=True)(get)
lab_app.command("logs")(logs)
lab_app.command("shell", no_args_is_help=True)(shell)
lab_app.command("status")(status)
lab_app.command("list")(list_labs)
lab_app.command(
    "ssh",
    cls=OursFirst,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="Examples: dstest lab ssh n1;  dstest lab ssh n1 -- nft list ruleset;  "
    "dstest lab ssh --all -- uptime",
)(ssh)
lab_app.command("exec", context_settings=CHORE)(exec_)
lab_app.command("put")(put)
lab_app.command("get")(get)
lab_app.command("logs")(logs)
lab_app.command("shell")(shell)
