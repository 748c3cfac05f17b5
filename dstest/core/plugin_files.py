"""Plug-ins from files of the user's own: no package, no entry point.

A file names what it offers by one of these words at its top level: `SYSTEM`, `WORKLOAD`, `NEMESIS`,
`CHECKER`, `LAB`. Which files are used is part of the environment, as installed packages are, so
that the processes which a run starts find the same plug-ins.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from dstest.core.errors import ConfigError

__all__ = [
    "FILES",
    "WORDS",
    "check_digests",
    "digests",
    "hint",
    "module_at",
    "named_in",
    "offered",
    "place_of",
    "plugin_in",
    "require",
    "said_of",
    "unchanged",
    "use",
    "used",
]

FILES: Final = "DSTEST_FILES"
"""Environment variable: paths of the files in use, separated as in PATH."""

_OPTIONS: Final = {
    "labs": "plugin",
    "systems": "system",
    "workloads": "workload",
    "nemeses": "nemesis",
    "checkers": "plugin",
}
"""Group of plug-ins -> the option of `dstest run` that takes a name or a file."""

WORDS: Final = {
    "labs": "LAB",
    "systems": "SYSTEM",
    "workloads": "WORKLOAD",
    "nemeses": "NEMESIS",
    "checkers": "CHECKER",
}
"""Group of plug-ins -> the word for it in a file."""


def used() -> list[Path]:
    """The files in use, each once."""
    found = os.environ.get(FILES, "").split(os.pathsep)
    return [Path(path).absolute() for path in dict.fromkeys(found) if path]


def use(paths: Iterable[Path | str]) -> None:
    """Use these files from now on, in this process and those that it starts.

    Raises ConfigError where one cannot be read or run, or offers nothing.
    """
    for given in paths:
        path = Path(given).absolute()
        if os.pathsep in str(path):
            raise ConfigError(
                f"{path}: a plug-in's path may hold no {os.pathsep!r}", remedy="move the file"
            )
        if not offered(path):
            raise ConfigError(
                f"{path} offers no plug-in",
                remedy=f"name it at the top level of the file: {', '.join(WORDS.values())}",
            )
        others = [p for p in used() if p != path]
        if any(p.name == path.name for p in others):
            raise ConfigError(
                f"two files of plug-ins are called {path.name}", remedy="rename one of them"
            )
        kept = [str(p) for p in others]
        os.environ[FILES] = os.pathsep.join([*kept, str(path)])


def offered(path: Path) -> dict[str, Any]:
    """Group -> the plug-in of it in this file. Raises ConfigError where the file cannot be run, or
    what it offers is no plug-in."""
    return dict(_offered(module_at(path), path))


@cache
def _offered(module: ModuleType, path: Path) -> Mapping[str, Any]:
    from dstest.core.plugin_shape import require_plugin

    found = {group: vars(module).get(word) for group, word in WORDS.items()}
    found = {group: plugin for group, plugin in found.items() if plugin is not None}
    for group, plugin in found.items():
        try:
            require_plugin(group, plugin, f"{path}: {WORDS[group]}")
        except (Exception, SystemExit) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(
                f"{path}: {WORDS[group]} cannot be looked at: {said_of(error)}",
                remedy="its attributes must be there without anything being done",
            ) from None
    return found


def plugin_in(group: str, path: Path | str) -> str:
    """Use the file; the name of its plug-in of this group. Raises ConfigError without one."""
    use([path])
    plugin = offered(Path(path).absolute()).get(group)
    if plugin is None:
        raise ConfigError(
            f"{path} has no {WORDS[group]}", remedy=f"`{WORDS[group]} = ...` at its top level"
        )
    return str(plugin.name)


def named_in(group: str, given: str) -> str:
    """The names in `a,./b.py,c`, files replaced by the names of their plug-ins, and used."""
    parts = [part.strip() for part in given.split(",")]
    return ",".join(plugin_in(group, part) if part.endswith(".py") else part for part in parts)


def hint(group: str, name: str) -> str:
    """How a plug-in of this name that nobody knows comes from a file, with that file if it lies in
    the current directory."""
    option = _OPTIONS[group]
    here = Path(f"{name.replace('-', '_')}.py")
    if name.isprintable() and os.sep not in name and here.is_file():
        return f"./{here} is a file here: --{option} ./{here}"
    also = ", or --checker FILE.py of `dstest check`" if group == "checkers" else ""
    return f"one of your own: --{option} FILE.py{also}"


@contextmanager
def _beside(path: Path) -> Iterator[None]:
    """The directory of a file, behind all others that are searched: it hides no module of ours."""
    beside = str(path.absolute().parent)
    sys.path.append(beside)
    try:
        yield
    finally:
        # Its own entry is the last one of that name.
        if beside in sys.path:  # the file may have changed it
            del sys.path[len(sys.path) - 1 - sys.path[::-1].index(beside)]


def module_at(path: Path) -> ModuleType:
    """The file as a module, run once in a process however often it is asked for. While it runs it
    finds the files beside it by `import`, as it would by `python3 FILE`, unless a module of that
    name is installed."""
    text = _read(path)
    name = f"dstest_file_{hashlib.sha256(str(path).encode() + text).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise ConfigError(f"{path} is no file of Python", remedy="its name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _beside(path):
            # Not by its loader, which runs what was compiled before of a file of that size and
            # second.
            exec(compile(text, str(path), "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        place = f"{path}, line {frames[-1].lineno}" if frames else str(path)
        raise ConfigError(
            f"{place}: {type(error).__name__}: {error}",
            remedy="the file must run by itself: python3 FILE",
        ) from None
    return module


def place_of(error: BaseException) -> str:
    """`FILE, line N` where the error came up: in the last file in use that it went through, or
    where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    own = {str(path) for path in used()}
    last = next((frame for frame in reversed(frames) if frame.filename in own), None)
    if last is None and frames:
        last = frames[-1]
    return f"{last.filename}, line {last.lineno}" if last else "no known line"


