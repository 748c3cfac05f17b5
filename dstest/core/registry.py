"""Plug-ins by entry point; the built-ins register the same way as anybody's. Files come besides.

Groups: `dstest.labs`, `dstest.systems`, `dstest.workloads`, `dstest.nemeses`, `dstest.checkers`.
`DSTEST_NO_PLUGINS=1` keeps to our own distribution.
"""

from __future__ import annotations

import difflib
import math
import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import msgspec

from dstest.core import plugin_files
from dstest.core.errors import ConfigError
from dstest.core.near import ELSEWHERE
from dstest.core.protocols import Option
from dstest.core.spec import held

__all__ = ["GROUPS", "load", "look_again", "names", "parse_options"]

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
        require_plugin(group, plugin, of)
        told = plugin.name
    except (Exception, SystemExit) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(
            f"{of} cannot be loaded: {plugin_files.said_of(error)}", remedy=_WITHOUT
        ) from None
    if told != point.name:
        raise ConfigError(f"{of} calls itself {told!r}, not {point.name!r}", remedy=_WITHOUT)
    return plugin


def _of_files(group: str) -> list[tuple[str, _Point]]:
    points = []
    for path in plugin_files.used():
        plugin = plugin_files.offered(path).get(group)
        if plugin is not None:
            points.append(
                (
                    plugin.name,
                    _Point(str(path), partial(plugin_files.offered(path).__getitem__, group)),
                )
            )
    return points


def _found(group: str) -> dict[str, _Point]:
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
    return sorted(_found(group))


def load(group: str, name: str) -> Any:
    """The plug-in called `name`. Raises ConfigError with the nearest names where there is none."""
    points = _found(group)
    if name not in points:
        near = [point for point in sorted(points) if point.startswith(f"{name}-")]
        if ELSEWHERE.get(name) in points:
            near = [ELSEWHERE[name]]
        near = near or difflib.get_close_matches(name, points, n=3)
        hint = (
            f"did you mean {' or '.join(near)}?" if near else f"one of: {', '.join(sorted(points))}"
        )
        kinds = {"workloads": "workload", "checkers": "checker", "nemeses": "nemesis"}
        others = [kind for other, kind in kinds.items() if other != group and name in _found(other)]
        hint = "".join(f"it is a {kind}: --{kind} {name}; " for kind in others) + hint
        kind = kinds.get(group, group[:-1])
        raise ConfigError(
            f"no {kind} called {name!r}", remedy=f"{hint}; {plugin_files.hint(group, name)}"
        )
    return points[name].load()


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
    if not held(value):
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
