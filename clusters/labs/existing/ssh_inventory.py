"""Machines of the user's SSH configuration, as OpenSSH itself reads it (`ssh -G`): with its
patterns, `Match`, `Include` and defaults."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from clusters.labs.existing.entry import HostEntry, Place, expanded, split_place, who
from dstest.core.errors import ConfigError, LabError

__all__ = ["read_ssh_config"]

_UNKNOWN: Final = {"hostkeyalias": "HostKeyAlias", "certificatefile": "CertificateFile"}
"""Without these another key would be asked for, or shown, than by OpenSSH."""

TIMEOUT_S: Final = 10.0
JUMPS_MAX: Final = 8


def read_ssh_config(path: Path, names: Sequence[str]) -> list[HostEntry]:
    """The named machines. Raises ConfigError for what cannot be followed."""
    if not names:
        raise ConfigError(
            "an SSH configuration does not say which of its machines are meant",
            remedy=f"dstest lab adopt {path} HOST HOST HOST",
        )
    return [_entry(path, name) for name in names]


def _entry(path: Path, name: str) -> HostEntry:
    said = _said(path, name)
    return HostEntry(alias=name, ssh=_place(said), jumps=tuple(_jumps(path, said)))


def _jumps(path: Path, said: dict[str, list[str]], depth: int = 0) -> list[Place]:
    """The jump hosts of a machine, from here on; each may have jump hosts of its own."""
    if _one(said, "proxycommand", "none") != "none":
        raise ConfigError(
            f"{path}: {_one(said, 'host')} is reached by a ProxyCommand, which dstest does not run",
            remedy="ProxyJump",
        )
    given = _one(said, "proxyjump", "none")
    if given == "none":
        return []
    if depth > JUMPS_MAX:
        raise ConfigError(
            f"{path}: jump hosts of {_one(said, 'host')} lead to each other",
            remedy="take one of them out of ProxyJump",
        )
    found: list[Place] = []
    for word in given.split(","):
        user, host, port = split_place(word.removeprefix("ssh://"))
        more = [*(("-l", user) if user else ()), *(("-p", str(port)) if port else ())]
        of_jump = _said(path, host, more)
        before = [] if found else _jumps(path, of_jump, depth + 1)
        found += [*before, _place(of_jump)]
    return found


def _said(path: Path, name: str, more: Sequence[str] = ()) -> dict[str, list[str]]:
    """What OpenSSH makes of the configuration for a machine: keyword -> values."""
    if name.startswith("-"):
        raise ConfigError(
            f"{name!r} is no name of a machine", remedy="a name that does not begin with a dash"
        )
    try:
        done = subprocess.run(
            ["ssh", "-G", "-F", str(path), *more, "--", name],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        raise LabError("ssh is not installed", remedy="apt-get install -y openssh-client") from None
    except subprocess.TimeoutExpired:
        raise LabError(f"ssh -G {name} did not end within {TIMEOUT_S:g} s") from None
    if done.returncode != 0:
        said = done.stderr.strip()[-500:] or f"ssh -G {name} ended with {done.returncode}"
        raise ConfigError(f"{path}: {said}", remedy="see `ssh -G NAME`, which is what is read")
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        key, _, value = line.partition(" ")
        found.setdefault(key, []).append(value)
    return found


def _one(said: dict[str, list[str]], key: str, otherwise: str = "") -> str:
    return said.get(key, [otherwise])[0]


def _place(said: dict[str, list[str]]) -> Place:
    for key, word in _UNKNOWN.items():
        if _one(said, key, "none") != "none":
            raise ConfigError(
                f"{_one(said, 'host') or _one(said, 'hostname')} has {word} {_one(said, key)!r},"
                " which dstest does not go by",
                remedy=f"a configuration without {word} for it, or a list in TOML",
            )
    agent = _one(said, "identityagent", "SSH_AUTH_SOCK")
    if agent == "SSH_AUTH_SOCK":
        agent = os.environ.get("SSH_AUTH_SOCK", "")
    known = [
        word
        for key in ("userknownhostsfile", "globalknownhostsfile")
        for word in _one(said, key).split()
    ]
    return Place(
        host=_one(said, "hostname"),
        port=int(_one(said, "port", "22")),
        user=_one(said, "user") or who(),
        keys=tuple(expanded(key.strip('"')) for key in said.get("identityfile", [])),
        agent="" if agent == "none" else expanded(agent),
        known_hosts=tuple(map(expanded, known)),
    )
