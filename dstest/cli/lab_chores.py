"""`dstest lab exec`, `put`, `get`, `logs`, `shell`: chores on many nodes at once, within limits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from dstest.cli.lab_common import Json, Kind, LabId, running_lab, say, show
from dstest.core.errors import ConfigError, Exit
from dstest.core.printable import printable

__all__ = ["execute", "get", "logs", "put", "shell"]

Names = Annotated[
    list[str] | None,
    typer.Option("--node", help="Only this node; several are possible.", show_default=False),
]
Roles = Annotated[
    list[str] | None,
    typer.Option(
        "--role", help="Only nodes of this role, as adopted machines have.", show_default=False
    ),
]
SHOWN_MAX: Final = 10

Timeout = Annotated[float, typer.Option(help="Seconds that each node may take.", min=1)]

LOGS: Final = """\
exec python3 -I -S - "$1" <<'PROGRAM'
import collections, json, os, sys
try:
    services = json.load(open("/opt/dstest-services/member.json"))["services"]
except OSError:
    sys.exit("no system of dstest's is on this node")
for service in services:
    print("--", service["name"], service["log"], flush=True)
    try:
        with open(service["log"], "rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - (1 << 20)))
            last = collections.deque(log, int(sys.argv[1]))
    except OSError as error:
        last = [str(error).encode() + b"\\n"]
    sys.stdout.buffer.write(b"".join(last))
    sys.stdout.buffer.flush()
PROGRAM
"""


def _chosen(lab: str | None, lab_id: str, names: list[str] | None, roles: list[str] | None) -> Any:
    """The nodes that are meant. Raises ConfigError for a node or a role that is not there."""
    nodes = running_lab(lab, lab_id).nodes
    there = {node.name for node in nodes}
    known_roles = {role for node in nodes for role in node.roles}
    for given, known, what in ((names, there, "node"), (roles, known_roles, "role")):
        if unknown := [one for one in given or [] if one not in known]:
            raise ConfigError(
                f"lab {lab_id} has no {what} {', '.join(unknown)}",
                remedy=f"{what}s: {', '.join(sorted(known)) or 'it has none'}",
            )
    if not names and not roles:
        return nodes
    return [n for n in nodes if n.name in (names or []) or {*n.roles} & {*(roles or [])}]


def _told(results: Mapping[str, Any]) -> None:
    """Each node's output under its name, and what is to be known of it."""
    for name, said in results.items():
        typer.echo(f"== {name}: {said.error or f'status {said.status}'}")
        for text in (said.stdout, said.stderr):
            if text:
                typer.echo(printable(text.replace("\t", "    ")), nl=not text.endswith("\n"))
        if said.cut_bytes:
            typer.echo(f"   ... {said.cut_bytes:,} bytes more were left out")


def _end(results: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        show(dict(results))
    well = all(said.ok for said in results.values())
    raise typer.Exit(int(Exit.PASS if well else Exit.HARNESS))


def execute(
    command: Annotated[list[str], typer.Argument(metavar="[--] COMMAND...")],
    node: Names = None,
    role: Roles = None,
    timeout: Timeout = 60.0,
    lab_id: LabId = "default",
    lab: Kind = None,
    as_json: Json = False,
) -> None:
    """Run a command as root on all nodes at once, or on those that are named.

    One word is for a shell, several are a program and its arguments as they are. Of each node a
    megabyte of output is kept. Exit 0 where it ended with 0 on each of them, else 4.
    """
    from clusters.remote.chores import on_each, run_on

    argv = command if len(command) > 1 else ["sh", "-c", *command]
    nodes = _chosen(lab, lab_id, node, role)
    results = on_each(nodes, lambda info, stop: run_on(info, argv, stop, timeout_s=timeout))
    if not as_json:
        _told(results)
    _end(results, as_json)


def put(
    local: Annotated[Path, typer.Argument(help="A file of this host.")],
    remote: Annotated[
        str, typer.Argument(help="An absolute path; into it, where it ends with a slash.")
    ],
    node: Names = None,
    role: Roles = None,
    timeout: Timeout = 120.0,
    lab_id: LabId = "default",
    lab: Kind = None,
    as_json: Json = False,
) -> None:
    """Put a file on nodes, as root, whole or not at all, with its mode."""
    from clusters.remote.transfers import put as put_on

    results = put_on(_chosen(lab, lab_id, node, role), local, remote, timeout_s=timeout)
    for name, said in results.items():
        if not said.ok:
            say(printable(f"{name}: {said.error or said.stderr.strip()}"))
    _end(results, as_json)


def get(
    remote: Annotated[str, typer.Argument(help="An absolute path of a file or a directory.")],
    folder: Annotated[Path, typer.Argument(help="It comes to lie in FOLDER/NODE/.")],
    node: Names = None,
    role: Roles = None,
    file_mib: Annotated[int, typer.Option(help="Largest file, in MiB.", min=1)] = 64,
    total_mib: Annotated[int, typer.Option(help="Of all nodes together, in MiB.", min=1)] = 1024,
    timeout: Timeout = 300.0,
    lab_id: LabId = "default",
    lab: Kind = None,
    as_json: Json = False,
) -> None:
    """Get a file or a directory of each node. Links are not followed; devices and what is too large
    are left out, and named. Nothing here is overwritten."""
    from clusters.remote.transfers import Limits
    from clusters.remote.transfers import get as get_from

    limits = Limits(file_bytes=file_mib << 20, total_bytes=total_mib << 20)
    nodes = _chosen(lab, lab_id, node, role)
    results = get_from(nodes, remote, folder, timeout_s=timeout, limits=limits)
    for name, got in results.items():
        if not as_json and got.path:
            links = f", {got.links} links left out" if got.links else ""
            size = f"{got.files} files, {got.bytes:,} bytes{links}"
            typer.echo(f"{name}: {size}, in {printable(got.path)}")
        for what in [*got.left_out[:SHOWN_MAX], *([got.error] if got.error else [])]:
            say(printable(f"{name}: {what}"))
        if more := got.left_out[SHOWN_MAX:]:
            say(f"{name}: {len(more)} more were left out; --json names them")
    _end(results, as_json)


def logs(
    lines: Annotated[int, typer.Option(help="Of each service, its last ones.", min=1)] = 40,
    node: Names = None,
    role: Roles = None,
    timeout: Timeout = 30.0,
    lab_id: LabId = "default",
    lab: Kind = None,
    as_json: Json = False,
) -> None:
    """The last lines of the logs of the system that dstest has put on the nodes."""
    from clusters.remote.chores import on_each, run_on

    argv = ["sh", "-c", LOGS, "sh", str(lines)]
    nodes = _chosen(lab, lab_id, node, role)
    results = on_each(nodes, lambda info, stop: run_on(info, argv, stop, timeout_s=timeout))
    if not as_json:
        _told(results)
    _end(results, as_json)


def shell(
    node: Annotated[str, typer.Argument(metavar="NODE")],
    lab_id: LabId = "default",
    lab: Kind = None,
) -> None:
    """Log in to a node. `dstest lab ssh` does the same, and runs commands."""
    from dstest.cli.lab_ssh import ssh

    ssh([node], everywhere=False, lab_id=lab_id, lab=lab)
