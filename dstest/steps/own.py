"""Is a run one of this command? Everything that the command says, and what it leaves to the
defaults, against what the run has recorded of itself."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from dstest.core import registry
from dstest.core.builds import build_of, builds_of
from dstest.core.errors import ConfigError
from dstest.core.plugin_files import digests
from dstest.core.protocols import LabTraits
from dstest.core.run_meta import RunMeta
from dstest.core.spec import RunSpec

_NAMES: Final = {"--system": "system", "--workload": "workload", "--nemesis": "nemesis"}
"""Flags of plug-ins -> fields of a run's spec."""

_VALUES: Final = {"--model": "model", "--concurrency": "concurrency", "--rate": "rate"}
"""Flags whose absence is a default of the spec."""

_AMONG: Final = {"--nodes": "nodes", "--time-limit": "time_limit_s", "--seed": "seed"}
"""Flags that a session may be given several values of; without them a tier or chance has chosen."""

_FILES: Final = ("--plugin", "--system", "--workload", "--nemesis", "--checker")
"""Flags that may name files of the user's own."""


def differences(meta: RunMeta, command: Sequence[str]) -> list[str]:
    """What of the run is otherwise than this command says, in words; nothing without a command."""
    if not command:
        return []
    pairs = list(itertools.pairwise(command))
    given = {flag: [value for word, value in pairs if word == flag] for flag, _ in pairs}
    stops, samples = "--stop-on-violation" in command, "--no-monitor" not in command
    return list(_differences(meta, given, stops=stops, samples=samples))


def _differences(
    meta: RunMeta, given: Mapping[str, Sequence[str]], *, stops: bool, samples: bool
) -> Iterator[str]:
    spec, usual = meta.spec, RunSpec()
    for flag, field in _NAMES.items():
        if not all(_names(value, spec.get(field)) for value in given.get(flag, ())):
            yield field
    for flag, field in _VALUES.items():
        words = given.get(flag, ())
        wanted = words[-1] if words else _usual(field, usual, given.get("--lab", ()))
        if _number(wanted) != _number(spec.get(field)):
            yield field
    for flag, field in _AMONG.items():
        values = [_number(part) for word in given.get(flag, ()) for part in word.split(",")]
        if values and _number(spec.get(field)) not in values and not _counted(flag, given):
            yield field
    if wrong := _other_files(meta, given):
        yield f"files ({', '.join(wrong)})"
    if given.get("--lab") and spec.get("lab") != given["--lab"][-1]:
        yield "lab"
    if sorted(given.get("-o", ())) != sorted(meta.options_given or ()):
        yield "options"
    if not _all_named(given.get("--checker", ()), spec.get("checkers") or ()):
        yield "checkers"
    if not _same_builds(given.get("--system-version", ()), tuple(spec.get("builds") or ())):
        yield "system-version"
    if bool(spec.get("stop_on_violation")) != stops:
        yield "stop-on-violation"
    if spec.get("monitor", usual.monitor) is not samples:
        yield "monitor"
    if spec.get("schedule") is not None or given.get("--schedule"):
        yield "schedule"  # a path does not tell which faults are in its file


def _usual(field: str, usual: RunSpec, lab: Sequence[str]) -> Any:
    """What a field is where nothing is said; a lab may have a rate of its own."""
    if field == "rate" and lab and lab[-1] in registry.names("labs"):
        own = LabTraits.of(registry.load("labs", lab[-1])).rate
        return usual.rate if own is None else own
    return getattr(usual, field)


def _counted(flag: str, given: Mapping[str, Sequence[str]]) -> bool:
    """Are there more seeds than the one that is named? They follow from it."""
    counts = [int(word) for word in given.get("--seeds", ()) if word.isdecimal()]
    return flag == "--seed" and any(count > 1 for count in counts)


def _other_files(meta: RunMeta, given: Mapping[str, Sequence[str]]) -> list[str]:
    """Files that the command names and the run was not made with, as they are now. One that has
    gone is known by its name alone."""
    words = [part for flag in _FILES for word in given.get(flag, ()) for part in word.split(",")]
    named = {Path(word) for word in words if word.endswith(".py")}
    known = {Path(path).name: digest for path, digest in (meta.plugin_files or {}).items()}
    now = {path.name: digests([path])[str(path)] for path in named if path.is_file()}
    absent = {path.name for path in named} - known.keys()
    return sorted(absent | {name for name, digest in now.items() if known.get(name) != digest})


def _number(value: Any) -> Any:
    """Numbers as numbers, whatever they were written as."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def _names(word: str, plugin: Any) -> bool:
    """Does a word of a command name this plug-in? Which one a file holds is told by the run."""
    if word.endswith(".py"):
        return True
    return [part.strip() for part in word.split(",")] == str(plugin).split(",")


def _all_named(words: Sequence[str], names: Sequence[str]) -> bool:
    plain = [word for word in words if not word.endswith(".py")]
    return {*plain} <= {*names} and len(words) == len(names)


def _same_builds(paths: Sequence[str], builds: tuple[str, ...]) -> bool:
    """By what is in them, wherever a worker has laid them. A build that has gone since then can no
    longer be told from another one at its place."""
    try:
        return [*map(_content, builds_of(paths))] == [*map(_content, builds)]
    except ConfigError:
        return len(paths) == len(builds)


def _content(name: str) -> str:
    build = build_of(name)
    return name if build is None else build.sha256
