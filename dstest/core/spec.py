"""Everything that determines a run. Plain data; written back as `spec.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import tomli_w

__all__ = ["SPEC", "RunSpec", "to_toml"]

SPEC: Final = "spec.toml"
"""In the directory of a run."""


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `rate` is offered operations per second over all clients, None = closed loop.

    `schedule` is the file that the faults were taken from, None where they were planned by seed.
    `files` are absolute paths of plug-ins of the user's own (`core.plugin_files`).
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
    files: tuple[str, ...] = ()
    options: dict[str, Any] = msgspec.field(default_factory=dict)


def to_toml(spec: RunSpec) -> str:
    """The content of spec.toml; what is None, and an empty list of files, is left out."""
    rows = msgspec.to_builtins(spec)
    options = rows.pop("options")
    return tomli_w.dumps({**_said(rows), "options": _said(options)})


def _said(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value not in (None, [], ())}
