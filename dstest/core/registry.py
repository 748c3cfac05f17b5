"""Plug-ins: by entry point, where the built-ins register the same way as anybody's, and from files
of the user's own, with no package.

Groups: `dstest.labs`, `dstest.systems`, `dstest.workloads`, `dstest.nemeses`, `dstest.checkers`.
`DSTEST_NO_PLUGINS=1` keeps to our own distribution. A file names what it offers by one of these
words at its top level: `SYSTEM`, `WORKLOAD`, `NEMESIS`, `CHECKER`, `LAB`; or it is one by a class
that says so (`offered_by`), as a specification does. Which files are used is part of the
environment, as installed packages are, so that the processes which a run starts find the same
plug-ins.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import math
import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.near import ELSEWHERE
from dstest.core.protocols import Option
from dstest.core.recordable import why_not

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "FILES",
    "GROUPS",
    "WORDS",
    "check_digests",
    "digests",
    "error_line",
    "files_in_use",
    "hint",
    "known",
    "load",
    "look_again",
    "module_at",
    "named_in",
    "names",
    "offered",
    "parse_options",
    "place_of",
    "plugin_in",
    "require",
    "unchanged",
    "use",
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


def files_in_use() -> list[Path]:
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
        others = [p for p in files_in_use() if p != path]
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
    found = {**_by_classes(module, bool(found)), **found}
    for group, plugin in found.items():
        require_plugin(group, plugin, f"{path}: {WORDS[group]}")
    return found


def _by_classes(module: ModuleType, named: bool) -> dict[str, Any]:
    """What the classes of a file make of it: of those that have `offered_by` it says, of the
    module, by group which plug-ins the file is without naming them. Where the file names some
    (`named`), it need not be any other. Raises ConfigError."""
    ways = {
        way: None
        for value in vars(module).values()
        if isinstance(value, type)
        and value.__module__ == module.__name__
        and (way := getattr(value, "offered_by", None)) is not None
    }
    found: dict[str, Any] = {}
    for way in ways:
        try:
            found |= way(module)
        except ConfigError:
            if not named:
                raise
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
        ours = error if isinstance(error, ConfigError) else None
        said = ours.message if ours else f"{type(error).__name__}: {error}"
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        place = f"{path}, line {frames[-1].lineno}" if frames else str(path)
        raise ConfigError(
            f"{place}: {said}",
            remedy=(ours and ours.remedy) or "the file must run by itself: python3 FILE",
        ) from None
    return module


def place_of(error: BaseException) -> str:
    """`FILE, line N` where the error came up: in the last file in use that it went through, or
    where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    own = {str(path) for path in files_in_use()}
    last = next((frame for frame in reversed(frames) if frame.filename in own), None)
    if last is None and frames:
        last = frames[-1]
    return f"{last.filename}, line {last.lineno}" if last else "no known line"


def error_line(error: BaseException) -> str:
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
    absent = [path for path in paths if Path(path) not in files_in_use()]
    if absent:
        asked = os.pathsep.join([*map(str, files_in_use()), *absent])
        raise ConfigError(
            f"plug-ins of {', '.join(absent)} are asked for",
            remedy=f"if you trust what is there: {FILES}={shlex.quote(asked)} before the command",
        )


def check_digests(wanted: Mapping[str, str], copies: Path) -> None:
    """Raises ConfigError where a file that a run was made with is not in use, as it was.

    `copies` is where the run keeps its own, for whoever trusts the run and has changed the file.
    """
    at_hand = digests(files_in_use()).values()
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
    return tuple(p for p, digest in digests(files_in_use()).items() if digest in wanted.values())


def _is(path: Path, digest: str) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == digest
    except OSError:
        return False


_WITHOUT: Final = "uninstall it, or set DSTEST_NO_PLUGINS=1"

GROUPS = ("labs", "systems", "workloads", "nemeses", "checkers")


class _Point(msgspec.Struct, frozen=True):
    """Where a plug-in is to be had: the `origin` is what a message calls it."""

    origin: str
    load: Callable[[], Any]


@cache
def _registered(group: str, path: tuple[str, ...]) -> tuple[tuple[bool, EntryPoint], ...]:
    """(whether it is ours, entry point). `path` is `sys.path`: to look there takes a tenth of a
    second, since the metadata of every installed distribution are read."""
    from importlib.metadata import entry_points

    return tuple(
        (point.dist is not None and point.dist.name == "dstest", point)
        for point in entry_points(group=f"dstest.{group}")
    )


def look_again() -> None:
    """For whoever installs a plug-in while this process runs."""
    _registered.cache_clear()


def _installed(group: str) -> list[tuple[str, _Point]]:
    all_of_them = os.environ.get("DSTEST_NO_PLUGINS") != "1"
    return [
        (point.name, _Point(point.value, point.load if ours else partial(_shipped, group, point)))
        for ours, point in _registered(group, tuple(sys.path))
        if ours or all_of_them
    ]


def _shipped(group: str, point: EntryPoint) -> Any:
    """What somebody else's distribution brings. Raises ConfigError where that is no plug-in."""
    from dstest.core.plugin_shape import require_plugin

    of = f"{point.value}, an installed plug-in of dstest.{group},"
    try:
        plugin = point.load()
    except (Exception, SystemExit) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{of} cannot be loaded: {error_line(error)}", remedy=_WITHOUT) from None
    require_plugin(group, plugin, of)
    if plugin.name != point.name:
        raise ConfigError(f"{of} calls itself {plugin.name!r}, not {point.name!r}", remedy=_WITHOUT)
    return plugin


