"""Is it a plug-in? What can be seen of one before it is asked for anything: name and members.

Names make directories, and stand in lists with commas: they are plain words in every group.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from dstest.core.errors import ConfigError
from dstest.core.implements import missing, unfit
from dstest.core.node import Lab
from dstest.core.protocols import (
    Checker,
    CheckerTraits,
    Nemesis,
    NemesisTraits,
    System,
    SystemTraits,
    Workload,
)

__all__ = ["NAME_CHARS_MAX", "require_name", "require_object", "require_plugin"]

NAME_CHARS_MAX: Final = 64
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]*")

_PROTOCOLS: Final[dict[str, type]] = {
    "labs": Lab,
    "systems": System,
    "workloads": Workload,
    "nemeses": Nemesis,
    "checkers": Checker,
}


_TRAITS: Final[dict[str, type]] = {
    "systems": SystemTraits,
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
    attributes = {n: w for n, w in get_type_hints(protocol).items() if n not in _ASKED_LATER}
    traits = get_type_hints(_TRAITS[group]) if group in _TRAITS else {}
    declared = {name: wanted for name, wanted in traits.items() if hasattr(plugin, name)}
    for name, wanted in {**declared, **attributes}.items():
        value = getattr(plugin, name, None)
        if not _fits(value, wanted):
            raise ConfigError(
                f"{of}: its {name} is {value!r}"[:200], remedy=f"{name} is {_words(wanted)}"
            )
    if group == "systems":
        _require_definite(plugin, of)


def _require_definite(system: Any, of: str) -> None:
    unlisted = sorted({*SystemTraits.of(system).conflict_errors} - {*system.definite_errors})
    if unlisted:
        raise ConfigError(
            f"{of}: its conflict_errors have {', '.join(unlisted)}, its definite_errors have not",
            remedy="what lost a race had no effect: list it in definite_errors, with its source",
        )


def _fits(value: Any, wanted: Any) -> bool:
    """As far as a wrong value would be noticed much later, and far away."""
    origin = get_origin(wanted) or wanted
    if wanted is Any:
        return True
    if origin is Literal:
        return value in get_args(wanted)
    if origin not in (tuple, frozenset):
        return isinstance(value, origin)
    many = isinstance(value, Collection) and not isinstance(value, str | Mapping)
    return many and all(isinstance(one, get_args(wanted)[0]) for one in value)


def _words(wanted: Any) -> str:
    origin = get_origin(wanted)
    if origin is Literal:
        return f"one of {', '.join(repr(value) for value in get_args(wanted))}"
    if origin is None:
        return "text" if wanted is str else f"a {wanted.__name__}"
    return "a mapping" if origin not in (tuple, frozenset) else f"a {origin.__name__} of texts"
