"""The user's list of machines, in whichever of three forms it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from clusters.labs.existing.ansible_inventory import read_ansible
from clusters.labs.existing.entry import HostEntry
from clusters.labs.existing.ssh_inventory import read_ssh_config
from clusters.labs.existing.toml_inventory import read_toml
from dstest.core import limits
from dstest.core.errors import ConfigError
from dstest.core.near import meant

FORMS: Final = ("toml", "ansible", "ssh")


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
        entries = _named(path, read_toml(path), names)
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


def _named(path: Path, entries: list[HostEntry], names: Sequence[str]) -> list[HostEntry]:
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
