"""Machines of the user's SSH configuration, as OpenSSH itself reads it (`ssh -G`): with its
patterns, `Match`, `Include` and defaults."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from clusters.labs.existing.entry import HostEntry, Place, expanded, split_place, who
from dstest.core.errors import ConfigError, LabError

_BY_THEM: Final = (
    *("host", "hostname", "port", "user", "proxyjump", "proxycommand", "identityfile"),
    *("identityagent", "userknownhostsfile", "globalknownhostsfile", "stricthostkeychecking"),
)
"""What dstest goes by as OpenSSH does."""

_ALIKE: Final = re.compile(
    r"add(keys|ress).*|batchmode|canonical.*|checkhostip|ci?phers|c[ao].*algorithms|clearall.*"
    r"|compression|connect.*|control.*|enable.*|esc.*|exitonforwardfailure|fingerprinthash"
    r"|forkafter.*|.*forward.*|gatewayports|gss.*|h(ash|ost)(known|based|key).*hosts"
    r"|.*algorithms|.*authentication|identitiesonly|ipqos|loglevel|logverbose|macs|nohostauth.*"
    r"|numberofpass.*|permit.*|preferredauth.*|proxyusefdpass|rekeylimit|requesttty|requiredrsasize"
    r"|se(nd|t)env|server.*|sessiontype|stdinnull|streamlocal.*|syslogfacility|tcpkeepalive"
    r"|tunnel.*|updatehostkeys|visualhostkey|xauthlocation|localcommand"
)
"""What changes neither which machine answers nor who gets in there."""

_SPELLED: Final = {
    "hostkeyalias": "HostKeyAlias",
    "certificatefile": "CertificateFile",
    "bindaddress": "BindAddress",
    "bindinterface": "BindInterface",
    "remotecommand": "RemoteCommand",
    "knownhostscommand": "KnownHostsCommand",
}

_ACCEPTS_NEW: Final = ("accept-new", "no", "off", "false")

TIMEOUT_S: Final = 10.0
JUMPS_MAX: Final = 8
Names = Callable[[str], str]


def read_ssh_config(path: Path, names: Sequence[str]) -> list[HostEntry]:
    """The named machines. Raises ConfigError for what cannot be followed."""
    if not names:
        raise ConfigError(
            "an SSH configuration does not say which of its machines are meant",
            remedy=f"dstest lab adopt {path} HOST HOST HOST",
        )
    return [_entry(path, name) for name in names]


def _entry(path: Path, name: str) -> HostEntry:
    ssh, jumps = places_of(path, name, ("-F", str(path)))
    return HostEntry(alias=name, ssh=ssh, jumps=jumps, form="ssh")


def places_of(
    path: Path, name: str, given: Sequence[str], names: Names = lambda word: f"has {word}"
) -> tuple[Place, tuple[Place, ...]]:
    """Where `ssh GIVEN NAME` goes, and through which jump hosts, as OpenSSH says. `path` is the
    list of machines, `names` says in its terms where a keyword comes from. Raises ConfigError for
    what dstest would do in another way than OpenSSH, LabError where there is none."""
    said = _said(path, name, given)
    config = [w for at, word in enumerate(given) for w in _config(given, at, word)]
    return _place(path, said, names), tuple(_jumps(path, said, config, names))


def _config(given: Sequence[str], at: int, word: str) -> list[str]:
    """The option that names a configuration, which holds for jump hosts as well."""
    if word == "-F":
        return [*given[at : at + 2]]
    return [word] if word.startswith("-F") else []


def _jumps(
    path: Path, said: dict[str, list[str]], config: Sequence[str], names: Names, depth: int = 0
) -> list[Place]:
    """The jump hosts of a machine, from here on; each may have jump hosts of its own."""
    if _one(said, "proxycommand", "none") != "none":
        raise ConfigError(
            f"{path}: {_host(said)} is reached by a ProxyCommand, which dstest does not run",
            remedy=f"ProxyJump (-J user@host) in place of what {names('ProxyCommand')}",
        )
    given = _one(said, "proxyjump", "none")
    if given == "none":
        return []
    if depth > JUMPS_MAX:
        raise ConfigError(
            f"{path}: jump hosts of {_host(said)} lead to each other",
            remedy="take one of them out of ProxyJump",
        )
    found: list[Place] = []
    for word in given.split(","):
        user, host, port = split_place(word.removeprefix("ssh://"))
        more = [*(("-l", user) if user else ()), *(("-p", str(port)) if port else ())]
        of_jump = _said(path, host, [*config, *more])
        before = [] if found else _jumps(path, of_jump, config, names, depth + 1)
        found += [*before, _place(path, of_jump, names)]
    return found


def _said(path: Path, name: str, given: Sequence[str]) -> dict[str, list[str]]:
    """What OpenSSH makes of these options for a machine: keyword -> values."""
    if name.startswith("-"):
        raise ConfigError(
            f"{name!r} is no name of a machine", remedy="a name that does not begin with a dash"
        )
    try:
        done = subprocess.run(
            ["ssh", "-G", *given, "--", name],
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
        shown = " ".join(["ssh -G", *given, name])
        raise ConfigError(f"{path}: {name}: {said}", remedy=f"see `{shown}`, which is what is read")
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        key, _, value = line.partition(" ")
        found.setdefault(key, []).append(value)
    return found


def _one(said: dict[str, list[str]], key: str, otherwise: str = "") -> str:
    return said.get(key, [otherwise])[0]


def _host(said: dict[str, list[str]]) -> str:
    return _one(said, "host") or _one(said, "hostname")


def _place(path: Path, said: dict[str, list[str]], names: Names) -> Place:
    usual = _said(path, "localhost", ["-F", "none"])
    for key, values in said.items():
        plain = values == usual.get(key) or values in (["none"], ["no"], ["false"])
        if not plain and key not in _BY_THEM and not _ALIKE.fullmatch(key):
            word = _SPELLED.get(key, key)
            raise ConfigError(
                f"{path}: {_host(said)} {names(word)} {values[0]!r}, which dstest does not go by",
                remedy=f"leave {word} away for it, or write the machine into a list in TOML",
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
        accepts_new=_one(said, "stricthostkeychecking") in _ACCEPTS_NEW,
    )
