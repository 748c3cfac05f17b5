"""OpenSSH's `ssh` as people call it: with the keys, host keys and jump hosts that a run has."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from dstest.core.node import Login, NodeInfo


def ssh_argv(node: NodeInfo, command: Sequence[str] = ()) -> list[str]:
    """Log in to the node, or run a command there, whose words its shell will read."""
    argv = _ssh(node.login)
    if node.jumps:
        argv += ["-o", f"ProxyCommand={_through(node.jumps, node.login)}"]
    return [*argv, *_destination(node.login), *command]


def _through(jumps: Sequence[Login], to: Login) -> str:
    """The command that brings a connection to this machine, through the jump hosts; a shell of ours
    and ssh's own replacements read it."""
    *before, last = jumps
    argv = [*_ssh(last), "-W", f"[{to.host}]:{to.port}"]
    if before:
        argv += ["-o", f"ProxyCommand={_through(before, last)}"]
    return shlex.join([*argv, *_destination(last)]).replace("%", "%%")


def _ssh(login: Login) -> list[str]:
    argv = ["ssh", "-F", "/dev/null", "-p", str(login.port)]
    argv += ["-i", login.key_path] if login.key_path else []
    options = {
        "UserKnownHostsFile": login.known_hosts_path,
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "IdentitiesOnly": "no" if login.agent_path else "yes",
        "IdentityAgent": login.agent_path or "none",
        "ConnectTimeout": "10",
    }
    for name, value in options.items():
        argv += ["-o", f"{name}={value}"]
    return argv


def _destination(login: Login) -> list[str]:
    return ["-l", login.user, "--", login.host]
