"""Machines of an Ansible inventory, as Ansible itself reads it (`ansible-inventory --list`): INI,
YAML, directories, scripts, group variables and files that are a vault.

Templates and single encrypted values are filled in when a playbook runs, which nobody does here:
they are refused, by host and variable.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from clusters.labs.existing.entry import HostEntry, Place, expanded, split_place, who
from dstest.core.errors import ConfigError, LabError

__all__ = ["read_ansible"]

TIMEOUT_S: Final = 60.0
_PASSWORDS: Final = ("ansible_become_password", "ansible_become_pass", "ansible_sudo_pass")
_JUMP: Final = re.compile(r"(?:-J\s*|-o\s*[\"']?ProxyJump[= ])([^\s\"']+)")
_PROXY: Final = re.compile(r"ProxyCommand", re.IGNORECASE)


def read_ansible(path: Path, names: Sequence[str]) -> list[HostEntry]:
    """The machines of the inventory, or those that are named or in a named group, in its order."""
    listed = _listed(path)
    variables: dict[str, Any] = listed.pop("_meta", {}).get("hostvars", {})
    groups = {name: _members(name, listed) for name in listed}
    everyone = list(dict.fromkeys(h for hosts in groups.values() for h in hosts)) or [*variables]
    if unknown := [name for name in names if name not in groups and name not in everyone]:
        raise ConfigError(
            f"{path} has no host or group {', '.join(unknown)}",
            remedy=f"hosts: {', '.join(everyone)}",
        )
    chosen = [host for name in names for host in groups.get(name, [name])] or everyone
    return [
        _entry(path, host, variables.get(host, {}), _roles(host, groups))
        for host in dict.fromkeys(chosen)
    ]


def _listed(path: Path) -> dict[str, Any]:
    program = shutil.which("ansible-inventory") or str(
        Path(sys.executable).with_name("ansible-inventory")
    )
    try:
        done = subprocess.run(
            [program, "-i", str(path), "--list"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
            env={**os.environ, "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true"},
        )
        found = msgspec.json.decode(done.stdout) if done.returncode == 0 else None
    except FileNotFoundError:
        raise LabError(
            f"{path} is read by ansible-inventory, which is not installed",
            remedy="pip install ansible-core, or write the machines into a .toml file",
        ) from None
    except subprocess.TimeoutExpired:
        raise LabError(f"ansible-inventory did not end within {TIMEOUT_S:g} s") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LabError(f"ansible-inventory prints no JSON: {error}") from None
    if not isinstance(found, dict):
        said = done.stderr.strip()[-500:] or f"ansible-inventory ended with {done.returncode}"
        raise ConfigError(
            f"{path}: {said}",
            remedy="see `ansible-inventory -i FILE --list`, which is what is read",
        )
    return found


def _members(group: str, listed: Mapping[str, Any], depth: int = 0) -> list[str]:
    row = listed.get(group, {})
    below = row.get("children", []) if depth < 20 else []
    found = [*row.get("hosts", [])]
    for child in below:
        found += _members(child, listed, depth + 1)
    return list(dict.fromkeys(found))


def _roles(host: str, groups: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    return tuple(
        name for name in groups if host in groups[name] and name not in ("all", "ungrouped")
    )


def _entry(path: Path, host: str, said: Mapping[str, Any], roles: tuple[str, ...]) -> HostEntry:
    def word(name: str, default: str = "") -> str:
        return _word(path, host, name, said.get(name)) or default

    method = word("ansible_become_method", "sudo")
    if method != "sudo":
        raise ConfigError(
            f"{path}: {host} becomes root by {method}; dstest knows sudo alone",
            remedy="ansible_become_method: sudo",
        )
    more = " ".join(word(f"ansible_ssh_{w}_args") for w in ("common", "extra"))
    if _PROXY.search(more):
        raise ConfigError(
            f"{path}: {host} is reached by a ProxyCommand, which dstest does not run",
            remedy="ansible_ssh_common_args: -J user@host",
        )
    key = word("ansible_ssh_private_key_file")
    port = word("ansible_port", "22")
    if not (port.isascii() and port.isdigit()):
        raise ConfigError(
            f"{path}: {host}: ansible_port is {port!r}, which is no number",
            remedy="a number from 1 to 65535",
        )
    ssh = Place(
        host=word("ansible_host", host),
        port=int(port),
        user=word("ansible_user") or who(),
        keys=(expanded(key),) if key else (),
        agent=os.environ.get("SSH_AUTH_SOCK", ""),
    )
    return HostEntry(
        alias=host,
        ssh=ssh,
        jumps=tuple(_jumps(more, ssh)),
        address=word("dstest_address"),
        address6=word("dstest_address6"),
        password=next(filter(None, map(word, _PASSWORDS)), ""),
        roles=roles,
    )


def _word(path: Path, host: str, name: str, value: Any) -> str:
    """A variable that is text or a number; empty where it is not set."""
    secret = name in _PASSWORDS
    if value is None:
        return ""
    if isinstance(value, str) and "{{" not in value and "{%" not in value:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    what = "a template" if isinstance(value, str) else "no text"
    if isinstance(value, dict) and "__ansible_vault" in value:
        what = "encrypted by itself"
    raise ConfigError(
        f"{path}: {host}: {name} is {what}, which only a playbook would fill in",
        remedy="leave it away, and adopt at a terminal, which asks for the password; or a list in"
        ' TOML with sudo_password = { file = "PATH" }'
        if secret
        else "write its value there, or the machines into a list in TOML",
    )


def _jumps(arguments: str, ssh: Place) -> list[Place]:
    found = _JUMP.search(arguments)
    places = []
    for word in found[1].split(",") if found else []:
        user, host, port = split_place(word)
        places.append(
            msgspec.structs.replace(ssh, host=host, port=port or 22, user=user or ssh.user)
        )
    return places
