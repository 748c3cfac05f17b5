"""Everything that determines a run. Plain data; written back as `spec.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import tomli_w

SPEC: Final = "spec.toml"
"""In the directory of a run."""


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `rate` is offered operations per second over all clients, None = closed loop.

    `schedule` is the file that the faults were taken from, None where they were planned by seed.
    `files` are absolute paths of plug-ins of the user's own (`core.plugin_files`), `builds` are
    names of builds of the system (`core.builds`) that the nodes have instead of Debian's.
    `checkers` are asked beside those of the workload. `monitor`: nodes are sampled.
    `options` holds every `-o key=value`, already typed by the plug-in that declares the key.
    """

    system: str = "etcd"
    workload: str = "register"
    nemesis: str = "partition"
    lab: str = "lxc"
    nodes: int = 5
    time_limit_s: float = 60.0
    rate: float | None = None
    concurrency: int = 20
    seed: int = 0
    model: str | None = None
    schedule: str | None = None
    stop_on_violation: bool = False
    monitor: bool = True
    files: tuple[str, ...] = ()
    builds: tuple[str, ...] = ()
    checkers: tuple[str, ...] = ()
    options: dict[str, Any] = msgspec.field(default_factory=dict)


def to_toml(spec: RunSpec) -> str:
    """The content of spec.toml."""
    return tomli_w.dumps(said_in(msgspec.to_builtins(spec)))


def said_in(rows: Mapping[str, Any]) -> dict[str, Any]:
    """What spec.toml says of a spec as plain data, tuples as lists.

    What is None, and an empty list of files, builds or checkers, is left out; an option that is
    empty is not. That nodes are sampled is said only where they are not.
    """
    said = {key: value for key, value in rows.items() if value not in (None, [], ())}
    if said.get("monitor") is True:
        del said["monitor"]
    options = {k: v for k, v in (rows.get("options") or {}).items() if v is not None}
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode({**said, "options": options}))
    return plain


def held(value: object) -> bool:
    """Do TOML and JSON hold this value, and both the same?"""
    row = {"value": value}
    try:
        in_toml = tomllib.loads(tomli_w.dumps(row))
        in_json = msgspec.json.decode(msgspec.json.encode(row))
        return bool(in_toml == in_json) and _within(in_json)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return False


def _within(value: object) -> bool:
    """Have all whole numbers in it 64 bits at most, as TOML has them?"""
    if isinstance(value, dict):
        return all(map(_within, value.values()))
    if isinstance(value, list):
        return all(map(_within, value))
    return not isinstance(value, int) or -(2**63) <= value < 2**63
