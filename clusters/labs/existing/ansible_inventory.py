"""Machines of an Ansible inventory, as Ansible itself reads it (`ansible-inventory --list`): INI,
YAML, directories, scripts, group variables and files that are a vault.

Templates and single encrypted values are filled in when a playbook runs, which nobody does here:
they are refused, by host and variable.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from clusters.labs.existing.entry import HostEntry
from clusters.labs.existing.ssh_inventory import places_of
from dstest.core.errors import ConfigError, LabError

TIMEOUT_S: Final = 60.0
_PASSWORDS: Final = ("ansible_become_password", "ansible_become_pass", "ansible_sudo_pass")
_HOST: Final = ("ansible_host", "ansible_ssh_host")
_PORT: Final = ("ansible_port", "ansible_ssh_port")
_USER: Final = ("ansible_user", "ansible_ssh_user")
_KEY: Final = (
    "ansible_private_key_file",
    "ansible_ssh_private_key_file",
)
_ARGUMENTS: Final = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")
_CHECKS: Final = ("ansible_ssh_host_key_checking", "ansible_host_key_checking")
_LETTERS: Final = {"BindAddress": "-b", "BindInterface": "-B"}
_SSH_ALIKE: Final = (
    *(name for row in (_PORT, _USER, _KEY, _CHECKS) for name in row),
    *(f"ansible_ssh_{word}" for word in ["pass", "password", "pipelining", "retries", "timeout"]),
    *(f"ansible_ssh_{word}" for word in ["transfer_method", "use_tty", "control_path"]),
    "ansible_ssh_control_path_dir",
    "ansible_ssh_connect_timeout",
)
"""Older names, and what changes neither the machine nor who gets in there."""

_BY_SSH: Final = ("ssh", "smart", "ansible.builtin.ssh", "paramiko", "paramiko_ssh")
_REFUSED: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "ansible_connection": (_BY_SSH, "is reached by {}, and dstest logs in by SSH alone"),
    "ansible_become_method": (
        ("sudo", "ansible.builtin.sudo"),
        "becomes root by {}; dstest knows sudo alone",
    ),
    "ansible_become_user": (("root",), "becomes {}, and dstest needs root"),
    "ansible_become_exe": (("sudo",), "becomes root by the program {}; dstest knows sudo alone"),
    "ansible_sudo_exe": (("sudo",), "becomes root by the program {}; dstest knows sudo alone"),
    "ansible_ssh_executable": (("ssh",), "is reached by the program {}; dstest has SSH built in"),
}
"""By variable: the values with which it says what dstest does, and what another one would do."""


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
        # Its warnings come first, each with a paragraph; what is wrong is said last, in words.
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        wrong = [line for line in lines if line.startswith("ERROR")] or lines[-3:]
        said = " ".join(wrong)[:500] or f"ansible-inventory ended with {done.returncode}"
        raise ConfigError(
            f"{path}, read as an Ansible inventory: {said}",
            remedy="see `ansible-inventory -i FILE --list`, which is what is read; where the file"
            " is of another form: --form ssh, or --form toml",
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
    def word(*names: str) -> str:
        return next(filter(None, (_word(path, host, n, said.get(n)) for n in names)), "")

    _refuse(path, host, said, word)
    options = _options(path, host, said, word)
    names = partial(_said_by, said)
    ssh, jumps = places_of(path, word(*_HOST) or host, options, names)
    return HostEntry(
        alias=host,
        ssh=ssh,
        # OpenSSH does not show them this key; where they take no other, it is tried as well.
        jumps=tuple(msgspec.structs.replace(j, keys=(*j.keys, *ssh.keys)) for j in jumps),
        address=word("dstest_address"),
        address6=word("dstest_address6"),
        password=word(*_PASSWORDS),
        roles=roles,
        form="ansible",
    )


def _refuse(path: Path, host: str, said: Mapping[str, Any], word: Callable[..., str]) -> None:
    """Raises ConfigError for what would have Ansible come to another machine, or as somebody else,
    than dstest does."""
    for name, (fit, does) in _REFUSED.items():
        if (value := word(name)) and value not in fit:
            raise ConfigError(
                f"{path}: {host} {does.format(value)} ({name})",
                remedy=f"{name}: {fit[0]}" if fit else f"leave {name} away for it",
            )
    for name in said:
        if name.startswith("ansible_ssh_") and name not in {*_HOST, *_SSH_ALIKE, *_ARGUMENTS}:
            raise ConfigError(
                f"{path}: {host}: {name} is nothing that dstest goes by",
                remedy=f"leave {name} away for it, or write the machine into a list in TOML",
            )


def _options(path: Path, host: str, said: Mapping[str, Any], word: Callable[..., str]) -> list[str]:
    """Of ssh, in the order in which Ansible gives them: the first of a kind holds."""
    if (port := word(*_PORT)) and not (port.isascii() and port.isdigit()):
        raise ConfigError(
            f"{path}: {host}: {_given(said, _PORT)} is {port!r}, which is no number",
            remedy="a number from 1 to 65535",
        )
    pairs = {"Port": port, "User": word(*_USER), "IdentityFile": word(*_KEY)}
    first, *others = (_words(path, host, name, word(name)) for name in _ARGUMENTS)
    checks = [str(said[name]).lower() for name in _CHECKS if name in said]
    strict = ["-oStrictHostKeyChecking=no"] if checks[:1] in (["false"], ["no"], ["0"]) else []
    own = [f"-o{name}={_quoted(value)}" for name, value in pairs.items() if value]
    return [*first, *strict, *own, *(option for row in others for option in row)]


def _quoted(value: str) -> str:
    return f'"{value}"' if " " in value else value


def _words(path: Path, host: str, name: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ConfigError(
            f"{path}: {host}: {name} cannot be split into words: {error}",
            remedy="quotes in pairs, as for a shell",
        ) from None


def _given(said: Mapping[str, Any], names: Sequence[str]) -> str:
    return next(name for name in names if name in said)


def _said_by(said: Mapping[str, Any], keyword: str) -> str:
    """Where an option of ssh comes from, as words of a sentence."""
    for name in _ARGUMENTS:
        text = str(said.get(name, ""))
        if keyword.lower() in text.lower() or _LETTERS.get(keyword, "\n") in text:
            return f"has in {name} {keyword}"
    return f"has by your SSH configuration {keyword}"


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
