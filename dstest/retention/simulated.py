"""Runs that are one simulation: all that is random in one comes from its seed, so that the same
command with the same seed gives the same operations in the same nanoseconds. Made again, it is the
same sample once more: no second one, and no copy that somebody has passed off as one."""

from __future__ import annotations

from pathlib import Path

from dstest.core.run_meta import RunMeta
from dstest.retention.identity import recorded_name


def made_again(one: RunMeta, one_path: Path, other: RunMeta, other_path: Path) -> bool:
    """Do both say that they are runs of one command and seed in a simulation, each made by itself?
    Whether they recorded the same is another question. One that says of itself what the other says,
    its beginning and its name, is a copy."""
    simulated = "network" not in (one.transport, other.transport)
    apart = one.started != other.started and recorded_name(one_path) != recorded_name(other_path)
    return simulated and apart and _words(one) == _words(other)


def _words(meta: RunMeta) -> tuple[object, ...]:
    """What a simulation follows from: in whatever order its options were given, and wherever its
    plug-ins lay."""
    spec = {name: value for name, value in meta.spec.items() if name != "files"}
    return (
        spec,
        sorted(meta.options_given or ()),
        sorted((meta.plugin_files or {}).values()),
        meta.lab,
        meta.transport,
        meta.system_version,
        meta.builds_in_use,
    )


def whole(meta: RunMeta) -> bool:
    """Did it come to its end, so that its digest is that of its seed?"""
    return meta.ended_by is None and meta.digest is not None
