"""`dstest lab`: bring nodes up, look at them, log in, take them down."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from dstest.core.errors import ConfigError, Exit, LabError

__all__ = ["lab_app"]

lab_app = typer.Typer(no_args_is_help=True, help="Nodes: bring up, look at, log in, take down.")

LabId = Annotated[str, typer.Option("--lab-id", help="Which lab; several may run side by side.")]
Kind = Annotated[str, typer.Option("--lab", help="How nodes come to be.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def _lab(kind: str) -> Any:
    from dstest.core import registry

    return registry.load("labs", kind)


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _show(value: Any) -> None:
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def _running(kind: str, lab_id: str) -> Any:
    info = _lab(kind).status(lab_id)
    if info is None:
        raise LabError(f"lab {lab_id} is not running", remedy=f"dstest lab up --lab-id {lab_id}")
    return info


@lab_app.command()
def up(
    lab_id: LabId = "default",
    nodes: Annotated[int, typer.Option(help="How many.", min=1, max=99)] = 5,
    lab: Kind = "lxc",
    packages: Annotated[
        list[str] | None,
        typer.Option(help="Debian packages on the nodes; default: those of all systems."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Bring a lab up that stays until `dstest lab down`. A running one is used as it is."""
    from clusters.labs.packages import packages_of_all_systems
    from dstest.core import clock

    wanted = packages_of_all_systems() if packages is None else _split(packages)
    started_ns = clock.monotonic_ns()
    info = _lab(lab).up(lab_id, nodes, packages=wanted, progress=_say, persistent=True)
    _say(f"lab {lab_id} is up after {(clock.monotonic_ns() - started_ns) / 1e9:.1f} s")
    if as_json:
        _show(info)
        return
    for node in info.nodes:
        typer.echo(f"{node.name}  {node.address}  {node.address6 or ''}")


def _split(packages: list[str]) -> tuple[str, ...]:
    return tuple(sorted({name for text in packages for name in text.split(",") if name}))


@lab_app.command()
def status(lab_id: LabId = "default", lab: Kind = "lxc", as_json: Json = False) -> None:
    """Tell whether a lab runs, what it lacks, and what dead runs left on its nodes.

    Exit 4 unless all of it runs.
    """
    made = _lab(lab)
    info = made.status(lab_id)
    lacks = made.examine(lab_id) if info is None and hasattr(made, "examine") else []
    state = "running" if info is not None else "broken" if lab_id in made.list() else "absent"
    left, trouble = ({}, "") if info is None else _left_on_nodes(info)
    if as_json:
        shown = {"lab_id": lab_id, "kind": lab, "state": state, "lacks": lacks, "lab": info}
        _show({**shown, "left": left, "not_looked": trouble or None})
    else:
        typer.echo(f"lab {lab_id}: {state}")
        for lack in lacks:
            typer.echo(f"  {lack}")
        for node in info.nodes if info is not None else []:
            typer.echo(f"  {node.name}  {node.address}  {node.address6 or ''}")
        _tell_left(left, trouble)
    if state == "broken":
        _say(f"remedy: dstest lab down --lab-id {lab_id}")
    raise typer.Exit(Exit.PASS if state == "running" else Exit.HARNESS)


def _left_on_nodes(info: Any) -> tuple[dict[str, Any], str]:
    """What earlier runs left on each node, and why nobody looked, if so."""
    from dstest.core.errors import DstestError
    from dstest.runner.residues import left_on
    from dstest.runner.session import in_use

    if in_use(info):
        return {}, "a run uses the lab now, its nodes were not looked at"
    try:
        return left_on(info), ""
    except DstestError as error:
        return {}, error.message


def _tell_left(left: dict[str, Any], trouble: str) -> None:
    if trouble:
        typer.echo(f"  {trouble}")
    for name, row in left.items():
        for found in row:
            whose = "left by a run" if found.ours else "not ours"
            typer.echo(f"  {name}: {found.what} ({'healed, kept' if found.kept else whose})")
    if any(found.ours for row in left.values() for found in row):
        typer.echo("  what runs have left is removed when the next one begins")


@lab_app.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="Examples: dstest lab ssh n1;  dstest lab ssh n1 -- nft list ruleset;  "
    "dstest lab ssh --all -- uptime",
)
def ssh(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="NODE [-- COMMAND...]", show_default=False)
    ] = None,
    everywhere: Annotated[bool, typer.Option("--all", help="Run on all nodes.")] = False,
    lab_id: LabId = "default",
    lab: Kind = "lxc",
) -> None:
    """Log in to a node, or run a command on it, with the lab's key and its pinned host keys."""
    given = [word for i, word in enumerate(words or []) if not (word == "--" and i <= 1)]
    info = _running(lab, lab_id)
    if everywhere:
        _on_all(info, given)
    names = [node.name for node in info.nodes]
    if not given or given[0] not in names:
        raise ConfigError("name one node, or --all", remedy=f"nodes: {', '.join(names)}")
    node = info.nodes[names.index(given[0])]
    argv = ["ssh", "-F", "/dev/null", "-i", node.key_path, "-p", str(node.port)]
    for option in (
        f"UserKnownHostsFile={node.known_hosts_path}",
        "GlobalKnownHostsFile=/dev/null",
        "StrictHostKeyChecking=yes",
        "IdentitiesOnly=yes",
        "ConnectTimeout=10",
    ):
        argv += ["-o", option]
    try:
        os.execvp("ssh", [*argv, f"{node.user}@{node.address}", *given[1:]])
    except FileNotFoundError:
        raise LabError("ssh is not installed", remedy="apt-get install -y openssh-client") from None


def _on_all(info: Any, command: list[str]) -> None:
    if not command:
        raise ConfigError("--all needs a command", remedy="dstest lab ssh --all -- uptime")
    from clusters.remote.tasks import render, run_everywhere

    results = run_everywhere(info.nodes, " ".join(command))
    typer.echo(render(results), nl=False)
    failed = [r for r in results.values() if isinstance(r, LabError) or r.status != 0]
    raise typer.Exit(Exit.HARNESS if failed else Exit.PASS)


@lab_app.command()
def down(
    lab_id: LabId = "default",
    everything: Annotated[bool, typer.Option("--all", help="All labs of this kind.")] = False,
    lab: Kind = "lxc",
) -> None:
    """Remove a lab: containers, links, routes, keys. Says what was removed."""
    made = _lab(lab)
    for name in made.list() if everything else [lab_id]:
        removed = made.down(name)
        for what in removed:
            typer.echo(f"removed {what}")
        _say(f"lab {name} is gone" if removed else f"there was nothing of lab {name}")


@lab_app.command()
def gc(
    images: Annotated[
        bool, typer.Option("--images", help="Also base images without a lab.")
    ] = False,
) -> None:
    """Remove what dead labs left behind. Labs that are in use, or made by `up`, stay."""
    from dstest.core import registry

    removed: list[str] = []
    for kind in registry.names("labs"):
        made = registry.load("labs", kind)
        if hasattr(made, "gc"):
            removed += made.gc(images=images)
    for what in removed:
        typer.echo(f"removed {what}")
    _say("nothing to remove" if not removed else f"{len(removed)} things removed")


@lab_app.command("list")
def list_labs(lab: Kind = "lxc", as_json: Json = False) -> None:
    """Labs that have anything on this host."""
    made = _lab(lab)
    rows = [
        {"lab_id": name, "state": "running" if made.status(name) is not None else "broken"}
        for name in made.list()
    ]
    if as_json:
        _show(rows)
        return
    for row in rows:
        typer.echo(f"{row['lab_id']}  {row['state']}")
