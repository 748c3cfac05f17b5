"""`dstest lab ssh`: log in to a node, or run a command on one or all of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperCommand

from dstest.cli.lab_common import Kind, LabId, names_of, running_lab
from dstest.core.errors import ConfigError, Exit, LabError

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
    from clusters.remote.openssh import ssh_argv

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
    from clusters.remote.tasks import render, run_everywhere

    results = run_everywhere(info.nodes, " ".join(command), root=False)
    typer.echo(render({info.shown(name): one for name, one in results.items()}), nl=False)
    raise typer.Exit(Exit.PASS if all(said.ok for said in results.values()) else Exit.HARNESS)
