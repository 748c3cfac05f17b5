"""Is it a plug-in? What can be seen of one before it is asked for anything: name and members.

Names make directories, and stand in lists with commas: they are plain words in every group.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, get_type_hints

from dstest.core.attributes import require_attributes
from dstest.core.errors import ConfigError
from dstest.core.implements import missing, unfit
from dstest.core.node import Lab
from dstest.core.plugin_options import require_options
from dstest.core.plugin_workload import require_workload
from dstest.core.protocols import (
    Checker,
    CheckerTraits,
    Nemesis,
    NemesisTraits,
    System,
    SystemTraits,
    Workload,
    WorkloadTraits,
)

NAME_CHARS_MAX: Final = 64
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]*")
_HOME: Final = re.compile(r"/opt/[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

_PROTOCOLS: Final[dict[str, type]] = {
    "labs": Lab,
    "systems": System,
    "workloads": Workload,
    "nemeses": Nemesis,
    "checkers": Checker,
}


_TRAITS: Final[dict[str, type]] = {
    "systems": SystemTraits,
    "workloads": WorkloadTraits,
    "nemeses": NemesisTraits,
    "checkers": CheckerTraits,
}

_ASKED_LATER: Final = frozenset({"deployment", "requires"})
"""Whoever does not say these is listed, and refused with the reason where a run is planned."""


def require_name(name: Any, of: str) -> None:
    """Raises ConfigError for what is no name of a plug-in; `of` is where it comes from."""
    if not isinstance(name, str):
        raise ConfigError(f"{of} has no name", remedy='`name = "..."` in its class')
    if not _NAME.fullmatch(name) or len(name) > NAME_CHARS_MAX:
        raise ConfigError(
            f"{of} is called {name!r}, which is no name of a plug-in",
            remedy=f"a to z, 0 to 9, - _ and ., from a letter or digit on, {NAME_CHARS_MAX} at"
            " most",
        )


def require_object(plugin: Any, of: str) -> None:
    """Raises ConfigError for a class, and for what has no name; `of` is where it comes from."""
    if isinstance(plugin, type):
        raise ConfigError(
            f"{of} is the class {plugin.__name__}, not an object of it",
            remedy=f"`{plugin.__name__}()` instead of `{plugin.__name__}`",
        )
    require_name(getattr(plugin, "name", None), of)


def require_plugin(group: str, plugin: Any, of: str) -> None:
    """Raises ConfigError where this is no plug-in of the group."""
    require_object(plugin, of)
    protocol = _PROTOCOLS[group]
    lacking = [name for name in missing(plugin, protocol) if name not in _ASKED_LATER]
    uncallable = [said for said in unfit(type(plugin), protocol) if " " in said]
    if lacking or uncallable:
        raise ConfigError(
            f"{of} lacks {', '.join([*lacking, *uncallable])}",
            remedy=f"a {protocol.__name__.lower()} has all of them (dstest/core/protocols);"
            " `dstest new` writes such files",
        )
    wanted = _wanted(group, plugin)
    require_attributes(plugin, wanted, of)
    if "options" in wanted:
        # What `dstest check` is not told is None.
        require_options(plugin.options, of, may_be_open=group == "checkers")
    if group in _FURTHER:
        _FURTHER[group](plugin, of)


def _wanted(group: str, plugin: Any) -> dict[str, Any]:
    """Types by name of what this plug-in has to say, and of what it says besides."""
    traits = get_type_hints(_TRAITS[group]) if group in _TRAITS else {}
    declared = {name: kind for name, kind in traits.items() if hasattr(plugin, name)}
    hints = get_type_hints(_PROTOCOLS[group])
    return declared | {name: kind for name, kind in hints.items() if name not in _ASKED_LATER}


def _require_system(system: Any, of: str) -> None:
    if odd := [home for home in SystemTraits.of(system).homes if not _HOME.fullmatch(home)]:
        raise ConfigError(
            f"{of}: its homes have {', '.join(map(repr, odd))}",
            remedy="/opt/NAME, a directory of its own: a release of adopted machines removes it",
        )
    most = SystemTraits.of(system).members_most
    if most is not None and most < 1:
        raise ConfigError(f"{of}: its members_most is {most}", remedy="1 or more, or None")
    unlisted = sorted({*SystemTraits.of(system).conflict_errors} - {*system.definite_errors})
    if unlisted:
        raise ConfigError(
            f"{of}: its conflict_errors have {', '.join(unlisted)}, its definite_errors have not",
            remedy="what lost a race had no effect: list it in definite_errors, with its source",
        )


def _require_models(checker: Any, of: str) -> None:
    if not checker.models or not all(checker.models):
        raise ConfigError(
            f"{of} knows no model", remedy='`models = ("...",)`, the names of what it can judge by'
        )


_FURTHER: Final[dict[str, Callable[[Any, str], None]]] = {
    "systems": _require_system,
    "workloads": require_workload,
    "checkers": _require_models,
}
"""What is asked of a group whose attributes are of their types; the text says where it is from."""
