"""Is it a plug-in, and one that a run can use? Looked at once, where it is loaded: its base, its
name, the types of its attributes, and whether anybody can judge what a workload does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from dstest.core.check import CATEGORIES, FAMILIES, NOTHINGS
from dstest.core.errors import ConfigError
from dstest.core.implements import misfit, named, unwritten
from dstest.core.protocols import Checker, Lab, Nemesis, System, SystemLogs, Workload

FINAL_S_MAX: Final = 3600.0
NAME_CHARS_MAX: Final = 64

_KEY: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]*")
_HOME: Final = re.compile(r"/opt/[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

BASES: Final[Mapping[str, type]] = {
    "labs": Lab,
    "systems": System,
    "workloads": Workload,
    "nemeses": Nemesis,
    "checkers": Checker,
}
"""By group of plug-ins."""

_ASKED_LATER: Final = frozenset({"deployment", "requires"})
"""Whoever does not say these is listed, and refused with the reason where a run is planned."""


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


def require_plugin(group: str, plugin: Any, of: str) -> None:
    """Raises ConfigError where this is no plug-in of the group; `of` is where it comes from."""
    base = BASES[group]
    if isinstance(plugin, type):
        raise ConfigError(
            f"{of} is the class {plugin.__name__}, not an object of it",
            remedy=f"`{plugin.__name__}()` instead of `{plugin.__name__}`",
        )
    if not isinstance(plugin, base):
        kind, name = type(plugin).__name__, base.__name__
        raise ConfigError(
            f"{of} is a {kind}, which is no {name}",
            remedy=f"`from dstest.core.protocols import {name}` and `class {kind}({name})`",
        )
    require_name(getattr(plugin, "name", None), of)
    if lacking := [name for name in unwritten(plugin, base) if name not in _ASKED_LATER]:
        raise ConfigError(
            f"{of} lacks {', '.join(lacking)}",
            remedy=f"`{base.__name__}` in dstest/core/protocols says what each is;"
            " `dstest new` writes such files",
        )
    if odd := misfit(plugin, base, _ASKED_LATER):
        name, value, wanted = odd
        raise ConfigError(f"{of}: its {name} is {value!r:.200}", remedy=f"{name}: {named(wanted)}")
    for said, remedy in _FURTHER[group](plugin):
        raise ConfigError(f"{of} {said}", remedy=remedy)


Problems = Iterator[tuple[str, str]]
"""(what is wrong, what to do about it)."""


def _options(plugin: System | Workload | Nemesis | Checker) -> Problems:
    for key, option in plugin.options.items():
        if not _KEY.fullmatch(key):
            remedy = "letters, digits, _ - and . in its name, as in -o my_keys=5"
            yield f"has an option {key!r}, which nobody could give", remedy
        if option.default is None and not isinstance(plugin, Checker):
            yield f"has an option {key!r} without a default", "a default of its `type`"


_MOVED: Final[Mapping[str, str]] = {
    **{f"log_{name}": f"logs = SystemLogs({name}=..)" for name in SystemLogs.__struct_fields__},
    "effects": "journals = Journals(effects=..)",
    "span_file": "journals = Journals(spans=..)",
    "records": "journals = Journals(protocol=..)",
}
"""Attributes of a system that nobody asks for any more, each with what has taken its place."""


def _system(system: System) -> Problems:
    if old := {name: now for name, now in _MOVED.items() if hasattr(system, name)}:
        said = f"has {', '.join(old)}, which nobody reads any more"
        yield said, f"`{'`, `'.join(dict.fromkeys(old.values()))}`, of dstest.core.protocols"
    yield from _options(system)
    if odd := [home for home in system.homes if not _HOME.fullmatch(home)]:
        remedy = "/opt/NAME, a directory of its own: a release of adopted machines removes it"
        yield f"has homes {', '.join(map(repr, odd))}", remedy
    if system.members_most is not None and system.members_most < 1:
        yield f"has members_most {system.members_most}", "1 or more, or None"
    if unlisted := sorted(system.conflict_errors - {*system.definite_errors}):
        remedy = "what lost a race had no effect: list it in definite_errors, with its source"
        yield f"has {', '.join(unlisted)} in conflict_errors alone", remedy


def _workload(work: Workload) -> Problems:
    """Where no run of it could be judged as it asks."""
    yield from _options(work)
    if not work.checkers or not all(work.checkers):
        remedy = '`checkers = ("...",)` in its class; `dstest list` has their names'
        yield "names no checker", remedy
    if not work.model:
        yield "names no model", '`model = "..."` in its class, one that its checkers know'
    unknown = sorted({*work.claims} - CATEGORIES)
    if unknown or not work.claims:
        remedy = f"`claims` of {', '.join(sorted(CATEGORIES))}"
        yield f"claims {', '.join(unknown) or 'nothing'}", remedy
    if not work.op_types:
        yield "has no types of operation", "`op_types = frozenset({...})`, all that it asks for"
    for kind, least in work.minimum.items():
        if kind not in work.op_types or least < 0:
            remedy = f"0 or more of {', '.join(sorted(work.op_types))}"
            yield f"with its minimum asks for {least} {kind}", remedy
    if not 0 < work.final_s <= FINAL_S_MAX:
        said = f"says that its final phase may take {work.final_s:g} s"
        yield said, f"`final_s` above 0 and at most {FINAL_S_MAX:g}"
    yield from _fields(work)


def _fields(work: Workload) -> Problems:
    fields = work.fields
    if fields.family and fields.family not in FAMILIES:
        said = f"says that its fields are of family {fields.family!r}"
        yield said, f"one of {', '.join(sorted(FAMILIES))}, or none"
    if fields.ttl_option and fields.ttl_option not in work.options:
        said = f"has fields whose ttl_option {fields.ttl_option!r} is none of its options"
        yield said, "declare it in `options`"
    if odd := sorted({*fields.nothing.values()} - {*NOTHINGS}):
        yield f"has fields whose nothing is {', '.join(odd)}", f"one of {', '.join(NOTHINGS)}"


def _checker(checker: Checker) -> Problems:
    yield from _options(checker)
    if not checker.models or not all(checker.models):
        yield "knows no model", '`models = ("...",)`, the names of what it can judge by'


_FURTHER: Final[Mapping[str, Callable[[Any], Problems]]] = {
    "labs": lambda lab: iter(()),
    "systems": _system,
    "workloads": _workload,
    "nemeses": _options,
    "checkers": _checker,
}
"""What is asked of a group whose attributes are of their types."""
