"""A command of dstest as a process of its own (it heals, seals and ends when its parent dies), what
it left (run and session directories, their verdicts), and whether a run is one of a command: all
that the command says, and its defaults, against what the run has recorded of itself.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from dstest.campaign.session_check import reread
from dstest.core import registry
from dstest.core.builds import build_of, builds_of
from dstest.core.errors import ConfigError
from dstest.core.processes import ending_with_parent
from dstest.core.run_record import RunMeta, RunSpec
from dstest.core.run_words import FLAGS, SWITCHES
from dstest.core.verdict import State
from dstest.history.layout import RunDir
from dstest.runner.integrity import is_finished, verify_run
from dstest.runner.session_file import SessionDir, is_session

_NAMES: Final = ("system", "workload", "nemesis")
"""Fields of a run's spec that name plug-ins."""

_VALUES: Final = ("model", "concurrency", "rate")
"""Fields that have their default where the command says nothing."""

_AMONG: Final = ("nodes", "time_limit_s", "seed")
"""Fields of which a session may be given several values; else a tier or chance has chosen."""

_FILES: Final = ("--plugin", "--system", "--workload", "--nemesis", "--checker")
"""Flags that may name files of the user's own."""

DSTEST: Final = (sys.executable, "-P", "-m", "dstest")
"""-P: a file of the current directory must not be taken for a module of ours."""


def differences(meta: RunMeta, command: Sequence[str]) -> list[str]:
    """What of the run is otherwise than this command says, in words; nothing without a command."""
    if not command:
        return []
    pairs = list(itertools.pairwise(command))
    given = {flag: [value for word, value in pairs if word == flag] for flag, _ in pairs}
    said = {field: (FLAGS[field] in command) is value for field, value in SWITCHES.items()}
    return list(_differences(meta, given, said))


def _differences(
    meta: RunMeta, given: Mapping[str, Sequence[str]], switches: Mapping[str, bool]
) -> Iterator[str]:
    spec, usual = meta.spec, RunSpec()
    for field in _NAMES:
        if not all(_names(value, spec.get(field)) for value in given.get(FLAGS[field], ())):
            yield field
    for field in _VALUES:
        words = given.get(FLAGS[field], ())
        wanted = words[-1] if words else _usual(field, usual, given.get("--lab", ()))
        if _number(wanted) != _number(spec.get(field)):
            yield field
    for field in _AMONG:
        words = given.get(FLAGS[field], ())
        values = [_number(part) for word in words for part in word.split(",")]
        if values and _number(spec.get(field)) not in values and not _counted(field, given):
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
    for field, said in switches.items():
        if spec.get(field, getattr(usual, field)) is not said:
            yield field.replace("_", "-")
    if spec.get("schedule") is not None or given.get("--schedule"):
        yield "schedule"  # a path does not tell which faults are in its file


def _usual(field: str, usual: RunSpec, lab: Sequence[str]) -> Any:
    """What a field is where nothing is said; a lab may have a rate of its own."""
    if field == "rate" and lab and lab[-1] in registry.names("labs"):
        own = registry.load("labs", lab[-1]).rate
        return usual.rate if own is None else own
    return getattr(usual, field)


def _counted(field: str, given: Mapping[str, Sequence[str]]) -> bool:
    """Are there more seeds than the one that is named? They follow from it."""
    counts = [int(word) for word in given.get("--seeds", ()) if word.isdecimal()]
    return field == "seed" and any(count > 1 for count in counts)


def _other_files(meta: RunMeta, given: Mapping[str, Sequence[str]]) -> list[str]:
    """Files that the command names and the run was not made with, as they are now. One that has
    gone is known by its name alone."""
    words = [part for flag in _FILES for word in given.get(flag, ()) for part in word.split(",")]
    named = {Path(word) for word in words if word.endswith(".py")}
    known = {Path(path).name: digest for path, digest in (meta.plugin_files or {}).items()}
    now = {path.name: registry.digests([path])[str(path)] for path in named if path.is_file()}
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


_TAIL_BYTES: Final = 4000
_SAID_MAX: Final = 500


def start(
    argv: Sequence[str], log: Path, program: Sequence[str] = DSTEST
) -> subprocess.Popen[bytes]:
    """Start `dstest ARGV`; what it says is added to `log`. It gets SIGTERM when the thread that
    started it ends, at which a run heals and seals. Raises OSError."""
    with log.open("ab") as out:
        out.write(f"$ dstest {' '.join(argv)}\n".encode())
        out.flush()
        return subprocess.Popen(
            [*program, *argv],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=ending_with_parent(signal.SIGTERM),
        )


def last_words(log: Path, exit_code: int | None) -> str:
    """Why the last command of this log left no run, in its own words."""
    with log.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - _TAIL_BYTES))
        lines = file.read().decode(errors="replace").split("$ dstest ")[-1].splitlines()[1:]
    said = [line for line in lines if line.startswith("dstest: ")] or lines[-1:]
    return " ".join(said)[:_SAID_MAX] or f"its command ended with {exit_code}"


def results_in(folder: Path) -> list[Path]:
    """The run and session directories that lie in the store of one step, oldest first."""
    if not folder.is_dir():
        return []
    found = [p for p in folder.glob("*/*") if is_session(p) or (p / "segments").is_dir()]
    return sorted(found, key=lambda path: (path.name, path.stat().st_ctime_ns))


def over(path: Path) -> bool:
    """Was it judged to its end?"""
    if is_session(path):
        return SessionDir.open(path).read().verdict is not None
    return is_finished(RunDir.open(path))


def state_of(path: Path) -> tuple[State, str, str]:
    """The state that the evidence gives, by which rule and why. Raises EvidenceError."""
    if not over(path):
        return State.NOT_RUN, "V01", "it came to no verdict"
    if is_session(path):
        found = reread(path).verdict
        assert found is not None
        rule = next((arm.rule for arm in found.arms if arm.state is found.state), "")
        return found.state, rule, found.reason
    verdict = verify_run(RunDir.open(path)).verdict
    return verdict.verdict, verdict.rule, verdict.reason
