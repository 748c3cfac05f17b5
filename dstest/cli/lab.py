"""`dstest lab`: bring nodes up, look at them, log in, take them down."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dstest.cli.lab_adopt import adopt, release
from dstest.cli.lab_chores import CHORE, exec_, get, logs, put, shell
from dstest.cli.lab_common import (
    Json,
    Kind,
    LabId,
    SystemVersion,
    every_lab,
    kind_of,
    kind_of_run,
    lab_of_kind,
    say,
    show,
)
from dstest.cli.lab_ssh import OursFirst, ssh
from dstest.cli.lab_status import list_labs, status
from dstest.core.errors import ConfigError, Exit

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
    from dstest.core.protocols import LabTraits

    wanted = (*_packages(system, packages), *builds_of(system_version or []))
    started_ns = clock.monotonic_ns()
    made = lab_of_kind(kind_of(lab_id, lab))
    if LabTraits.of(made).transport != "network":
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
    from dstest.core import plugin_files
    from dstest.core.builds import builds_of
    from dstest.core.node import Prepares

    plugin_files.use(map(str, plugin or []))
    kind = kind_of_run(None, lab)
    made = lab_of_kind(kind)
    prepares = isinstance(made, Prepares)
    wanted = (*_packages(system, packages), *builds_of(system_version or [])) if prepares else ()
    if isinstance(made, Prepares):
        made.prepare(wanted, progress=say)
        say("the image is there")
    else:
        say(f"nodes of a {kind} lab begin from no image: nothing was made")
    if as_json:
        show({"lab": kind, "image": prepares, "packages": wanted})


def _packages(systems: list[str] | None, packages: list[str] | None) -> tuple[str, ...]:
    """Those that are named, and those of the systems that are; of the shared image without."""
    from clusters.labs.packages import packages_for, shared_packages
    from dstest.core import registry
    from dstest.core.plugin_files import named_in

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
    from dstest.runner.lab_use import users_of

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
    from dstest.cli.secluded import collected
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