def said_of(error: BaseException) -> str:
    """What was raised and where, in one line."""
    return f"{place_of(error)}: {type(error).__name__}: {error}"


def digests(paths: Iterable[Path | str]) -> dict[str, str]:
    """Path -> SHA-256 of the file, in hex. Raises ConfigError where one cannot be read."""
    return {str(p): hashlib.sha256(_read(Path(p))).hexdigest() for p in paths}


def _read(path: Path) -> bytes:
    try:
        str(path).encode()
        return path.read_bytes()
    except UnicodeEncodeError:
        raise ConfigError(
            f"{str(path)!r} is no UTF-8, and no run could write it down",
            remedy="rename the file, or its directory",
        ) from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", remedy="name a file of Python") from None


def require(paths: Iterable[str]) -> None:
    """Raises ConfigError where one of these files is not in use.

    Files that a run or a session names are never run unasked: it may be anyone's.
    """
    absent = [path for path in paths if Path(path) not in used()]
    if absent:
        asked = os.pathsep.join([*map(str, used()), *absent])
        raise ConfigError(
            f"plug-ins of {', '.join(absent)} are asked for",
            remedy=f"if you trust what is there: {FILES}={shlex.quote(asked)} before the command",
        )


def check_digests(wanted: Mapping[str, str], copies: Path) -> None:
    """Raises ConfigError where a file that a run was made with is not in use, as it was.

    `copies` is where the run keeps its own, for whoever trusts the run and has changed the file.
    """
    at_hand = digests(used()).values()
    absent = [path for path, digest in wanted.items() if digest not in at_hand]
    if absent:
        kept = {path: copies.absolute() / Path(path).name for path in wanted}
        trusted = [
            path if _is(Path(path), digest) else str(kept[path]) for path, digest in wanted.items()
        ]
        raise ConfigError(
            f"the run was made with {', '.join(absent)}, and no such file is in use as it was",
            remedy=f"if you trust them: {FILES}={shlex.quote(os.pathsep.join(trusted))} before the"
            " command",
        )


def unchanged(wanted: Mapping[str, str]) -> tuple[str, ...]:
    """Of the files in use those that a run was made with, wherever they lie now."""
    return tuple(p for p, digest in digests(used()).items() if digest in wanted.values())


def _is(path: Path, digest: str) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == digest
    except OSError:
        return False
