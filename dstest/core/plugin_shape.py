"""Is it a plug-in, and one that a run can use? Looked at where it is loaded, before it is asked for
anything: its name and members, its options, and whether anybody can judge what a workload does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, get_type_hints

from dstest.core.check import CATEGORIES, FAMILIES, NOTHINGS, Fields
from dstest.core.errors import ConfigError
from dstest.core.implements import fits, missing, require_attributes, unfit
from dstest.core.node import Lab
from dstest.core.protocols import (
    Checker,
    CheckerTraits,
    Nemesis,
    NemesisTraits,
    Option,
    System,
    SystemTraits,
    Workload,
    WorkloadTraits,
)
from dstest.core.recordable import why_not

_KEY: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_TYPES: Final = (str, int, float, bool, list, tuple, dict)
_NUMBER: Final = float | None
_SHAPE: Final[dict[str, Any]] = {
    "help": str,
    "choices": tuple[Any, ...],
    "least": _NUMBER,
    "most": _NUMBER,
    "pattern": str,
    "names_nodes": bool,
    "names_service": bool,
}

FINAL_S_MAX: Final = 3600.0

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


def require_options(options: Mapping[str, Option], of: str, *, may_be_open: bool) -> None:
    """Raises ConfigError for an option that cannot be given, or whose default is not its own.

    With `may_be_open` a default of None is one that is not there. `of` is where they come from.
    """
    for key, option in options.items():
        where = f"{of}: option {key!r}"
        require_attributes(option, _SHAPE, where)
        for said, remedy in _problems(key, option, may_be_open):
            raise ConfigError(f"{where}: {said}", remedy=remedy)


def _problems(key: str, option: Option, may_be_open: bool) -> Iterator[tuple[str, str]]:
    """(what is wrong, what to do about it)."""
    if not _KEY.fullmatch(key):
        yield "nobody could give it", "letters, digits, _ - and . in its name, as in -o my_keys=5"
    if option.type not in _TYPES:
        names = ", ".join(kind.__name__ for kind in _TYPES)
        yield f"its type is {option.type!r}", f"type= one of {names}"
    kind = option.type
    ranged = option.least is not None or option.most is not None
    if ranged and kind not in (int, float):
        yield "it has a range, and is no number", "leave least and most out, or type=float"
    if option.pattern and (kind is not str or not _compiles(option.pattern)):
        yield "it has a pattern that no text can match", "a regular expression, and type=str"
    for choice in option.choices:
        if not fits(choice, kind):
            yield f"its choices have {choice!r}, which is no {kind.__name__}", "one type for all"
    if option.default is not None or not may_be_open:
        yield from _of_default(option)


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def _of_default(option: Option) -> Iterator[tuple[str, str]]:
    default, name = option.default, option.type.__name__
    if not fits(default, option.type):
        yield (
            f"its default is {default!r}, which is no {name}",
            f"a default that is a {name}, or another `type`",
        )
    if default is None or why_not(default):
        yield (
            "JSON cannot hold its default, and a run keeps it so",
            "finite numbers of 64 bits, whole characters, lists, and tables by text; no None",
        )
    low = option.least is not None and not default >= option.least
    if low or (option.most is not None and not default <= option.most):
        yield f"its default {default!r} is out of range", "a default from `least` to `most`"
    if option.choices and default not in option.choices:
        yield f"its default {default!r} is none of its choices", "one of `choices` as default"


def require_workload(work: Workload, of: str) -> None:
    """Raises ConfigError where no run of it could be judged as it asks; `of` is where it is from.

    Its attributes are of their types.
    """
    require_attributes(work.fields, get_type_hints(Fields), f"{of}: its fields")
    for problems in (_judges(work), _counts(work), _fields(work), _final(work)):
        for said, remedy in problems:
            raise ConfigError(f"{of} {said}", remedy=remedy)


def _judges(work: Workload) -> Iterator[tuple[str, str]]:
    """(what is wrong, what to do about it), as in the others."""
    if not work.checkers or not all(work.checkers):
        yield (
            "names no checker",
            '`checkers = ("...",)` in its class; `dstest list` has their names',
        )
    if not work.model:
        yield "names no model", '`model = "..."` in its class, one that its checkers know'
    unknown = sorted({*work.claims} - CATEGORIES)
    if unknown or not work.claims:
        said = f"claims {', '.join(unknown) or 'nothing'}"
        yield said, f"`claims` of {', '.join(sorted(CATEGORIES))}"


def _counts(work: Workload) -> Iterator[tuple[str, str]]:
    if not work.op_types:
        yield "has no types of operation", "`op_types = frozenset({...})`, all that it asks for"
    known = ", ".join(sorted(work.op_types))
    for kind, least in work.minimum.items():
        if kind not in work.op_types:
            said = f"with its minimum asks for {kind}, which is no type of its operations"
            yield said, f"its op_types are {known}"
        if least < 0:
            yield f"with its minimum asks for {least} {kind}", "0 or more"


def _final(work: Workload) -> Iterator[tuple[str, str]]:
    final_s = WorkloadTraits.of(work).final_s
    if not 0 < final_s <= FINAL_S_MAX:
        said = f"says that its final phase may take {final_s:g} s"
        yield said, f"`final_s` above 0 and at most {FINAL_S_MAX:g}"


def _fields(work: Workload) -> Iterator[tuple[str, str]]:
    fields = work.fields
    if fields.family and fields.family not in FAMILIES:
        said = f"says that its fields are of family {fields.family!r}"
        yield said, f"one of {', '.join(sorted(FAMILIES))}, or none"
    if fields.ttl_option and fields.ttl_option not in work.options:
        said = f"has fields whose ttl_option {fields.ttl_option!r} is none of its options"
        yield said, "declare it in `options`"
    for op_type, kind in fields.nothing.items():
        if kind not in NOTHINGS:
            yield (
                f"has fields: its nothing of {op_type} is {kind!r}",
                f"one of {', '.join(NOTHINGS)}",
            )


def require_name(name: Any, of: str) -> None:
    """Raises ConfigError for what is no name of a plug-in; `of` is where it comes from.

    Names make directories, and stand in lists with commas: they are plain words in every group.
    """
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
