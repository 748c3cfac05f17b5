"""What `dstest logs` is given: a run, directories, files; nodes and times."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dstest.core.errors import ConfigError

if TYPE_CHECKING:
    from dstest.logs.look import Asked
    from dstest.logs.of_run import OfRun
    from dstest.logs.scene import Check

_SECONDS: Final = re.compile(r"[+-]?\d+(?:\.\d+)?")


def is_run(path: Path) -> bool:
    """Does it look like a run directory?"""
    return (path / "segments").is_dir() or (path / "session.json").is_file()


def given(paths: Sequence[Path], nodes: str, system: str) -> OfRun:
    """A sealed run, or logs that are of none. Raises ConfigError, EvidenceError, HistoryError."""
    runs = [path for path in paths if path.is_dir() and is_run(path)]
    if not runs:
        return _loose(paths, nodes, system)
    if len(paths) > 1:
        raise ConfigError(
            f"{runs[0]} is a run, and {len(paths) - 1} more paths are given",
            remedy="one run at a time: its faults are of its own clock",
        )
    if nodes or system:
        raise ConfigError(
            f"{runs[0]} says itself what its nodes and its system are",
            remedy="leave --nodes and --system out",
        )
    from dstest.logs.of_run import of_run
    from dstest.runner.integrity import finished, intact
    from dstest.store.layout import RunDir

    run = RunDir.open(runs[0])
    if finished(run):
        intact(run)
    return of_run(run.path)


def _loose(paths: Sequence[Path], nodes: str, system: str) -> OfRun:
    from dstest.core import registry
    from dstest.core.protocols import SystemTraits
    from dstest.logs.clocks import Clocks
    from dstest.logs.look import Extra
    from dstest.logs.of_run import OfRun
    from dstest.logs.scene import Scene
    from dstest.logs.sources import sources_of
    from dstest.logs.windows import Windows

    traits = SystemTraits.of(registry.load("systems", system)) if system else SystemTraits()
    sources = sources_of(paths)
    named = [name.strip() for name in nodes.split(",") if name.strip()]
    if nodes and not named:
        raise ConfigError(f"--nodes {nodes!r} names nobody", remedy="--nodes n1,n2,n3")
    declared = named or sorted({source.node for source in sources})
    unknown = Windows([], known=False)
    scene = Scene(declared, unknown, {}, named=bool(named), harmless=traits.log_harmless)
    return OfRun(
        sources=sources,
        scene=scene,
        clocks=Clocks(None, {}),
        reader=traits.log_reader,
        extra=Extra(),
        system=system,
        served=frozenset(),
        records=[],
    )


def asked_of(
    of: OfRun, checks: Sequence[type[Check]], node: Sequence[str], since: str, until: str
) -> Asked:
    """Raises ConfigError for a node or a time that there is none of."""
    from dstest.core.near import meant
    from dstest.logs.look import Asked

    for name in node:
        if name not in of.scene.declared:
            raise ConfigError(f"--node {name}: no such node", remedy=meant(name, of.scene.declared))
    if node:
        of.scene.declared = [name for name in of.scene.declared if name in node]
    since_ns, until_ns = _time(of, "--since", since), _time(of, "--until", until)
    if since_ns is not None and until_ns is not None and since_ns > until_ns:
        raise ConfigError(
            f"--since {since} is after --until {until}", remedy="give the earlier first"
        )
    return Asked(checks, frozenset(node), since_ns, until_ns, of.served)


def _time(of: OfRun, flag: str, text: str) -> int | None:
    """On the clock of all lines."""
    from dstest.core.log_stamps import wall_time_ns

    if not text:
        return None
    if _SECONDS.fullmatch(text) and len(text) < 16:
        if of.clocks.origin_ns is None and not of.clocks.exact:
            raise ConfigError(
                f"{flag} {text}: these logs are of no run", remedy=f"{flag} 2026-11-28T12:00:00Z"
            )
        return int(float(text) * 1e9)
    wall_ns = wall_time_ns(text)
    if wall_ns is None:
        raise ConfigError(
            f"{flag} {text} is no time", remedy="seconds of the run, or 2026-11-28T12:00:00Z"
        )
    return wall_ns - (of.clocks.origin_ns or 0)
