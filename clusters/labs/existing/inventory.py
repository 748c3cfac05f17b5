"""The user's list of machines: dstest's own in TOML, the user's SSH configuration as OpenSSH reads
it (`ssh -G`), or an Ansible inventory as Ansible reads it (`ansible-inventory --list`). Ansible's
templates and single encrypted values are refused: they are filled in when a playbook runs.

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
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from clusters.labs.existing.entry import ASK, HostEntry, SshPlace, expand, split_place, who
from dstest.core import limits
from dstest.core.errors import ConfigError, LabError
from dstest.core.near import meant

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

SSH_TIMEOUT_S: Final = 10.0
JUMPS_MAX: Final = 8
Names = Callable[[str], str]

ANSIBLE_TIMEOUT_S: Final = 60.0
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

FORMS: Final = ("toml", "ansible", "ssh")


def read_ssh_config(path: Path, names: Sequence[str]) -> list[HostEntry]:
    """The named machines. Raises ConfigError for what cannot be followed."""
    if not names:
        raise ConfigError(
            "an SSH configuration does not say which of its machines are meant",
            remedy=f"dstest lab adopt {path} HOST HOST HOST",
        )
    return [_ssh_entry(path, name) for name in names]


def _ssh_entry(path: Path, name: str) -> HostEntry:
    ssh, jumps = places_of(path, name, ("-F", str(path)))
    return HostEntry(alias=name, ssh=ssh, jumps=jumps, form="ssh")


def places_of(
    path: Path, name: str, given: Sequence[str], names: Names = lambda word: f"has {word}"
) -> tuple[SshPlace, tuple[SshPlace, ...]]:
    """Where `ssh GIVEN NAME` goes, and through which jump hosts, as OpenSSH says. `path` is the
    list of machines, `names` says in its terms where a keyword comes from. Raises ConfigError for
    what dstest would do in another way than OpenSSH, LabError where there is none."""
    said = _ssh_options(path, name, given)
    config = [w for at, word in enumerate(given) for w in _config(given, at, word)]
    return _place(path, said, names), tuple(_ssh_jumps(path, said, config, names))


def _config(given: Sequence[str], at: int, word: str) -> list[str]:
    """The option that names a configuration, which holds for jump hosts as well."""
    if word == "-F":
        return [*given[at : at + 2]]
    return [word] if word.startswith("-F") else []


def _ssh_jumps(
    path: Path, said: dict[str, list[str]], config: Sequence[str], names: Names, depth: int = 0
) -> list[SshPlace]:
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
    found: list[SshPlace] = []
    for word in given.split(","):
        user, host, port = split_place(word.removeprefix("ssh://"))
        more = [*(("-l", user) if user else ()), *(("-p", str(port)) if port else ())]
        of_jump = _ssh_options(path, host, [*config, *more])
        before = [] if found else _ssh_jumps(path, of_jump, config, names, depth + 1)
        found += [*before, _place(path, of_jump, names)]
    return found


def _ssh_options(path: Path, name: str, given: Sequence[str]) -> dict[str, list[str]]:
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
            timeout=SSH_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        raise LabError("ssh is not installed", remedy="apt-get install -y openssh-client") from None
    except subprocess.TimeoutExpired:
        raise LabError(f"ssh -G {name} did not end within {SSH_TIMEOUT_S:g} s") from None
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


def _place(path: Path, said: dict[str, list[str]], names: Names) -> SshPlace:
    usual = _ssh_options(path, "localhost", ["-F", "none"])
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
    return SshPlace(
        host=_one(said, "hostname"),
        port=int(_one(said, "port", "22")),
        user=_one(said, "user") or who(),
        keys=tuple(expand(key.strip('"')) for key in said.get("identityfile", [])),
        agent="" if agent == "none" else expand(agent),
        known_hosts=tuple(map(expand, known)),
        accepts_new=_one(said, "stricthostkeychecking") in _ACCEPTS_NEW,
    )


def read_ansible(path: Path, names: Sequence[str]) -> list[HostEntry]:
    """The machines of the inventory, or those that are named or in a named group, in its order."""
    listed = _ansible_listing(path)
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
        _ansible_entry(path, host, variables.get(host, {}), _roles(host, groups))
        for host in dict.fromkeys(chosen)
    ]


def _ansible_listing(path: Path) -> dict[str, Any]:
    program = shutil.which("ansible-inventory") or str(
        Path(sys.executable).with_name("ansible-inventory")
    )
    try:
        done = subprocess.run(
            [program, "-i", str(path), "--list"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSIBLE_TIMEOUT_S,
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
        raise LabError(f"ansible-inventory did not end within {ANSIBLE_TIMEOUT_S:g} s") from None
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


def _ansible_entry(
    path: Path, host: str, said: Mapping[str, Any], roles: tuple[str, ...]
) -> HostEntry:
    def word(*names: str) -> str:
        return next(filter(None, (_word(path, host, n, said.get(n)) for n in names)), "")

    _refuse(path, host, said, word)
    options = _options(path, host, said, word)
    names = partial(_origin, said)
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
            f"{path}: {host}: {_name_in(said, _PORT)} is {port!r}, which is no number",
            remedy="a number from 1 to 65535",
        )
    pairs = {"Port": port, "User": word(*_USER), "IdentityFile": word(*_KEY)}
    first, *others = (_words(path, host, name, word(name)) for name in _ARGUMENTS)
    checks = [str(said[name]).lower() for name in _CHECKS if name in said]
    strict = ["-oStrictHostKeyChecking=no"] if checks[:1] in (["false"], ["no"], ["0"]) else []
    own = [f"-o{name}={_quote(value)}" for name, value in pairs.items() if value]
    return [*first, *strict, *own, *(option for row in others for option in row)]


def _quote(value: str) -> str:
    return f'"{value}"' if " " in value else value


def _words(path: Path, host: str, name: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ConfigError(
            f"{path}: {host}: {name} cannot be split into words: {error}",
            remedy="quotes in pairs, as for a shell",
        ) from None


def _name_in(said: Mapping[str, Any], names: Sequence[str]) -> str:
    return next(name for name in names if name in said)


def _origin(said: Mapping[str, Any], keyword: str) -> str:
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
    ssh = SshPlace(
        host=target,
        port=node.port or file.port or 22,
        user=user,
        keys=_keys(node.key or file.key),
        agent=os.environ.get("SSH_AUTH_SOCK", ""),
        known_hosts=(expand(known),) if known else (),
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
    return (expand(key),) if key else ()


def _jumps(path: Path, given: Any, ssh: SshPlace) -> list[SshPlace]:
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
            return expand(given.file), ""
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


def form_of(path: Path) -> str:
    """Of which form a file is, by its name: `.toml`; `config`, `ssh_config`, `.conf`; Ansible's."""
    if path.suffix == ".toml":
        return "toml"
    if path.name in ("config", "ssh_config") or path.suffix in (".conf", ".ssh"):
        return "ssh"
    return "ansible"