def _of_files(group: str) -> list[tuple[str, _Point]]:
    points = []
    for path in files_in_use():
        plugin = offered(path).get(group)
        if plugin is not None:
            points.append(
                (
                    plugin.name,
                    _Point(str(path), partial(offered(path).__getitem__, group)),
                )
            )
    return points


def _points(group: str) -> dict[str, _Point]:
    from dstest.core.plugin_shape import require_name

    points: dict[str, _Point] = {}
    for name, point in [*_installed(group), *_of_files(group)]:
        if name in points and points[name].origin != point.origin:
            raise ConfigError(
                f"two plug-ins call themselves {name!r} in dstest.{group}: "
                f"{points[name].origin} and {point.origin}",
                remedy="rename one of them, uninstall one, or set DSTEST_NO_PLUGINS=1",
            )
        if name not in points:
            require_name(name, f"{point.origin}, a plug-in of dstest.{group},")
        points[name] = point
    return points


def names(group: str, *, ours: bool = False) -> list[str]:
    """Names registered in a group, sorted; of `ours` those that this distribution brings."""
    if ours:
        return sorted(p.name for mine, p in _registered(group, tuple(sys.path)) if mine)
    return sorted(_points(group))


def load(group: str, name: str) -> Any:
    """The plug-in called `name`. Raises ConfigError with the nearest names where there is none."""
    points = _points(group)
    if name not in points:
        near = [point for point in sorted(points) if point.startswith(f"{name}-")]
        if ELSEWHERE.get(name) in points:
            near = [ELSEWHERE[name]]
        near = near or difflib.get_close_matches(name, points, n=3)
        likely = (
            f"did you mean {' or '.join(near)}?" if near else f"one of: {', '.join(sorted(points))}"
        )
        kinds = {"workloads": "workload", "checkers": "checker", "nemeses": "nemesis"}
        others = [
            kind for other, kind in kinds.items() if other != group and name in _points(other)
        ]
        likely = "".join(f"it is a {kind}: --{kind} {name}; " for kind in others) + likely
        kind = kinds.get(group, group[:-1])
        raise ConfigError(f"no {kind} called {name!r}", remedy=f"{likely}; {hint(group, name)}")
    return points[name].load()


def known(group: str, name: object) -> Any:
    """As `load`, of a name in a record, which may have outlived its plug-in, or have none: then the
    base of the group, which says what holds for all."""
    from dstest.core.plugin_shape import BASES

    try:
        return load(group, name if isinstance(name, str) else "")
    except ConfigError:
        return BASES[group]()


def _typed(key: str, text: str, option: Option) -> Any:
    try:
        if option.type is bool:
            value: Any = {
                "true": True,
                "1": True,
                "yes": True,
                "false": False,
                "0": False,
                "no": False,
            }[text.lower()]
        else:
            value = option.type(text)
    except (ValueError, KeyError, TypeError):
        raise ConfigError(
            f"-o {key}={text}: not a {option.type.__name__}", remedy=f"{key}: {option.help}"
        ) from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"-o {key}={text}: not a finite number", remedy=f"{key}: {option.help}")
    if value is None or why_not(value):
        raise ConfigError(
            f"-o {key}={text!r}: it cannot be written down",
            remedy=f"whole characters, numbers of 64 bits; {key}: {option.help}",
        )
    low = option.least is not None and value < option.least
    if low or (option.most is not None and value > option.most):
        raise ConfigError(
            f"-o {key}={text}: out of range", remedy=f"{key} is {_range(option)}: {option.help}"
        )
    if option.pattern and not re.fullmatch(option.pattern, text):
        raise ConfigError(f"-o {key}={text}: not what it may be", remedy=f"{key}: {option.help}")
    if option.flaw is not None and (flaw := option.flaw(value)):
        raise ConfigError(f"-o {key}={text}: {flaw}", remedy=f"{key}: {option.help}")
    if option.choices and value not in option.choices:
        allowed = ", ".join(map(str, option.choices))
        near = difflib.get_close_matches(text, map(str, option.choices), n=1)
        hint = f"did you mean {key}={near[0]}? " if near else ""
        raise ConfigError(
            f"-o {key}={text}: not allowed", remedy=f"{hint}{key} is one of: {allowed}"
        )
    return value


def _range(option: Option) -> str:
    if option.most is None:
        return f"{option.least:,g} or more"
    return (
        f"at most {option.most:,g}"
        if option.least is None
        else (f"from {option.least:,g} to {option.most:,g}")
    )


def parse_options(
    pairs: list[str],
    declared: Mapping[str, Option],
    of: str = "this system, workload and nemesis",
) -> dict[str, Any]:
    """Typed values of all declared options, `pairs` (`key=value`) overriding the defaults.

    `of` is whose options they are, for the message about one that is not. Plug-ins that mean
    different things by one key declare it apart, as `OWNER.key`.
    """
    values = {key: option.default for key, option in declared.items()}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise ConfigError(
                f"-o {pair}: not of the form key=value", remedy="for example -o keys=5"
            )
        if key not in declared:
            apart = [name for name in declared if name.endswith(f".{key}")]
            if apart:
                owners = [name.removesuffix(f".{key}") for name in apart]
                raise ConfigError(
                    f"-o {key}: {' and '.join(owners)} mean different things by it",
                    remedy=" and ".join(f"-o {name}={text}" for name in apart)
                    + ", each with its own value",
                )
            near = difflib.get_close_matches(key, declared, n=1)
            known = ", ".join(sorted(declared)) or "none"
            raise ConfigError(
                f"-o {key}: no such option for {of}",
                remedy=(f"did you mean {near[0]}? " if near else "") + f"known: {known}",
            )
        values[key] = _typed(key, text, declared[key])
    return values
