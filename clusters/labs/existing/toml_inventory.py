"""dstest's own list of machines:

user = "deploy"                      # what stands above holds for all nodes that say nothing
jump = "ops@bastion.example:2222"    # or a list, or a table with host, port, user, key

[[node]]
name = "db-1"
address = "10.1.0.1"                 # as other nodes and clients see it
address6 = "fd00:1::1"
ssh = "db-1.example"                 # where SSH goes, if that is elsewhere
key = "~/.ssh/id_ed25519"
sudo_password = "ask"                # or { file = "PATH" }, or { env = "NAME" }
roles = ["db"]
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from clusters.labs.existing.entry import ASK, HostEntry, Place, expanded, split_place, who
from dstest.core.errors import ConfigError


class _Jump(msgspec.Struct, forbid_unknown_fields=True):
    host: str
    port: int = 22
    user: str = ""
    key: str = ""


class _Password(msgspec.Struct, forbid_unknown_fields=True):
    file: str = ""
    env: str = ""


class _Settings(msgspec.Struct, kw_only=True):
    user: str = ""
    port: int = 0
    key: str = ""
    known_hosts: str = ""
    jump: str | _Jump | list[Any] = ""
    sudo_password: str | _Password = ""
    roles: list[str] = []


class _Node(_Settings, kw_only=True, forbid_unknown_fields=True):
    name: str = ""
    address: str = ""
    address6: str = ""
    ssh: str = ""


class _File(_Settings, kw_only=True, forbid_unknown_fields=True):
    node: list[_Node]


def read_toml(path: Path) -> list[HostEntry]:
    """The machines of the file, in its order. Raises ConfigError with the place."""
    try:
        file = msgspec.toml.decode(path.read_bytes(), type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path}: {error}", remedy="docs/labs.md shows what such a file says"
        ) from None
    return [_entry(path, node, file) for node in file.node]


def _entry(path: Path, node: _Node, file: _File) -> HostEntry:
    target = node.ssh or node.address or node.address6 or node.name
    if not target:
        raise ConfigError(
            f"{path}: a node has neither name nor address",
            remedy='name = "...", or address = "..."',
        )
    user = node.user or file.user or who()
    known = node.known_hosts or file.known_hosts
    ssh = Place(
        host=target,
        port=node.port or file.port or 22,
        user=user,
        keys=_keys(node.key or file.key),
        agent=os.environ.get("SSH_AUTH_SOCK", ""),
        known_hosts=(expanded(known),) if known else (),
    )
    asked, password = _password(path, node.sudo_password or file.sudo_password)
    return HostEntry(
        alias=node.name or target,
        ssh=ssh,
        jumps=tuple(_jumps(path, node.jump or file.jump, ssh)),
        address=node.address,
        address6=node.address6,
        password_path=asked,
        password=password,
        roles=tuple(dict.fromkeys([*file.roles, *node.roles])),
    )


def _keys(key: str) -> tuple[str, ...]:
    return (expanded(key),) if key else ()


def _jumps(path: Path, given: Any, ssh: Place) -> list[Place]:
    """Those that are given, with key, agent and known hosts of the machine behind them."""
    places = []
    for one in given if isinstance(given, list) else [given] if given else []:
        try:
            jump = msgspec.convert(one, _Jump) if isinstance(one, dict) else one
        except msgspec.ValidationError as error:
            raise ConfigError(
                f"{path}: jump: {error}",
                remedy='"user@host:port", or a table with host, port, user and key',
            ) from None
        if isinstance(jump, str):
            user, host, port = split_place(jump)
            jump = _Jump(host=host, port=port or 22, user=user)
        if not isinstance(jump, _Jump) or not jump.host:
            raise ConfigError(f"{path}: {one!r} is no jump host", remedy='"user@host:port"')
        keys = _keys(jump.key) or ssh.keys
        user = jump.user or ssh.user
        places.append(
            msgspec.structs.replace(ssh, host=jump.host, port=jump.port, user=user, keys=keys)
        )
    return places


def _password(path: Path, given: str | _Password) -> tuple[str, str]:
    """(file or `ASK`, the password itself where an environment variable has it)."""
    if isinstance(given, _Password):
        if given.file:
            return expanded(given.file), ""
        if given.env and os.environ.get(given.env):
            return "", os.environ[given.env]
        raise ConfigError(
            f"{path}: sudo_password: there is no variable {given.env or '(unnamed)'}",
            remedy='{ file = "PATH" }, or an exported { env = "NAME" }',
        )
    if given and given != ASK:
        raise ConfigError(
            f"{path}: a password does not belong into this file",
            remedy='sudo_password = "ask", { file = "PATH" } or { env = "NAME" }',
        )
    return given, ""