def read_inventory(path: Path, names: Sequence[str], form: str | None = None) -> list[HostEntry]:
    """The machines that are named, or all of the list. Raises ConfigError, LabError."""
    if not path.exists():
        raise ConfigError(
            f"there is no {path}", remedy="a TOML file, an Ansible inventory or an ssh_config"
        )
    if form not in (None, *FORMS):
        raise ConfigError(f"there is no form {form}", remedy=meant(form, FORMS))
    kind = form or form_of(path)
    if kind == "ssh":
        entries = read_ssh_config(path, names)
    elif kind == "ansible":
        entries = read_ansible(path, names)
    else:
        entries = _select(path, read_toml(path), names)
    if not 1 <= len(entries) <= limits.NODES_MAX:
        raise ConfigError(
            f"{path} names {len(entries)} machines", remedy=f"1 to {limits.NODES_MAX} are possible"
        )
    doubled = {e.alias for e in entries if sum(o.alias == e.alias for o in entries) > 1}
    if doubled:
        raise ConfigError(
            f"{path} names {', '.join(sorted(doubled))} twice",
            remedy="give each machine a name of its own",
        )
    return entries


def _select(path: Path, entries: list[HostEntry], names: Sequence[str]) -> list[HostEntry]:
    by_alias = {entry.alias: entry for entry in entries}
    unknown = [n for n in names if n not in by_alias and not any(n in e.roles for e in entries)]
    if unknown:
        raise ConfigError(
            f"{path} has no host or role {', '.join(unknown)}",
            remedy=f"hosts: {', '.join(by_alias)}",
        )
    if not names:
        return entries
    chosen = [e for n in names for e in ([by_alias[n]] if n in by_alias else _role(entries, n))]
    return list({msgspec.structs.astuple(e): e for e in chosen}.values())


def _role(entries: list[HostEntry], role: str) -> list[HostEntry]:
    return [entry for entry in entries if role in entry.roles]
