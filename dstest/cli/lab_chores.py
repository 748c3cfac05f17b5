"""Chores of people on the nodes of a lab: `dstest lab exec`, `put`, `get`, `logs` and `shell` on
many at once, `dstest lab ssh` on one, or a command on all of them. A node that is gone, hangs or
says too much is named, and the others go on."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import msgspec
import typer
from typer.core import TyperCommand

from dstest.cli.lab_common import Kind, LabId, known_lab, names_of, running_lab
from dstest.cli.options import Json
from dstest.cli.output import say
from dstest.core.errors import ConfigError, Exit, LabError
from dstest.core.words import printable

_WITH_VALUE: Final = ("--lab-id", "--lab")
_ALONE: Final = ("--all",)
_HELP: Final = "--help"


def ours_first(given: list[str]) -> list[str]:
    """The words of the command line with our options before the node, then `--`, then the rest.

    Ours may stand before and after the node. Within the command they would be the node's: that is
    refused with ConfigError, unless `--` says where the command begins.
    """
    cut = given.index("--") if "--" in given else len(given)
    head, tail = given[:cut], given[cut + 1 :]
    ours: list[str] = []
    words: list[str] = []
    while head and len(words) <= 1:
        word = head.pop(0)
        if word in _WITH_VALUE:
            ours += [word, *head[:1]]
            del head[:1]
        elif word in (*_ALONE, _HELP) or word.startswith(tuple(f"{flag}=" for flag in _WITH_VALUE)):
            ours.append(word)
        else:
            words.append(word)
            if "--all" in ours:
                break
    for word in head:
        if word.partition("=")[0] in (*_WITH_VALUE, *_ALONE):
            raise ConfigError(
                f"{word} stands within the command that is to run on the node",
                remedy=f"for dstest, put it before the node; for the node, begin the command "
                f"with `--`: dstest lab ssh NODE -- {' '.join([*words[1:], *head])}",
            )
    return [*ours, "--", *words, *head, *tail]


class OursFirst(TyperCommand):
    """Takes our options up to the command, and nothing of what follows `--`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return list(super().parse_args(ctx, ours_first(args)))


def ssh(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="NODE [-- COMMAND...]", show_default=False)
    ] = None,
    everywhere: Annotated[bool, typer.Option("--all", help="Run on all nodes.")] = False,
    lab_id: LabId = "default",
    lab: Kind = None,
) -> None:
    """Log in to a node, or run a command on it, with the lab's key and its pinned host keys. It has
    no `--json`: it is for people; `dstest lab exec --json` runs commands for programs."""
    given = words or []
    info = running_lab(lab, lab_id)
    if everywhere:
        _on_all(info, given)
    log_in(info, given[0] if given else "", given[1:])


def log_in(info: Any, name: str, command: Sequence[str]) -> NoReturn:
    """Become ssh to a node, with the lab's key and its pinned host keys."""
    from clusters.remote.login import ssh_argv

    node = info.find(name)
    if node is None:
        raise ConfigError("name one node, or --all", remedy=f"nodes: {names_of(info)}")
    argv = ssh_argv(node, command)
    try:
        os.execvp(argv[0], argv)
    except FileNotFoundError:
        raise LabError("ssh is not installed", remedy="apt-get install -y openssh-client") from None


def _on_all(info: Any, command: list[str]) -> None:
    if not command:
        raise ConfigError("--all needs a command", remedy="dstest lab ssh --all -- uptime")
    from clusters.remote.chores import render, run_everywhere

    results = run_everywhere(info.nodes, " ".join(command), root=False)
    typer.echo(render({info.shown(name): one for name, one in results.items()}), nl=False)
    raise typer.Exit(Exit.PASS if all(said.ok for said in results.values()) else Exit.HARNESS)


CHORE: dict[str, Any] = {"allow_interspersed_args": False}
"""Context settings of a command whose words are for nodes."""

Nodes = Annotated[
    list[str] | None,
    typer.Option("--node", help="Only this one; several are possible. Default: all."),
]
Role = Annotated[
    str | None,
    typer.Option("--role", help="Only nodes of this role in your list, or with this service."),
]
Timeout = Annotated[
    float, typer.Option("--timeout", help="Seconds for each node.", min=0.1, max=86400)
]
Megabytes = Annotated[float, typer.Option(help="Of one file, in MB.", min=0.001)]
MB = 1_000_000


def exec_(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...")],
    node: Nodes = None,
    role: Role = None,
    timeout: Timeout = 60.0,
    kilobytes: Annotated[
        int, typer.Option("--max-kb", help="Output of a node that is kept.", min=0, max=1 << 20)
    ] = 1024,
    root: Annotated[
        bool, typer.Option("--root/--no-root", help="As root, or as the user who logs in.")
    ] = True,
    lab_id: LabId = "default",
    lab: Kind = None,
    as_json: Json = False,
) -> None:
    """Run a shell command on nodes. Exit 0 where it ended with 0 on each, else 4."""
    from clusters.remote.chores import render, run_everywhere

    info = known_lab(lab, lab_id)
    chosen = _chosen(info, node, role)
    text = " ".join(command)
    results = run_everywhere(chosen, text, timeout_s=timeout, bytes_max=kilobytes * 1000, root=root)
    _end(info, results, as_json, render)


def put(
    local: Annotated[Path, typer.Argument(metavar="LOCAL", help="A file of this host.")],
    remote: Annotated[
        str, typer.Argument(metavar="REMOTE", help="Where to; with a slash at its end: below it.")
    ],
    node: Nodes = None,
    role: Role = None,
    timeout: Timeout = 120.0,
    lab_id: LabId = "default",
    lab: Kind = None,
    as_json: Json = False,
) -> None:
    """Put a file on nodes, whole or not at all; what it replaces gives owner and mode."""
    from clusters.remote.chores import render
    from clusters.remote.transfers import put as put_on

    info = known_lab(lab, lab_id)
    results = put_on(_chosen(info, node, role), local, remote, timeout_s=timeout)
    _end(info, results, as_json, render)


def get(
    remote: Annotated[
        str, typer.Argument(metavar="REMOTE", help="A file or a directory of each node.")
    ],
    folder: Annotated[
        Path, typer.Argument(metavar="LOCALDIR", help="They come to LOCALDIR/NODE/NAME.")
    ],
    node: Nodes = None,
    role: Role = None,
    timeout: Timeout = 120.0,
    file_mb: Megabytes = 64.0,
    total_mb: Annotated[float, typer.Option(help="Of all nodes, in MB.", min=0.001)] = 1000.0,
    lab_id: LabId = "default",
    lab: Kind = None,
    as_json: Json = False,
) -> None:
    """Get a file or a directory from nodes. Links and what is too large are left out, and named.

    Nothing is overwritten. Exit 4 where anything was left out.
    """
    from clusters.remote.transfers import Limits
    from clusters.remote.transfers import get as get_from

    limits = Limits(file_bytes=int(file_mb * MB), total_bytes=int(total_mb * MB))
    info = known_lab(lab, lab_id)
    chosen = _chosen(info, node, role)
    results = get_from(chosen, remote, folder, timeout_s=timeout, limits=limits)
    _end(info, results, as_json, _fetched)


def _fetched(results: dict[str, Any]) -> str:
    lines = []
    for name, one in results.items():
        what = f"{one.files} files, {one.bytes} bytes" + (f" in {one.path}" if one.path else "")
        lines.append(f"== {name}: {one.error or what}")
        lines += [f"   left out {text}" for text in one.left_out]
        lines += [f"   changed {text}" for text in one.changed]
    return printable("\n".join([*lines, ""]))


def logs(
    node: Nodes = None,
    role: Role = None,
    timeout: Timeout = 60.0,
    kilobytes: Annotated[
        int, typer.Option("--max-kb", help="From the end of each log.", min=1, max=1 << 16)
    ] = 64,
    lab_id: LabId = "default",
    lab: Kind = None,
    as_json: Json = False,
) -> None:
    """Show the ends of the logs of the services that dstest has put on the nodes."""
    from clusters.remote.chores import logs as logs_of
    from clusters.remote.chores import render, services

    info = known_lab(lab, lab_id)
    chosen = _named(info, node)
    if having := [one for one in chosen if role in one.roles]:
        chosen, role = having, None
    known = services(chosen, timeout_s=timeout)
    paths = {
        name: [path for service, path in row.items() if role in (None, service)]
        for name, row in known.items()
    }
    if not any(paths.values()):
        there = sorted({service for row in known.values() for service in row})
        what = "no service" if role is None else f"no service {role}"
        raise LabError(
            f"dstest knows of {what} on these nodes",
            remedy=f"--role {', '.join(there)}" if there else "a run starts a system's services",
        )
    results = logs_of(chosen, paths, bytes_max=kilobytes * 1000, timeout_s=timeout)
    _end(info, results, as_json, render)


def shell(
    node: Annotated[str, typer.Argument(metavar="NODE", show_default=False)],
    lab_id: LabId = "default",
    lab: Kind = None,
) -> None:
    """Log in to a node, as `dstest lab ssh NODE` does. It has no `--json`: it is for people."""
    log_in(known_lab(lab, lab_id), node, [])


def _named(info: Any, names: list[str] | None) -> list[Any]:
    """Nodes of the lab, all without names. Raises ConfigError where one is none."""
    if not names:
        return list(info.nodes)
    wanted = {name: info.find(name) for text in names for name in text.split(",") if name}
    if unknown := [name for name, node in wanted.items() if node is None]:
        raise ConfigError(
            f"lab {info.lab_id} has no {', '.join(unknown)}", remedy=f"nodes: {names_of(info)}"
        )
    return list({node.name: node for node in wanted.values()}.values())


def _chosen(info: Any, names: list[str] | None, role: str | None) -> list[Any]:
    """The nodes that are meant. Raises ConfigError where none has the role, nor the service."""
    chosen = _named(info, names)
    if role is None:
        return chosen
    if having := [one for one in chosen if role in one.roles]:
        return having
    from clusters.remote.chores import services

    known = services(chosen)
    having = [one for one in chosen if role in known[one.name]]
    if not having:
        roles = {service for row in known.values() for service in row}
        roles |= {word for one in chosen for word in one.roles}
        raise ConfigError(
            f"no node of lab {info.lab_id} has a role or a service {role}",
            remedy=f"there are {', '.join(sorted(roles))}"
            if roles
            else "a run starts a system's services; roles are those of your own list of machines",
        )
    return having


def _end(info: Any, results: dict[str, Any], as_json: bool, text: Any) -> None:
    if as_json:
        rows = {
            name: {"ok": one.ok, **msgspec.structs.asdict(one)} for name, one in results.items()
        }
        # In ASCII: whole, and yet nothing that a terminal obeys.
        say(json.dumps(msgspec.to_builtins({"lab_id": info.lab_id, "nodes": rows}), indent=2))
    else:
        say(text({info.shown(name): one for name, one in results.items()}), end="")
    raise typer.Exit(Exit.PASS if all(one.ok for one in results.values()) else Exit.HARNESS)
